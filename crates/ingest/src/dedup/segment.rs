//! Cuts chunks into segments: joins zeros over the whole stream, and cuts by child fingerprints.
//!
//! Pure: the segments depend on the sequence of children alone (RevDedup 2.2.2: two levels in one
//! pass). Chunks keep their buffer until their segment is looked up.

use chunking::NodeCutter;
use crypto::Fingerprinter;
use types::{ChunkLocation, Fingerprint, Level};

/// Where a child's bytes are.
#[derive(Debug, Clone)]
pub enum Bytes<B> {
    /// In memory: read from the source, maybe new.
    Read(B),
    /// In the store: copied by reference from an earlier stream.
    Stored(ChunkLocation),
    /// No bytes: a run of zeros.
    Zeros,
}

/// One child of the open segment.
#[derive(Debug, Clone)]
pub struct SegmentChild<B> {
    /// Of the chunk, or of the run of zeros.
    pub fingerprint: Fingerprint,
    /// Bytes of stream.
    pub len: u64,
    /// Where they are.
    pub bytes: Bytes<B>,
}

impl<B> SegmentChild<B> {
    /// Bytes that its holder has in memory.
    pub(crate) fn held_bytes(&self) -> u64 {
        match self.bytes {
            Bytes::Read(_) => self.len,
            Bytes::Stored(_) | Bytes::Zeros => 0,
        }
    }
}

/// A complete segment, not looked up yet.
#[derive(Debug)]
pub struct Segment<B> {
    /// The fingerprint of its future node.
    pub fingerprint: Fingerprint,
    /// Bytes of stream.
    pub len: u64,
    /// In stream order.
    pub children: Vec<SegmentChild<B>>,
}

impl<B> Segment<B> {
    /// How many of its children were read.
    pub(crate) fn chunks_read(&self) -> usize {
        let read = |child: &&SegmentChild<B>| matches!(child.bytes, Bytes::Read(_));
        self.children.iter().filter(read).count()
    }
}

/// Builds one stream's segments.
#[derive(Debug)]
pub struct Segmenter<B> {
    printer: Fingerprinter,
    cutter: NodeCutter,
    children: Vec<SegmentChild<B>>,
    zeros: u64,
}

impl<B> Segmenter<B> {
    /// For segments of this average number of children, from the store's config.
    #[must_use]
    pub fn new(printer: Fingerprinter, children_avg: u32) -> Self {
        Self {
            printer,
            cutter: NodeCutter::new(children_avg),
            children: Vec::new(),
            zeros: 0,
        }
    }

    /// Whether a whole segment of another stream may follow: nothing is open.
    #[must_use]
    pub fn is_aligned(&self) -> bool {
        self.children.is_empty() && self.zeros == 0
    }

    /// Adds a run of zeros; it joins the one before it.
    pub fn push_zeros(&mut self, len: u64) {
        self.zeros += len;
    }

    /// Adds a chunk. Up to two segments end: zeros before the chunk may end one, and the chunk
    /// another.
    pub fn push(&mut self, child: SegmentChild<B>, done: &mut Vec<Segment<B>>) {
        self.flush_zeros(done);
        self.add(child, done);
    }

    /// Ends the stream: its open children become its last segment.
    pub fn finish(&mut self, done: &mut Vec<Segment<B>>) {
        self.flush_zeros(done);
        if !self.children.is_empty() {
            self.close(done);
        }
    }

    fn flush_zeros(&mut self, done: &mut Vec<Segment<B>>) {
        let len = std::mem::take(&mut self.zeros);
        if len > 0 {
            let fingerprint = self.printer.zeros(len);
            self.add(
                SegmentChild {
                    fingerprint,
                    len,
                    bytes: Bytes::Zeros,
                },
                done,
            );
        }
    }

    fn add(&mut self, child: SegmentChild<B>, done: &mut Vec<Segment<B>>) {
        let ends = self.cutter.push(&child.fingerprint);
        self.children.push(child);
        if ends {
            self.close(done);
        }
    }

    fn close(&mut self, done: &mut Vec<Segment<B>>) {
        self.cutter.reset();
        let children = std::mem::take(&mut self.children);
        let segment = Level::new(1).expect("level 1 is within the limit");
        let mut hasher = self.printer.node_hasher(segment);
        let mut len = 0;
        for child in &children {
            hasher.push(&child.fingerprint, child.len);
            len += child.len;
        }
        done.push(Segment {
            fingerprint: hasher.finish(),
            len,
            children,
        });
    }
}
