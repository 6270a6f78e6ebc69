//! Finds copies of catalogs.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use container::{ContainerError, Containers};
use format::container::CatalogCopy;
use format::names;
use types::{ContainerId, ContainerKind, Generation, SessionId};

use crate::error::Result;

/// Finds copies of catalogs. Containers of kind `catalog` have those of their session.
///
/// It remembers where the copies of one session are. Otherwise, after the loss of many containers,
/// each of them would read all of these. One thread.
#[derive(Debug, Default)]
pub(super) struct Copies(RefCell<Option<Places>>);

/// Where the copies of a session are: of each container the highest generation that has one, and
/// the container of kind `catalog`.
#[derive(Debug)]
struct Places {
    session: SessionId,
    newest: BTreeMap<ContainerId, (Generation, ContainerId)>,
}

impl Copies {
    /// The copy of a container's catalog with the highest generation. Unreadable copies are
    /// skipped.
    pub(super) fn of(&self, containers: &Containers, id: ContainerId) -> Result<Option<CatalogCopy>> {
        let mut places = self.0.borrow_mut();
        let places = match &mut *places {
            Some(places) if places.session == id.session => places,
            other => other.insert(Places::read(containers, id.session)?),
        };
        let mut found: Option<CatalogCopy> = None;
        if let Some((_, holder)) = places.newest.get(&id) {
            each(containers, *holder, |copy| {
                let newest = found.as_ref().map(|found| found.generation);
                if copy.container == id && newest < Some(copy.generation) {
                    found = Some(copy);
                }
            })?;
        }
        Ok(found)
    }
}

impl Places {
    fn read(containers: &Containers, session: SessionId) -> Result<Self> {
        let folder = names::container_folder(ContainerKind::Catalog, session);
        let listed = containers.env().storage.list(&folder)?;
        let names = listed
            .iter()
            .filter_map(|object| names::parse_container(&object.name));
        let holders: BTreeSet<ContainerId> = names.map(|(id, _)| id).collect();
        let mut newest: BTreeMap<ContainerId, (Generation, ContainerId)> = BTreeMap::new();
        for holder in holders {
            each(containers, holder, |copy| {
                let place = newest.entry(copy.container).or_insert((copy.generation, holder));
                if place.0 < copy.generation {
                    *place = (copy.generation, holder);
                }
            })?;
        }
        Ok(Self { session, newest })
    }
}

/// Passes on the copies that one container has, up to the first unreadable one.
fn each(containers: &Containers, holder: ContainerId, take: impl FnMut(CatalogCopy)) -> Result<()> {
    match containers.catalog_copies(holder, take) {
        Err(error) if error.is_gone() || matches!(error, ContainerError::BadCatalogCopy { .. }) => Ok(()),
        read => Ok(read?),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use container::{CatalogCopies, Compression};
    use env::fault::FaultStorage;
    use types::SequenceNumber;

    use super::*;
    use crate::test_store;

    fn id(kind: ContainerKind, sequence: u32) -> ContainerId {
        ContainerId {
            session: SessionId::new(1).unwrap(),
            kind,
            sequence: SequenceNumber::new(sequence).unwrap(),
        }
    }

    fn copy(sequence: u32, generation: u32) -> CatalogCopy {
        CatalogCopy {
            container: id(ContainerKind::Data, sequence),
            generation: Generation::new(generation).unwrap(),
            entries: Vec::new(),
        }
    }

    /// Each copy is found where it is newest, and all copies are read once for all of them.
    #[test]
    fn many_lost_containers_read_the_copies_once() {
        const HOLDERS: u32 = 12;
        let storage = FaultStorage::new();
        let containers = test_store::containers(Arc::new(storage.clone()), 1 << 20);
        // Every container has a copy, and its own number as a newer one in the holder behind.
        for holder in 0..HOLDERS {
            let at = id(ContainerKind::Catalog, 100 + holder);
            let mut copies = CatalogCopies::new(&containers, at, Compression::Off);
            copies.add_copy(&copy(holder, 0));
            if let Some(before) = holder.checked_sub(1) {
                copies.add_copy(&copy(before, before + 1));
            }
            containers.put(&copies.seal(&containers).unwrap()).unwrap();
        }
        let copies = Copies::default();
        let before = storage.counters().gets;
        for n in 0..HOLDERS - 1 {
            let found = copies.of(&containers, id(ContainerKind::Data, n)).unwrap();
            assert_eq!(found, Some(copy(n, n + 1)));
        }
        let none = copies.of(&containers, id(ContainerKind::Data, 50)).unwrap();
        assert_eq!(none, None);
        let read = storage.counters().gets - before;
        assert!(read <= u64::from(4 * HOLDERS), "{read} reads");
    }
}
