//! Copies streams within a fingerprint domain: references, and the chunks that the destination
//! lacks.
//!
//! Both stores cut and fingerprint alike. So the segments of the source are offered as they are, by
//! their fingerprints, and the destination says which chunks it wants. Only these are read. The
//! copy has the same nodes, and in stores with the same settings the same roots.
//!
//! Two threads: one reads nodes and offers segments, the caller's takes verdicts, reads the wanted
//! chunks, and sends them. What the source cannot give ends the copy: the other chunks that were
//! wanted with it are read first, to know all that is lost of them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ingest::dedup::{Lane, NewChunk, StreamIndex};
use ingest::{
    BackupSession, Client, IngestError, Offer, OfferedChild, OfferedPlace, OfferedSegment, ReadRegions,
};
use ingest::{Sent, Verdict, Wanted};
use recipe::{Child, Place, RangeWalker, StoreReader, TreeRoot, open_node};
use restore::{AssembleOptions, RestoreError};
use types::ByteRange;

use super::chunks::{WantedChunk, read_chunks};
use super::fault::{CopyFault, LostRange};
use super::outstanding::{Next, Outstanding, Waiting};
use crate::monitor::Monitor;

/// How often the caller's thread checks whether the copy was given up.
const POLL: Duration = Duration::from_millis(20);
/// So many wanted bytes are read together, unless the store waits for them.
const TOGETHER_BYTES: u64 = 32 << 20;
/// So many regions are sent together.
const TOGETHER_REGIONS: usize = 6;

/// A copy of streams that runs.
#[derive(Clone, Copy)]
pub(super) struct Relay<'a> {
    /// Reads the source.
    pub(super) from: &'a dyn StoreReader,
    /// The destination's session, and the pipeline's options.
    pub(super) client: Client<'a>,
    /// The streams in the source, in order.
    pub(super) roots: &'a [TreeRoot],
    pub(super) assembling: AssembleOptions,
    pub(super) monitor: &'a Monitor,
}

