//! Copies streams across fingerprint domains: reads them, and stores them as a backup does.
//!
//! The destination cuts and fingerprints in its own way, so it needs bytes. It gets those of an
//! earlier backup by reference (B3): where the recipes of the source show that a range equals one
//! of the source's previous backup, and the destination has a copy of that, nothing is read. A
//! copied range begins and ends where chunks of the earlier copy do, so that its ends become no
//! small chunks.

use std::sync::Arc;

use chunking::Fixed;
use format::listing::EntryKind;
use ingest::dedup::StreamIndex;
use ingest::{Client, IngestError, Sent, StreamFeed};
use recipe::{Child, Place};
use recipe::{
    Gaps, Piece, RangeWalker, RecipeError, SEGMENT_LEVEL, StoreReader, TreeRoot, child_nodes, open_node,
};
use restore::{AssembleOptions, BackupListing, Entries, RestoreError, Sink, Wanted, read_ranges};
use types::ByteRange;

use super::fault::{CopyFault, LostRange, is_of_whole_source};
use crate::error::Error;
use crate::monitor::Monitor;

/// Shorter equal ranges are read: a copied one costs nodes of both stores.
const COPIED_BYTES_MIN: u64 = 64 << 10;
/// Fixed chunks have a multiple of so many bytes.
const BLOCK_BYTES: u64 = 512;

/// An earlier backup of the series that the destination has a copy of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Earlier {
    /// A stream of it in the source.
    pub(super) source: TreeRoot,
    /// The copy of that in the destination.
    pub(super) copy: TreeRoot,
}

/// A stream to copy.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopiedStream {
    pub(super) root: TreeRoot,
    /// It is cut into chunks of this length.
    pub(super) fixed_chunk_bytes: Option<u32>,
    pub(super) earlier: Option<Earlier>,
}

/// A part of a stream.
#[derive(Debug, Clone, Copy)]
enum Part {
    Read(ByteRange),
    /// A range of the earlier copy.
    Copy(ByteRange),
}

/// A copy of streams that runs.
#[derive(Clone, Copy)]
pub(super) struct Reread<'a> {
    /// Reads the source.
    pub(super) from: &'a dyn StoreReader,
    /// The destination's session, and the pipeline's options.
    pub(super) client: Client<'a>,
    pub(super) streams: &'a [CopiedStream],
    /// The listing, if the first stream is the content of its files.
    pub(super) listing: Option<&'a BackupListing<'a>>,
    pub(super) assembling: AssembleOptions,
    pub(super) monitor: &'a Monitor,
}

