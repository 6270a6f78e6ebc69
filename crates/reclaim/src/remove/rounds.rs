//! Rewrites the containers of which some slots are listed, round by round.
//!
//! On a far storage it takes several containers at once: a thread of its own reads, rewrites and
//! puts each, so that the round trips of one pass while others are compressed. Each container has
//! an account of its own, which is added to that of the run. If one container fails, the old
//! generations of those that succeeded are deleted before the run ends. So a run in a bucket that
//! is nearly full frees something each time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use format::reclaim::ContainerSlots;
use types::ContainerId;

use super::{Executed, Removal, Settled, folders, list_folder};
use crate::error::{ReclaimError, Result};
use crate::objects::{Objects, StandingObjects};

/// How often a container is looked at: once to rewrite it, once to see that no rival has changed
/// it, and some more times because of rivals.
const ROUNDS_MAX: usize = 5;
/// Containers in work at once on a far storage. Each takes twice the memory of a container.
const FAR_AT_ONCE: usize = 4;
/// Containers that these threads share before the old generations are deleted: at the end of each
/// such part, threads wait for the last one.
const FAR_PART: usize = 32;

impl Removal<'_> {
    /// Rewrites the containers of which some slots are listed. Looks at them again until no rival
    /// has changed them.
    pub(super) fn compact(&mut self, list: &[&ContainerSlots]) -> Result<()> {
        let mut open: Vec<&ContainerSlots> = list.iter().filter(|e| e.slots.is_some()).copied().collect();
        let mut ours: BTreeMap<ContainerId, StandingObjects> = BTreeMap::new();
        for _ in 0..ROUNDS_MAX {
            if open.is_empty() {
                break;
            }
            let mut again = Vec::new();
            for folder in folders(&open) {
                let found = list_folder(self.storage, folder)?;
                let standing: Vec<_> = folder
                    .iter()
                    .copied()
                    .filter(|entry| found.contains_key(&entry.container))
                    .collect();
                let gone = folder.iter().map(|entry| entry.container);
                let gone = gone.filter(|id| !found.contains_key(id) && !ours.contains_key(id));
                self.how.progress.add_done(gone.count() as u64);
                for some in standing.chunks(self.part()) {
                    let settled = self.settle_all(some, &found, &ours)?;
                    for (entry, settled) in some.iter().zip(settled) {
                        let id = entry.container;
                        match settled {
                            Settled::Fine => self.out.kept.push(id),
                            Settled::Over => {}
                            Settled::Again => again.push(*entry),
                            Settled::NoRoom => self.no_room.push((*entry).clone()),
                            Settled::Replaced(kept) => {
                                ours.insert(id, kept);
                                again.push(*entry);
                            }
                        }
                    }
                    if self.batch.bytes >= self.how.copies_bytes_max {
                        self.finish_batch()?;
                    }
                }
            }
            self.finish_batch()?;
            open = again;
        }
        if !open.is_empty() {
            return Err(ReclaimError::Overtaken);
        }
        Ok(())
    }

    /// How many containers are settled before the batch is looked at.
    fn part(&self) -> usize {
        if self.storage.is_far() { FAR_PART } else { 1 }
    }

    /// Brings some containers closer to their final states ([`Self::settle`]).
    fn settle_all(
        &mut self,
        some: &[&ContainerSlots],
        found: &BTreeMap<ContainerId, Objects>,
        ours: &BTreeMap<ContainerId, StandingObjects>,
    ) -> Result<Vec<Settled>> {
        let nothing = Objects::default();
        let settle = |run: &mut Self, entry: &ContainerSlots| {
            run.check_cancelled()?;
            let id = entry.container;
            let objects = found.get(&id).unwrap_or(&nothing);
            let dead = entry.slots.as_deref().unwrap_or_default();
            let settled = run.settle(id, dead, objects, ours.get(&id).copied())?;
            let is_done = matches!(settled, Settled::Fine | Settled::Over | Settled::Replaced(_));
            // What this process has replaced was counted then.
            let counts = is_done && !ours.contains_key(&id);
            run.how.progress.add_done(u64::from(counts));
            Ok::<_, ReclaimError>(settled)
        };
        if let [entry] = some {
            return Ok(vec![settle(self, entry)?]);
        }
        let (containers, how) = (self.containers, self.how);
        let has_failed = AtomicBool::new(false);
        let each = object::threaded(some.len(), FAR_AT_ONCE.min(some.len()), |at| {
            if has_failed.load(Ordering::Relaxed) {
                return Ok::<_, ReclaimError>(None);
            }
            let mut run = Removal::new(containers, how);
            let settled = settle(&mut run, some[at]);
            has_failed.fetch_or(settled.is_err(), Ordering::Relaxed);
            Ok(Some((run.into_account(), settled)))
        })?;
        let (mut all, mut failure) = (Vec::with_capacity(each.len()), None);
        for (account, settled) in each.into_iter().flatten() {
            self.add(account);
            match settled {
                Ok(settled) => all.push(settled),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let Some(error) = failure else {
            return Ok(all);
        };
        // The error of the deletes, if they fail too, has the same reason.
        drop(self.finish_batch());
        Err(error)
    }

    fn into_account(self) -> Account {
        Account {
            out: self.out,
            batch: self.batch,
            no_room: self.no_room,
            refused: self.refused,
        }
    }

    fn add(&mut self, account: Account) {
        let Account {
            out,
            batch,
            no_room,
            refused,
        } = account;
        self.out.add(out);
        self.batch.bytes += batch.bytes;
        self.batch.doomed.extend(batch.doomed);
        self.batch.trims.extend(batch.trims);
        self.no_room.extend(no_room);
        self.refused = self.refused.take().or(refused);
    }
}

/// What the work on one container has changed.
struct Account {
    out: Executed,
    batch: super::Batch,
    no_room: Vec<ContainerSlots>,
    refused: Option<env::StorageError>,
}

impl Executed {
    fn add(&mut self, other: Self) {
        let Self {
            freed_bytes,
            copied_bytes,
            removed,
            compacted,
            trimmed,
            kept,
            damaged,
            short,
            given_up,
            mirrors_made,
        } = other;
        self.freed_bytes += freed_bytes;
        self.copied_bytes += copied_bytes;
        self.removed += removed;
        self.compacted += compacted;
        self.trimmed += trimmed;
        self.kept.extend(kept);
        self.damaged.extend(damaged);
        self.short.extend(short);
        self.given_up.extend(given_up);
        self.mirrors_made += mirrors_made;
    }
}
