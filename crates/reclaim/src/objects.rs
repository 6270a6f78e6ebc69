//! The objects of the containers of one session and kind: listed once for all, and deleted
//! together.
//!
//! Several processes may delete them, or may have done so before: a missing object is no error.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use container::CatalogView;
use env::{Storage, StorageError};
use format::names;
use types::{ContainerId, ContainerKind, Generation, ObjectName, SessionId};

use crate::error::{ReclaimError, Result};

/// So many deletes are worth one more thread.
const A_THREAD_MIN: usize = 8;
/// Threads that delete. A remote storage answers them in parallel. On a local one each waits while
/// the disk frees the blocks.
const THREADS_MAX: usize = 8;

/// The copies of one generation, and the bytes of each copy that exists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    pub(crate) main: Option<u64>,
    pub(crate) mirror: Option<u64>,
}

/// A container's objects, by generation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Objects {
    pub(crate) generations: BTreeMap<Generation, Copies>,
    /// Bodies of trimmed generations, and the space of each.
    pub(crate) bodies: BTreeMap<Generation, u64>,
}

/// The objects of a container that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StandingObjects {
    pub(crate) generation: Generation,
    /// The body of a trimmed generation. It may still have its former name.
    pub(crate) body: Option<Generation>,
}

impl StandingObjects {
    pub(crate) fn of(view: &CatalogView) -> Self {
        Self {
            generation: view.generation(),
            body: view.body(),
        }
    }
}

/// A name to delete, and its object's length.
pub(crate) type Doomed = (ObjectName, u64);

impl Objects {
    /// The generation, if it is the only one and has all copies of its kind.
    pub(crate) fn alone(&self, kind: ContainerKind) -> Option<Generation> {
        let only = self.generations.first_key_value();
        let (generation, copies) = only.filter(|_| self.generations.len() == 1)?;
        let is_whole = copies.main.is_some() && copies.mirror.is_some() == kind.is_mirrored();
        is_whole.then_some(*generation)
    }

    /// The highest generation of which any copy exists.
    pub(crate) fn highest(&self) -> Option<Generation> {
        self.generations
            .last_key_value()
            .map(|(generation, _)| *generation)
    }

    /// Whether these are the only objects, in all copies of the kind.
    pub(crate) fn is_only(&self, kind: ContainerKind, kept: StandingObjects) -> bool {
        self.alone(kind) == Some(kept.generation) && self.bodies.keys().copied().eq(kept.body)
    }

    /// All objects except those of one generation. Bodies come after the generations that may refer
    /// to them. A body under its former name is kept if it has no other name. If the body exists, a
    /// process that slept has put the object with the former name, so that object is not kept.
    pub(crate) fn but(&self, id: ContainerId, kept: Option<StandingObjects>) -> Vec<Doomed> {
        let body = kept.and_then(|kept| kept.body);
        let former = body.filter(|body| !self.bodies.contains_key(body));
        let stays = |generation: Generation| {
            kept.is_some_and(|kept| kept.generation == generation) || former == Some(generation)
        };
        let mut out: Vec<Doomed> = Vec::new();
        for (generation, copies) in self
            .generations
            .iter()
            .filter(|(generation, _)| !stays(**generation))
        {
            let main = copies.main.map(|len| (names::container(id, *generation), len));
            let mirror = copies.mirror.zip(names::mirror(id, *generation));
            out.extend(main);
            out.extend(mirror.map(|(len, name)| (name, len)));
        }
        let bodies = self
            .bodies
            .iter()
            .filter(|(generation, _)| body != Some(**generation));
        out.extend(bodies.map(|(generation, space)| (names::body(id, *generation), *space)));
        out
    }
}

/// The error about a name whose number has no next one, or nearly so. Numbers of a store do not
/// reach that within its life.
pub(crate) fn no_next(name: &ObjectName) -> ReclaimError {
    ReclaimError::Damaged {
        what: format!(
            "{name}: its number is one of the last that there are, so no program of Onefold put this object; if you know \
             that, delete it"
        ),
    }
}

/// The stored objects of the containers in `wanted`. All are of one session and kind, in ascending
/// order.
pub(crate) fn list(
    storage: &dyn Storage,
    session: SessionId,
    kind: ContainerKind,
    wanted: &[ContainerId],
) -> Result<BTreeMap<ContainerId, Objects>> {
    let mut out: BTreeMap<ContainerId, Objects> = BTreeMap::new();
    let mut add = |id: ContainerId, generation: Generation, name: &ObjectName, set: &dyn Fn(&mut Copies)| {
        if wanted.binary_search(&id).is_err() {
            return Ok(());
        }
        if generation.get() >= Generation::MAX.get() - 1 {
            return Err(no_next(name));
        }
        let objects = out.entry(id).or_default();
        set(objects.generations.entry(generation).or_default());
        Ok(())
    };
    let listed = storage.list(&names::container_folder(kind, session))?;
    for object in &listed {
        if let Some((id, generation)) = names::parse_container(&object.name) {
            add(id, generation, &object.name, &|copies| {
                copies.main = Some(object.len);
            })?;
        }
    }
    if kind.is_mirrored() {
        for object in storage.list(&names::mirror_folder(session))? {
            if let Some(mirror) = names::parse_mirror(&object.name) {
                let (sequence, generation) = (mirror.sequence, mirror.generation);
                let id = ContainerId {
                    session,
                    kind,
                    sequence,
                };
                add(id, generation, &object.name, &|copies| {
                    copies.mirror = Some(object.len);
                })?;
            }
        }
    }
    for object in &listed {
        if let Some((id, generation)) = names::parse_body(&object.name)
            && wanted.binary_search(&id).is_ok()
        {
            out.entry(id).or_default().bodies.insert(generation, object.space);
        }
    }
    Ok(out)
}

