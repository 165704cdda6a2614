//! Target URLs: `scheme://user:password@host:port/path?name=value`, or `scheme:path`.

use std::fmt;

use crate::error::{Error, Result};

#[derive(Clone, Default, PartialEq, Eq)]
pub struct Url {
    pub scheme: String,
    pub user: Option<String>,
    pub password: Option<String>,
    pub host: Option<String>,
    pub port: Option<u16>,
    /// Without the slash in front, except for files.
    pub path: String,
    pub options: Vec<(String, String)>,
}

impl Url {
    pub fn parse(text: &str) -> Result<Url> {
        let wrong = |what: &str| {
            Error::usage(format!(
                "\"{}\" is not a target: {what} (for example postgres://postgres@localhost:5432/postgres, mysql://root@localhost/test, sqlite:/tmp/bench.db)",
                without_password(text)
            ))
        };
        let (scheme, rest) = text.split_once(':').ok_or_else(|| wrong("there is no scheme"))?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Url { scheme: scheme.to_ascii_lowercase(), ..Url::default() };
        for option in query.split('&').filter(|o| !o.is_empty()) {
            let (name, value) = option.split_once('=').ok_or_else(|| wrong("an option has no value"))?;
            url.options.push((decode(name), decode(value)));
        }
        let is_file = matches!(url.scheme.as_str(), "sqlite" | "file" | "noop");
        let Some(rest) = rest.strip_prefix("//").filter(|_| !is_file) else {
            url.path = decode(rest.strip_prefix("//").unwrap_or(rest));
            return if is_file { Ok(url) } else { Err(wrong("// is missing after the scheme")) };
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        url.path = decode(path);
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if let Some(user) = user {
            let (name, password) = user.split_once(':').map_or((user, None), |(n, p)| (n, Some(p)));
            url.user = Some(decode(name));
            url.password = password.map(decode);
        }
        let (host, port) = split_port(host);
        url.host = Some(decode(host)).filter(|h| !h.is_empty());
        url.port = match port {
            Some(port) => Some(port.parse().map_err(|_| wrong("the port is no number"))?),
            None => None,
        };
        Ok(url)
    }

    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().rev().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// An option that nobody knows is an error.
    pub(super) fn check_options(&self, kind: &str, own: &[&str], shared: &[&str]) -> Result<()> {
        let known = [own, shared].concat();
        match self.options.iter().find(|(name, _)| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some((name, _)) => Err(Error::usage(format!(
                "a {kind} target has no option \"{name}\" ({} are there)",
                known.join(", ")
            ))),
        }
    }

    /// `host:port` for messages.
    pub(crate) fn place(&self, default_port: u16) -> String {
        let host = self.option("host").or(self.host.as_deref()).unwrap_or("localhost");
        format!("{host}:{}", self.port.unwrap_or(default_port))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(host) = &self.host else {
            return write!(f, "{}:{}", self.scheme, self.path);
        };
        write!(f, "{}://", self.scheme)?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if host.contains(':') {
            write!(f, "[{host}]")?
        } else {
            write!(f, "{host}")?
        }
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, "/{}", self.path)
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    if let Some((inside, after)) = host.strip_prefix('[').and_then(|h| h.split_once(']')) {
        return (inside, after.strip_prefix(':'));
    }
    host.rsplit_once(':').map_or((host, None), |(host, port)| (host, Some(port)))
}

/// Of all URLs in a list with commas.
pub(crate) fn without_passwords(text: &str) -> String {
    text.split(',').map(without_password).collect::<Vec<_>>().join(",")
}

fn without_password(text: &str) -> String {
    match (text.find("//"), text.rfind('@')) {
        (Some(start), Some(end)) if start + 2 < end => {
            let user = text[start + 2..end].split(':').next().unwrap_or_default();
            format!("{}{user}{}", &text[..start + 2], &text[end..])
        }
        _ => text.to_owned(),
    }
}

/// `%41` is `A`; a `%` without two digits stays.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).filter(|_| byte == b'%').and_then(|d| std::str::from_utf8(d).ok());
        if let Some(code) = code.and_then(|d| u8::from_str_radix(d, 16).ok()) {
            bytes.push(code);
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found() {
        let url = Url::parse("postgres://me:p%40ss@[::1]:7432/db%20x?sslmode=disable").unwrap();
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some("me"), Some("p@ss")));
        assert_eq!((url.host.as_deref(), url.port, url.path.as_str()), (Some("::1"), Some(7432), "db x"));
        assert_eq!(url.option("sslmode"), Some("disable"));
        assert_eq!(url.to_string(), "postgres://me@[::1]:7432/db x");
        assert_eq!(Url::parse("sqlite:/tmp/a.db").unwrap().path, "/tmp/a.db");
        assert_eq!(Url::parse("sqlite:///tmp/a.db").unwrap().path, "/tmp/a.db");
    }

    #[test]
    fn errors_do_not_tell_the_password() {
        let error = Url::parse("postgres://me:secret@host:port/db").unwrap_err().to_string();
        assert!(
            error.contains("postgres://me@host:port/db") && error.contains("port is no number"),
            "{error}"
        );
    }
}
