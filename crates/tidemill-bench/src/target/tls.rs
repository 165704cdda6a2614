//! TLS to a target, with the modes of libpq's `sslmode`, for all protocols.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error as TlsError,
    RootCertStore, SignatureScheme,
};

use crate::error::{Error, Result};
use crate::target::Url;

/// What a URL may say about it.
pub(super) const OPTIONS: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Disable,
    /// Where the server offers it.
    Prefer,
    Require,
}

/// How connections to a target are encrypted.
#[derive(Clone)]
pub(super) struct Tls {
    pub mode: Mode,
    config: Arc<ClientConfig>,
}

impl Tls {
    pub fn of(url: &Url) -> Result<Tls> {
        let text = url.option("sslmode").unwrap_or("prefer");
        let root = url.option("sslrootcert").map(verifier).transpose()?;
        let (mode, root, is_name_checked) = match (text, root) {
            ("disable", _) => (Mode::Disable, None, false),
            // Whoever takes connections without TLS is not asked for that first: `allow` is `prefer`.
            ("allow" | "prefer", _) => (Mode::Prefer, None, false),
            // As libpq: with a root certificate, what is required is also verified.
            ("require", root) => (Mode::Require, root, false),
            ("verify-ca", Some(root)) => (Mode::Require, Some(root), false),
            ("verify-full", Some(root)) => (Mode::Require, Some(root), true),
            ("verify-ca" | "verify-full", None) => {
                return Err(Error::usage(format!(
                    "sslmode={text} needs a root certificate: add sslrootcert=FILE to the URL"
                )));
            }
            _ => {
                let modes = "disable, allow, prefer, require, verify-ca, verify-full";
                return Err(Error::usage(format!("there is no sslmode \"{text}\" ({modes})")));
            }
        };
        let config = config(url, Verifier { root, is_name_checked, provider: provider() })?;
        Ok(Tls { mode, config: Arc::new(config) })
    }

    /// The client's side of a connection that has not begun to shake hands.
    pub fn client(&self, host: &str) -> Result<ClientConnection> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| Error::usage(format!("\"{host}\" is no name that a certificate can be for")))?;
        ClientConnection::new(Arc::clone(&self.config), name).map_err(|error| Error::usage(error.to_string()))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn config(url: &Url, verifier: Verifier) -> Result<ClientConfig> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::usage(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    match (url.option("sslcert"), url.option("sslkey")) {
        (Some(certificate), Some(path)) => {
            let key = PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable(path, &error))?;
            let chain = certificates(certificate)?;
            config.with_client_auth_cert(chain, key).map_err(|error| unreadable(certificate, &error))
        }
        (None, None) => Ok(config.with_no_client_auth()),
        _ => Err(Error::usage("sslcert and sslkey are given together")),
    }
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<std::result::Result<_, _>>);
    all.map_err(|error| unreadable(path, &error))
}

fn verifier(root: &str) -> Result<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(root)?);
    let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build();
    built.map_err(|error| unreadable(root, &error))
}

fn unreadable(path: &str, error: &dyn std::fmt::Display) -> Error {
    Error::file(std::path::Path::new(path), format!("not a certificate or key that can be used: {error}"))
}

/// Without a root, connections are encrypted to whomever it may be.
#[derive(Debug)]
struct Verifier {
    root: Option<Arc<WebPkiServerVerifier>>,
    is_name_checked: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, TlsError> {
        let Some(root) = &self.root else { return Ok(ServerCertVerified::assertion()) };
        match root.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(TlsError::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.is_name_checked => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
