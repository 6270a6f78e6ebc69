//! The options of a restore.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::{Excludes, FolderId};

/// What to do with an existing entry under a name of the backup. Folders are always kept. Their
/// metadata is set unless the choice is [`Self::IfNewer`] or [`Self::Never`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overwrite {
    /// Replace it.
    #[default]
    Always,
    /// Keep it if it is the same, and set its other metadata. A file is the same by kind, size and
    /// time of modification, also if the file system has rounded the time down. A link is the same
    /// by its target, a device by its number, a fifo or socket by its kind. An interrupted restore
    /// continues with this choice.
    IfChanged,
    /// Replace it if the backup's entry was modified later. Keep it if only a rounded time differs.
    IfNewer,
    /// Keep it.
    Never,
}

/// The owners of the restored entries, if the process may set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Owners {
    /// By number.
    #[default]
    Numbers,
    /// By name; by number if the name is unknown here.
    Names,
}

/// Where restored files get holes.
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

/// The options of a restore.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// What to do with existing entries.
    pub overwrite: Overwrite,
    /// The owners of the entries.
    pub owners: Owners,
    /// Where files get holes.
    pub sparse: Sparse,
    /// Which entries to restore.
    pub include: Include,
    /// Which of these to leave out.
    pub excludes: Excludes,
    /// The folder of the listing that becomes the target. Entries elsewhere are left out. Empty or
    /// `/` for everything. The target keeps its own metadata.
    pub base: Vec<u8>,
    /// The source paths of the backup. The user did not request folders above them. Empty if they
    /// are not known.
    pub sources: Vec<Vec<u8>>,
    /// An existing folder that is not empty gives way to an entry of another kind.
    pub clears_folders: bool,
    /// Folders of which nothing is removed, such as the store.
    pub spared: HashSet<FolderId>,
}

/// The requested entries. If both fields are empty: all. Otherwise: every entry that is in one of
/// the paths or matches a pattern, with all entries below it. Folders above them are made too.
#[derive(Debug, Clone, Default)]
pub struct Include {
    /// Paths of the listing.
    pub paths: Vec<Vec<u8>>,
    /// Patterns, with the same meaning as exclude patterns.
    pub patterns: Excludes,
    /// For each path in `paths`: set once an entry at or below it is seen. May be shorter.
    pub is_met: Arc<[AtomicBool]>,
}

impl Include {
    /// Whether all entries are requested.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.paths.is_empty() && self.patterns.is_empty()
    }

    /// Paths such that every requested entry is one of them or below one. `None`: it may be
    /// anywhere.
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
    /// Whether every entry of the backup is restored, whatever exists in the target.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        let has_base = !matches!(&self.base[..], b"" | b"/");
        self.overwrite == Overwrite::Always && self.include.is_all() && self.excludes.is_empty() && !has_base
    }
}