impl Relay<'_> {
    /// Sends all streams.
    ///
    /// # Errors
    /// Of either store. The next copy takes over what was stored.
    pub(super) fn run(self) -> Result<Sent, CopyFault> {
        let outstanding = Outstanding::new(self.roots.len());
        let regions = ReadRegions::new(self.client)?;
        let stage = Arc::clone(regions.stage());
        thread::scope(|scope| {
            let offers = thread::Builder::new().name("offer".to_owned());
            let offering = offers.spawn_scoped(scope, || {
                let ended = self.offer_all(&outstanding);
                if ended.is_err() {
                    outstanding.end();
                }
                ended
            });
            let offering = offering.map_err(IngestError::NoThread)?;
            let mut gathering = Gathering {
                relay: self,
                outstanding: &outstanding,
                regions,
                batch: Vec::new(),
                numbers: Vec::new(),
                batch_bytes: 0,
            };
            let gathered = gathering.run(&|| offering.is_finished());
            outstanding.end();
            if gathered.is_err() {
                // The store waits until its verdicts are taken, and the offering thread for it.
                while !offering.is_finished() && self.client.session.verdicts(POLL).is_ok() {}
            }
            let offered = offering.join();
            let offered = offered.unwrap_or_else(|_| Err(internal("a thread of the copy panicked").into()));
            // The first cause: a gatherer ends with the other thread, too.
            offered.and(gathered)
        })?;
        Ok(Sent {
            queues: Vec::new(),
            stages: vec![stage],
        })
    }

    fn session(&self) -> &dyn BackupSession {
        self.client.session
    }

    fn offer_all(&self, outstanding: &Outstanding) -> Result<(), CopyFault> {
        for (number, root) in self.roots.iter().enumerate() {
            let stream = stream_index(number)?;
            let walker = RangeWalker::new(self.from, root, 0, root.len);
            let mut walker = walker.map_err(CopyFault::of_source)?;
            loop {
                match outstanding.next(true) {
                    Next::End => return Ok(()),
                    Next::Look => self.ensure_wanted()?,
                    Next::Answer(number, segment, offset) => {
                        self.answer(outstanding, number, &segment, offset)?;
                    }
                    Next::Offer => {
                        let at = walker.offset();
                        let next = walker.next_segment();
                        let next = next.map_err(|error| CopyFault::lost(number, at..root.len, error))?;
                        let Some((segment, offset)) = next else { break };
                        let offer = if outstanding.is_probably_known(number, self.session()) {
                            outstanding.push(number, segment, offset, None);
                            Offer::Brief {
                                stream,
                                fingerprint: segment.fingerprint,
                                len: segment.len,
                            }
                        } else {
                            let children = self.open(number, &segment, offset)?;
                            let offered = OfferedSegment {
                                fingerprint: segment.fingerprint,
                                len: segment.len,
                                children: offered(&children),
                            };
                            outstanding.push(number, segment, offset, Some(children));
                            Offer::Segment {
                                stream,
                                segment: offered,
                            }
                        };
                        self.session().submit(vec![offer])?;
                    }
                }
            }
            self.session().submit(vec![Offer::End(stream)])?;
        }
        loop {
            match outstanding.next(false) {
                Next::End => return Ok(()),
                Next::Answer(number, segment, offset) => {
                    self.answer(outstanding, number, &segment, offset)?;
                }
                Next::Look | Next::Offer => self.ensure_wanted()?,
            }
        }
    }

    /// Sends the chunks of a segment that the store does not know whole.
    fn answer(
        &self,
        outstanding: &Outstanding,
        number: usize,
        segment: &TreeRoot,
        offset: u64,
    ) -> Result<(), CopyFault> {
        let children = self.open(number, segment, offset)?;
        let stream = stream_index(number)?;
        let offer = Offer::Children {
            stream,
            children: offered(&children),
        };
        outstanding.answered(number, children);
        Ok(self.session().submit(vec![offer])?)
    }

    fn open(&self, number: usize, segment: &TreeRoot, offset: u64) -> Result<Vec<Child>, CopyFault> {
        let end = offset.saturating_add(segment.len);
        open_node(self.from, segment).map_err(|error| CopyFault::lost(number, offset..end, error))
    }

    fn ensure_wanted(&self) -> Result<(), CopyFault> {
        if self.monitor.is_cancelled() {
            return Err(IngestError::Interrupted.into());
        }
        Ok(())
    }
}

fn stream_index(number: usize) -> Result<StreamIndex, IngestError> {
    let number = u16::try_from(number).map_err(|_| IngestError::TooLarge("so many streams"))?;
    Ok(StreamIndex(number))
}

fn internal(what: &'static str) -> IngestError {
    IngestError::Internal(what)
}

fn offered(children: &[Child]) -> Vec<OfferedChild> {
    let child = |child: &Child| OfferedChild {
        fingerprint: child.fingerprint,
        len: child.logical_len,
        place: match child.place {
            Place::At(_) => OfferedPlace::Client,
            Place::Zeros => OfferedPlace::Zeros,
        },
    };
    children.iter().map(child).collect()
}

/// The thread that takes verdicts.
struct Gathering<'a> {
    relay: Relay<'a>,
    outstanding: &'a Outstanding,
    regions: ReadRegions<'a>,
    /// The wanted chunks that were not read yet, ...
    batch: Vec<WantedChunk>,
    /// ... the number of each, its stream and its offset there.
    numbers: Vec<(NewChunk, usize, u64)>,
    batch_bytes: u64,
}

