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

use container::ContainerError;
use env::StorageError;
use format::names;
use session::HeldLease;
use types::{ContainerId, ContainerKind, Generation, SlotRange};

use crate::error::{ReclaimError, Result};
use crate::objects::{self, Kept, Objects};
use crate::prune::Context;
use donors::Donors;
use generation::{Made, Patient};
use lists::{Lists, OnRecord};

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
    /// Containers that stay as they are, and why.
    pub left: Vec<(ContainerId, String)>,
}

/// Heals listed damage with chunks from these containers, which it searches, or from containers
/// that the index finds.
///
/// # Errors
/// `Overtaken`, `Interrupted`; of the storage. The store is as readable as before, and the next run
/// continues.
pub fn heal(context: &Context<'_>, lease: &HeldLease, fresh: &[ContainerId]) -> Result<HealReport> {
    let lists = Lists::read(context.sealer)?;
    let mut report = HealReport::default();
    if lists.is_empty() {
        return Ok(report);
    }
    // The cache may have generations that are damaged, or were replaced.
    context.containers.clear_catalogs();
    let record = OnRecord::read(context.sealer)?;
    let mut donors = Donors::new(context);
    let is_patient = |id: ContainerId| id.kind != ContainerKind::Catalog && !record.is_gone(id);
    // One search finds the chunks for all containers.
    for (id, listed) in lists.iter().filter(|(id, _)| is_patient(*id)) {
        ensure_wanted(context)?;
        let found = objects_of(context, id)?;
        donors.want(&Patient::examine(
            context.containers,
            id,
            &found,
            listed,
            &record,
        )?);
    }
    donors.find(fresh)?;
    for (id, listed) in lists.iter().filter(|(id, _)| is_patient(*id)) {
        ensure_wanted(context)?;
        let treatment = Treatment {
            context,
            lease,
            record: &record,
            donors: &donors,
            id,
        };
        match treatment.treat(listed)? {
            Outcome::Whole { healed } => {
                context.sealer.barrier()?;
                lists.close(context.sealer, id, &[])?;
                report.add(id, healed, 0);
            }
            Outcome::Partly { healed, left } => {
                let count = left.iter().map(|range| u64::from(range.count())).sum();
                context.sealer.barrier()?;
                lists.close(context.sealer, id, &left)?;
                report.add(id, healed, count);
            }
            Outcome::Left(why) => report.left.push((id, why)),
        }
    }
    context.sealer.barrier()?;
    Ok(report)
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
    /// Nothing could be done.
    Left(String),
}

/// A container that is being healed.
struct Treatment<'a> {
    context: &'a Context<'a>,
    lease: &'a HeldLease,
    record: &'a OnRecord,
    donors: &'a Donors<'a>,
    id: ContainerId,
}

impl Treatment<'_> {
    fn treat(&self, listed: Option<&[SlotRange]>) -> Result<Outcome> {
        for _ in 0..ROUNDS_MAX {
            let found = objects_of(self.context, self.id)?;
            let patient = Patient::examine(self.context.containers, self.id, &found, listed, self.record)?;
            if patient.is_sound() {
                self.drop_older(&patient, &found)?;
                return Ok(Outcome::Whole { healed: 0 });
            }
            let highest = found.highest().unwrap_or(Generation::FIRST);
            let highest = highest.max(patient.generation_of_copy());
            let made = generation::make(self.context, &patient, self.donors, highest.next())?;
            let Made { sealed, healed, left } = match made {
                Ok(made) => made,
                Err(why) => return Ok(Outcome::Left(why)),
            };
            if !self.lease.is_held()? {
                return Err(ReclaimError::Overtaken);
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
        Ok(Outcome::Left(
            "others rewrite it all the time; the next prune tries again".to_owned(),
        ))
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
        Ok(Outcome::Left(format!(
            "there is no space for its next generation: {error}"
        )))
    }
}
