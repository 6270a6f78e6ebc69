//! Tests of stages that are pure, or nearly so: the same chunks however bytes are batched, segments
//! from children alone, queues, buffers, spans.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use chunking::{Cdc, CdcSizes, Chunker, Fixed};
use crypto::{DomainKey, Fingerprinter};
use env::{Clock, ManualClock, SystemClock};
use proptest::prelude::*;
use tree::{Roots, WalkOptions};
use types::{ContainerId, ContainerKind, Fingerprint, Level, SequenceNumber, SessionId};

use crate::buffer::BufferPool;
use crate::client::chunk::{self, ChunkState, Chunked, Event};
use crate::client::read_ahead::Ahead;
use crate::client::source_input::{Around, Ops, SourceInput};
use crate::client::stages::ClientStages;
use crate::client::turns::Turns;
use crate::counters::Counters;
use crate::dedup::{Bytes, Segment, SegmentChild, Segmenter, StreamIndex};
use crate::error::{Failure, Halt, IngestError};
use crate::queue::{Closed, queue, unbounded};
use crate::store::sealed_containers::SealedContainers;
use crate::workers::ThreadPool;

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

/// Of all tests.
pub(crate) fn any_turns() -> &'static Turns {
    static TURNS: LazyLock<Turns> = LazyLock::new(Turns::new);
    &TURNS
}

fn around<'a>(
    counters: &'a Counters,
    cancel: &'a AtomicBool,
    failure: &'a Failure,
    stages: &'a ClientStages,
) -> Around<'a> {
    Around {
        counters,
        cancel,
        failure,
        stages,
        clock: &SystemClock,
        turns: any_turns(),
        readers: 4,
    }
}

fn printer() -> Fingerprinter {
    Fingerprinter::new(&DomainKey::from_bytes([5; 32]))
}

fn cdc() -> Box<dyn Chunker> {
    let sizes = CdcSizes {
        min: 64,
        avg: 128,
        max: 512,
    };
    Box::new(Cdc::new(sizes, &printer().gear_table()).unwrap())
}

/// The input of one stream.
#[derive(Debug, Clone)]
enum Said {
    Bytes(Vec<u8>),
    Zeros(u64),
    Cut,
}

/// A child as look-up sees it: a fingerprint, or zeros, and its length.
type Child = (Option<Fingerprint>, u64);

/// Zeros that follow each other are one run, whether a hole or chunks of zeros.
fn push(children: &mut Vec<Child>, child: Child) {
    match (children.last_mut(), child) {
        (Some((None, len)), (None, more)) => *len += more,
        _ => children.push(child),
    }
}

/// The expected children: the bytes between two cuts are chunked as a whole.
fn expected(said: &[Said], chunker: &dyn Chunker) -> Vec<Child> {
    let (mut out, mut open) = (Vec::new(), Vec::new());
    let flush = |open: &mut Vec<u8>, out: &mut Vec<Child>| {
        let mut lens = Vec::new();
        chunker.cut_all(open, true, &mut lens);
        let mut rest = open.as_slice();
        for len in lens {
            let (chunk, after) = rest.split_at(len as usize);
            rest = after;
            let print = chunk
                .iter()
                .any(|byte| *byte != 0)
                .then(|| printer().chunk(chunk));
            push(out, (print, u64::from(len)));
        }
        open.clear();
    };
    for said in said {
        match said {
            Said::Bytes(bytes) => open.extend_from_slice(bytes),
            Said::Cut => flush(&mut open, &mut out),
            // A hole of no length is none.
            Said::Zeros(0) => {}
            Said::Zeros(len) => {
                flush(&mut open, &mut out);
                push(&mut out, (None, *len));
            }
        }
    }
    flush(&mut open, &mut out);
    out
}

