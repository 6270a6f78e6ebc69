//! Healing: a container that lost slots gets them back, and so do all backups that refer to them.
//!
//! A chunk has the same bytes in every place. So healing restores a damaged slot from any place
//! that has a chunk of its fingerprint. The next backup may have stored it again, or another
//! generation may still have it. The container gets a new generation with all slots under their old
//! numbers (INV-2), and no reference changes. A lost container is made again, as far as a copy of
//! its catalog lists its slots and the chunks are found. Nodes are healed from other generations
//! and mirror copies alone: an equal node elsewhere may refer to other places, which no marks of
//! this one cover.
//!
//! Lists under `damaged/` name the slots to heal. Healing deletes a list when all of its slots can
//! be read again.
//!
//! Invariant: all copies of a new generation are durable before older ones are deleted, and
//! those are durably deleted before the list is. So after a crash at any point the next run can
//! continue. Nothing on a removed list comes back (INV-3, INV-9). Every chunk is compared with its
//! fingerprint. The disk may later give bytes that it refuses now: while such slots have no other
//! source, the generation stays. Healing runs under the reclaimer's lease, which only saves work:
//! if two sessions make the same generation, the create-only put picks one.

mod copies;
mod donors;
mod generation;
mod lists;
mod needed;
mod patient;
mod rewrite;
mod wanted;

use std::collections::BTreeSet;

use container::ContainerError;
use env::StorageError;
use format::names;
use session::HeldLease;
use types::{ContainerId, ContainerKind, Generation, SlotRange};

use crate::context::Context;
use crate::error::{ReclaimError, Result};
use crate::objects::{self, Objects, StandingObjects};
use crate::slots::{SlotMap, SlotSet};
use copies::Copies;
use donors::Donors;
use generation::Made;
pub(crate) use lists::{ListedDamage, want};
use lists::{Lists, OnRecord};
pub(crate) use needed::needed;
use patient::{Known, Patient};
pub use rewrite::rewrite;

/// How many generations rivals may put meanwhile.
const ROUNDS_MAX: usize = 3;

/// A container that got slots back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Healed {
    /// The container.
    pub container: ContainerId,
    /// Slots that can be read again.
    pub slots: u64,
    /// The slots still damaged, because no place has their chunks.
    pub left: u64,
}

/// What healing did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealReport {
    /// Containers that got slots back.
    pub healed: Vec<Healed>,
    /// Containers that stay as they are, and why. Those that no backup needs are left out.
    pub left: Vec<(ContainerId, String)>,
}

/// Memory for an entry of a damaged container: itself, and where its chunk was found.
const ENTRY_BYTES: u64 = 160;

/// Heals listed damage with chunks from these containers, which it searches, or from containers
/// that the index finds. The memory limit holds for the containers that are healed together; one
/// container may need more.
///
/// # Errors
/// `Overtaken`, `Interrupted`; of the storage. The store is as readable as before, and the next run
/// continues.
pub fn heal(
    context: &Context<'_>,
    lease: &HeldLease,
    fresh: &[ContainerId],
    memory_bytes: u64,
) -> Result<HealReport> {
    heal_needed(context, lease, fresh, memory_bytes, &|_| Ok(None))
}

/// Returns which slots of these containers backups need. `None`: nobody knows.
pub(crate) type FindNeeded<'a> = dyn Fn(&[ContainerId]) -> Result<Option<SlotMap>> + 'a;

/// Does the same as [`heal`], but leaves out slots that no backup needs.
pub(crate) fn heal_needed(
    context: &Context<'_>,
    lease: &HeldLease,
    fresh: &[ContainerId],
    memory_bytes: u64,
    find_needed: &FindNeeded<'_>,
) -> Result<HealReport> {
    let mut lists = Lists::read(context.sealer)?;
    let mut report = HealReport::default();
    if lists.is_empty() {
        return Ok(report);
    }
    // The cache may have generations that are damaged, or were replaced.
    context.containers.clear_catalogs();
    let record = OnRecord::read(context.sealer)?;
    let is_patient = |id: &ContainerId| id.kind != ContainerKind::Catalog && !record.is_gone(*id);
    let ids: Vec<ContainerId> = lists.ids().filter(is_patient).collect();
    let needed = find_needed(&ids)?;
    let mut donors = Donors::new(context);
    let mut settled = BTreeSet::new();
    let ward = Ward {
        context,
        lease,
        record: &record,
        needed: needed.as_ref(),
        nothing: SlotSet::default(),
        copies: Copies::default(),
        entries_max: memory_bytes / ENTRY_BYTES,
    };
    let mut queue = Queue {
        ids: &ids,
        next: None,
    };
    let mut batch = ward.admit(&mut queue, &lists, &mut donors)?;
    // All containers are read before any is healed, or one might wait for chunks of another that
    // lacks them too.
    for id in queue.ids {
        donors.note_bad(&ward.examine(*id, &lists)?.patient);
    }
    while !batch.is_empty() {
        donors.find(fresh)?;
        for examined in batch {
            ensure_wanted(context)?;
            let (ward, donors, id) = (&ward, &donors, examined.patient.id);
            let treatment = Treatment { ward, donors, id };
            let outcome = treatment.treat(&mut lists, examined)?;
            if treatment.settle(outcome, &mut lists, &mut report)? {
                settled.insert(id);
            }
        }
        donors.forget_places();
        batch = ward.admit(&mut queue, &lists, &mut donors)?;
    }
    context.sealer.barrier()?;
    // Lists name the damage of settled containers, so nobody has to read them again to list it.
    let met = context.containers.take_met().into_iter();
    met.filter(|id| !settled.contains(id))
        .for_each(|id| context.containers.note_met(id));
    Ok(report)
}

