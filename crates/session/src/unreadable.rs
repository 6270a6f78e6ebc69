//! Sessions whose claim cannot be read.
//!
//! A session has spoken if it has put a heartbeat. One that has spoken, and whose claim is damaged,
//! may run. Nobody can ask it for an answer, and no manifest can end it, because only the claim
//! names its series. So nothing is removed beside it (docs/protocol.md, "What ends a run early").
//!
//! Only the user can know that its process is gone. Then its heartbeats and checkpoints are
//! deleted, and it counts as a session that has never spoken. The claim stays, so nobody gets its
//! number again. If its process lives after all, its next heartbeat makes it count as before.

use std::time::Duration;

use env::LockState;
use format::names;
use format::session::Claim;
use types::{SessionId, UnixNanos};

use crate::error::Result;
use crate::gc_sessions;
use crate::listed;
use crate::manifests::Manifests;
use crate::objects::Read;
use crate::session_table::{self, Folder};

/// A session without an ending that has spoken, and whose claim is damaged.
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
    /// This session, if it has no manifest, has spoken, and its claim is damaged.
    ///
    /// # Errors
    /// Of the storage.
    pub fn find_unreadable_session(&self, id: SessionId) -> Result<Option<UnreadableSession>> {
        let objects = self.objects();
        let manifests = listed::list(objects, names::BACKUPS_FOLDER)?;
        if manifests.iter().any(|one| one.session == id) {
            return Ok(None);
        }
        let folder = session_table::one_folder(objects, id)?;
        if folder.heartbeats.is_empty() {
            return Ok(None);
        }
        let Read::Damaged(claim) = objects.read::<Claim>(&names::claim(id))? else {
            return Ok(None);
        };
        let lock = objects.storage().lock_state(&names::session_lock(id))?;
        Ok(Some(UnreadableSession {
            id,
            folder,
            is_alive: lock == LockState::Held,
            why: claim.why,
        }))
    }

    /// Deletes the heartbeats and checkpoints of such a session. Durable on return. An interrupted
    /// call is repeated: a session with one heartbeat left still counts as one that may run.
    ///
    /// # Errors
    /// Of the storage.
    pub fn end_unreadable_session(&self, session: &UnreadableSession) -> Result<()> {
        gc_sessions::remove(self.objects(), session.id, &session.folder, None)?;
        self.objects().barrier()
    }
}
