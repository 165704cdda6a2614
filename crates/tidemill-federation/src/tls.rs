//! TLS, with the modes of libpq's `sslmode`.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
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
        ("verify-full", Some(root)) => Arc::new(Verifier::new(root, &provider, true)?),
        // As libpq: with a root certificate, what is required is also verified.
        ("verify-ca" | "require", Some(root)) => Arc::new(Verifier::new(root, &provider, false)?),
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

/// What is wrong with the certificate of a server, if that is why there is no connection.
pub fn cause(error: &io::Error) -> Option<String> {
    let Error::InvalidCertificate(why) = error.get_ref()?.downcast_ref::<Error>()? else { return None };
    Some(match why {
        CertificateError::NotValidForNameContext { expected, .. } => {
            format!("server certificate does not match host name \"{}\"", expected.to_str())
        }
        CertificateError::NotValidForName => "server certificate does not match host name".to_string(),
        CertificateError::UnknownIssuer => {
            "certificate verify failed: it is not of an authority in sslrootcert".to_string()
        }
        CertificateError::Other(other) if is_authority(other) => {
            "certificate verify failed: it is that of an authority, which is none in sslrootcert".to_string()
        }
        CertificateError::Other(other) => format!("certificate verify failed: {other}"),
        other => format!("certificate verify failed: {other}"),
    })
}

/// Whether a certificate was refused because it may sign others.
fn is_authority(why: &OtherError) -> bool {
    why.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

/// `verify-ca`: the chain; `verify-full`: the name, too.
#[derive(Debug)]
struct Verifier {
    chains: Arc<WebPkiServerVerifier>,
    roots: Vec<CertificateDer<'static>>,
    checks_name: bool,
}

impl Verifier {
    fn new(root: &str, provider: &Arc<CryptoProvider>, checks_name: bool) -> Result<Self> {
        let unusable = |error: &dyn fmt::Display| {
            let message = format!("root certificate file \"{root}\" cannot be used: {error}");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        };
        let roots = certificates(root)?;
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.clone());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider));
        Ok(Self { chains: chains.build().map_err(|error| unusable(&error))?, roots, checks_name })
    }

    /// The certificate of a server may be the root itself, as PostgreSQL's manual makes one: what `openssl req -x509` signs by
    /// itself calls itself an authority. That is looked at after its time and before who has signed it.
    fn is_root(&self, certificate: &CertificateDer<'_>, error: &Error) -> bool {
        let Error::InvalidCertificate(CertificateError::Other(why)) = error else { return false };
        is_authority(why) && self.roots.contains(certificate)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        let verified = match self.chains.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(error) if self.is_root(certificate, &error) => {
                let parsed = ParsedCertificate::try_from(certificate)?;
                verify_server_name(&parsed, name).map(|()| ServerCertVerified::assertion())
            }
            verified => verified,
        };
        match verified {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.checks_name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
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
