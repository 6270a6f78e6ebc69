//! Finds which containers exist.
//!
//! The index and the catalog cache may know containers that no longer exist. A backup refers to
//! nothing in those. One listing of a session's folder answers for all of its containers.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use container::Containers;
use env::{ObjectMeta, StorageError};
use format::names;
use types::{ContainerId, ContainerKind, Generation, SequenceNumber, SessionId};

/// A trimmed generation is only a trailer. A longer object has its regions.
const TRIMMED_BYTES_MAX: u64 = 1 << 20;

/// For each session and kind: which containers exist, and which do not. `None`: the storage does
/// not tell.
type Standing = HashMap<(SessionId, ContainerKind), Option<HashMap<SequenceNumber, bool>>>;

/// Which containers exist. Any number of threads may use it.
#[derive(Debug)]
pub(crate) struct ContainerExistence {
    containers: Containers,
    /// The session whose containers exist without a check.
    own: SessionId,
    /// Containers that exist, by session; `None` where the storage does not tell.
    standing: Mutex<Standing>,
    /// Containers that may be trimmed and have no body in the listing; and whether the body exists,
    /// once that was checked.
    suspects: Mutex<HashMap<ContainerId, Option<bool>>>,
}

impl ContainerExistence {
    pub(crate) fn new(containers: Containers, own: SessionId) -> Self {
        Self {
            containers,
            own,
            standing: Mutex::default(),
            suspects: Mutex::default(),
        }
    }

    /// Whether a container still exists. A lost container is listed nowhere before a check, and its
    /// catalog may be cached. It lists each session's containers once. A container that is not
    /// listed is looked up by its name, once: a session that still runs may have put it since.
    pub(crate) fn stands(&self, id: ContainerId) -> bool {
        if id.session == self.own {
            return true;
        }
        self.is_listed(id) && self.has_body(id)
    }

    /// Whether the body of a trimmed container exists. It checks, once, only containers that may be
    /// trimmed and have no body in the listing.
    fn has_body(&self, id: ContainerId) -> bool {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = suspects.get_mut(&id) else {
            return true;
        };
        *known.get_or_insert_with(|| {
            let view = self.containers.catalog(id).ok();
            let Some(body) = view.and_then(|view| view.body()) else {
                return true;
            };
            let storage = &self.containers.env().storage;
            let own = names::body(id, body);
            let names = [own.clone(), names::container(id, body), own];
            let is_missing = |name| matches!(storage.head(name), Err(StorageError::NotFound { .. }));
            !names.iter().all(is_missing)
        })
    }

    /// The kinds whose folders are listed when a container of this kind is first asked for. In a
    /// far storage both kinds of a backup's containers are, because both will be asked for.
    fn listed_with(&self, kind: ContainerKind) -> &'static [ContainerKind] {
        const BOTH: [ContainerKind; 2] = [ContainerKind::Data, ContainerKind::Recipe];
        match kind {
            _ if BOTH.contains(&kind) && self.containers.env().storage.is_far() => &BOTH,
            ContainerKind::Data => &[ContainerKind::Data],
            ContainerKind::Recipe => &[ContainerKind::Recipe],
            ContainerKind::Archive => &[ContainerKind::Archive],
            ContainerKind::Catalog => &[ContainerKind::Catalog],
            ContainerKind::Small => &[ContainerKind::Small],
        }
    }

    /// The containers of a listing.
    fn found(&self, objects: &[ObjectMeta]) -> HashMap<SequenceNumber, bool> {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        suspects.extend(without_body(objects).map(|id| (id, None)));
        let ids = objects
            .iter()
            .filter_map(|object| names::parse_container(&object.name));
        ids.map(|(id, _)| (id.sequence, true)).collect()
    }

    fn is_listed(&self, id: ContainerId) -> bool {
        let storage = &self.containers.env().storage;
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        if !standing.contains_key(&(id.session, id.kind)) {
            let kinds = self.listed_with(id.kind);
            let listed = object::threaded(kinds.len(), kinds.len(), |at| {
                Ok::<_, ()>(storage.list(&names::container_folder(kinds[at], id.session)).ok())
            });
            for (kind, objects) in kinds.iter().zip(listed.unwrap_or_default()) {
                let found = objects.map(|objects| self.found(&objects));
                standing.entry((id.session, *kind)).or_insert(found);
            }
        }
        let listed = standing.entry((id.session, id.kind)).or_default();
        listed.as_mut().is_none_or(|sequences| {
            *sequences.entry(id.sequence).or_insert_with(|| {
                let asked = storage.head(&names::container(id, Generation::FIRST));
                !matches!(asked, Err(StorageError::NotFound { .. }))
            })
        })
    }

    /// Whether a container's catalog can be read. If not, the container counts as missing from now
    /// on, because none of its chunks can be restored.
    pub(crate) fn has_catalog(&self, id: ContainerId) -> bool {
        let Err(error) = self.containers.catalog(id) else {
            return true;
        };
        if error.is_damage() {
            let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
            let listed = standing.entry((id.session, id.kind)).or_default();
            listed.get_or_insert_default().insert(id.sequence, false);
        }
        false
    }
}

/// The containers of a listing that may be trimmed, and whose body is not listed.
fn without_body(objects: &[ObjectMeta]) -> impl Iterator<Item = ContainerId> {
    let bodies: HashSet<ContainerId> = objects
        .iter()
        .filter_map(|object| names::parse_body(&object.name))
        .map(|(id, _)| id)
        .collect();
    let short = objects.iter().filter(|object| object.len <= TRIMMED_BYTES_MAX);
    let generations = short.filter_map(|object| names::parse_container(&object.name));
    generations
        .filter(|(id, generation)| *generation > Generation::FIRST && !id.kind.is_mirrored())
        .map(|(id, _)| id)
        .filter(move |id| !bodies.contains(id))
}