/// The objects of a container, and what was found in them.
struct Examined {
    found: Objects,
    patient: Patient,
}

/// The containers that are not healed yet.
struct Queue<'a> {
    ids: &'a [ContainerId],
    /// A container that was examined, and comes before those.
    next: Option<Examined>,
}

/// Values that hold for all containers that are healed.
struct Ward<'a> {
    context: &'a Context<'a>,
    lease: &'a HeldLease,
    record: &'a OnRecord,
    /// As of [`FindNeeded`].
    needed: Option<&'a SlotMap>,
    /// The needed slots of a container that is not in `needed`: none.
    nothing: SlotSet,
    copies: Copies,
    entries_max: u64,
}

impl Ward<'_> {
    /// Takes as many containers as may be healed together, and notes what they lack.
    fn admit(&self, queue: &mut Queue<'_>, lists: &Lists, donors: &mut Donors<'_>) -> Result<Vec<Examined>> {
        let (mut batch, mut entries) = (Vec::new(), 0);
        loop {
            let examined = match (queue.next.take(), queue.ids.split_first()) {
                (Some(examined), _) => examined,
                (None, Some((id, rest))) => {
                    queue.ids = rest;
                    let examined = self.examine(*id, lists)?;
                    donors.note_bad(&examined.patient);
                    examined
                }
                (None, None) => return Ok(batch),
            };
            entries += examined.patient.entry_count();
            if entries > self.entries_max && !batch.is_empty() {
                queue.next = Some(examined);
                return Ok(batch);
            }
            donors.want(&examined.patient);
            batch.push(examined);
        }
    }

    fn examine(&self, id: ContainerId, lists: &Lists) -> Result<Examined> {
        ensure_wanted(self.context)?;
        let found = objects_of(self.context, id)?;
        let known = self.known(id, lists);
        let patient = Patient::examine(self.context.containers, id, &found, known)?;
        Ok(Examined { found, patient })
    }

    /// As for [`Known`].
    fn needed_of(&self, id: ContainerId) -> Option<&SlotSet> {
        self.needed.map(|needed| needed.get(id).unwrap_or(&self.nothing))
    }

    fn known<'a>(&'a self, id: ContainerId, lists: &'a Lists) -> Known<'a> {
        Known {
            listed: lists.get(id),
            record: self.record,
            needed: self.needed_of(id),
            copies: &self.copies,
        }
    }
}

fn ensure_wanted(context: &Context<'_>) -> Result<()> {
    if context.progress.is_cancelled() {
        return Err(ReclaimError::Interrupted);
    }
    Ok(())
}

/// The stored objects of a container.
fn objects_of(context: &Context<'_>, id: ContainerId) -> Result<Objects> {
    let storage = &*context.sealer.env().storage;
    let mut found = objects::list(storage, id.session, id.kind, &[id])?;
    Ok(found.remove(&id).unwrap_or_default())
}

impl HealReport {
    fn add(&mut self, container: ContainerId, slots: u64, left: u64) {
        if slots > 0 {
            self.healed.push(Healed {
                container,
                slots,
                left,
            });
        }
    }
}

enum Outcome {
    /// All listed slots can be read; so many were restored.
    Whole { healed: u64 },
    /// Some slots were restored, and `left` were not.
    Partly { healed: u64, left: Vec<SlotRange> },
    /// Nothing could be done. `left`: the damaged slots, as of [`Patient::damaged`].
    Left {
        why: String,
        left: Option<Vec<SlotRange>>,
    },
}

/// A container that is being healed.
struct Treatment<'a> {
    ward: &'a Ward<'a>,
    donors: &'a Donors<'a>,
    id: ContainerId,
}

