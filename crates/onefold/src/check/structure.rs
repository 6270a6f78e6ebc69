//! Structure: checks from every manifest down to the catalogs of the containers that its recipes
//! reach.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use container::CatalogView;
use format::frame::{DIGEST_BYTES, ObjectKind};
use format::manifest::StreamRoot;
use format::names;
use format::node::NodeEntry;
use format::reclaim::Removed;
use recipe::{ChunkRefs, NodeCache, NodeSource, TreeRoot};
use session::{ManifestEntry, ManifestList};
use types::{
    ChunkLocation, ContainerId, ContainerKind, Fingerprint, Generation, SequenceNumber, SessionId, SlotRange,
};

use super::needs::Needs;
use super::{CheckReport, Damage, objects, refuses, refuses_container};
use crate::covered::ManifestLoss;
use crate::damage::{BadSlots, all_slots};
use crate::error::Result;
use crate::monitor::{Monitor, WorkUnit};
use crate::reading::Reading;
use crate::scope::Scope;
use crate::snapshots::Snapshot;
use crate::store::Store;

/// The parts of the structure.
pub(super) struct Structure {
    /// Backups whose manifests can be read.
    pub(super) backups: Vec<Snapshot>,
    /// Every container that some manifest names or reaches.
    pub(super) containers: Vec<ContainerId>,
    /// The slots of them that backups reach.
    pub(super) needs: Needs,
    /// Whether a checked node, and everything below it, could be read.
    pub(super) sound: HashMap<(ChunkLocation, Fingerprint), bool>,
    /// Slots that cannot be read.
    pub(super) bad: BadSlots,
}

/// Checks the structure of the backups in the scope, and adds findings to the report. If the scope
/// is the whole store, this includes objects that belong to no backup.
pub(super) fn check(
    (store, scope): (&Store, &Scope),
    reading: &Reading<'_>,
    monitor: &Monitor,
    report: &mut CheckReport,
) -> Result<Structure> {
    let narrowed;
    let mut list = reading.list();
    let mut forgotten = BTreeSet::new();
    if scope.is_whole() {
        for damage in &store.config.damage {
            let why = damage.to_string();
            report.find(&damage.name, Damage::ConfigCopy { why }, true);
        }
        for name in object::config::older(&store.env, &store.config)? {
            report.leave(name, Damage::ConfigOld);
        }
        forgotten = objects::check(store, list, report)?;
    } else {
        narrowed = scope.narrow(list.clone());
        list = &narrowed;
    }
    manifests(store, list, &forgotten, report)?;
    let backups = list
        .backups()
        .filter(|entry| !forgotten.contains(&entry.session()));
    let backups: Vec<Snapshot> = backups.filter_map(Snapshot::of).collect();
    let nodes = reading.fresh_nodes()?;
    let mut walk = Walk {
        nodes: &nodes,
        monitor,
        sound: HashMap::new(),
        needs: Needs::default(),
        bad: BTreeMap::new(),
    };
    monitor.begin_part(WorkUnit::Backups, backups.len() as u64);
    let mut named = BTreeSet::new();
    for snapshot in &backups {
        report.backups += 1;
        for stream in &snapshot.backup.streams {
            if !walk.stream(stream, report)? {
                report.damaged_backups.insert(snapshot.id);
            }
        }
        let own = snapshot
            .backup
            .containers
            .iter()
            .flat_map(|span| span.ids(snapshot.id));
        named.extend(own);
        monitor.add_done(1);
    }
    // The store still needs data of forgotten backups to which archival backups refer forward (R2).
    for link in reading.forgotten_links()? {
        for stream in &link.backup.streams {
            walk.stream(stream, report)?;
        }
    }
    let Walk {
        sound,
        needs,
        mut bad,
        ..
    } = walk;
    leave_out_removed(store, &mut named)?;
    named.extend(needs.containers());
    catalogs(store, &named, &needs, report, &mut bad)?;
    let containers: Vec<ContainerId> = named.into_iter().collect();
    Ok(Structure {
        backups,
        containers,
        needs,
        sound,
        bad,
    })
}

