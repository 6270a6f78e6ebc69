//! Finds the mount of a name, for walks that stay on one file system.
//!
//! The system alone answers these questions. The file system behind a mount may belong to another
//! user, who lets nobody look at it, or may be a network's that does not answer. `st_dev` would not
//! do. On an overlay each file shows the device of its layer, and a folder that is bound in from
//! elsewhere may show the same device as its parent.

use rustix::fs::{AtFlags, Statx, StatxFlags, statx};

use super::look::Place;
use crate::folder::retry;
use crate::metadata::Facts;

/// The mount of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mount {
    /// The mount id; unknown before Linux 5.8. Then the walk distinguishes folders by their
    /// devices, and bound files not at all.
    pub(super) id: Option<u64>,
    /// The root's `st_dev`.
    pub(super) device: u64,
}

impl Mount {
    /// Whether a name leads to another mount.
    pub(super) fn is_left_by(&self, place: &Place<'_>) -> bool {
        let there = self.id.and_then(|_| id(place));
        there.is_some() && there != self.id
    }
}

/// The mount of a name, if the system tells.
pub(super) fn id(place: &Place<'_>) -> Option<u64> {
    // FUSE answers users other than its owner only if they ask for nothing. The system still gives
    // the mount.
    let found = ask(place, StatxFlags::empty())?;
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(found.stx_mnt_id)
}

/// The facts that a mounted file system shows of its top.
pub(super) fn facts(place: &Place<'_>) -> Option<Facts> {
    ask(place, StatxFlags::BASIC_STATS).map(|found| Facts::of_statx(&found))
}

/// Whether a mounted file system shows a folder.
pub(super) fn is_folder(place: &Place<'_>) -> bool {
    facts(place).is_some_and(|facts| facts.kind == rustix::fs::FileType::Directory)
}

fn ask(place: &Place<'_>, what: StatxFlags) -> Option<Statx> {
    let mut flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    if !place.follow {
        flags |= AtFlags::SYMLINK_NOFOLLOW;
    }
    retry(|| statx(place.at, place.name, flags, what)).ok()
}