impl Reread<'_> {
    /// Sends all streams.
    ///
    /// # Errors
    /// Of either store. The next copy takes over what was stored.
    pub(super) fn run(self) -> Result<Sent, CopyFault> {
        let fixed: Vec<Option<u32>> = self.streams.iter().map(|one| one.fixed_chunk_bytes).collect();
        let mut fault = None;
        let sent = ingest::backup_fed(self.client, &fixed, |feed| {
            for number in 0..self.streams.len() {
                if let Err(error) = self.feed(number, feed) {
                    let CopyFault::Other(error) = error else {
                        fault = Some(error);
                        return Err(IngestError::Interrupted);
                    };
                    return Err(match error {
                        Error::Ingest(error) => error,
                        other => {
                            fault = Some(CopyFault::Other(other));
                            IngestError::Interrupted
                        }
                    });
                }
            }
            Ok(())
        });
        match fault {
            Some(fault) => Err(fault),
            None => Ok(sent?),
        }
    }

    fn feed(&self, number: usize, feed: &mut StreamFeed<'_, '_>) -> Result<(), CopyFault> {
        let CopiedStream { root, earlier, .. } = self.streams[number];
        let stream =
            StreamIndex(u16::try_from(number).map_err(|_| IngestError::TooLarge("so many streams"))?);
        let parts = match &earlier {
            Some(earlier) => self.parts(&root, earlier)?,
            None => vec![Part::Read(whole(&root))],
        };
        let read = |part: &Part| match part {
            Part::Read(range) => Some(*range),
            Part::Copy(_) => None,
        };
        let ranges: Vec<ByteRange> = parts
            .iter()
            .filter_map(read)
            .filter(|range| range.len > 0)
            .collect();
        let mut sink = FeedSink {
            feed,
            number,
            stream,
            copy_root: earlier.map(|earlier| Arc::new(earlier.copy)),
            parts: parts.into_iter(),
            at: 0,
            left: 0,
            cuts: Cuts::of(self.listing.filter(|_| number == 0)),
            monitor: self.monitor,
            fault: None,
        };
        let fed = sink.next_parts().and_then(|()| {
            if ranges.is_empty() {
                return Ok(());
            }
            read_ranges(self.from, &root, &ranges, &mut sink, self.assembling).map(drop)
        });
        if let Some(fault) = sink.fault.take() {
            return Err(fault);
        }
        fed.map_err(CopyFault::of_source)?;
        Ok(feed.end(stream)?)
    }

    /// The parts of the stream, in order.
    fn parts(&self, root: &TreeRoot, earlier: &Earlier) -> Result<Vec<Part>, CopyFault> {
        let mut parts = Vec::new();
        let (mut before, mut after) = (0, 0);
        for gap in Gaps::new(self.from, &earlier.source, root) {
            let gap = match gap.map_err(Error::from) {
                Ok(gap) => gap,
                Err(error) if is_of_whole_source(&error) => return Err(CopyFault::of_source(error)),
                // Nodes of either backup cannot be read. If they are of the earlier one alone,
                // this one is whole.
                Err(_) => {
                    let (offset, len) = (after, root.len.saturating_sub(after));
                    parts.push(Part::Read(ByteRange { offset, len }));
                    return Ok(parts);
                }
            };
            self.equal(&mut parts, earlier, before, after, gap.after.offset - after)?;
            parts.push(Part::Read(gap.after));
            (before, after) = (gap.before.end(), gap.after.end());
            self.ensure_wanted()?;
        }
        self.equal(&mut parts, earlier, before, after, root.len - after)?;
        Ok(parts)
    }

    fn ensure_wanted(&self) -> Result<(), CopyFault> {
        if self.monitor.is_cancelled() {
            return Err(IngestError::Interrupted.into());
        }
        Ok(())
    }

    /// Adds the parts of a range that equals one of the earlier backup.
    fn equal(
        &self,
        parts: &mut Vec<Part>,
        earlier: &Earlier,
        before: u64,
        after: u64,
        len: u64,
    ) -> Result<(), CopyFault> {
        let mut done = 0;
        if len >= COPIED_BYTES_MIN {
            let offset = before;
            for range in self.sound(&earlier.copy, ByteRange { offset, len })? {
                let aligned = self.aligned(&earlier.copy, range);
                // Data of the copy cannot be read: the source has it.
                let Ok(aligned) = aligned else { continue };
                if aligned.len < COPIED_BYTES_MIN {
                    continue;
                }
                let skipped = aligned.offset - before - done;
                parts.push(Part::Read(ByteRange {
                    offset: after + done,
                    len: skipped,
                }));
                parts.push(Part::Copy(aligned));
                done += skipped + aligned.len;
            }
        }
        parts.push(Part::Read(ByteRange {
            offset: after + done,
            len: len - done,
        }));
        Ok(())
    }

    /// The parts of a range of the earlier copy to which a backup may refer.
    fn sound(&self, copy: &TreeRoot, range: ByteRange) -> Result<Vec<ByteRange>, CopyFault> {
        let mut sound = Vec::new();
        let mut at = range.offset;
        for bad in self.client.session.unsound(copy, range)? {
            let len = bad.offset.saturating_sub(at);
            sound.push(ByteRange { offset: at, len });
            at = at.max(bad.end());
        }
        let len = range.end().saturating_sub(at);
        sound.push(ByteRange { offset: at, len });
        sound.retain(|range| range.len > 0);
        Ok(sound)
    }

    /// The longest part of the range that begins and ends where chunks of the earlier copy do.
    fn aligned(&self, copy: &TreeRoot, range: ByteRange) -> Result<ByteRange, RecipeError> {
        let reader = self.client.session.reader();
        let (mut begin, mut end) = (range.offset, range.end());
        if let Some(Piece::PartOfChunk { skip, len, .. }) =
            RangeWalker::new(reader, copy, begin, range.len)?.next(false)?
            && skip > 0
        {
            begin += len;
        }
        if let Some(Piece::PartOfChunk { child, skip, .. }) =
            RangeWalker::new(reader, copy, end - 1, 1)?.next(false)?
            && skip + 1 < child.logical_len
        {
            end -= skip + 1;
        }
        Ok(ByteRange {
            offset: begin,
            len: end.saturating_sub(begin),
        })
    }
}

fn whole(root: &TreeRoot) -> ByteRange {
    ByteRange {
        offset: 0,
        len: root.len,
    }
}

/// The length of the chunks of a stream that was cut into fixed ones. Decides by its first segment.
pub(super) fn fixed_chunk_bytes(
    reader: &dyn StoreReader,
    root: &TreeRoot,
) -> Result<Option<u32>, RecipeError> {
    let mut first = *root;
    while first.level != SEGMENT_LEVEL {
        match child_nodes(reader, &first)?.first() {
            Some(child) => first = *child,
            None => return Ok(None),
        }
    }
    let children = open_node(reader, &first)?;
    let chunk = |child: &&Child| matches!(child.place, Place::At(_));
    let mut lens = children.iter().filter(chunk).map(|child| child.logical_len);
    let (Some(len), Some(_)) = (lens.next(), lens.next()) else {
        return Ok(None);
    };
    let last = children.len() - 1;
    let fits = |(number, child): (usize, &Child)| match child.place {
        Place::At(_) if number == last => child.logical_len <= len,
        Place::Zeros if number == last => true,
        Place::At(_) => child.logical_len == len,
        Place::Zeros => child.logical_len.is_multiple_of(len),
    };
    let is_fixed = len.is_multiple_of(BLOCK_BYTES) && children.iter().enumerate().all(fits);
    // Two chunks of a small stream may look so by chance.
    let can_be = |len: &u32| is_fixed && Fixed::new(*len).is_ok();
    Ok(u32::try_from(len).ok().filter(can_be))
}

