//! Reads ahead of a directory backup, on threads of its own: the walk, the comparison with the
//! previous backup, and the content of small files.
//!
//! The walk has threads of its own ([`crate::client::parallel_walk`]). The feeding thread compares
//! entries with the previous backup and gathers them into groups, in listing order. Reading threads
//! open and read the small files of whole groups. Each reads the files of a group one after another
//! into one buffer of the pipeline, which is passed on without a copy. No file needs a message of
//! its own, and on a cold disk as many files are read at once as there are readers (B10).
//!
//! Invariant: groups come back in listing order, so that what is stored does not depend on which
//! reader was faster (G10). Entries and buffers ahead are bounded ([`GROUPS_WAITING`], INV-7), and
//! no file stays open between threads. Faults are values within the groups. When the feeding thread
//! stops, the others end with their next step.

use std::collections::VecDeque;
use std::io;
use std::thread::{self, Scope};

use crossbeam_channel::{Receiver, Sender};
use env::Clock;
use format::listing::EntryKind;
use tree::{
    Comparison, Listed, Piece, ReadFile, SmallRead, TreeError, Unchanged, WalkEntry, WalkOptions, read_small,
};
use types::ByteRange;

use crate::buffer::{Buffer, BufferPool};
use crate::client::parallel_walk::{Next, ParallelWalk};
use crate::client::parent_check::ParentCheck;
use crate::client::source_input::Around;
use crate::client::unread::Unread;
use crate::error::IngestError;
use crate::stage::received;

/// The most groups that wait to be taken, besides those that are read.
const GROUPS_WAITING: usize = 2;
/// The most entries in a group.
const GROUP_ENTRIES: usize = 512;

/// The previous backup, followed along the walk.
pub(crate) struct Previous<'a> {
    pub(crate) files: Unchanged<Box<dyn io::Read + Send + 'a>>,
    pub(crate) sound: ParentCheck<'a>,
    /// Entries that could not be read now, and stay as they were.
    pub(crate) unread: Unread,
    /// Whether every file is read, whatever it looks like.
    pub(crate) reads_all: bool,
}

impl Previous<'_> {
    /// A file that has not changed, but whose stored bytes are known to be bad, must be read again.
    fn compare(&mut self, found: &WalkEntry) -> Comparison {
        match self.files.compare(found) {
            Comparison::Unchanged(before) if self.reads_all || !self.sound.is_sound(content_of(&before)) => {
                Comparison::Changed(before)
            }
            other => other,
        }
    }

    /// The fault that ended the listing. It does not matter if every file is read and no entry has
    /// to stay.
    fn take_fault(&mut self) -> Option<TreeError> {
        let fault = self.files.take_fault();
        fault.filter(|_| !self.reads_all || !self.unread.is_empty())
    }

    /// The next entry before this path, or before the end, that the walk did not meet and that may
    /// still exist.
    fn next_unread(&mut self, before: Option<&[u8]>) -> Option<Listed> {
        if self.unread.is_empty() {
            return None;
        }
        while let Some(listed) = self.files.next_passed(before) {
            if self.unread.has(&listed.entry.path) {
                return Some(listed);
            }
        }
        None
    }
}

/// Whether the format can hold an entry.
pub(crate) fn check(found: &WalkEntry) -> Result<(), TreeError> {
    found.entry.check().map_err(|error| TreeError::Unlistable {
        path: found.entry.path.clone(),
        why: error.to_string(),
    })
}

/// A file's bytes in the previous backup's content.
fn content_of(before: &Listed) -> ByteRange {
    ByteRange {
        offset: before.content_offset,
        len: before.entry.file_len(),
    }
}

/// An entry or fault of the walk, in listing order.
#[derive(Debug)]
pub(crate) enum Item {
    /// Anything but a regular file. For a hard link: with the previous entry of this path.
    Other(WalkEntry, Option<Box<Listed>>),
    /// An unchanged regular file: its bytes in the previous backup's content.
    Unchanged(WalkEntry, ByteRange),
    /// A regular file to store, and the previous entry of this path.
    File {
        found: WalkEntry,
        before: Option<Box<Listed>>,
        read: Read,
    },
    /// An entry of the previous backup that may still exist, because the walk could not look for
    /// it.
    Unread(Box<Listed>),
    /// The format cannot hold it.
    Unlistable(WalkEntry, TreeError),
    /// A fault that concerns no entry, or a missing one.
    Fault(TreeError),
}

/// How far the reading of a file is.
#[derive(Debug)]
pub(crate) enum Read {
    /// A reader will do it.
    Pending,
    /// It is too long, or has become so. The thread that takes it reads it.
    Late,
    /// The next bytes of the buffer, so many. The entry is the file's.
    Whole {
        len: usize,
        attributes: Option<TreeError>,
    },
    /// Like [`Self::Whole`], for a file that has holes, has changed, or failed half-way.
    Pieces {
        pieces: Vec<Piece>,
        read: Box<ReadFile>,
        fault: Option<TreeError>,
    },
    /// It could not be opened.
    Failed(TreeError),
}

