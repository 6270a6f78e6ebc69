//! Regions that cost more than they seem to.

use container::{CompressedRegion, Compression, compress_region};

use super::*;

/// A frame may be followed by one that is skipped, so it can have any length. A region that is
/// longer than regions may be would make its container unreadable for all who refer to it.
#[test]
fn a_padded_region_is_caught() {
    caught(|client, terms| {
        let new = wanted_of(client, terms);
        let packed = compress_region(CHUNK.to_vec(), Compression::Level(1));
        let mut bytes = packed.bytes().to_vec();
        assert!(bytes.len() < 1000);
        let pad = CHUNK.len();
        bytes.extend(0x184d_2a50_u32.to_le_bytes());
        bytes.extend(u32::try_from(pad).unwrap().to_le_bytes());
        bytes.resize(bytes.len() + pad, 0);
        let chunk = (
            terms.fingerprinter.chunk(&CHUNK),
            u32::try_from(CHUNK.len()).unwrap(),
        );
        client.submit(vec![Sent::Region(StoredRegion {
            lane: new.lane,
            first: new.ordinal,
            chunks: vec![chunk],
            bytes: CompressedRegion::as_read(&bytes, CHUNK.len()),
        })]);
    });
}

/// The n-th chunk of a MiB.
fn large(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(1 << 18)
}

fn large_segment(terms: &Terms, first: u32) -> OfferedSegment {
    let chunks: Vec<Vec<u8>> = (first..first + 16).map(large).collect();
    let chunks: Vec<&[u8]> = chunks.iter().map(Vec::as_slice).collect();
    segment(terms, children(terms, &chunks))
}

/// Offers segments of 16 chunks, and returns which chunks the store wants.
fn all_wanted(client: &mut Client, terms: &Terms, segments: u32) -> Vec<NewChunk> {
    let offers = (0..segments).map(|number| offered(large_segment(terms, number * 16)));
    client.submit(offers.chain([end()]).collect());
    let verdicts = client.verdicts_until(|verdict| *verdict == Verdict::Done);
    let wanted = verdicts.into_iter().filter_map(|verdict| match verdict {
        Verdict::Segment { wanted, .. } => Some(wanted),
        _ => None,
    });
    wanted.flatten().map(|one| one.new).collect()
}

/// The store keeps what comes before a chunk that it waits for.
#[test]
fn a_chunk_that_is_withheld_is_caught() {
    caught(|client, terms| {
        let wanted = all_wanted(client, terms, 7);
        assert_eq!(wanted.len(), 112);
        for (new, number) in wanted.iter().zip(0..).skip(1) {
            // The server may have gone.
            let sent = vec![region(terms, *new, &large(number), &large(number))];
            client.next += 1;
            let sent = client.writer.send(request::SUBMIT, client.next, &sent.to_bytes());
            if sent.is_err() {
                return;
            }
        }
    });
}

/// A few bytes may be many when they are decompressed. Of what an answer needs, not all is in
/// memory at the same time, and the answer is the same.
#[test]
fn regions_of_many_plain_bytes_are_sent() {
    let bed = Bed::new();
    let mut client = bed.client("web", "write,read,list");
    let terms = client.begin(Parents::Named(Vec::new())).unwrap().terms;
    let wanted = all_wanted(&mut client, &terms, 3);
    // Each segment is one region of 16 MiB.
    for (number, of_segment) in (0..).zip(wanted.chunks(16)) {
        let plain: Vec<u8> = (number * 16..number * 16 + 16).flat_map(large).collect();
        let chunks = (number * 16..number * 16 + 16).map(|n| (terms.fingerprinter.chunk(&large(n)), 1 << 20));
        client.submit(vec![Sent::Region(StoredRegion {
            lane: of_segment[0].lane,
            first: of_segment[0].ordinal,
            chunks: chunks.collect(),
            bytes: compress_region(plain, Compression::Level(1)),
        })]);
    }
    let committed = client.ask(request::COMMIT, &about()).unwrap();
    let id = CommittedBackup::from_bytes(&committed).unwrap().session;
    let restored = bed.restored(id);
    assert!(
        restored
            .chunks(1 << 20)
            .zip(0..)
            .all(|(chunk, n)| chunk == large(n))
    );
    assert_eq!(restored.len(), 48 << 20);
}
