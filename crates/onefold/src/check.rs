//! Checks a store: its structure, and on demand every stored byte.
//!
//! A check reads everything that a backup needs: manifests, recipes up to their roots, and the
//! containers that they reach. It also opens every sealed small object. It reports each damage,
//! including unreadable sectors, by object and slots, with the affected backups and files. The
//! check then continues. Bad slots are listed under `damaged/`. Look-ups skip them, and the next
//! backup with the same chunks stores them again.

mod data;
mod files;
mod finding;
mod lost;
mod needs;
mod objects;
mod structure;

use std::collections::{BTreeMap, BTreeSet};

use container::ContainerError;
use env::StorageError;
use session::ManifestEntry;
use types::{ContainerId, SessionId};

use crate::error::{Error, Result};
use crate::monitor::{Monitor, WorkUnit};
use crate::reading::Reading;
use crate::scope::Scope;
use crate::store::Store;
use crate::warning::Warning;

pub use finding::{Damage, Finding};

/// How deep to check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReadData {
    /// Structure only.
    None,
    /// Structure, and the bytes of this share of the containers, 0 to 1: a different part each
    /// time.
    Share(f64),
}

impl ReadData {
    /// The share of the containers whose bytes are read; `None` for none.
    #[must_use]
    pub const fn share(self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Share(share) => Some(share),
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// Backups that were checked.
    pub backups: u64,
    /// Nodes that were checked.
    pub nodes: u64,
    /// Containers whose catalogs were checked.
    pub containers: u64,
    /// Containers whose bytes were read.
    pub containers_read: u64,
    /// Bytes read from them.
    pub bytes_read: u64,
    /// The damage that was found, each once.
    pub findings: Vec<Finding>,
    /// Small objects that cannot be read and that no backup needs, and sessions that left
    /// containers without an ending. Rot or a crash leaves them. They are no damage, but worth a
    /// report.
    pub leftovers: Vec<Finding>,
    /// Backups whose manifest the storage does not give now. They may be whole.
    pub unread_backups: BTreeSet<SessionId>,
    /// Backups that cannot be restored whole.
    pub damaged_backups: BTreeSet<SessionId>,
    /// Files that cannot be restored, by backup.
    pub damaged_files: BTreeMap<SessionId, Vec<Vec<u8>>>,
}

impl CheckReport {
    /// Whether nothing is wrong, apart from leftovers.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, object: impl ToString, what: Damage, is_covered: bool) {
        let finding = Finding {
            object: object.to_string(),
            what,
            is_covered,
        };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    fn leave(&mut self, object: impl ToString, what: Damage) {
        let leftover = Finding {
            object: object.to_string(),
            what,
            is_covered: true,
        };
        if !self.leftovers.contains(&leftover) {
            self.leftovers.push(leftover);
        }
    }

    /// Adds damage if a backup needs the object, else a leftover.
    fn find_if(&mut self, is_needed: bool, object: impl ToString, what: Damage, is_covered: bool) {
        if is_needed {
            self.find(object, what, is_covered);
        } else {
            self.leave(object, what);
        }
    }
}

impl Store {
    /// Checks the store.
    ///
    /// # Errors
    /// If the storage refuses or is gone, or the caller asked to stop; `Forgotten` if data is
    /// missing because a backup was forgotten and pruned meanwhile. Damage is no error: it is in
    /// the report.
    pub fn check(&self, read_data: ReadData, monitor: &Monitor) -> Result<CheckReport> {
        self.check_within(&Scope::default(), read_data, monitor)
    }

    /// Checks the backups of a part of the store, and everything that they need.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub fn check_within(&self, scope: &Scope, read_data: ReadData, monitor: &Monitor) -> Result<CheckReport> {
        let _past = self.past_cache();
        let reading = Reading::begin(self, |list| {
            let has = |entry: &&ManifestEntry| entry.backup().is_some_and(|backup| scope.has(backup));
            list.backups().filter(has).map(ManifestEntry::session).collect()
        })?;
        let mut report = CheckReport::default();
        let structure = structure::check((self, scope), &reading, monitor, &mut report)?;
        let mut bad = structure.bad;
        if let ReadData::Share(share) = read_data {
            let chosen = choose(&structure.containers, share, self.seed());
            monitor.begin_part(WorkUnit::Containers, chosen.len() as u64);
            data::read(self, &chosen, &structure.needs, monitor, &mut report, &mut bad)?;
        }
        if !report.is_sound()
            && let Some(id) = reading.forgotten()
        {
            return Err(Error::Forgotten { id, why: None });
        }
        // A store that may only be read stays as it is.
        if !bad.is_empty() && self.options.pin_reads && self.ensure_writable().is_ok() {
            // The report matters more than the list, also on a full disk.
            if let Err(error) = self.list_damaged(&bad) {
                monitor.add_note(Warning::FoundNotListed {
                    why: error.to_string(),
                });
            }
        }
        files::find_touched(&reading, &structure.backups, &bad, &mut report)?;
        if !scope.is_whole() {
            report.leftovers.clear();
        }
        // The findings include the damage that the check met on the way.
        drop(self.containers.take_met());
        reading.end(monitor);
        Ok(report)
    }

    fn seed(&self) -> u64 {
        let mut bytes = [0; 8];
        self.env.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// Whether the storage as a whole refuses or is gone, so that the check cannot continue. An error
/// of one object is a finding.
const fn refuses(error: &StorageError) -> bool {
    !matches!(
        error,
        StorageError::NotFound { .. } | StorageError::PastEnd { .. } | StorageError::Io { .. }
    )
}

/// Like [`refuses`], for an error of a container.
const fn refuses_container(error: &ContainerError) -> bool {
    matches!(error, ContainerError::Storage(error) if refuses(error))
}

/// Chooses a share of the containers, a different one for every seed.
fn choose(containers: &[ContainerId], share: f64, seed: u64) -> Vec<ContainerId> {
    if share >= 1.0 {
        return containers.to_vec();
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a count"
    )]
    let wanted = ((containers.len() as f64 * share.max(0.0)).ceil() as usize).min(containers.len());
    let key = |id: &ContainerId| {
        // A multiplicative hash is random enough to spread a sample.
        (id.to_u64() ^ seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let mut chosen = containers.to_vec();
    chosen.sort_unstable_by_key(key);
    chosen.truncate(wanted);
    chosen.sort_unstable();
    chosen
}