/// Feeds two streams, a step of each in turn, in reads of at most `read_max` bytes. Returns the
/// chunker's results, by stream.
fn feed(streams: [&[Said]; 2], buffer_bytes: usize, read_max: usize, fixed: bool) -> [Vec<Child>; 2] {
    let chunker = || -> Box<dyn Chunker> {
        if fixed {
            Box::new(Fixed::new(4096).unwrap())
        } else {
            cdc()
        }
    };
    let headroom = chunker().chunk_bytes_max() as usize;
    let (batch_tx, batch_rx) = unbounded("chunker", &clock());
    let (chunked_tx, chunked_rx) = unbounded::<Chunked>("look-up", &clock());
    let (counters, cancel, failure) = (Counters::default(), AtomicBool::new(false), Failure::default());
    let stages = ClientStages::new();
    let mut input = SourceInput::new(
        2,
        BufferPool::new(buffer_bytes, headroom),
        batch_tx,
        ThreadPool::new("section", 1, &clock()),
        around(&counters, &cancel, &failure, &stages),
    );
    for step in 0..streams[0].len().max(streams[1].len()) {
        for (number, said) in (0_u16..).zip(streams) {
            let stream = StreamIndex(number);
            match said.get(step) {
                None => {}
                Some(Said::Cut) => input.cut(stream).unwrap(),
                Some(Said::Zeros(len)) => input.zeros(stream, *len).unwrap(),
                // Both ways into the input: copied bytes, and bytes read in place.
                Some(Said::Bytes(bytes)) if step % 2 == 0 => input.bytes(stream, bytes).unwrap(),
                Some(Said::Bytes(bytes)) => {
                    let mut rest = bytes.as_slice();
                    while !rest.is_empty() {
                        let spare = input.spare(stream).unwrap();
                        assert!(!spare.is_empty());
                        let len = rest.len().min(spare.len()).min(read_max);
                        spare[..len].copy_from_slice(&rest[..len]);
                        input.advance(stream, len);
                        rest = &rest[len..];
                    }
                }
            }
        }
    }
    input.end(StreamIndex(0)).unwrap();
    input.end(StreamIndex(1)).unwrap();
    drop(input);
    let pool = ThreadPool::new("work", 4, &clock());
    let workers = pool.workers(1, &stages.work).unwrap();
    let states = vec![ChunkState::new(chunker()), ChunkState::new(chunker())];
    chunk::run(states, &batch_rx, &chunked_tx, &workers, &printer()).unwrap();
    drop(chunked_tx);
    let mut out = [Vec::new(), Vec::new()];
    let mut ended = [false; 2];
    while let Ok(chunked) = chunked_rx.recv() {
        let number = usize::from(chunked.stream.0);
        assert!(!ended[number], "something follows a stream's end");
        let mut prints = chunked.prints.wait().unwrap().into_iter();
        for event in chunked.events {
            match event {
                Event::Chunk { len, .. } => push(&mut out[number], (prints.next().unwrap(), u64::from(len))),
                Event::Zeros(len) => push(&mut out[number], (None, len)),
                Event::Copy(_) => unreachable!("nothing is copied here"),
                Event::End => ended[number] = true,
            }
        }
    }
    assert_eq!(ended, [true; 2]);
    out
}

