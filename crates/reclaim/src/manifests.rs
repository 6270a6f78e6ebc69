//! Reading manifests for reclamation.

use format::manifest::{Backup, Manifest};
use session::DamagedObject;

use crate::error::ReclaimError;

/// The error for a manifest that is needed. It distinguishes rot from a storage that may give the
/// manifest later.
pub(crate) fn unreadable(object: &DamagedObject) -> ReclaimError {
    let what = object.why.clone();
    if object.is_unread {
        ReclaimError::UnreadManifest { what }
    } else {
        ReclaimError::DamagedManifest { what }
    }
}

/// The backup, if the manifest has one.
pub(crate) fn backup_of(manifest: &Manifest) -> Option<&Backup> {
    match manifest {
        Manifest::Commit(backup) | Manifest::Revised(backup) => Some(backup),
        Manifest::Expired { .. } | Manifest::Adopted { .. } | Manifest::Forgotten => None,
    }
}
