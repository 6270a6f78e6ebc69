//! Reads ahead of sequential readers, on threads of its own.
//!
//! A reader that goes on where a read of the same stream ended, twice, is sequential. The files of
//! a tree lie in one stream in the order of the listing. So a program that reads one small file
//! after another is sequential too. Reads in no order hardly ever are: one that leaves out more
//! than it reads begins anew.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::content::{Contents, Stream, WINDOW_BYTES};
use crate::pins::Pin;

/// How many readers are followed at once.
const RUNS_MAX: usize = 32;
/// How many pieces wait for a thread.
const JOBS_MAX: usize = 32;
/// Half of the first distance to which is read ahead. It doubles with each read.
const AHEAD_BYTES_MIN: u64 = 128 << 10;
/// The largest one.
const AHEAD_BYTES_MAX: u64 = 16 << 20;
/// A read may begin so far before or behind the end of the last one: requests overtake each other.
const SLACK_BYTES: u64 = 128 << 10;
/// So many reads must go on before anything is read ahead.
const GONE_ON_MIN: u32 = 2;

/// A sequential reader.
#[derive(Debug)]
struct Run {
    stream: (u64, types::Fingerprint),
    /// Where the last read ended.
    next: u64,
    /// How many reads went on, since the last gap.
    count: u32,
    /// Up to where it was read ahead.
    asked: u64,
}

/// A piece to read.
struct Job {
    pin: Arc<Pin>,
    stream: Stream,
    range: Range<u64>,
}

/// The threads and the readers that they run ahead of.
pub(crate) struct ReadAhead {
    ahead_bytes_max: u64,
    /// The latest first.
    runs: Mutex<Vec<Run>>,
    jobs: Sender<Job>,
    is_closed: Arc<AtomicBool>,
}

impl ReadAhead {
    /// Starts threads that read into `contents`. If the system gives none, nothing is read ahead.
    pub(crate) fn new(contents: &Arc<Contents>, cache_bytes: u64, threads: usize) -> Self {
        let (jobs, taken) = bounded::<Job>(JOBS_MAX);
        let is_closed = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let (taken, contents) = (taken.clone(), Arc::clone(contents));
            let is_closed = Arc::clone(&is_closed);
            let builder = thread::Builder::new().name("read ahead".to_owned());
            if let Err(error) = builder.spawn(move || work(&taken, &contents, &is_closed)) {
                tracing::warn!(target: crate::TARGET, "no thread to read ahead: {error}");
            }
        }
        Self {
            ahead_bytes_max: AHEAD_BYTES_MAX.min(cache_bytes / 8),
            runs: Mutex::default(),
            jobs,
            is_closed,
        }
    }

    /// Ends it: what waits for a thread is left out.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// A range of a stream was asked for.
    pub(crate) fn note(&self, pin: &Arc<Pin>, stream: &Stream, range: &Range<u64>) {
        let Some(ahead) = self.ahead(stream, range) else {
            return;
        };
        for range in ahead {
            let job = Job {
                pin: Arc::clone(pin),
                stream: *stream,
                range,
            };
            if self.jobs.try_send(job).is_err() {
                // The threads are busy enough.
                return;
            }
        }
    }

    /// The pieces to read ahead after a read.
    fn ahead(&self, stream: &Stream, range: &Range<u64>) -> Option<Vec<Range<u64>>> {
        let name = (stream.pin, stream.root.fingerprint);
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = |run: &Run| {
            run.stream == name
                && range.start.saturating_add(SLACK_BYTES) >= run.next
                && range.start <= run.next.saturating_add(SLACK_BYTES)
        };
        let Some(at) = runs.iter().position(goes_on) else {
            runs.truncate(RUNS_MAX - 1);
            let run = Run {
                stream: name,
                next: range.end,
                count: 0,
                asked: range.end,
            };
            runs.insert(0, run);
            return None;
        };
        runs[..=at].rotate_right(1);
        let run = &mut runs[0];
        if range.end <= run.next {
            // It was overtaken, or is a read again.
            return None;
        }
        let gap = range.start.saturating_sub(run.next);
        let is_gap = gap > range.end - range.start;
        run.count = if is_gap { 0 } else { run.count.saturating_add(1) };
        run.next = range.end;
        if run.count < GONE_ON_MIN {
            return None;
        }
        let distance = AHEAD_BYTES_MIN << (run.count - 1).min(16);
        let distance = distance.min(self.ahead_bytes_max);
        let end = run.next.saturating_add(distance).min(stream.root.len);
        let begin = run.asked.max(run.next);
        // Small pieces are gathered, except at the end of the stream.
        let is_worth_it = end.saturating_sub(begin) >= distance / 2 || end == stream.root.len;
        if begin >= end || !is_worth_it {
            return None;
        }
        run.asked = end;
        drop(runs);
        let mut pieces = Vec::new();
        let mut at = begin;
        while at < end {
            let next = ((at / WINDOW_BYTES + 1) * WINDOW_BYTES).min(end);
            pieces.push(at..next);
            at = next;
        }
        Some(pieces)
    }
}