fn said() -> impl Strategy<Value = Vec<Said>> {
    let one = prop_oneof![
        6 => prop::collection::vec(any::<u8>(), 0..1500).prop_map(Said::Bytes),
        2 => (0..1500_usize).prop_map(|len| Said::Bytes(vec![0; len])),
        1 => (0..3000_u64).prop_map(Said::Zeros),
        2 => Just(Said::Cut),
    ];
    prop::collection::vec(one, 0..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]

    #[test]
    fn batching_of_bytes_does_not_change_the_chunks(
        first in said(), second in said(), buffer in 1..5000_usize, read_max in 1..3000_usize, fixed in any::<bool>(),
    ) {
        let chunker: Box<dyn Chunker> = if fixed { Box::new(Fixed::new(4096).unwrap()) } else { cdc() };
        let [got_first, got_second] = feed([&first, &second], buffer, read_max, fixed);
        prop_assert_eq!(got_first, expected(&first, &*chunker));
        prop_assert_eq!(got_second, expected(&second, &*chunker));
    }

    #[test]
    fn segments_are_cut_by_their_children_alone(
        children in prop::collection::vec((any::<u64>(), 1..5000_u64, 0..5_u8), 0..400), avg in 2..6_u32,
    ) {
        let avg = 1 << avg;
        let mut segmenter = Segmenter::new(printer(), avg);
        let mut done: Vec<Segment<()>> = Vec::new();
        let mut wanted: Vec<Child> = Vec::new();
        for (seed, len, kind) in children {
            if kind == 0 {
                segmenter.push_zeros(len);
                push(&mut wanted, (None, len));
                prop_assert!(!segmenter.is_aligned());
                continue;
            }
            let fingerprint = printer().chunk(&seed.to_le_bytes());
            let child = SegmentChild { fingerprint, len, bytes: Bytes::Zeros };
            segmenter.push(child, &mut done);
            push(&mut wanted, (Some(fingerprint), len));
        }
        let before_end = done.len();
        segmenter.finish(&mut done);
        prop_assert!(segmenter.is_aligned());
        let mut got = Vec::new();
        for (number, segment) in done.iter().enumerate() {
            let count = segment.children.len();
            prop_assert!(count <= 2 * avg as usize);
            prop_assert!(count >= avg as usize / 2 || number >= before_end, "a short one before the end");
            let mut hasher = printer().node_hasher(Level::new(1).unwrap());
            let mut total = 0;
            for child in &segment.children {
                hasher.push(&child.fingerprint, child.len);
                total += child.len;
                let is_zeros = child.fingerprint == printer().zeros(child.len);
                got.push(((!is_zeros).then_some(child.fingerprint), child.len));
            }
            prop_assert_eq!(segment.fingerprint, hasher.finish());
            prop_assert_eq!(segment.len, total);
        }
        prop_assert_eq!(got, wanted, "children come out as they went in, zeros in one run");
    }

    #[test]
    fn spans_name_each_container_once_in_order(
        mut numbers in prop::collection::btree_set((0..3_u8, 0..60_u32), 0..80).prop_map(Vec::from_iter),
        swaps in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..80),
    ) {
        let kind = |number: u8| [ContainerKind::Data, ContainerKind::Recipe, ContainerKind::Catalog][usize::from(number)];
        for (a, b) in swaps {
            if !numbers.is_empty() {
                let (a, b) = (a.index(numbers.len()), b.index(numbers.len()));
                numbers.swap(a, b);
            }
        }
        let session = SessionId::new(3).unwrap();
        let id = |(of, number): (u8, u32)| ContainerId {
            session,
            kind: kind(of),
            sequence: SequenceNumber::new(number).unwrap(),
        };
        let mut containers = SealedContainers::default();
        for (place, of) in (0..).zip(&numbers) {
            containers.add(place, id(*of));
        }
        let spans = containers.all();
        let named: Vec<ContainerId> = spans.iter().flat_map(|span| span.ids(session)).collect();
        let mut wanted: Vec<ContainerId> = numbers.iter().map(|of| id(*of)).collect();
        wanted.sort_by_key(|id| (id.kind, id.sequence));
        prop_assert_eq!(named, wanted);
        for pair in spans.windows(2) {
            let touches = pair[0].first.get() + pair[0].count == pair[1].first.get();
            prop_assert!(pair[0].kind != pair[1].kind || !touches, "two spans that are one");
        }
    }
}

/// A source has its turn while it reads and sends.
#[test]
fn a_source_reads_and_sends_in_its_turn() {
    let (tx, rx) = unbounded("chunker", &clock());
    let (counters, cancel, failure) = (Counters::default(), AtomicBool::new(false), Failure::default());
    let (stages, turns, still) = (ClientStages::new(), Turns::new(), ManualClock::default());
    let around = Around {
        turns: &turns,
        clock: &still,
        ..around(&counters, &cancel, &failure, &stages)
    };
    let pool = BufferPool::new(1 << 20, 0);
    let readers = ThreadPool::new("section", 1, &clock());
    let mut input = SourceInput::new(1, pool.clone(), tx, readers, around);
    assert_eq!(turns.taken(), 0);
    input.spare(StreamIndex(0)).unwrap();
    assert_eq!(turns.taken(), 1, "before it reads");
    let mib = vec![7; 1 << 20];
    for sent in 1..=16 {
        assert_eq!(turns.taken(), 1, "{sent}");
        input.bytes(StreamIndex(0), &mib).unwrap();
    }
    // The next byte sends the buffer, and is read in the next turn.
    input.bytes(StreamIndex(0), &[1]).unwrap();
    assert_eq!((turns.taken(), turns.ended()), (1, 1));
    input.end(StreamIndex(0)).unwrap();
    input.whole(StreamIndex(0), pool.take(), Ops::default()).unwrap();
    assert_eq!((turns.taken(), turns.ended()), (1, 1));
    drop(input);
    assert_eq!((turns.taken(), turns.ended()), (0, 2));
    drop(rx);
}

