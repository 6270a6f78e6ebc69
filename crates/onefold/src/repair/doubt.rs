//! Backups whose newest manifest revision cannot be read: a repair must not lose a hold in it.

use std::collections::BTreeSet;

use format::manifest::Backup;
use format::names;
use session::{ManifestEntry, ManifestList, SessionError};
use types::{ContainerId, SessionId};

use super::RepairReport;
use crate::error::Result;
use crate::monitor::Monitor;
use crate::repository::Repository;
use crate::store::Store;
use crate::warning::Warning;

impl Store {
    /// Puts a new revision above damaged ones, so that the backup needs no copy in its place. It
    /// has what the highest readable revision has, and the later of its hold and that of the other
    /// store's backup. A tag or a hold that only the damaged one had is lost: a warning says so.
    ///
    /// Removes from `lost` the backups that are whole then. It also removes those of which the
    /// storage does not give a revision now: that may be readable later, and be a hold.
    pub(super) fn end_doubts(
        &self,
        other: &dyn Repository,
        lost: &mut BTreeSet<SessionId>,
        touched: &BTreeSet<ContainerId>,
        monitor: &Monitor,
        report: &mut RepairReport,
    ) -> Result<()> {
        let list = self.manifests.list()?;
        let unread = unread(&list);
        lost.retain(|id| !unread.contains(id));
        let is_in_doubt = |entry: &&ManifestEntry| entry.newer_unreadable && lost.contains(&entry.session());
        let in_doubt: Vec<&ManifestEntry> = list.backups().filter(is_in_doubt).collect();
        let ids = in_doubt.iter().map(|entry| entry.session()).collect();
        if in_doubt.is_empty() {
            return Ok(());
        }
        let theirs = self.counterparts(other, &ids)?;
        let others = other.snapshots()?.snapshots;
        let mut is_revised = false;
        for entry in in_doubt {
            let id = entry.session();
            let known = theirs.get(&id);
            let Some(known) = known.and_then(|their| others.iter().find(|one| one.id == *their)) else {
                continue;
            };
            let revised = self.manifests.revise(entry.series(), id, |present| {
                if let Some(object) = present.may_be_archival {
                    // Nothing may be above it, so the copy takes the place of the backup.
                    return Err(SessionError::Damaged(object.clone()));
                }
                Ok(present.is_in_doubt.then(|| Backup {
                    hold_until: present.backup.hold_until.max(known.backup.hold_until),
                    ..present.backup.clone()
                }))
            });
            match revised {
                Ok(_) => is_revised = true,
                Err(SessionError::Damaged(_)) => {}
                Err(error) => return Err(error.into()),
            }
            let damaged = list.damaged_of(id).next();
            report.warnings.push(Warning::RevisionLost {
                backup: id,
                why: damaged.map(ToString::to_string).unwrap_or_default(),
            });
        }
        if is_revised {
            let seen = self.check_some(touched, &BTreeSet::new(), monitor)?;
            lost.retain(|id| seen.damaged_backups.contains(id));
        }
        Ok(())
    }
}

/// The backups of which the storage does not give a revision now.
fn unread(list: &ManifestList) -> BTreeSet<SessionId> {
    let unread = list.damaged.iter().filter(|object| object.is_unread);
    unread
        .filter_map(|object| names::parse_manifest(&object.name))
        .map(|(_, session, _)| session)
        .collect()
}
