//! How much a new backup may have of names and tags.
//!
//! Each path and each tag has a limit of its own. These limits bound their number and their sum,
//! because every list of backups has them in memory, for all machines of a store. Tags are checked
//! in every store, where a backup begins and where its tags change; paths by servers alone, since
//! only there one machine's lists take the memory of others.
//!
//! A reader does not apply them: a manifest with more stays readable. Pure.

use crate::manifest::SeriesName;

/// The most paths of a series on a server: a long list of files, ...
pub const PATHS_MAX: usize = 1 << 17;
/// ... and the most bytes of its host and all paths.
pub const SERIES_NAME_BYTES_MAX: usize = 8 << 20;
/// The most tags of a backup, ...
pub const TAGS_MAX: usize = 1000;
/// ... and their bytes.
pub const TAGS_BYTES_MAX: usize = 64 << 10;

/// What a new backup would have too much of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// Paths.
    #[error(
        "the backup has {count} paths, with {bytes} bytes; on a server it has at most {} paths, and at most {} bytes of them; \
         name the folders that contain them, or make several backups with fewer paths each",
        PATHS_MAX,
        SERIES_NAME_BYTES_MAX
    )]
    Paths {
        /// How many.
        count: usize,
        /// The bytes of all, and of the host.
        bytes: usize,
    },
    /// Tags.
    #[error(
        "the backup would have {count} tags, with {bytes} bytes; a backup has at most {} tags, and at most {} bytes of \
         them; use fewer or shorter ones",
        TAGS_MAX,
        TAGS_BYTES_MAX
    )]
    Tags {
        /// How many.
        count: usize,
        /// The bytes of all.
        bytes: usize,
    },
}

impl SeriesName {
    /// Whether a new backup on a server may be of this series.
    ///
    /// # Errors
    /// [`LimitError::Paths`]
    pub fn ensure_within_limits(&self) -> Result<(), LimitError> {
        let count = self.paths.len();
        let bytes = self.host.len() + self.paths.iter().map(Vec::len).sum::<usize>();
        if count > PATHS_MAX || bytes > SERIES_NAME_BYTES_MAX {
            return Err(LimitError::Paths { count, bytes });
        }
        Ok(())
    }
}

/// Whether a backup may get these tags.
///
/// # Errors
/// [`LimitError::Tags`]
pub fn ensure_tags_within_limits(tags: &[String]) -> Result<(), LimitError> {
    let count = tags.len();
    let bytes = tags.iter().map(String::len).sum();
    if count > TAGS_MAX || bytes > TAGS_BYTES_MAX {
        return Err(LimitError::Tags { count, bytes });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::PATH_BYTES_MAX;

    fn named(host: usize, paths: usize, bytes: usize) -> SeriesName {
        let path = |number: usize| {
            let mut path = number.to_le_bytes()[..3].to_vec();
            path.resize(bytes, 0);
            path
        };
        SeriesName {
            host: vec![0; host],
            paths: (0..paths).map(path).collect(),
        }
    }

    #[test]
    fn names_have_a_number_and_a_sum() {
        let most = SERIES_NAME_BYTES_MAX / PATH_BYTES_MAX;
        let longest = named(0, most, PATH_BYTES_MAX);
        assert_eq!(longest.ensure_within_limits(), Ok(()));
        let bytes = SERIES_NAME_BYTES_MAX + 1;
        let longer = named(1, most, PATH_BYTES_MAX);
        assert_eq!(
            longer.ensure_within_limits(),
            Err(LimitError::Paths { count: most, bytes })
        );
        assert_eq!(named(0, PATHS_MAX, 16).ensure_within_limits(), Ok(()));
        let more = named(0, PATHS_MAX + 1, 3).ensure_within_limits();
        assert!(matches!(more, Err(LimitError::Paths { count: 131_073, .. })));
    }

    #[test]
    fn tags_have_a_number_and_a_sum() {
        let tags = |count: usize, bytes: usize| vec!["t".repeat(bytes); count];
        assert_eq!(ensure_tags_within_limits(&tags(TAGS_MAX, 65)), Ok(()));
        assert_eq!(ensure_tags_within_limits(&tags(64, 1024)), Ok(()));
        let more = LimitError::Tags {
            count: 1001,
            bytes: 0,
        };
        assert_eq!(ensure_tags_within_limits(&tags(1001, 0)), Err(more));
        let longer = ensure_tags_within_limits(&tags(64, 1025));
        assert!(matches!(longer, Err(LimitError::Tags { count: 64, .. })));
        let told = longer.unwrap_err().to_string();
        assert!(
            told.contains("65600 bytes") && told.contains("at most 65536 bytes"),
            "{told}"
        );
    }
}
