//! The reader's stage for directory trees: content, listing and fences, fed side by side.
//!
//! A file unchanged since the parent backup is a range of the parent's content, copied by reference:
//! nothing is read (B3). Everything else is read as it is; what cannot be read is reported and left out,
//! and the rest of the backup stands.

use std::sync::Arc;

use format::listing::{EntryKind, ListingEntry};
use recipe::{StreamBytes, TreeRoot};
use tree::{
    Comparison, ListingReader, ListingWriter, LostLinks, Piece, TreeError, Trust, Unchanged, Walk, WalkEntry,
    WalkOptions, open_file,
};

use crate::counters::Counter;
use crate::door::Door;
use crate::error::Halt;
use crate::feeder::Feeder;
use crate::piece::{CopyRange, StreamIndex};
use crate::sound::Soundness;

/// Positions of a directory backup's streams in its manifest.
pub(crate) const CONTENT: StreamIndex = StreamIndex(0);
pub(crate) const LISTING: StreamIndex = StreamIndex(1);
pub(crate) const FENCES: StreamIndex = StreamIndex(2);

/// Listing bytes are handed on in pieces of about this size.
const LISTING_PIECE_BYTES: usize = 64 << 10;

/// The backup that unchanged files are taken from.
#[derive(Debug, Clone)]
pub struct ParentTree {
    /// Its content.
    pub content: TreeRoot,
    /// Its listing.
    pub listing: TreeRoot,
    /// What of its metadata is believed.
    pub trust: Trust,
}

/// Where faults of single entries go.
pub type Faults<'a> = dyn FnMut(&TreeError) + Send + 'a;

/// Feeds a whole tree.
pub(crate) fn feed(
    feeder: &mut Feeder<'_>,
    walk: WalkOptions,
    door: &Door,
    parent: Option<&ParentTree>,
    faults: &mut Faults<'_>,
) -> Result<(), Halt> {
    let unchanged = match parent {
        None => None,
        Some(parent) => match StreamBytes::new(door.nodes(), &parent.listing, 0, parent.listing.len) {
            Ok(bytes) => {
                let content = Arc::new(parent.content);
                Some(Previous {
                    files: Unchanged::new(ListingReader::new(bytes), parent.trust),
                    sound: Soundness::new(door, parent.content),
                    content,
                })
            }
            Err(error) => return Err(crate::error::IngestError::from(error).into()),
        },
    };
    let mut source = Source {
        feeder,
        unchanged,
        writer: ListingWriter::new(),
        lost: LostLinks::default(),
        listing: Vec::with_capacity(2 * LISTING_PIECE_BYTES),
        fences: Vec::new(),
        faults,
    };
    for item in Walk::new(walk) {
        match item {
            Ok(entry) => source.entry(entry)?,
            Err(fault) => source.fault(&fault),
        }
    }
    source.finish()
}

/// The previous backup, followed along the walk.
struct Previous<'a> {
    files: Unchanged<StreamBytes<'a>>,
    sound: Soundness<'a>,
    content: Arc<TreeRoot>,
}

impl Previous<'_> {
    /// A file that has not changed, but whose stored bytes are known to be bad, must be read again.
    fn compare(&mut self, found: &WalkEntry) -> Comparison {
        match self.files.compare(found) {
            Comparison::Unchanged { content, .. } if !self.sound.is_sound(content) => Comparison::Changed,
            other => other,
        }
    }
}

struct Source<'a, 'f, 'c> {
    feeder: &'a mut Feeder<'c>,
    unchanged: Option<Previous<'a>>,
    writer: ListingWriter,
    lost: LostLinks,
    listing: Vec<u8>,
    fences: Vec<u8>,
    faults: &'f mut Faults<'f>,
}

