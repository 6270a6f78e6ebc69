//! Ending a session that is dead, or that does not answer.
//!
//! The ending is created like any other: of all processes that try, one wins, and the session finds
//! it if it wakes. The caller decides whether a session is dead ([`crate::DeathWatch`], or no
//! answer for T'). A wrong decision costs a backup that must start again, and no stored data.
//! Nothing of an expired session is kept for it. Several processes may do this at once.

use format::manifest::Manifest;
use format::names;
use types::{Revision, SeriesId, SessionId};

use crate::error::{EndedBy, Result, SessionError};
use crate::objects::Put;
use crate::session::{Session, TARGET};
use crate::session_table::SessionInfo;

impl Session {
    /// Ends another session as expired. Durable on return. Returns how it has ended: by this call,
    /// or in a way that it or another session has recorded before.
    ///
    /// # Errors
    /// Those of [`Session::ensure_running`]; of the storage.
    pub fn expire(&self, victim: &SessionInfo) -> Result<EndedBy> {
        self.ensure_running()?;
        let ending = Manifest::Expired { by: self.id() };
        let how = self.end_other(victim.claim.series, victim.id, &ending)?;
        tracing::info!(target: TARGET, session = %self.id(), victim = %victim.id, ?how, "ends another session");
        Ok(how)
    }

    pub(crate) fn end_other(
        &self,
        series: SeriesId,
        victim: SessionId,
        ending: &Manifest,
    ) -> Result<EndedBy> {
        let name = names::manifest(series, victim, Revision::FIRST);
        let objects = &self.inner.objects;
        if objects.put_durably(&name, ending)? == Put::Created {
            return Ok(EndedBy::of(ending));
        }
        let contended = || SessionError::Contended {
            name: name.to_string(),
        };
        let how = objects.ending(series, victim)?.ok_or_else(contended)?;
        // The caller acts on an ending that another process created, so it must be durable.
        objects.barrier()?;
        Ok(how)
    }
}
