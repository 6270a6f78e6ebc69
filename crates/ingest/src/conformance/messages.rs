//! Cases that send messages one by one, and check the answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crypto::Fingerprinter;

use format::manifest::{BackupTotals, StreamRole};

use super::player::{checked, noise};
use super::{Host, Made, Outcome};
use crate::backup::single_stream;
use crate::backup_session::{BackupSession, Committed, Stream};
use crate::dedup::{Bytes, Lane, Segment, SegmentChild, Segmenter, StreamIndex};
use crate::error::IngestError;
use crate::message::{Offer, OfferedChild, OfferedPlace, OfferedSegment, Verdict, Wanted};
use crate::stored_region::StoredRegion;

/// Every chunk has so many bytes.
const CHUNK_BYTES: usize = 1000;
/// A region has so many chunks.
const REGION_CHUNKS: usize = 5;
/// Children of a segment, on average.
const SEGMENT_CHILDREN: u32 = 16;
/// A store that says nothing for so long never will.
const SILENCE: Duration = Duration::from_secs(60);

type Child = SegmentChild<Vec<u8>>;

/// The segments of these bytes in fixed chunks.
fn segments(printer: &Fingerprinter, bytes: &[u8]) -> Vec<Segment<Vec<u8>>> {
    let mut segmenter = Segmenter::new(printer.clone(), SEGMENT_CHILDREN);
    let mut done = Vec::new();
    for chunk in bytes.chunks(CHUNK_BYTES) {
        let child = SegmentChild {
            fingerprint: printer.chunk(chunk),
            len: chunk.len() as u64,
            bytes: Bytes::Read(chunk.to_vec()),
        };
        segmenter.push(child, &mut done);
    }
    segmenter.finish(&mut done);
    done
}

fn offered(stream: StreamIndex, segment: &Segment<Vec<u8>>) -> Offer {
    let child = |child: &Child| OfferedChild {
        fingerprint: child.fingerprint,
        len: child.len,
        place: OfferedPlace::Client,
    };
    Offer::Segment {
        stream,
        segment: OfferedSegment {
            fingerprint: segment.fingerprint,
            len: segment.len,
            children: segment.children.iter().map(child).collect(),
        },
    }
}

/// In which order a client sends the regions that a flush asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    AsWanted,
    Reversed,
}

/// How far a client reads ahead of the verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// It offers all that it has.
    Ahead,
    /// It offers a stream's next segment when the last one has its verdict, or when it knows that
    /// the store waits for more of the stream.
    Patient,
}

/// What the gathering half tells the offering half of a stream.
#[derive(Debug, Clone, Copy)]
enum Heard {
    Verdict(StreamIndex),
    Waits(StreamIndex),
}

/// When a patient client may go on.
struct Patience<'a> {
    /// Ends the gatherer when the client gives up.
    given_up: &'a AtomicBool,
    heard: mpsc::Receiver<Heard>,
    /// Of each stream: segments without a verdict, and whether the store waits for more.
    streams: Vec<(usize, bool)>,
}

impl Patience<'_> {
    /// Waits until the next segment of the stream may be offered, or the gatherer has ended.
    fn wait(&mut self, stream: StreamIndex) {
        while matches!(self.streams[usize::from(stream.0)], (1.., false)) {
            match self.heard.recv_timeout(SILENCE) {
                Ok(Heard::Verdict(stream)) => {
                    let (open, waits) = &mut self.streams[usize::from(stream.0)];
                    *open = open.saturating_sub(1);
                    *waits = false;
                }
                Ok(Heard::Waits(stream)) => self.streams[usize::from(stream.0)].1 = true,
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.given_up.store(true, Ordering::Release);
                    panic!(
                        "neither a verdict nor `Waits` for the last segment of stream {}",
                        stream.0
                    )
                }
            }
        }
    }
}

/// The gathering half of a client, which checks the answers.
struct Gatherer<'a> {
    session: &'a dyn BackupSession,
    lanes: Vec<Lane>,
    waiting: Vec<VecDeque<Vec<Child>>>,
    next: [u64; Lane::COUNT],
    regions: [Vec<(u64, Vec<Vec<u8>>)>; Lane::COUNT],
    order: Order,
    heard: mpsc::Sender<Heard>,
    given_up: &'a AtomicBool,
}

