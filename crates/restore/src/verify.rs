//! Compares restored files with the backup: `restore --verify`.
//!
//! The content is assembled once more, and each restored file is read beside it. So what is
//! compared is what the target's disk holds with what the store holds.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use format::listing::{EntryKind, ListingEntry};
use recipe::StreamBytes;
use tree::{Action, Reread, RestoreOptions, Restored, TreeError};
use types::ByteRange;

use crate::assemble::{AssembleOptions, assemble};
use crate::counters::RestoreCounters;
use crate::error::RestoreError;
use crate::listing::{Entries, Wanted};
use crate::recipe_prefetch::references_by;
use crate::send::Sink;
use crate::tree::{Fault, TreeSource};

/// The most bytes of a file that are compared at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Counts of a comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerifyStats {
    /// Files that hold the backup's bytes.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that differ, or cannot be read.
    pub unlike: u64,
}

/// Compares the files below `target` with a tree that was restored there with these options. Files
/// that were left as the options say are not compared, nor are further names of a file, nor the
/// entries in `failed`, which the restore has reported.
///
/// # Errors
/// If nothing further can be compared. A file that differs is passed to `faults`.
pub fn verify_tree(
    source: TreeSource<'_>,
    (target, failed): (&Path, &HashSet<Vec<u8>>),
    options: &RestoreOptions,
    assembling: AssembleOptions,
    counters: &RestoreCounters,
    cancel: &AtomicBool,
    faults: &mut (dyn FnMut(Fault) + Send),
) -> Result<VerifyStats, RestoreError> {
    let ranges = ranges(source, target, options)?;
    let total = ranges.iter().map(|range| range.len).sum();
    counters.bytes.store(0, Ordering::Relaxed);
    counters.files.store(0, Ordering::Relaxed);
    counters.bytes_total.store(total, Ordering::Relaxed);
    let mut sink = CompareSink {
        entries: source.listing.entries(Wanted::by_restore(options))?,
        files: Reread::new(target, options)?,
        failed,
        links: BTreeMap::new(),
        current: Current::default(),
        buffer: vec![0; BLOCK_BYTES],
        stats: VerifyStats::default(),
        counters,
        cancel,
        faults,
    };
    thread::scope(|scope| {
        let refs = references_by(
            scope,
            assembling.prefetch_threads,
            source.reader,
            source.content,
            &ranges,
        );
        let printer = recipe::NodeSource::fingerprinter(source.reader);
        assemble(source.reader, printer, refs, assembling, &mut sink)
    })?;
    sink.close();
    // Files without bytes come after the last content, too.
    while sink.next()? {
        sink.close();
    }
    sink.compare_links(source)?;
    Ok(sink.stats)
}

