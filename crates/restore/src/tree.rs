//! Restores a directory backup: places entries in listing order, and fills files as their content
//! arrives.
//!
//! The content stream is assembled in order. The sink walks the listing beside it, so only files
//! that are being written are open. Small files are gathered with their content, and other threads
//! create them ([`crate::batch`]) once all their bytes have arrived. A file with lost bytes is
//! removed or never created, and reported. The other files are restored.

mod links;
mod streamed;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use format::listing::{Content, EntryKind};
use recipe::{StoreReader, TreeRoot};
use tree::{Begun, FileWriter, Listed, Placed, RestoreOptions, Restorer, SkipReason, TreeError};

use crate::assemble::{AssembleOptions, assemble};
use crate::batch::{BATCH_BYTES, Finishers, Tally};
use crate::counters::RestoreCounters;
use crate::error::RestoreError;
use crate::listing::BackupListing;
use crate::message::AssembleStats;
use crate::recipe_prefetch::references_by;
use crate::send::Sink;
use links::WaitingLinks;
use streamed::{Placing, Streamed};

/// The least number of threads that create small files.
const FINISHERS_MIN: usize = 2;

/// An entry that was not restored as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The target refused, or an entry of the listing cannot be placed.
    #[error(transparent)]
    Tree(TreeError),
    /// The file's bytes are lost. It was removed.
    #[error("{}: not restored: {error}", String::from_utf8_lossy(path))]
    Lost {
        /// Its path in the backup.
        path: Vec<u8>,
        /// The cause.
        error: Arc<RestoreError>,
    },
    /// A restored file does not hold the backup's bytes.
    #[error(
        "{}: differs from the backup from byte {offset} on: the target does not hold what was written to it; look at its disk, then restore the file again",
        String::from_utf8_lossy(path)
    )]
    Unlike {
        /// Its path in the backup.
        path: Vec<u8>,
        /// The first byte that differs.
        offset: u64,
    },
}

impl Fault {
    /// The entry that the target lacks for this fault, or has with other content. `None`: only its
    /// metadata is concerned.
    #[must_use]
    pub fn unrestored(&self) -> Option<&[u8]> {
        match self {
            Self::Tree(fault) => fault.path().filter(|_| fault.is_of_entry()),
            Self::Lost { path, .. } | Self::Unlike { path, .. } => Some(path),
        }
    }
}

/// Counts of a tree's restore.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Files restored.
    pub files: u64,
    /// Other entries restored.
    pub others: u64,
    /// Files left as they were, as the overwrite mode says.
    pub kept: u64,
    /// Bytes of content written to files.
    pub bytes: u64,
    /// Requested files whose content is that of an earlier backup ([`Content::Older`]).
    pub older: u64,
    /// The cost of the assembly.
    pub assemble: AssembleStats,
}

/// The source of a restore.
#[derive(Debug, Clone, Copy)]
pub struct TreeSource<'a> {
    /// Reads the store.
    pub reader: &'a dyn StoreReader,
    /// The content stream.
    pub content: &'a TreeRoot,
    /// The listing.
    pub listing: &'a BackupListing<'a>,
}

/// Restores a tree under `target`.
///
/// # Errors
/// If nothing further can be restored: the listing or a recipe is damaged, the target folder cannot
/// be created or has no room left, or the user asked to stop. Faults of single entries are passed
/// to `faults`.
pub fn restore_tree(
    source: TreeSource<'_>,
    target: &Path,
    options: RestoreOptions,
    assembling: AssembleOptions,
    counters: &RestoreCounters,
    cancel: &AtomicBool,
    faults: &mut (dyn FnMut(Fault) + Send),
) -> Result<TreeStats, RestoreError> {
    let (streamed, ranges, placing) = Streamed::of(source, target, &options)?;
    let total = ranges.iter().map(|range| range.len).sum();
    counters.bytes_total.store(total, Ordering::Relaxed);
    let restorer = Restorer::new(target, options)?;
    let tally = Tally::default();
    thread::scope(|scope| {
        let threads = assembling.finishers.max(FINISHERS_MIN);
        let small = Finishers::start(scope, threads, &tally, counters)?;
        let mut sink = TreeSink {
            placing,
            listed: 0,
            after_lead: None,
            streamed,
            restorer,
            small,
            current: Current::None,
            links: WaitingLinks::default(),
            stats: TreeStats::default(),
            counters,
            cancel,
            faults,
            full: None,
        };
        let refs = references_by(
            scope,
            assembling.prefetch_threads,
            source.reader,
            source.content,
            &ranges,
        );
        let printer = recipe::NodeSource::fingerprinter(source.reader);
        sink.stats.assemble = assemble(source.reader, printer, refs, assembling, &mut sink)?;
        sink.place_rest()?;
        sink.restore_links(source)?;
        sink.small.wait()?;
        sink.pass_on_faults();
        sink.ensure_room()?;
        let TreeSink {
            restorer,
            mut stats,
            faults,
            ..
        } = sink;
        stats.files += tally.files.load(Ordering::Relaxed);
        stats.kept += tally.kept.load(Ordering::Relaxed);
        stats.bytes += tally.bytes.load(Ordering::Relaxed);
        restorer
            .finish()
            .into_iter()
            .for_each(|fault| faults(Fault::Tree(fault)));
        Ok(stats)
    })
}

