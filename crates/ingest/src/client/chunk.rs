//! The chunker's stage: batches of bytes to batches of chunks, with fingerprints on their way.
//!
//! One thread, all streams; each stream has its own chunker and the bytes of its unfinished chunk.
//! Chunk boundaries do not depend on how the bytes were cut into batches.

use std::sync::Arc;

use chunking::Chunker;
use crypto::Fingerprinter;
use types::Fingerprint;

use crate::buffer::Buffer;
use crate::client::piece::{Batch, CopyRange, Op};
use crate::dedup::StreamIndex;
use crate::queue::{Closed, Receiver, Sender};
use crate::workers::{Ticket, Workers};

/// What a batch of bytes became, in stream order.
#[derive(Debug)]
pub(crate) enum Event {
    /// Bytes of the buffer that are one chunk.
    Chunk { offset: u32, len: u32 },
    /// Zeros that were never read.
    Zeros(u64),
    /// A range of an earlier stream.
    Copy(CopyRange),
    /// The stream is complete.
    End,
}

/// A chunked batch. `prints` has one entry a chunk event; `None` for a chunk of zeros only.
#[derive(Debug)]
pub(crate) struct Chunked {
    pub(crate) stream: StreamIndex,
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) events: Vec<Event>,
    pub(crate) prints: Ticket<Vec<Option<Fingerprint>>>,
}

/// One stream's chunker and unfinished chunk.
pub(crate) struct ChunkState {
    chunker: Box<dyn Chunker>,
    carry: Vec<u8>,
}

impl ChunkState {
    pub(crate) fn new(chunker: Box<dyn Chunker>) -> Self {
        Self {
            chunker,
            carry: Vec::new(),
        }
    }

    /// Cuts one batch. Keeps its unfinished end for the next batch.
    fn cut(&mut self, buffer: &mut Buffer, ops: Vec<Op>, scratch: &mut Vec<u32>) -> Vec<Event> {
        buffer.prepend(&self.carry);
        let bytes = buffer.filled();
        let mut cursor = Cursor {
            chunker: &*self.chunker,
            bytes,
            start: 0,
            open: self.carry.len(),
        };
        let mut events = Vec::with_capacity(bytes.len() / 4096 + ops.len());
        for op in ops {
            if let Op::Bytes(len) = op {
                cursor.open += len;
                continue;
            }
            cursor.cut(true, scratch, &mut events);
            match op {
                Op::Bytes(_) | Op::Cut => {}
                Op::Zeros(len) => events.push(Event::Zeros(len)),
                Op::Copy(range) => events.push(Event::Copy(range)),
                Op::End => events.push(Event::End),
            }
        }
        cursor.cut(false, scratch, &mut events);
        self.carry.clear();
        self.carry
            .extend_from_slice(&bytes[cursor.start..cursor.start + cursor.open]);
        events
    }
}

/// A place in a batch: `open` bytes from `start` on are not cut yet.
struct Cursor<'a> {
    chunker: &'a dyn Chunker,
    bytes: &'a [u8],
    start: usize,
    open: usize,
}

impl Cursor<'_> {
    /// Cuts the open bytes as far as possible; all of them if no more bytes follow.
    fn cut(&mut self, last: bool, lens: &mut Vec<u32>, events: &mut Vec<Event>) {
        lens.clear();
        self.chunker
            .cut_all(&self.bytes[self.start..self.start + self.open], last, lens);
        for &len in lens.iter() {
            let offset = u32::try_from(self.start).expect("a buffer holds less than 4 GiB");
            events.push(Event::Chunk { offset, len });
            self.start += len as usize;
            self.open -= len as usize;
        }
    }
}

/// Runs the stage until its input ends.
pub(crate) fn run(
    mut states: Vec<ChunkState>,
    input: &Receiver<Batch>,
    output: &Sender<Chunked>,
    workers: &Workers,
    fingerprinter: &Fingerprinter,
) -> Result<(), Closed> {
    let mut scratch = Vec::new();
    while let Ok(Batch {
        stream,
        mut buffer,
        ops,
    }) = input.recv()
    {
        let events = states[usize::from(stream.0)].cut(&mut buffer, ops, &mut scratch);
        let buffer = Arc::new(buffer);
        let spans: Vec<(u32, u32)> = events
            .iter()
            .filter_map(|event| match *event {
                Event::Chunk { offset, len } => Some((offset, len)),
                _ => None,
            })
            .collect();
        let (bytes, printer) = (Arc::clone(&buffer), fingerprinter.clone());
        let prints = workers.submit(move || fingerprint_all(&printer, bytes.filled(), &spans))?;
        output.send(Chunked {
            stream,
            buffer,
            events,
            prints,
        })?;
    }
    Ok(())
}

/// Computes the fingerprints of all chunks that are not zeros together, which is faster than one by
/// one.
fn fingerprint_all(printer: &Fingerprinter, bytes: &[u8], spans: &[(u32, u32)]) -> Vec<Option<Fingerprint>> {
    let chunk = |&(offset, len): &(u32, u32)| {
        let chunk = &bytes[offset as usize..(offset + len) as usize];
        (!chunking::is_zero(chunk)).then_some(chunk)
    };
    let chunks: Vec<Option<&[u8]>> = spans.iter().map(chunk).collect();
    let with_bytes: Vec<&[u8]> = chunks.iter().copied().flatten().collect();
    let mut prints = Vec::new();
    printer.chunks(&with_bytes, &mut prints);
    let mut prints = prints.into_iter();
    chunks
        .iter()
        .map(|chunk| chunk.and_then(|_| prints.next()))
        .collect()
}