/// The content of the requested files, in order.
fn ranges(
    source: TreeSource<'_>,
    target: &Path,
    options: &RestoreOptions,
) -> Result<Vec<ByteRange>, RestoreError> {
    let mut files = Reread::new(target, options)?;
    let mut entries = source.listing.entries(Wanted::by_restore(options))?;
    let mut ranges: Vec<ByteRange> = Vec::new();
    while let Some(listed) = entries.next_entry()? {
        let len = listed.entry.file_len();
        if !files.is_asked(&listed.entry) || len == 0 {
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

/// The file that the next bytes belong to.
#[derive(Default)]
struct Current {
    /// `None`: its bytes are passed over.
    open: Option<(File, ListingEntry)>,
    offset: u64,
    left: u64,
}

struct CompareSink<'a> {
    entries: Entries<'a>,
    files: Reread,
    failed: &'a HashSet<Vec<u8>>,
    /// Further names of files whose first name was not restored, by the first name.
    links: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    current: Current,
    buffer: Vec<u8>,
    stats: VerifyStats,
    counters: &'a RestoreCounters,
    cancel: &'a AtomicBool,
    faults: &'a mut (dyn FnMut(Fault) + Send),
}

impl CompareSink<'_> {
    /// Goes to the next requested file. Returns false at the end.
    fn next(&mut self) -> Result<bool, RestoreError> {
        while let Some(listed) = self.entries.next_entry()? {
            if self.cancel.load(Ordering::Relaxed) {
                return Err(RestoreError::Interrupted);
            }
            if !self.files.is_asked(&listed.entry) {
                self.note_link(&listed.entry);
                continue;
            }
            let is_failed = self.failed.contains(&listed.entry.path);
            let open = match self.files.open(&listed.entry) {
                _ if is_failed => None,
                Restored::File(file) => Some(file),
                Restored::Left => None,
                Restored::Fault(fault) => {
                    self.tell(Fault::Tree(fault));
                    None
                }
            };
            self.current = Current {
                offset: 0,
                left: listed.entry.file_len(),
                open: open.map(|file| (file, listed.entry)),
            };
            return Ok(true);
        }
        Ok(false)
    }

    fn note_link(&mut self, entry: &ListingEntry) {
        if let Some((first, is_asked)) = self.files.first_name(entry)
            && (!is_asked || self.failed.contains(first))
        {
            let names = self.links.entry(first.to_vec()).or_default();
            names.push(entry.path.clone());
        }
    }

    /// Compares the files that the restore made of further names.
    fn compare_links(&mut self, source: TreeSource<'_>) -> Result<(), RestoreError> {
        let mut links = std::mem::take(&mut self.links);
        if links.is_empty() {
            return Ok(());
        }
        let mut firsts = source.listing.entries(Wanted::just(links.keys().cloned()))?;
        while let Some(listed) = firsts.next_entry()? {
            let names = links.remove(&listed.entry.path).unwrap_or_default();
            if !matches!(listed.entry.kind, EntryKind::File { .. }) {
                continue;
            }
            for path in names {
                if self.cancel.load(Ordering::Relaxed) {
                    return Err(RestoreError::Interrupted);
                }
                if self.failed.contains(&path) {
                    continue;
                }
                let entry = ListingEntry {
                    path,
                    ..listed.entry.clone()
                };
                match self.files.open(&entry) {
                    Restored::File(file) => {
                        self.compare_all(source, file, entry, listed.content_offset);
                        // The others are names of this file.
                        break;
                    }
                    Restored::Left => {}
                    Restored::Fault(fault) => self.tell(Fault::Tree(fault)),
                }
            }
        }
        Ok(())
    }

    /// Compares a file with its content from an offset on.
    fn compare_all(&mut self, source: TreeSource<'_>, file: File, entry: ListingEntry, from: u64) {
        let (path, len) = (entry.path.clone(), entry.file_len());
        self.counters.bytes_total.fetch_add(len, Ordering::Relaxed);
        self.current = Current {
            open: Some((file, entry)),
            offset: 0,
            left: len,
        };
        let compared = StreamBytes::new(source.reader, source.content, from, len).and_then(|mut bytes| {
            loop {
                let mut piece = bytes.next_bytes()?;
                if piece.is_empty() {
                    return Ok(());
                }
                while !piece.is_empty() {
                    let (now, later) = piece.split_at(self.piece(piece.len() as u64));
                    self.compare(now.len(), Some(now));
                    piece = later;
                }
            }
        });
        if let Err(error) = compared {
            self.current.open = None;
            let error = Arc::new(error.into());
            self.tell(Fault::Lost { path, error });
        }
        self.close();
    }

    fn tell(&mut self, fault: Fault) {
        self.stats.unlike += 1;
        (self.faults)(fault);
    }

    /// Goes to the file that the next byte belongs to.
    fn advance(&mut self) -> Result<(), RestoreError> {
        while self.current.left == 0 {
            self.close();
            if !self.next()? {
                return Err(RestoreError::Internal("more content than files was assembled"));
            }
        }
        Ok(())
    }

    /// Counts the current file, if all of it was like the backup's.
    fn close(&mut self) {
        if let Some((_, entry)) = self.current.open.take() {
            self.stats.files += 1;
            self.stats.bytes += entry.file_len();
            self.counters.files.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Compares the next bytes of the current file. Without `bytes` they are zeros.
    fn compare(&mut self, len: usize, bytes: Option<&[u8]>) {
        let Current { open, offset, left } = &mut self.current;
        let at = *offset;
        *offset += len as u64;
        *left -= len as u64;
        self.counters.bytes.fetch_add(len as u64, Ordering::Relaxed);
        let Some((file, entry)) = open else { return };
        let found = &mut self.buffer[..len];
        let fault = match file.read_exact_at(found, at) {
            Err(error) => Fault::Tree(TreeError::of_io(&entry.path, Action::Read, &error)),
            Ok(()) => {
                let differs = match bytes {
                    Some(bytes) => found.iter().zip(bytes).position(|(found, byte)| found != byte),
                    None => found.iter().position(|byte| *byte != 0),
                };
                let Some(differs) = differs else { return };
                Fault::Unlike {
                    path: entry.path.clone(),
                    offset: at + differs as u64,
                }
            }
        };
        self.current.open = None;
        self.tell(fault);
    }

    /// The length of the next piece: within the current file, and no longer than the buffer.
    fn piece(&self, len: u64) -> usize {
        let len = len.min(self.current.left);
        usize::try_from(len).unwrap_or(usize::MAX).min(BLOCK_BYTES)
    }
}

impl Sink for CompareSink<'_> {
    fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), RestoreError> {
        while !bytes.is_empty() {
            self.advance()?;
            let (now, later) = bytes.split_at(self.piece(bytes.len() as u64));
            self.compare(now.len(), Some(now));
            bytes = later;
        }
        Ok(())
    }

    fn zeros(&mut self, mut len: u64) -> Result<(), RestoreError> {
        while len > 0 {
            self.advance()?;
            let now = self.piece(len);
            self.compare(now, None);
            len -= now as u64;
        }
        Ok(())
    }

    fn lost(&mut self, mut len: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError> {
        while len > 0 {
            self.advance()?;
            let now = len.min(self.current.left);
            self.current.offset += now;
            self.current.left -= now;
            if let Some((_, entry)) = self.current.open.take() {
                self.tell(Fault::Lost {
                    path: entry.path,
                    error: Arc::clone(error),
                });
            }
            len -= now;
        }
        Ok(())
    }
}
