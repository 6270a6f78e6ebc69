//! The store as a running backup uses it: its session, look-ups, existing containers, hooks.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use container::{CatalogView, Containers};
use env::Clock;
use index::{Eviction, HookKind, Index, Resolver, ResolverOptions};
use recipe::{NodeCache, TreeBuilder, TreeRoot};
use session::{NamedContainers, Session};
use types::{ContainerId, SessionId, SlotRange};

use crate::durable::DurablePosition;
use crate::error::IngestError;
use crate::sample::{Sample, VerifiedKnown, VerifyKnown};
use crate::store::existence::ContainerExistence;
use crate::store::hooks::HookPublisher;
use crate::store::previous::segment_containers;

/// Memory for the catalogs of nodes above segments: there is one in some 500 segments.
const UPPER_NODES_CACHE_BYTES: u64 = 256 << 10;

/// The store as a running backup sees it. Any number of threads.
#[derive(Debug)]
pub struct StoreSession {
    session: Session,
    pub(crate) nodes: NodeCache,
    index: Index,
    /// Look-ups of nodes above segments, for the packer only.
    pub(crate) upper_nodes: Mutex<Resolver<Index>>,
    pub(crate) named: NamedContainers,
    previous: Vec<TreeRoot>,
    previous_backup: Option<SessionId>,
    /// The containers of the previous backup's segments, once they were needed.
    previous_containers: OnceLock<HashSet<ContainerId>>,
    hooks: HookPublisher,
    pub(crate) existence: ContainerExistence,
    pub(crate) taken_over: BTreeSet<ContainerId>,
    /// A checkpoint must be collected.
    collect: AtomicBool,
    /// The position that the last checkpoint states.
    pub(crate) durable: DurablePosition,
    /// The containers that the backup reads before it refers to them.
    sample: Sample,
    /// Whether an unreadable chunk of the previous backup ends this backup, so that it is made
    /// again.
    insists: bool,
    /// Whether catalogs are read before the backup refers to the parent's ranges.
    is_suspect: bool,
    /// Trees of an interrupted backup, if this one continues it.
    resumed: Vec<TreeBuilder>,
}

impl StoreSession {
    /// `named`: the containers of committed backups, and those that the session adopted.
    #[must_use]
    pub fn new(session: Session, nodes: NodeCache, index: &Index, named: NamedContainers) -> Self {
        let options = ResolverOptions {
            cache_bytes: UPPER_NODES_CACHE_BYTES,
            eviction: Eviction::ContainerLru,
        };
        let containers = nodes.containers().clone();
        let upper_nodes = Resolver::new(index.clone(), containers.clone(), HookKind::Node, options);
        Self {
            upper_nodes: Mutex::new(upper_nodes.without(session.id())),
            index: index.clone(),
            hooks: HookPublisher::new(containers.clone(), index.session(session.id())),
            existence: ContainerExistence::new(containers, session.id()),
            nodes,
            named,
            previous: Vec::new(),
            previous_backup: None,
            previous_containers: OnceLock::new(),
            taken_over: BTreeSet::new(),
            collect: AtomicBool::new(false),
            durable: DurablePosition::default(),
            sample: Sample::new(VerifyKnown::NONE, session.id(), 0),
            insists: false,
            is_suspect: false,
            resumed: Vec::new(),
            session,
        }
    }

    /// Reads this share of the reused containers before the backup refers to them.
    #[must_use]
    pub fn verifying(mut self, how: VerifyKnown) -> Self {
        if how.share <= 0.0 {
            return self;
        }
        let mut chance = [0; 8];
        self.containers().env().entropy.fill(&mut chance);
        self.sample = Sample::new(how, self.session.id(), u64::from_le_bytes(chance));
        self
    }

    /// Sets whether data of the previous backup is known to have rotted.
    ///
    /// If not, the backup ends when it has to store a chunk of the previous one once more and
    /// cannot read it. The caller then makes the backup again, from a suspect parent. The backup
    /// then reads the parent's catalogs before it refers to the parent's ranges, and reads files on
    /// bad containers again.
    #[must_use]
    pub fn suspecting(mut self, is_suspect: bool) -> Self {
        self.is_suspect = is_suspect;
        self
    }

    /// Continues an interrupted backup: these are its streams' trees, by position.
    #[must_use]
    pub fn resuming(mut self, trees: Vec<TreeBuilder>) -> Self {
        self.resumed = trees;
        self
    }

    pub(crate) fn resumed(&self) -> &[TreeBuilder] {
        &self.resumed
    }

