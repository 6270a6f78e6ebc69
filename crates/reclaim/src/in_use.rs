//! The condemned slots that are still in use at the end of an epoch.
//!
//! These are in use, with everything that they reach (docs/protocol.md, step 5):
//! - everything that a checkpoint of a listed session names;
//! - every declared parent, in the revision in use;
//! - every commit that the named marks do not cover, forgotten or not, with every node that it
//!   wrote;
//! - the checkpoint of an adoption whose last adopter has not ended.
//!
//! A node that the named marks reach is skipped: the marks reach everything below it, so nothing
//! below it is condemned.

use std::collections::{BTreeMap, BTreeSet};

use format::manifest::{Backup, ContainerSpan, Manifest};
use format::names;
use format::reclaim::CoveredManifest;
use format::session::{ARCHIVAL_SERIES, Checkpoint};
use recipe::NodeSource;
use session::{EndedBy, ManifestEntry, ManifestList, Manifests, SessionInfo, SessionTable};
use types::{ChunkLocation, ContainerId, Level, Revision, SeriesId, SessionId, SlotRange};

use crate::error::{ReclaimError, Result};
use crate::forward_pins::ForwardPins;
use crate::mark::{self, Visit, Walk};
use crate::marks::{InForce, covered};
use crate::progress::Progress;
use crate::slots::{SlotMap, SlotSet};
use crate::sweep::holds_nodes;

/// Manifests of parents that are read side by side, and in memory at a time.
const PARENTS_MAX: usize = 64;

/// What the named marks cover of each session's manifest.
type Covers = BTreeMap<SessionId, CoveredManifest>;
/// A declared parent, with the revision in use.
type Parent = (SeriesId, SessionId, Revision);

/// Finds what is in use.
pub(crate) struct Finder<'a> {
    manifests: &'a Manifests,
    nodes: &'a dyn NodeSource,
    progress: &'a dyn Progress,
    /// The marks from which the epoch was computed. `None`: their nodes are in `found`.
    named: Option<&'a InForce>,
    /// Containers all of whose nodes were visited.
    seen: BTreeSet<ContainerId>,
    /// Declared parents, and whether they were visited. A reader may declare thousands, in each of
    /// its checkpoints.
    parents: BTreeMap<Parent, bool>,
    found: Found,
}

/// The slots found in use, and the marked nodes, which need no visit.
struct Found {
    live: SlotMap,
    /// Containers that were condemned, whole or in part. Chunks of others are not recorded.
    condemned: BTreeSet<ContainerId>,
    marked: SlotMap,
}

impl Visit for Found {
    fn node(&mut self, at: ChunkLocation) -> bool {
        self.live.insert(at.container, SlotRange::one(at.slot))
            && !self.marked.contains(at.container, at.slot)
    }

    fn chunks(&mut self, container: ContainerId, slots: SlotRange) {
        if self.condemned.contains(&container) {
            self.live.insert(container, slots);
        }
    }
}

impl<'a> Finder<'a> {
    pub(crate) fn new(
        manifests: &'a Manifests,
        nodes: &'a dyn NodeSource,
        progress: &'a dyn Progress,
        named: &'a InForce,
        condemned: BTreeSet<ContainerId>,
    ) -> Self {
        let found = Found {
            live: SlotMap::default(),
            condemned,
            marked: SlotMap::default(),
        };
        Self {
            manifests,
            nodes,
            progress,
            named: Some(named),
            seen: BTreeSet::new(),
            parents: BTreeMap::new(),
            found,
        }
    }

    /// Loads the marked nodes before the first walk. Often no walk follows.
    fn prepare(&mut self) -> Result<()> {
        let Some(named) = self.named else { return Ok(()) };
        for (group, stored) in &named.groups {
            let live = stored.live(self.manifests.sealer(), *group)?;
            let mut cursor = live.cursor();
            while let Some((container, ranges)) = cursor.next() {
                if holds_nodes(container.kind) {
                    self.found
                        .marked
                        .add(container, &ranges.iter().copied().collect());
                }
            }
        }
        self.named = None;
        Ok(())
    }

    /// The slots found.
    pub(crate) fn into_live(self) -> SlotMap {
        self.found.live
    }

