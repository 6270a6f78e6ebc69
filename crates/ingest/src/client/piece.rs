//! The steps that sources give to the pipeline: bytes, zeros, ranges of earlier streams, and where
//! chunks must end.

use std::sync::Arc;

use recipe::TreeRoot;

use crate::buffer::Buffer;
use crate::dedup::StreamIndex;

/// One step of a stream, in order.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// This many bytes of the batch.
    Bytes(usize),
    /// A chunk ends here, whatever its content: a file's end.
    Cut,
    /// A hole of the source, or zeros that need not be read (R8).
    Zeros(u64),
    /// A range of an earlier stream, by reference: nothing is read (B3).
    Copy(CopyRange),
    /// The stream is complete.
    End,
}

/// A range of an earlier backup's stream.
#[derive(Debug, Clone)]
pub(crate) struct CopyRange {
    /// The earlier stream.
    pub(crate) root: Arc<TreeRoot>,
    /// Where the range begins.
    pub(crate) offset: u64,
    /// How many bytes.
    pub(crate) len: u64,
}

/// Bytes and steps of one stream, from a source to the chunker. `Op::Bytes` take the buffer's bytes
/// in order and add up to them.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The stream.
    pub(crate) stream: StreamIndex,
    /// The bytes.
    pub(crate) buffer: Buffer,
    /// The steps.
    pub(crate) ops: Vec<Op>,
}
