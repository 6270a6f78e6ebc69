//! Sealing: AES-256-GCM under a key made for one write attempt.
//!
//! Invariant: the salt of a key is fresh for every write attempt, and within one attempt each nonce
//! is used once. The caller numbers the sealed parts (regions from 0; one small object is number
//! 0). This gives unique nonces without the birthday bound of random ones.

use std::fmt;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::CryptoError;

/// Length of every key, in bytes.
pub const KEY_BYTES: usize = 32;

/// Length of the authentication tag that [`SealKey::seal`] appends, in bytes.
pub const TAG_BYTES: usize = 16;

/// The AES-256-GCM key of one write attempt. Its expanded form is not wiped on drop, because the
/// cipher's implementation offers no way. By the threat model this risks only that attempt's
/// object.
pub struct SealKey(LessSafeKey);

impl SealKey {
    pub(crate) fn new(key: &[u8; KEY_BYTES]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, key).expect("AES-256 takes any 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Encrypts `buf[from..]` in place and appends the 16-byte tag. `aad` is bound but not stored.
    ///
    /// # Panics
    /// If `from` is past the end of `buf`, or the plaintext is 64 GiB or longer: nothing sealed in
    /// a store comes near it.
    pub fn seal(&self, nonce: u64, aad: &[u8], buf: &mut Vec<u8>, from: usize) {
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce_of(nonce), Aad::from(aad), &mut buf[from..])
            .expect("AES-GCM takes any plaintext under 64 GiB");
        buf.extend_from_slice(tag.as_ref());
    }

    /// Like [`Self::seal`], within a slice: encrypts all of `buf` except its last [`TAG_BYTES`],
    /// and writes the tag there. This is for parts of a large object with reserved room for their
    /// tags.
    ///
    /// # Panics
    /// If `buf` is shorter than a tag, or the plaintext is 64 GiB or longer.
    pub fn seal_with_room(&self, nonce: u64, aad: &[u8], buf: &mut [u8]) {
        let at = buf
            .len()
            .checked_sub(TAG_BYTES)
            .expect("the caller left room for the tag");
        let (plain, room) = buf.split_at_mut(at);
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce_of(nonce), Aad::from(aad), plain)
            .expect("AES-GCM takes any plaintext under 64 GiB");
        room.copy_from_slice(tag.as_ref());
    }

    /// Checks and decrypts `buf` in place. `buf` must end with the tag. Returns the plaintext in
    /// it.
    ///
    /// # Errors
    /// [`CryptoError::NotAuthentic`] if a byte, the associated data, the nonce or the key differs
    /// from the one at sealing. `buf` then has no useful content.
    pub fn open<'a>(&self, nonce: u64, aad: &[u8], buf: &'a mut [u8]) -> Result<&'a mut [u8], CryptoError> {
        self.0
            .open_in_place(nonce_of(nonce), Aad::from(aad), buf)
            .map_err(|ring::error::Unspecified| CryptoError::NotAuthentic)
    }
}

/// A number as a 96-bit little-endian nonce.
fn nonce_of(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(..)")
    }
}
