//! Removing what ended sessions left behind.
//!
//! Of a session that has ended, heartbeats and checkpoints go; the claim stays, and with it the number.
//! Kept are the checkpoint that an adoption names, for it says which of the dead session's containers the
//! adopter's backup rests on, and everything of a session without an ending. Of a read session that ended
//! itself the claim and then the ending go too, unless it is the highest claim, which is never deleted:
//! numbers are given out above it. Removing twice is nothing; any number of processes may tidy at once.

use env::StorageError;
use format::manifest::Manifest;
use format::names;
use format::session::READ_SERIES;
use types::{Revision, SessionId};

use crate::error::{EndedBy, Result, SessionError};
use crate::objects::{Objects, Read};
use crate::roster::{self, Folder};
use crate::session::Session;

/// What tidying removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tidied {
    /// Sessions that had left something.
    pub sessions: usize,
    /// Objects removed.
    pub objects: usize,
}

impl Session {
    /// Removes what ended sessions left behind. Costs two listings, and a read for each session that left
    /// something.
    ///
    /// # Errors
    /// Of the storage; what is left is for the next one.
    pub fn tidy(&self) -> Result<Tidied> {
        let objects = &self.inner.objects;
        let folders = roster::folders(objects, names::SESSIONS_FOLDER)?;
        let highest = folders
            .iter()
            .filter(|(_, folder)| folder.claimed)
            .map(|(id, _)| *id)
            .max();
        let mut left = Vec::new();
        for meta in objects.storage().list(names::BACKUPS_FOLDER)? {
            let Some((series, id, Revision::FIRST)) = names::parse_manifest(&meta.name) else {
                continue;
            };
            let Some(folder) = folders.get(&id) else { continue };
            let is_read = series == READ_SERIES && folder.claimed && Some(id) < highest;
            if is_read || !folder.heartbeats.is_empty() || !folder.checkpoints.is_empty() {
                left.push((id, folder, is_read, meta.name));
            }
        }
        let mut tidied = Tidied::default();
        if left.is_empty() {
            return Ok(tidied);
        }
        // The endings that are acted on, and the claim that makes others expendable, must not be lost.
        objects.barrier()?;
        let mut endings = Vec::new();
        for (id, folder, is_read, name) in left {
            let ending = match objects.read::<Manifest>(&name) {
                Ok(Read::Whole(ending)) => ending,
                // What it says is not known: all stays, and of the others nothing has to.
                Ok(Read::Missing | Read::Damaged(_))
                | Err(SessionError::Storage(StorageError::Io { .. })) => {
                    continue;
                }
                Err(error) => return Err(error),
            };
            let keep = match EndedBy::of(&ending) {
                EndedBy::Adopted { checkpoint, .. } => checkpoint,
                _ => None,
            };
            let mut removed = remove(objects, id, folder, keep)?;
            if is_read && ending == (Manifest::Expired { by: id }) {
                objects.delete(&names::claim(id))?;
                endings.push(name);
                removed += 2;
            }
            tidied.objects += removed;
            tidied.sessions += usize::from(removed > 0);
        }
        // A claim without its ending would be a session that runs.
        if !endings.is_empty() {
            objects.barrier()?;
        }
        for ending in &endings {
            objects.delete(ending)?;
        }
        Ok(tidied)
    }
}

/// Removes heartbeats and checkpoints, but for the checkpoint `keep`.
pub(crate) fn remove(objects: &Objects, id: SessionId, folder: &Folder, keep: Option<u32>) -> Result<usize> {
    let mut removed = 0;
    for counter in &folder.heartbeats {
        objects.delete(&names::heartbeat(id, *counter))?;
        removed += 1;
    }
    for number in folder.checkpoints.iter().filter(|number| Some(**number) != keep) {
        objects.delete(&names::checkpoint(id, *number))?;
        removed += 1;
    }
    Ok(removed)
}
