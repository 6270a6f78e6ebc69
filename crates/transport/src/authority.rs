//! The server's identity: its own authority, and the certificates that this signs.
//!
//! Clients know the authority by its key. The certificate of a connection is short-lived and signed
//! anew when it ages. No name of a host is in it, so a server may move.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use ring::digest::{SHA256, digest};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;

use crate::error::TransportError;

/// The name in each server's certificate.
pub(crate) const NAME: &str = "onefold.internal";
/// How long a certificate of a connection is valid.
const LEAF_VALID: Duration = Duration::from_hours(90 * 24);
/// It is valid from so long before it was made, for clocks that are late.
const LEAF_BEFORE: Duration = Duration::from_hours(24);

/// The SHA-256 of an authority's public key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pin([u8; 32]);

/// The authority that signs a server's certificates.
pub struct Authority {
    key: KeyPair,
}

/// A server's certificate for connections, with its key.
pub struct Leaf {
    /// The leaf and the authority's own certificate.
    pub chain: Vec<CertificateDer<'static>>,
    /// The leaf's key.
    pub key: PrivateKeyDer<'static>,
}

fn failed(error: impl fmt::Display) -> TransportError {
    TransportError::Certificate(error.to_string())
}

impl Authority {
    /// A new authority with a random key.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn generate() -> Result<Self, TransportError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        Ok(Self { key })
    }

    /// The authority with this key, in PKCS 8.
    ///
    /// # Errors
    /// If it is no key.
    pub fn from_key(key: &[u8]) -> Result<Self, TransportError> {
        let key = KeyPair::try_from(key).map_err(failed)?;
        Ok(Self { key })
    }

    /// The secret key, in PKCS 8.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.key.serialized_der()
    }

    /// What clients know it by.
    ///
    /// # Errors
    /// If its certificate cannot be made.
    pub fn pin(&self) -> Result<Pin, TransportError> {
        let certificate = Self::params().self_signed(&self.key).map_err(failed)?;
        Pin::of(certificate.der()).map_err(TransportError::Untrusted)
    }

    fn params() -> CertificateParams {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "Onefold server authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params
    }

    /// A new certificate for connections, valid for 90 days from this Unix time.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn leaf(&self, now: Duration) -> Result<Leaf, TransportError> {
        let authority = Self::params().self_signed(&self.key).map_err(failed)?;
        let at = |time: Duration| {
            let seconds = i64::try_from(time.as_secs()).map_err(failed)?;
            OffsetDateTime::from_unix_timestamp(seconds).map_err(failed)
        };
        let mut params = CertificateParams::new(vec![NAME.to_owned()]).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.not_before = at(now.saturating_sub(LEAF_BEFORE))?;
        params.not_after = at(now + LEAF_VALID)?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let issuer = Issuer::new(Self::params(), &self.key);
        let leaf = params.signed_by(&key, &issuer).map_err(failed)?;
        let secret = PrivateKeyDer::try_from(key.serialized_der().to_vec()).map_err(failed)?;
        Ok(Leaf {
            chain: vec![leaf.der().clone(), authority.der().clone()],
            key: secret,
        })
    }
}

impl Pin {
    /// The pin of a certificate's key.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone().into_owned())?;
        let key = roots.roots.first().map(|root| &root.subject_public_key_info);
        let key = key.ok_or_else(|| rustls::Error::General("a certificate without a key".to_owned()))?;
        let mut pin = [0; 32];
        pin.copy_from_slice(digest(&SHA256, key.as_ref()).as_ref());
        Ok(Self(pin))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Pin {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(());
        }
        let mut pin = [0; 32];
        for (byte, digits) in pin.iter_mut().zip(digits.as_chunks::<2>().0) {
            let digits = str::from_utf8(digits).map_err(drop)?;
            *byte = u8::from_str_radix(digits, 16).map_err(drop)?;
        }
        Ok(Self(pin))
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Leaf")
    }
}
