//! Reads backups while other processes forget and prune them.
//!
//! A reader of a backup's content (restore, dump, listing, check, layout) first declares the backup
//! in a read session, as a backup declares its parent. Reclamation keeps the data that the declared
//! revision reaches until the session ends, even if the backup is forgotten meanwhile. The
//! session's heartbeat task answers epochs. A dead process is found by its free lock.
//!
//! No cache is dropped when an epoch appears. Declared data is not removed, and slots change
//! neither number nor content in any generation (INV-2). So cached nodes and catalogs stay right,
//! and bytes of a compacted generation are read from the newer one.
//!
//! If the store cannot be written, the reader works without a pin, because a restore is more
//! important. If the backup is then forgotten and pruned during the read, listing the backups again
//! distinguishes this from damage ([`Reading::explain`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use format::config::Settings;
use recipe::NodeCache;
use reclaim::Links;
use restore::RestoreError;
use session::{ChainLink, HeartbeatTask, ManifestEntry, ManifestList, ReadEnd, Session};
use types::SessionId;

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::warning::Warning;

/// Once in so many sessions, a reader removes the objects of ended sessions. Each session leaves a
/// few small objects, and a store may be read often between two backups.
const SESSIONS_A_TIDY: u64 = 16;

/// How many containers a failed or interrupted operation reads again, to list their damage.
const MET_MAX: usize = 8;

/// Pins backups while they are read. Dropping it releases them.
pub(crate) struct Reading<'a> {
    store: &'a Store,
    pin: Option<(Session, HeartbeatTask)>,
    chosen: Vec<SessionId>,
    list: ManifestList,
    links: OnceLock<Vec<ChainLink>>,
    notes: Vec<Warning>,
}

impl<'a> Reading<'a> {
    /// Pins the backups that `choose` names from the list. It may call `choose` several times.
    ///
    /// # Errors
    /// Of the storage, if not even the backups can be listed.
    pub(crate) fn begin(store: &'a Store, choose: impl Fn(&ManifestList) -> Vec<SessionId>) -> Result<Self> {
        let mut reading = Self {
            store,
            pin: None,
            chosen: Vec::new(),
            list: ManifestList::default(),
            links: OnceLock::new(),
            notes: Vec::new(),
        };
        if store.options.pin_reads {
            match reading.pin(&choose) {
                Ok(()) => return Ok(reading),
                Err(error) => reading.notes.push(Warning::NotPinned {
                    why: error.to_string(),
                }),
            }
        }
        reading.list = store.manifests.list()?;
        reading.chosen = choose(&reading.list);
        Ok(reading)
    }

    /// Pins one backup, and returns it in the revision that counts now.
    ///
    /// # Errors
    /// `Forgotten`; those of [`Self::begin`].
    pub(crate) fn of(store: &'a Store, snapshot: &Snapshot) -> Result<(Self, Snapshot)> {
        let id = snapshot.id;
        let is_there = |list: &ManifestList| list.get(id).and_then(Snapshot::of).is_some();
        let reading = Self::begin(store, |list| is_there(list).then_some(id).into_iter().collect())?;
        let current = reading.list.get(id).and_then(Snapshot::of);
        let current = current.ok_or(Error::Forgotten { id, why: None })?;
        Ok((reading, current))
    }

    fn pin(&mut self, choose: &impl Fn(&ManifestList) -> Vec<SessionId>) -> Result<()> {
        let store = self.store;
        store.ensure_writable()?;
        let since = store.first_listings.take(&store.env);
        let (process, policy) = (store.options.process, store.options.policy);
        let session = Session::begin_read_with(&store.manifests, process, policy, since)?;
        store.enter_period(&session.view());
        let heartbeats = store.heartbeats.add(&session);
        let (list, chosen) = (&mut self.list, &mut self.chosen);
        let declared = session.choose_parents(|listed| {
            list.clone_from(listed);
            chosen.clone_from(&choose(listed));
            chosen.clone()
        });
        match (heartbeats, declared) {
            (Ok(heartbeats), Ok(_)) => {
                if session.id().get().is_multiple_of(SESSIONS_A_TIDY) {
                    // The next one removes the rest.
                    self.notes.extend(
                        session
                            .gc_sessions()
                            .err()
                            .map(|error| Warning::traces_left(&error)),
                    );
                }
                self.pin = Some((session, heartbeats));
                Ok(())
            }
            (Err(error), _) | (_, Err(error)) => {
                // Without an ending, other sessions find it dead by its lock.
                drop(session.end());
                Err(error.into())
            }
        }
    }

    /// The chains of the chosen backups, looked up once.
    fn links(&self) -> Result<&[ChainLink]> {
        if let Some(links) = self.links.get() {
            return Ok(links);
        }
        let chosen = self.chosen.iter().filter_map(|id| self.list.get(*id));
        let links = self.store.manifests.chains(&self.list, chosen)?;
        Ok(self.links.get_or_init(|| links))
    }

    /// The store's nodes, for the chosen backups. Backups that they refer forward to are read and
    /// pinned in the revisions that were listed with them (R2).
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn nodes(&self) -> Result<NodeCache> {
        let links = self.links()?.to_vec();
        Ok(self.store.nodes().with_streams(Arc::new(Links::of(links))))
    }

