//! TLS, with the modes of libpq's `sslmode`.

use std::fmt;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tidemill_sql::{Result, SqlError, SqlState};
use tokio_rustls::TlsConnector;

use crate::option::Options;

/// The modes, as `sslmode` names them. `allow` is `prefer`: whoever takes connections without TLS is not asked for it first.
pub const MODES: &[&str] = &["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

/// What encrypts in a mode, by the options `sslrootcert`, `sslcert` and `sslkey` of a server and of a user.
pub fn connector(mode: &str, server: &Options, mapping: &Options) -> Result<TlsConnector> {
    let root = server.get("sslrootcert");
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match (mode, root) {
        ("verify-full", Some(root)) => verifier(root, &provider)?,
        // As libpq: with a root certificate, what is required is also verified.
        ("verify-ca" | "require", Some(root)) => Arc::new(AnyName(verifier(root, &provider)?)),
        ("verify-ca" | "verify-full", None) => {
            let message = format!("sslmode \"{mode}\" needs a root certificate");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .with_hint("Name its file: OPTIONS (sslrootcert '/path/root.crt')."));
        }
        _ => Arc::new(Anybody(Arc::clone(&provider))),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SqlError::internal(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let of = |name| mapping.get(name).or(server.get(name));
    let config = match (of("sslcert"), of("sslkey")) {
        (Some(certificate), Some(key)) => {
            let key =
                PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("private key", key, &error))?;
            let chain = certificates(certificate)?;
            config.with_client_auth_cert(chain, key).map_err(|error| {
                let message = format!("could not use certificate file \"{certificate}\": {error}");
                SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
            })?
        }
        (None, None) => config.with_no_client_auth(),
        _ => {
            let message = "options \"sslcert\" and \"sslkey\" are given together";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

pub fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>> {
    let read =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<std::result::Result<Vec<_>, _>>);
    read.map_err(|error| unreadable("certificate", path, &error))
}

fn unreadable(what: &str, path: &str, error: &dyn fmt::Display) -> SqlError {
    let message = format!("could not read {what} file \"{path}\": {error}");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Verifies the chain and the name.
fn verifier(root: &str, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(root)?);
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider)).build().map_err(
        |error| {
            let message = format!("root certificate file \"{root}\" cannot be used: {error}");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        },
    )
}

/// `verify-ca`: the chain, not the name.
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// `prefer` and `require`: encrypted, to whomever it may be.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