/// Reports manifests that cannot be read. It is no damage if the backup is forgotten for good.
fn manifests(
    store: &Store,
    list: &ManifestList,
    forgotten: &BTreeSet<SessionId>,
    report: &mut CheckReport,
) -> Result<()> {
    for damaged in &list.damaged {
        let session = names::parse_manifest(&damaged.name).map(|(_, session, _)| session);
        let loss = store.manifest_loss(list, forgotten, damaged)?;
        if loss == ManifestLoss::Unread {
            let instead = session.and_then(|id| list.get(id)).map(advice_on);
            if instead.is_none() {
                report.unread_backups.extend(session);
            }
            let later = || "run the command again when the storage can be read".to_owned();
            let what = Damage::ManifestUnread {
                why: damaged.why.clone(),
                advice: instead.unwrap_or_else(later),
            };
            report.find(&damaged.name, what, false);
            continue;
        }
        if loss == ManifestLoss::Torn {
            let why = damaged.why.clone();
            report.leave(&damaged.name, Damage::ManifestTorn { why });
            continue;
        }
        if let Some(session) = session.filter(|_| loss == ManifestLoss::Forgotten) {
            let what = Damage::TombstoneDamaged {
                backup: session,
                why: damaged.why.clone(),
            };
            report.leave(&damaged.name, what);
            continue;
        }
        let entry = session.and_then(|id| list.get(id));
        let why = match entry.filter(|entry| entry.backup().is_some()) {
            Some(entry) => format!("{}; {}", damaged.why, advice_on(entry)),
            None => damaged.why.clone(),
        };
        report.find(&damaged.name, Damage::ManifestDamaged { why }, false);
        report.damaged_backups.extend(session);
    }
    Ok(())
}

/// What an unreadable revision of this backup means, and what to do.
fn advice_on(entry: &ManifestEntry) -> String {
    let id = entry.session();
    if entry.may_be_forgotten && !entry.newer_unreadable {
        return format!(
            "it may say that the backup is forgotten, which is final, so no new backup builds upon that one; `onefold \
             forget {id}` ends the doubt"
        );
    }
    format!("an older revision counts, and `onefold unhold {id}` puts one above both")
}

/// Removes containers that reclamation has removed whole from those that manifests name: they need
/// not exist. Containers that a backup reaches must exist, whatever the lists contain. An
/// unreadable list is reported elsewhere.
fn leave_out_removed(store: &Store, named: &mut BTreeSet<ContainerId>) -> Result<()> {
    for object in store.env.storage.list(names::REMOVED_FOLDER)? {
        if names::parse_removed(&object.name).is_none() {
            continue;
        }
        let read = store
            .sealer
            .read(&object.name, ObjectKind::Removed, Removed::decode);
        let Ok(list) = read else { continue };
        for slots in list.slots.iter().filter(|slots| slots.slots.is_none()) {
            named.remove(&slots.container);
        }
        for id in list.gone.iter().flat_map(|run| run.ids()) {
            named.remove(&id);
        }
    }
    Ok(())
}

