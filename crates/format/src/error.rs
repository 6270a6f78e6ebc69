//! Errors of decoding.

/// What decoding or checking found. Nothing here is a reason to retry: the bytes must be read again
/// from elsewhere, the program is too old, or this is not a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes break a rule of the encoding.
    #[error("{what}: {why} at byte {offset}")]
    Malformed {
        /// The structure.
        what: &'static str,
        /// Where in the bytes handed in.
        offset: u64,
        /// Which rule.
        why: &'static str,
    },
    /// A value breaks a rule that spans it, whether decoded or about to be encoded.
    #[error("{what}: {why}")]
    Invalid {
        /// The structure.
        what: &'static str,
        /// Which rule.
        why: &'static str,
    },
    /// The stored bytes rotted, were torn, or were changed by something without knowledge of the
    /// format.
    #[error("{what}: digest is {found:032x}, expected {expected:032x}")]
    DigestMismatch {
        /// What the digest covers.
        what: &'static str,
        /// The digest that is stored.
        expected: u128,
        /// The digest of the bytes as they are.
        found: u128,
    },
    /// Written by a later program.
    #[error("{what} has format version {found}, this program knows up to {known}")]
    NewerVersion {
        /// The structure.
        what: &'static str,
        /// Its version.
        found: u16,
        /// The highest version known here.
        known: u16,
    },
    /// The store needs features to be read that this program does not have.
    #[error("the store requires features {unknown:#x} that this program does not know")]
    UnknownFeatures {
        /// The bits that are not known.
        unknown: u64,
    },
    /// The bytes do not begin as a config does.
    #[error("not a Onefold store")]
    NotAStore,
}

/// Shorthand within this crate and for whoever calls it.
pub type Result<T, E = FormatError> = std::result::Result<T, E>;