    /// Adds all slots that the checkpoints of these sessions name. Returns the parents that
    /// archival rewrites among them declared.
    pub(crate) fn sessions(
        &mut self,
        sessions: &[SessionInfo],
        covers: &Covers,
    ) -> Result<BTreeSet<SessionId>> {
        let mut declared = BTreeSet::new();
        for info in sessions {
            for checkpoint in SessionTable::checkpoints(self.manifests.sealer(), info)? {
                if info.claim.series == ARCHIVAL_SERIES {
                    declared.extend(checkpoint.parents.iter().map(|(_, parent, _)| *parent));
                }
                self.checkpoint(info.id, &checkpoint)?;
            }
        }
        self.parents(covers)?;
        Ok(declared)
    }

    /// Adds all slots that a session's checkpoint names, except those of parents, which
    /// [`Self::parents`] adds.
    fn checkpoint(&mut self, session: SessionId, checkpoint: &Checkpoint) -> Result<()> {
        self.written(session, &checkpoint.containers)?;
        for (container, slots) in &checkpoint.references {
            self.reference(session, *container, *slots)?;
        }
        for parent in &checkpoint.parents {
            self.parents.entry(*parent).or_insert(false);
        }
        Ok(())
    }

    /// Adds all slots that declared parents reach. If the named marks cover and mark a parent in
    /// the declared revision, nothing that it reaches is condemned, so it is not read.
    fn parents(&mut self, covers: &Covers) -> Result<()> {
        let is_marked = |(_, parent, revision): &Parent| {
            covers
                .get(parent)
                .is_some_and(|covered| covered.revision == *revision && covered.is_marked())
        };
        let new = self.parents.iter_mut().filter(|(_, visited)| !**visited);
        let new = new.map(|(parent, visited)| {
            *visited = true;
            *parent
        });
        let new: Vec<Parent> = new.filter(|parent| !is_marked(parent)).collect();
        let manifests = self.manifests;
        let is_far = manifests.sealer().env().storage.is_far();
        for some in new.chunks(PARENTS_MAX) {
            let read = object::several(is_far, some.len(), |at| {
                let (series, parent, revision) = some[at];
                manifests.read(series, parent, revision)
            })?;
            for stored in read {
                if let Manifest::Commit(backup) | Manifest::Revised(backup) = &stored.manifest {
                    self.roots(stored.session, backup)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the slots that manifests need and the marks of the epoch do not cover. Manifests are
    /// listed now, and once.
    pub(crate) fn manifests(
        &mut self,
        list: &ManifestList,
        covers: &Covers,
        kept: &ForwardPins,
    ) -> Result<()> {
        for entry in &list.entries {
            if covers.get(&entry.session()) == Some(&covered(entry, kept)) {
                continue;
            }
            let last = match kept.backup(entry.session()) {
                Some(kept) => Some(kept.clone()),
                None => self.manifests.last_backup(entry)?,
            };
            let Some((revision, backup)) = last else {
                if entry.is_forgotten() && !covers.contains_key(&entry.session()) {
                    // No revision is left that states what it reached, so no session can have read
                    // references from it.
                    continue;
                }
                self.adoption(list, entry)?;
                continue;
            };
            let as_covered = covers.get(&entry.session()).is_some_and(|covered| {
                covered.revision >= revision
                    && ((!covered.is_marked() && entry.is_forgotten() && !kept.has(entry.session()))
                        || covered.digest == self.digest(entry, revision))
            });
            if as_covered {
                continue;
            }
            self.roots(entry.session(), &backup)?;
            self.written(entry.session(), &backup.containers)?;
            for (old, number) in &backup.adopted {
                let Some(number) = number else { continue };
                let sealer = self.manifests.sealer().clone();
                if let Some(checkpoint) = SessionTable::adopted_checkpoint(&sealer, *old, *number)? {
                    self.written(*old, &checkpoint.containers)?;
                }
            }
        }
        // Those that the checkpoints of adoptions name.
        self.parents(covers)
    }

    /// The digest by which marks would cover this revision. If the entry is forgotten, the
    /// revision's own digest is enough: marks that cover a lower revision cover the backup itself.
    fn digest(&self, entry: &ManifestEntry, revision: Revision) -> u128 {
        if entry.stored.revision == revision {
            return entry.stored.digest;
        }
        self.manifests
            .read(entry.series(), entry.session(), revision)
            .map_or(0, |stored| stored.digest)
    }

    /// Adds the slots that an adoption names, while the last adopter has not ended.
    fn adoption(&mut self, list: &ManifestList, entry: &ManifestEntry) -> Result<()> {
        let Some(EndedBy::Adopted {
            by,
            checkpoint: Some(number),
        }) = entry.ended_by()
        else {
            return Ok(());
        };
        if has_ended(list, by) {
            return Ok(());
        }
        let sealer = self.manifests.sealer().clone();
        let missing = || ReclaimError::Damaged {
            what: format!(
                "{}: is missing, and session {by} goes on from it",
                names::checkpoint(entry.session(), number)
            ),
        };
        let checkpoint =
            SessionTable::adopted_checkpoint(&sealer, entry.session(), number)?.ok_or_else(missing)?;
        self.checkpoint(entry.session(), &checkpoint)
    }

    fn roots(&mut self, of: SessionId, backup: &Backup) -> Result<()> {
        self.prepare()?;
        let mut walk = Walk::new(self.nodes, self.progress);
        mark::backup(&mut walk, backup, &mut self.found).map_err(|error| error.of(of))
    }

    /// Adds all slots of the containers that a session wrote, and everything that their nodes
    /// reach.
    fn written(&mut self, session: SessionId, spans: &[ContainerSpan]) -> Result<()> {
        for id in spans.iter().flat_map(|span| span.ids(session)) {
            if !self.seen.insert(id) {
                continue;
            }
            if holds_nodes(id.kind) {
                self.all_nodes(session, id)?;
            }
            if self.found.condemned.contains(&id) {
                self.found.live.add(id, &SlotSet::all());
            }
        }
        Ok(())
    }

    fn all_nodes(&mut self, session: SessionId, id: ContainerId) -> Result<()> {
        let catalog = match self.nodes.catalog(id) {
            Ok(catalog) => catalog,
            // An earlier epoch removed it, so no session can be given its nodes.
            Err(recipe::RecipeError::Container(container::ContainerError::Missing { .. })) => return Ok(()),
            Err(source) => return Err(mark::unmarkable(session, source)),
        };
        for entry in catalog.entries().iter().filter(|entry| entry.level.get() > 0) {
            let at = ChunkLocation {
                container: id,
                slot: entry.slot,
            };
            self.node(session, at, entry.level)?;
        }
        Ok(())
    }

    fn node(&mut self, session: SessionId, at: ChunkLocation, level: Level) -> Result<()> {
        self.prepare()?;
        let mut walk = Walk::new(self.nodes, self.progress);
        walk.from(at, level, &mut self.found)
            .map_err(|error| error.of(session))
    }

    fn reference(&mut self, session: SessionId, container: ContainerId, slots: SlotRange) -> Result<()> {
        if !holds_nodes(container.kind) {
            self.found.live.insert(container, slots);
            return Ok(());
        }
        let unmarkable = |source| mark::unmarkable(session, source);
        let catalog = self.nodes.catalog(container).map_err(unmarkable)?;
        for slot in slots.iter() {
            let Some(entry) = catalog.entry(slot) else {
                continue;
            };
            let at = ChunkLocation { container, slot };
            if entry.level.get() > 0 {
                self.node(session, at, entry.level)?;
            } else {
                self.found.live.insert(at.container, SlotRange::one(at.slot));
            }
        }
        Ok(())
    }
}

/// Whether the last adopter of a chain that begins with this one has ended, judged by this listing
/// alone.
pub(crate) fn has_ended(list: &ManifestList, mut adopter: SessionId) -> bool {
    // Adopters have higher numbers than the adopted, so the chain ends.
    loop {
        match list.get(adopter).map(ManifestEntry::ended_by) {
            None => return list.has(adopter),
            Some(Some(EndedBy::Adopted { by, .. })) if by > adopter => adopter = by,
            Some(_) => return true,
        }
    }
}

#[cfg(test)]
mod tests;