impl Gatherer<'_> {
    /// Answers until the store is done. Returns how many verdicts came, by stream.
    fn run(mut self) -> Result<Vec<usize>, IngestError> {
        let mut counts = vec![0; self.waiting.len()];
        loop {
            if self.given_up.load(Ordering::Acquire) {
                return Ok(counts);
            }
            for verdict in self.session.verdicts(Duration::from_millis(50))? {
                match verdict {
                    Verdict::Segment { stream, wanted } => {
                        counts[usize::from(stream.0)] += 1;
                        self.take(stream, &wanted);
                        self.tell(Heard::Verdict(stream));
                    }
                    Verdict::Waits(stream) => self.tell(Heard::Waits(stream)),
                    Verdict::Unknown(_) => panic!("the store asks for chunks that it has"),
                    Verdict::Flush(lane) => {
                        for each in [Lane::Content, Lane::Metadata] {
                            if lane.is_none_or(|lane| lane == each) {
                                self.send(each)?;
                            }
                        }
                    }
                    Verdict::Done => {
                        assert!(
                            self.waiting.iter().all(VecDeque::is_empty),
                            "a segment without a verdict"
                        );
                        assert!(
                            self.regions.iter().all(Vec::is_empty),
                            "a stream's end asks for its regions"
                        );
                        return Ok(counts);
                    }
                }
            }
        }
    }

    fn tell(&self, heard: Heard) {
        // A client that fails listens no more.
        self.heard.send(heard).ok();
    }

    fn take(&mut self, stream: StreamIndex, wanted: &[Wanted]) {
        let at = usize::from(stream.0);
        let children = self.waiting[at]
            .pop_front()
            .expect("a verdict for each segment, no more");
        let mut last = None;
        for Wanted { child, new, .. } in wanted {
            assert!(
                last.is_none_or(|last| last < *child),
                "wanted chunks come in order, each once"
            );
            last = Some(*child);
            assert_eq!(new.lane, self.lanes[at], "a stream's new chunks go to its lane");
            let lane = new.lane.number();
            assert_eq!(new.ordinal, self.next[lane], "new chunks are counted one by one");
            self.next[lane] += 1;
            let Bytes::Read(bytes) = &children[*child as usize].bytes else {
                unreachable!("every child was read");
            };
            match self.regions[lane].last_mut() {
                Some((_, chunks)) if chunks.len() < REGION_CHUNKS => chunks.push(bytes.clone()),
                _ => self.regions[lane].push((new.ordinal, vec![bytes.clone()])),
            }
        }
    }

    fn send(&mut self, lane: Lane) -> Result<(), IngestError> {
        let mut regions = std::mem::take(&mut self.regions[lane.number()]);
        if self.order == Order::Reversed {
            regions.reverse();
        }
        let printer = &self.session.terms().fingerprinter;
        for (first, chunks) in regions {
            let len = |bytes: &Vec<u8>| u32::try_from(bytes.len()).expect("short chunks");
            let prints = chunks.iter().map(|bytes| (printer.chunk(bytes), len(bytes)));
            let region = StoredRegion::raw(lane, first, prints.collect(), chunks.concat());
            self.session.submit(vec![Offer::Region(region.into())])?;
        }
        Ok(())
    }
}

/// Sends streams of these bytes, a segment of each in turn, and commits them.
fn play(
    host: &dyn Host,
    streams: &[Stream],
    bytes: &[&[u8]],
    order: Order,
    pace: Pace,
) -> Result<Committed, IngestError> {
    let begun = host.begin(streams.to_vec(), &[])?;
    let session = begun.session();
    let of_streams: Vec<Vec<Segment<Vec<u8>>>> = bytes
        .iter()
        .map(|bytes| segments(&session.terms().fingerprinter, bytes))
        .collect();
    let children =
        |segments: &Vec<Segment<Vec<u8>>>| segments.iter().map(|each| each.children.clone()).collect();
    let (heard, hearing) = mpsc::channel();
    let given_up = AtomicBool::new(false);
    let mut patience = Patience {
        given_up: &given_up,
        heard: hearing,
        streams: vec![(0, false); streams.len()],
    };
    let gatherer = Gatherer {
        session,
        lanes: streams.iter().map(|stream| stream.lane).collect(),
        waiting: of_streams.iter().map(children).collect(),
        next: [0; Lane::COUNT],
        regions: Default::default(),
        order,
        heard,
        given_up: &given_up,
    };
    let longest = of_streams.iter().map(Vec::len).max().unwrap_or(0);
    let counts = thread::scope(|scope| {
        let gathering = scope.spawn(|| gatherer.run());
        let offering = (0..=longest).try_for_each(|turn| {
            let mut offers = Vec::new();
            for (number, segments) in (0_u16..).zip(&of_streams) {
                let stream = StreamIndex(number);
                match segments.get(turn) {
                    Some(segment) => {
                        if pace == Pace::Patient {
                            patience.wait(stream);
                        }
                        patience.streams[usize::from(number)].0 += 1;
                        offers.push(offered(stream, segment));
                    }
                    None if turn == segments.len() => offers.push(Offer::End(stream)),
                    None => {}
                }
            }
            session.submit(offers)
        });
        let gathered = gathering.join().expect("the gatherer does not panic");
        offering.and(gathered)
    })?;
    let sent: Vec<usize> = of_streams.iter().map(Vec::len).collect();
    assert_eq!(counts, sent, "one verdict for each segment");
    let chunks = of_streams
        .iter()
        .flatten()
        .map(|segment| segment.children.len() as u64);
    let counted = BackupTotals {
        chunks: chunks.sum(),
        ..BackupTotals::default()
    };
    session.commit(host.about(counted))
}

