//! The reader's stage for directory trees: feeds content, listing and fences side by side.
//!
//! A file unchanged since the parent backup is a range of the parent's content, copied by
//! reference: nothing is read (B3). All other files are read, small ones ahead of their turn
//! ([`crate::client::read_ahead`]). An entry that cannot be read is reported, and keeps the version
//! of the previous backup ([`crate::client::unchanged_entries`]). The rest of the backup is not
//! affected.

use std::io;
use std::sync::Arc;
use std::thread;

use format::listing::{Content as Stored, EntryKind, EntryState, ListingEntry};
use recipe::{RecipeError, StreamBytes, TreeRoot};
use tree::{
    Listed, ListingReader, ListingWriter, LostLinks, Piece, ReadFile, TreeError, Unchanged, WalkEntry,
    WalkOptions, open_file,
};
use types::ByteRange;

use crate::backup_session::BackupSession;
use crate::client::content::Content;
use crate::client::parent_check::ParentCheck;
use crate::client::piece::CopyRange;
use crate::client::read_ahead::{Ahead, Group, Item, Previous, Read, check};
use crate::client::sections;
use crate::client::source_input::SourceInput;
use crate::client::unchanged_entries::{UnchangedEntries, Version};
use crate::client::unread::Unread;
use crate::counters::FileFate;
use crate::error::Halt;
use crate::parent::{CONTENT, FENCES, LISTING, ParentTree};

/// Listing bytes are handed on in pieces of about this size.
const LISTING_PIECE_BYTES: usize = 64 << 10;

/// Receives faults of single entries.
pub type Faults<'a> = dyn FnMut(&TreeError) + Send + 'a;

/// Feeds a whole tree.
pub(crate) fn feed(
    input: &mut SourceInput<'_>,
    walk: WalkOptions,
    session: &dyn BackupSession,
    parent: Option<&ParentTree>,
    faults: &mut Faults<'_>,
) -> Result<(), Halt> {
    let previous = match parent {
        None => None,
        Some(parent) => match listing_of(session, parent) {
            Ok(bytes) => Some(Previous {
                files: Unchanged::new(ListingReader::new(bytes), parent.trust),
                sound: ParentCheck::new(session, parent.content),
                unread: Unread::new(walk.excludes.clone()),
                reads_all: parent.reads_all,
            }),
            // A backup that reads all files does not need the previous backup.
            Err(_) if parent.reads_all => None,
            Err(error) => return Err(crate::error::IngestError::from(error).into()),
        },
    };
    let mut source = Source {
        previous: parent.map(|parent| Arc::new(parent.content)),
        kept: parent.map(|parent| UnchangedEntries::new(session, parent)),
        session,
        input,
        writer: ListingWriter::new(),
        lost: LostLinks::default(),
        listing: Vec::with_capacity(2 * LISTING_PIECE_BYTES),
        fences: Vec::new(),
        faults,
    };
    thread::scope(|scope| {
        let around = source.input.around();
        let mut ahead = Ahead::start(scope, walk, previous, source.input.pool(), around)?;
        while let Some(group) = ahead.next()? {
            source.take(group)?;
        }
        source.finish()
    })
}

/// The parent's listing: as this machine has kept it, or from the store.
fn listing_of<'a>(
    session: &'a dyn BackupSession,
    parent: &ParentTree,
) -> Result<Box<dyn io::Read + Send + 'a>, RecipeError> {
    let listing = &parent.listing;
    if let Some(kept) = session.kept_listing(listing) {
        return Ok(kept);
    }
    Ok(Box::new(StreamBytes::new(
        session.reader(),
        listing,
        0,
        listing.len,
    )?))
}

struct Source<'f, 'c, 'd> {
    session: &'d dyn BackupSession,
    input: &'d mut SourceInput<'c>,
    previous: Option<Arc<TreeRoot>>,
    kept: Option<UnchangedEntries<'d>>,
    writer: ListingWriter,
    lost: LostLinks,
    listing: Vec<u8>,
    fences: Vec<u8>,
    faults: &'f mut Faults<'f>,
}

