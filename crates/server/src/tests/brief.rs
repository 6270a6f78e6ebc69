//! Segments without their chunks, on which the store decides later. It reads itself which chunks
//! they have, and asks for none.

use super::*;

/// Less than the share of a container that a reference needs in a longer window.
static SHORT: [u8; 3000] = [5; 3000];

/// New chunks, which make the window so long.
fn new_chunks() -> Vec<Vec<u8>> {
    (10..50).map(|number| vec![number; 60_000]).collect()
}

/// A server whose store has a backup of [`SHORT`], and a client of another namespace.
fn begun() -> (Bed, Client, Terms) {
    let bed = Bed::new();
    let mut first = bed.client("mail", "write");
    let terms = first.begin(Parents::Named(Vec::new())).unwrap().terms;
    first.submit(vec![offered(segment(&terms, children(&terms, &[&SHORT]))), end()]);
    for verdict in first.verdicts_until(|verdict| *verdict == Verdict::Done) {
        if let Verdict::Segment { wanted, .. } = verdict {
            first.submit(vec![region(&terms, wanted[0].new, &SHORT, &SHORT)]);
        }
    }
    first.ask(request::COMMIT, &about()).unwrap();
    let mut client = bed.client("web", "write");
    let terms = client.begin(Parents::Named(Vec::new())).unwrap().terms;
    (bed, client, terms)
}

/// Offers the stored segment and a new one, both without their chunks. Returns the numbers of the
/// chunks that the store wants of each.
fn wanted_of_both(client: &mut Client, terms: &Terms) -> [Vec<NewChunk>; 2] {
    let known = segment(terms, children(terms, &[&SHORT]));
    let new = new_chunks();
    let new = segment(
        terms,
        children(terms, &new.iter().map(Vec::as_slice).collect::<Vec<_>>()),
    );
    client.submit(vec![brief(&known, known.len), brief(&new, new.len), end()]);
    let verdicts = client.verdicts_until(|verdict| matches!(verdict, Verdict::Unknown(_)));
    let expected = [Verdict::Waits(STREAM), Verdict::Unknown(STREAM)];
    assert_eq!(verdicts, expected, "the chunks of the new one alone");
    client.submit(vec![chunks_of(new.children)]);
    let verdicts = client.verdicts_until(|verdict| *verdict == Verdict::Done);
    let wanted = verdicts.into_iter().filter_map(|verdict| match verdict {
        Verdict::Segment { wanted, .. } => Some(wanted.iter().map(|one| one.new).collect()),
        _ => None,
    });
    wanted.collect::<Vec<_>>().try_into().unwrap()
}

/// The cap stores the chunk again. The server knows which chunk it must be.
#[test]
fn a_known_segment_that_is_stored_again_is_stored_from_its_chunks() {
    let (bed, mut client, terms) = begun();
    let [again, new] = wanted_of_both(&mut client, &terms);
    assert_eq!((again.len(), new.len()), (1, 40), "the cap stores it again");
    client.submit(vec![region(&terms, again[0], &SHORT, &SHORT)]);
    for (number, bytes) in new.into_iter().zip(&new_chunks()) {
        client.submit(vec![region(&terms, number, bytes, bytes)]);
    }
    let made = client.ask(request::COMMIT, &about()).unwrap();
    let id = CommittedBackup::from_bytes(&made).unwrap().session;
    let restored = bed.restored(id);
    assert!(restored == [&SHORT[..], &new_chunks().concat()].concat());
}

/// Another chunk, or one whose bytes are false.
#[test]
fn false_bytes_of_a_chunk_that_is_stored_again_are_caught() {
    for stated in [&CHUNK[..], &SHORT[..]] {
        let (_bed, mut client, terms) = begun();
        let [again, _] = wanted_of_both(&mut client, &terms);
        client.submit(vec![region(&terms, again[0], stated, &CHUNK[..stated.len()])]);
        client.end_caught();
    }
}

#[test]
fn a_segment_that_waits_has_its_own_length() {
    for is_behind in [false, true] {
        let (_bed, mut client, terms) = begun();
        let known = segment(&terms, children(&terms, &[&SHORT]));
        let mut offers = vec![brief(&known, known.len + 1)];
        let mut expected = vec![Verdict::Unknown(STREAM)];
        if is_behind {
            offers.insert(0, brief(&known, known.len));
            expected.insert(0, Verdict::Waits(STREAM));
        }
        client.submit(offers);
        let verdicts = client.verdicts_until(|verdict| matches!(verdict, Verdict::Unknown(_)));
        assert_eq!(verdicts, expected);
        client.submit(vec![chunks_of(known.children)]);
        client.end_caught();
    }
}

/// A stored segment of many tiny chunks has 40 bytes on the wire, and some MiB where it waits.
#[test]
fn few_segments_of_many_chunks_wait() {
    let bed = Bed::new();
    let mut first = bed.client("mail", "write");
    let terms = first.begin(Parents::Named(Vec::new())).unwrap().terms;
    let bytes: Vec<u8> = (0..=255).collect();
    let chunks: Vec<&[u8]> = bytes.chunks(1).collect();
    let tiny = children(&terms, &chunks).repeat(196);
    let stored = segment(&terms, tiny);
    first.submit(vec![offered(stored.clone()), end()]);
    for verdict in first.verdicts_until(|verdict| *verdict == Verdict::Done) {
        if let Verdict::Segment { wanted, .. } = verdict {
            let chunks = wanted.iter().map(|one| {
                let child = &stored.children[one.child as usize];
                (child.fingerprint, 1)
            });
            let (lane, ordinal) = (wanted[0].new.lane, wanted[0].new.ordinal);
            let plain = wanted.iter().map(|one| bytes[one.child as usize % 256]).collect();
            let region = StoredRegion::raw(lane, ordinal, chunks.collect(), plain);
            first.submit(vec![Sent::Region(region)]);
        }
    }
    first.ask(request::COMMIT, &about()).unwrap();
    let mut client = bed.client("web", "write");
    client.begin(Parents::Named(Vec::new())).unwrap();
    client.submit((0..4).map(|_| brief(&stored, stored.len)).collect());
    let mut verdicts = Vec::new();
    while verdicts.len() < 5 {
        verdicts.extend(client.verdicts_until(|verdict| matches!(verdict, Verdict::Segment { .. })));
    }
    let decided = Verdict::Segment {
        stream: STREAM,
        wanted: Vec::new(),
    };
    // The next window remembers the container, and refers to it at once.
    let mut expected = vec![decided; 5];
    expected[0] = Verdict::Waits(STREAM);
    assert_eq!(verdicts, expected);
}
