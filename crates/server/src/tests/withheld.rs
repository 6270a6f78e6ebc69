//! Chunks that a client withholds: what comes behind them waits in memory, however few bytes it has
//! on the wire.

use std::sync::mpsc::channel;

use onefold::BackupOptions;
use onefold::repository::Beginning;

use super::*;

/// Children of the longest segment.
const MANY: usize = 1 << 16;

/// The chunk that is withheld.
static FIRST: [u8; 1] = [7];

fn zeros(terms: &Terms, len: u64) -> OfferedChild {
    OfferedChild {
        fingerprint: terms.fingerprinter.zeros(len),
        len,
        place: OfferedPlace::Zeros,
    }
}

/// The n-th long segment. It has no new chunk: zeros, and the chunk that is withheld.
fn long(terms: &Terms, number: u64) -> OfferedSegment {
    let [first] = children(terms, &[&FIRST])[..] else {
        unreachable!("it is one")
    };
    let mut children = [zeros(terms, 1), first].repeat(MANY / 2);
    children[0] = zeros(terms, number + 2);
    segment(terms, children)
}

fn of_stream(stream: StreamIndex, segment: OfferedSegment) -> Sent {
    Sent::Offer(Offer::Segment { stream, segment })
}

/// Sends as long as the server listens.
fn send(client: &mut Client, sent: &[Sent]) -> bool {
    client.next += 1;
    let bytes = sent.iter().map(Wire::to_bytes);
    let mut body = vec![u8::try_from(sent.len()).unwrap()];
    body.extend(bytes.flatten());
    client.writer.send(request::SUBMIT, client.next, &body).is_ok()
}

#[test]
fn long_segments_behind_a_withheld_chunk_are_caught() {
    caught(|client, terms| {
        client.submit(vec![offered(segment(terms, children(terms, &[&FIRST])))]);
        // Each is 2 MiB on the wire and some 5 MiB in memory.
        for number in 0..7 {
            if !send(client, &[offered(long(terms, number))]) {
                return;
            }
        }
    });
}

/// The packer has a chunk of the other lane at once, and still waits for the first one.
#[test]
fn small_chunks_of_another_lane_do_not_hide_a_withheld_one() {
    let bed = Bed::new();
    let mut client = bed.client("web", "write");
    let mut begin = Client::beginning(Parents::Named(Vec::new()));
    begin.streams = ingest::tree_streams();
    let begun = client.ask(request::BEGIN, &begin).unwrap();
    let terms = Begun::from_bytes(&begun).unwrap().terms;
    client.submit(vec![offered(segment(&terms, children(&terms, &[&FIRST])))]);
    let is_wanted =
        |verdict: &Verdict| matches!(verdict, Verdict::Segment { wanted, .. } if !wanted.is_empty());
    client.verdicts_until(is_wanted);
    let listing = StreamIndex(1);
    for number in 0..7 {
        let small = [u8::try_from(number).unwrap(); 100];
        let sent = [
            of_stream(listing, segment(&terms, children(&terms, &[&small]))),
            offered(long(&terms, number)),
        ];
        if number == 6 {
            send(&mut client, &sent);
            break;
        }
        assert!(send(&mut client, &sent));
        let verdicts = client.verdicts_until(is_wanted);
        let wanted = verdicts.iter().find_map(|verdict| match verdict {
            Verdict::Segment { wanted, .. } => wanted.first(),
            _ => None,
        });
        let new = wanted.unwrap().new;
        assert_eq!(new.lane, Lane::Metadata);
        client.submit(vec![region(&terms, new, &small, &small)]);
    }
    client.end_caught();
}

/// Once the chunk has come, the packer keeps nothing of the segments behind it.
#[test]
fn what_waits_for_a_chunk_is_counted_until_the_chunk_comes() {
    let bed = Bed::new();
    let store = bed.store();
    let options = BackupOptions::default();
    let name = Client::beginning(Parents::LatestTree).name;
    let how = Beginning::new(&options, name, ingest::single_stream(None));
    let hosted = store.host(&how).unwrap();
    let session = hosted.session();
    let terms = session.terms().clone();
    let (wants, wanted) = channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            loop {
                for verdict in session.verdicts(Duration::from_millis(20)).unwrap() {
                    match verdict {
                        Verdict::Segment { wanted, .. } => {
                            wanted.iter().for_each(|one| wants.send(one.new).unwrap())
                        }
                        Verdict::Done => return,
                        _ => {}
                    }
                }
            }
        });
        let segment = |segment| Offer::Segment {
            stream: STREAM,
            segment,
        };
        let first = super::segment(&terms, children(&terms, &[&FIRST]));
        let offers = vec![segment(first), segment(long(&terms, 0)), Offer::End(STREAM)];
        session.submit(offers).unwrap();
    });
    assert_eq!(session.unplaced(), 1 + MANY);
    let new = wanted.recv().unwrap();
    let Sent::Region(region) = region(&terms, new, &FIRST, &FIRST) else {
        unreachable!("it makes a region")
    };
    session.submit(vec![Offer::Region(region.into())]).unwrap();
    let is_placed = (0..500).any(|_| {
        SystemClock.sleep(Duration::from_millis(20));
        session.unplaced() == 0
    });
    assert!(is_placed, "{}", session.unplaced());
}

/// A node joins zeros. One that does not could not be read.
#[test]
fn zeros_behind_zeros_are_caught() {
    caught(|client, terms| {
        let children = vec![zeros(terms, 1), zeros(terms, 2)];
        client.submit(vec![offered(segment(terms, children)), end()]);
    });
}
