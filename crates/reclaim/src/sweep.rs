//! Sweeping: finds the slots of some containers that no mark contains.
//!
//! It looks only at containers that may have lost something (docs/protocol.md, "Sweep list"), so
//! the cost follows the changes. All groups' marks are read once, front to back, beside the sorted
//! list. A catalog is loaded if a part of the container is marked; without a mark, all of it is
//! dead. If the catalog of a container with nodes cannot be read, every slot without a mark counts
//! as dead, whether it exists or not.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use container::{CatalogView, ContainerError, Containers};
use env::StorageError;
use format::names::{self, MirrorName};
use format::reclaim::{ContainerSlots, SlotList};
use types::{ContainerId, ContainerKind, SequenceNumber, SessionId};

use crate::error::{ReclaimError, Result};
use crate::progress::Progress;
use crate::slots::{SlotMap, SlotSet, entry};
use crate::warning::Warning;

/// Every kind of container.
pub(crate) const KINDS: [ContainerKind; 5] = [
    ContainerKind::Data,
    ContainerKind::Recipe,
    ContainerKind::Archive,
    ContainerKind::Catalog,
    ContainerKind::Small,
];

/// Catalogs of a far storage are loaded in batches of so many, a batch side by side.
const CATALOGS_A_BATCH: usize = 32;

/// The folders of so many sessions are listed without a look whether they exist.
const FEW_SESSIONS: usize = 4;

/// Whether containers of this kind hold nodes.
pub(crate) fn holds_nodes(kind: ContainerKind) -> bool {
    matches!(kind, ContainerKind::Recipe | ContainerKind::Small)
}

/// What the marks contain of the swept containers.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// Marked slots of the swept containers.
    pub(crate) live: SlotMap,
    /// Of the sessions with swept containers, those with any marked container.
    pub(crate) alive: HashSet<SessionId>,
}

/// Reads the slots of `swept` from all marks.
pub(crate) fn merge<'a>(
    lists: impl Iterator<Item = Result<Cow<'a, SlotList>>>,
    swept: &BTreeSet<ContainerId>,
) -> Result<Merged> {
    let sessions: HashSet<SessionId> = swept.iter().map(|id| id.session).collect();
    let mut merged = Merged::default();
    for list in lists {
        let list = list?;
        let mut cursor = list.cursor();
        while let Some((container, ranges)) = cursor.next() {
            if !sessions.contains(&container.session) {
                continue;
            }
            merged.alive.insert(container.session);
            if swept.contains(&container) {
                merged.live.add(container, &ranges.iter().copied().collect());
            }
        }
    }
    Ok(merged)
}

/// The containers of the first list that have a slot which the second lacks.
pub(crate) fn lost_bits(before: &SlotList, now: &SlotList) -> Vec<ContainerId> {
    let mut lost = Vec::new();
    let mut now = now.iter().peekable();
    let mut old = before.cursor();
    while let Some((container, ranges)) = old.next() {
        while now.next_if(|entry| entry.container < container).is_some() {}
        let kept = now.next_if(|entry| entry.container == container);
        let kept: SlotSet = kept
            .and_then(|entry| entry.slots)
            .unwrap_or_default()
            .into_iter()
            .collect();
        let was: SlotSet = ranges.iter().copied().collect();
        if !was.without(&kept).is_empty() {
            lost.push(container);
        }
    }
    lost
}

/// The containers of a session in its folders. A container counts even if only its mirror exists.
pub(crate) fn listed(containers: &Containers, session: SessionId) -> Result<Vec<ContainerId>> {
    // List mirrors before the other folders: the main copy of a listed mirror was put before it.
    let mirrors = mirrors(containers, &names::mirror_folder(session))?;
    let mut found = Vec::new();
    for kind in KINDS {
        found.extend(listed_kind(containers, session, kind)?);
    }
    let known = found.iter().copied().collect();
    found.extend(without_main(containers, mirrors, &known)?);
    Ok(found)
}

/// The containers of many sessions, by [`listed`]. Usually nearly none has any, and a listing of
/// sub-folders tells which ones have.
pub(crate) fn listed_of(containers: &Containers, sessions: &BTreeSet<SessionId>) -> Result<Vec<ContainerId>> {
    let storage = &*containers.env().storage;
    let mut sessions: Vec<SessionId> = sessions.iter().copied().collect();
    if sessions.len() > FEW_SESSIONS {
        let folders = KINDS.map(ContainerKind::folder).into_iter();
        let folders: Vec<&str> = folders.chain([names::MIRROR_FOLDER]).collect();
        let with = object::several(storage.is_far(), folders.len(), |at| {
            storage.list_folders(folders[at])
        })?;
        let with = with.iter().flatten();
        let with: HashSet<SessionId> = with.filter_map(|name| names::parse_session(name)).collect();
        sessions.retain(|session| with.contains(session));
    }
    let found = object::several(storage.is_far(), sessions.len(), |at| {
        listed(containers, sessions[at])
    })?;
    Ok(found.into_iter().flatten().collect())
}

