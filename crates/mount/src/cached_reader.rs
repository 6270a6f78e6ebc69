//! A reader of the store whose regions come from the cache: for listings and fences, which are read
//! in small pieces, again and again.

use std::fmt;
use std::sync::Arc;

use container::{CatalogView, PlainRegion, RegionBuffer};
use crypto::Fingerprinter;
use format::node::Node;
use recipe::{Child, NodeSource, RecipeError, StoreReader, StreamName, TreeRoot};
use types::{ChunkLocation, ContainerId, RegionIndex, Slot};

use crate::regions::Regions;

/// The reader, and the cache before it.
pub(crate) struct CachedReader<'a> {
    pub(crate) reader: &'a dyn StoreReader,
    pub(crate) regions: &'a Regions,
}

impl fmt::Debug for CachedReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedReader").finish_non_exhaustive()
    }
}

impl NodeSource for CachedReader<'_> {
    fn node(&self, location: ChunkLocation) -> Result<Arc<Node>, RecipeError> {
        self.reader.node(location)
    }

    fn catalog(&self, container: ContainerId) -> Result<Arc<CatalogView>, RecipeError> {
        self.reader.catalog(container)
    }

    fn stream(&self, node: ChunkLocation, name: StreamName) -> Result<TreeRoot, RecipeError> {
        self.reader.stream(node, name)
    }

    fn sent_children(&self, node: &TreeRoot) -> Result<Option<Vec<Child>>, RecipeError> {
        self.reader.sent_children(node)
    }

    fn fingerprinter(&self) -> &Fingerprinter {
        self.reader.fingerprinter()
    }
}

impl StoreReader for CachedReader<'_> {
    fn region(&self, at: ChunkLocation) -> Result<(Arc<CatalogView>, PlainRegion), RecipeError> {
        self.regions.copy(self.reader, at)
    }

    fn read_regions_into(
        &self,
        view: &CatalogView,
        regions: &[RegionIndex],
        buffer: &mut RegionBuffer,
    ) -> Result<(), RecipeError> {
        self.reader.read_regions_into(view, regions, buffer)
    }

    fn newer_catalog(&self, view: &CatalogView) -> Result<Option<Arc<CatalogView>>, RecipeError> {
        self.reader.newer_catalog(view)
    }

    fn is_far(&self) -> bool {
        self.reader.is_far()
    }

    fn chunk(&self, at: ChunkLocation) -> Result<Vec<u8>, RecipeError> {
        self.reader.chunk(at)
    }

    fn verify(&self, view: &CatalogView, slot: Slot, bytes: &[u8]) -> Result<(), RecipeError> {
        self.reader.verify(view, slot, bytes)
    }
}
