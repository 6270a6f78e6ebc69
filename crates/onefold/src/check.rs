//! Checking a store: its structure, and on demand every stored byte.
//!
//! Everything is looked at that a backup needs: manifests, recipes up to their roots, the containers that
//! they reach. Damage is named as object, slots and the backups and files that it touches; checking goes on
//! behind it. Slots found bad are listed under `damaged/`, so that look-ups pass them over and the next
//! backup that brings their chunks stores them again.

mod files;
mod structure;

use std::collections::{BTreeMap, BTreeSet};

use container::Depth;
use format::frame::ObjectKind;
use format::names;
use format::reclaim::{ContainerSlots, Damaged};
use types::{ContainerId, SessionId, SlotRange};

use crate::error::Result;
use crate::monitor::Monitor;
use crate::store::Store;

/// How deep to check.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReadData {
    /// Structure only.
    None,
    /// Structure, and the bytes of this share of the containers, 0 to 1: a different part each time.
    Share(f64),
}

/// One thing found wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The object, or the container.
    pub object: String,
    /// What is wrong with it.
    pub what: String,
    /// Whether a second copy makes up for it: nothing is lost yet.
    pub is_covered: bool,
}

/// What a check found.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// Backups looked at.
    pub backups: u64,
    /// Nodes looked at.
    pub nodes: u64,
    /// Containers whose catalog was looked at.
    pub containers: u64,
    /// Containers whose bytes were read.
    pub containers_read: u64,
    /// Bytes read for that.
    pub bytes_read: u64,
    /// What is wrong, each once.
    pub findings: Vec<Finding>,
    /// Backups that cannot be restored whole.
    pub damaged_backups: BTreeSet<SessionId>,
    /// Files that cannot be restored, by backup.
    pub damaged_files: BTreeMap<SessionId, Vec<Vec<u8>>>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, object: impl ToString, what: impl ToString, is_covered: bool) {
        let finding = Finding {
            object: object.to_string(),
            what: what.to_string(),
            is_covered,
        };
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }
}

/// Slots found bad, by container.
pub(crate) type BadSlots = BTreeMap<ContainerId, Vec<SlotRange>>;

impl Store {
    /// Checks the store.
    ///
    /// # Errors
    /// When the storage does not answer, or someone asked to stop. Damage is no error: it is in the report.
    pub fn check(&self, read_data: ReadData, monitor: &Monitor) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let structure = structure::check(self, monitor, &mut report)?;
        let mut bad = structure.bad;
        if let ReadData::Share(share) = read_data {
            let chosen = choose(&structure.containers, share, self.seed());
            monitor.set_total(chosen.len() as u64);
            self.read_containers(&chosen, monitor, &mut report, &mut bad)?;
        }
        if !bad.is_empty() {
            self.list_damaged(&bad)?;
        }
        files::find_touched(self, &structure.backups, &bad, &mut report)?;
        Ok(report)
    }

    fn read_containers(
        &self,
        chosen: &[ContainerId],
        monitor: &Monitor,
        report: &mut CheckReport,
        bad: &mut BadSlots,
    ) -> Result<()> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let next = std::sync::atomic::AtomicUsize::new(0);
        let (tx, rx) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..cores.min(chosen.len().max(1)) {
                let (tx, next) = (tx.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        let Some(id) = chosen.get(at).filter(|_| !monitor.is_cancelled()) else {
                            return;
                        };
                        if tx.send((*id, self.containers.verify(*id, Depth::Full))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop(tx);
            for (id, verified) in rx {
                let verified = verified?;
                monitor.add_done(1);
                report.containers_read += 1;
                report.bytes_read += verified.bytes_read;
                let copies = if id.kind.is_mirrored() { 2 } else { 1 };
                let mut broken: BTreeMap<SlotRange, usize> = BTreeMap::new();
                for damage in &verified.damages {
                    for slots in &damage.slots {
                        *broken.entry(*slots).or_default() += 1;
                    }
                }
                for damage in &verified.damages {
                    let is_covered = copies > 1
                        && !damage.slots.is_empty()
                        && damage
                            .slots
                            .iter()
                            .all(|slots| broken.get(slots).is_none_or(|count| *count < copies));
                    let slots: Vec<String> = damage.slots.iter().map(|slots| shown(*slots)).collect();
                    let slots = if slots.is_empty() {
                        String::new()
                    } else {
                        format!(" ({})", slots.join(", "))
                    };
                    report.find(
                        format!("{id}.{}", damage.generation),
                        format!("{}{slots}", damage.error),
                        is_covered,
                    );
                }
                let lost = broken
                    .into_iter()
                    .filter(|(_, count)| *count >= copies)
                    .map(|(slots, _)| slots);
                let lost: Vec<SlotRange> = lost.collect();
                if !lost.is_empty() {
                    bad.entry(id).or_default().extend(lost);
                }
            }
            if monitor.is_cancelled() {
                return Err(restore::RestoreError::Interrupted.into());
            }
            Ok(())
        })
    }

    /// Writes what is bad where look-ups see it.
    fn list_damaged(&self, bad: &BadSlots) -> Result<()> {
        let listed = self.sealer.list(names::DAMAGED_FOLDER, names::parse_damaged)?;
        for (id, slots) in bad {
            let slots = merged(slots);
            let of_container = listed.iter().filter(|((of, _), _)| of == id);
            let number = of_container
                .clone()
                .map(|((_, number), _)| number + 1)
                .max()
                .unwrap_or(0);
            let damaged = Damaged {
                slots: ContainerSlots {
                    container: *id,
                    slots: Some(slots.clone()),
                },
            };
            let known = of_container.into_iter().any(|((_, number), _)| {
                let name = names::damaged(*id, *number);
                self.sealer
                    .read(&name, ObjectKind::Damaged, Damaged::decode)
                    .is_ok_and(|other| other == damaged)
            });
            if !known {
                self.sealer.put(
                    &names::damaged(*id, number),
                    ObjectKind::Damaged,
                    &damaged.to_bytes(),
                )?;
            }
        }
        self.sealer.barrier()?;
        Ok(())
    }

    fn seed(&self) -> u64 {
        let mut bytes = [0; 8];
        self.env.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

fn shown(slots: SlotRange) -> String {
    match slots.count() {
        1 => format!("slot {}", slots.first()),
        _ => format!("slots {} to {}", slots.first(), slots.end() - 1),
    }
}

/// Sorted, disjoint, not adjacent: as the format wants them.
fn merged(slots: &[SlotRange]) -> Vec<SlotRange> {
    let mut sorted = slots.to_vec();
    sorted.sort_unstable();
    let mut out: Vec<SlotRange> = Vec::new();
    for range in sorted {
        match out.last_mut() {
            Some(last) if range.first().get() <= last.end() => {
                let end = last.end().max(range.end());
                let count = end - last.first().get();
                *last = SlotRange::new(last.first(), count).expect("the union of two ranges that touch");
            }
            _ => out.push(range),
        }
    }
    out
}

/// A share of the containers, another one for every seed.
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