    /// Like [`Self::nodes`], but without cached nodes: it reads the storage again.
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn fresh_nodes(&self) -> Result<NodeCache> {
        let links = self.links()?.to_vec();
        let nodes = self.store.fresh_nodes();
        Ok(nodes.with_streams(Arc::new(Links::of(links))))
    }

    /// The next backup of each chosen one, and of each that they lead to. Numbers ascend, so a
    /// chain ends.
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn nexts(&self) -> Result<BTreeMap<SessionId, SessionId>> {
        let chosen = self.chosen.iter().filter_map(|id| self.list.get(*id));
        let links = self.links()?;
        let own = chosen.filter_map(|entry| Some((entry.session(), entry.backup()?.next?)));
        let of_links = links
            .iter()
            .filter_map(|link| Some((link.session, link.backup.next?)));
        Ok(own.chain(of_links).filter(|(from, next)| next > from).collect())
    }

    /// The forgotten backups that the chosen ones refer forward to.
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn forgotten_links(&self) -> Result<Vec<ChainLink>> {
        let mut links = self.links()?.to_vec();
        links.retain(|link| {
            self.list
                .get(link.session)
                .is_some_and(ManifestEntry::is_forgotten)
        });
        Ok(links)
    }

    /// The permanent settings of the store.
    pub(crate) fn settings(&self) -> Settings {
        self.store.settings()
    }

    /// The manifests from which the choice was made.
    pub(crate) fn list(&self) -> &ManifestList {
        &self.list
    }

    /// The error to report. If the backup was not pinned and has been forgotten since, the error
    /// says so.
    pub(crate) fn explain(&self, error: Error) -> Error {
        self.store.note_missing_of(&error);
        if !error.is_of_stored() {
            return error;
        }
        match self.forgotten() {
            Some(id) => Error::Forgotten {
                id,
                why: Some(Box::new(error)),
            },
            None => error,
        }
    }

    /// Records a container that an error calls missing.
    pub(crate) fn note_missing(&self, error: &RestoreError) {
        self.store.note_missing(error);
    }

    /// A backup that was not pinned for this reader and has been forgotten since. Missing data of
    /// it is no damage.
    pub(crate) fn forgotten(&self) -> Option<SessionId> {
        let is_kept = self
            .pin
            .as_ref()
            .is_some_and(|(session, _)| session.tick().is_ok());
        if is_kept {
            return None;
        }
        let now = self.store.manifests.list().ok()?;
        let is_gone = |id: &&SessionId| now.get(**id).is_none_or(|entry| entry.backup().is_none());
        self.chosen.iter().find(is_gone).copied()
    }

    /// Ends the session. Passes warnings to the monitor.
    pub(crate) fn end(mut self, monitor: &Monitor) {
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.store.note_met());
        match self.pin.take().map(|(session, _)| session.end()) {
            None | Some(Ok(ReadEnd::Clean)) => {}
            Some(Ok(ReadEnd::Elsewhere(how))) => notes.push(Warning::PinLost { how: how.to_string() }),
            Some(Err(error)) => notes.push(Warning::PinNotEnded {
                why: error.to_string(),
            }),
        }
        notes.into_iter().for_each(|note| monitor.add_note(note));
    }
}

/// Pinned backups, and their nodes once they are asked for.
pub(crate) struct PinnedBackups<'a> {
    pub(crate) reading: Reading<'a>,
    pub(crate) snapshots: Vec<Snapshot>,
    nodes: OnceLock<NodeCache>,
}

impl<'a> PinnedBackups<'a> {
    /// Pins backups in the revisions that count now. Those that were forgotten are left out.
    ///
    /// # Errors
    /// Those of [`Reading::begin`].
    pub(crate) fn of(store: &'a Store, snapshots: &[Snapshot]) -> Result<Self> {
        let wanted: BTreeSet<SessionId> = snapshots.iter().map(|snapshot| snapshot.id).collect();
        let found = |list: &ManifestList| -> Vec<Snapshot> {
            let found = wanted.iter().filter_map(|id| list.get(*id));
            found.filter_map(Snapshot::of).collect()
        };
        let ids = |list: &ManifestList| found(list).iter().map(|snapshot| snapshot.id).collect();
        let reading = Reading::begin(store, ids)?;
        Ok(Self {
            snapshots: found(&reading.list),
            reading,
            nodes: OnceLock::new(),
        })
    }

    /// The store's nodes, for these backups.
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn nodes(&self) -> Result<&NodeCache> {
        if let Some(nodes) = self.nodes.get() {
            return Ok(nodes);
        }
        let nodes = self.reading.nodes()?;
        Ok(self.nodes.get_or_init(|| nodes))
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        if let Some((session, _)) = self.pin.take() {
            // The operation has failed and returns its own error. Without an ending, other sessions
            // find this one dead by its lock. Later readers will find the damage that it does not
            // list now.
            drop(self.store.list_met(MET_MAX));
            drop(session.end());
        }
    }
}
