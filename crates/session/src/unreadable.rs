//! Sessions whose claim cannot be read.
//!
//! A session has spoken if it has put a heartbeat. One that has spoken, and whose claim is damaged,
//! may run. Nobody can ask it for an answer, and only the claim names its series. So nothing is
//! removed beside it (docs/protocol.md, "What ends a run early").
//!
//! Only the user can know that its process is gone. Then its claim is deleted, durably, before its
//! other objects. If its process lives after all, it cannot commit: a commit looks for its own
//! claim before and after it puts the manifest, and takes the backup back (`commit`).
//!
//! A prune keeps what the session has adopted until the session has an ending. A session adopts
//! only sessions of its own series (`adopt`), so their endings name the series for its own ending.
//!
//! The process that ends the session has claimed a higher number before, and no process deletes the
//! highest claim. So no session gets the ended one's number again.

use std::time::Duration;

use env::LockState;
use format::manifest::Manifest;
use format::names;
use format::session::Claim;
use types::{Revision, SeriesId, SessionId, UnixNanos};

use crate::error::{EndedBy, Result, SessionError};
use crate::gc_sessions;
use crate::listed;
use crate::manifests::Manifests;
use crate::objects::Read;
use crate::session::Session;
use crate::session_table::{self, Folder};
use crate::standing::{Standing, standing};

/// A session without an ending that has spoken, and whose claim cannot be read.
#[derive(Debug)]
pub struct UnreadableSession {
    id: SessionId,
    folder: Folder,
    /// Whether a process of this host holds its lock.
    pub is_alive: bool,
    /// What is wrong with its claim.
    pub why: String,
}

impl UnreadableSession {
    /// Its number.
    #[must_use]
    pub const fn id(&self) -> SessionId {
        self.id
    }

    /// For how long it has put nothing, by the storage's clock. `now` is of that clock, too.
    #[must_use]
    pub fn silent_for(&self, now: UnixNanos) -> Duration {
        let newest = self.folder.newest_at.map_or(i64::MIN, UnixNanos::get);
        let nanos = now.get().saturating_sub(newest);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())
    }
}

impl Manifests {
    /// This session, if it has no manifest, has spoken, and its claim cannot be read. Also one that
    /// an interrupted [`Self::end_unreadable_session`] has left without its claim.
    ///
    /// # Errors
    /// Of the storage.
    pub fn find_unreadable_session(&self, id: SessionId) -> Result<Option<UnreadableSession>> {
        let objects = self.objects();
        let manifests = listed::list(objects, names::BACKUPS_FOLDER)?;
        let of_session: Vec<_> = manifests.iter().filter(|one| one.session == id).collect();
        match &of_session[..] {
            [] => {}
            [one] if one.revision == Revision::FIRST => match objects.ending(one.series, id)? {
                // An interrupted call has put it.
                Some(EndedBy::Expired { .. }) => {}
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }
        let folder = session_table::one_folder(objects, id)?;
        if folder.heartbeats.is_empty() && (folder.claimed || folder.checkpoints.is_empty()) {
            return Ok(None);
        }
        let why = match objects.read::<Claim>(&names::claim(id)) {
            Ok(Read::Whole(_)) => return Ok(None),
            Ok(Read::Damaged(claim)) => claim.why,
            Ok(Read::Missing) => format!("{}: is missing", names::claim(id)),
            Err(SessionError::Storage(error)) if error.is_of_medium() => error.to_string(),
            Err(error) => return Err(error),
        };
        if folder.committed && standing(objects, id)? == Standing::LostBackup {
            return Ok(None);
        }
        let lock = objects.storage().lock_state(&names::session_lock(id))?;
        Ok(Some(UnreadableSession {
            id,
            folder,
            is_alive: lock == LockState::Held,
            why,
        }))
    }

    /// Ends such a session as it was found: puts its ending if it had adopted others, deletes its
    /// claim, and then its heartbeats and checkpoints. `by` must have begun since it was found.
    /// Durable on return. An interrupted call may be repeated. `false`: the session has put
    /// something or has ended since it was found, and nothing is deleted.
    ///
    /// # Errors
    /// Those of [`Session::ensure_running`] for `by`; of the storage.
    pub fn end_unreadable_session(&self, session: &UnreadableSession, by: &Session) -> Result<bool> {
        let objects = self.objects();
        let is_highest = session_table::numbers(objects)?.last() <= Some(&session.id);
        let found = self.find_unreadable_session(session.id)?;
        if is_highest || found.is_none_or(|now| now.is_alive || now.folder != session.folder) {
            return Ok(false);
        }
        if let Some(series) = self.series_of_adopter(session.id)? {
            let ending = Manifest::Expired { by: by.id() };
            by.ensure_running()?;
            match by.end_other(series, session.id, &ending)? {
                EndedBy::Expired { .. } => {}
                _ => return Ok(false),
            }
        }
        if session.folder.claimed {
            objects.delete(&names::claim(session.id))?;
            objects.barrier()?;
        }
        gc_sessions::remove(objects, session.id, &session.folder, None)?;
        objects.barrier()?;
        Ok(true)
    }

    /// The series of the sessions that this one has adopted, if there are any.
    fn series_of_adopter(&self, id: SessionId) -> Result<Option<SeriesId>> {
        let list = self.list()?;
        let adopted = list
            .entries
            .iter()
            .find(|entry| matches!(entry.ended_by(), Some(EndedBy::Adopted { by, .. }) if by == id));
        Ok(adopted.map(|entry| entry.series()))
    }
}
