//! Names of objects in a storage.

use std::fmt;

/// The longest name, in bytes: well under what local file systems and object stores take.
pub const OBJECT_NAME_BYTES_MAX: usize = 200;

/// A name that no storage would take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not an object's name: {why}")]
pub struct NameError {
    /// The name.
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// A checked name: parts of `[a-z0-9._-]` joined by `/`, no part empty or beginning with a dot.
///
/// Upper case is refused because some file systems fold it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    /// Checks and wraps a name.
    ///
    /// # Errors
    /// [`NameError`] says what a storage would refuse.
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
    if name
        .split('/')
        .any(|part| part.is_empty() || part.starts_with('.'))
    {
        return Some("a part is empty or begins with a dot");
    }
    let plain =
        |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-' | b'/');
    if !name.bytes().all(plain) {
        return Some("only a-z, 0-9, '.', '_', '-' and '/' are allowed");
    }
    None
}

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
