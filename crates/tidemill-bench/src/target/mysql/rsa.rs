//! A password under a server's public RSA key: how caching_sha2_password sends it where nothing else is encrypted.
//!
//! Who listens learns nothing; who answers in the server's place could give a key of its own, as with unverified TLS.

use num_bigint::BigUint;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use sha1::{Digest as _, Sha1};

use super::wire::broken;
use crate::error::{Error, Result};

/// Of SHA-1, which MySQL's padding uses.
const HASH_BYTES: usize = 20;
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;
const INTEGER: u8 = 0x02;

pub(super) struct PublicKey {
    modulus: BigUint,
    exponent: BigUint,
}

impl PublicKey {
    /// As PEM has it: `BEGIN PUBLIC KEY`.
    pub fn read(pem: &[u8]) -> Result<Self> {
        let der =
            SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| broken("what is no public key"))?;
        Self::parse(&der).ok_or_else(|| broken("a public key of another kind than RSA"))
    }

    /// SubjectPublicKeyInfo (RFC 5280) around RSAPublicKey (RFC 8017, A.1.1).
    fn parse(der: &[u8]) -> Option<Self> {
        let mut info = Der(Der(der).take(SEQUENCE)?);
        info.take(SEQUENCE)?;
        // The first byte says how many bits of the last one do not count.
        let key = info.take(BIT_STRING)?.strip_prefix(&[0])?;
        let mut key = Der(Der(key).take(SEQUENCE)?);
        let mut number = || key.take(INTEGER).map(BigUint::from_bytes_be);
        let (modulus, exponent) = (number()?, number()?);
        (modulus.bits() > 0).then_some(Self { modulus, exponent })
    }

    /// RSAES-OAEP with SHA-1 (RFC 8017, 7.1.1).
    pub fn encrypt(&self, message: &[u8]) -> Result<Vec<u8>> {
        let mut seed = [0; HASH_BYTES];
        let random = rustls::crypto::ring::default_provider().secure_random;
        random
            .fill(&mut seed)
            .map_err(|_| Error::Unsupported("the system gives no random numbers".to_owned()))?;
        let length = self.modulus.bits().div_ceil(8) as usize;
        let padded = padded(message, &seed, length)
            .ok_or_else(|| broken("a public key that is too short for the password"))?;
        let sealed = BigUint::from_bytes_be(&padded).modpow(&self.exponent, &self.modulus).to_bytes_be();
        Ok([vec![0; length - sealed.len()], sealed].concat())
    }
}

fn padded(message: &[u8], seed: &[u8; HASH_BYTES], length: usize) -> Option<Vec<u8>> {
    let zeros = length.checked_sub(message.len() + 2 * HASH_BYTES + 2)?;
    let block = [&Sha1::digest(b"")[..], &vec![0; zeros], &[1], message].concat();
    let block = xor(&block, &mask(seed, block.len()));
    let seed = xor(seed, &mask(&block, HASH_BYTES));
    Some([&[0], &seed[..], &block[..]].concat())
}

/// MGF1.
fn mask(seed: &[u8], length: usize) -> Vec<u8> {
    let hash = |counter: u32| Sha1::digest([seed, &counter.to_be_bytes()].concat());
    (0..).flat_map(hash).take(length).collect()
}

/// The second one, over and over, upon the first.
pub(super) fn xor(left: &[u8], right: &[u8]) -> Vec<u8> {
    left.iter().zip(right.iter().cycle()).map(|(a, b)| a ^ b).collect()
}

/// What is left of some DER.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The contents of the next value, which must be of this kind.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&[found, length], mut rest) = self.0.split_first_chunk()?;
        let mut length = usize::from(length);
        if length >= 0x80 {
            let (digits, after) =
                rest.split_at_checked(length - 0x80).filter(|(digits, _)| digits.len() <= 4)?;
            length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
            rest = after;
        }
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (found == tag).then_some(contents)
    }
}
