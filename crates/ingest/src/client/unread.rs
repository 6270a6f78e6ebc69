//! Places of the source that the walk could not look at. Entries of the previous backup there may
//! still exist.
//!
//! Invariant: the backup keeps no entry that the walk has met, or has found to be gone. The walk is
//! in listing order, and so are the entries of the previous backup. If an entry is in such a place,
//! and comes after the last entry that the walk met, the walk did not look for it.

use tree::{Action, Excludes, TreeError, order};

/// The places, in listing order.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// Entries that the patterns of this backup leave out are not kept.
    excludes: Excludes,
    places: Vec<Vec<u8>>,
    /// The last entry that the walk met.
    met: Vec<u8>,
    /// A folder whose content is left out.
    left_out: Option<Vec<u8>>,
}

impl Unread {
    pub(crate) fn new(excludes: Excludes) -> Self {
        Self {
            excludes,
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Notes a fault. It tells whether a place is unknown: an entry that has vanished is gone.
    pub(crate) fn note(&mut self, fault: &TreeError) {
        if let TreeError::System { path, action, errno } = fault
            && matches!(action, Action::Open | Action::List | Action::ReadMetadata)
            && !is_gone(*errno)
        {
            self.places.push(path.clone());
        }
    }

    /// Notes an entry that the walk met. Places before it are passed.
    pub(crate) fn walked(&mut self, path: &[u8]) {
        self.met.clear();
        self.met.extend_from_slice(path);
        self.places
            .retain(|place| order::is_within(path, place) || order::compare(place, path).is_gt());
    }

    /// Whether an entry of the previous backup that the walk did not meet may still exist.
    pub(crate) fn has(&mut self, path: &[u8]) -> bool {
        if order::compare(path, &self.met).is_le()
            || !self.places.iter().any(|place| order::is_within(path, place))
            || self
                .left_out
                .as_ref()
                .is_some_and(|folder| order::is_within(path, folder))
        {
            return false;
        }
        if self.excludes.excludes(path) {
            self.left_out = Some(path.to_vec());
            return false;
        }
        true
    }
}

/// Whether the system reports that no entry has this name.
fn is_gone(errno: tree::Errno) -> bool {
    matches!(errno, tree::Errno::NOENT | tree::Errno::NOTDIR)
}
