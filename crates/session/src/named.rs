//! The containers that committed manifests name. A look-up may return nodes only from these.
//!
//! Nodes in other containers were written by sessions that died or have not ended; reclamation does
//! not keep what such nodes reach. A backup names its own containers, and those in the checkpoints
//! that it adopted. Forgotten backups count. A session adds its own containers and those that it
//! adopted. Plain value.

use std::collections::HashMap;

use format::manifest::{Backup, ContainerSpan, Manifest};
use types::{ContainerId, Revision, SessionId};

use crate::error::{Result, SessionError};
use crate::list::{ManifestEntry, ManifestList};
use crate::manifests::Manifests;
use crate::objects::Read;
use crate::session_table;

/// Containers by the session that wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedContainers {
    spans: HashMap<SessionId, Vec<ContainerSpan>>,
}

impl NamedContainers {
    /// Collects the containers that the list's backups name. For a forgotten backup it reads a
    /// lower revision, and for an adoption the checkpoint, several at a time. An unreadable one
    /// names nothing, which costs deduplication only.
    ///
    /// # Errors
    /// Of the storage.
    pub fn load(manifests: &Manifests, list: &ManifestList) -> Result<Self> {
        let mut named = Self::default();
        let mut unread = Vec::new();
        for entry in &list.entries {
            match entry.backup() {
                Some(backup) if backup.adopted.is_empty() => {
                    named.add(entry.session(), backup.containers.iter().copied());
                }
                None if !entry.is_forgotten() => {}
                Some(_) | None => unread.push(entry),
            }
        }
        let is_far = manifests.objects().storage().is_far();
        let read = object::several(is_far, unread.len(), |at| read_named(manifests, unread[at]))?;
        for (session, containers) in read.into_iter().flatten() {
            named.add(session, containers);
        }
        Ok(named)
    }

    /// Adds containers that a session wrote.
    pub fn add(&mut self, session: SessionId, containers: impl IntoIterator<Item = ContainerSpan>) {
        self.spans.entry(session).or_default().extend(containers);
    }

    /// Whether the container is named.
    #[must_use]
    pub fn contains(&self, id: ContainerId) -> bool {
        let sequence = id.sequence.get();
        self.spans.get(&id.session).is_some_and(|spans| {
            spans.iter().any(|span| {
                let first = span.first.get();
                span.kind == id.kind && first <= sequence && sequence - first < span.count
            })
        })
    }
}

/// The containers that a backup names, by the session that wrote them.
fn read_named(manifests: &Manifests, entry: &ManifestEntry) -> Result<Vec<(SessionId, Vec<ContainerSpan>)>> {
    let Some((_, backup)) = manifests.last_backup(entry)? else {
        return Ok(Vec::new());
    };
    let mut named = vec![(entry.session(), backup.containers)];
    for (old, checkpoint) in &backup.adopted {
        let Some(number) = checkpoint else { continue };
        let read = session_table::adopted_checkpoint(manifests.objects(), *old, *number);
        match read {
            Ok(Some(checkpoint)) => named.push((*old, checkpoint.containers)),
            Ok(None) | Err(SessionError::Damaged(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(named)
}

impl Manifests {
    /// The highest readable revision of the entry that is no tombstone, and its backup: what it
    /// reached until it was forgotten. `None`: the session became no backup, or no such revision is
    /// left.
    ///
    /// # Errors
    /// Of the storage.
    pub fn last_backup(&self, entry: &ManifestEntry) -> Result<Option<(Revision, Backup)>> {
        if let Some(backup) = entry.backup() {
            return Ok(Some((entry.stored.revision, backup.clone())));
        }
        for revision in entry.revisions.iter().rev() {
            let read = self.fetch(entry.series(), entry.session(), *revision)?;
            if let Read::Whole(stored) = read
                && let Manifest::Commit(backup) | Manifest::Revised(backup) = &stored.manifest
            {
                return Ok(Some((*revision, backup.clone())));
            }
        }
        Ok(None)
    }

    /// Like [`Self::last_backup`], for a caller that acts on it. A higher revision that is
    /// unreadable now, and may become readable, is an error.
    ///
    /// # Errors
    /// `Damaged` names that revision; of the storage.
    pub fn last_backup_for_sure(&self, entry: &ManifestEntry) -> Result<Option<(Revision, Backup)>> {
        if let Some(backup) = entry.backup() {
            return Ok(Some((entry.stored.revision, backup.clone())));
        }
        for revision in entry.revisions.iter().rev() {
            match self.fetch(entry.series(), entry.session(), *revision)? {
                Read::Damaged(object) if object.is_unread => return Err(SessionError::Damaged(object)),
                Read::Whole(stored) => {
                    if let Manifest::Commit(backup) | Manifest::Revised(backup) = &stored.manifest {
                        return Ok(Some((*revision, backup.clone())));
                    }
                }
                Read::Damaged(_) | Read::Missing => {}
            }
        }
        Ok(None)
    }
}
