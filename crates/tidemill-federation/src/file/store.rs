//! Object stores and web servers as one user of a server reaches them.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::http::HttpBuilder;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{BackoffConfig, GetOptions, GetResult, ObjectStore, RetryConfig};
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinError;

use super::client::Client;
use super::failure;
use super::url::Url;
use crate::option::{Options, parse_bool};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What fails on its way is asked again so many times, as long as there is time left.
const RETRIES_MAX: usize = 2;
const REGION: &str = "us-east-1";
/// Where MinIO is unless the server says otherwise.
const MINIO: &str = "http://127.0.0.1:9000";

/// A server's stores. Nothing is started before the first file of one is read.
pub struct Stores {
    /// The server's name.
    pub server: String,
    /// Of S3.
    endpoint: reqwest::Url,
    /// Whether the server says where its store is, so that it can be asked whether it is there.
    pub is_probed: bool,
    region: String,
    credentials: Option<Credentials>,
    pub timeout: Duration,
    root: Option<String>,
    started: OnceLock<Result<Started>>,
}

struct Credentials {
    user: String,
    password: String,
    token: Option<String>,
}

/// Without the credentials.
impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("server", &self.server).finish_non_exhaustive()
    }
}

struct Started {
    client: Client,
    thread: Thread,
}

/// Takes what comes: nothing that computes for long keeps answers waiting.
struct Thread(Option<Runtime>, Handle);

impl Thread {
    fn start() -> Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().thread_name("object-store").build();
        let runtime = runtime.map_err(|error| {
            SqlError::new(SqlState::OUT_OF_MEMORY, format!("could not start a thread: {error}"))
        })?;
        let handle = runtime.handle().clone();
        Ok(Self(Some(runtime), handle))
    }
}

impl Drop for Thread {
    /// By a thread that must not wait, perhaps.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Stores {
    pub fn new(server: &str, options: &Options, mapping: &Options) -> Result<Self> {
        let credentials = match (mapping.get("user"), mapping.get("password")) {
            (Some(user), Some(password)) => {
                let token = mapping.get("session_token").map(str::to_string);
                Some(Credentials { user: user.to_string(), password: password.to_string(), token })
            }
            (None, None) => None,
            _ => {
                let message =
                    format!("user mapping of server \"{server}\" has only one of \"user\" and \"password\"");
                return Err(SqlError::new(SqlState::FDW_DYNAMIC_PARAMETER_VALUE_NEEDED, message)
                    .with_hint("They are the access key and its secret; without both, nobody is named."));
            }
        };
        let seconds = options.get("connect_timeout").and_then(|text| text.trim().parse::<u64>().ok());
        Ok(Self {
            server: server.to_string(),
            endpoint: endpoint(options)?,
            is_probed: ["endpoint", "use_minio", "region"].iter().any(|name| options.get(name).is_some()),
            region: options.get("region").unwrap_or(REGION).to_string(),
            credentials,
            timeout: seconds.filter(|seconds| *seconds > 0).map_or(CONNECT_TIMEOUT, Duration::from_secs),
            root: options.get("sslrootcert").map(str::to_string),
            started: OnceLock::new(),
        })
    }

    /// Blocks when it is the first to ask.
    fn started(&self) -> Result<&Started> {
        let start = || {
            Ok(Started { client: Client::new(self.timeout, self.root.as_deref())?, thread: Thread::start()? })
        };
        self.started.get_or_init(start).as_ref().map_err(Clone::clone)
    }

    /// Where what is asked of them has to be waited for. Blocks when it is the first to ask.
    pub fn handle(&self) -> Result<&Handle> {
        Ok(&self.started()?.thread.1)
    }

    /// Where S3 is, as errors tell it.
    pub fn shown(&self) -> String {
        format!("at \"{}\"", self.endpoint.as_str().trim_end_matches('/'))
    }

    pub fn is_anonymous(&self) -> bool {
        self.credentials.is_none()
    }

    /// Whether the store is there, if there is a store.
    pub async fn probe(self: Arc<Self>) -> Result<()> {
        if !self.is_probed {
            return Ok(());
        }
        let ended = |error: JoinError| SqlError::internal(error.to_string());
        let stores = Arc::clone(&self);
        let handle = tokio::task::spawn_blocking(move || stores.handle().cloned()).await.map_err(ended)??;
        let asked = handle.spawn(async move {
            let asked = self.started()?.client.ask(self.endpoint.clone());
            within(&self, &self.endpoint, asked).await
        });
        asked.await.map_err(ended)?
    }

    fn retries(&self) -> RetryConfig {
        let backoff = BackoffConfig { max_backoff: Duration::from_secs(1), ..BackoffConfig::default() };
        RetryConfig { backoff, max_retries: RETRIES_MAX, retry_timeout: self.timeout }
    }

    fn s3(&self, bucket: &str) -> Result<AmazonS3> {
        let client = self.started()?.client.clone();
        let mut builder = AmazonS3Builder::new()
            .with_endpoint(self.endpoint.as_str())
            .with_bucket_name(bucket)
            .with_region(&self.region)
            .with_retry(self.retries())
            .with_http_connector(client);
        match &self.credentials {
            Some(Credentials { user, password, token }) => {
                builder = builder.with_access_key_id(user).with_secret_access_key(password);
                if let Some(token) = token {
                    builder = builder.with_token(token);
                }
            }
            None => builder = builder.with_skip_signature(true),
        }
        builder.build().map_err(|error| SqlError::internal(error.to_string()))
    }

