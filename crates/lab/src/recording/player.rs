//! Replays recordings, several at once.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use env::{Clock, SystemClock};
use simulate::SimulateError;
use transport::Traffic;

use super::file::{Event, RecordingReader, Side};
use super::inbox::Stop;
use super::line::{Line, Place};
use super::rewrite::{self, Rewrite};
use crate::error::LabError;

const BUFFER_BYTES: usize = 1 << 20;

/// What to replay, and where.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The recordings.
    pub files: Vec<PathBuf>,
    /// The server's socket.
    pub to: PathBuf,
    /// How many streams run at the same time. If there are fewer recordings, some are replayed
    /// several times, each time as a series of its own; if there are more, they take turns.
    pub streams: usize,
    /// The namespace; otherwise each recording's own.
    pub namespace: Option<String>,
    /// How long the server may take to send a message.
    pub patience: Duration,
}

/// A complete replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Recordings that were replayed.
    pub recordings: u64,
    /// How long all of them took together.
    pub elapsed: Duration,
    /// Bytes of the backups that were committed or read, before deduplication.
    pub bytes_logical: u64,
    /// Bytes that went to the server, ...
    pub bytes_sent: u64,
    /// ... and that came from it.
    pub bytes_received: u64,
}

/// Replays recordings. Adds the logical bytes of each complete one to `done`, which begins at 0.
///
/// # Errors
/// `Diverged` if a server decides otherwise than recorded, or is late; `Recording` if a file is no
/// recording; if the server cannot be reached; `Interrupted`.
pub fn replay(what: &Replay, cancelled: &AtomicBool, done: &AtomicU64) -> Result<Replayed, LabError> {
    if what.files.is_empty() || what.streams == 0 {
        return Err(LabError::settings("a replay needs a recording and a stream"));
    }
    let (traffic, began) = (Traffic::default(), SystemClock.monotonic());
    let count = what.files.len().max(what.streams);
    let next = AtomicUsize::new(0);
    let (first_fault, failed) = (Mutex::new(None), AtomicBool::new(false));
    let stop = Stop {
        cancelled,
        failed: &failed,
    };
    let stream = || {
        while !stop.is_asked() {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            match play(what, number, &traffic, stop) {
                Ok(bytes) => {
                    done.fetch_add(bytes, Ordering::Relaxed);
                }
                Err(error) => {
                    let mut first = first_fault.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(error);
                    // All streams stop.
                    failed.store(true, Ordering::Relaxed);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..what.streams {
            scope.spawn(stream);
        }
    });
    if let Some(error) = first_fault.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    if stop.is_asked() {
        return Err(SimulateError::Interrupted.into());
    }
    Ok(Replayed {
        recordings: count as u64,
        elapsed: SystemClock.monotonic().saturating_sub(began),
        bytes_logical: done.load(Ordering::Relaxed),
        bytes_sent: traffic.sent(),
        bytes_received: traffic.received(),
    })
}

/// Replays one recording. Returns the logical bytes of its backups.
fn play(what: &Replay, number: usize, traffic: &Traffic, stop: Stop<'_>) -> Result<u64, LabError> {
    let file = &what.files[number % what.files.len()];
    let name = file.display().to_string();
    let rewrite = Rewrite {
        namespace: what.namespace.clone(),
        copy: number / what.files.len(),
        chosen: match number / what.files.len() {
            0 => BTreeMap::new(),
            _ => rewrite::chosen(&mut open(file, &name)?)?,
        },
    };
    let mut recording = open(file, &name)?;
    let mut lines: BTreeMap<u32, Line<'_>> = BTreeMap::new();
    let mut bytes = 0;
    while let Some(record) = recording.next_record()? {
        let connection = record.connection;
        let place = Place {
            what: &name,
            connection,
            patience: what.patience,
            stop,
        };
        if record.event == Event::Opened {
            lines.insert(connection, Line::open(place, &what.to, traffic)?);
            continue;
        }
        let Some(line) = lines.get_mut(&connection) else {
            return Err(recording.wrong("a connection that is not open"));
        };
        match record.event {
            Event::Sent(Side::Client, frame) => {
                let message = rewrite.message(connection, frame);
                line.send(&message.map_err(|error| place.unreadable(&error))?)?;
            }
            Event::Sent(Side::Server, frame) => line.expect(&frame)?,
            Event::Opened | Event::Closed => {
                if let Some(line) = lines.remove(&connection) {
                    bytes += line.close()?;
                }
            }
        }
    }
    for line in lines.into_values() {
        bytes += line.close()?;
    }
    Ok(bytes)
}

fn open(file: &Path, name: &str) -> Result<RecordingReader<BufReader<File>>, LabError> {
    let opened = File::open(file).map_err(|source| LabError::io(name, source))?;
    RecordingReader::new(name, BufReader::with_capacity(BUFFER_BYTES, opened))
}
