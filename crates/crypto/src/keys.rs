//! The two keys of a store, and the derivation of all other keys.
//!
//! Derivation is one BLAKE3 keyed hash of the purpose (with its length, so that no purpose runs
//! into its salt) and a 32-byte salt. Keys are wiped on drop. Copies that a move leaves on the
//! stack are not wiped; the threat model says so.

use std::fmt;

use types::SeriesId;
use zeroize::{Zeroize, Zeroizing};

use crate::seal::{KEY_BYTES, SealKey};

/// Length of every salt, in bytes.
pub const SALT_BYTES: usize = 32;

macro_rules! key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name([u8; KEY_BYTES]);

        impl $name {
            /// Wraps 32 bytes, which nobody should be able to guess.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
                Self(bytes)
            }

            /// The 32 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; KEY_BYTES] {
                &self.0
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                self.0.zeroize();
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    };
}

key!(
    /// Determines fingerprints and chunk boundaries. Stores that share it (a domain) can exchange
    /// references.
    DomainKey
);
key!(
    /// All seals of one store use keys derived from it.
    EncryptionKey
);

/// Both keys of a store, as every key slot wraps them.
#[derive(Clone, Debug)]
pub struct MasterKeys {
    /// For fingerprints and chunk boundaries.
    pub domain: DomainKey,
    /// For all seals.
    pub encryption: EncryptionKey,
}

impl EncryptionKey {
    /// The key for one write attempt of one kind of object. `salt` must be fresh for every attempt.
    #[must_use]
    pub fn seal_key(&self, purpose: &str, salt: &[u8; SALT_BYTES]) -> SealKey {
        SealKey::new(&derive(&self.0, purpose, salt))
    }

    /// The folder of a series: a keyed hash of its encoded name, so that names do not show in the
    /// storage.
    #[must_use]
    pub fn series_id(&self, name: &[u8]) -> SeriesId {
        let key = derive(&self.0, "series", &[0; SALT_BYTES]);
        let hash = blake3::keyed_hash(&key, name);
        let mut id = [0; 16];
        id.copy_from_slice(&hash.as_bytes()[..16]);
        SeriesId::from_bytes(id)
    }
}

/// The key for `purpose` under `key`: BLAKE3 keyed with `key`, over the purpose's length (u64 LE),
/// the purpose, and the salt.
pub(crate) fn derive(
    key: &[u8; KEY_BYTES],
    purpose: &str,
    salt: &[u8; SALT_BYTES],
) -> Zeroizing<[u8; KEY_BYTES]> {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&(purpose.len() as u64).to_le_bytes());
    hasher.update(purpose.as_bytes());
    hasher.update(salt);
    let derived = Zeroizing::new(*hasher.finalize().as_bytes());
    hasher.zeroize();
    derived
}