/// Checks that every container exists, with all its copies, and that its catalog opens. A lost
/// container is bad as a whole, so that backups store its chunks again.
fn catalogs(
    store: &Store,
    containers: &BTreeSet<ContainerId>,
    needs: &Needs,
    report: &mut CheckReport,
    bad: &mut BadSlots,
) -> Result<()> {
    let storage = &store.env.storage;
    let mut mirrors: BTreeMap<(SessionId, SequenceNumber), Generation> = BTreeMap::new();
    for object in storage.list(names::MIRROR_FOLDER)? {
        if let Some(mirror) = names::parse_mirror(&object.name) {
            let newest = mirrors
                .entry((mirror.session, mirror.sequence))
                .or_insert(mirror.generation);
            *newest = mirror.generation.max(*newest);
        }
    }
    let mut mains: BTreeMap<ContainerId, Generation> = BTreeMap::new();
    for kind in ContainerKind::ALL {
        for object in storage.list(kind.folder())? {
            if let Some((id, generation)) = names::parse_container(&object.name) {
                let newest = mains.entry(id).or_insert(generation);
                *newest = generation.max(*newest);
            }
        }
    }
    for id in containers {
        report.containers += 1;
        let mirror = mirrors
            .get(&(id.session, id.sequence))
            .filter(|_| id.kind.is_mirrored());
        let main = mains.get(id);
        let is_needed = needs.has(*id);
        if main.is_none() && mirror.is_none() && !is_needed {
            // Prune has removed it, and the list that names it is deleted.
            continue;
        }
        let catalog = store.containers.catalog(*id);
        if main.is_none() {
            let is_covered = mirror.is_some() || id.kind == ContainerKind::Catalog;
            report.find_if(is_needed, id, Damage::ContainerMissing, is_covered);
        }
        if id.kind.is_mirrored() {
            match (main, mirror) {
                (_, None) => {
                    report.find_if(is_needed, id, Damage::MirrorMissing, main.is_some());
                }
                (Some(main), Some(mirror)) if main == mirror => {
                    compare_ends(store, *id, *main, is_needed, report)?;
                }
                _ => {}
            }
        }
        match catalog {
            Ok(view) => {
                if let Some(lost) = without_chunks(store, &view)? {
                    let is_needed = needs.has_any(*id, &lost.slots);
                    report.find_if(is_needed, id, lost.what, lost.slots.is_empty());
                    if !lost.slots.is_empty() {
                        bad.entry(*id).or_default().extend(lost.slots);
                    }
                }
            }
            Err(error) if refuses_container(&error) => return Err(error.into()),
            Err(error) => {
                let is_covered = id.kind == ContainerKind::Catalog;
                report.find_if(is_needed, id, Damage::container(error), is_covered);
                bad.entry(*id).or_default().push(all_slots());
            }
        }
    }
    Ok(())
}

/// Damage of the object that holds a trimmed container's chunks.
struct LostChunks {
    what: Damage,
    /// The slots that it costs.
    slots: Vec<SlotRange>,
}

impl LostChunks {
    fn all(what: Damage) -> Self {
        let slots = vec![all_slots()];
        Self { what, slots }
    }
}

/// What is wrong with the object that holds a trimmed container's chunks: it has neither of its
/// names, has another length than its container records, or cannot be looked up.
fn without_chunks(store: &Store, view: &CatalogView) -> Result<Option<LostChunks>> {
    let (Some(body), Some(recorded)) = (view.body(), view.body_len()) else {
        return Ok(None);
    };
    let (own, former) = (names::body(view.id(), body), names::container(view.id(), body));
    // Another process may just be renaming it.
    for name in [&own, &former, &own] {
        match store.env.storage.head(name) {
            Err(env::StorageError::NotFound { .. }) => {}
            Ok(head) if head.len == recorded => return Ok(None),
            Ok(head) => {
                let len = head.len;
                let what = Damage::container(format!(
                    "the object that its chunks are in has {len} bytes, and had {recorded}: {name}"
                ));
                let slots = view.slots_beyond(len);
                return Ok(Some(LostChunks { what, slots }));
            }
            Err(error) if refuses(&error) => return Err(error.into()),
            Err(error) => return Ok(Some(LostChunks::all(Damage::container(error)))),
        }
    }
    // It is not missing either if its generation was replaced meanwhile.
    let generation = names::container(view.id(), view.generation());
    match store.env.storage.head(&generation) {
        Err(env::StorageError::NotFound { .. }) => Ok(None),
        Ok(_) => Ok(Some(LostChunks::all(Damage::BodyMissing { body: own }))),
        Err(error) if refuses(&error) => Err(error.into()),
        Err(error) => Ok(Some(LostChunks::all(Damage::container(error)))),
    }
}

