//! Ending a session that becomes no backup: a read session, or a backup that is given up for good.
//!
//! The ending is the same object as for everybody: `.0` says "expired", by the session itself. That marks
//! a session which knows that it has ended and will never wake, so [`Session::tidy`] may remove the marker
//! of a read session together with its claim. A backup that failed and may be resumed is *not* ended:
//! dropping its handle leaves it to be adopted.

use format::manifest::Manifest;
use format::names;
use types::Revision;

use crate::error::{EndedBy, Result, SessionError};
use crate::objects::Put;
use crate::session::{End, Session, locked};

/// How a session ended that became no backup.
#[derive(Debug)]
pub enum ReadEnd {
    /// By itself: what it had declared was kept all the time.
    Clean,
    /// Another had ended it before: what it read last may have been removed under it.
    Elsewhere(EndedBy),
}

impl Session {
    /// Ends the session without a backup. What it declared is no longer kept for it.
    ///
    /// # Errors
    /// `Closed` where it has ended itself before; of the storage.
    pub fn end(&self) -> Result<ReadEnd> {
        let inner = &self.inner;
        let _turn = locked(&inner.turn);
        match inner.ensure_running() {
            Err(error @ SessionError::Closed { .. }) => return Err(error),
            Err(SessionError::EndedElsewhere { how, .. }) => return Ok(ReadEnd::Elsewhere(how)),
            // A session that gave up has no ending yet; giving it one is what reclamation would do.
            Ok(()) | Err(_) => {}
        }
        let name = names::manifest(inner.series, inner.id, Revision::FIRST);
        if inner
            .objects
            .put_durably(&name, &Manifest::Expired { by: inner.id })?
            == Put::Taken
            && let Some(how) = inner.objects.ending(inner.series, inner.id)?
            && how != (EndedBy::Expired { by: inner.id })
        {
            drop(inner.end(End::Elsewhere(how.clone())));
            inner.unlock()?;
            return Ok(ReadEnd::Elsewhere(how));
        }
        drop(inner.end(End::Closed));
        inner.remove_traces()?;
        Ok(ReadEnd::Clean)
    }
}
