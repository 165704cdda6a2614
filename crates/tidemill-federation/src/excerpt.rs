//! What a server is asked as people read it, in plans, reports and errors: a long one without its middle.

use std::borrow::Cow;

use crate::connector::RemoteQuery;

/// Bytes that are shown, and those of them that are its end.
const SHOWN_MAX: usize = 4 << 10;
const END: usize = 512;

impl RemoteQuery {
    pub fn excerpt(&self) -> Cow<'_, str> {
        excerpt(&self.sql)
    }
}

/// Of what a server is asked, or says.
pub fn excerpt(sql: &str) -> Cow<'_, str> {
    if sql.len() <= SHOWN_MAX {
        return Cow::Borrowed(sql);
    }
    let (start, end) = (sql.floor_char_boundary(SHOWN_MAX - END), sql.ceil_char_boundary(sql.len() - END));
    Cow::Owned(format!("{} … {} bytes … {}", &sql[..start], end - start, &sql[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_what_is_long_is_left_out() {
        let longest = "x".repeat(SHOWN_MAX);
        assert_eq!(excerpt(&longest), longest);
        let longer = format!("SELECT {} ends", "ü".repeat(SHOWN_MAX));
        let shown = excerpt(&longer);
        assert!(shown.starts_with("SELECT üü") && shown.ends_with("üü ends"), "{shown}");
        assert!(shown.len() < SHOWN_MAX + 40 && shown.contains("ü … 4110 bytes … ü"), "{shown}");
    }
}