fn three() -> Vec<Stream> {
    crate::backup::tree_streams()
}

pub(super) fn streams_are_answered_each_in_its_order(host: &dyn Host) -> Outcome {
    let (content, listing, fences) = (noise(11, 150_500), noise(12, 60_001), noise(13, 999));
    let bytes: [&[u8]; 3] = [&content, &listing, &fences];
    let first = play(host, &three(), &bytes, Order::AsWanted, Pace::Ahead)?;
    let one = checked(host, &first, &bytes);
    // The same again, and a stream with the content of another one.
    let mixed: [&[u8]; 3] = [&listing, &content, &[]];
    let second = play(host, &three(), &mixed, Order::AsWanted, Pace::Ahead)?;
    let two = checked(host, &second, &mixed);
    assert_eq!(first.streams[0].role, StreamRole::Content);
    Ok(vec![one, two])
}

pub(super) fn regions_may_come_in_any_order(host: &dyn Host) -> Outcome {
    let mut made: Vec<Made> = Vec::new();
    for (seed, order) in [(21, Order::AsWanted), (22, Order::Reversed)] {
        let bytes = noise(seed, 120_000);
        let committed = play(host, &single_stream(None), &[&bytes], order, Pace::Ahead)?;
        made.push(checked(host, &committed, &[&bytes]));
    }
    Ok(made)
}

/// A client that has little memory reads on only if it hears that it may: each segment has its
/// verdict, or the store says that it waits. With a cap, a store waits when what it has is
/// scattered.
pub(super) fn a_patient_client_is_never_left_waiting(host: &dyn Host) -> Outcome {
    let (content, listing) = (noise(41, 140_000), noise(42, 50_000));
    let bytes: [&[u8]; 3] = [&content, &listing, &[]];
    // Known segments, new ones, and ones of which a part is known.
    let changed: Vec<u8> = content
        .chunks(9 * CHUNK_BYTES)
        .enumerate()
        .flat_map(|(number, part)| {
            if number % 3 == 1 {
                noise(43, part.len())
            } else {
                part.to_vec()
            }
        })
        .collect();
    let later: [&[u8]; 3] = [&changed, &listing, &content];
    let mut made = Vec::new();
    for bytes in [bytes, bytes, later] {
        let committed = play(host, &three(), &bytes, Order::AsWanted, Pace::Patient)?;
        made.push(checked(host, &committed, &bytes));
    }
    Ok(made)
}

pub(super) fn a_commit_before_the_end_makes_no_backup(host: &dyn Host) -> Outcome {
    let bytes = noise(31, 50_000);
    let begun = host.begin(single_stream(None), &[])?;
    let segments = segments(&begun.session().terms().fingerprinter, &bytes);
    let offers = segments.iter().map(|segment| offered(StreamIndex(0), segment));
    begun.session().submit(offers.take(1).collect())?;
    let committed = begun.session().commit(host.about(BackupTotals::default()));
    assert!(
        committed.is_err(),
        "a backup of a part of a stream: {committed:?}"
    );
    drop(begun);
    assert_eq!(host.backups(), []);
    let committed = play(
        host,
        &single_stream(None),
        &[&bytes],
        Order::AsWanted,
        Pace::Ahead,
    )?;
    Ok(vec![checked(host, &committed, &[&bytes])])
}
