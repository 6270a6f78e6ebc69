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
//! What must hold: all copies of a new generation are durable before older ones are deleted, and
//! those are durably deleted before the list is. So after a crash at any point the next run can
//! continue. Nothing on a removed list comes back (INV-3, INV-9). Every chunk is compared with its
//! fingerprint. The disk may later give bytes that it refuses now: while such slots have no other
//! source, the generation stays. Healing runs under the reclaimer's lease, which only saves work:
//! if two sessions make the same generation, the create-only put picks one.

mod donors;
mod generation;
mod lists;
mod needed;
mod patient;

use std::collections::BTreeSet;

use container::ContainerError;
use env::StorageError;
use format::names;
use session::HeldLease;
use types::{ContainerId, ContainerKind, Generation, SlotRange};

use crate::error::{ReclaimError, Result};
use crate::objects::{self, Kept, Objects};
use crate::prune::Context;
use crate::slots::{SlotMap, SlotSet};
use donors::{Donors, Wanted};
use generation::Made;
pub(crate) use lists::{ListedDamage, want};
use lists::{Lists, OnRecord};
pub(crate) use needed::needed;
use patient::{Known, Patient};

/// How many generations rivals may put meanwhile.
const ROUNDS_MAX: usize = 3;

/// A container that got slots back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Healed {
    /// The container.
    pub container: ContainerId,
    /// Slots that can be read again.
    pub slots: u64,
    /// Slots that are still damaged, because nothing has their chunks.
    pub left: u64,
}

/// What healing did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HealReport {
    /// Containers that got slots back.
    pub healed: Vec<Healed>,
    /// Containers that stay as they are, and why. Those that no backup needs are left out.
    pub left: Vec<(ContainerId, String)>,
}

/// Heals listed damage with chunks from these containers, which it searches, or from containers
/// that the index finds.
///
/// # Errors
/// `Overtaken`, `Interrupted`; of the storage. The store is as readable as before, and the next run
/// continues.
pub fn heal(context: &Context<'_>, lease: &HeldLease, fresh: &[ContainerId]) -> Result<HealReport> {
    heal_needed(context, lease, fresh, &|_| Ok(None))
}

/// Says which slots of these containers backups need. `None`: nobody knows.
pub(crate) type FindNeeded<'a> = dyn Fn(&[ContainerId]) -> Result<Option<SlotMap>> + 'a;

/// As [`heal`]: nobody misses what no backup needs.
pub(crate) fn heal_needed(
    context: &Context<'_>,
    lease: &HeldLease,
    fresh: &[ContainerId],
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
    let mut donors = Donors::new(context);
    let needed = find_needed(&ids)?;
    let none = SlotSet::default();
    let needed_of = |id| Some(needed.as_ref()?.get(id).unwrap_or(&none));
    // One search finds the chunks for all containers.
    let mut outlooks = Vec::new();
    for id in &ids {
        ensure_wanted(context)?;
        let Some(listed) = lists.get(*id) else { continue };
        let known = Known {
            listed,
            record: &record,
            needed: needed_of(*id),
        };
        let patient = Patient::examine(context.containers, *id, &objects_of(context, *id)?, known)?;
        donors.want(&patient);
        outlooks.push((*id, Outlook::of(&patient, known)));
    }
    donors.find(fresh)?;
    let mut settled = BTreeSet::new();
    for (id, outlook) in outlooks {
        ensure_wanted(context)?;
        let treatment = Treatment {
            context,
            lease,
            record: &record,
            donors: &donors,
            needed: needed_of(id),
            id,
        };
        let outcome = match outlook.if_settled(&donors) {
            Some(outcome) => outcome,
            None => treatment.treat(&mut lists)?,
        };
        if treatment.settle(outcome, &mut lists, &mut report)? {
            settled.insert(id);
        }
    }
    context.sealer.barrier()?;
    // Lists name what is damaged there: nobody has to read those containers once more.
    let met = context.containers.take_met().into_iter();
    met.filter(|id| !settled.contains(id))
        .for_each(|id| context.containers.note_met(id));
    Ok(report)
}

/// What the first reading of a container has shown. Containers that cannot be healed are not read
/// again.
struct Outlook {
    /// As of [`Patient::is_needless`].
    is_needless: bool,
    /// As of [`Patient::damaged`].
    damaged: Option<Vec<SlotRange>>,
    /// Why healing is impossible.
    hopeless: Option<&'static str>,
    /// If healing depends on other containers: the chunks to find there.
    depends_on: Option<Vec<Wanted>>,
}

impl Outlook {
    fn of(patient: &Patient, known: Known<'_>) -> Self {
        let depends = patient.has_one_generation() && !patient.is_sound();
        Self {
            is_needless: patient.is_needless(known),
            damaged: patient.damaged(),
            hopeless: patient.hopeless,
            depends_on: depends.then(|| patient.wanted().collect()),
        }
    }

