//! How much of offered segments the client holds until it is gathered (INV-7): bytes, and children.
//!
//! The segment stage adds a segment as it offers it, and waits before it reads more of a stream
//! that has too much. The gatherer removes bytes chunk by chunk, and then the children. It ends the
//! wait if the store waits for more of the stream ([`crate::Verdict::Waits`]), and when it ends
//! itself: so the two never wait for each other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use env::Clock;

use crate::dedup::StreamIndex;
use crate::stage::{WaitFor, waiting};

/// So many children of a stream are offered before it waits. Those of tiny files cost memory at
/// both ends, and a server refuses a client that has too many: it cannot know whether it withholds
/// a chunk. Chunks of the usual length are held back by their bytes before.
const CHILDREN_MAX: usize = 1 << 16;

/// How many children a segment counts as. A copied segment has none here, and is one for the store.
pub(crate) fn counted(children: usize) -> usize {
    children.max(1)
}

/// Offered segments, by stream.
#[derive(Debug)]
pub(crate) struct Ungathered {
    limit_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    streams: Vec<Held>,
    is_closed: bool,
}

#[derive(Debug, Clone, Default)]
struct Held {
    bytes: u64,
    children: usize,
    /// The store waits for more of the stream.
    is_excused: bool,
}

/// Ends all waits when dropped.
#[derive(Debug)]
pub(crate) struct Closing<'a>(pub(crate) &'a Ungathered);

impl Ungathered {
    /// For so many streams. A stream that has more than `limit_bytes`, or too many children, waits.
    pub(crate) fn new(streams: usize, limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            state: Mutex::new(State {
                streams: vec![Held::default(); streams],
                is_closed: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// The state stays consistent between statements.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// A segment is offered, whose bytes and children are held.
    pub(crate) fn add(&self, stream: StreamIndex, (bytes, children): (u64, usize)) {
        let held = &mut self.state().streams[usize::from(stream.0)];
        held.bytes += bytes;
        held.children += children;
    }

    /// Bytes and children of a segment that has its verdict are held no more.
    pub(crate) fn remove(&self, stream: StreamIndex, (bytes, children): (u64, usize)) {
        self.change(|state| {
            let held = &mut state.streams[usize::from(stream.0)];
            held.bytes = held.bytes.saturating_sub(bytes);
            held.children = held.children.saturating_sub(children);
            held.is_excused = false;
        });
    }

    /// The store waits for more of the stream. One that does not exist is no stream of this
    /// backup: the verdict of a segment will say so.
    pub(crate) fn excuse(&self, stream: StreamIndex) {
        self.change(|state| {
            if let Some(held) = state.streams.get_mut(usize::from(stream.0)) {
                held.is_excused = true;
            }
        });
    }

    /// Waits until more of the stream may be read.
    pub(crate) fn wait(&self, stream: StreamIndex, clock: &dyn Clock) {
        let must_wait = |state: &State| {
            let held = &state.streams[usize::from(stream.0)];
            let has_much = held.bytes > self.limit_bytes || held.children > CHILDREN_MAX;
            !state.is_closed && !held.is_excused && has_much
        };
        let mut state = self.state();
        if must_wait(&state) {
            waiting(clock, WaitFor::Output, || {
                while must_wait(&state) {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            });
        }
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.change(|state| state.is_closed = true);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use env::SystemClock;

    use super::*;

    const ONE: StreamIndex = StreamIndex(0);
    const OTHER: StreamIndex = StreamIndex(1);
    const LIMIT: u64 = 100;

    /// Whether a wait for the stream lasts until `then`. It must end after that.
    fn waits(ungathered: &Ungathered, stream: StreamIndex, then: impl FnOnce()) -> bool {
        let is_through = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                ungathered.wait(stream, &SystemClock);
                is_through.store(true, Ordering::Release);
            });
            SystemClock.sleep(Duration::from_millis(50));
            let was_through = is_through.load(Ordering::Acquire);
            then();
            !was_through
        })
    }

    #[test]
    fn a_stream_waits_for_its_own_bytes_alone() {
        let ungathered = Ungathered::new(2, LIMIT);
        ungathered.add(ONE, (LIMIT, 0));
        assert!(!waits(&ungathered, ONE, || ()), "at the limit");
        ungathered.add(ONE, (2, 0));
        assert!(!waits(&ungathered, OTHER, || ()), "the other stream");
        assert!(waits(&ungathered, ONE, || ungathered.remove(ONE, (2, 0))));
    }

    /// Tiny files have many chunks.
    #[test]
    fn a_stream_waits_for_its_own_children() {
        let ungathered = Ungathered::new(2, LIMIT);
        ungathered.add(ONE, (1, CHILDREN_MAX));
        assert!(!waits(&ungathered, ONE, || ()), "at the limit");
        ungathered.add(ONE, (0, 1));
        assert!(!waits(&ungathered, OTHER, || ()), "the other stream");
        assert!(waits(&ungathered, ONE, || ungathered.remove(ONE, (0, 1))));
    }

    #[test]
    fn no_stream_waits_for_a_store_that_waits_for_it() {
        let ungathered = Ungathered::new(1, LIMIT);
        ungathered.add(ONE, (LIMIT + 1, 0));
        assert!(waits(&ungathered, ONE, || ungathered.excuse(ONE)));
        assert!(!waits(&ungathered, ONE, || ()), "as long as it does");
        ungathered.add(ONE, (5, 0));
        // A verdict: it does no more.
        ungathered.remove(ONE, (3, 0));
        assert!(waits(&ungathered, ONE, || ungathered.remove(ONE, (3, 0))));
        ungathered.excuse(OTHER);
    }

    #[test]
    fn nobody_waits_for_a_gatherer_that_has_ended() {
        let ungathered = Ungathered::new(1, LIMIT);
        ungathered.add(ONE, (u64::MAX / 2, 0));
        let closing = Closing(&ungathered);
        assert!(waits(&ungathered, ONE, || drop(closing)));
        assert!(!waits(&ungathered, ONE, || ()));
    }
}
