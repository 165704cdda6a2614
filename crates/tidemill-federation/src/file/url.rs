//! Names of files that are elsewhere: in an object store, `s3://bucket/path/file`, or on a web server, `https://host/path/file`.

use std::fmt;

use tidemill_sql::{Result, SqlError, SqlState};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Url {
    /// The key of a folder is empty, or ends with a slash.
    S3 { bucket: String, key: String },
    /// A single file.
    Web(reqwest::Url),
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Url::S3 { bucket, key } => write!(f, "s3://{bucket}/{key}"),
            Url::Web(url) => url.fmt(f),
        }
    }
}

impl Url {
    /// `None`: it is the name of a local file.
    pub fn parse(name: &str) -> Result<Option<Self>> {
        let Some((scheme, rest)) = name.split_once("://") else { return Ok(None) };
        match scheme {
            "s3" => Self::s3(name, rest).map(Some),
            "http" | "https" => Self::web(name).map(Some),
            _ if !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                Err(SqlError::unsupported(format!("files of \"{scheme}://\" are not supported")).with_hint(
                    "\"filename\" is a local file, a folder, a pattern of files, or begins with s3://, https:// or http://.",
                ))
            }
            _ => Ok(None),
        }
    }

    fn s3(name: &str, rest: &str) -> Result<Self> {
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_letter = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        if bucket.is_empty() || !bucket.bytes().all(is_letter) {
            return Err(invalid(format!("\"{name}\" has no valid name of a bucket"))
                .with_hint("A file is s3://bucket/path/file, a folder s3://bucket/path/."));
        }
        Ok(Url::S3 { bucket: bucket.to_string(), key: key.to_string() })
    }

    fn web(name: &str) -> Result<Self> {
        // What may be a password is not shown.
        let url =
            reqwest::Url::parse(name).map_err(|error| invalid(format!("invalid URL of a file: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("the URL of a file has a user or a password before an \"@\"".to_string())
                .with_hint("Web servers are asked without a name."));
        }
        if url.path().ends_with('/') {
            return Err(SqlError::unsupported(format!("\"{url}\" is a folder of a web server"))
                .with_detail("There is no way to ask a web server which files it has.")
                .with_hint("Name a file."));
        }
        Ok(Url::Web(url))
    }

    /// The folder of this name, with or without its slash.
    pub fn folder(self) -> Result<Self> {
        match self {
            Url::S3 { bucket, key } if key.is_empty() || key.ends_with('/') => Ok(Url::S3 { bucket, key }),
            Url::S3 { bucket, key } => Ok(Url::S3 { bucket, key: key + "/" }),
            Url::Web(url) => Err(SqlError::unsupported(format!("\"{url}\" is no folder of an object store"))
                .with_detail("There is no way to ask a web server which files it has.")),
        }
    }

    /// The last part.
    pub fn name(&self) -> &str {
        let path = match self {
            Url::S3 { key, .. } => key,
            Url::Web(url) => url.path(),
        };
        path.rsplit('/').next().unwrap_or_default()
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_elsewhere() {
        let parsed = |name| Url::parse(name).map(|url| url.map(|url| url.to_string()));
        for name in ["/data/a.csv", "a.csv", "://a", "a b://c"] {
            assert_eq!(parsed(name).unwrap(), None, "{name}");
        }
        for name in ["s3://b/", "s3://b/a?*.csv", "s3://b.c/d e/ü.csv", "https://host:1/a%20b.csv?c=d"] {
            assert_eq!(parsed(name).unwrap().as_deref(), Some(name));
        }
        assert_eq!(parsed("s3://b").unwrap().as_deref(), Some("s3://b/"));
        for (name, state) in [
            ("gs://b/a", SqlState::FEATURE_NOT_SUPPORTED),
            ("s3:///a", SqlState::INVALID_PARAMETER_VALUE),
            ("s3://b@c/a", SqlState::INVALID_PARAMETER_VALUE),
            ("http://999.1.1.1/a", SqlState::INVALID_PARAMETER_VALUE),
            ("http://user:guess@host/a", SqlState::INVALID_PARAMETER_VALUE),
            ("https://host", SqlState::FEATURE_NOT_SUPPORTED),
        ] {
            let error = parsed(name).unwrap_err();
            assert_eq!(error.state, state, "{name}");
            assert!(!error.to_string().contains("guess"));
        }
    }
}