/// Items that follow one another, and the bytes of those that were read.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) items: Vec<Item>,
    pub(crate) buffer: Option<Buffer>,
    bytes: u64,
    wants_reader: bool,
}

impl Group {
    /// Whether content of other entries may come between that of two of its files.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.items.iter().any(|item| match item {
            Item::File { read, .. } => matches!(read, Read::Late | Read::Pending),
            // If the first name of a file could not be read, the next one is read.
            Item::Other(found, _) => matches!(found.kind(), EntryKind::File { .. }),
            _ => false,
        })
    }

    /// Reads its small files.
    fn read(&mut self, pool: &BufferPool) {
        let mut buffer = pool.take();
        for item in &mut self.items {
            if let Item::File { found, read, .. } = item
                && matches!(read, Read::Pending)
            {
                *read = read_one(found, &mut buffer);
            }
        }
        self.buffer = Some(buffer);
    }
}

fn read_one(found: &mut WalkEntry, buffer: &mut Buffer) -> Read {
    let mut reader = match read_small(found, buffer.spare_mut()) {
        Ok(SmallRead::Whole { len, attributes }) => {
            buffer.advance(len);
            return Read::Whole { len, attributes };
        }
        Ok(SmallRead::Other(reader)) => reader,
        Err(fault) => return Read::Failed(fault),
    };
    let is_too_long = usize::try_from(reader.len()).map_or(true, |len| len > buffer.spare_mut().len());
    if is_too_long || reader.is_of_unknown_length() {
        return Read::Late;
    }
    let (mut pieces, mut fault) = (Vec::new(), None);
    while !buffer.is_full() {
        match reader.next(buffer.spare_mut()) {
            Ok(Piece::End) => break,
            Ok(piece) => {
                if let Piece::Data(len) = piece {
                    buffer.advance(len);
                }
                pieces.push(piece);
            }
            Err(failed) => {
                // The bytes read so far are stored, and the entry records how many they are.
                fault = Some(failed);
                break;
            }
        }
    }
    Read::Pieces {
        pieces,
        read: Box::new(reader.finish()),
        fault,
    }
}

enum InFlight {
    Ready(Group),
    Reading(Receiver<Group>),
}

/// Groups, as they come.
pub(crate) struct Ahead<'a> {
    clock: &'a dyn Clock,
    /// The most groups that are read or wait to be taken.
    groups_max: usize,
    walked: ParallelWalk<'a>,
    previous: Option<Previous<'a>>,
    /// The last result of the walk. The previous backup may have entries before it.
    found: Option<Result<WalkEntry, TreeError>>,
    /// Whether the walk has come to its end.
    walk_ended: bool,
    /// The group being gathered; an entry that did not fit into the one before is its first.
    open: Group,
    jobs: Sender<(Group, Sender<Group>)>,
    in_flight: VecDeque<InFlight>,
    room: u64,
    ended: bool,
}

