//! The distribution of a stream over containers: fragmentation and speed factor [Lillibridge 3.1]
//! (L1), from recipes and catalogs only.
//!
//! Reads are those of a rolling forward assembly area [Lillibridge 3.3]. When the area's first
//! missing chunk needs a container, the container is read once, and fills every place of the area
//! that needs it. So a container is read again exactly when a place needs it that was beyond the
//! area at its last read. One look-up for each reference decides this, and no chunk is kept.
//!
//! Memory: some 24 bytes for each distinct container.

use std::collections::HashMap;

use types::{ByteLen, ContainerId};

use crate::child::Place;
use crate::error::RecipeError;
use crate::refs::{ChunkRef, ChunkRefs};
use crate::source::NodeSource;
use crate::tree_root::TreeRoot;

const MIB: f64 = 1_048_576.0;

/// What restoring a stream costs in its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamLayout {
    /// Bytes of the stream.
    pub bytes: u64,
    /// Bytes of it that are zeros and never read (RevDedup 3.3, R8).
    pub zero_bytes: u64,
    /// References to chunks.
    pub chunks: u64,
    /// Runs of references to consecutive slots: 1 for a stream that is in one container, in the
    /// order of writing.
    pub runs: u64,
    /// Distinct containers referred to.
    pub containers: u64,
    /// Containers read through the assembly area, repeated reads included.
    pub container_reads: u64,
    /// Plain bytes of all containers read. Each read counts the whole container.
    pub plain_bytes_read: u64,
}

impl StreamLayout {
    /// MiB restored for each container read, zeros included [Lillibridge 3.1]; infinite if nothing
    /// needs reading.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn speed_factor(&self) -> f64 {
        if self.container_reads == 0 {
            return f64::INFINITY;
        }
        self.bytes as f64 / MIB / self.container_reads as f64
    }

    /// The used share of the read bytes: 1.0 if every container is read once and used as a whole,
    /// or if nothing needs reading. It exceeds 1.0 if a stream repeats itself within the assembly
    /// area.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a ratio for people")]
    pub fn used_share(&self) -> f64 {
        if self.plain_bytes_read == 0 {
            return 1.0;
        }
        (self.bytes - self.zero_bytes) as f64 / self.plain_bytes_read as f64
    }

    /// Measures a whole stream, for a restore through an assembly area of that many bytes.
    ///
    /// # Errors
    /// Every error of this crate that names a node; catalogs that cannot be read.
    pub fn measure<S: NodeSource + ?Sized>(
        source: &S,
        root: &TreeRoot,
        assembly: ByteLen,
    ) -> Result<Self, RecipeError> {
        let mut meter = LayoutMeter::new(assembly);
        for reference in ChunkRefs::whole(source, root) {
            meter.push(&reference?);
        }
        meter.finish(|container| {
            let catalog = source.catalog(container)?;
            Ok(catalog.entries().iter().map(|entry| u64::from(entry.len)).sum())
        })
    }
}

/// Reads of a container so far.
#[derive(Debug, Clone, Copy)]
struct Reads {
    /// The number of reads.
    count: u64,
    /// The end of the assembly area in the stream, at the last read.
    filled_to: u64,
}

/// Measures references in the order of the stream.
#[derive(Debug, Clone)]
pub struct LayoutMeter {
    assembly: u64,
    layout: StreamLayout,
    reads: HashMap<ContainerId, Reads>,
    last: Option<types::ChunkLocation>,
}

impl LayoutMeter {
    /// A meter for an assembly area of that many bytes.
    #[must_use]
    pub fn new(assembly: ByteLen) -> Self {
        Self {
            assembly: assembly.get(),
            layout: StreamLayout::default(),
            reads: HashMap::new(),
            last: None,
        }
    }

    /// Takes the next reference.
    pub fn push(&mut self, reference: &ChunkRef) {
        self.layout.bytes += reference.len;
        let Place::At(location) = reference.place else {
            self.layout.zero_bytes += reference.len;
            return;
        };
        self.layout.chunks += 1;
        let goes_on = self.last.is_some_and(|last| {
            last.container == location.container && last.slot.checked_add(1) == Some(location.slot)
        });
        self.layout.runs += u64::from(!goes_on);
        self.last = Some(location);
        let end = reference.offset.saturating_add(reference.len);
        let reads = self.reads.entry(location.container).or_insert(Reads {
            count: 0,
            filled_to: 0,
        });
        if end > reads.filled_to {
            reads.count += 1;
            // The area always holds at least the chunk.
            reads.filled_to = end.max(reference.offset.saturating_add(self.assembly));
        }
    }

    /// Returns the layout. `plain_len` returns the plain bytes of a container.
    ///
    /// # Errors
    /// Errors of `plain_len`.
    pub fn finish<E>(
        self,
        mut plain_len: impl FnMut(ContainerId) -> Result<u64, E>,
    ) -> Result<StreamLayout, E> {
        let mut layout = self.layout;
        layout.containers = self.reads.len() as u64;
        for (container, reads) in self.reads {
            layout.container_reads += reads.count;
            layout.plain_bytes_read = layout
                .plain_bytes_read
                .saturating_add(plain_len(container)?.saturating_mul(reads.count));
        }
        Ok(layout)
    }
}
