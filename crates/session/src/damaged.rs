//! Objects that exist but cannot be read.

use std::fmt;

use env::StorageError;
use types::ObjectName;

/// An object that exists and cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DamagedObject {
    /// Its name.
    pub name: ObjectName,
    /// The damage and its place, in words.
    pub why: String,
    /// The storage did not give its bytes, now or for good. Nobody knows its content, and it is
    /// neither torn nor absent.
    pub is_unread: bool,
}

impl DamagedObject {
    /// An object on a bad sector, or of a storage that may answer later.
    pub(crate) fn unread(name: ObjectName, error: &StorageError) -> Self {
        Self {
            name,
            why: error.to_string(),
            is_unread: true,
        }
    }
}

impl fmt::Display for DamagedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
