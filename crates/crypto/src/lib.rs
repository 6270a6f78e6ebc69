//! Fingerprints, sealing and key slots.
//!
//! Pure functions of their arguments: no I/O, no clock, and no randomness. Salts are arguments, so
//! that all randomness enters through `env`. Many threads may use everything here.
//!
//! Invariants:
//! - A key never serves two purposes: every computation uses a key derived for its purpose
//!   ([`EncryptionKey::seal_key`], [`Fingerprinter::new`]).
//! - A seal key is made from a salt that is fresh for every write attempt, so no pair of key and
//!   nonce is used for two plaintexts.
//! - Keys are wiped when dropped and never printed.

mod error;
mod fingerprint;
mod keys;
mod lanes;
mod seal;
mod slot;

#[cfg(test)]
mod tests;

pub use error::CryptoError;
pub use fingerprint::{DERIVED_KEYS_BYTES, Fingerprinter, GEAR_TABLE_WORDS, NodeHasher};
pub use keys::{DomainKey, EncryptionKey, MasterKeys, SALT_BYTES};
pub use seal::{KEY_BYTES, SealKey, TAG_BYTES};
pub use slot::{
    Argon2Cost, Credential, LANES_DEFAULT, LANES_MAX, MEMORY_KIB_DEFAULT, MEMORY_KIB_MAX, PASSES_DEFAULT,
    PASSES_MAX, SlotDerivation, WRAPPED_KEYS_BYTES, unwrap, wrap,
};