/// A source that needs 10 ms for each MiB is slow. In new memory that may be the system's doing.
#[test]
fn a_slow_source_is_known_when_its_buffers_are_used_again() {
    let (tx, rx) = unbounded("chunker", &clock());
    let (counters, cancel, failure) = (Counters::default(), AtomicBool::new(false), Failure::default());
    let (stages, turns, hand) = (ClientStages::new(), Turns::new(), ManualClock::default());
    let around = Around {
        turns: &turns,
        clock: &hand,
        ..around(&counters, &cancel, &failure, &stages)
    };
    let readers = ThreadPool::new("section", 1, &clock());
    let mut input = SourceInput::new(1, BufferPool::new(1 << 20, 0), tx, readers, around);
    let mib = vec![7; 1 << 20];
    let mut send = |buffers: usize| {
        for _ in 0..buffers {
            hand.advance(Duration::from_millis(10));
            input.bytes(StreamIndex(0), &mib).unwrap();
        }
        turns.taken()
    };
    assert_eq!(send(9), 1, "nobody has given a buffer back");
    (0..8).for_each(|_| drop(rx.recv().unwrap()));
    assert_eq!(send(4), 1, "the first part was in new memory, three were not");
    assert_eq!(send(1), 0);
}

#[test]
fn an_input_that_is_to_stop_says_so() {
    let (tx, rx) = unbounded("chunker", &clock());
    let (counters, cancel, failure) = (Counters::default(), AtomicBool::new(false), Failure::default());
    let stages = ClientStages::new();
    let mut input = SourceInput::new(
        1,
        BufferPool::new(64, 0),
        tx.clone(),
        ThreadPool::new("section", 1, &clock()),
        around(&counters, &cancel, &failure, &stages),
    );
    input.bytes(StreamIndex(0), &[1; 200]).unwrap();
    cancel.store(true, Ordering::Relaxed);
    let stopped = input.bytes(StreamIndex(0), &[1; 200]);
    assert!(matches!(stopped, Err(Halt::Failed(IngestError::Interrupted))));
    assert!(matches!(
        input.end(StreamIndex(0)),
        Err(Halt::Failed(IngestError::Interrupted))
    ));
    cancel.store(false, Ordering::Relaxed);
    // A stage failed somewhere, and its reason is the one to report.
    failure.note(Err(Halt::Closed));
    input.bytes(StreamIndex(0), &[1; 200]).unwrap();
    failure.note(Err(IngestError::Internal("a test").into()));
    let stopped = input.bytes(StreamIndex(0), &[1; 200]);
    assert!(matches!(stopped, Err(Halt::Closed)));
    assert!(matches!(failure.take(), Some(IngestError::Internal("a test"))));
    let failure = Failure::default();
    let mut input = SourceInput::new(
        1,
        BufferPool::new(64, 0),
        tx,
        ThreadPool::new("section", 1, &clock()),
        around(&counters, &cancel, &failure, &stages),
    );
    // Without a receiver, it is the receiver's reason that counts.
    drop(rx);
    assert!(matches!(input.end(StreamIndex(0)), Err(Halt::Closed)));
}

