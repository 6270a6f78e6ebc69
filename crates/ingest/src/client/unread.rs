//! Places of the source that the walk could not look at. What the backup before has there may still
//! exist.
//!
//! Invariant: the backup keeps no entry that the walk has met, or has found to be gone. The
//! walk comes in listing order, and so do the entries of the backup before. An entry in such a
//! place that comes behind the last entry that the walk met was not looked for.

use tree::{Action, Excludes, TreeError, order};

/// The places, in listing order.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    /// What the source's owner leaves out now stays out.
    excludes: Excludes,
    places: Vec<Vec<u8>>,
    /// The entry that the walk met last.
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

    /// Something could not be read. The fault says whether a place is unknown: what has vanished is
    /// gone.
    pub(crate) fn note(&mut self, fault: &TreeError) {
        if let TreeError::System { path, action, errno } = fault
            && matches!(action, Action::Open | Action::List | Action::ReadMetadata)
            && !is_gone(*errno)
        {
            self.places.push(path.clone());
        }
    }

    /// The walk met this entry: places before it are behind.
    pub(crate) fn walked(&mut self, path: &[u8]) {
        self.met.clear();
        self.met.extend_from_slice(path);
        self.places
            .retain(|place| order::is_within(path, place) || order::compare(place, path).is_gt());
    }

    /// Whether an entry of the backup before, which the walk did not meet, may be there all the
    /// same.
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

/// Whether the system says that there is nothing of this name.
fn is_gone(errno: tree::Errno) -> bool {
    matches!(errno, tree::Errno::NOENT | tree::Errno::NOTDIR)
}