impl Gathering<'_> {
    fn run(&mut self, is_offered: &dyn Fn() -> bool) -> Result<(), CopyFault> {
        loop {
            let verdicts = self.relay.session().verdicts(POLL)?;
            self.relay.ensure_wanted()?;
            if verdicts.is_empty() {
                if is_offered() {
                    // It ends before the last verdict only if it failed.
                    return Err(IngestError::StoreEnded.into());
                }
                self.read()?;
            }
            for verdict in verdicts {
                match verdict {
                    Verdict::Segment { stream, wanted } => self.take(usize::from(stream.0), &wanted)?,
                    Verdict::Waits(stream) => self.outstanding.waits(usize::from(stream.0)),
                    Verdict::Unknown(stream) => {
                        if !self.outstanding.asks(usize::from(stream.0)) {
                            return Err(internal("a question about a segment with chunks").into());
                        }
                    }
                    Verdict::Flush(lane) => {
                        self.read()?;
                        for each in [Lane::Content, Lane::Metadata] {
                            if lane.is_none_or(|lane| lane == each) {
                                self.regions.close(each)?;
                            }
                        }
                        self.send()?;
                    }
                    Verdict::Done => {
                        self.read()?;
                        return self.send();
                    }
                }
                if self.batch_bytes >= TOGETHER_BYTES {
                    self.read()?;
                }
            }
        }
    }

    fn take(&mut self, stream: usize, wanted: &[Wanted]) -> Result<(), CopyFault> {
        let taken = self.outstanding.take(stream, wanted.is_empty());
        let Waiting {
            segment,
            offset,
            children,
            ..
        } = taken.ok_or(internal("a verdict of no segment"))?;
        self.relay.monitor.counters.bytes_logical.add(segment.len);
        if wanted.is_empty() {
            return Ok(());
        }
        let children = match children {
            Some(children) => children,
            // It knows the segment, and stores some of its chunks again.
            None => self.relay.open(stream, &segment, offset)?,
        };
        let (mut at, mut numbered) = (offset, (0_u32..).zip(&children));
        for one in wanted {
            let found = numbered.find(|(number, child)| {
                at += child.logical_len;
                *number == one.child
            });
            let Some((_, child)) = found else {
                return Err(internal("the store wants chunks out of order").into());
            };
            let Place::At(location) = child.place else {
                return Err(internal("the store wants zeros").into());
            };
            self.batch.push(WantedChunk {
                location,
                fingerprint: child.fingerprint,
                len: child.logical_len,
            });
            self.numbers.push((one.new, stream, at - child.logical_len));
            self.batch_bytes += child.logical_len;
        }
        Ok(())
    }

    /// Reads the wanted chunks, and sends full regions.
    fn read(&mut self) -> Result<(), CopyFault> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let (batch, numbers) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.numbers));
        self.batch_bytes = 0;
        let Relay {
            from,
            client,
            assembling,
            monitor,
            ..
        } = self.relay;
        let regions = &mut self.regions;
        let mut refused: Option<IngestError> = None;
        let mut lost: Vec<LostRange> = Vec::new();
        let mut why: Option<Arc<RestoreError>> = None;
        let read = read_chunks(from, &batch, assembling, &mut |number, bytes| {
            let (new, stream, offset) = numbers[number];
            let bytes = match bytes {
                Ok(bytes) => bytes,
                Err(error) => {
                    why.get_or_insert_with(|| Arc::clone(error));
                    let len = batch[number].len;
                    lost.push(LostRange::new(stream, ByteRange { offset, len }));
                    return Ok(());
                }
            };
            if !lost.is_empty() {
                return Ok(());
            }
            monitor.counters.bytes_read.add(bytes.len() as u64);
            let mut send = || {
                regions.push(new, batch[number].fingerprint, bytes)?;
                if regions.len() >= TOGETHER_REGIONS {
                    client.session.submit(regions.take())?;
                }
                if monitor.is_cancelled() {
                    return Err(IngestError::Interrupted);
                }
                Ok(())
            };
            send().map_err(|error| {
                refused = Some(error);
                RestoreError::Interrupted
            })
        });
        if let Some(error) = refused {
            return Err(error.into());
        }
        read.map_err(CopyFault::of_source)?;
        match why {
            Some(error) => Err(CopyFault::Source {
                error: RestoreError::LostPart {
                    len: lost.iter().map(|one| one.range.len).sum(),
                    error,
                }
                .into(),
                lost,
            }),
            None => Ok(()),
        }
    }

    fn send(&mut self) -> Result<(), CopyFault> {
        let regions = self.regions.take();
        if regions.is_empty() {
            return Ok(());
        }
        Ok(self.relay.session().submit(regions)?)
    }
}