fn work(jobs: &Receiver<Job>, contents: &Contents, is_closed: &AtomicBool) {
    for job in jobs {
        if is_closed.load(Ordering::SeqCst) {
            continue;
        }
        if let Ok(reader) = job.pin.reader() {
            contents.fetch(reader, &job.stream, &job.range);
        }
    }
}

#[cfg(test)]
mod tests {
    use types::Fingerprint;

    use super::*;

    const STREAM_BYTES: u64 = 1 << 30;

    /// How many of these reads, given as offset and length, made something be read ahead, and up to
    /// where.
    fn ahead_of(reads: impl IntoIterator<Item = (u64, u64)>) -> (usize, u64) {
        let contents = Arc::new(Contents::new(1 << 30));
        let ahead = ReadAhead::new(&contents, 1 << 30, 0);
        let root = recipe::TreeRoot {
            fingerprint: Fingerprint::from_bytes([1; 32]),
            len: STREAM_BYTES,
            level: types::Level::new(1).unwrap(),
            location: types::ChunkLocation {
                container: types::ContainerId::from_u64(1).unwrap(),
                slot: types::Slot::new(0).unwrap(),
            },
        };
        let stream = Stream { pin: 1, root };
        let pieces: Vec<_> = { reads.into_iter() }
            .filter_map(|(offset, len)| ahead.ahead(&stream, &(offset..offset + len)))
            .collect();
        let end = pieces.iter().flatten().map(|piece| piece.end).max();
        (pieces.len(), end.unwrap_or(0))
    }

    #[test]
    fn reads_in_order_are_read_ahead_of_and_reads_in_no_order_are_not() {
        const KIB: u64 = 1 << 10;
        // The third read goes on for the second time.
        let in_order = |count: u64| (0..count).map(|nth| (nth * 128 * KIB, 128 * KIB));
        assert_eq!(ahead_of(in_order(2)).0, 0);
        assert_eq!(ahead_of(in_order(3)), (1, (3 + 2) * 128 * KIB));
        // Two requests that overtake each other.
        let overtaken = [0, 1, 3, 2, 4].map(|nth| (nth * 128 * KIB, 128 * KIB));
        assert!(ahead_of(overtaken).0 > 0);
        // Small reads of a file of 64 MiB in no order.
        let (files, mut at) = (64 << 20, 1_u64);
        let random = std::iter::from_fn(|| {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Some(((at >> 33) % (files / 4096) * 4096, 4096))
        });
        // By chance some go on.
        let (count, _) = ahead_of(random.take(20_000));
        assert!(count < 10, "{count}");
        // Backwards, and the same again.
        assert_eq!(ahead_of((0..100).rev().map(|nth| (nth * 4096, 4096))).0, 0);
        assert_eq!(ahead_of((0..100).map(|_| (0, 4096))).0, 0);
    }
}