/// The digest at the end of a container covers salt, rows and catalog. So if two copies have the
/// same digest, one attempt wrote both, and nothing else has to be read.
fn compare_ends(
    store: &Store,
    id: ContainerId,
    generation: Generation,
    is_needed: bool,
    report: &mut CheckReport,
) -> Result<()> {
    let storage = &store.env.storage;
    let main = names::container(id, generation);
    let Some(mirror) = names::mirror(id, generation) else {
        return Ok(());
    };
    let ends = [&main, &mirror].map(|name| storage.get_tail(name, DIGEST_BYTES as u64));
    let [main_end, mirror_end] = ends;
    match (main_end, mirror_end) {
        (Ok(main_end), Ok(mirror_end)) if main_end == mirror_end => {}
        (Ok(_), Ok(_)) => {
            report.find_if(is_needed, mirror, Damage::MirrorDiffers { main }, true);
        }
        // A newer generation has replaced it meanwhile.
        (Err(env::StorageError::NotFound { .. }), _) | (_, Err(env::StorageError::NotFound { .. })) => {}
        (main_end, mirror_end) => {
            let is_covered = main_end.is_ok() || mirror_end.is_ok();
            for (copy, end) in [(main, main_end), (mirror, mirror_end)] {
                match end {
                    Ok(_) => {}
                    Err(error) if refuses(&error) => return Err(error.into()),
                    Err(error) => report.find_if(is_needed, copy, Damage::container(error), is_covered),
                }
            }
        }
    }
    Ok(())
}

struct Walk<'a> {
    nodes: &'a NodeCache,
    monitor: &'a Monitor,
    /// Nodes that were checked, with the fingerprint that was used, and whether everything below is
    /// sound.
    sound: HashMap<(ChunkLocation, Fingerprint), bool>,
    needs: Needs,
    bad: BadSlots,
}

impl Walk<'_> {
    fn stream(&mut self, stream: &StreamRoot, report: &mut CheckReport) -> Result<bool> {
        let root = TreeRoot::from(stream);
        self.node(&root, report)
    }

    /// Checks a node and everything below it, each node once.
    fn node(&mut self, node: &TreeRoot, report: &mut CheckReport) -> Result<bool> {
        if self.monitor.is_cancelled() {
            return Err(restore::RestoreError::Interrupted.into());
        }
        let key = (node.location, node.fingerprint);
        if let Some(sound) = self.sound.get(&key) {
            return Ok(*sound);
        }
        report.nodes += 1;
        let slot = SlotRange::one(node.location.slot);
        self.needs.add(node.location.container, slot);
        let sound = match self.children(node) {
            Err(error) if stops(&error) => return Err(error.into()),
            Err(error) => {
                let why = error.to_string();
                report.find(node.location.container, Damage::NodeDamaged { why }, false);
                // The node itself is sound if only its forward references cannot be resolved.
                let is_its_own = !matches!(
                    error,
                    recipe::RecipeError::NoLaterBackup { .. } | recipe::RecipeError::BrokenForward { .. }
                );
                self.needs.add_unknown();
                if !is_its_own {
                    self.sound.insert(key, false);
                    return Ok(false);
                }
                self.bad
                    .entry(node.location.container)
                    .or_default()
                    .push(SlotRange::one(node.location.slot));
                false
            }
            Ok(children) => {
                let mut sound = true;
                for child in children {
                    sound &= self.node(&child, report)?;
                }
                sound
            }
        };
        self.sound.insert(key, sound);
        Ok(sound)
    }

    /// The node's child nodes. For a segment: none, after a check of its references.
    fn children(&mut self, node: &TreeRoot) -> std::result::Result<Vec<TreeRoot>, recipe::RecipeError> {
        if node.level.get() == 1 {
            // This comes first, so that the check looks at a damaged container itself.
            for entry in &self.nodes.node(node.location)?.entries {
                if let NodeEntry::Run {
                    container,
                    first,
                    count,
                    ..
                } = entry
                {
                    let slots = SlotRange::new(*first, *count);
                    self.needs.add(*container, slots.unwrap_or_else(all_slots));
                }
            }
            // Verifies the node's fingerprint against the catalogs of the chunks that it refers to.
            for reference in ChunkRefs::whole(self.nodes, node) {
                reference?;
            }
            return Ok(Vec::new());
        }
        recipe::child_nodes(self.nodes, node)
    }
}

/// Whether the storage refuses or is gone, so that the check cannot continue.
pub(super) fn stops(error: &recipe::RecipeError) -> bool {
    matches!(error, recipe::RecipeError::Container(error) if refuses_container(error))
}
