//! Reads recipes ahead of the planner: several threads open segments, in the planner's order.
//!
//! Opening a segment takes its node and the catalogs of all containers that it names. Each is a
//! request with a seek of a disk or a round trip, and a single thread would wait for them one after
//! another. The number of segments opened ahead is limited, and so are the bytes of the stream that
//! they cover, and their memory (INV-7): 80 bytes for each reference.
//!
//! Invariant: the references and their order are those of [`crate::references()`] in one thread. A
//! receiver that needs no more drops its end of the channel. The threads then stop after their
//! current segment.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use recipe::{StoreReader, TreeRoot};
use types::ByteRange;

use crate::error::RestoreError;
use crate::plan::Reference;
use crate::references::{Opened, Part, Parts, SegmentPart, one_by_one};

/// Opened segments that wait, for each thread.
const AHEAD_OF_EACH: usize = 2;
/// Bytes of the stream that wait, unless a single segment has more. With chunks of 1 KiB, the
/// shortest average that a store may have, these are five MiB of references.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// Receives the next segment, once it is opened; and its bytes.
type Coming = (Receiver<Opened>, u64);

/// A segment to open, and the channel for the result.
type Job = (SegmentPart, Sender<Opened>);

/// Bytes of the stream that were handed to threads and not taken by the receiver.
#[derive(Default)]
struct ReadAheadBytes {
    bytes: Mutex<u64>,
    taken: Condvar,
    /// The receiver was dropped: nobody needs further segments.
    is_over: AtomicBool,
}

impl ReadAheadBytes {
    fn bytes(&self) -> MutexGuard<'_, u64> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many more bytes may be handed out. Returns `false` if nobody needs them.
    fn hand_out(&self, len: u64) -> bool {
        let mut bytes = self.bytes();
        let is_full = |bytes: u64| bytes > 0 && bytes.saturating_add(len) > AHEAD_BYTES_MAX;
        while is_full(*bytes) && !self.is_over() {
            bytes = self.taken.wait(bytes).unwrap_or_else(PoisonError::into_inner);
        }
        *bytes = bytes.saturating_add(len);
        !self.is_over()
    }

    fn take(&self, len: u64) {
        let mut bytes = self.bytes();
        *bytes = bytes.saturating_sub(len);
        self.taken.notify_one();
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// The receiving end. Dropping it ends the reading ahead.
struct Taking(Arc<ReadAheadBytes>);

impl Drop for Taking {
    fn drop(&mut self) {
        // Takes the lock, because a thread that is about to wait would miss the notification
        // otherwise.
        let _bytes = self.0.bytes();
        self.0.is_over.store(true, Ordering::Relaxed);
        self.0.taken.notify_one();
    }
}

/// The references of the ranges, read by `threads` threads of the scope. The calling thread reads
/// them if there are none, or if none can be started.
///
/// # Errors
/// The items have the errors of [`crate::references()`].
pub(crate) fn references_by<'scope, 'a: 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    threads: usize,
    reader: &'a dyn StoreReader,
    root: &'a TreeRoot,
    ranges: &'a [ByteRange],
) -> Box<dyn Iterator<Item = Result<Reference, RestoreError>> + Send + 'scope> {
    let (jobs_tx, jobs_rx) = unbounded::<Job>();
    let (order_tx, order_rx) = bounded::<Coming>(AHEAD_OF_EACH * threads);
    let ahead = Arc::new(ReadAheadBytes::default());
    let spawn = |name: String| thread::Builder::new().name(name);
    let prefetch_threads = (0..threads).filter(|number| {
        let (jobs, ahead) = (jobs_rx.clone(), Arc::clone(&ahead));
        let prefetch = move || {
            for (part, waiting) in jobs {
                if ahead.is_over() {
                    return;
                }
                // Sending fails only if the receiver was dropped meanwhile.
                drop(waiting.send(part.open(reader)));
            }
        };
        spawn(format!("prefetch-{number}"))
            .spawn_scoped(scope, prefetch)
            .is_ok()
    });
    let has_threads = prefetch_threads.count() > 0;
    drop(jobs_rx);
    let taking = Taking(Arc::clone(&ahead));
    let lead = move || lead(Parts::new(reader, root, ranges), &ahead, &order_tx, &jobs_tx);
    if !has_threads || spawn("prefetch".to_owned()).spawn_scoped(scope, lead).is_err() {
        return Box::new(crate::references(reader, root, ranges));
    }
    let opened = order_rx.into_iter().map(move |(coming, len)| {
        let opened = coming.recv().unwrap_or(Err(RestoreError::Internal(
            "a thread that opens segments has ended before its segment was opened",
        )));
        taking.0.take(len);
        opened
    });
    Box::new(one_by_one(opened))
}

/// Hands the parts to the threads, until there are no more or nobody needs them.
fn lead(parts: Parts<'_>, ahead: &ReadAheadBytes, order: &Sender<Coming>, jobs: &Sender<Job>) {
    for part in parts {
        let len = part.len();
        if !ahead.hand_out(len) {
            return;
        }
        let (waiting, coming) = bounded(1);
        if order.send((coming, len)).is_err() {
            return;
        }
        // The receiver of `waiting` was just queued, and the prefetch threads end only after this
        // thread, so both are there.
        match part {
            Part::Segment(part) => drop(jobs.send((part, waiting))),
            Part::Failed(error) => drop(waiting.send(Err(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::*;

    /// Asks for one more byte on a thread of its own, while the limit is reached.
    fn while_full(then: impl FnOnce(Taking)) -> bool {
        let taking = Taking(Arc::default());
        assert!(taking.0.hand_out(AHEAD_BYTES_MAX));
        let (ahead, (answer, answered)) = (Arc::clone(&taking.0), channel());
        thread::scope(|scope| {
            scope.spawn(move || answer.send(ahead.hand_out(1)).unwrap());
            // The thread never answers before `then`, so this cannot fail by chance.
            assert!(answered.recv_timeout(Duration::from_millis(50)).is_err());
            then(taking);
            answered.recv().unwrap()
        })
    }

    #[test]
    fn so_many_bytes_are_ahead_at_most() {
        let mut kept = None;
        assert!(while_full(|taking| {
            taking.0.take(1);
            kept = Some(taking);
        }));
        assert_eq!(*kept.unwrap().0.bytes(), AHEAD_BYTES_MAX);
    }

    #[test]
    fn a_waiting_thread_learns_of_the_end() {
        assert!(!while_full(drop));
    }

    #[test]
    fn a_longer_request_is_granted_alone() {
        let ahead = ReadAheadBytes::default();
        assert!(ahead.hand_out(AHEAD_BYTES_MAX + 1));
        ahead.take(AHEAD_BYTES_MAX + 1);
        assert!(ahead.hand_out(AHEAD_BYTES_MAX + 1));
    }
}