impl Source<'_, '_, '_> {
    fn take(&mut self, mut group: Group) -> Result<(), Halt> {
        let mut content = Content::of(&mut group);
        if let Some(Item::File { found, .. } | Item::Unchanged(found, _)) = group
            .items
            .iter()
            .find(|item| matches!(item, Item::File { .. } | Item::Unchanged(..)))
        {
            self.input.counters().set_current(&found.entry.path);
        }
        for item in group.items {
            match item {
                Item::Fault(fault) => self.fault(&fault),
                Item::Unlistable(found, fault) => self.unlistable(&found, &fault),
                Item::Other(found, before) => self.other(found, before)?,
                Item::Unchanged(found, range) => self.unchanged(&found, range, &mut content)?,
                Item::File { found, before, read } => self.file(&found, before, read, &mut content)?,
                Item::Unread(before) => self.unread(&before, &mut content)?,
            }
        }
        content.finish(self.input)
    }

    fn unlistable(&mut self, found: &WalkEntry, fault: &TreeError) {
        if !matches!(found.entry.kind, EntryKind::HardLink { .. } | EntryKind::Folder) {
            self.lost.lost(found);
        }
        self.fault(fault);
    }

    fn other(&mut self, mut found: WalkEntry, before: Option<Box<Listed>>) -> Result<(), Halt> {
        if matches!(found.entry.kind, EntryKind::HardLink { .. }) {
            self.lost.mend(&mut found);
            if let Err(fault) = check(&found) {
                self.unlistable(&found, &fault);
                return Ok(());
            }
        }
        let counters = self.input.counters();
        match found.entry.kind {
            // A link whose first name was lost.
            EntryKind::File { .. } => return self.read(&found, before),
            // The first name is new, and only a part of the file is stored. But this name has an
            // earlier version.
            EntryKind::HardLink { .. } if matches!(found.entry.state.content, Stored::Partial { .. }) => {
                if let Some(version) = self.good_version(before) {
                    self.lost.instead(&found);
                    return self.older(&found, version, 0, &mut Content::of_nobody());
                }
                counters.others.add(1);
            }
            EntryKind::Folder => counters.folders.add(1),
            _ => counters.others.add(1),
        }
        self.list(&found.entry)
    }

    fn unchanged(&mut self, found: &WalkEntry, range: ByteRange, content: &mut Content) -> Result<(), Halt> {
        let counters = self.input.counters();
        counters.files_unchanged.add(1);
        counters.files.add(1);
        counters.tell(FileFate::Unchanged, &found.entry);
        if let Some(root) = &self.previous {
            let range = CopyRange {
                root: Arc::clone(root),
                offset: range.offset,
                len: range.len,
            };
            content.copy(self.input, range)?;
        }
        self.list(&found.entry)
    }

    /// Keeps an entry of the previous backup, because the walk could not look whether it still
    /// exists.
    fn unread(&mut self, before: &Listed, content: &mut Content) -> Result<(), Halt> {
        let Some((entry, bytes)) = self.kept.as_mut().and_then(|kept| kept.stays(before)) else {
            return Ok(());
        };
        let counters = self.input.counters();
        match entry.kind {
            EntryKind::File { .. } => {
                counters.files.add(1);
                counters.files_kept.add(1);
                counters.tell(FileFate::Kept, &entry);
            }
            EntryKind::Folder => counters.folders.add(1),
            _ => counters.others.add(1),
        }
        if let Some(bytes) = bytes {
            content.copy(self.input, bytes)?;
        }
        self.list(&entry)
    }

    fn file(
        &mut self,
        found: &WalkEntry,
        before: Option<Box<Listed>>,
        read: Read,
        content: &mut Content,
    ) -> Result<(), Halt> {
        match read {
            Read::Pending | Read::Late => self.read(found, before),
            Read::Failed(fault) => self.not_opened(found, before, &fault, content),
            Read::Whole { len, attributes } => {
                content.data(self.input, len)?;
                content.cut(self.input)?;
                attributes.iter().for_each(|fault| self.fault(fault));
                self.count(before.is_none(), &found.entry);
                self.list(&found.entry)
            }
            Read::Pieces { pieces, read, fault } => {
                for piece in pieces {
                    match piece {
                        Piece::Data(len) => content.data(self.input, len)?,
                        Piece::Hole(len) => content.zeros(self.input, len)?,
                        Piece::End => {}
                    }
                }
                content.cut(self.input)?;
                match fault {
                    None => self.was_read(found, &read, before.is_none()),
                    Some(fault) => self.broke_off(found, before, *read, &fault, content),
                }
            }
        }
    }

    /// Reads a file, and counts it unless it cannot be opened.
    fn read(&mut self, found: &WalkEntry, before: Option<Box<Listed>>) -> Result<(), Halt> {
        let counters = self.input.counters();
        counters.set_current(&found.entry.path);
        let mut reader = match open_file(found) {
            Ok(reader) => reader,
            Err(fault) => return self.not_opened(found, before, &fault, &mut Content::of_nobody()),
        };
        sections::feed(self.input, CONTENT, &mut reader)?;
        let fault = loop {
            match reader.next(self.input.spare(CONTENT)?) {
                Ok(Piece::Data(len)) => {
                    self.input.advance(CONTENT, len);
                    counters.bytes_logical.add(len as u64);
                }
                Ok(Piece::Hole(len)) => {
                    self.input.zeros(CONTENT, len)?;
                    counters.bytes_logical.add(len);
                }
                Ok(Piece::End) => break None,
                Err(fault) => break Some(fault),
            }
        };
        self.input.cut(CONTENT)?;
        let read = reader.finish();
        match fault {
            None => self.was_read(found, &read, before.is_none()),
            Some(fault) => self.broke_off(found, before, read, &fault, &mut Content::of_nobody()),
        }
    }

    fn was_read(&mut self, found: &WalkEntry, read: &ReadFile, is_new: bool) -> Result<(), Halt> {
        for fault in read.attributes.iter().chain(&read.changed) {
            self.fault(fault);
        }
        self.lost.stored(found, read.entry.state.content);
        self.count(is_new, &read.entry);
        self.list(&read.entry)
    }

    fn count(&self, is_new: bool, file: &ListingEntry) {
        let counters = self.input.counters();
        counters.files.add(1);
        if is_new {
            counters.files_new.add(1);
            counters.tell(FileFate::New, file);
        } else {
            counters.files_changed.add(1);
            counters.tell(FileFate::Changed, file);
        }
    }

    /// Handles a file that could not be opened: keeps the earlier version, or leaves the file out
    /// if there is none.
    fn not_opened(
        &mut self,
        found: &WalkEntry,
        before: Option<Box<Listed>>,
        fault: &TreeError,
        content: &mut Content,
    ) -> Result<(), Halt> {
        self.fault(fault);
        // An entry that has vanished, or is no file any more, no longer exists.
        let is_there = matches!(fault, TreeError::System { .. });
        match self.version(before.filter(|_| is_there)) {
            Some(version) => self.older(found, version, 0, content),
            None => {
                self.lost.lost(found);
                Ok(())
            }
        }
    }

    /// Handles a file that could not be read to its end, and whose first bytes are in the stream.
    /// Keeps the earlier version. If there is none, the entry records that this is a part.
    fn broke_off(
        &mut self,
        found: &WalkEntry,
        before: Option<Box<Listed>>,
        read: ReadFile,
        fault: &TreeError,
        content: &mut Content,
    ) -> Result<(), Halt> {
        self.fault(fault);
        let mut entry = read.entry;
        let lead = entry.file_len();
        if let Some(version) = self.good_version(before) {
            return self.older(found, version, lead, content);
        }
        entry.state.content = Stored::Partial {
            of: read.len.unwrap_or(0),
        };
        self.lost.stored(found, entry.state.content);
        self.input.counters().files.add(1);
        self.list(&entry)
    }

    fn version(&mut self, before: Option<Box<Listed>>) -> Option<Version> {
        let before = before?;
        self.kept.as_mut()?.version(&before)
    }

    /// Like [`Self::version`], but without a version that is only a part itself.
    fn good_version(&mut self, before: Option<Box<Listed>>) -> Option<Version> {
        let is_good = |version: &Version| matches!(version.entry.state.content, Stored::Older { .. });
        self.version(before).filter(is_good)
    }

    /// Stores the previous backup's version of a file, after so many bytes that belong to no entry.
    fn older(
        &mut self,
        found: &WalkEntry,
        version: Version,
        lead: u64,
        content: &mut Content,
    ) -> Result<(), Halt> {
        let Version {
            mut entry,
            content: bytes,
        } = version;
        if let Stored::Older { lead: its } = &mut entry.state.content {
            *its = lead;
        }
        self.lost.stored(found, entry.state.content);
        let counters = self.input.counters();
        counters.files.add(1);
        counters.files_kept.add(1);
        counters.tell(FileFate::Kept, &entry);
        content.copy(self.input, bytes)?;
        self.list(&entry)
    }

    fn list(&mut self, entry: &ListingEntry) -> Result<(), Halt> {
        if let Err(fault) = self.writer.push(entry, &mut self.listing, &mut self.fences) {
            self.fault(&fault);
            // The content is in the stream already, so the entry must be stored: if needed, as a
            // file without its map of holes, whose zeros are in the content anyway.
            if let EntryKind::File { len, .. } = entry.kind {
                let plain = ListingEntry {
                    kind: EntryKind::File {
                        len,
                        holes: Vec::new(),
                    },
                    xattrs: Vec::new(),
                    state: EntryState {
                        lacks_attributes: true,
                        ..entry.state
                    },
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
        self.session.keep_listing(&self.listing);
        self.input.bytes(LISTING, &self.listing)?;
        self.listing.clear();
        self.input.bytes(FENCES, &self.fences)?;
        self.fences.clear();
        Ok(())
    }

    fn fault(&mut self, fault: &TreeError) {
        self.input.counters().files_failed.add(1);
        (self.faults)(fault);
    }

    fn finish(mut self) -> Result<(), Halt> {
        std::mem::take(&mut self.writer).finish(&mut self.fences);
        self.hand_on()?;
        self.input.end(CONTENT)?;
        self.input.end(LISTING)?;
        self.input.end(FENCES)
    }
}