/// The file that the next bytes of content belong to.
enum Current {
    None,
    /// The last file of the open batch.
    Small {
        left: u64,
    },
    Large {
        writer: Box<FileWriter>,
        offset: u64,
        left: u64,
    },
    /// The bytes are not needed: a filter leaves the file out, or the file has failed.
    Unwanted {
        left: u64,
    },
}

impl Current {
    fn left(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Small { left } | Self::Large { left, .. } | Self::Unwanted { left } => *left,
        }
    }
}

/// The next bytes of a file.
#[derive(Clone, Copy)]
enum Given<'a> {
    Bytes(&'a [u8]),
    Zeros(u64),
}

struct TreeSink<'a> {
    placing: Placing<'a>,
    /// How many entries were returned so far.
    listed: u64,
    /// The entry that follows once the bytes before its own, which belong to no entry, were
    /// skipped.
    after_lead: Option<Listed>,
    /// Whose bytes are streamed.
    streamed: Streamed,
    restorer: Restorer,
    small: Finishers,
    current: Current,
    links: WaitingLinks,
    stats: TreeStats,
    counters: &'a RestoreCounters,
    cancel: &'a AtomicBool,
    faults: &'a mut (dyn FnMut(Fault) + Send),
    /// The first fault for lack of room. All later files would have the same one.
    full: Option<TreeError>,
}

