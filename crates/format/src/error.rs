//! Errors of decoding.

/// An error of decoding or checking. A retry does not help: the bytes must be read from elsewhere,
/// the program is too old, or this is not a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes break a rule of the encoding.
    #[error("{what}: {why} at byte {offset}")]
    Malformed {
        /// The structure.
        what: &'static str,
        /// Offset in the input.
        offset: u64,
        /// The broken rule.
        why: &'static str,
    },
    /// A value breaks a rule for the value as a whole, after decoding or before encoding.
    #[error("{what}: {why}")]
    Invalid {
        /// The structure.
        what: &'static str,
        /// The broken rule.
        why: &'static str,
    },
    /// The stored bytes have rotted, were torn, or were changed without knowledge of the format.
    #[error("{what}: digest is {found:032x}, expected {expected:032x}")]
    DigestMismatch {
        /// What the digest covers.
        what: &'static str,
        /// The digest that is stored.
        expected: u128,
        /// The digest of the present bytes.
        found: u128,
    },
    /// Written by a later program.
    #[error("{what} has format version {found}, this program knows up to {known}")]
    NewerVersion {
        /// The structure.
        what: &'static str,
        /// Its version.
        found: u16,
        /// The highest known version.
        known: u16,
    },
    /// Reading the store needs features that this program does not have.
    #[error("the store requires features {unknown:#x} that this program does not know")]
    UnknownFeatures {
        /// The unknown bits.
        unknown: u64,
    },
    /// The bytes do not begin like a config.
    #[error("not a Onefold store")]
    NotAStore,
}

/// Shorthand for this crate and its callers.
pub type Result<T, E = FormatError> = std::result::Result<T, E>;
