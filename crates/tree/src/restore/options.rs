//! How to restore, as the caller says it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::Excludes;

/// What happens to something that stands where an entry belongs. Folders are always kept; their
/// metadata is set unless the choice is [`Self::IfNewer`] or [`Self::Never`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// It is replaced.
    #[default]
    Always,
    /// It is kept if it is the same; its other metadata is set. A file is the same by kind, size
    /// and time of modification, also by a time that the file system has rounded down. A link is
    /// the same by its target, a device by its number, a fifo or socket by its kind. Also how an
    /// interrupted restore goes on.
    IfChanged,
    /// It is replaced if the entry was modified later. What is the same but for a rounded
    /// time is kept.
    IfNewer,
    /// It is kept.
    Never,
}

/// Whose the restored entries are, where the process may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owners {
    /// By number.
    #[default]
    Numbers,
    /// By name, and by number where the name is unknown here.
    Names,
}

/// Where zeros are not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sparse {
    /// Where the source had holes.
    #[default]
    AsSource,
    /// Wherever a block is zeros.
    Zeros,
    /// Nowhere.
    Never,
}

/// How to restore.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// What happens to what is there.
    pub overwrite: Overwrite,
    /// Whose the entries are.
    pub owners: Owners,
    /// Where zeros are not stored.
    pub sparse: Sparse,
    /// What is restored.
    pub include: Include,
    /// What of it is left out.
    pub excludes: Excludes,
    /// The folder of the listing that becomes the target: what lies elsewhere is left out. Empty or
    /// `/` for everything. Neither its metadata nor that of `/` is given to the target.
    pub base: Vec<u8>,
    /// The paths that the backup was made of; the user did not ask for folders above them. Empty if
    /// not known.
    pub sources: Vec<Vec<u8>>,
}

/// What is asked for: everything when both are empty, else what lies in one of the paths or matches
/// a pattern, with all below it. The folders above come along.
#[derive(Debug, Clone, Default)]
pub struct Include {
    /// Paths of the listing.
    pub paths: Vec<Vec<u8>>,
    /// Patterns, with the meaning of excludes.
    pub patterns: Excludes,
    /// For each path in `paths`: set once an entry at or below it is seen. May be shorter.
    pub is_met: Arc<[AtomicBool]>,
}

impl Include {
    /// Whether everything is asked for.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.paths.is_empty() && self.patterns.is_empty()
    }

    /// Paths that all that is asked for is, or lies below; none where it may be anywhere.
    #[must_use]
    pub fn within(&self) -> Option<Vec<Vec<u8>>> {
        if self.is_all() {
            return None;
        }
        let roots = self.patterns.roots()?;
        Some(self.paths.iter().cloned().chain(roots).collect())
    }
}

impl RestoreOptions {
    /// Whether every entry of the backup is restored, whatever is there.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        let has_base = !matches!(&self.base[..], b"" | b"/");
        self.overwrite == Overwrite::Always && self.include.is_all() && self.excludes.is_empty() && !has_base
    }
}
