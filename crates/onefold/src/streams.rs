//! The streams of a backup.

use format::manifest::{Backup, StreamRole};
use recipe::{NodeCache, TreeRoot};
use restore::BackupListing;
use types::SessionId;

use crate::monitor::Monitor;

/// The root of the stream with this role.
pub(crate) fn role(backup: &Backup, role: StreamRole) -> Option<TreeRoot> {
    backup
        .streams
        .iter()
        .find(|stream| stream.role == role)
        .map(TreeRoot::from)
}

/// The listing of a directory backup.
pub(crate) fn listing<'a>(nodes: &'a NodeCache, backup: &Backup) -> Option<BackupListing<'a>> {
    let fences = role(backup, StreamRole::Fences);
    role(backup, StreamRole::Listing).map(|root| BackupListing::new(nodes, root, fences))
}

/// Notes why paths of a backup were searched for without its fences.
pub(crate) fn note_fences(listing: BackupListing<'_>, id: SessionId, monitor: &Monitor) {
    if let Some(fault) = listing.fault() {
        monitor.add_note(format!(
            "the listing of backup {id} was read up to the paths asked for, which takes longer: {fault}; nothing of the \
             backup is missing for it"
        ));
    }
}