    /// What has a file, and how it is called there.
    fn object(&self, url: &Url) -> Result<(Box<dyn ObjectStore>, Path)> {
        let failed = |error: object_store::path::Error| {
            let message = format!("\"{url}\" cannot be the name of a file");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).with_detail(error.to_string())
        };
        match url {
            Url::S3 { bucket, key } => Ok((Box::new(self.s3(bucket)?), Path::parse(key).map_err(failed)?)),
            Url::Web(url) => {
                let path = Path::from_url_path(url.path()).map_err(failed)?;
                let mut base = url.clone();
                base.set_path("");
                base.set_fragment(None);
                let builder = HttpBuilder::new().with_url(base).with_retry(self.retries());
                let store = builder.with_http_connector(self.started()?.client.clone()).build();
                Ok((Box::new(store.map_err(|error| SqlError::internal(error.to_string()))?), path))
            }
        }
    }

    /// Asks for a file, for what the options say of it, and returns when the head of the answer is there.
    pub async fn get(&self, url: &Url, options: GetOptions) -> Result<GetResult> {
        let (store, path) = self.object(url)?;
        within(self, url, store.get_opts(&path, options)).await
    }

    /// The files in a folder whose names fit. When they are more than a number, no more are looked for.
    pub async fn list(
        &self,
        folder: &Url,
        fits: impl Fn(&str) -> bool,
        files_max: usize,
    ) -> Result<Vec<Url>> {
        let Url::S3 { bucket, key } = folder else {
            return Err(SqlError::internal("a folder of a web server is listed"));
        };
        let (store, prefix) = (self.s3(bucket)?, &key[..key.rfind('/').map_or(0, |slash| slash + 1)]);
        let (mut files, mut page_token) = (Vec::new(), None);
        loop {
            let options = PaginatedListOptions {
                delimiter: Some("/".into()),
                page_token,
                ..PaginatedListOptions::default()
            };
            let page = within(self, folder, store.list_paginated(Some(prefix), options)).await?;
            for object in page.result.objects {
                let key = object.location.as_ref();
                if key.strip_prefix(prefix).is_some_and(|name| !name.contains('/') && fits(name)) {
                    files.push(Url::S3 { bucket: bucket.clone(), key: key.to_string() });
                }
            }
            page_token = page.page_token;
            if page_token.is_none() || files.len() > files_max {
                break;
            }
        }
        files.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(files)
    }
}

/// An answer that has begun before the server's time is over.
async fn within<T, E: std::error::Error + 'static>(
    stores: &Stores,
    place: &(dyn fmt::Display + Sync),
    asked: impl Future<Output = std::result::Result<T, E>>,
) -> Result<T> {
    match tokio::time::timeout(stores.timeout, asked).await {
        Ok(answer) => answer.map_err(|error| failure::of(stores, place, &error)),
        Err(_) => Err(failure::unreachable(stores, place, "timeout expired")),
    }
}

/// Where a server's options say that S3 is.
pub fn endpoint(options: &Options) -> Result<reqwest::Url> {
    let region = options.get("region").unwrap_or(REGION);
    let is_minio = options.get("use_minio").and_then(parse_bool) == Some(true);
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    if region.is_empty() || !region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err(invalid(format!("invalid region: \"{region}\"")));
    }
    let named = match options.get("endpoint") {
        Some(named) if named.contains("://") => named.to_string(),
        Some(named) if is_minio => format!("http://{named}"),
        Some(named) => format!("https://{named}"),
        None if is_minio => MINIO.to_string(),
        None => format!("https://s3.{region}.amazonaws.com"),
    };
    // What may be a password is not shown.
    let found = reqwest::Url::parse(&named).map_err(|error| invalid(format!("invalid endpoint: {error}")))?;
    if !found.username().is_empty() || found.password().is_some() {
        return Err(invalid("option \"endpoint\" has a user or a password before an \"@\"".to_string())
            .with_hint("They are options of the user mapping: user, password."));
    }
    let is_whole = found.query().is_none() && found.fragment().is_none();
    if !["http", "https"].contains(&found.scheme()) || !found.has_host() || !is_whole {
        return Err(invalid(format!("invalid endpoint: \"{named}\""))
            .with_hint("An endpoint is http://host:port or https://host:port."));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints() {
        for (options, wanted) in [
            (Options::default(), "https://s3.us-east-1.amazonaws.com/"),
            (Options::of([("region", "eu-west-1")]), "https://s3.eu-west-1.amazonaws.com/"),
            (Options::of([("use_minio", "true")]), "http://127.0.0.1:9000/"),
            (Options::of([("use_minio", "on"), ("endpoint", "store:1")]), "http://store:1/"),
            (Options::of([("endpoint", "store:1")]), "https://store:1/"),
            (Options::of([("endpoint", "http://store/s3")]), "http://store/s3"),
        ] {
            assert_eq!(endpoint(&options).unwrap().as_str(), wanted);
        }
        for wrong in ["", "ftp://host", "http://", "http://999.1.1.1", "http://a:guess@b", "http://a?b"] {
            let error = endpoint(&Options::of([("endpoint", wrong)])).unwrap_err();
            assert_eq!(error.state, SqlState::INVALID_PARAMETER_VALUE, "{wrong}");
            assert!(!error.to_string().contains("guess"));
        }
        assert!(endpoint(&Options::of([("region", "a.b/c")])).is_err());
    }

    #[test]
    fn credentials_are_both_or_none_and_not_shown() {
        let of = |mapping: Options| Stores::new("lake", &Options::default(), &mapping);
        let stores = of(Options::of([("user", "ann"), ("password", "guess")])).unwrap();
        assert!(!format!("{stores:?}").contains("guess"));
        assert!(of(Options::default()).unwrap().is_anonymous());
        assert!(of(Options::of([("user", "ann")])).is_err());
        assert!(of(Options::of([("password", "guess")])).is_err());
    }
}
