//! Backups with a client outside this library: at the other end of a connection, or in a test.

use std::fmt;
use std::sync::Arc;

use ingest::{BackupSession, Committed, Counters};
use recipe::TreeRoot;
use session::{DeathWatch, Life, ManifestEntry, SessionTable};
use types::SessionId;

use crate::backup_run::BegunBackup;
use crate::error::Result;
use crate::heal::Healed;
use crate::monitor::Monitor;
use crate::repository::Beginning;
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::warning::Warning;

/// A running backup in this store. If it is dropped before its commit, the next backup of the
/// series takes over its data.
pub struct HostedBackup {
    begun: BegunBackup,
}

impl Store {
    /// Begins a backup of a series, and leaves its client's half to the caller. It may copy from
    /// its parents. If it resumes an interrupted backup, [`ingest::Terms`] has the position. The
    /// store trusts the client: later backups rely on the fingerprints that it states.
    ///
    /// # Errors
    /// If no backup can begin; if a named parent no longer exists, or cannot be copied from.
    pub fn host(&self, how: &Beginning<'_>) -> Result<HostedBackup> {
        let begun = self.begin_backup(how, &Arc::new(Counters::default()))?;
        Ok(HostedBackup { begun })
    }
}

/// Watches whether a session may still commit, which another process may run.
#[derive(Debug)]
pub struct SessionWatch<'a> {
    store: &'a Store,
    id: SessionId,
    watch: DeathWatch,
}

impl Store {
    /// Begins to watch a session.
    #[must_use]
    pub fn watch_session(&self, id: SessionId) -> SessionWatch<'_> {
        SessionWatch {
            store: self,
            id,
            watch: DeathWatch::new(self.env.clone(), self.options.policy),
        }
    }
}

impl SessionWatch<'_> {
    /// Whether the session has ended, or counts as dead. Where no lock shows that it lives, it
    /// counts as dead after three heartbeats that did not come since the watch began.
    ///
    /// # Errors
    /// Of the storage.
    pub fn is_over(&self) -> Result<bool> {
        let Some(info) = SessionTable::one(&self.store.sealer, self.id)? else {
            return Ok(true);
        };
        let silence = 3 * self.store.options.policy.heartbeat_every;
        Ok(match self.watch.observe(&info) {
            Life::Alive => false,
            Life::Unsure { unmoved } => unmoved >= silence,
            Life::Dead(_) => true,
        })
    }
}

impl HostedBackup {
    /// The backup's number, if it is committed.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.begun.local.store().session().id()
    }

    /// The session, for its client.
    #[must_use]
    pub fn session(&self) -> &dyn BackupSession {
        &self.begun.local
    }

    /// The streams of each backup of [`Self::parent_backups`], in the same order.
    #[must_use]
    pub fn parents(&self) -> Vec<Vec<TreeRoot>> {
        let backups = self.begun.parents.iter().filter_map(ManifestEntry::backup);
        backups
            .map(|backup| backup.streams.iter().map(TreeRoot::from).collect())
            .collect()
    }

    /// The named parents, or the chosen one.
    #[must_use]
    pub fn parent_backups(&self) -> Vec<Snapshot> {
        self.begun.parents.iter().filter_map(Snapshot::of).collect()
    }

    /// What follows the commit in the store: healing damaged containers with the new data. Returns
    /// the healed ones. Nothing that fails here harms the backup.
    #[must_use]
    pub fn after_commit(&self, store: &Store, committed: &Committed) -> (Vec<Healed>, Vec<Warning>) {
        // Its client waits for the answer, so this does not wait.
        let mut warnings = Vec::from_iter(self.begun.tidying.ended());
        let index = &self.begun.index;
        let now = store.env.storage.moment();
        let healed = store.after_commit(committed, now, index, &Monitor::default(), &mut warnings);
        (healed, warnings)
    }

    /// Errors at the beginning of the backup that did not prevent it.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.begun.warnings
    }
}

impl fmt::Debug for HostedBackup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostedBackup").finish_non_exhaustive()
    }
}