impl Treatment<'_> {
    /// Heals the container. What was examined counts if its objects are the same still.
    fn treat(&self, lists: &mut Lists, examined: Examined) -> Result<Outcome> {
        let context = self.ward.context;
        let mut examined = Some(examined);
        for _ in 0..ROUNDS_MAX {
            let found = objects_of(context, self.id)?;
            let known = self.ward.known(self.id, lists);
            let patient = match examined.take() {
                Some(examined) if examined.found == found => examined.patient,
                _ => Patient::examine(context.containers, self.id, &found, known)?,
            };
            if patient.is_needless(known) {
                return Ok(Outcome::Whole { healed: 0 });
            }
            if patient.is_sound() {
                self.drop_older(&patient, &found)?;
                return Ok(Outcome::Whole { healed: 0 });
            }
            let highest = found.highest().unwrap_or(Generation::FIRST);
            let highest = highest.max(patient.generation_of_copy());
            let made = if patient.depends_on_others() && !self.donors.have_any(&patient) {
                Err(generation::NOT_FOUND.to_owned())
            } else {
                generation::make(context, &patient, self.donors, highest.next())?
            };
            let Made { sealed, healed, left } = match made {
                Ok(made) => made,
                Err(why) if why == generation::NOT_FOUND && patient.lacks_only_needless(known) => {
                    self.drop_older(&patient, &found)?;
                    return Ok(Outcome::Whole { healed: 0 });
                }
                Err(why) => {
                    let left = patient.damaged();
                    return Ok(Outcome::Left { why, left });
                }
            };
            if !self.ward.lease.is_held()? {
                return Err(ReclaimError::Overtaken);
            }
            if !left.is_empty() {
                lists.foretell(context.sealer, self.id, &left)?;
            }
            match context.containers.put(&sealed) {
                Ok(()) => {}
                Err(ContainerError::AlreadyExists { .. }) => {
                    context.containers.forget(self.id);
                    continue;
                }
                Err(error) => return self.give_up(sealed.generation(), error),
            }
            context.sealer.barrier()?;
            let doomed = found.but(self.id, Some(StandingObjects::of(&sealed.catalog())));
            objects::delete(&*context.sealer.env().storage, &doomed)?;
            context.containers.forget(self.id);
            return Ok(if left.is_empty() {
                Outcome::Whole { healed }
            } else {
                Outcome::Partly { healed, left }
            });
        }
        Ok(Outcome::Left {
            why: "others rewrite it all the time; the next prune tries again".to_owned(),
            left: None,
        })
    }

    /// Updates the lists of damage to name the slots left, and reports the outcome. Returns whether
    /// they name all of them.
    fn settle(&self, outcome: Outcome, lists: &mut Lists, report: &mut HealReport) -> Result<bool> {
        let (sealer, id) = (self.ward.context.sealer, self.id);
        let needed_of = self.ward.needed_of(id);
        match outcome {
            Outcome::Whole { healed } => {
                sealer.barrier()?;
                lists.close(sealer, id, &[])?;
                report.add(id, healed, 0);
            }
            Outcome::Partly { healed, left } => {
                let needed = left.iter().flat_map(|range| range.iter());
                let needed = needed.filter(|slot| needed_of.is_none_or(|needed| needed.contains(*slot)));
                let count = needed.count() as u64;
                sealer.barrier()?;
                lists.close(sealer, id, &left)?;
                report.add(id, healed, count);
            }
            Outcome::Left { why, left } => {
                if let Some(left) = &left {
                    lists.close(sealer, id, left)?;
                }
                if patient::is_any_needed(needed_of, left.as_deref()) {
                    report.left.push((id, why));
                }
                return Ok(left.is_some() || lists.get(id).is_whole);
            }
        }
        Ok(true)
    }

    /// Deletes older generations that a dead run has left beside the complete one.
    fn drop_older(&self, patient: &Patient, found: &Objects) -> Result<()> {
        let Some(view) = patient.whole_newest(found) else {
            return Ok(());
        };
        let doomed = found.but(self.id, Some(StandingObjects::of(view)));
        if !doomed.is_empty() {
            let context = self.ward.context;
            context.sealer.barrier()?;
            objects::delete(&*context.sealer.env().storage, &doomed)?;
            context.containers.forget(self.id);
        }
        Ok(())
    }

    /// Deletes half of a generation, which would block the next attempt.
    fn give_up(&self, generation: Generation, error: ContainerError) -> Result<Outcome> {
        let ContainerError::Storage(StorageError::NoSpace { .. }) = &error else {
            return Err(error.into());
        };
        let storage = &*self.ward.context.sealer.env().storage;
        let is_alone = match names::mirror(self.id, generation) {
            Some(mirror) => matches!(storage.head(&mirror), Err(StorageError::NotFound { .. })),
            None => false,
        };
        if is_alone {
            objects::delete(storage, &[(names::container(self.id, generation), 0)])?;
        }
        self.ward.context.containers.forget(self.id);
        Ok(Outcome::Left {
            why: format!("there is no space for its next generation: {error}"),
            left: None,
        })
    }
}
