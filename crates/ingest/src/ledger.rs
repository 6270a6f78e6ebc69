//! Which containers a session has put, and the second copies of their catalogs.

use container::{CatalogCopies, CatalogView, Compression, Containers};
use format::manifest::ContainerSpan;
use types::{ContainerId, ContainerKind, SequenceNumber};

use crate::builders::{Limits, Sequences};
use crate::counters::Counters;
use crate::error::{Halt, IngestError};

/// Containers by kind and number.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    numbers: Vec<(ContainerKind, SequenceNumber)>,
    /// Containers that came from the packer.
    pub(crate) sealed: u64,
    /// How many of `numbers` an answer to reclamation has named: later checkpoints name them too.
    answered: Vec<(ContainerKind, SequenceNumber)>,
}

impl Ledger {
    pub(crate) fn add(&mut self, id: ContainerId) {
        self.numbers.push((id.kind, id.sequence));
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<ContainerSpan> {
        spans(self.numbers.clone())
    }

    /// All of them, which every later checkpoint will name too.
    pub(crate) fn answer(&mut self) -> Vec<ContainerSpan> {
        self.answered.clone_from(&self.numbers);
        self.all()
    }

    /// Data containers, and what an answer has named. A node in another sealed recipe container may refer
    /// to a chunk in a container that is still open, and whoever adopts a checkpoint must find nothing but
    /// what is there.
    pub(crate) fn safe_to_adopt(&self) -> Vec<ContainerSpan> {
        let data = self
            .numbers
            .iter()
            .filter(|(kind, _)| *kind == ContainerKind::Data);
        spans(data.chain(&self.answered).copied().collect())
    }
}

fn spans(mut numbers: Vec<(ContainerKind, SequenceNumber)>) -> Vec<ContainerSpan> {
    numbers.sort_unstable();
    numbers.dedup();
    let mut spans: Vec<ContainerSpan> = Vec::new();
    for (kind, number) in numbers {
        match spans.last_mut() {
            Some(last) if last.kind == kind && last.first.get() + last.count == number.get() => {
                last.count += 1;
            }
            _ => spans.push(ContainerSpan {
                kind,
                first: number,
                count: 1,
            }),
        }
    }
    spans
}

/// Second copies of data catalogs, gathered into containers of their own.
pub(crate) struct CopyLane<'a> {
    containers: &'a Containers,
    counters: &'a Counters,
    compression: Compression,
    limits: Limits,
    sequences: Sequences,
    open: Option<CatalogCopies>,
}

impl<'a> CopyLane<'a> {
    pub(crate) fn new(
        containers: &'a Containers,
        counters: &'a Counters,
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

    /// Adds a catalog's copy; a container of copies that is full is put.
    pub(crate) fn add(&mut self, catalog: &CatalogView) -> Result<Option<ContainerId>, Halt> {
        if self.open.is_none() {
            let id = self.sequences.next(ContainerKind::Catalog)?;
            self.open = Some(CatalogCopies::new(self.containers, id, self.compression));
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
        let sealed = copies.seal(self.containers).map_err(IngestError::from)?;
        self.containers.put(&sealed).map_err(IngestError::from)?;
        self.counters.bytes_stored.add(sealed.stored_bytes_total());
        Ok(Some(sealed.id()))
    }
}