/// Waits of a directory backup's threads do not count as work, and every thread counts.
#[test]
fn the_threads_of_a_directory_backup_count_work_and_waiting_apart() {
    let folder = tempfile::tempdir().unwrap();
    let files = 3000;
    for number in 0..files {
        std::fs::write(folder.path().join(number.to_string()), [1; 100]).unwrap();
    }
    let walk = WalkOptions {
        roots: Roots::new(folder.path(), &[folder.path().to_owned()]),
        ..WalkOptions::default()
    };
    let (counters, cancel, failure) = (Counters::default(), AtomicBool::new(false), Failure::default());
    let stages = ClientStages::new();
    let mut found = 0;
    stages.source.run(&SystemClock, || {
        std::thread::scope(|scope| {
            let around = around(&counters, &cancel, &failure, &stages);
            let pool = BufferPool::new(1 << 20, 0);
            let mut ahead = Ahead::start(scope, walk, None, &pool, around).unwrap();
            while let Some(group) = ahead.next().unwrap() {
                found += group.items.len();
            }
        });
    });
    assert!(found > files, "{found}");
    let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
    // One reads the folders, the others read the files' metadata.
    assert_eq!(read(&stages.walk.threads), 1 + 4);
    assert_eq!(read(&stages.read.threads), 4);
    // It only waits for others. How long depends on the machine.
    for stage in [&stages.source, &stages.read] {
        assert!(read(&stage.input_nanos) > 0, "{stage:?}");
    }
    for stage in [&stages.walk, &stages.read] {
        assert!(read(&stage.busy_nanos) > 0, "{stage:?}");
    }
}

#[test]
fn many_steps_without_bytes_do_not_gather_for_ever() {
    let (tx, rx) = unbounded("chunker", &clock());
    let (counters, cancel, failure) = (Counters::default(), AtomicBool::new(false), Failure::default());
    let stages = ClientStages::new();
    let mut input = SourceInput::new(
        1,
        BufferPool::new(64, 0),
        tx,
        ThreadPool::new("section", 1, &clock()),
        around(&counters, &cancel, &failure, &stages),
    );
    for _ in 0..10_000 {
        input.zeros(StreamIndex(0), 5).unwrap();
    }
    assert!(
        rx.recv_within(Duration::ZERO).unwrap().is_some(),
        "nothing went off"
    );
}

#[test]
fn a_queue_keeps_order_counts_and_ends_with_either_end() {
    let (tx, rx) = queue("test", 2, &clock());
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    let other = tx.clone();
    let sender = std::thread::spawn(move || other.send(3));
    assert_eq!((rx.recv(), rx.recv(), rx.recv()), (Ok(1), Ok(2), Ok(3)));
    sender.join().unwrap().unwrap();
    assert_eq!(rx.recv_within(Duration::from_millis(1)), Ok(None));
    let stats = tx.stats();
    assert_eq!(
        (stats.name, stats.depth, stats.items.load(Ordering::Relaxed)),
        ("test", Some(2), 3)
    );
    assert!(stats.empty_nanos.load(Ordering::Relaxed) > 0);
    assert_eq!(stats.stood_max.load(Ordering::Relaxed), 2);
    assert!((3..=6).contains(&stats.stood.load(Ordering::Relaxed)));
    // Items sent before the last sender was dropped are received.
    tx.send(4).unwrap();
    drop(tx);
    assert_eq!(
        (rx.recv(), rx.recv(), rx.recv_within(Duration::from_secs(9))),
        (Ok(4), Err(Closed), Err(Closed))
    );
    let (tx, rx) = queue("test", 1, &clock());
    tx.send(1).unwrap();
    let blocked = std::thread::spawn(move || tx.send(2));
    drop(rx);
    assert_eq!(blocked.join().unwrap(), Err(Closed), "a sender waits for nobody");
}

#[test]
fn buffers_come_back_empty_with_their_headroom() {
    let pool = BufferPool::new(8, 4);
    let mut first = pool.take();
    first.spare_mut()[..8].copy_from_slice(b"12345678");
    first.advance(8);
    assert!(first.is_full());
    first.prepend(b"abc");
    assert_eq!(first.filled(), b"abc12345678");
    drop(first);
    let mut again = pool.take();
    assert!(again.filled().is_empty());
    assert_eq!(again.spare_mut().len(), 8);
    again.prepend(b"wxyz");
    assert_eq!(again.filled(), b"wxyz");
}