fn mirrors(containers: &Containers, folder: &str) -> Result<Vec<MirrorName>> {
    let listed = containers.env().storage.list(folder)?;
    let names = listed.iter().filter_map(|meta| names::parse_mirror(&meta.name));
    Ok(names.collect())
}

/// Containers without a main copy. A process slept between putting two copies, and the container
/// was removed meanwhile; or a power cut left only the mirror. If the mirror does not tell its
/// kind, both possible containers are returned.
fn without_main(
    containers: &Containers,
    mirrors: Vec<MirrorName>,
    known: &BTreeSet<ContainerId>,
) -> Result<Vec<ContainerId>> {
    let mut found = Vec::new();
    for mirror in mirrors {
        let ids = mirrored(mirror.session, mirror.sequence);
        if ids.clone().any(|id| known.contains(&id)) {
            continue;
        }
        match container::container_of_mirror(&*containers.env().storage, mirror) {
            Ok(Some(id)) => found.push(id),
            Ok(None) => found.extend(ids),
            // It was deleted meanwhile; or the storage may give it later, and its container is not
            // known before.
            Err(ContainerError::Storage(StorageError::NotFound { .. } | StorageError::Io { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// The possible containers of a mirror, because its name does not tell the kind.
fn mirrored(session: SessionId, sequence: SequenceNumber) -> impl Iterator<Item = ContainerId> + Clone {
    let kinds = KINDS.into_iter().filter(|kind| kind.is_mirrored());
    kinds.map(move |kind| ContainerId {
        session,
        kind,
        sequence,
    })
}

fn listed_kind(containers: &Containers, session: SessionId, kind: ContainerKind) -> Result<Vec<ContainerId>> {
    let listed = containers
        .env()
        .storage
        .list(&names::container_folder(kind, session))?;
    let mut ids: Vec<ContainerId> = listed
        .iter()
        .filter_map(|meta| names::parse_container(&meta.name))
        .map(|(id, _)| id)
        .collect();
    ids.dedup();
    Ok(ids)
}

/// All containers of the store, for when it is not known which may have lost something.
pub(crate) fn everything(containers: &Containers) -> Result<BTreeSet<ContainerId>> {
    let mirrors = mirrors(containers, names::MIRROR_FOLDER)?;
    let mut all = BTreeSet::new();
    for kind in KINDS {
        for meta in containers.env().storage.list(kind.folder())? {
            all.extend(names::parse_container(&meta.name).map(|(id, _)| id));
        }
    }
    all.extend(without_main(containers, mirrors, &all)?);
    Ok(all)
}

/// What a sweep found.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Dead slots, in order.
    pub(crate) dead: Vec<ContainerSlots>,
    /// Whether the storage did not give a catalog. Then more slots may be dead, and a later sweep
    /// finds them.
    pub(crate) is_partial: bool,
    /// Containers with nodes whose catalogs cannot be read.
    pub(crate) unread: BTreeSet<ContainerId>,
}

/// The dead slots of the containers. Copies of catalogs are dead when nothing else of their session
/// lives.
pub(crate) fn dead(
    containers: &Containers,
    swept: &BTreeSet<ContainerId>,
    merged: &Merged,
    is_ended: &dyn Fn(SessionId) -> bool,
    progress: &dyn Progress,
) -> Result<Swept> {
    let (mut dead, mut is_partial, mut unread) = (Vec::new(), false, BTreeSet::new());
    let is_far = containers.env().storage.is_far();
    let of_data = swept.iter().filter(|id| id.kind != ContainerKind::Catalog);
    let of_data: Vec<ContainerId> = of_data.copied().collect();
    for some in of_data.chunks(if is_far { CATALOGS_A_BATCH } else { 1 }) {
        let views = object::several(is_far, some.len(), |at| {
            let is_live = merged.live.get(some[at]).is_some();
            Ok::<_, ReclaimError>(is_live.then(|| containers.catalog(some[at])))
        })?;
        for (id, view) in some.iter().copied().zip(views) {
            // A session uses each number once, whatever the kind, so the mirror belongs to the live
            // container.
            let is_copy_of_other = || {
                let mut others = mirrored(id.session, id.sequence).filter(|other| *other != id);
                id.kind.is_mirrored() && others.any(|other| merged.live.get(other).is_some())
            };
            match merged.live.get(id).zip(view) {
                None if is_copy_of_other() => {}
                None => dead.push(entry(id, None)),
                Some((live, view)) => {
                    is_partial |= view.as_ref().is_err_and(is_unread);
                    let all = match readable(id, view, progress)? {
                        Some(view) => all_slots(&view),
                        // What a dead node reaches is removed. So look-ups must not find the node,
                        // whichever slot it has.
                        None if holds_nodes(id.kind) => {
                            unread.insert(id);
                            SlotSet::all()
                        }
                        None => continue,
                    };
                    let rest = all.without(live);
                    if !rest.is_empty() {
                        dead.push(entry(id, Some(&rest)));
                    }
                }
            }
        }
    }
    let sessions: BTreeSet<SessionId> = swept.iter().map(|id| id.session).collect();
    let is_over = |session: &SessionId| !merged.alive.contains(session) && is_ended(*session);
    let over: Vec<SessionId> = sessions.into_iter().filter(is_over).collect();
    let copies = object::several(is_far, over.len(), |at| {
        listed_kind(containers, over[at], ContainerKind::Catalog)
    })?;
    dead.extend(copies.into_iter().flatten().map(|id| entry(id, None)));
    dead.sort_unstable_by_key(|slots| slots.container);
    dead.dedup_by_key(|slots| slots.container);
    Ok(Swept {
        dead,
        is_partial,
        unread,
    })
}

/// Whether an unreadable catalog may come back: the storage did not give it, and it has not rotted.
fn is_unread(error: &ContainerError) -> bool {
    matches!(error, ContainerError::Storage(StorageError::Io { .. }))
}

/// The slots that a container has.
pub(crate) fn all_slots(view: &CatalogView) -> SlotSet {
    let mut slots: Vec<_> = view.entries().iter().map(|entry| entry.slot).collect();
    slots.sort_unstable();
    slots.into_iter().map(types::SlotRange::one).collect()
}

/// The catalog of a container that is partly in use. `None`: it cannot be read. Then the container
/// stays as it is, and `check` reports it.
pub(crate) fn catalog(
    containers: &Containers,
    id: ContainerId,
    progress: &dyn Progress,
) -> Result<Option<Arc<CatalogView>>> {
    readable(id, containers.catalog(id), progress)
}

/// The catalog, if it could be read; else a warning. An error of the storage stays one.
fn readable(
    id: ContainerId,
    view: Result<Arc<CatalogView>, ContainerError>,
    progress: &dyn Progress,
) -> Result<Option<Arc<CatalogView>>> {
    match view {
        Ok(view) => Ok(Some(view)),
        Err(error) if error.is_damage() => {
            progress.warn(Warning::container_unread(id, &error));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use env::fault::FaultStorage;
    use types::{Slot, SlotRange};

    use super::*;
    use crate::test_store;

    /// A dead node in such a container may lead to what this epoch removes.
    #[test]
    fn every_slot_without_a_mark_is_dead_if_a_catalog_of_nodes_cannot_be_read() {
        // No container exists, so no catalog can be read.
        let containers = test_store::containers(Arc::new(FaultStorage::new()), 1 << 20);
        let range = |first, count| SlotRange::new(Slot::new(first).unwrap(), count).unwrap();
        let id = |kind| ContainerId {
            session: SessionId::new(1).unwrap(),
            kind,
            sequence: SequenceNumber::new(0).unwrap(),
        };
        let swept = BTreeSet::from(KINDS.map(id));
        let mut merged = Merged::default();
        merged.alive.insert(SessionId::new(1).unwrap());
        for id in &swept {
            merged.live.add(*id, &[range(2, 3)].into_iter().collect());
        }
        let found = dead(&containers, &swept, &merged, &|_| false, &()).unwrap();
        let rest = vec![range(0, 2), range(5, Slot::MAX.get() - 4)];
        let nodes = swept.into_iter().filter(|id| holds_nodes(id.kind));
        let want: Vec<_> = nodes
            .map(|container| ContainerSlots {
                container,
                slots: Some(rest.clone()),
            })
            .collect();
        assert_eq!(found.dead, want);
        assert!(
            found
                .unread
                .into_iter()
                .eq(want.iter().map(|slots| slots.container))
        );
        assert!(!found.is_partial);
    }
}
