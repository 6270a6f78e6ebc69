//! The objects of the containers of one session and kind: listed once for all of them, deleted together.
//!
//! Who deletes may be one of several, and may have been here before: what is gone already is fine.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use env::{Storage, StorageError};
use format::names;
use types::{ContainerId, ContainerKind, Generation, ObjectName, SessionId};

/// Deletes that are worth threads of their own.
const THREADED_MIN: usize = 32;
/// Threads that delete: a remote storage answers them all at once, a local disk gains little.
const THREADS: usize = 4;

/// One generation's copies, and the bytes of each that there is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    pub(crate) main: Option<u64>,
    pub(crate) mirror: Option<u64>,
}

/// A container's objects, by generation.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects(pub(crate) BTreeMap<Generation, Copies>);

/// A name to delete, and its object's length.
pub(crate) type Doomed = (ObjectName, u64);

impl Objects {
    /// The only generation, where all copies that the kind has are there.
    pub(crate) fn alone(&self, kind: ContainerKind) -> Option<Generation> {
        let (generation, copies) = self.0.first_key_value().filter(|_| self.0.len() == 1)?;
        let is_whole = copies.main.is_some() && copies.mirror.is_some() == kind.is_mirrored();
        is_whole.then_some(*generation)
    }

    /// The highest generation that any copy has.
    pub(crate) fn highest(&self) -> Option<Generation> {
        self.0.last_key_value().map(|(generation, _)| *generation)
    }

    /// All objects but those of one generation.
    pub(crate) fn but(&self, id: ContainerId, kept: Option<Generation>) -> Vec<Doomed> {
        let mut out = Vec::new();
        for (generation, copies) in self.0.iter().filter(|(generation, _)| Some(**generation) != kept) {
            let main = copies.main.map(|len| (names::container(id, *generation), len));
            let mirror = copies.mirror.zip(names::mirror(id, *generation));
            out.extend(main);
            out.extend(mirror.map(|(len, name)| (name, len)));
        }
        out
    }
}

/// What is stored of the containers that `wanted` names, all of one session and kind, in ascending order.
pub(crate) fn list(
    storage: &dyn Storage,
    session: SessionId,
    kind: ContainerKind,
    wanted: &[ContainerId],
) -> Result<BTreeMap<ContainerId, Objects>, StorageError> {
    let mut out: BTreeMap<ContainerId, Objects> = BTreeMap::new();
    let mut add = |id: ContainerId, generation: Generation, set: &dyn Fn(&mut Copies)| {
        if wanted.binary_search(&id).is_ok() {
            set(out.entry(id).or_default().0.entry(generation).or_default());
        }
    };
    for object in storage.list(&names::container_folder(kind, session))? {
        if let Some((id, generation)) = names::parse_container(&object.name) {
            add(id, generation, &|copies| copies.main = Some(object.len));
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
                add(id, generation, &|copies| copies.mirror = Some(object.len));
            }
        }
    }
    Ok(out)
}

/// Deletes objects, and returns how many bytes those had that were still there. Not durable before the next
/// barrier.
pub(crate) fn delete(storage: &dyn Storage, doomed: &[Doomed]) -> Result<u64, StorageError> {
    if doomed.len() < THREADED_MIN {
        return delete_some(storage, doomed, &AtomicBool::new(false));
    }
    let (failed, freed) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let shares = doomed.chunks(doomed.len().div_ceil(THREADS));
        let threads: Vec<_> = shares
            .map(|share| {
                scope.spawn(|| {
                    delete_some(storage, share, &failed).map(|bytes| {
                        freed.fetch_add(bytes, Ordering::Relaxed);
                    })
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a deleting thread does not panic"))
    })?;
    Ok(freed.into_inner())
}

fn delete_some(storage: &dyn Storage, doomed: &[Doomed], failed: &AtomicBool) -> Result<u64, StorageError> {
    let mut freed = 0;
    for (name, len) in doomed {
        if failed.load(Ordering::Relaxed) {
            break;
        }
        match storage.delete(name) {
            Ok(()) => freed += len,
            Err(StorageError::NotFound { .. }) => {}
            Err(error) => {
                failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    }
    Ok(freed)
}
