//! Names of objects in a storage.

use std::fmt;

/// The longest name, in bytes: well below the limits of local file systems and object stores.
pub const OBJECT_NAME_BYTES_MAX: usize = 200;

/// A name that storages would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not an object's name: {why}")]
pub struct NameError {
    /// The name.
    pub name: String,
    /// The reason.
    pub why: &'static str,
}

/// A checked name: parts of `[a-z0-9._-]` joined by `/`, no part empty or beginning with a dot.
///
/// Upper case is refused because some file systems fold it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct ObjectName(String);

impl TryFrom<String> for ObjectName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl ObjectName {
    /// Checks and wraps a name.
    ///
    /// # Errors
    /// [`NameError`] has the reason for which a storage would refuse the name.
    pub fn new(name: impl Into<String>) -> Result<Self, NameError> {
        let name = name.into();
        match fault(&name) {
            None => Ok(Self(name)),
            Some(why) => Err(NameError { name, why }),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts between slashes.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

impl From<ObjectName> for String {
    fn from(name: ObjectName) -> Self {
        name.0
    }
}

fn fault(name: &str) -> Option<&'static str> {
    if name.is_empty() || name.len() > OBJECT_NAME_BYTES_MAX {
        return Some("its length is not within 1 to 200 bytes");
    }
    // Listing a store checks names by the hundred thousand.
    let (mut begins, mut is_empty_or_hidden, mut is_plain) = (true, false, true);
    for b in name.bytes() {
        is_empty_or_hidden |= begins && matches!(b, b'/' | b'.');
        begins = b == b'/';
        is_plain &= PLAIN[usize::from(b)];
    }
    if is_empty_or_hidden || begins {
        return Some("a part is empty or begins with a dot");
    }
    if !is_plain {
        return Some("only a-z, 0-9, '.', '_', '-' and '/' are allowed");
    }
    None
}

/// Whether a byte may be in a name.
static PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0_u8;
    while byte < u8::MAX {
        plain[byte as usize] =
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-' | b'/');
        byte += 1;
    }
    plain
};

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