    /// As set by [`Self::suspecting`].
    pub(crate) fn is_suspect(&self) -> bool {
        self.is_suspect
    }

    /// Whether an unreadable chunk of the previous backup ends the backup. Without this the
    /// backup refers to the unreadable chunk.
    #[must_use]
    pub fn insisting(mut self, insists: bool) -> Self {
        self.insists = insists;
        self
    }

    pub(crate) fn insists(&self) -> bool {
        self.insists
    }

    /// What the sample has read and found.
    #[must_use]
    pub fn verified(&self) -> VerifiedKnown {
        self.sample.verified()
    }

    /// Whether the sample has read these slots of an earlier session and found them bad.
    pub(crate) fn is_rotten(&self, id: ContainerId, slots: SlotRange) -> bool {
        id.session != self.session.id() && self.sample.is_bad(self.containers(), id, slots)
    }

    /// Sets the series' previous backup and its streams. Of equal nodes, look-ups prefer those that
    /// this backup refers to.
    #[must_use]
    pub fn with_previous(mut self, backup: SessionId, streams: Vec<TreeRoot>) -> Self {
        self.previous_backup = Some(backup);
        self.previous = streams;
        self
    }

    /// The previous backup and its streams, if these equal them, no damage of it is known, and it
    /// is not forgotten.
    pub(crate) fn same_as(
        &self,
        streams: &[TreeRoot],
    ) -> Result<Option<(SessionId, &[TreeRoot])>, IngestError> {
        let is_damaged = self.is_suspect || !self.previous.iter().all(|root| self.is_sound(root));
        if is_damaged || !self.verified().bad.is_empty() {
            return Ok(None);
        }
        let mut pairs = streams.iter().zip(&self.previous);
        let is_same = streams.len() == self.previous.len()
            && pairs.all(|(new, old)| (new.fingerprint, new.len) == (old.fingerprint, old.len));
        let Some(backup) = self.previous_backup.filter(|_| is_same) else {
            return Ok(None);
        };
        let listed = self.session.manifests().list()?;
        let is_kept = listed.get(backup).is_some_and(|entry| !entry.is_forgotten());
        Ok(is_kept.then_some((backup, &self.previous)))
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Publishes the hooks of this session and of the sessions that it adopted, so that later
    /// backups find their chunks. Called once, when the manifest is durable.
    pub(crate) fn publish_hooks(&self, covered: &[SessionId]) -> Result<(), IngestError> {
        if let Some(hooks) = self.hooks.take() {
            hooks.publish(covered)?;
        }
        self.index.checkpoint()?;
        Ok(())
    }

    /// The containers.
    #[must_use]
    pub fn containers(&self) -> &Containers {
        self.nodes.containers()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.containers().env().clock
    }

    /// Look-ups of one kind, with a cache of their own; this session's own containers are left out.
    pub(crate) fn resolver(&self, kind: HookKind, options: ResolverOptions) -> Resolver<Index> {
        Resolver::new(self.index.clone(), self.containers().clone(), kind, options).without(self.session.id())
    }

    /// Whether the series has a previous backup.
    pub(crate) fn has_previous(&self) -> bool {
        !self.previous.is_empty()
    }

    /// Whether a container has segments of the series' previous backup. Then segments that are near
    /// in the stream are likely near there. Reads the nodes above segments at the first call.
    pub(crate) fn is_of_previous(&self, id: ContainerId) -> bool {
        self.previous_containers
            .get_or_init(|| segment_containers(&self.nodes, &self.previous))
            .contains(&id)
    }

    /// Publishes the hooks of a container that was put.
    pub(crate) fn publish(&self, catalog: &Arc<CatalogView>) -> Result<(), IngestError> {
        self.hooks.publish(catalog)
    }

    /// Publishes the hooks of an adopted container.
    ///
    /// # Errors
    /// Of the storage.
    pub fn add_adopted(&mut self, catalog: &Arc<CatalogView>) -> Result<(), IngestError> {
        self.taken_over.insert(catalog.id());
        self.publish(catalog)
    }

    /// Asks the look-up stage for the collection of a checkpoint.
    pub(crate) fn request_collection(&self) {
        self.collect.store(true, Ordering::Release);
    }

    /// Whether a collection was requested. Returns `true` once for each request.
    pub(crate) fn take_collection_request(&self) -> bool {
        self.collect.load(Ordering::Acquire) && self.collect.swap(false, Ordering::AcqRel)
    }
}
