//! The HTTP of object stores and web servers: `reqwest`, with bounds on what answers may do.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use reqwest::{Certificate, StatusCode};
use tidemill_sql::{Result, SqlError};

use crate::tls;

/// Bytes of an answer that says what is wrong, and of a page of a list of files, at most.
const ERROR_BYTES_MAX: usize = 64 << 10;
const PAGE_BYTES_MAX: usize = 16 << 20;

/// Connections to a server are kept.
#[derive(Debug, Clone)]
pub struct Client(reqwest::Client);

impl Client {
    /// `root` is the file of the only authority to trust; without one those of the machine are. Blocks.
    pub fn new(timeout: Duration, root: Option<&str>) -> Result<Self> {
        // Neither do proxies come from the environment, nor is there a limit on how long a large file takes to come.
        let mut builder =
            reqwest::Client::builder().no_proxy().connect_timeout(timeout).read_timeout(timeout);
        if let Some(root) = root {
            builder = builder.tls_built_in_root_certs(false);
            for certificate in tls::certificates(root)? {
                let certificate = Certificate::from_der(&certificate);
                builder = builder.add_root_certificate(certificate.map_err(|error| unusable(&error))?);
            }
        }
        builder.build().map(Self).map_err(|error| unusable(&error))
    }

    /// Whether anybody answers, whatever it is.
    pub async fn ask(&self, endpoint: reqwest::Url) -> std::result::Result<(), reqwest::Error> {
        self.0.head(endpoint).send().await.map(drop)
    }
}

fn unusable(error: &reqwest::Error) -> SqlError {
    SqlError::internal(format!("there is no client for object stores: {error}"))
}

impl HttpConnector for Client {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Client {
    /// What is refused is an error here already: the store's own error has the answer only as a part of its text.
    async fn call(&self, request: HttpRequest) -> std::result::Result<HttpResponse, HttpError> {
        let is_page = request.uri().query().is_some_and(|query| query.contains("list-type=2"));
        let answer = self.0.call(request).await?;
        let status = answer.status();
        if !status.is_success() {
            // Whoever does not say why has been understood all the same.
            let said = read(answer.into_body(), ERROR_BYTES_MAX).await.unwrap_or_default();
            return Err(Refused::new(status, &String::from_utf8_lossy(&said)).into());
        }
        if !is_page {
            return Ok(answer);
        }
        let (head, body) = answer.into_parts();
        Ok(HttpResponse::from_parts(head, read(body, PAGE_BYTES_MAX).await?.into()))
    }
}

async fn read(body: HttpResponseBody, bytes_max: usize) -> std::result::Result<Vec<u8>, HttpError> {
    let (mut read, mut pieces) = (Vec::new(), body.bytes_stream());
    while let Some(piece) = pieces.next().await {
        read.extend_from_slice(&piece?);
        if read.len() > bytes_max {
            return Err(HttpError::new(HttpErrorKind::Decode, TooLong(bytes_max)));
        }
    }
    Ok(read)
}

/// An answer that is none of use.
#[derive(Debug)]
pub struct TooLong(usize);

impl std::error::Error for TooLong {}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer has more than {} bytes", self.0)
    }
}

/// What a store or a server says instead of giving what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub status: StatusCode,
    /// S3's name for it, and its explanation.
    code: Option<String>,
    message: Option<String>,
}

impl Refused {
    fn new(status: StatusCode, said: &str) -> Self {
        Self { status, code: element(said, "Code"), message: element(said, "Message") }
    }

    /// In the words of the store.
    pub fn said(&self) -> Option<String> {
        match (&self.code, &self.message) {
            (Some(code), Some(message)) => Some(format!("{code}: {message}")),
            (said, None) | (None, said) => said.clone(),
        }
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        self.said().map_or(Ok(()), |said| write!(f, " ({said})"))
    }
}

impl From<Refused> for HttpError {
    fn from(refused: Refused) -> Self {
        let is_busy = refused.status.is_server_error()
            || [StatusCode::TOO_MANY_REQUESTS, StatusCode::REQUEST_TIMEOUT].contains(&refused.status);
        // Of these kinds the first is tried again.
        HttpError::new(if is_busy { HttpErrorKind::Request } else { HttpErrorKind::Unknown }, refused)
    }
}

/// The text of an element of S3's XML. The others are not shown: they have names and addresses of whoever asks.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, after) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = after.split_once('<')?;
    let text =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&#39;", "'"), ("&amp;", "&")]
            .iter()
            .fold(text.to_string(), |text, (escaped, meant)| text.replace(escaped, meant));
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_says() {
        let xml =
            "<Error><Code>NoSuchKey</Code><Message>no &lt;a&gt; &amp;amp;</Message><Key>k</Key></Error>";
        let refused = Refused::new(StatusCode::NOT_FOUND, xml);
        assert_eq!(refused.said().unwrap(), "NoSuchKey: no <a> &amp;");
        assert_eq!(refused.to_string(), "status 404 Not Found (NoSuchKey: no <a> &amp;)");
        for said in ["", "<html>", "<Code>", "<Code></Code>", "<Message>open"] {
            assert_eq!(Refused::new(StatusCode::BAD_GATEWAY, said).said(), None, "{said}");
        }
    }

    #[tokio::test]
    async fn answers_have_bounds() {
        let body = |bytes: usize| HttpResponseBody::from(vec![b'x'; bytes]);
        assert_eq!(read(body(10), 10).await.unwrap().len(), 10);
        let error = read(body(11), 10).await.unwrap_err();
        assert_eq!(error.to_string(), "HTTP error: the answer has more than 10 bytes");
    }
}
