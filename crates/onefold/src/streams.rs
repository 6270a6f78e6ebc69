//! The streams of a backup.

use format::manifest::{Backup, StreamRole};
use recipe::{StoreReader, TreeRoot};
use restore::BackupListing;
use types::SessionId;

use crate::monitor::Monitor;
use crate::warning::Warning;

/// The root of the stream with this role.
pub(crate) fn role(backup: &Backup, role: StreamRole) -> Option<TreeRoot> {
    backup
        .streams
        .iter()
        .find(|stream| stream.role == role)
        .map(TreeRoot::from)
}

/// The listing of a directory backup.
pub(crate) fn listing<'a>(reader: &'a dyn StoreReader, backup: &Backup) -> Option<BackupListing<'a>> {
    let fences = role(backup, StreamRole::Fences);
    role(backup, StreamRole::Listing).map(|root| BackupListing::new(reader, root, fences))
}

/// Notes why a search for paths of a backup did not use its fences.
pub(crate) fn note_fences(listing: BackupListing<'_>, id: SessionId, monitor: &Monitor) {
    if let Some(fault) = listing.fault() {
        monitor.add_note(Warning::FencesUnread {
            backup: id,
            why: fault.to_string(),
        });
    }
}