    /// The outcome, if nothing can be healed, or nothing has to be.
    fn if_settled(self, donors: &Donors<'_>) -> Option<Outcome> {
        if self.is_needless {
            return Some(Outcome::Whole { healed: 0 });
        }
        let why = match (self.hopeless, self.depends_on) {
            (Some(why), _) => why,
            (None, Some(wanted)) if !wanted.iter().any(|wanted| donors.has(*wanted)) => generation::NOT_FOUND,
            _ => return None,
        };
        Some(Outcome::Left {
            why: why.to_owned(),
            left: self.damaged,
        })
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
    context: &'a Context<'a>,
    lease: &'a HeldLease,
    record: &'a OnRecord,
    donors: &'a Donors<'a>,
    /// As of [`Known`].
    needed: Option<&'a SlotSet>,
    id: ContainerId,
}

impl Treatment<'_> {
    fn treat(&self, lists: &mut Lists) -> Result<Outcome> {
        for _ in 0..ROUNDS_MAX {
            let found = objects_of(self.context, self.id)?;
            let Some(listed) = lists.get(self.id) else { break };
            let known = Known {
                listed,
                record: self.record,
                needed: self.needed,
            };
            let patient = Patient::examine(self.context.containers, self.id, &found, known)?;
            if patient.is_sound() {
                self.drop_older(&patient, &found)?;
                return Ok(Outcome::Whole { healed: 0 });
            }
            let highest = found.highest().unwrap_or(Generation::FIRST);
            let highest = highest.max(patient.generation_of_copy());
            let made = generation::make(self.context, &patient, self.donors, highest.next())?;
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
            if !self.lease.is_held()? {
                return Err(ReclaimError::Overtaken);
            }
            if !left.is_empty() {
                lists.foretell(self.context.sealer, self.id, &left)?;
            }
            match self.context.containers.put(&sealed) {
                Ok(()) => {}
                Err(ContainerError::AlreadyExists { .. }) => {
                    self.context.containers.forget(self.id);
                    continue;
                }
                Err(error) => return self.give_up(sealed.generation(), error),
            }
            self.context.sealer.barrier()?;
            let doomed = found.but(self.id, Some(Kept::of(&sealed.catalog())));
            objects::delete(&*self.context.sealer.env().storage, &doomed)?;
            self.context.containers.forget(self.id);
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

    /// Makes the lists of damage say what is left, and reports it. Whether they name all of it.
    fn settle(&self, outcome: Outcome, lists: &mut Lists, report: &mut HealReport) -> Result<bool> {
        let (sealer, id) = (self.context.sealer, self.id);
        match outcome {
            Outcome::Whole { healed } => {
                sealer.barrier()?;
                lists.close(sealer, id, &[])?;
                report.add(id, healed, 0);
            }
            Outcome::Partly { healed, left } => {
                let needed = left.iter().flat_map(|range| range.iter());
                let needed = needed.filter(|slot| self.needed.is_none_or(|needed| needed.contains(*slot)));
                let count = needed.count() as u64;
                sealer.barrier()?;
                lists.close(sealer, id, &left)?;
                report.add(id, healed, count);
            }
            Outcome::Left { why, left } => {
                if let Some(left) = &left {
                    lists.close(sealer, id, left)?;
                }
                if patient::is_any_needed(self.needed, left.as_deref()) {
                    report.left.push((id, why));
                }
                return Ok(left.is_some() || lists.get(id).is_some_and(|listed| listed.is_whole));
            }
        }
        Ok(true)
    }

    /// Deletes older generations that a dead run has left beside the complete one.
    fn drop_older(&self, patient: &Patient, found: &Objects) -> Result<()> {
        let Some(view) = patient.whole_newest(found) else {
            return Ok(());
        };
        let doomed = found.but(self.id, Some(Kept::of(view)));
        if !doomed.is_empty() {
            self.context.sealer.barrier()?;
            objects::delete(&*self.context.sealer.env().storage, &doomed)?;
            self.context.containers.forget(self.id);
        }
        Ok(())
    }

    /// Deletes half of a generation, which would block the next attempt.
    fn give_up(&self, generation: Generation, error: ContainerError) -> Result<Outcome> {
        let ContainerError::Storage(StorageError::NoSpace { .. }) = &error else {
            return Err(error.into());
        };
        let storage = &*self.context.sealer.env().storage;
        let is_alone = match names::mirror(self.id, generation) {
            Some(mirror) => matches!(storage.head(&mirror), Err(StorageError::NotFound { .. })),
            None => false,
        };
        if is_alone {
            objects::delete(storage, &[(names::container(self.id, generation), 0)])?;
        }
        self.context.containers.forget(self.id);
        Ok(Outcome::Left {
            why: format!("there is no space for its next generation: {error}"),
            left: None,
        })
    }
}
