//! The credential that opens a store: a password, or the statement that it has none.

use std::fmt;

use zeroize::Zeroizing;

/// A password, or the explicit choice of none.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// A password; wiped from memory when dropped.
    Password(Zeroizing<Vec<u8>>),
    /// The store has a slot without a password.
    None,
}

impl Credential {
    /// Makes a credential from the password's bytes.
    #[must_use]
    pub fn password(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Password(Zeroizing::new(bytes.into()))
    }

    pub(crate) fn as_crypto(&self) -> crypto::Credential<'_> {
        match self {
            Self::Password(bytes) => crypto::Credential::Password(bytes),
            Self::None => crypto::Credential::NoPassword,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Password(_) => "Password(..)",
            Self::None => "None",
        })
    }
}