impl<'a> Ahead<'a> {
    /// Begins the walk and starts the readers.
    ///
    /// # Errors
    /// [`IngestError::NoThread`].
    pub(crate) fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        walk: WalkOptions,
        previous: Option<Previous<'a>>,
        pool: &BufferPool,
        around: Around<'env>,
    ) -> Result<Self, IngestError>
    where
        'env: 'a,
    {
        let Around {
            stages,
            clock,
            readers,
            ..
        } = around;
        let walked = ParallelWalk::start(scope, walk, around).map_err(IngestError::NoThread)?;
        let (jobs, queue) = crossbeam_channel::bounded::<(Group, Sender<Group>)>(readers + GROUPS_WAITING);
        for number in 0..readers {
            let (queue, pool) = (queue.clone(), pool.clone());
            let run = move || {
                while let Some((mut group, done)) = received(clock, &queue) {
                    group.read(&pool);
                    // Nobody waits for it when the backup has stopped.
                    drop(done.send(group));
                }
            };
            let run = move || stages.read.run(clock, run);
            thread::Builder::new()
                .name(format!("read-{number}"))
                .spawn_scoped(scope, run)
                .map_err(IngestError::NoThread)?;
        }
        Ok(Self {
            clock,
            groups_max: readers + GROUPS_WAITING,
            walked,
            previous,
            found: None,
            walk_ended: false,
            open: Group::default(),
            jobs,
            in_flight: VecDeque::new(),
            room: pool.capacity() as u64,
            ended: false,
        })
    }

    /// The next group; none at the end.
    ///
    /// # Errors
    /// [`IngestError::Internal`] when a thread died.
    pub(crate) fn next(&mut self) -> Result<Option<Group>, IngestError> {
        const DIED: IngestError = IngestError::Internal("a reading thread died");
        loop {
            while self.in_flight.len() < self.groups_max {
                let Some(group) = self.gather()? else { break };
                self.in_flight.push_back(if group.wants_reader {
                    let (done, reading) = crossbeam_channel::bounded(1);
                    self.jobs.send((group, done)).map_err(|_| DIED)?;
                    InFlight::Reading(reading)
                } else {
                    InFlight::Ready(group)
                });
            }
            match self.in_flight.pop_front() {
                Some(InFlight::Ready(group)) => return Ok(Some(group)),
                Some(InFlight::Reading(reading)) => {
                    return received(self.clock, &reading).map(Some).ok_or(DIED);
                }
                None if self.ended => return Ok(None),
                None => {}
            }
        }
    }

    /// The next complete group. `None`: at the end, or while the walk has no more yet and another
    /// task is possible meanwhile.
    fn gather(&mut self) -> Result<Option<Group>, IngestError> {
        while !self.ended {
            if self.found.is_none() && !self.walk_ended {
                match self.walked.next(self.in_flight.is_empty())? {
                    Next::Item(found) => self.found = Some(found),
                    Next::NotYet => return Ok(None),
                    Next::End => self.walk_ended = true,
                }
            }
            let Some(item) = self.next_item() else {
                self.ended = true;
                continue;
            };
            if let Some(fault) = self.previous.as_mut().and_then(Previous::take_fault) {
                self.open.items.push(Item::Fault(fault));
            }
            let bytes = match &item {
                Item::File {
                    found,
                    read: Read::Pending,
                    ..
                } => Some(found.len),
                _ => None,
            };
            let is_full =
                self.open.items.len() >= GROUP_ENTRIES || self.open.bytes + bytes.unwrap_or(0) > self.room;
            let complete = is_full.then(|| std::mem::take(&mut self.open));
            self.open.items.push(item);
            self.open.wants_reader |= bytes.is_some();
            self.open.bytes += bytes.unwrap_or(0);
            if complete.is_some() {
                return Ok(complete);
            }
        }
        let rest = std::mem::take(&mut self.open);
        Ok((!rest.items.is_empty()).then_some(rest))
    }

    /// The last result of the walk, or an item before it. `None`: at the end.
    fn next_item(&mut self) -> Option<Item> {
        let before = match &self.found {
            Some(Ok(found)) => Some(&found.entry.path[..]),
            // What comes before it comes before the next entry, too.
            Some(Err(_)) => Some(&[][..]),
            None => None,
        };
        let previous = self.previous.as_mut();
        if let Some(listed) = previous.and_then(|previous| previous.next_unread(before)) {
            return Some(Item::Unread(Box::new(listed)));
        }
        match self.found.take()? {
            Ok(found) => {
                if let Some(previous) = &mut self.previous {
                    previous.unread.walked(&found.entry.path);
                }
                let path = found.entry.path.clone();
                let item = self.judge(found);
                if let Some(previous) = &mut self.previous {
                    previous.files.pass(&path);
                }
                Some(item)
            }
            Err(fault) => {
                if let Some(previous) = &mut self.previous {
                    previous.unread.note(&fault);
                }
                Some(Item::Fault(fault))
            }
        }
    }

    /// Decides how to handle an entry.
    fn judge(&mut self, mut found: WalkEntry) -> Item {
        let is_link = matches!(found.entry.kind, EntryKind::HardLink { .. });
        // Where a link leads to is not known before its first name is stored.
        if !is_link && let Err(fault) = check(&found) {
            return Item::Unlistable(found, fault);
        }
        if !is_link && !matches!(found.entry.kind, EntryKind::File { .. }) {
            return Item::Other(found, None);
        }
        let before = match self.previous.as_mut().map(|previous| previous.compare(&found)) {
            Some(Comparison::Unchanged(before) | Comparison::Changed(before)) if is_link => {
                return Item::Other(found, Some(before));
            }
            _ if is_link => return Item::Other(found, None),
            Some(Comparison::Unchanged(before)) => {
                let content = content_of(&before);
                (found.entry.kind, found.entry.flags) = (before.entry.kind, before.entry.flags);
                if self
                    .previous
                    .as_ref()
                    .is_some_and(|previous| previous.files.trusts_attributes())
                {
                    found.entry.xattrs = before.entry.xattrs;
                } else if let Some(fault) = found.read_attributes() {
                    self.open.items.push(Item::Fault(fault));
                }
                return Item::Unchanged(found, content);
            }
            Some(Comparison::Changed(before)) => Some(before),
            Some(Comparison::New) | None => None,
        };
        let read = if found.len <= self.room {
            Read::Pending
        } else {
            Read::Late
        };
        Item::File { found, before, read }
    }
}
