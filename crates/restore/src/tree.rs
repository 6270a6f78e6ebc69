//! Restores a directory backup: places entries in listing order and fills files as their content arrives.
//!
//! The content stream is assembled in order; the sink walks the listing beside it, so no more files are
//! open than are being written. Small files are handed whole to finishing threads: creating, writing and
//! giving metadata to many files costs more than their bytes. A file whose bytes cannot be had is removed
//! and reported; the others are restored.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use format::listing::{EntryKind, ListingEntry};
use recipe::{NodeCache, StreamBytes, TreeRoot};
use tree::{FileWriter, ListingReader, Placed, RestoreOptions, Restorer, SkipReason, TreeError, order};
use types::ByteRange;

use crate::assemble::{AssembleOptions, AssembleStats, assemble};
use crate::current::{Current, Part, SmallFile};
use crate::error::RestoreError;
use crate::references::references;
use crate::send::Sink;

/// Files up to this size are finished on other threads.
const SMALL_BYTES_MAX: u64 = 1 << 20;
/// Threads that finish small files.
const FINISHERS: usize = 2;
/// Small files that wait for them at most.
const FINISH_QUEUE: usize = 32;

/// An entry that was not restored as it was.
#[derive(Debug)]
pub enum Fault {
    /// The target refused, or the listing has something that cannot be placed.
    Tree(TreeError),
    /// The file's bytes could not be had; it was removed.
    Lost {
        /// Its path in the backup.
        path: Vec<u8>,
        /// Why.
        error: Arc<RestoreError>,
    },
}

/// Counters to read while a restore runs.
#[derive(Debug, Default)]
pub struct RestoreCounters {
    /// Files restored.
    pub files: AtomicU64,
    /// Bytes of content written or skipped as zeros.
    pub bytes: AtomicU64,
    /// Bytes of content in all; known once the restore has looked.
    pub bytes_total: AtomicU64,
}

/// What a tree's restore did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Files restored.
    pub files: u64,
    /// Other entries restored.
    pub others: u64,
    /// Files left as they were, by the choice of what to overwrite.
    pub kept: u64,
    /// What assembling cost.
    pub assemble: AssembleStats,
}

/// What to restore, and with what.
#[derive(Debug, Clone, Copy)]
pub struct TreeSource<'a> {
    /// The store's nodes and containers.
    pub nodes: &'a NodeCache,
    /// The content stream.
    pub content: &'a TreeRoot,
    /// The listing stream.
    pub listing: &'a TreeRoot,
}

/// Restores a tree under `target`.
///
/// # Errors
/// When nothing further can be restored: the listing or a recipe is damaged, the target folder is not
/// to be had, or someone asked to stop. Faults of single entries go to `faults`.
pub fn restore_tree(
    source: TreeSource<'_>,
    target: &Path,
    options: RestoreOptions,
    assembling: AssembleOptions,
    counters: &RestoreCounters,
    cancel: &AtomicBool,
    faults: &mut (dyn FnMut(Fault) + Send),
) -> Result<TreeStats, RestoreError> {
    let ranges = wanted(source, &options)?;
    let total = ranges.iter().map(|range| range.len).sum();
    counters.bytes_total.store(total, Ordering::Relaxed);
    let bytes = StreamBytes::new(source.nodes, source.listing, 0, source.listing.len)?;
    let restorer = Restorer::new(target, options)?;
    let (jobs_tx, jobs_rx) = crossbeam_channel::bounded::<SmallFile>(FINISH_QUEUE);
    let (faults_tx, faults_rx) = crossbeam_channel::unbounded();
    thread::scope(|scope| {
        for number in 0..FINISHERS {
            let (jobs, failed) = (jobs_rx.clone(), faults_tx.clone());
            let run = move || {
                while let Ok(job) = jobs.recv() {
                    if let Err(fault) = job.finish() {
                        // The collector is gone only when the restore has failed as a whole.
                        drop(failed.send(fault));
                    }
                    counters.files.fetch_add(1, Ordering::Relaxed);
                }
            };
            thread::Builder::new()
                .name(format!("finish-{number}"))
                .spawn_scoped(scope, run)
                .map_err(|source| RestoreError::Target {
                    target: "a new thread".into(),
                    source,
                })?;
        }
        drop((jobs_rx, faults_tx));
        let mut sink = TreeSink {
            listing: ListingReader::new(bytes),
            restorer,
            jobs: jobs_tx,
            current: Current::None,
            links: Vec::new(),
            stats: TreeStats::default(),
            counters,
            cancel,
            faults,
        };
        let refs = references(source.nodes, source.content, &ranges);
        let printer = recipe::NodeSource::fingerprinter(source.nodes);
        sink.stats.assemble = assemble(source.nodes.containers(), printer, refs, assembling, &mut sink)?;
        sink.place_rest()?;
        sink.restore_links(source)?;
        let TreeSink {
            restorer,
            jobs,
            stats,
            faults,
            ..
        } = sink;
        drop(jobs);
        // Ends when the finishers have: a folder's metadata waits for the files in it.
        faults_rx.iter().for_each(|fault| faults(Fault::Tree(fault)));
        restorer
            .finish()
            .into_iter()
            .for_each(|fault| faults(Fault::Tree(fault)));
        Ok(stats)
    })
}

