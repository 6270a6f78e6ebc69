//! Batches of small files. They are gathered as their content arrives, and other threads create the
//! files.
//!
//! Creating, writing and giving metadata to a small file costs more than its bytes: a [`Batch`]
//! holds the content of many successive files, and [`Finishers`] take whole batches, so no file
//! needs a message or a buffer of its own (R7, B10).
//!
//! Invariant: files of a batch are in listing order, most of them in one folder. Queued
//! batches are bounded in number and bytes (INV-7). Before a hard link is made to a file, the batch
//! with that file is done ([`Finishers::wait_for`]). One thread gathers, and one thread finishes
//! each batch. A file that fails is a fault of [`Finishers::faults`], and does not affect other
//! files.

use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Scope};

use crossbeam_channel::{Receiver, Sender};
use tree::{PendingFile, Placed, TreeError};

use crate::counters::RestoreCounters;
use crate::error::RestoreError;

/// A batch is handed on after so many bytes of content. No file in it is longer.
pub(crate) const BATCH_BYTES: usize = 1 << 20;
/// A batch is handed on after so many files.
const BATCH_FILES: usize = 256;

/// A part of a small file's content.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// The next bytes of the batch, this many.
    Bytes(usize),
    /// Zeros, which the batch's bytes do not contain.
    Zeros(u64),
}

/// A file and how many parts it has.
#[derive(Debug)]
struct Gathered {
    file: PendingFile,
    parts: usize,
    /// Whether the file exists already and stays.
    is_kept: bool,
}

/// Small files with their content.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    files: Vec<Gathered>,
    parts: Vec<Part>,
    bytes: Vec<u8>,
    /// Hashes of the files' paths.
    paths: Vec<u64>,
}

impl Batch {
    /// Begins the next file. Parts pushed from now on belong to it.
    fn begin(&mut self, file: PendingFile, path: u64, is_kept: bool) {
        self.files.push(Gathered {
            file,
            parts: 0,
            is_kept,
        });
        self.paths.push(path);
    }

    fn push(&mut self, part: Part) {
        let Some(last) = self.files.last_mut() else {
            return;
        };
        if let (Part::Bytes(more), Some(Part::Bytes(len)), 1..) = (part, self.parts.last_mut(), last.parts) {
            *len += more;
            return;
        }
        last.parts += 1;
        self.parts.push(part);
    }

    /// Removes the last file, because its content is lost. An existing file stays.
    fn abandon(&mut self) {
        if let Some(last) = self.files.pop() {
            self.paths.pop();
            last.file.give_up();
            for part in self.parts.drain(self.parts.len() - last.parts..) {
                if let Part::Bytes(len) = part {
                    self.bytes.truncate(self.bytes.len() - len);
                }
            }
        }
    }

    /// Creates the files. The emptied batch keeps its allocations.
    fn finish(&mut self, tally: &Tally, counters: &RestoreCounters, faults: &Sender<TreeError>) {
        let (mut bytes, mut parts) = (&self.bytes[..], &self.parts[..]);
        for Gathered {
            file,
            parts: count,
            is_kept,
        } in self.files.drain(..)
        {
            let (own, rest) = parts.split_at(count);
            parts = rest;
            let (mut stored, mut len) = (0, 0);
            for part in own {
                match *part {
                    Part::Bytes(bytes) => {
                        stored += bytes;
                        len += bytes as u64;
                    }
                    Part::Zeros(zeros) => len += zeros,
                }
            }
            let (content, rest) = bytes.split_at(stored);
            bytes = rest;
            let done = match own {
                _ if is_kept => file.keep().map(|_| false),
                [] | [Part::Bytes(_)] => file.write(content).map(|skipped| skipped.is_none()),
                _ => write_parts(file, own, content),
            };
            match done {
                Ok(true) => {
                    tally.files.fetch_add(1, Ordering::Relaxed);
                    tally.bytes.fetch_add(len, Ordering::Relaxed);
                    counters.files.fetch_add(1, Ordering::Relaxed);
                }
                Ok(false) => _ = tally.kept.fetch_add(1, Ordering::Relaxed),
                // The receiver is gone only if the whole restore has failed.
                Err(fault) => drop(faults.send(fault)),
            }
        }
        self.parts.clear();
        self.bytes.clear();
        self.paths.clear();
    }
}

/// Writes a file with zeros between its bytes. Returns `false` if an existing entry stays.
fn write_parts(file: PendingFile, parts: &[Part], mut content: &[u8]) -> Result<bool, TreeError> {
    let Placed::File(writer) = file.open()? else {
        return Ok(false);
    };
    let mut offset = 0;
    for part in parts {
        let (len, written) = match *part {
            Part::Bytes(len) => {
                let (now, later) = content.split_at(len);
                content = later;
                (len as u64, writer.write_at(offset, now))
            }
            Part::Zeros(len) => (len, writer.skip_zeros(offset, len)),
        };
        written?;
        offset += len;
    }
    writer.finish().map(|stays| stays.is_none())
}

/// A batch that is being finished. Dropping the job returns the batch, so nobody waits for a batch
/// whose thread panicked.
struct Job<'a> {
    number: u64,
    batch: Batch,
    done: &'a Sender<(u64, Batch)>,
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let batch = std::mem::take(&mut self.batch);
        // A batch left by a panic must not be reused.
        let batch = if thread::panicking() {
            Batch::default()
        } else {
            batch
        };
        // Nobody waits for it if the restore has ended.
        drop(self.done.send((self.number, batch)));
    }
}

/// Counts of small files.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Files restored.
    pub(crate) files: AtomicU64,
    /// Bytes of these files.
    pub(crate) bytes: AtomicU64,
    /// Files left as they were.
    pub(crate) kept: AtomicU64,
}

