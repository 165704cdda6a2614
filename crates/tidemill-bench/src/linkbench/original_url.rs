//! Where the original's properties say the database is.

use super::settings::Settings;
use crate::error::{Error, Result};
use crate::target::DEFAULT_URL;

const PLACE: [&str; 5] = ["host", "linkstore", "password", "port", "user"];

/// The target that the original's properties name, where its database is always "linkbench"; else the file that all verbs
/// have.
pub fn url_of(settings: &Settings) -> Result<String> {
    let properties = &settings.properties;
    let Some(host) = properties.text("host") else { return Ok(DEFAULT_URL.to_owned()) };
    let store = properties.text("linkstore").unwrap_or("LinkStorePgsql").to_ascii_lowercase();
    let (scheme, port) = match store {
        store if store.contains("pgsql") => ("postgres", 5432),
        store if store.contains("mysql") => ("mysql", 3306),
        store => return Err(Error::usage(format!("there is no store \"{store}\" here: give --target URL"))),
    };
    let port: u16 = properties.or("port", port)?;
    let user = escape(properties.text("user").unwrap_or(scheme));
    let password =
        properties.text("password").map_or(String::new(), |password| format!(":{}", escape(password)));
    Ok(format!("{scheme}://{user}{password}@{host}:{port}/linkbench"))
}

/// What is set and does not say where the database is, because a URL does, or because no host is named.
pub fn place_without_effect(settings: &Settings, has_url: bool) -> Vec<&'static str> {
    let properties = &settings.properties;
    let counts = !has_url && properties.text("host").is_some();
    PLACE.into_iter().filter(|key| !counts && properties.contains(key)).collect()
}

/// For a part of a URL.
fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkbench::settings::Sources;

    #[test]
    fn the_original_s_properties_are_a_target() {
        let define =
            ["host=db", "user=a@b", "password=p:w", "linkstore=com.facebook.LinkBench.LinkStorePgsql"];
        let define = define.map(str::to_owned).to_vec();
        let settings = Sources { define, nodes: Some(10), ..Sources::default() }.settings().unwrap();
        assert_eq!(url_of(&settings).unwrap(), "postgres://a%40b:p%3Aw@db:5432/linkbench");
        assert!(place_without_effect(&settings, false).is_empty());
        assert_eq!(place_without_effect(&settings, true), ["host", "linkstore", "password", "user"]);
        let define = vec!["linkstore=foo.Bar".to_owned()];
        let settings = Sources { define, nodes: Some(10), ..Sources::default() }.settings().unwrap();
        assert_eq!(url_of(&settings).unwrap(), DEFAULT_URL);
        assert_eq!(place_without_effect(&settings, false), ["linkstore"]);
    }
}
