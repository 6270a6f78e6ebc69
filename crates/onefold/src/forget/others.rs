//! What has a number and no manifest: lost backups, and sessions whose claim cannot be read.

use session::{LostBackup, Session, UnreadableSession};
use types::{SessionId, UnixNanos};

use super::ForgetRequest;
use crate::error::{Error, Result};
use crate::store::Store;

/// What has no manifest, and can be forgotten by its number.
pub(super) enum Other {
    /// Only a tombstone ends it.
    Lost(LostBackup),
    /// A session whose claim cannot be read.
    Unreadable(UnreadableSession),
}

impl Other {
    pub(super) fn session(&self) -> SessionId {
        match self {
            Self::Lost(lost) => lost.session,
            Self::Unreadable(session) => session.id(),
        }
    }
}

impl Store {
    /// Forgets the lost backup, or ends the session. `false` if the session has put something since
    /// it was found.
    ///
    /// # Errors
    /// Of the storage.
    pub(super) fn forget_other(&self, other: &Other) -> Result<bool> {
        let found = match other {
            Other::Lost(lost) => {
                self.manifests.forget_lost(lost)?;
                return Ok(true);
            }
            Other::Unreadable(session) => session,
        };
        // A session of its own: no prune believes to be alone while a claim vanishes.
        let begin = || Session::begin_read(&self.sealer, self.options.process, self.options.policy);
        let own = self.with_reserve(|_| begin().map_err(Error::from)).0?;
        let ended = self.manifests.end_unreadable_session(found, &own);
        own.end()?;
        Ok(ended?)
    }

    /// What has this number and no manifest, if it may be forgotten.
    ///
    /// # Errors
    /// `Held` for a session that may run; of the storage.
    pub(super) fn other(&self, id: &str, request: &ForgetRequest) -> Result<Option<Other>> {
        let Some(id) = id.parse().ok().and_then(|number| SessionId::new(number).ok()) else {
            return Ok(None);
        };
        if let Some(lost) = self.manifests.find_lost(id)? {
            return Ok(Some(Other::Lost(lost)));
        }
        let Some(session) = self.manifests.find_unreadable_session(id)? else {
            return Ok(None);
        };
        let why = &session.why;
        if !request.force_unreadable {
            return Err(Error::Held(format!(
                "{why}; session {id} has no backup, and may run: when its process is gone for sure, end it with \
                 --force-unreadable"
            )));
        }
        if session.is_alive {
            return Err(Error::Held(format!(
                "session {id} is not ended: its process runs on this machine; end that first"
            )));
        }
        // This puts a claim with a higher number. On a full disk it needs the reserve.
        let now = if request.is_dry_run {
            // The user may lack the right to write.
            self.storage_now().unwrap_or(UnixNanos::new(i64::MAX))
        } else {
            self.with_reserve(|_| self.storage_now()).0?
        };
        let (silent, needed) = (session.silent_for(now), self.options.policy.unmoved_for);
        if silent < needed {
            return Err(Error::Held(format!(
                "session {id} is not ended: it has put an object {} s ago, by the storage's clock; end its process, and \
                 run the command again when the session has been silent for {} s",
                silent.as_secs(),
                needed.as_secs()
            )));
        }
        Ok(Some(Other::Unreadable(session)))
    }
}
