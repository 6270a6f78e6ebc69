//! Sources and sinks of nodes.

use std::fmt;
use std::sync::Arc;

use container::{CatalogView, ContainerError, PlainRegion, RegionBuffer};
use crypto::Fingerprinter;
use format::node::Node;
use types::{ChunkLocation, ContainerId, Fingerprint, Level, RegionIndex, Slot};

use crate::child::Child;
use crate::error::RecipeError;
use crate::stream::StreamName;
use crate::tree_root::TreeRoot;

/// Reads nodes and catalogs. Threads share it. [`crate::NodeCache`] is the one over a store.
pub trait NodeSource {
    /// The node at a location. It is decoded, but not checked: the code that follows a reference
    /// checks it.
    ///
    /// # Errors
    /// [`RecipeError::Container`], [`RecipeError::Malformed`], or [`RecipeError::MissingSlot`].
    fn node(&self, location: ChunkLocation) -> Result<Arc<Node>, RecipeError>;

    /// A container's catalog.
    ///
    /// # Errors
    /// [`RecipeError::Container`].
    fn catalog(&self, container: ContainerId) -> Result<Arc<CatalogView>, RecipeError>;

    /// The root of a backup's stream as it is now, for a node that refers forward to it.
    ///
    /// # Errors
    /// [`RecipeError::NoLaterBackup`]; errors of the source itself, as [`RecipeError::Other`].
    fn stream(&self, node: ChunkLocation, name: StreamName) -> Result<TreeRoot, RecipeError> {
        Err(RecipeError::NoLaterBackup { node, name })
    }

    /// The children of a node, in the order of the stream, if the source has them without node and
    /// catalogs. [`crate::open_node`] checks them. A bound of containers that is not known is 0.
    ///
    /// # Errors
    /// Every error of this crate that names a node.
    fn sent_children(&self, node: &TreeRoot) -> Result<Option<Vec<Child>>, RecipeError> {
        let _ = node;
        Ok(None)
    }

    /// The domain's fingerprints, to check nodes by.
    fn fingerprinter(&self) -> &Fingerprinter;
}

/// Reads a store: nodes, catalogs, and the regions of chunks.
///
/// The reader decrypts, and follows newer generations of a container. It need not verify: the
/// caller verifies chunks by their fingerprints, and nodes by those that refer to them (INV-5). So
/// the store may be remote. [`crate::NodeCache`] is the one over a local store.
///
/// [`RecipeError::Other`] says that the reader itself failed, for example because the connection to
/// the store broke. No later call can succeed then.
pub trait StoreReader: NodeSource + fmt::Debug + Send + Sync {
    /// The region that holds a slot, and the catalog that describes it.
    ///
    /// # Errors
    /// [`RecipeError::Container`].
    fn region(&self, at: ChunkLocation) -> Result<(Arc<CatalogView>, PlainRegion), RecipeError>;

    /// Reads the plain bytes of some regions of a container, in ascending order, into reused
    /// memory.
    ///
    /// # Errors
    /// [`RecipeError::Container`]. The buffer then holds no region.
    fn read_regions_into(
        &self,
        view: &CatalogView,
        regions: &[RegionIndex],
        buffer: &mut RegionBuffer,
    ) -> Result<(), RecipeError>;

    /// The catalog of the container's highest generation, if that is newer than this one. Its slots
    /// have the same numbers and bytes (INV-2).
    ///
    /// # Errors
    /// [`RecipeError::Container`].
    fn newer_catalog(&self, view: &CatalogView) -> Result<Option<Arc<CatalogView>>, RecipeError>;

    /// Whether each read waits for a network, so that few long ones are faster than many short
    /// ones.
    fn is_far(&self) -> bool {
        false
    }

    /// The bytes of a chunk, verified by the fingerprint in its container's catalog.
    ///
    /// # Errors
    /// [`RecipeError::Container`].
    fn chunk(&self, at: ChunkLocation) -> Result<Vec<u8>, RecipeError>;

    /// Whether these are the bytes of a slot, by the catalog's fingerprint. A reader that can note
    /// damage notes a difference.
    ///
    /// # Errors
    /// [`RecipeError::Container`].
    fn verify(&self, view: &CatalogView, slot: Slot, bytes: &[u8]) -> Result<(), RecipeError> {
        let is_it = view
            .entry(slot)
            .is_some_and(|entry| entry.fingerprint == self.fingerprinter().chunk(bytes));
        let (container, generation) = (view.id(), view.generation());
        is_it.then_some(()).ok_or_else(|| {
            let missing = ContainerError::NoSlot {
                container,
                generation,
                slot,
            };
            missing.into()
        })
    }
}

/// The roots of backups' streams, for nodes that refer forward to them (R2).
pub trait StreamRoots: fmt::Debug + Send + Sync {
    /// The root of a stream as it is now, if it is known.
    fn root(&self, name: StreamName) -> Option<TreeRoot>;
}

/// A node that is stored already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownNode {
    /// Its location.
    pub location: ChunkLocation,
    /// Its own bound of the distinct data containers below it. Equal content may be in other
    /// containers.
    pub containers_max: u32,
}

/// Receives the nodes of a tree under construction, each after all nodes below it.
pub trait NodeSink {
    /// Whether an equal node is stored, and may be referred to.
    ///
    /// # Errors
    /// Errors of the sink itself, as [`RecipeError::Other`].
    fn find(&mut self, fingerprint: &Fingerprint, level: Level) -> Result<Option<KnownNode>, RecipeError>;

    /// Stores a node that is not known. The node contains its level, length and entries.
    ///
    /// # Errors
    /// Errors of the sink itself, as [`RecipeError::Other`].
    fn store(&mut self, fingerprint: &Fingerprint, node: &Node) -> Result<ChunkLocation, RecipeError>;
}
