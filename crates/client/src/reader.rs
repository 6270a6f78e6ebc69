//! Reading a store that a server has.

use std::sync::Arc;

use container::{CatalogView, CompressedRegion, ContainerError, PlainRegion, RegionBuffer};
use crypto::Fingerprinter;
use format::node::Node;
use recipe::{Child, NodeSource, RecipeError, StoreReader, StreamName, TreeRoot};
use types::{ChunkLocation, ContainerId, RegionIndex, Slot};
use wire::{AskedRegions, SentCatalog, SentChildren, Wire, request};

use crate::cache::{Received, node_bytes};
use crate::connection::Connection;
use crate::error::ClientError;
use crate::link::Link;

/// Reads a store by messages.
#[derive(Debug)]
pub(crate) struct RemoteReader {
    pub(crate) link: Link,
    pub(crate) printer: Fingerprinter,
    /// Whether it reads chunks, and so needs catalogs anyway. A backup mostly needs fingerprints
    /// alone.
    reads_chunks: bool,
    received: Received,
}

impl RemoteReader {
    /// For a restore.
    pub(crate) fn of_chunks(link: Link, printer: Fingerprinter) -> Self {
        Self {
            link,
            printer,
            reads_chunks: true,
            received: Received::default(),
        }
    }

    /// For a backup.
    pub(crate) fn of_fingerprints(link: Link, printer: Fingerprinter) -> Self {
        Self {
            reads_chunks: false,
            ..Self::of_chunks(link, printer)
        }
    }

    /// Keeps the children of a node.
    pub(crate) fn keep_children(&self, node: ChunkLocation, children: Vec<Child>) -> Arc<Vec<Child>> {
        let bytes = 64 + size_of_val(&*children) as u64;
        self.received.children.keep(node, children, bytes)
    }

    pub(crate) fn into_connection(self) -> Arc<Connection> {
        self.link.connection()
    }

    /// The region with a slot, described by this catalog.
    fn region_in(&self, view: &CatalogView, slot: Slot) -> Result<PlainRegion, RecipeError> {
        let missing = || ContainerError::NoSlot {
            container: view.id(),
            generation: view.generation(),
            slot,
        };
        let index = view.region_of(slot).ok_or_else(missing)?;
        let sent = self.regions(view, &[index])?;
        let plain = sent.first().and_then(CompressedRegion::decompress);
        Ok(PlainRegion::from_sent(index, plain.ok_or_else(garbled)?))
    }

    /// Each of these regions.
    fn regions(
        &self,
        view: &CatalogView,
        regions: &[RegionIndex],
    ) -> Result<Vec<CompressedRegion>, RecipeError> {
        let asked = AskedRegions {
            container: view.id(),
            generation: view.generation(),
            regions: regions.to_vec(),
        };
        let sent = self.ask(request::REGIONS, &asked, Vec::<CompressedRegion>::from_bytes)?;
        if sent.len() != regions.len() {
            let why = format!("{} regions for {}", sent.len(), regions.len());
            return Err(ClientError::Protocol(why).into());
        }
        Ok(sent)
    }

    fn ask<T>(
        &self,
        kind: u8,
        body: &impl Wire,
        decode: impl Fn(&[u8]) -> Result<T, format::FormatError>,
    ) -> Result<T, RecipeError> {
        Ok(self.link.ask(kind, body, decode)?)
    }
}

fn garbled() -> RecipeError {
    ClientError::Protocol("a region does not decompress".to_owned()).into()
}

impl NodeSource for RemoteReader {
    fn node(&self, location: ChunkLocation) -> Result<Arc<Node>, RecipeError> {
        let _turn = match self.received.nodes.get_or_turn(location) {
            Ok(node) => return Ok(node),
            Err(turn) => turn,
        };
        let sent = self.ask(request::NODE, &location, Vec::<Vec<u8>>::from_bytes)?;
        let mut asked = None;
        let mut next = Some(location.slot);
        for node in &sent {
            let Some(slot) = next else { break };
            let node = Node::decode(node).map_err(|error| ClientError::protocol(&error))?;
            let bytes = node_bytes(&node);
            let at = ChunkLocation { slot, ..location };
            let kept = self.received.nodes.keep(at, node, bytes);
            asked.get_or_insert(kept);
            next = slot.checked_add(1);
        }
        asked.ok_or_else(|| ClientError::Protocol("no node".to_owned()).into())
    }

    fn catalog(&self, container: ContainerId) -> Result<Arc<CatalogView>, RecipeError> {
        let _turn = match self.received.catalogs.get_or_turn(container) {
            Ok(view) => return Ok(view),
            Err(turn) => turn,
        };
        let decode = |bytes: &[u8]| SentCatalog::from_bytes(bytes)?.view();
        let view = self.ask(request::CATALOG, &container, decode)?;
        let bytes = view.bytes_in_memory();
        Ok(self.received.catalogs.keep(container, view, bytes))
    }

    fn sent_children(&self, node: &TreeRoot) -> Result<Option<Vec<Child>>, RecipeError> {
        if self.reads_chunks && node.level.get() <= 1 {
            return Ok(None);
        }
        let _turn = match self.received.children.get_or_turn(node.location) {
            Ok(children) => return Ok(Some(children.to_vec())),
            Err(turn) => turn,
        };
        let sent = self.ask(request::CHILDREN, node, Vec::<SentChildren>::from_bytes)?;
        let mut asked = None;
        for SentChildren { node: at, children } in sent {
            let kept = self.keep_children(at, children);
            asked = asked.or((at == node.location).then_some(kept));
        }
        let asked = asked.ok_or_else(|| ClientError::Protocol("no children of the node".to_owned()))?;
        Ok(Some(asked.to_vec()))
    }

    fn stream(&self, node: ChunkLocation, name: StreamName) -> Result<TreeRoot, RecipeError> {
        self.ask(request::STREAM, &(node, name), TreeRoot::from_bytes)
    }

    fn fingerprinter(&self) -> &Fingerprinter {
        &self.printer
    }
}

impl StoreReader for RemoteReader {
    fn region(&self, at: ChunkLocation) -> Result<(Arc<CatalogView>, PlainRegion), RecipeError> {
        let view = self.catalog(at.container)?;
        match self.region_in(&view, at.slot) {
            Ok(region) => Ok((view, region)),
            Err(RecipeError::Unreadable(_)) => {
                // The container may have a newer generation.
                self.received.catalogs.drop(&at.container);
                let view = self.catalog(at.container)?;
                let region = self.region_in(&view, at.slot)?;
                Ok((view, region))
            }
            Err(error) => Err(error),
        }
    }

    fn read_regions_into(
        &self,
        view: &CatalogView,
        regions: &[RegionIndex],
        buffer: &mut RegionBuffer,
    ) -> Result<(), RecipeError> {
        buffer.clear();
        let sent = self.regions(view, regions)?;
        let sent: Vec<_> = regions.iter().copied().zip(sent).collect();
        buffer.hold_sent(&sent).ok_or_else(garbled)
    }

    fn newer_catalog(&self, view: &CatalogView) -> Result<Option<Arc<CatalogView>>, RecipeError> {
        let decode = |bytes: &[u8]| {
            let newer = Vec::<SentCatalog>::from_bytes(bytes)?.pop();
            newer.map(SentCatalog::view).transpose()
        };
        let newer = self.ask(request::NEWER, &SentCatalog::of(view), decode)?;
        Ok(newer.map(Arc::new))
    }

    fn chunk(&self, at: ChunkLocation) -> Result<Vec<u8>, RecipeError> {
        self.ask(request::CHUNK, &at, Vec::<u8>::from_bytes)
    }
}
