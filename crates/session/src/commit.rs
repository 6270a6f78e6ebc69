//! Commit: the session becomes a backup, or finds that another session has ended it.
//!
//! The order (INV-1): barrier, so that every container and node that the manifest reaches is
//! durable; put the manifest `.0`; barrier, after which the commit is acknowledged; delete the
//! session's heartbeats and checkpoints.
//!
//! - The claim stays. The commit looks for it before and after the manifest, because a process that
//!   drops an ending drops the claim first. If the storage does not answer the second time, the
//!   commit asks again for a while: the manifest is durable, and only the answer is missing.
//! - The session puts a record of the commit before it deletes the heartbeats, so that a later loss
//!   of the manifest is noticed ([`crate::LostBackup`]). No barrier waits for it.
//! - An error after the manifest may exist says that the backup may be stored.
//! - A process that dies after the manifest leaves a backup and some small objects.
//!   [`Session::gc_sessions`] of any later session removes them.
//! - An epoch that was seen and not answered needs no answer: the reclaimer lists manifests after
//!   every session has answered or ended.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use env::StorageError;
use format::manifest::{Backup, Manifest};
use format::names;
use format::session::Claim;
use object::ObjectError;
use types::{ObjectName, Revision, SessionId};

use crate::checkpoint::covers;
use crate::error::{EndedBy, Result, SessionError};
use crate::objects::{Put, Read};
use crate::session::{End, Inner, Record, Session, TARGET, locked};
use crate::session_table::Folder;

/// How often to ask the storage for the claim of a durable backup.
const LOOKS_MAX: u32 = 5;
/// How long to wait before the second request. Each further wait is twice as long.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A backup that is visible and durable.
#[derive(Debug)]
pub struct Committed {
    /// The backup's id.
    pub session: SessionId,
    /// Its manifest.
    pub manifest: ObjectName,
    /// An error after the backup was safe. Small objects stay until a later session removes them.
    pub warnings: Option<SessionError>,
}

impl Session {
    /// Makes the session a backup. Every container must have been put through the same storage
    /// handle, and every look-up's guard must have been dropped. The commit fills in the declared
    /// parents and the adoptions. Durable on return. After an error of the storage the caller may
    /// call it again.
    ///
    /// # Errors
    /// Those of [`Self::commit_and`].
    pub fn commit(&self, backup: Backup) -> Result<Committed> {
        self.commit_and(backup, || ())
    }

    /// Like [`Self::commit`]. Calls `then` once the backup is durable, whatever else fails then. On
    /// a far storage it runs beside the removal of the session's objects, elsewhere behind it.
    /// `then` must not use the session.
    ///
    /// # Errors
    /// `EndedElsewhere` if another session ended this one: then this call stored nothing; `GaveUp`;
    /// `Unconfirmed` if the storage failed when the backup may have been stored; `NotTakenBack`;
    /// `Misuse` if the backup lacks containers that a checkpoint named; of the storage.
    pub fn commit_and(&self, mut backup: Backup, then: impl FnOnce() + Send) -> Result<Committed> {
        let inner = &self.inner;
        let _turn = locked(&inner.turn);
        let record = locked(&inner.record);
        let misuse = |rule| SessionError::Misuse {
            session: inner.id,
            rule,
        };
        if self.is_read() {
            return Err(misuse("a read session becomes no backup"));
        }
        if !covers(&backup.containers, &record.containers) {
            return Err(misuse("the backup lacks containers that a checkpoint named"));
        }
        backup.parents = self_parents(&record.parents);
        backup.adopted.clone_from(&record.adopted);
        inner.ensure_running()?;
        let name = names::manifest(inner.series, inner.id, Revision::FIRST);
        inner.objects.barrier()?;
        inner.ensure_running()?;
        if !inner.is_claimed()? {
            // Because of this ending, a sweep removes the containers that were put since. If an
            // earlier call has put the manifest, it is forgotten.
            let ending = Manifest::Expired { by: inner.id };
            if inner.objects.put_durably(&name, &ending)? == Put::Taken
                && let Read::Whole(Manifest::Commit(_)) = inner.objects.read::<Manifest>(&name)?
            {
                inner.manifests.forget(inner.series, inner.id)?;
            }
            return Err(inner.ended_long_ago());
        }
        let put = inner.objects.put(&name, &Manifest::Commit(backup));
        if put.map_err(|error| inner.unless_refused(error))? == Put::Taken {
            inner.ended_by_own_commit(&name)?;
        }
        let durable = inner.objects.barrier();
        durable.map_err(|error| inner.unconfirmed(error))?;
        inner.awake_all_along()?;
        // The first recorded end counts: a heartbeat thread may have seen the manifest before this
        // line.
        drop(inner.end(End::Closed));
        // If the record cannot be put, heartbeats and checkpoints stay, so that tidying puts the
        // record.
        let tidy = || {
            let unlocked = inner.unlock();
            let recorded = unlocked.and_then(|()| inner.record_commit());
            recorded.and_then(|()| inner.remove_traces(&record)).err()
        };
        let warnings = if inner.objects.storage().is_far() {
            beside(tidy, then)
        } else {
            let warnings = tidy();
            then();
            warnings
        };
        tracing::info!(target: TARGET, session = %inner.id, manifest = %name, "is committed");
        Ok(Committed {
            session: inner.id,
            manifest: name,
            warnings,
        })
    }
}

