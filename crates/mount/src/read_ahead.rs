//! Reads ahead of sequential readers, on threads of its own.
//!
//! A reader that goes on where a read of the same stream ended is sequential. The files of a tree
//! lie in one stream in the order of the listing. So a program that reads one small file after
//! another is sequential too.

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
/// The first distance to which is read ahead. It doubles with each read.
const AHEAD_BYTES_MIN: u64 = 128 << 10;
/// The largest one.
const AHEAD_BYTES_MAX: u64 = 16 << 20;
/// A read may begin so far before or behind the end of the last one: requests overtake each other.
const SLACK_BYTES: u64 = 256 << 10;

/// A sequential reader.
#[derive(Debug)]
struct Run {
    stream: (u64, types::Fingerprint),
    /// Where the last read ended.
    next: u64,
    /// How many reads went on.
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
        run.next = run.next.max(range.end);
        run.count = run.count.saturating_add(1);
        let distance = AHEAD_BYTES_MIN << run.count.min(16);
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
