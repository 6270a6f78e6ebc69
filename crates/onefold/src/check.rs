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

use std::collections::{BTreeMap, BTreeSet, HashSet};

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
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum ReadData {
    /// Structure only.
    None,
    /// Structure, and the bytes of this share of the containers, 0 to 1: a different part each
    /// time.
    Share(f64),
    /// Structure, and the bytes of one of so many parts of the containers: checks of all parts read
    /// everything that is stored all the while. The first part is 0.
    Part {
        /// The part, smaller than `of`.
        part: u32,
        /// The number of parts; 0 counts as 1.
        of: u32,
    },
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
    /// Containers with damage in any copy, of which backups need something. Only those that were
    /// read whole.
    pub damaged_containers: BTreeSet<ContainerId>,
    /// Backups whose manifest the storage does not give now. They may be whole.
    pub unread_backups: BTreeSet<SessionId>,
    /// Backups that cannot be restored whole.
    pub damaged_backups: BTreeSet<SessionId>,
    /// How many of `damaged_backups` are not among `backups`: no manifest of them can be read.
    #[serde(default)]
    pub backups_lost: u64,
    /// Files that cannot be restored, by backup: the first thousand of each.
    pub damaged_files: BTreeMap<SessionId, Vec<Vec<u8>>>,
    /// How many files beyond those of `damaged_files` cannot be restored, by backup.
    #[serde(default)]
    pub damaged_files_more: BTreeMap<SessionId, u64>,
    /// Backups whose listing cannot be read to its end, so that more files may be damaged.
    #[serde(default)]
    pub unread_listings: BTreeSet<SessionId>,
    /// The findings and the leftovers, so that each is added once: there may be millions.
    #[serde(skip)]
    known: KnownFindings,
}

/// Findings and leftovers that a report has.
#[derive(Debug, Clone, Default)]
struct KnownFindings {
    findings: HashSet<Finding>,
    leftovers: HashSet<Finding>,
}

impl CheckReport {
    /// Whether nothing is wrong, apart from leftovers.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// The backups that were checked, and the damaged ones that could not be.
    #[must_use]
    pub const fn backups_known(&self) -> u64 {
        self.backups + self.backups_lost
    }

    fn find(&mut self, object: impl ToString, what: Damage, is_covered: bool) {
        let finding = Finding {
            object: object.to_string(),
            what,
            is_covered,
        };
        if self.known.findings.insert(finding.clone()) {
            self.findings.push(finding);
        }
    }

    fn leave(&mut self, object: impl ToString, what: Damage) {
        let leftover = Finding {
            object: object.to_string(),
            what,
            is_covered: true,
        };
        if self.known.leftovers.insert(leftover.clone()) {
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
        self.check_chosen(scope, monitor, |containers| match read_data {
            ReadData::None => None,
            ReadData::Share(share) => Some(choose(containers, share, self.seed())),
            ReadData::Part { part, of } => Some(part_of(containers, part, of)),
        })
    }

    /// Checks the structure, and the bytes of these containers and of those of these sessions.
    pub(crate) fn check_some(
        &self,
        ids: &BTreeSet<ContainerId>,
        sessions: &BTreeSet<SessionId>,
        monitor: &Monitor,
    ) -> Result<CheckReport> {
        let is_chosen = |id: &ContainerId| ids.contains(id) || sessions.contains(&id.session);
        self.check_chosen(&Scope::default(), monitor, |containers| {
            Some(containers.iter().copied().filter(is_chosen).collect())
        })
    }

    /// Checks the structure, and the bytes of the containers that `choose` chooses of all.
    fn check_chosen(
        &self,
        scope: &Scope,
        monitor: &Monitor,
        choose: impl Fn(&[ContainerId]) -> Option<Vec<ContainerId>>,
    ) -> Result<CheckReport> {
        let _past = self.past_cache();
        let reading = Reading::begin(self, |list| {
            let has = |entry: &&ManifestEntry| entry.backup().is_some_and(|backup| scope.has(backup));
            list.backups().filter(has).map(ManifestEntry::session).collect()
        })?;
        let mut report = CheckReport::default();
        let watch = self.containers.watch_mirror_reads();
        let mut structure = structure::check((self, scope), &reading, monitor, &mut report)?;
        let mut bad = std::mem::take(&mut structure.bad);
        let mut read = |chosen: &[ContainerId]| {
            monitor.begin_part(WorkUnit::Containers, chosen.len() as u64);
            data::read(self, chosen, &structure.needs, monitor, &mut report, &mut bad)
        };
        let chosen = choose(&structure.containers).unwrap_or_default();
        if !chosen.is_empty() {
            read(&chosen)?;
        }
        // A mirror copy hides damage of the first copy. Reading both tells what the damage is. The
        // chosen ones are sorted, as all containers are.
        let is_unread = |id: &ContainerId| chosen.binary_search(id).is_err();
        let hidden: Vec<ContainerId> = watch.take().into_iter().filter(is_unread).collect();
        if !hidden.is_empty() {
            read(&hidden)?;
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
        files::find_touched(&reading, &structure, &bad, monitor, &mut report)?;
        if !scope.is_whole() {
            report.leftovers.clear();
        }
        let checked: BTreeSet<SessionId> = structure.backups.iter().map(|snapshot| snapshot.id).collect();
        report.backups_lost = report.damaged_backups.difference(&checked).count() as u64;
        report.known = KnownFindings::default();
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
fn refuses(error: &StorageError) -> bool {
    let is_of_object = matches!(
        error,
        StorageError::NotFound { .. } | StorageError::PastEnd { .. }
    );
    !is_of_object && !error.is_of_medium()
}

/// Like [`refuses`], for an error of a container.
fn refuses_container(error: &ContainerError) -> bool {
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
    let mut chosen = containers.to_vec();
    chosen.sort_unstable_by_key(|id| spread(*id, seed));
    chosen.truncate(wanted);
    chosen.sort_unstable();
    chosen
}

/// The containers of one of so many parts.
fn part_of(containers: &[ContainerId], part: u32, of: u32) -> Vec<ContainerId> {
    let is_in = |id: &ContainerId| (spread(*id, 0) >> 32) % u64::from(of.max(1)) == u64::from(part);
    containers.iter().copied().filter(is_in).collect()
}

/// A multiplicative hash: random enough to spread a sample.
const fn spread(id: ContainerId, seed: u64) -> u64 {
    (id.to_u64() ^ seed)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
        .wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

#[cfg(test)]
mod tests {
    use types::{ContainerKind, SequenceNumber};

    use super::*;

    #[test]
    fn parts_are_about_equal_and_have_every_container_once() {
        let id = |n: u32| ContainerId {
            session: SessionId::new(u64::from(n / 7) + 1).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(n % 7).unwrap(),
        };
        let ids: Vec<ContainerId> = (0..4000).map(id).collect();
        let mut read = Vec::new();
        for part in 0..30 {
            let chosen = part_of(&ids, part, 30);
            assert!(
                (90..=180).contains(&chosen.len()),
                "{} in part {part}",
                chosen.len()
            );
            read.extend(chosen);
        }
        read.sort_unstable();
        assert_eq!(read, ids);
        assert_eq!(part_of(&ids, 0, 1), ids);
    }
}