/// Where files end in the content stream: chunks end there too.
struct Cuts<'a> {
    entries: Option<Entries<'a>>,
    next: u64,
    /// The end of the file that begins at `next`, or 0.
    end: u64,
}

impl<'a> Cuts<'a> {
    fn of(listing: Option<&'a BackupListing<'a>>) -> Self {
        // A listing that cannot be read ends the copy when its own turn comes.
        let entries = listing.and_then(|listing| listing.entries(Wanted::all()).ok());
        Self {
            entries,
            next: 0,
            end: 0,
        }
    }

    /// The first one behind this offset.
    fn after(&mut self, at: u64) -> u64 {
        while self.next <= at {
            if self.end > self.next {
                self.next = self.end;
                continue;
            }
            match self.entries.as_mut().map(Entries::next_entry) {
                Some(Ok(Some(listed))) => {
                    if let EntryKind::File { len, .. } = listed.entry.kind {
                        self.next = listed.content_offset;
                        self.end = listed.content_offset.saturating_add(len);
                    }
                }
                _ => self.next = u64::MAX,
            }
        }
        self.next
    }
}

/// Passes the bytes of a stream on to the pipeline, and the copied ranges between them.
struct FeedSink<'a, 'b, 'c> {
    feed: &'a mut StreamFeed<'b, 'c>,
    number: usize,
    stream: StreamIndex,
    copy_root: Option<Arc<TreeRoot>>,
    parts: std::vec::IntoIter<Part>,
    /// The offset in the stream.
    at: u64,
    /// Bytes that are missing of the part that is read.
    left: u64,
    cuts: Cuts<'a>,
    monitor: &'a Monitor,
    /// The reason, if this ended the reading.
    fault: Option<CopyFault>,
}

impl FeedSink<'_, '_, '_> {
    /// Takes parts up to the next one that is read.
    fn next_parts(&mut self) -> Result<(), RestoreError> {
        while self.left == 0 {
            match self.parts.next() {
                None => return Ok(()),
                Some(Part::Read(range)) => self.left = range.len,
                Some(Part::Copy(range)) => {
                    self.at += range.len;
                    let root = self.copy_root.clone();
                    let copied = match &root {
                        Some(root) => self.feed.copy(self.stream, root, range),
                        None => Err(IngestError::Internal("a range of no earlier backup")),
                    };
                    self.checked(copied)?;
                }
            }
        }
        Ok(())
    }

    fn checked(&mut self, result: Result<(), IngestError>) -> Result<(), RestoreError> {
        result.map_err(|error| {
            self.fault = Some(error.into());
            RestoreError::Interrupted
        })
    }

    fn passed(&mut self, len: u64) -> Result<(), RestoreError> {
        self.at += len;
        self.left = self.left.saturating_sub(len);
        if self.monitor.is_cancelled() {
            return self.checked(Err(IngestError::Interrupted));
        }
        self.next_parts()
    }
}

impl Sink for FeedSink<'_, '_, '_> {
    fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), RestoreError> {
        while !bytes.is_empty() {
            let cut = self.cuts.after(self.at);
            let most = self.left.min(cut - self.at);
            let len = usize::try_from(most).map_or(bytes.len(), |most| most.min(bytes.len()));
            if len == 0 {
                return self.checked(Err(IngestError::Internal("bytes behind the end of a stream")));
            }
            let (now, later) = bytes.split_at(len);
            bytes = later;
            let mut fed = self.feed.bytes(self.stream, now);
            if self.at + len as u64 == cut {
                fed = fed.and_then(|()| self.feed.cut(self.stream));
            }
            self.checked(fed)?;
            self.passed(len as u64)?;
        }
        Ok(())
    }

    fn zeros(&mut self, mut len: u64) -> Result<(), RestoreError> {
        while len > 0 {
            let part = len.min(self.left);
            if part == 0 {
                return self.checked(Err(IngestError::Internal("zeros behind the end of a stream")));
            }
            len -= part;
            let fed = self.feed.zeros(self.stream, part);
            self.checked(fed)?;
            self.passed(part)?;
        }
        Ok(())
    }

    fn lost(&mut self, len: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError> {
        let offset = self.at;
        self.fault = Some(CopyFault::Source {
            error: RestoreError::LostPart {
                len,
                error: Arc::clone(error),
            }
            .into(),
            lost: vec![LostRange::new(self.number, ByteRange { offset, len })],
        });
        Err(RestoreError::Interrupted)
    }
}