impl TreeSink<'_> {
    /// Reports a fault, or stores it if it ends the restore.
    fn tell(&mut self, fault: Fault) {
        match fault {
            Fault::Tree(fault) if fault.is_no_room() => {
                self.full.get_or_insert(fault);
            }
            fault => (self.faults)(fault),
        }
    }

    fn ensure_room(&mut self) -> Result<(), RestoreError> {
        match self.full.take() {
            Some(fault) => Err(RestoreError::Full {
                files: self.counters.files.load(Ordering::Relaxed),
                fault,
            }),
            None => Ok(()),
        }
    }

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
        self.ensure_room()?;
        let listed = match self.after_lead.take() {
            Some(listed) => listed,
            None => {
                let Some(listed) = self.placing.next_entry()? else {
                    return Ok(false);
                };
                let lead = self.streamed.lead_of(&listed.entry);
                if lead > 0 {
                    self.current = Current::Unwanted { left: lead };
                    self.after_lead = Some(listed);
                    return Ok(true);
                }
                listed
            }
        };
        // The file is requested, but it exists and stays.
        let is_kept = self.streamed.is_left_out(self.listed);
        let len = self.streamed.bytes_of(self.listed, &listed.entry);
        self.listed += 1;
        let is_older = !is_kept && matches!(listed.entry.state.content, Content::Older { .. });
        if let EntryKind::HardLink { target } = &listed.entry.kind {
            self.small.wait_for(target)?;
        }
        let begun = self.restorer.begin(&listed.entry);
        if is_older && matches!(begun, Ok(Begun::File(_))) {
            self.stats.older += 1;
        }
        let placed = match begun {
            Ok(Begun::File(file)) if is_kept => {
                self.small.keep(file)?;
                return self.placed().map(|()| true);
            }
            Ok(Begun::File(file)) if len != listed.entry.file_len() => {
                drop(file);
                return Err(RestoreError::Internal("a file is wanted and its bytes are not"));
            }
            Ok(Begun::File(file)) => match usize::try_from(len) {
                Ok(bytes) if bytes <= BATCH_BYTES => {
                    self.small.begin(file, bytes)?;
                    self.current = Current::Small { left: len };
                    return self.placed().map(|()| true);
                }
                _ => file.open(),
            },
            Ok(Begun::Placed(placed)) => Ok(placed),
            Err(fault) => Err(fault),
        };
        match placed {
            Ok(Placed::File(writer)) => {
                self.current = Current::Large {
                    writer: Box::new(writer),
                    offset: 0,
                    left: len,
                };
            }
            Ok(Placed::Done | Placed::Folder) => self.stats.others += 1,
            // Its bytes arrive nevertheless, if more is streamed than was requested.
            Ok(Placed::Skipped(SkipReason::NotIncluded)) => self.current = Current::Unwanted { left: len },
            Ok(Placed::Skipped(_)) => {
                self.stats.kept += 1;
                self.current = Current::Unwanted { left: len };
            }
            Ok(Placed::MissingLinkTarget { target, link }) => {
                self.links.entry(target).or_default().push(link);
            }
            Err(fault) => {
                self.tell(Fault::Tree(fault));
                self.current = Current::Unwanted { left: len };
            }
        }
        self.placed().map(|()| true)
    }

    fn placed(&mut self) -> Result<(), RestoreError> {
        self.complete_if_full()?;
        self.pass_on_faults();
        Ok(())
    }

    /// Reports the faults of small files and of metadata since the last call.
    fn pass_on_faults(&mut self) {
        let faults: Vec<TreeError> = self.small.faults().chain(self.restorer.take_faults()).collect();
        for fault in faults {
            self.tell(Fault::Tree(fault));
        }
    }

    fn complete_if_full(&mut self) -> Result<(), RestoreError> {
        if self.current.left() > 0 {
            return Ok(());
        }
        if let Current::Large { writer, .. } = std::mem::replace(&mut self.current, Current::None) {
            let len = writer.len();
            match writer.finish() {
                Ok(None) => {
                    self.stats.bytes += len;
                    self.count_file();
                }
                Ok(Some(_)) => self.stats.kept += 1,
                Err(fault) => self.tell(Fault::Tree(fault)),
            }
        }
        Ok(())
    }

    /// Counts a file that was restored with all its bytes.
    fn count_file(&mut self) {
        self.stats.files += 1;
        self.counters.files.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives the current file its next bytes. They must be within the file.
    fn give(&mut self, given: Given<'_>) -> Result<(), RestoreError> {
        let len = match given {
            Given::Bytes(bytes) => bytes.len() as u64,
            Given::Zeros(len) => len,
        };
        self.counters.bytes.fetch_add(len, Ordering::Relaxed);
        match &mut self.current {
            Current::None => return Err(RestoreError::Internal("content without a file")),
            Current::Unwanted { left } => *left -= len,
            Current::Small { left } => {
                match given {
                    Given::Bytes(bytes) => self.small.bytes(bytes),
                    Given::Zeros(len) => self.small.zeros(len),
                }
                *left -= len;
            }
            Current::Large { writer, offset, left } => {
                let written = match given {
                    Given::Bytes(bytes) => writer.write_at(*offset, bytes),
                    Given::Zeros(len) => writer.skip_zeros(*offset, len),
                };
                *offset += len;
                *left -= len;
                let left = *left;
                if let Err(fault) = written {
                    self.tell(Fault::Tree(fault));
                    self.abandon(left);
                    self.ensure_room()?;
                }
            }
        }
        self.complete_if_full()
    }

    /// Gives up the current file. Returns its path, unless it was given up before.
    fn abandon(&mut self, left: u64) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.current, Current::Unwanted { left }) {
            Current::Small { .. } => self.small.abandon(),
            Current::Large { writer, .. } => Some(writer.entry().path.clone()),
            Current::None | Current::Unwanted { .. } => None,
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
}

impl Sink for TreeSink<'_> {
    fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), RestoreError> {
        while !bytes.is_empty() {
            self.advance()?;
            let here = bytes
                .len()
                .min(usize::try_from(self.current.left()).unwrap_or(usize::MAX));
            let (now, later) = bytes.split_at(here);
            self.give(Given::Bytes(now))?;
            bytes = later;
        }
        Ok(())
    }

    fn zeros(&mut self, mut len: u64) -> Result<(), RestoreError> {
        while len > 0 {
            self.advance()?;
            let here = len.min(self.current.left());
            self.give(Given::Zeros(here))?;
            len -= here;
        }
        Ok(())
    }

    fn lost(&mut self, mut len: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError> {
        while len > 0 {
            self.advance()?;
            let here = len.min(self.current.left());
            if let Some(path) = self.abandon(self.current.left()) {
                self.tell(Fault::Lost {
                    path,
                    error: Arc::clone(error),
                });
            }
            // The rest of the file is skipped as it arrives.
            self.give(Given::Zeros(here))?;
            len -= here;
        }
        Ok(())
    }
}