/// The parts of the content that are wanted, in order.
fn wanted(source: TreeSource<'_>, options: &RestoreOptions) -> Result<Vec<ByteRange>, RestoreError> {
    let paths = &options.include.paths;
    if paths.is_empty() {
        return Ok(vec![ByteRange {
            offset: 0,
            len: source.content.len,
        }]);
    }
    let bytes = StreamBytes::new(source.nodes, source.listing, 0, source.listing.len)?;
    let mut listing = ListingReader::new(bytes);
    let mut ranges: Vec<ByteRange> = Vec::new();
    while let Some(listed) = listing.next_entry()? {
        let EntryKind::File { len, .. } = listed.entry.kind else {
            continue;
        };
        if len == 0
            || !paths
                .iter()
                .any(|path| order::is_within(&listed.entry.path, path))
        {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if last.end() == listed.content_offset => last.len += len,
            _ => ranges.push(ByteRange {
                offset: listed.content_offset,
                len,
            }),
        }
    }
    Ok(ranges)
}

struct TreeSink<'a> {
    listing: ListingReader<StreamBytes<'a>>,
    restorer: Restorer,
    jobs: crossbeam_channel::Sender<SmallFile>,
    current: Current,
    /// Hard links to files that were not restored.
    links: Vec<(ListingEntry, Vec<u8>)>,
    stats: TreeStats,
    counters: &'a RestoreCounters,
    cancel: &'a AtomicBool,
    faults: &'a mut (dyn FnMut(Fault) + Send),
}