/// The batch being gathered, and the threads that finish batches. After this value is dropped, the
/// threads finish the batches that they have, and end.
pub(crate) struct Finishers {
    open: Batch,
    jobs: Sender<(u64, Batch)>,
    /// Finished batches by number, emptied.
    done: Receiver<(u64, Batch)>,
    faults: Receiver<TreeError>,
    /// Batches that are not finished: their numbers, and hashes of their paths.
    under_way: VecDeque<(u64, Vec<u64>)>,
    next: u64,
    spare: Vec<Batch>,
    hasher: RandomState,
}

impl Finishers {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`RestoreError::NoThread`] when there are no threads to be had.
    pub(crate) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        threads: usize,
        tally: &'scope Tally,
        counters: &'scope RestoreCounters,
    ) -> Result<Self, RestoreError> {
        let (jobs, jobs_rx) = crossbeam_channel::bounded::<(u64, Batch)>(threads);
        let (done_tx, done) = crossbeam_channel::unbounded();
        let (faults_tx, faults) = crossbeam_channel::unbounded();
        for number in 0..threads {
            let (jobs, done, faults) = (jobs_rx.clone(), done_tx.clone(), faults_tx.clone());
            let run = move || {
                while let Ok((number, batch)) = jobs.recv() {
                    let mut job = Job {
                        number,
                        batch,
                        done: &done,
                    };
                    job.batch.finish(tally, counters, &faults);
                }
            };
            thread::Builder::new()
                .name(format!("finish-{number}"))
                .spawn_scoped(scope, run)
                .map_err(RestoreError::NoThread)?;
        }
        Ok(Self {
            open: Batch::default(),
            jobs,
            done,
            faults,
            under_way: VecDeque::new(),
            next: 0,
            spare: Vec::new(),
            hasher: RandomState::new(),
        })
    }

    /// Begins the next small file, of `len` bytes, at most [`BATCH_BYTES`].
    ///
    /// # Errors
    /// [`RestoreError::Internal`] if all threads have died.
    pub(crate) fn begin(&mut self, file: PendingFile, len: usize) -> Result<(), RestoreError> {
        let is_full = self.open.files.len() >= BATCH_FILES || self.open.bytes.len() + len > BATCH_BYTES;
        if is_full {
            self.hand_on()?;
        }
        let path = self.hasher.hash_one(&file.entry().path[..]);
        self.open.begin(file, path, false);
        Ok(())
    }

    /// Leaves an existing file of any size, and sets its metadata if the overwrite mode requires
    /// it.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub(crate) fn keep(&mut self, file: PendingFile) -> Result<(), RestoreError> {
        if self.open.files.len() >= BATCH_FILES {
            self.hand_on()?;
        }
        let path = self.hasher.hash_one(&file.entry().path[..]);
        self.open.begin(file, path, true);
        Ok(())
    }

    /// Adds the next bytes of the last file.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.open.push(Part::Bytes(bytes.len()));
        self.open.bytes.extend_from_slice(bytes);
    }

    /// Adds zeros as the next bytes of the last file.
    pub(crate) fn zeros(&mut self, len: u64) {
        self.open.push(Part::Zeros(len));
    }

    /// Removes the last file, and returns the path of its entry.
    pub(crate) fn abandon(&mut self) -> Option<Vec<u8>> {
        let path = self.open.files.last().map(|last| last.file.entry().path.clone());
        self.open.abandon();
        path
    }

    /// Waits until the file with this path exists, if it is a small file in an unfinished batch.
    ///
    /// # Errors
    /// [`RestoreError::Internal`] if all threads have died.
    pub(crate) fn wait_for(&mut self, path: &[u8]) -> Result<(), RestoreError> {
        let path = self.hasher.hash_one(path);
        if self.open.paths.contains(&path) {
            self.hand_on()?;
        }
        self.collect();
        while self.under_way.iter().any(|(_, paths)| paths.contains(&path)) {
            let done = self.done.recv();
            let (number, batch) = done.map_err(|_| RestoreError::Internal("all finishing threads died"))?;
            self.take_back(number, batch);
        }
        Ok(())
    }

    /// Hands on the open batch, and waits for all batches.
    ///
    /// # Errors
    /// [`RestoreError::Internal`] if all threads have died.
    pub(crate) fn wait(&mut self) -> Result<(), RestoreError> {
        self.hand_on()?;
        while !self.under_way.is_empty() {
            let done = self.done.recv();
            let (number, batch) = done.map_err(|_| RestoreError::Internal("all finishing threads died"))?;
            self.take_back(number, batch);
        }
        Ok(())
    }

    /// The faults since the last call.
    pub(crate) fn faults(&self) -> impl Iterator<Item = TreeError> {
        self.faults.try_iter()
    }

    fn hand_on(&mut self) -> Result<(), RestoreError> {
        self.collect();
        if self.open.files.is_empty() {
            return Ok(());
        }
        let next = self.spare.pop().unwrap_or_default();
        let mut batch = std::mem::replace(&mut self.open, next);
        self.under_way
            .push_back((self.next, std::mem::take(&mut batch.paths)));
        self.jobs
            .send((self.next, batch))
            .map_err(|_| RestoreError::Internal("all finishing threads died"))?;
        self.next += 1;
        Ok(())
    }

    fn collect(&mut self) {
        while let Ok((number, batch)) = self.done.try_recv() {
            self.take_back(number, batch);
        }
    }

    fn take_back(&mut self, number: u64, batch: Batch) {
        self.under_way.retain(|(under_way, _)| *under_way != number);
        self.spare.push(batch);
    }
}
