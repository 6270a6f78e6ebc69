//! Sweeping: finds the slots of some containers that no mark contains.
//!
//! Only containers that may have lost something are looked at (docs/protocol.md, "Sweep list"), so
//! the cost follows what changed. All groups' marks are read once, front to back, beside the sorted
//! list. A catalog is loaded if a part of the container is marked; without a mark, all of it is
//! dead.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use container::{CatalogView, ContainerError, Containers};
use env::StorageError;
use format::names::{self, MirrorName};
use format::reclaim::{ContainerSlots, SlotList};
use types::{ContainerId, ContainerKind, SequenceNumber, SessionId};

use crate::error::Result;
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

/// Whether containers of this kind hold nodes.
pub(crate) fn holds_nodes(kind: ContainerKind) -> bool {
    matches!(kind, ContainerKind::Recipe | ContainerKind::Small)
}

/// What marks say of the containers swept.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// Marked slots of the containers swept.
    pub(crate) live: SlotMap,
    /// Sessions of which any container is marked, of those whose containers are swept.
    pub(crate) alive: HashSet<SessionId>,
}

/// Reads from all marks the slots of `swept`.
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

/// The containers of a session that its folders list, those of which there is but a mirror copy
/// among them.
pub(crate) fn listed(containers: &Containers, session: SessionId) -> Result<Vec<ContainerId>> {
    // Before the others: the main copy of what is listed here was put before it.
    let mirrors = mirrors(containers, &names::mirror_folder(session))?;
    let mut found = Vec::new();
    for kind in KINDS {
        found.extend(listed_kind(containers, session, kind)?);
    }
    let known = found.iter().copied().collect();
    found.extend(without_main(containers, mirrors, &known)?);
    Ok(found)
}

fn mirrors(containers: &Containers, folder: &str) -> Result<Vec<MirrorName>> {
    let listed = containers.env().storage.list(folder)?;
    let names = listed.iter().filter_map(|meta| names::parse_mirror(&meta.name));
    Ok(names.collect())
}

/// Containers whose main copies are gone: somebody slept between two copies, and it was removed
/// meanwhile; or a power cut left the second alone. One that does not tell its kind may be of
/// either: both come back.
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
            // Gone meanwhile; or it may be given another time, and what it is of is not known
            // before.
            Err(ContainerError::Storage(StorageError::NotFound { .. } | StorageError::Io { .. })) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

/// The containers that a copy may be of: its name does not tell the kind.
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

/// All containers of the store: where it is not known which may have lost something.
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
    /// Whether the storage did not give a catalog: more may be dead, and show when it does.
    pub(crate) is_partial: bool,
}

/// What of the containers is dead. Copies of catalogs are when nothing else of their session lives.
pub(crate) fn dead(
    containers: &Containers,
    swept: &BTreeSet<ContainerId>,
    merged: &Merged,
    is_ended: &dyn Fn(SessionId) -> bool,
    progress: &dyn Progress,
) -> Result<Swept> {
    let (mut dead, mut is_partial) = (Vec::new(), false);
    for id in swept
        .iter()
        .copied()
        .filter(|id| id.kind != ContainerKind::Catalog)
    {
        // Numbers are given out once, whatever the kind: the copy is of the one that lives.
        let is_copy_of_other = || {
            let mut others = mirrored(id.session, id.sequence).filter(|other| *other != id);
            id.kind.is_mirrored() && others.any(|other| merged.live.get(other).is_some())
        };
        match merged.live.get(id) {
            None if is_copy_of_other() => {}
            None => dead.push(entry(id, None)),
            Some(live) => {
                let view = catalog(containers, id, progress)?;
                is_partial |= view.is_none() && is_unread(containers, id);
                if let Some(view) = view {
                    let rest = all_slots(&view).without(live);
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
    let copies = object::several(over.len(), |at| {
        listed_kind(containers, over[at], ContainerKind::Catalog)
    })?;
    dead.extend(copies.into_iter().flatten().map(|id| entry(id, None)));
    dead.sort_unstable_by_key(|slots| slots.container);
    dead.dedup_by_key(|slots| slots.container);
    Ok(Swept { dead, is_partial })
}

/// Whether a catalog that cannot be read may be there again: the storage does not give it, which is
/// no rot.
fn is_unread(containers: &Containers, id: ContainerId) -> bool {
    matches!(
        containers.catalog(id),
        Err(ContainerError::Storage(StorageError::Io { .. }))
    )
}

/// The slots that a container has.
pub(crate) fn all_slots(view: &CatalogView) -> SlotSet {
    let mut slots: Vec<_> = view.entries().iter().map(|entry| entry.slot).collect();
    slots.sort_unstable();
    slots.into_iter().map(types::SlotRange::one).collect()
}

/// The catalog of a container part of which is in use; `None` where it cannot be read, which
/// `check` will say and which keeps it as it is.
pub(crate) fn catalog(
    containers: &Containers,
    id: ContainerId,
    progress: &dyn Progress,
) -> Result<Option<Arc<CatalogView>>> {
    match containers.catalog(id) {
        Ok(view) => Ok(Some(view)),
        Err(error) if error.is_damage() => {
            progress.warn(Warning::container_unread(id, &error));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
