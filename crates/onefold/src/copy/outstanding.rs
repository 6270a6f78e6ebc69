//! The offered segments of a copy that have no verdict.
//!
//! One thread offers, another takes verdicts. A segment may be offered without its chunks (B1). The
//! store then asks for them if it does not know the segment whole, and only then its node is read.
//! Children are sent by the offering thread: the other one must not wait for the store while the
//! store waits for its verdicts to be taken.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ingest::{BackupSession, Distance};
use recipe::{Child, TreeRoot};

/// At most so many segments have no verdict, ...
const SEGMENTS_MAX: usize = 512;
/// ... with so many chunks that are in memory.
const CHUNKS_MAX: usize = 1 << 17;
/// A segment is offered without its chunks after so many known ones of its stream, if the store is
/// far. A wrong guess costs a round trip.
const STREAK_FAR: u32 = 4;
/// How long one wait lasts, before the caller looks whether the copy still runs.
const WAIT: Duration = Duration::from_millis(200);

/// A segment without a verdict.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) segment: TreeRoot,
    /// Where it begins in its stream.
    pub(super) offset: u64,
    /// Its chunks, if its node was read.
    pub(super) children: Option<Vec<Child>>,
    /// Whether the store may still ask for its chunks.
    may_be_asked: bool,
}

/// What the offering thread does next.
#[derive(Debug)]
pub(super) enum Next {
    /// Sends the chunks of this segment of the stream with this number.
    Answer(usize, TreeRoot, u64),
    /// Offers the next segment.
    Offer,
    /// Looks whether the copy still runs, and asks again.
    Look,
    /// Ends: each segment has its verdict, or the copy failed.
    End,
}

/// The segments of all streams.
#[derive(Debug)]
pub(super) struct Outstanding {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    streams: Vec<OfStream>,
    segments: usize,
    chunks: usize,
    /// The stream of the segment for whose chunks the store waits.
    asked: Option<usize>,
    is_over: bool,
}

#[derive(Debug, Default)]
struct OfStream {
    /// The last verdicts that said "known", without a break.
    known: u32,
    has_new: bool,
    /// How many of the first ones wait for more of the stream.
    waits: usize,
    offered: VecDeque<Waiting>,
}

impl Outstanding {
    pub(super) fn new(streams: usize) -> Self {
        let state = State {
            streams: (0..streams).map(|_| OfStream::default()).collect(),
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the offering thread does. Without `has_more` segments it only answers, until the end.
    pub(super) fn next(&self, has_more: bool) -> Next {
        let mut state = self.state();
        for is_last in [false, true] {
            if state.is_over {
                return Next::End;
            }
            if let Some(stream) = state.asked {
                let asked = state.streams[stream].offered.iter().find(|one| one.may_be_asked);
                return asked.map_or(Next::Look, |one| Next::Answer(stream, one.segment, one.offset));
            }
            // A store that waits for more of the stream needs it for its next verdict.
            let is_full = state.segments >= SEGMENTS_MAX || state.chunks >= CHUNKS_MAX;
            let is_excused = state.streams.iter().any(|stream| stream.waits > 0);
            if has_more && (!is_full || is_excused) {
                return Next::Offer;
            }
            if !is_last {
                let waited = self.changed.wait_timeout(state, WAIT);
                (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
        Next::Look
    }

    /// Whether the next segment of the stream is probably known, or a wrong guess costs little.
    pub(super) fn is_probably_known(&self, stream: usize, session: &dyn BackupSession) -> bool {
        let stream = &self.state().streams[stream];
        let has_previous = session.terms().has_previous;
        match session.distance() {
            Distance::Here => has_previous || stream.known > 0,
            Distance::Far { .. } => stream.known >= STREAK_FAR || (has_previous && !stream.has_new),
        }
    }

    /// Notes a segment before it is offered; without `children` it is offered without them.
    pub(super) fn push(&self, stream: usize, segment: TreeRoot, offset: u64, children: Option<Vec<Child>>) {
        let mut state = self.state();
        state.segments += 1;
        state.chunks += children.as_ref().map_or(0, Vec::len);
        state.streams[stream].offered.push_back(Waiting {
            segment,
            offset,
            may_be_asked: children.is_none(),
            children,
        });
    }

    /// Notes that the chunks which the store has asked for are about to be sent.
    pub(super) fn answered(&self, stream: usize, children: Vec<Child>) {
        let mut state = self.state();
        state.asked = None;
        state.chunks += children.len();
        let offered = &mut state.streams[stream].offered;
        if let Some(one) = offered.iter_mut().find(|one| one.may_be_asked) {
            one.may_be_asked = false;
            one.children = Some(children);
        }
    }

    /// Takes the segment of a verdict. `None`: none was offered.
    pub(super) fn take(&self, stream: usize, is_known: bool) -> Option<Waiting> {
        let mut state = self.state();
        let of_stream = state.streams.get_mut(stream)?;
        let taken = of_stream.offered.pop_front()?;
        of_stream.known = if is_known { of_stream.known + 1 } else { 0 };
        of_stream.has_new |= !is_known;
        of_stream.waits = of_stream.waits.saturating_sub(1);
        state.segments -= 1;
        state.chunks -= taken.children.as_ref().map_or(0, Vec::len);
        self.changed.notify_all();
        Some(taken)
    }

    /// The store decides on the next segment when more of the stream has come.
    pub(super) fn waits(&self, stream: usize) {
        if let Some(of_stream) = self.state().streams.get_mut(stream) {
            if let Some(one) = of_stream.offered.get_mut(of_stream.waits) {
                one.may_be_asked = false;
            }
            of_stream.waits += 1;
        }
        self.changed.notify_all();
    }

    /// The store asks for the chunks of the next segment. Returns whether there is one to ask for.
    pub(super) fn asks(&self, stream: usize) -> bool {
        let mut state = self.state();
        let Some(of_stream) = state.streams.get_mut(stream) else {
            return false;
        };
        (of_stream.known, of_stream.has_new) = (0, true);
        let is_there = of_stream.offered.iter().any(|one| one.may_be_asked);
        state.asked = Some(stream);
        self.changed.notify_all();
        is_there
    }

    /// Ends the offering thread.
    pub(super) fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_all();
    }
}
