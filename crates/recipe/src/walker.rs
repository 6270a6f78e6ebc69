//! Walks a byte range of a stream, in pieces as large as the caller can use.
//!
//! Invariant: the pieces together are exactly the range, and every node on the way down was
//! compared with its fingerprint (INV-5). The walker returns a whole node only if pushing it gives
//! the same tree as pushing its children: the cut rule ended it, or both streams end with it, and
//! no zeros can follow its last zeros. A node of one child is no stream's root: the walker opens a
//! last node of one child if nothing else is in the range. The first piece costs one node for each
//! level, whatever the offset.
//!
//! Memory: the children of one node for each level. One thread. After an error the walker cannot be
//! used.

use types::{ByteRange, ChunkLocation, Level};

use crate::child::{CHUNK_LEVEL, Child, Place, SEGMENT_LEVEL, level_below};
use crate::error::RecipeError;
use crate::open::{open_node, read_node};
use crate::source::NodeSource;
use crate::tree_root::TreeRoot;

/// A part of a range, in stream order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// A whole node. A builder that is aligned at its level accepts it.
    Node(Child),
    /// A whole chunk.
    Chunk(Child),
    /// Zeros. The run in the stream may be longer.
    Zeros {
        /// The bytes of the run that are in the range.
        len: u64,
    },
    /// A part of a chunk: an end of the range is inside it.
    PartOfChunk {
        /// The chunk.
        child: Child,
        /// Offset of the part in the chunk, in bytes.
        skip: u64,
        /// The part's length in bytes.
        len: u64,
    },
}

impl Piece {
    /// The bytes of the stream that it covers.
    #[must_use]
    pub const fn len(&self) -> u64 {
        match *self {
            Self::Node(child) | Self::Chunk(child) => child.logical_len,
            Self::Zeros { len } | Self::PartOfChunk { len, .. } => len,
        }
    }

    /// Never.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A node on the way down: its children, and the number of the next one.
#[derive(Debug)]
struct Frame {
    children: Vec<Child>,
    next: usize,
    /// Offset in the stream of the next child.
    offset: u64,
}

/// A child and its offset in the stream.
#[derive(Debug, Clone, Copy)]
struct Placed {
    child: Child,
    begin: u64,
}

impl Placed {
    const fn end(&self) -> u64 {
        self.begin.saturating_add(self.child.logical_len)
    }
}

/// Walks one range of one stream.
#[derive(Debug)]
pub struct RangeWalker<'a, S: ?Sized> {
    source: &'a S,
    root: TreeRoot,
    frames: Vec<Frame>,
    begin: u64,
    at: u64,
    end: u64,
    /// The end of the range, or the beginning of a cut last chunk: see [`Self::seam`].
    seam: Option<u64>,
    /// Whether both streams end where the range does.
    is_last: bool,
}

impl<'a, S: NodeSource + ?Sized> RangeWalker<'a, S> {
    /// A walk over `len` bytes of the stream from `offset` on. Reads nothing yet.
    ///
    /// # Errors
    /// [`RecipeError::OutOfStream`].
    pub fn new(source: &'a S, root: &TreeRoot, offset: u64, len: u64) -> Result<Self, RecipeError> {
        match offset.checked_add(len) {
            Some(end) if end <= root.len => Ok(Self {
                source,
                root: *root,
                frames: Vec::new(),
                begin: offset,
                at: offset,
                end,
                seam: None,
                is_last: false,
            }),
            _ => Err(RecipeError::OutOfStream {
                range: ByteRange { offset, len },
                stream_len: root.len,
            }),
        }
    }

    /// Sets whether the caller's stream ends with this range. If the walked stream does too, its
    /// last node is a whole one.
    #[must_use]
    pub const fn ends_stream(mut self, ends: bool) -> Self {
        self.is_last = ends && self.end == self.root.len;
        self
    }

