//! The running backups of all clients: their bytes, by namespace, and their connections, by the
//! numbers that the clients gave them.
//!
//! A client that lost its connection ends the backup that it had there, before another one takes
//! over the data: the server may not have noticed yet that the connection is gone.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use transport::Closer;

/// The bytes that running backups have added, by namespace.
#[derive(Debug, Default)]
pub(crate) struct RunningBytes(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

impl RunningBytes {
    /// Of one namespace.
    pub(crate) fn of(&self, namespace: &str) -> Arc<AtomicU64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(namespace.to_owned()).or_default())
    }
}

/// How long a backup waits for one with its number that is about to end.
const SOON: Duration = Duration::from_secs(2);

/// A namespace, and the number of an attempt in it.
type Attempt = (String, u64);

/// The running backups.
#[derive(Debug, Default)]
pub(crate) struct RunningBackups {
    all: Mutex<BTreeMap<Attempt, Closer>>,
    ended: Condvar,
}

/// A running backup. Dropping it says that it has ended.
pub(crate) struct RunningBackup<'a> {
    all: &'a RunningBackups,
    attempt: Attempt,
}

impl RunningBackups {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Attempt, Closer>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A backup begins. `None`: one with this number runs. A client hears of its commit a moment
    /// before the backup ends here, so this waits for such a moment.
    pub(crate) fn begin(&self, namespace: &str, attempt: u64, closer: &Closer) -> Option<RunningBackup<'_>> {
        self.begin_within(SOON, namespace, attempt, closer)
    }

    fn begin_within(
        &self,
        wait: Duration,
        namespace: &str,
        attempt: u64,
        closer: &Closer,
    ) -> Option<RunningBackup<'_>> {
        let attempt = (namespace.to_owned(), attempt);
        let runs = |all: &mut BTreeMap<Attempt, Closer>| all.contains_key(&attempt);
        let waited = self.ended.wait_timeout_while(self.all(), wait, runs);
        let (mut all, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if all.contains_key(&attempt) {
            return None;
        }
        all.insert(attempt.clone(), closer.clone());
        drop(all);
        Some(RunningBackup { all: self, attempt })
    }

    /// Closes the connections of these backups, and waits until they have ended. Returns whether
    /// they have within `patience`.
    pub(crate) fn end(&self, namespace: &str, attempts: &[u64], patience: Duration) -> bool {
        let runs = |all: &BTreeMap<Attempt, Closer>, attempt: &u64| {
            all.get(&(namespace.to_owned(), *attempt)).cloned()
        };
        let all = self.all();
        let closers: Vec<Closer> = attempts.iter().filter_map(|one| runs(&all, one)).collect();
        drop(all);
        for closer in closers {
            closer.close();
        }
        let running =
            |all: &mut BTreeMap<Attempt, Closer>| attempts.iter().any(|attempt| runs(all, attempt).is_some());
        let waited = self.ended.wait_timeout_while(self.all(), patience, running);
        let (_all, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        !waited.timed_out()
    }
}

impl Drop for RunningBackup<'_> {
    fn drop(&mut self) {
        self.all.all().remove(&self.attempt);
        self.all.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_number_is_free_a_moment_after_its_commit() {
        let (all, closer) = (RunningBackups::default(), Closer::new(|| ()));
        let first = all.begin("web", 7, &closer).unwrap();
        let within = |millis| all.begin_within(Duration::from_millis(millis), "web", 7, &closer);
        assert!(within(10).is_none());
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::park_timeout(Duration::from_millis(100));
                drop(first);
            });
            assert!(within(60_000).is_some());
        });
    }
}
