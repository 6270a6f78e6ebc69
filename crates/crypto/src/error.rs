//! Errors, sorted by what a caller would do.

/// A failed cryptographic operation. No variant has key material.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptoError {
    /// Sealed bytes do not open: the key is wrong, or the bytes, their name or their place were
    /// changed. AES-GCM cannot distinguish these causes.
    #[error("the sealed bytes do not open under this key: they were changed, or sealed under another key")]
    NotAuthentic,
    /// The password does not open this key slot.
    #[error("the password does not open this key slot")]
    WrongPassword,
    /// A slot that takes a password was tried without one, or the reverse. A slot without a
    /// password is opened only if the caller asks for it. Otherwise anybody who can write to the
    /// storage could plant their own keys, and the next backup would be sealed for them.
    #[error("the key slot does not take this kind of credential")]
    OtherCredential,
    /// A cost parameter of Argon2id is outside what this program computes.
    #[error("Argon2id {what} of {value} is outside {min} to {max}")]
    CostOutOfRange {
        /// The parameter, with its unit.
        what: &'static str,
        /// Its value.
        value: u32,
        /// The least allowed.
        min: u32,
        /// The most allowed.
        max: u32,
    },
    /// There is not enough memory for the slot's Argon2id parameters.
    #[error("no memory for Argon2id: this key slot asks for {memory_kib} KiB")]
    OutOfMemory {
        /// The memory that the slot needs.
        memory_kib: u32,
    },
    /// The password is longer than Argon2id takes.
    #[error("the password is too long: {len} bytes")]
    PasswordTooLong {
        /// Its length in bytes.
        len: usize,
    },
}