    /// The offset of the next piece in the stream.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.at
    }

    /// Continues at this offset of the stream, or at the end of the range if that comes first. The
    /// next piece costs the nodes between here and there on its way down, or, further back, one for
    /// each level.
    pub(crate) fn seek(&mut self, offset: u64) {
        if self.frames.last().is_some_and(|frame| offset < frame.offset) {
            self.frames.clear();
        }
        self.at = offset.min(self.end);
    }

    /// Whether all pieces were returned.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// The next piece: a whole segment if the caller and the walk are aligned, else a chunk, zeros
    /// or an edge. `None` at the range's end.
    ///
    /// # Errors
    /// Every error of this crate that names a node.
    pub fn next(&mut self, aligned: bool) -> Result<Option<Piece>, RecipeError> {
        self.next_up_to(if aligned { SEGMENT_LEVEL } else { CHUNK_LEVEL })
    }

    /// Like [`Self::next`], with whole nodes up to `level`, the highest possible first.
    ///
    /// # Errors
    /// Every error of this crate that names a node.
    pub fn next_up_to(&mut self, level: Level) -> Result<Option<Piece>, RecipeError> {
        while !self.is_done() {
            let next = match self.frames.last() {
                None if self.is_last && self.at == 0 && self.root.level <= level => Placed {
                    child: node_child(&self.root),
                    begin: 0,
                },
                _ => self.settle()?,
            };
            if next.child.level == CHUNK_LEVEL {
                return Ok(Some(self.leaf(&next)));
            }
            let reference = next.child.as_root().expect("a node has a place");
            if next.child.level <= level && next.begin == self.at && self.may_reuse(&next)? {
                // The parent that is built next needs the bound. Mostly the node alone has it.
                let containers_max = match next.child.containers_max {
                    0 => read_node(self.source, &reference)?.containers_max,
                    known => known,
                };
                self.at = next.end();
                return Ok(Some(Piece::Node(Child {
                    containers_max,
                    ..next.child
                })));
            }
            self.open(&reference, next.begin)?;
        }
        Ok(None)
    }

    /// The segment with the next byte, unopened, and its offset in the stream. The walk continues
    /// behind the segment. This reads only nodes above segments. Do not mix it with
    /// [`Self::next_up_to`], which opens segments.
    ///
    /// # Errors
    /// Every error of this crate that names a node.
    pub fn next_segment(&mut self) -> Result<Option<(TreeRoot, u64)>, RecipeError> {
        while !self.is_done() {
            let next = match self.frames.last() {
                None if self.root.level == SEGMENT_LEVEL => Placed {
                    child: node_child(&self.root),
                    begin: 0,
                },
                _ => self.settle()?,
            };
            let reference = next.child.as_root().expect("a node has a place");
            if next.child.level == SEGMENT_LEVEL {
                self.at = next.end().min(self.end);
                return Ok(Some((reference, next.begin)));
            }
            self.open(&reference, next.begin)?;
        }
        Ok(None)
    }

    /// Opens nodes down to the lowest one with the next byte. Returns its child with that byte.
    fn settle(&mut self) -> Result<Placed, RecipeError> {
        loop {
            let Some(frame) = self.frames.last_mut() else {
                self.open(&self.root.clone(), 0)?;
                continue;
            };
            match frame.step_to(self.at) {
                Some(placed) => return Ok(placed),
                None => drop(self.frames.pop()),
            }
        }
    }

    fn open(&mut self, reference: &TreeRoot, begin: u64) -> Result<(), RecipeError> {
        let children = open_node(self.source, reference)?;
        self.frames.push(Frame {
            children,
            next: 0,
            offset: begin,
        });
        Ok(())
    }

    fn leaf(&mut self, leaf: &Placed) -> Piece {
        let skip = self.at - leaf.begin;
        let stop = leaf.end().min(self.end);
        let len = stop - self.at;
        self.at = stop;
        let child = leaf.child;
        match child.place {
            Place::Zeros => Piece::Zeros { len },
            Place::At(_) if len == child.logical_len => Piece::Chunk(child),
            Place::At(_) => Piece::PartOfChunk { child, skip, len },
        }
    }

    /// Whether the node is within the range, was ended by the cut rule or with both streams, and
    /// does not end in zeros that might join others.
    fn may_reuse(&mut self, node: &Placed) -> Result<bool, RecipeError> {
        let end = node.end();
        if self.is_last && end == self.end {
            return Ok(node.begin != self.begin || self.may_be_root(node)?);
        }
        if end > self.end || end >= self.root.len {
            return Ok(false);
        }
        if end != self.seam()? {
            return Ok(true);
        }
        let reference = node.child.as_root().expect("a node has a place");
        Ok(!self.ends_in_zeros(&reference)?)
    }

    /// Whether a stream of this node alone has it for its root: a root above segments has several
    /// children. The node is the whole range, which may be all that the caller has.
    fn may_be_root(&self, node: &Placed) -> Result<bool, RecipeError> {
        use format::node::NodeEntry::Run;
        if node.child.level <= SEGMENT_LEVEL {
            return Ok(true);
        }
        let reference = node.child.as_root().expect("a node has a place");
        let node = read_node(self.source, &reference)?;
        Ok(!matches!(node.entries.as_slice(), [Run { count: 1, .. }]))
    }

    /// The end of the range, or the beginning of the chunk that this end cuts.
    ///
    /// The bytes behind the seam do not come from this stream, and may begin with zeros: a part of
    /// a chunk can be zeros although the chunk is not. Everywhere else in the range, a whole chunk
    /// follows zeros.
    fn seam(&mut self) -> Result<u64, RecipeError> {
        if let Some(seam) = self.seam {
            return Ok(seam);
        }
        if self.is_last {
            return Ok(self.end);
        }
        let mut node = Placed {
            child: node_child(&self.root),
            begin: 0,
        };
        let seam = loop {
            let Some(reference) = node.child.as_root() else {
                let cut = node.end() > self.end && node.child.place != Place::Zeros;
                break if cut { node.begin } else { self.end };
            };
            let children = open_node(self.source, &reference)?;
            let mut frame = Frame {
                children,
                next: 0,
                offset: node.begin,
            };
            // The lengths were checked when the node was opened: the last byte is below one of the
            // children.
            let Some(below) = frame.step_to(self.end - 1) else {
                break self.end;
            };
            node = below;
        };
        self.seam = Some(seam);
        Ok(seam)
    }

    /// Whether the last leaf below a node is zeros. Reads one node for each level.
    fn ends_in_zeros(&self, reference: &TreeRoot) -> Result<bool, RecipeError> {
        use format::node::NodeEntry::{Forward, Run, Zeros};
        let mut node = read_node(self.source, reference)?;
        let mut location = reference.location;
        loop {
            let entry = node.entries.last();
            let (container, first, count) = match *entry.ok_or(RecipeError::EmptyPart { node: location })? {
                Zeros { .. } => return Ok(true),
                // A forward reference begins and ends with chunks, or cannot be opened.
                Forward { .. } => return Ok(false),
                Run {
                    container,
                    first,
                    count,
                    ..
                } => (container, first, count),
            };
            if node.level <= SEGMENT_LEVEL {
                return Ok(false);
            }
            let slot = first.checked_add(count.saturating_sub(1));
            let missing = ChunkLocation {
                container,
                slot: slot.unwrap_or(types::Slot::MAX),
            };
            let below = slot.map(|slot| ChunkLocation { container, slot });
            let below = below.ok_or(RecipeError::MissingSlot {
                node: location,
                missing,
            })?;
            let expected = level_below(node.level).unwrap_or(CHUNK_LEVEL);
            node = self.source.node(below)?;
            if node.level != expected {
                return Err(RecipeError::WrongLevel {
                    found_at: below,
                    expected,
                    found: node.level,
                });
            }
            location = below;
        }
    }
}

impl Frame {
    /// Skips children that end before the byte at `at`. Returns the child that holds it, if it is
    /// in this node.
    fn step_to(&mut self, at: u64) -> Option<Placed> {
        loop {
            let placed = Placed {
                child: *self.children.get(self.next)?,
                begin: self.offset,
            };
            if at < placed.end() {
                return Some(placed);
            }
            self.next += 1;
            self.offset = placed.end();
        }
    }
}

fn node_child(root: &TreeRoot) -> Child {
    let TreeRoot {
        location,
        level,
        fingerprint,
        len,
    } = *root;
    Child {
        fingerprint,
        logical_len: len,
        level,
        place: Place::At(location),
        containers_max: 0,
    }
}