impl Source<'_, '_, '_> {
    fn entry(&mut self, mut found: WalkEntry) -> Result<(), Halt> {
        let counters = self.feeder.counters();
        self.lost.mend(&mut found);
        if let Err(error) = found.entry.check() {
            if matches!(found.entry.kind, EntryKind::File { .. }) {
                self.lost.lost(&found);
            }
            let path = found.entry.path.clone();
            self.fault(&TreeError::Unlistable {
                path,
                why: error.to_string(),
            });
            return Ok(());
        }
        let comparison = self.unchanged.as_mut().map(|previous| previous.compare(&found));
        if let Some(fault) = self
            .unchanged
            .as_mut()
            .and_then(|previous| previous.files.take_fault())
        {
            self.fault(&fault);
        }
        match found.entry.kind {
            EntryKind::File { .. } => {}
            EntryKind::Folder => {
                counters.folders.add(1);
                return self.list(&found.entry);
            }
            _ => {
                counters.others.add(1);
                return self.list(&found.entry);
            }
        }
        counters.set_current(&found.entry.path);
        match comparison {
            Some(Comparison::Unchanged { content, holes }) => {
                counters.files_unchanged.add(1);
                counters.bytes_logical.add(content.len);
                if let Some(previous) = &self.unchanged {
                    let range = CopyRange {
                        root: Arc::clone(&previous.content),
                        offset: content.offset,
                        len: content.len,
                    };
                    self.feeder.copy(CONTENT, range)?;
                }
                found.entry.kind = EntryKind::File {
                    len: content.len,
                    holes,
                };
                counters.files.add(1);
                self.list(&found.entry)
            }
            Some(Comparison::Changed) => self.read(&found, &counters.files_changed),
            Some(Comparison::New) | None => self.read(&found, &counters.files_new),
        }
    }

    /// Reads a file, and counts it as `what` unless it cannot be opened.
    fn read(&mut self, found: &WalkEntry, what: &Counter) -> Result<(), Halt> {
        let counters = self.feeder.counters();
        let mut reader = match open_file(found) {
            Ok(reader) => reader,
            Err(fault) => {
                self.fault(&fault);
                self.lost.lost(found);
                return Ok(());
            }
        };
        loop {
            match reader.next(self.feeder.spare(CONTENT)?) {
                Ok(Piece::Data(len)) => {
                    self.feeder.advance(CONTENT, len);
                    counters.bytes_logical.add(len as u64);
                }
                Ok(Piece::Hole(len)) => {
                    self.feeder.zeros(CONTENT, len)?;
                    counters.bytes_logical.add(len);
                }
                Ok(Piece::End) => break,
                Err(fault) => {
                    // What was read so far is stored, and the entry says how much that is.
                    self.fault(&fault);
                    break;
                }
            }
        }
        self.feeder.cut(CONTENT)?;
        let read = reader.finish();
        if let Some(changed) = &read.changed {
            self.fault(changed);
        }
        what.add(1);
        counters.files.add(1);
        self.list(&read.entry)
    }

    fn list(&mut self, entry: &ListingEntry) -> Result<(), Halt> {
        if let Err(fault) = self.writer.push(entry, &mut self.listing, &mut self.fences) {
            self.fault(&fault);
            // The content is in the stream already: the entry must stand, if need be as a file without
            // its map of holes, whose zeros are in the content anyway.
            if let EntryKind::File { len, .. } = entry.kind {
                let plain = ListingEntry {
                    kind: EntryKind::File {
                        len,
                        holes: Vec::new(),
                    },
                    xattrs: Vec::new(),
                    ..entry.clone()
                };
                let pushed = self.writer.push(&plain, &mut self.listing, &mut self.fences);
                if let Err(error) = pushed {
                    return Err(crate::error::IngestError::from(error).into());
                }
            }
        }
        if self.listing.len() >= LISTING_PIECE_BYTES {
            self.hand_on()
        } else {
            Ok(())
        }
    }

    fn hand_on(&mut self) -> Result<(), Halt> {
        self.feeder.bytes(LISTING, &self.listing)?;
        self.listing.clear();
        self.feeder.bytes(FENCES, &self.fences)?;
        self.fences.clear();
        Ok(())
    }

    fn fault(&mut self, fault: &TreeError) {
        self.feeder.counters().files_failed.add(1);
        (self.faults)(fault);
    }

    fn finish(mut self) -> Result<(), Halt> {
        self.hand_on()?;
        self.feeder.end(CONTENT)?;
        self.feeder.end(LISTING)?;
        self.feeder.end(FENCES)
    }
}
