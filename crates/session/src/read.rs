//! Ends a session that becomes no backup: a read session, or a backup that is given up for good.
//!
//! The ending is the usual object: `.0` records "expired", by the session itself. Such a session
//! knows its end and never wakes, so [`Session::gc_sessions`] may remove the ending of a read
//! session together with its claim. A failed backup that may be continued is *not* ended: dropping
//! its handle leaves it to be adopted.
//!
//! A read session's ending waits for no barrier, which after a restore would write back all
//! restored data. Until the ending is durable, the session leaves the same objects as a killed one,
//! except for its lock: a process that finds it after a power cut ends it. So its heartbeats and
//! checkpoints stay for [`Session::gc_sessions`].
//!
//! A read session refers only to its declared parents, so it answers epochs by itself. So does an
//! archival rewrite (R2): it refers only to slots that its parents reach or that it has put itself,
//! and reclamation keeps what a running session has put.

use format::manifest::Manifest;
use format::names;
use types::Revision;

use crate::checkpoint::Draft;
use crate::error::{EndedBy, Result, SessionError};
use crate::objects::Put;
use crate::session::{End, Session, locked};

/// How a session ended that became no backup.
#[derive(Debug)]
pub enum ReadEnd {
    /// It ended itself. Its declared parents were kept all the time.
    Clean,
    /// Another session had ended it before. Data that it read last may have been removed meanwhile.
    Elsewhere(EndedBy),
}

impl Session {
    /// Ends the session without a backup. Reclamation no longer keeps its parents for it. The
    /// ending is durable on return, except for a read session.
    ///
    /// # Errors
    /// `Closed` if it has ended itself before; of the storage.
    pub fn end(&self) -> Result<ReadEnd> {
        let inner = &self.inner;
        let _turn = locked(&inner.turn);
        match inner.ensure_running() {
            Err(error @ SessionError::Closed { .. }) => return Err(error),
            Err(SessionError::EndedElsewhere { how, .. }) => return Ok(ReadEnd::Elsewhere(how)),
            // A session that gave up has no ending yet. Reclamation would give it the same one.
            Ok(()) | Err(_) => {}
        }
        let name = names::manifest(inner.series, inner.id, Revision::FIRST);
        let ending = Manifest::Expired { by: inner.id };
        let put = if self.is_read() {
            inner.objects.put(&name, &ending)?
        } else {
            inner.objects.put_durably(&name, &ending)?
        };
        if put == Put::Taken
            && let Some(how) = inner.objects.ending(inner.series, inner.id)?
            && how != (EndedBy::Expired { by: inner.id })
        {
            drop(inner.end(End::Elsewhere(how.clone())));
            inner.unlock()?;
            return Ok(ReadEnd::Elsewhere(how));
        }
        drop(inner.end(End::Closed));
        if self.is_read() {
            // Wait for a heartbeat that is being put. If it arrived after the last clean-up, nobody
            // would delete it.
            drop(locked(&inner.beat));
            inner.unlock()?;
        } else {
            inner.remove_traces(&locked(&inner.record))?;
        }
        Ok(ReadEnd::Clean)
    }

    /// Answers the epochs that a session without look-ups has seen, by a checkpoint of its declared
    /// parents. Does nothing during a look-up: the next beat tries again.
    pub(crate) fn answer_reading(&self) -> Result<()> {
        if !self.checkpoint_wanted() || !self.is_drained() {
            return Ok(());
        }
        let turn = self.begin_checkpoint()?;
        let record = locked(&self.inner.record);
        let draft = Draft {
            containers: record.containers.clone(),
            references: record.references.clone(),
            streams: record.streams.clone(),
        };
        drop(record);
        turn.write(draft)?;
        Ok(())
    }
}
