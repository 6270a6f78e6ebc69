//! How an object store is used.

use std::num::NonZeroU64;

use super::ObjectStoreLocation;
use super::location::Service;

/// How a storage uses its object store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectStoreOptions {
    /// The most bytes a second that are sent.
    pub upload_bytes_per_second: Option<NonZeroU64>,
    /// The most bytes a second that are received.
    pub download_bytes_per_second: Option<NonZeroU64>,
    /// The storage class of some new objects.
    pub storage_class: Option<StorageClass>,
}

/// A storage class (S3, Google) or access tier (Azure), and the objects that get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageClass {
    pub(super) word: String,
    pub(super) folders: Vec<&'static str>,
}

/// Why a storage class cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageClassError {
    /// The text is no word of a class.
    #[error("{class:?} is no storage class: such as STANDARD_IA")]
    Malformed {
        /// The text.
        class: String,
    },
    /// Objects of the class must be brought back before they can be read.
    #[error(
        "what is stored in {class} cannot be read before it is restored, which takes hours, and backups read what is \
         stored: take a class that is read at once, such as STANDARD_IA, GLACIER_IR, COLDLINE or Cool"
    )]
    NotReadable {
        /// The class.
        class: String,
    },
}

impl StorageClass {
    /// The class of this word for the new objects in these folders. All others get the class that
    /// the bucket has for new objects.
    ///
    /// # Errors
    /// If such objects could not be read at once there, or it is no word.
    pub fn new(
        word: &str,
        folders: Vec<&'static str>,
        location: &ObjectStoreLocation,
    ) -> Result<Self, StorageClassError> {
        let class = word.to_owned();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if word.is_empty() || word.len() > 32 || !word.bytes().all(is_plain) {
            return Err(StorageClassError::Malformed { class });
        }
        let slow: &[&str] = match location.service() {
            Service::S3 { .. } => &["GLACIER", "DEEP_ARCHIVE"],
            // All classes of Google are read at once.
            Service::Google => &[],
            Service::Azure => &["ARCHIVE"],
        };
        if slow.contains(&word.to_ascii_uppercase().as_str()) {
            return Err(StorageClassError::NotReadable { class });
        }
        Ok(Self { word: class, folders })
    }

    /// Whether the object gets this class.
    pub(super) fn is_of(&self, name: &str) -> bool {
        let folder = name.split('/').next().unwrap_or_default();
        self.folders.contains(&folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_read_at_once() {
        let made = |place: &str, class: &str| {
            let location = place.parse().unwrap();
            StorageClass::new(class, vec!["data"], &location)
        };
        for (place, class) in [
            ("s3:b", "STANDARD_IA"),
            ("s3:b", "GLACIER_IR"),
            ("gs:b", "ARCHIVE"),
            ("azure:b", "Cool"),
        ] {
            made(place, class).unwrap();
        }
        for (place, class) in [
            ("s3:b", "GLACIER"),
            ("s3:b", "DEEP_ARCHIVE"),
            ("s3:b", "deep_archive"),
            ("azure:b", "Archive"),
        ] {
            let told = made(place, class).unwrap_err().to_string();
            assert!(told.contains(class) && told.contains("cannot be read"), "{told}");
        }
        for class in ["", "A B", "A\r\nx: y"] {
            assert!(matches!(
                made("s3:b", class),
                Err(StorageClassError::Malformed { .. })
            ));
        }
        let class = made("s3:b", "STANDARD_IA").unwrap();
        assert!(class.is_of("data/1/2.0") && !class.is_of("recipe/1/2.0") && !class.is_of("database/1"));
    }
}