/// Deletes objects, and returns the bytes of those that still existed. Not durable before the next
/// barrier. If the storage refuses to delete some, the others are deleted first, and then the first
/// refusal is returned.
pub(crate) fn delete(storage: &dyn Storage, doomed: &[Doomed]) -> Result<u64, StorageError> {
    // Bodies are deleted last, so that nobody finds a generation without its body.
    let (bodies, others): (Vec<_>, Vec<_>) = doomed
        .iter()
        .cloned()
        .partition(|(name, _)| names::parse_body(name).is_some());
    Ok(delete_all(storage, &others)? + delete_all(storage, &bodies)?)
}

fn delete_all(storage: &dyn Storage, doomed: &[Doomed]) -> Result<u64, StorageError> {
    if storage.is_far() {
        // Few requests; whether an object still existed is not asked.
        let names: Vec<ObjectName> = doomed.iter().map(|(name, _)| name.clone()).collect();
        if !names.is_empty() {
            storage.delete_many(&names)?;
        }
        return Ok(doomed.iter().map(|(_, len)| len).sum());
    }
    let (next, freed) = (AtomicUsize::new(0), AtomicU64::new(0));
    let refused = Mutex::new(None);
    let worker = || {
        while let Some((name, len)) = doomed.get(next.fetch_add(1, Ordering::Relaxed)) {
            match storage.delete(name) {
                Ok(()) => _ = freed.fetch_add(*len, Ordering::Relaxed),
                Err(StorageError::NotFound { .. }) => {}
                Err(error @ StorageError::Denied { .. }) => {
                    let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
                    refused.get_or_insert(error);
                }
                Err(error) => {
                    // The other threads end after their current object.
                    next.store(doomed.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    };
    let threads = (doomed.len() / A_THREAD_MIN).clamp(1, THREADS_MAX);
    thread::scope(|scope| {
        let workers: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let own = worker();
        let each = workers.into_iter();
        let others = each.map(|worker| worker.join().expect("a deleting thread does not panic"));
        others.fold(own, Result::and)
    })?;
    match refused.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(freed.into_inner()),
    }
}

/// Whether an object, under its own name or as a body, can be trimmed.
pub(crate) fn can_trim(storage: &dyn Storage, view: &CatalogView) -> Result<bool, StorageError> {
    let id = view.id();
    let names = match view.body() {
        None => vec![names::container(id, view.generation())],
        Some(body) => vec![names::body(id, body), names::container(id, body)],
    };
    for name in names {
        match storage.can_trim(&name) {
            Err(StorageError::NotFound { .. }) => {}
            answer => return answer,
        }
    }
    Ok(false)
}

/// The number of objects of each generation.
pub(crate) const fn copies(id: ContainerId) -> u64 {
    if id.kind.is_mirrored() { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use types::SequenceNumber;

    use super::*;

    fn generation(n: u32) -> Generation {
        Generation::new(n).unwrap()
    }

    #[test]
    fn a_body_stays_with_its_generation_under_one_of_its_names() {
        let id = ContainerId {
            session: SessionId::new(1).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(3).unwrap(),
        };
        let main = |len| Copies {
            main: Some(len),
            mirror: None,
        };
        let kept = StandingObjects {
            generation: generation(2),
            body: Some(generation(1)),
        };
        // A crash came before the body was renamed.
        let mut found = Objects::default();
        found.generations.insert(generation(1), main(100));
        found.generations.insert(generation(2), main(10));
        assert!(found.but(id, Some(kept)).is_empty());
        assert!(!found.is_only(id.kind, kept));

        // The body was renamed, and a process that slept has put the former name again.
        found.bodies.insert(generation(1), 60);
        let doomed = found.but(id, Some(kept));
        assert_eq!(doomed, [(names::container(id, generation(1)), 100)]);
        found.generations.remove(&generation(1));
        assert!(found.is_only(id.kind, kept));

        // A later generation does not need the body, which is deleted last.
        found.generations.insert(generation(3), main(50));
        let later = StandingObjects {
            generation: generation(3),
            body: None,
        };
        let doomed = found.but(id, Some(later));
        let names: Vec<_> = doomed.into_iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                names::container(id, generation(2)),
                names::body(id, generation(1))
            ]
        );
    }
}
