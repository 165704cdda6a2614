//! What an object store is asked, and whether who asks has signed it.

use std::collections::BTreeMap;

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};
use tokio::io::AsyncBufReadExt;

/// Who may read, unless anybody may.
pub const USER: &str = "AKIDANN";
pub const PASSWORD: &str = "se/cret+key";

/// The head of a request.
pub struct Request {
    pub method: String,
    pub path: String,
    pub query: String,
    headers: BTreeMap<String, String>,
}

impl Request {
    pub async fn read(socket: &mut (impl AsyncBufReadExt + Unpin)) -> Option<Self> {
        let mut line = String::new();
        if socket.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_string(), words.next()?.to_string());
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            socket.read_line(&mut line).await.ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_string());
        }
        Some(Self { method, path: path.to_string(), query: query.to_string(), headers })
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub fn parameter(&self, name: &str) -> String {
        let found = self.query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}=")));
        decoded(found.unwrap_or_default())
    }

    /// The range of bytes that is wanted of a file of this size.
    pub fn range(&self, size: usize) -> Option<(usize, usize)> {
        let (start, end) = self.header("range").strip_prefix("bytes=")?.split_once('-')?;
        let end = end.parse::<usize>().map_or(size, |end| (end + 1).min(size));
        Some((start.parse().ok()?, end))
    }

    /// Signature V4: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
    pub fn is_signed(&self) -> Result<(), &'static str> {
        let authorization = self.header("authorization");
        let part = |name: &str| {
            let (_, after) = authorization.split_once(&format!("{name}="))?;
            after.split(',').next()
        };
        let wrong = "SignatureDoesNotMatch";
        let (credential, names) =
            (part("Credential").ok_or("AccessDenied")?, part("SignedHeaders").ok_or(wrong)?);
        let (user, scope) = credential.split_once('/').ok_or(wrong)?;
        if user != USER {
            return Err("InvalidAccessKeyId");
        }
        let headers: String =
            names.split(';').map(|name| format!("{name}:{}\n", self.header(name))).collect();
        let mut query: Vec<_> = self.query.split('&').filter(|pair| !pair.is_empty()).collect();
        query.sort_unstable();
        let (path, content) = (&self.path, self.header("x-amz-content-sha256"));
        let canonical =
            format!("{}\n{path}\n{}\n{headers}\n{names}\n{content}", self.method, query.join("&"));
        let time = self.header("x-amz-date");
        let signed = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical)));
        let key = scope.split('/').fold(format!("AWS4{PASSWORD}").into_bytes(), |key, part| mac(&key, part));
        (part("Signature") == Some(&hex(&mac(&key, &signed)))).then_some(()).ok_or(wrong)
    }
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap());
            rest = &after[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).unwrap()
}