/// Runs `first` here, and `second` on a thread of its own; if the system gives none, behind it.
fn beside<R>(first: impl FnOnce() -> R, second: impl FnOnce() + Send) -> R {
    let second = Mutex::new(Some(second));
    let run = || {
        let second = locked(&second).take();
        second.map(|second| second())
    };
    let first = thread::scope(|scope| {
        drop(thread::Builder::new().spawn_scoped(scope, run));
        first()
    });
    run();
    first
}

fn self_parents(parents: &[(types::SeriesId, SessionId, Revision)]) -> Vec<(SessionId, Revision)> {
    let mut parents: Vec<_> = parents
        .iter()
        .map(|(_, session, revision)| (*session, *revision))
        .collect();
    parents.sort_unstable();
    parents.dedup();
    parents
}

impl Inner {
    /// The name is taken. If an earlier call put the commit although it seemed to fail, that commit
    /// counts. Otherwise the session was ended.
    fn ended_by_own_commit(&self, name: &ObjectName) -> Result<()> {
        let read = self.objects.read::<Manifest>(name);
        let how = match read.map_err(|error| self.unconfirmed(error))? {
            Read::Whole(Manifest::Commit(_)) => return Ok(()),
            Read::Whole(other) => EndedBy::of(&other),
            Read::Damaged(_) => EndedBy::Unreadable,
            Read::Missing => {
                return Err(SessionError::Contended {
                    name: name.to_string(),
                });
            }
        };
        Err(self.end(End::Elsewhere(how)))
    }

    /// Makes sure that the session did not sleep too long inside the commit. If it slept for days,
    /// another session may have ended it, swept its data and deleted the ending, so the new backup
    /// is forgotten. If the clocks do not show this, a missing claim does.
    fn awake_all_along(&self) -> Result<()> {
        let over = match self.ensure_running() {
            Err(silent @ SessionError::GaveUp { .. }) => silent,
            _ if self.is_claimed_still()? => return Ok(()),
            _ => {
                // First forget the backup, and then end this session. Until the backup is
                // forgotten, the caller may call again.
                self.take_back()?;
                return Err(self.ended_long_ago());
            }
        };
        self.take_back()?;
        Err(over)
    }

    /// Forgets the backup that this session has just become.
    fn take_back(&self) -> Result<()> {
        let forgotten = self.manifests.forget(self.series, self.id);
        forgotten.map(drop).map_err(|error| SessionError::NotTakenBack {
            session: self.id,
            source: Box::new(error),
        })
    }

    /// Whether the claim exists. The backup is durable already, so it waits for a storage that
    /// fails for a moment.
    fn is_claimed_still(&self) -> Result<bool> {
        let mut wait = LOOK_AGAIN_AFTER;
        for _ in 1..LOOKS_MAX {
            match self.is_claimed() {
                Err(SessionError::Storage(StorageError::Io { .. })) => {}
                found => return found.map_err(|error| self.unconfirmed(error)),
            }
            self.objects.clock().sleep(wait);
            wait *= 2;
        }
        self.is_claimed().map_err(|error| self.unconfirmed(error))
    }

    /// The error for a failure when the manifest may exist already.
    fn unconfirmed(&self, error: SessionError) -> SessionError {
        SessionError::Unconfirmed {
            session: self.id,
            source: Box::new(error),
        }
    }

    /// The error for a failed put of the manifest. A refusal stores nothing, but the answer to a
    /// successful put may be lost.
    fn unless_refused(&self, error: SessionError) -> SessionError {
        let is_lost = matches!(
            error,
            SessionError::Storage(StorageError::Io { .. })
                | SessionError::Object(ObjectError::Storage(StorageError::Io { .. }))
        );
        if is_lost { self.unconfirmed(error) } else { error }
    }

    /// Whether the claim exists. With wrong clocks, an ending may be deleted while its session
    /// still lives. The claim is durably deleted before the ending. So without a claim, a free name
    /// of the ending proves nothing. A proxy may say "not found" of an object that is there, so the
    /// listing must say so, too.
    fn is_claimed(&self) -> Result<bool> {
        let claim = names::claim(self.id);
        if self.objects.exists(&claim)? {
            return Ok(true);
        }
        let listed = self.objects.storage().list(&names::session_folder(self.id))?;
        Ok(listed.iter().any(|object| object.name == claim))
    }

    fn ended_long_ago(&self) -> SessionError {
        let how = EndedBy::LongAgo;
        drop(self.end(End::Elsewhere(how.clone())));
        SessionError::EndedElsewhere {
            session: self.id,
            how,
        }
    }

    /// Puts the record that the session became a backup, beside its manifest.
    fn record_commit(&self) -> Result<()> {
        let record = Claim {
            series: self.series,
            name: self.name.clone(),
            process: 0,
            has_lock: false,
        };
        self.objects.put(&names::committed(self.id), &record)?;
        Ok(())
    }

    /// Removes the session's heartbeats and checkpoints, and releases its lock. The claim stays.
    /// Nobody else puts these objects, so their names are known.
    pub(crate) fn remove_traces(&self, record: &Record) -> Result<()> {
        self.unlock()?;
        let mut beat = locked(&self.beat);
        let folder = Folder {
            heartbeats: beat.written.drain(..).collect(),
            checkpoints: (0..record.next_number).collect(),
            ..Folder::default()
        };
        crate::gc_sessions::remove(&self.objects, self.id, &folder, None)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    #[test]
    fn both_run_at_once() {
        let (told, heard) = mpsc::channel();
        let first = super::beside(|| heard.recv().unwrap(), move || told.send(7).unwrap());
        assert_eq!(first, 7);
    }
}
