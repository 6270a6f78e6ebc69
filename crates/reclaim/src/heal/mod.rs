//! Healing: a container that lost slots gets them back, and with it every backup that refers to
//! them.
//!
//! A chunk is the same bytes wherever it lies. So a damaged slot is restored from any place that
//! has a chunk of its fingerprint: the next backup stored it again, or another generation has it
//! still. The container gets a new generation with all slots under their old numbers (INV-2), and
//! no reference changes. A container that is lost as a whole is made again, as far as a copy of its
//! catalog says what it held and the chunks are found. Nodes are healed from other generations and
//! mirror copies alone: an equal node elsewhere may refer to other places, which no marks of this
//! one cover.
//!
//! What is to be healed is listed under `damaged/`. A list is deleted when what it lists is whole
//! again.
//!
//! What must hold: a new generation is durable in all copies before older ones are deleted, and
//! those are deleted, durably, before the list is. So a crash at any point leaves what the next run
//! goes on from. Nothing on a removed list comes back (INV-3, INV-9). Every chunk is compared with
//! its fingerprint. Bytes that the disk does not give now may come back: while such slots have no
//! other source, the generation stays. Runs under the reclaimer's lease, which saves work alone: of
//! two generations of one number the create-only put picks one.

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

/// Generations that rivals may put meanwhile.
const ROUNDS_MAX: usize = 3;

/// A container that got slots back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Healed {
    /// The container.
    pub container: ContainerId,
    /// Slots that are whole again.
    pub slots: u64,
    /// Slots that are still damaged: nothing has their chunks.
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

/// Heals what is listed as damaged, as far as its chunks are found: in these containers, which are
/// looked through, or by the index.
///
/// # Errors
/// `Overtaken`, `Interrupted`; of the storage. The store is as readable as before, and the next run
/// goes on.
pub fn heal(context: &Context<'_>, lease: &HeldLease, fresh: &[ContainerId]) -> Result<HealReport> {
    let lists = Lists::read(context.sealer)?;
    let mut report = HealReport::default();
    if lists.is_empty() {
        return Ok(report);
    }
    // What was cached may be of generations that are damaged, or were replaced.
    context.containers.clear_catalogs();
    let record = OnRecord::read(context.sealer)?;
    let mut donors = Donors::new(context);
    let is_patient = |id: ContainerId| id.kind != ContainerKind::Catalog && !record.is_gone(id);
    // All that is wanted is looked for at once.
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

/// What is stored of a container.
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
    /// All that was listed can be read, after so many slots were restored.
    Whole { healed: u64 },
    /// Some slots were restored, and these were not.
    Partly { healed: u64, left: Vec<SlotRange> },
    /// Nothing could be done.
    Left(String),
}

/// One container, being healed.
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

    /// Older generations that a run which died has left beside the one that is whole.
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

    /// Half of a generation must not stand in the way of the next.
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
