//! The bytes that a namespace may add to the store.
//!
//! Backups that run at the same time share what is left. Data of an interrupted backup is not
//! counted once that backup has ended: the next one of its series takes it over, or prune frees it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::Refusal;

use crate::peer::{User, failed, not_allowed};

/// What is left of a namespace's quota while a backup runs.
#[derive(Debug)]
pub(crate) struct Quota {
    limit: Option<u64>,
    /// Bytes of committed backups.
    committed: u64,
    /// Bytes of all running ones, ...
    running: Arc<AtomicU64>,
    /// ... and of this one among them.
    own: AtomicU64,
}

impl Quota {
    /// The quota of the user's namespace. Refuses if nothing of it is left.
    pub(crate) fn of(user: &User) -> Result<Self, Refusal> {
        let limit = user.limits.quota_bytes;
        let quota = Self {
            limit,
            committed: limit.map_or(Ok(0), |_| committed(user))?,
            running: Arc::clone(&user.running_bytes),
            own: AtomicU64::new(0),
        };
        quota.take(0)?;
        Ok(quota)
    }

    /// Takes bytes from it. Takes none if it refuses.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Refusal> {
        let running = self.running.fetch_add(bytes, Ordering::Relaxed);
        let used = self.committed.saturating_add(running).saturating_add(bytes);
        match self.within(used) {
            Ok(()) => drop(self.own.fetch_add(bytes, Ordering::Relaxed)),
            Err(refusal) => {
                self.running.fetch_sub(bytes, Ordering::Relaxed);
                return Err(refusal);
            }
        }
        Ok(())
    }

    /// Refuses if the namespace's backups, with this one, have more bytes than the quota. Others
    /// may have been committed since this one began.
    pub(crate) fn ensure(&self, user: &User) -> Result<(), Refusal> {
        if self.limit.is_none() {
            return Ok(());
        }
        let own = self.own.load(Ordering::Relaxed);
        self.within(committed(user)?.saturating_add(own))
    }

    fn within(&self, used: u64) -> Result<(), Refusal> {
        let Some(limit) = self.limit.filter(|limit| used >= *limit) else {
            return Ok(());
        };
        Err(not_allowed(format!(
            "the namespace's quota of {limit} bytes is used up; forget backups, or ask the server's operator to raise it"
        )))
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.running
            .fetch_sub(self.own.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// The bytes that the namespace's backups have added to the store.
fn committed(user: &User) -> Result<u64, Refusal> {
    let list = user.store.snapshots().map_err(failed)?;
    let backups = list.snapshots.iter().map(|snapshot| &snapshot.backup);
    let own = backups.filter(|backup| user.namespace.has(backup));
    Ok(own.map(|backup| backup.totals.bytes_stored).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::RunningBytes;

    fn quota(running: &Arc<AtomicU64>) -> Quota {
        Quota {
            limit: Some(100),
            committed: 30,
            running: Arc::clone(running),
            own: AtomicU64::new(0),
        }
    }

    #[test]
    fn backups_that_run_at_the_same_time_share_what_is_left() {
        let all = RunningBytes::default();
        let (one, other) = (quota(&all.of("web")), quota(&all.of("web")));
        one.take(40).unwrap();
        other.take(20).unwrap();
        assert!(other.take(20).is_err());
        assert_eq!(
            all.of("web").load(Ordering::Relaxed),
            60,
            "a refused take takes nothing"
        );
        drop(other);
        one.take(20).unwrap();
        assert!(one.take(10).is_err());
        quota(&all.of("mail")).take(60).unwrap();
        drop(one);
        quota(&all.of("web")).take(60).unwrap();
    }
}