impl TreeSink<'_> {
    /// Places entries up to the file that the next byte of content belongs to.
    fn advance(&mut self) -> Result<(), RestoreError> {
        while self.current.left() == 0 {
            if !self.place_next()? {
                return Err(RestoreError::Internal(
                    "there is more content than the listing has files for",
                ));
            }
        }
        Ok(())
    }

    fn place_next(&mut self) -> Result<bool, RestoreError> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(RestoreError::Interrupted);
        }
        let Some(listed) = self.listing.next_entry()? else {
            return Ok(false);
        };
        let len = if let EntryKind::File { len, .. } = listed.entry.kind {
            len
        } else {
            0
        };
        match self.restorer.place(&listed.entry) {
            Ok(Placed::File(writer)) if len <= SMALL_BYTES_MAX => {
                self.stats.files += 1;
                self.current = Current::Small {
                    file: SmallFile {
                        writer,
                        parts: Vec::new(),
                    },
                    left: len,
                };
            }
            Ok(Placed::File(writer)) => {
                self.stats.files += 1;
                self.current = Current::Large {
                    writer,
                    offset: 0,
                    left: len,
                };
            }
            Ok(Placed::Done | Placed::Folder) => self.stats.others += 1,
            Ok(Placed::Skipped(SkipReason::NotIncluded)) => {}
            Ok(Placed::Skipped(_)) => {
                self.stats.kept += 1;
                self.current = Current::Unwanted { left: len };
            }
            Ok(Placed::MissingLinkTarget { target }) => self.links.push((listed.entry, target)),
            Err(fault) => {
                (self.faults)(Fault::Tree(fault));
                self.current = Current::Unwanted { left: len };
            }
        }
        self.complete_if_full()?;
        for fault in self.restorer.take_faults() {
            (self.faults)(Fault::Tree(fault));
        }
        Ok(true)
    }

    fn complete_if_full(&mut self) -> Result<(), RestoreError> {
        if self.current.left() > 0 {
            return Ok(());
        }
        match std::mem::replace(&mut self.current, Current::None) {
            Current::None | Current::Unwanted { .. } => {}
            Current::Small { file, .. } => {
                self.jobs
                    .send(file)
                    .map_err(|_| RestoreError::Internal("all finishing threads died"))?;
            }
            Current::Large { writer, .. } => {
                if let Err(fault) = writer.finish() {
                    (self.faults)(Fault::Tree(fault));
                }
                self.counters.files.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Gives the next `len` bytes, which lie within the current file, to `write`.
    fn give(
        &mut self,
        len: u64,
        part: impl FnOnce() -> Part,
        write: impl FnOnce(&FileWriter, u64) -> Result<(), TreeError>,
    ) -> Result<(), RestoreError> {
        self.counters.bytes.fetch_add(len, Ordering::Relaxed);
        let mut failed = None;
        match &mut self.current {
            Current::None => return Err(RestoreError::Internal("content without a file")),
            Current::Unwanted { left } => *left -= len,
            Current::Small { file, left } => {
                file.parts.push(part());
                *left -= len;
            }
            Current::Large { writer, offset, left } => {
                let written = write(writer, *offset);
                *offset += len;
                *left -= len;
                failed = written.err().map(|fault| (fault, *left));
            }
        }
        if let Some((fault, left)) = failed {
            (self.faults)(Fault::Tree(fault));
            self.abandon(left);
        }
        self.complete_if_full()
    }

    /// The current file cannot be completed.
    fn abandon(&mut self, left: u64) {
        match std::mem::replace(&mut self.current, Current::Unwanted { left }) {
            Current::Small { file, .. } => file.writer.abandon(),
            Current::Large { writer, .. } => writer.abandon(),
            Current::None | Current::Unwanted { .. } => {}
        }
    }

    fn place_rest(&mut self) -> Result<(), RestoreError> {
        while self.place_next()? {
            if self.current.left() > 0 {
                return Err(RestoreError::Internal(
                    "the listing has more files than there is content for",
                ));
            }
        }
        Ok(())
    }

    /// A link whose first name was not restored becomes a file with that one's content.
    fn restore_links(&mut self, source: TreeSource<'_>) -> Result<(), RestoreError> {
        if self.links.is_empty() {
            return Ok(());
        }
        let mut links = std::mem::take(&mut self.links);
        let bytes = StreamBytes::new(source.nodes, source.listing, 0, source.listing.len)?;
        let mut listing = ListingReader::new(bytes);
        // Links were met in listing order, and so were not their targets: one pass a listing is enough,
        // since every target is looked for in every entry.
        while let Some(listed) = listing.next_entry()? {
            if links.is_empty() {
                break;
            }
            for (link, _) in links.iter().filter(|(_, target)| *target == listed.entry.path) {
                if self.cancel.load(Ordering::Relaxed) {
                    return Err(RestoreError::Interrupted);
                }
                let as_file = ListingEntry {
                    path: link.path.clone(),
                    ..listed.entry.clone()
                };
                match self.restorer.place(&as_file) {
                    Ok(Placed::File(writer)) => self.copy(source, writer, listed.content_offset),
                    Ok(Placed::Skipped(_)) => self.stats.kept += 1,
                    Ok(Placed::MissingLinkTarget { target }) => (self.faults)(Fault::Lost {
                        path: as_file.path,
                        error: Arc::new(RestoreError::NoLinkTarget { target }),
                    }),
                    Ok(Placed::Done | Placed::Folder) => self.stats.others += 1,
                    Err(fault) => (self.faults)(Fault::Tree(fault)),
                }
            }
            links.retain(|(_, target)| *target != listed.entry.path);
        }
        for (link, target) in links {
            (self.faults)(Fault::Lost {
                path: link.path,
                error: Arc::new(RestoreError::NoLinkTarget { target }),
            });
        }
        Ok(())
    }

    /// Fills a file from the content; one that cannot be had costs only itself.
    fn copy(&mut self, source: TreeSource<'_>, writer: FileWriter, from: u64) {
        let done = match fill(source, &writer, from) {
            Ok(()) => writer.finish().map_err(Fault::Tree),
            Err(error) => {
                let path = writer.entry().path.clone();
                writer.abandon();
                Err(match error {
                    RestoreError::Tree(fault) => Fault::Tree(fault),
                    other => Fault::Lost {
                        path,
                        error: Arc::new(other),
                    },
                })
            }
        };
        match done {
            Ok(()) => {
                self.stats.files += 1;
                self.counters.files.fetch_add(1, Ordering::Relaxed);
            }
            Err(fault) => (self.faults)(fault),
        }
    }
}

fn fill(source: TreeSource<'_>, writer: &FileWriter, from: u64) -> Result<(), RestoreError> {
    let mut bytes = StreamBytes::new(source.nodes, source.content, from, writer.len())?;
    let mut offset = 0;
    loop {
        let piece = bytes.next_bytes()?;
        if piece.is_empty() {
            return Ok(());
        }
        writer.write_at(offset, piece)?;
        offset += piece.len() as u64;
    }
}

impl Sink for TreeSink<'_> {
    fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), RestoreError> {
        while !bytes.is_empty() {
            self.advance()?;
            let here = bytes
                .len()
                .min(usize::try_from(self.current.left()).unwrap_or(usize::MAX));
            let (now, later) = bytes.split_at(here);
            self.give(
                here as u64,
                || Part::Bytes(now.to_vec()),
                |writer, at| writer.write_at(at, now),
            )?;
            bytes = later;
        }
        Ok(())
    }

    fn zeros(&mut self, mut len: u64) -> Result<(), RestoreError> {
        while len > 0 {
            self.advance()?;
            let here = len.min(self.current.left());
            self.give(
                here,
                || Part::Zeros(here),
                |writer, at| writer.skip_zeros(at, here),
            )?;
            len -= here;
        }
        Ok(())
    }

    fn lost(&mut self, mut len: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError> {
        while len > 0 {
            self.advance()?;
            let here = len.min(self.current.left());
            let path = match &self.current {
                Current::Small { file, .. } => Some(file.writer.entry().path.clone()),
                Current::Large { writer, .. } => Some(writer.entry().path.clone()),
                Current::None | Current::Unwanted { .. } => None,
            };
            if let Some(path) = path {
                (self.faults)(Fault::Lost {
                    path,
                    error: Arc::clone(error),
                });
                self.stats.files -= 1;
            }
            self.abandon(self.current.left());
            self.give(here, || Part::Zeros(0), |_, _| Ok(()))?;
            len -= here;
        }
        Ok(())
    }
}
