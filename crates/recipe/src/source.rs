//! Sources and sinks of nodes.

use std::fmt;
use std::sync::Arc;

use container::{CatalogView, PlainRegion};
use crypto::Fingerprinter;
use format::node::Node;
use types::{ChunkLocation, ContainerId, Fingerprint, Level, Slot};

use crate::error::RecipeError;
use crate::stream::StreamName;

/// Reads nodes and catalogs. Shared between threads; [`crate::NodeCache`] is the one over a store.
pub trait NodeSource {
    /// The node at a place. Decoded, but not checked against anything: whoever follows a reference
    /// does.
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
    /// [`RecipeError::NoLaterBackup`]; the source's own, as [`RecipeError::Other`].
    fn stream(&self, node: ChunkLocation, name: StreamName) -> Result<TreeRoot, RecipeError> {
        Err(RecipeError::NoLaterBackup { node, name })
    }

    /// The domain's fingerprints, to check nodes by.
    fn fingerprinter(&self) -> &Fingerprinter;
}

/// Reads what a store holds: nodes, catalogs, and the regions that chunks lie in.
///
/// It decrypts and follows newer generations of a container. It does not vouch for what it reads:
/// who asks verifies chunks by their fingerprints, and nodes by those that refer to them (INV-5).
/// So a store may be elsewhere. [`crate::NodeCache`] is the one over a local store.
pub trait StoreReader: NodeSource + Send + Sync {
    /// The region that holds a slot, and the catalog that describes it.
    ///
    /// # Errors
    /// [`RecipeError::Container`].
    fn region(&self, at: ChunkLocation) -> Result<(Arc<CatalogView>, PlainRegion), RecipeError>;

    /// The bytes of a chunk, verified by the fingerprint in its container's catalog.
    ///
    /// # Errors
    /// [`RecipeError::Container`].
    fn chunk(&self, at: ChunkLocation) -> Result<Vec<u8>, RecipeError>;

    /// Whether these are the bytes of a slot, by the catalog's fingerprint. What is not is noted as
    /// damage.
    ///
    /// # Errors
    /// [`RecipeError::Container`].
    fn verify(&self, view: &CatalogView, slot: Slot, bytes: &[u8]) -> Result<(), RecipeError>;
}

/// The roots of backups' streams, for nodes that refer forward to them (R2).
pub trait StreamRoots: fmt::Debug + Send + Sync {
    /// The root of a stream as it is now, if it is known.
    fn root(&self, name: StreamName) -> Option<TreeRoot>;
}

/// A node that is known already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownNode {
    /// Where it lies.
    pub location: ChunkLocation,
    /// Its own bound on the distinct data containers below it: equal content may lie in other
    /// containers.
    pub containers_max: u32,
}

/// Takes the nodes of a tree that is being built, each after all nodes below it.
pub trait NodeSink {
    /// Whether an equal node is known and may be referred to.
    ///
    /// # Errors
    /// The sink's own, as [`RecipeError::Other`].
    fn find(&mut self, fingerprint: &Fingerprint, level: Level) -> Result<Option<KnownNode>, RecipeError>;

    /// Stores a node that is not known; its level, length and entries stand in it.
    ///
    /// # Errors
    /// The sink's own, as [`RecipeError::Other`].
    fn store(&mut self, fingerprint: &Fingerprint, node: &Node) -> Result<ChunkLocation, RecipeError>;
}

/// The root of a stream's tree, as a manifest keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeRoot {
    /// Where the root node lies.
    pub location: ChunkLocation,
    /// Its level, at least 1.
    pub level: Level,
    /// Its fingerprint: what everything below is checked up to (INV-5).
    pub fingerprint: Fingerprint,
    /// The stream's length in bytes.
    pub len: u64,
}

impl From<&format::manifest::StreamRoot> for TreeRoot {
    fn from(root: &format::manifest::StreamRoot) -> Self {
        Self {
            location: root.location,
            level: root.level,
            fingerprint: root.fingerprint,
            len: root.len,
        }
    }
}
