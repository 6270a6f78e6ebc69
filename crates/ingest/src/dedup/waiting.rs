//! The segments of a stream that wait for the end of their window.
//!
//! A window has a length in bytes of the stream, but a waiting segment costs memory by its chunks.
//! A client may name a segment of many tiny chunks in a few bytes. So a window also ends when many
//! chunks wait. Pure. One thread.

use super::placed::PlacedSegment;
use super::segment::Segment;

/// After so many waiting children the window ends: some 5 MiB. A window of the usual length has
/// fewer, unless its chunks have some 300 bytes on average.
const CHILDREN_MAX: usize = 1 << 16;

/// A segment that waits.
#[derive(Debug)]
pub(super) enum Waiting<B> {
    /// A decided segment behind an open one.
    Placed(PlacedSegment),
    /// A segment that waits for its window.
    Open(Segment<B>),
}

/// The segments that wait.
#[derive(Debug)]
pub(super) struct WaitingSegments<B> {
    segments: Vec<Waiting<B>>,
    /// Children of the open ones. A decided one counts as one.
    children: usize,
}

impl<B> Default for WaitingSegments<B> {
    fn default() -> Self {
        Self {
            segments: Vec::new(),
            children: 0,
        }
    }
}

impl<B> WaitingSegments<B> {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Whether so many wait that their window must end.
    pub(super) fn are_many(&self) -> bool {
        self.children >= CHILDREN_MAX
    }

    pub(super) fn push(&mut self, waiting: Waiting<B>) {
        self.children += match &waiting {
            Waiting::Placed(_) => 1,
            Waiting::Open(segment) => segment.children.len().max(1),
        };
        self.segments.push(waiting);
    }

    /// Takes all of them.
    pub(super) fn take(&mut self) -> Vec<Waiting<B>> {
        self.children = 0;
        std::mem::take(&mut self.segments)
    }

    /// Takes the allocation of segments that wait no more.
    pub(super) fn reuse(&mut self, mut segments: Vec<Waiting<B>>) {
        segments.clear();
        self.segments = segments;
    }
}
