//! Reading manifests for reclamation.

use format::manifest::{Backup, Manifest};
use session::DamagedObject;

use crate::error::ReclaimError;

/// A manifest that is needed: what rotted is told apart from what the storage may give later.
pub(crate) fn unreadable(object: &DamagedObject) -> ReclaimError {
    let what = object.why.clone();
    if object.is_unread {
        ReclaimError::UnreadManifest { what }
    } else {
        ReclaimError::DamagedManifest { what }
    }
}

/// The backup, if it is one.
pub(crate) fn backup_of(manifest: &Manifest) -> Option<&Backup> {
    match manifest {
        Manifest::Commit(backup) | Manifest::Revised(backup) => Some(backup),
        Manifest::Expired { .. } | Manifest::Adopted { .. } | Manifest::Forgotten => None,
    }
}
