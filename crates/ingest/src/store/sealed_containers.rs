//! The containers that a session has put, and the second copies of their catalogs.

use std::collections::BTreeSet;
use std::sync::Arc;

use container::{CatalogCopies, CatalogView, Compression, Containers};
use format::manifest::ContainerSpan;
use types::{ContainerId, ContainerKind, SequenceNumber};

use crate::counters::Counters;
use crate::error::{Halt, IngestError};
use crate::store::sequences::{Limits, Sequences};

/// Containers by kind and number.
#[derive(Debug, Default)]
pub(crate) struct SealedContainers {
    /// Each with the number of containers that the packer had submitted before it; 0 for copies,
    /// which refer to nothing.
    put: Vec<(u64, ContainerKind, SequenceNumber)>,
    /// All containers that the packer submitted before this number are put.
    complete: u64,
    /// Containers that were put before one that was submitted earlier, because there are several
    /// writers.
    early: BTreeSet<u64>,
    /// Containers that an answer to reclamation has named. Later checkpoints name them too.
    answered: Vec<(ContainerKind, SequenceNumber)>,
}

impl SealedContainers {
    /// Records that a container from the packer was put.
    pub(crate) fn add(&mut self, number: u64, id: ContainerId) {
        self.put.push((number, id.kind, id.sequence));
        self.early.insert(number);
        while self.early.remove(&self.complete) {
            self.complete += 1;
        }
    }

    /// Records that a container of catalog copies was put.
    pub(crate) fn add_copies(&mut self, id: ContainerId) {
        self.put.push((0, id.kind, id.sequence));
    }

    /// Whether the first `submitted` of the packer's containers are all put. Their count is not
    /// enough: a later one may have overtaken one of them.
    pub(crate) fn has_all(&self, submitted: u64) -> bool {
        self.complete >= submitted
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<ContainerSpan> {
        ContainerSpan::collect(self.put.iter().map(|(_, kind, number)| (*kind, *number)))
    }

    /// The containers among the first `submitted` that may be adopted. Every later checkpoint will
    /// name them too. A later container may refer to one that is still open.
    pub(crate) fn answer(&mut self, submitted: u64) -> Vec<ContainerSpan> {
        let collected = self.put.iter().filter(|(before, ..)| *before < submitted);
        self.answered
            .extend(collected.map(|(_, kind, number)| (*kind, *number)));
        self.answered.sort_unstable();
        self.answered.dedup();
        self.safe_to_adopt()
    }

    /// Data containers, and containers that an answer has named. A node in another sealed recipe
    /// container may refer to a chunk in a container that is still open. But an adopter of a
    /// checkpoint must find only existing chunks.
    pub(crate) fn safe_to_adopt(&self) -> Vec<ContainerSpan> {
        let data = self
            .put
            .iter()
            .filter(|(_, kind, _)| *kind == ContainerKind::Data)
            .map(|(_, kind, number)| (*kind, *number));
        ContainerSpan::collect(data.chain(self.answered.iter().copied()))
    }
}

/// Second copies of data catalogs, gathered into containers of their own.
pub(crate) struct CopyLane {
    containers: Containers,
    counters: Arc<Counters>,
    compression: Compression,
    limits: Limits,
    sequences: Sequences,
    open: Option<CatalogCopies>,
}

impl CopyLane {
    pub(crate) fn new(
        containers: Containers,
        counters: Arc<Counters>,
        compression: Compression,
        limits: Limits,
        sequences: Sequences,
    ) -> Self {
        Self {
            containers,
            counters,
            compression,
            limits,
            sequences,
            open: None,
        }
    }

    /// Adds a catalog's copy. Puts the container of copies if it is full.
    pub(crate) fn add(&mut self, catalog: &CatalogView) -> Result<Option<ContainerId>, Halt> {
        if self.open.is_none() {
            let id = self.sequences.next(ContainerKind::Catalog)?;
            self.open = Some(CatalogCopies::new(&self.containers, id, self.compression));
        }
        let copies = self.open.as_mut().expect("opened above");
        copies.add(catalog);
        if copies.stored_len() >= self.limits.container_bytes {
            self.finish()
        } else {
            Ok(None)
        }
    }

    /// Puts the open container, if there is one.
    pub(crate) fn finish(&mut self) -> Result<Option<ContainerId>, Halt> {
        let Some(copies) = self.open.take() else {
            return Ok(None);
        };
        let sealed = copies.seal(&self.containers).map_err(IngestError::from)?;
        self.containers.put(&sealed).map_err(IngestError::from)?;
        self.counters.bytes_stored.add(sealed.stored_bytes_total());
        Ok(Some(sealed.id()))
    }
}

#[cfg(test)]
mod tests {
    use types::SessionId;

    use super::*;

    fn id(kind: ContainerKind, sequence: u32) -> ContainerId {
        ContainerId {
            session: SessionId::new(7).unwrap(),
            kind,
            sequence: SequenceNumber::new(sequence).unwrap(),
        }
    }

    fn sequences(spans: &[ContainerSpan], kind: ContainerKind) -> Vec<u32> {
        let of_kind = spans.iter().filter(|span| span.kind == kind);
        of_kind
            .flat_map(|span| span.first.get()..span.first.get() + span.count)
            .collect()
    }

    #[test]
    fn a_container_that_overtakes_another_does_not_stand_for_it() {
        let mut containers = SealedContainers::default();
        containers.add(0, id(ContainerKind::Data, 0));
        containers.add(2, id(ContainerKind::Data, 2));
        assert!(containers.has_all(1));
        assert!(!containers.has_all(2), "the second is not put, though two are");
        containers.add(1, id(ContainerKind::Recipe, 1));
        assert!(containers.has_all(3));
    }

    #[test]
    fn an_answer_names_no_nodes_that_were_packed_after_it() {
        let mut containers = SealedContainers::default();
        containers.add(0, id(ContainerKind::Recipe, 0));
        containers.add(1, id(ContainerKind::Recipe, 1));
        containers.add(2, id(ContainerKind::Data, 2));
        let answer = containers.answer(1);
        assert_eq!(sequences(&answer, ContainerKind::Recipe), [0]);
        assert_eq!(sequences(&answer, ContainerKind::Data), [2]);
        assert_eq!(sequences(&containers.safe_to_adopt(), ContainerKind::Recipe), [0]);
        assert_eq!(sequences(&containers.all(), ContainerKind::Recipe), [0, 1]);
    }
}
