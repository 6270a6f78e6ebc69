//! Commit: the session becomes a backup, or finds that it was ended.
//!
//! Order (INV-1): barrier, so that every container and node the manifest reaches is durable; the manifest
//! `.0`; barrier, after which it is acknowledged; then the session's own heartbeats and checkpoints go. The
//! claim stays; before the manifest and once more after it is looked for, since whoever drops an ending drops the claim
//! first. A process that dies after the manifest leaves a backup and some small objects, which
//! [`Session::tidy`] of any later session removes. An epoch that was seen and not answered needs no answer:
//! the reclaimer lists manifests after everybody answered or ended.

use format::manifest::{Backup, Manifest};
use format::names;
use types::{ObjectName, Revision, SessionId};

use crate::checkpoint::covers;
use crate::error::{EndedBy, Result, SessionError};
use crate::objects::{Put, Read};
use crate::session::{End, Inner, Session, locked};

/// A backup that is visible and durable.
#[derive(Debug)]
pub struct Committed {
    /// The backup's id.
    pub session: SessionId,
    /// Its manifest.
    pub manifest: ObjectName,
    /// What went wrong after the backup was safe: small objects stay behind until a later session tidies.
    pub untidy: Option<SessionError>,
}

impl Session {
    /// Makes the session a backup. Every container must have been put through the same storage handle, and
    /// every look-up's permit given back. Parents and adoptions are filled in from what was declared.
    /// Durable on return. After an error of the storage the call may be made again.
    ///
    /// # Errors
    /// `EndedElsewhere` where another ended the session: nothing was stored by this call; `GaveUp`;
    /// `Misuse` where the backup lacks containers that a checkpoint named; of the storage.
    pub fn commit(&self, mut backup: Backup) -> Result<Committed> {
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
            // By this ending is swept what was put since then. Where an earlier call has put the manifest, that is taken back.
            let ending = Manifest::Expired { by: inner.id };
            if inner.objects.put_durably(&name, &ending)? == Put::Taken
                && let Read::Whole(Manifest::Commit(_)) = inner.objects.read::<Manifest>(&name)?
            {
                inner.manifests.forget(inner.series, inner.id)?;
            }
            return Err(inner.ended_long_ago());
        }
        if inner.objects.put(&name, &Manifest::Commit(backup))? == Put::Taken {
            inner.ended_by_own_commit(&name)?;
        }
        inner.objects.barrier()?;
        inner.awake_all_along()?;
        // The first end stands: a pulse in another thread may have seen the manifest before this line.
        drop(inner.end(End::Closed));
        let untidy = inner.remove_traces().err();
        Ok(Committed {
            session: inner.id,
            manifest: name,
            untidy,
        })
    }
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
    /// The name is taken. By this session's own commit, when an earlier call's put failed only in
    /// appearance; that one stands. Otherwise the session was ended.
    fn ended_by_own_commit(&self, name: &ObjectName) -> Result<()> {
        let how = match self.objects.read::<Manifest>(name)? {
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

    /// A process that slept for days inside the commit may have been expired, swept, and its ending
    /// dropped: what it then created is taken back. So it is where the clocks do not tell, and the claim is gone.
    fn awake_all_along(&self) -> Result<()> {
        let over = match self.ensure_running() {
            Err(silent @ SessionError::GaveUp { .. }) => silent,
            _ if self.is_claimed()? => return Ok(()),
            _ => {
                // Before this session is over: until it is taken back, the call may be made again.
                self.manifests.forget(self.series, self.id)?;
                return Err(self.ended_long_ago());
            }
        };
        self.manifests.forget(self.series, self.id)?;
        Err(over)
    }

    /// Whether the claim is there. An ending may be dropped while its session still lives, by clocks that are wrong, and the
    /// claim goes before it, durably: without a claim, that the name of the ending is free says nothing.
    fn is_claimed(&self) -> Result<bool> {
        self.objects.exists(&names::claim(self.id))
    }

    fn ended_long_ago(&self) -> SessionError {
        let how = EndedBy::LongAgo;
        drop(self.end(End::Elsewhere(how.clone())));
        SessionError::EndedElsewhere {
            session: self.id,
            how,
        }
    }

    /// Removes the session's heartbeats and checkpoints, and lets go of its lock. The claim stays.
    pub(crate) fn remove_traces(&self) -> Result<()> {
        self.unlock()?;
        let mut beat = locked(&self.beat);
        let folder = crate::roster::one_folder(&self.objects, self.id)?;
        beat.written.clear();
        crate::tidy::remove(&self.objects, self.id, &folder, None)?;
        Ok(())
    }
}
