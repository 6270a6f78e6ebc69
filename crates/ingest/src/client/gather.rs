//! The gatherer's stage: the chunks that the store wants, in regions.
//!
//! One thread. It holds the bytes of offered segments until their verdict comes, adds wanted chunks
//! to the open region of their lane, and sends full regions. Workers compress them. It sends some
//! regions together: a session over a network waits for the first one while workers compress the
//! others, and has fewer messages.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use container::{Compression, PendingEntry};
use crossbeam_channel::TryRecvError;

use crate::backup_session::{BackupSession, Distance};
use crate::buffer::InBuffer;
use crate::client::segment::Offered;
use crate::client::ungathered::{Closing, Ungathered, counted};
use crate::dedup::{Bytes, Lane, NewChunk, SegmentChild, StreamIndex};
use crate::error::{Failure, Halt, IngestError, caught};
use crate::message::{Offer, Verdict, Wanted};
use crate::region::RegionBuilder;
use crate::workers::Workers;

/// How often the stage checks whether the backup was given up.
const POLL: Duration = Duration::from_millis(20);

/// So many regions are sent together, unless the verdicts end before.
const TOGETHER: usize = 6;

/// The stage's state.
pub(crate) struct GatherStage<'a> {
    pub(crate) session: &'a dyn BackupSession,
    pub(crate) offered: crossbeam_channel::Receiver<Offered>,
    pub(crate) ungathered: &'a Ungathered,
    /// For each stream, the segments without a verdict yet.
    pub(crate) waiting: Vec<VecDeque<Vec<SegmentChild<InBuffer>>>>,
    pub(crate) regions: [RegionBuilder; Lane::COUNT],
    /// Regions that were not sent yet.
    pub(crate) full: Vec<Offer>,
    pub(crate) compression: Compression,
    /// The level while the network slows the backup.
    pub(crate) slow_line_level: Option<i32>,
    pub(crate) workers: Workers,
    pub(crate) is_broken: &'a AtomicBool,
    pub(crate) failure: &'a Failure,
}

impl GatherStage<'_> {
    pub(crate) fn run(mut self) -> Result<(), Halt> {
        let ungathered = self.ungathered;
        // Closed before the drain, which waits for the segment stage.
        let closing = Closing(ungathered);
        let gathered = caught(|| self.gather());
        drop(closing);
        if gathered.is_err() {
            self.failure.note(gathered);
            self.drain();
            return Err(Halt::Closed);
        }
        Ok(())
    }

    /// Takes verdicts until the segment stage has ended. Otherwise that stage could wait for ever,
    /// because the store waits until its verdicts are taken.
    fn drain(&self) {
        while self.session.verdicts(POLL).is_ok() {
            while self.offered.try_recv().is_ok() {}
            if matches!(self.offered.try_recv(), Err(TryRecvError::Disconnected)) {
                return;
            }
        }
    }

    fn gather(&mut self) -> Result<(), Halt> {
        loop {
            let verdicts = self.session.verdicts(POLL)?;
            // Chunks read before the backup was given up are still stored, and the next backup
            // takes them over.
            if verdicts.is_empty() && self.is_broken.load(Ordering::Acquire) {
                return Err(Halt::Closed);
            }
            for verdict in verdicts {
                match verdict {
                    Verdict::Segment { stream, wanted } => self.take(stream, &wanted)?,
                    Verdict::Waits(stream) => self.ungathered.excuse(stream),
                    Verdict::Unknown(_) => {
                        return Err(IngestError::Internal("a question about a segment with chunks").into());
                    }
                    Verdict::Flush(lane) => {
                        for each in [Lane::Content, Lane::Metadata] {
                            if lane.is_none_or(|lane| lane == each) {
                                self.close(each)?;
                            }
                        }
                        // The store keeps all that follows until these have come.
                        self.send()?;
                    }
                    Verdict::Done => return self.send(),
                }
            }
            // The store may need them for its next verdicts.
            self.send()?;
        }
    }

    fn take(&mut self, stream: StreamIndex, wanted: &[Wanted]) -> Result<(), Halt> {
        let at = usize::from(stream.0);
        while self.waiting.get(at).is_some_and(VecDeque::is_empty) {
            let Offered { stream, children } = self.offered.recv().map_err(|_| Halt::Closed)?;
            self.waiting[usize::from(stream.0)].push_back(children);
        }
        let children = self.waiting.get_mut(at).and_then(VecDeque::pop_front);
        let children = children.ok_or(IngestError::Internal("a verdict of no stream"))?;
        let count = counted(children.len());
        // A chunk's bytes are given back once they are gathered, or not wanted.
        let mut children = (0..).zip(children);
        for Wanted {
            child: wanted, new, ..
        } in wanted
        {
            let mut held = 0;
            let found = children.find(|(number, child)| {
                held += child.held_bytes();
                number == wanted
            });
            let Some((_, child)) = found else {
                return Err(IngestError::Internal("the store wants chunks out of order").into());
            };
            self.gather_chunk(child, *new)?;
            self.ungathered.remove(stream, (held, 0));
        }
        let unwanted = children.map(|(_, child)| child.held_bytes());
        self.ungathered.remove(stream, (unwanted.sum(), count));
        Ok(())
    }

    fn gather_chunk(&mut self, chunk: SegmentChild<InBuffer>, new: NewChunk) -> Result<(), Halt> {
        let Bytes::Read(bytes) = chunk.bytes else {
            return Err(IngestError::Internal("the store wants a chunk that nobody read").into());
        };
        let len = u32::try_from(chunk.len).expect("a chunk is at most some MiB");
        let lane = new.lane.number();
        if !self.regions[lane].is_followed_by(new) {
            self.close(new.lane)?;
        }
        let entry = PendingEntry::chunk(chunk.fingerprint, len);
        self.regions[lane].push(new, entry, &bytes.buffer, bytes.offset as usize);
        if self.regions[lane].is_full() {
            self.close(new.lane)?;
        }
        Ok(())
    }

    fn close(&mut self, lane: Lane) -> Result<(), Halt> {
        let compression = match (self.session.distance(), self.slow_line_level) {
            (Distance::Far { is_slow: true }, Some(level)) => self.compression.at_least(level),
            _ => self.compression,
        };
        let region = &mut self.regions[lane.number()];
        region.compress_by(compression);
        if let Some(region) = region.close(&self.workers)? {
            self.full.push(Offer::Region(region));
        }
        if self.full.len() >= TOGETHER {
            self.send()
        } else {
            Ok(())
        }
    }

    fn send(&mut self) -> Result<(), Halt> {
        if !self.full.is_empty() {
            self.session.submit(std::mem::take(&mut self.full))?;
        }
        Ok(())
    }
}
