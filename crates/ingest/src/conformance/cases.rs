//! Cases that a real client plays: new data, known data, copied ranges, and reading.

use std::io::Read;

use recipe::StreamBytes;
use types::{ByteRange, SessionId};

use super::player::{Step, back_up, noise, send};
use super::{Host, Outcome};
use crate::backup::single_stream;
use crate::dedup::Granularity;

pub(super) fn a_stream_may_be_empty(host: &dyn Host) -> Outcome {
    let (_, made) = back_up(host, Vec::new(), &[], &[])?;
    assert_eq!((made.totals.chunks_new, made.totals.bytes_logical), (0, 0));
    assert_eq!(made.streams[0].2, 0);
    Ok(vec![made])
}

pub(super) fn what_is_known_is_not_wanted_again(host: &dyn Host) -> Outcome {
    let bytes = noise(1, 300_000);
    let (_, first) = back_up(host, vec![Step::Bytes(bytes.clone())], &[], &bytes)?;
    // An interrupted session may have stored some of it.
    assert!(first.totals.bytes_new <= bytes.len() as u64);
    let (_, again) = back_up(host, vec![Step::Bytes(bytes.clone())], &[], &bytes)?;
    assert_eq!(again.totals.bytes_new, 0, "all of it is known");
    assert_eq!(again.totals.segments_known, again.totals.segments);
    assert_eq!(again.streams, first.streams);
    let mut changed = bytes;
    changed[150_000] ^= 1;
    let (_, third) = back_up(host, vec![Step::Bytes(changed.clone())], &[], &changed)?;
    assert!(third.totals.bytes_new > 0);
    assert_ne!(third.streams, first.streams);
    Ok(vec![first, again, third])
}

pub(super) fn repeats_and_zeros_are_stored_once(host: &dyn Host) -> Outcome {
    let block = noise(2, 90_000);
    let (mut steps, mut expected) = (Vec::new(), Vec::new());
    for round in 0..5 {
        steps.extend([Step::Bytes(block.clone()), Step::Zeros(40_000 + round)]);
        expected.extend_from_slice(&block);
        expected.resize(
            expected.len() + 40_000 + usize::try_from(round).expect("small"),
            0,
        );
    }
    let (_, made) = back_up(host, steps, &[], &expected)?;
    if host.granularity() == Granularity::Chunk {
        assert!(
            made.totals.bytes_new <= 2 * block.len() as u64,
            "{:?}",
            made.totals
        );
    }
    Ok(vec![made])
}

/// Whole streams, parts, edges inside chunks, zeros, of two backups, between new bytes (B3).
pub(super) fn ranges_of_earlier_backups_are_copied(host: &dyn Host) -> Outcome {
    let (left, right) = (
        noise(3, 200_000),
        [noise(4, 60_000), vec![0; 50_000], noise(5, 30_000)].concat(),
    );
    let (first, one) = back_up(host, vec![Step::Bytes(left.clone())], &[], &left)?;
    let sent = vec![
        Step::Bytes(right[..60_000].to_vec()),
        Step::Zeros(50_000),
        Step::Bytes(right[110_000..].to_vec()),
    ];
    let (second, two) = back_up(host, sent, &[], &right)?;
    let copied = [
        (0, 0, 200_000),
        (1, 59_990, 50_020),
        (0, 77_777, 3),
        (0, 1, 150_000),
        (1, 0, 140_000),
    ];
    let (mut steps, mut expected) = (Vec::new(), Vec::new());
    for (parent, from, len) in copied {
        let range = ByteRange {
            offset: from as u64,
            len: len as u64,
        };
        let own = noise(6 + from as u64, 5_000);
        expected.extend_from_slice(&[&left, &right][parent][from..from + len]);
        expected.extend_from_slice(&own);
        steps.extend([Step::Copy { parent, range }, Step::Bytes(own)]);
    }
    let upon: [SessionId; 2] = [first, second];
    let (_, three) = back_up(host, steps, &upon, &expected)?;
    assert_eq!(three.totals.bytes_read, 5 * 5_000, "nothing else is read");
    if host.granularity() == Granularity::Chunk {
        assert!(
            three.totals.bytes_new < three.totals.bytes_logical / 2,
            "{:?}",
            three.totals
        );
    }
    let whole = ByteRange {
        offset: 0,
        len: left.len() as u64,
    };
    let step = Step::Copy {
        parent: 0,
        range: whole,
    };
    let (_, four) = back_up(host, vec![step], &[first], &left)?;
    assert_eq!(
        four.streams, one.streams,
        "a copy of all of a stream is that stream"
    );
    assert_eq!(four.totals.bytes_new, 0);
    Ok(vec![one, two, three, four])
}

pub(super) fn earlier_backups_are_read(host: &dyn Host) -> Outcome {
    let bytes = [noise(7, 120_000), vec![0; 20_000], vec![9; 60_000]].concat();
    let (first, one) = back_up(host, vec![Step::Bytes(bytes.clone())], &[], &bytes)?;
    let begun = host.begin(single_stream(None), &[first])?;
    let root = begun.parents()[0][0];
    let whole = ByteRange {
        offset: 0,
        len: root.len,
    };
    assert_eq!(
        begun.session().unsound(&root, whole)?,
        Vec::new(),
        "nothing is damaged"
    );
    for (offset, len) in [(0, bytes.len()), (100_001, 30_000), (139_999, 2), (199_990, 10)] {
        let mut read = Vec::new();
        StreamBytes::new(begun.session().reader(), &root, offset as u64, len as u64)?
            .read_to_end(&mut read)
            .map_err(|error| crate::IngestError::Connection(error.into()))?;
        assert!(read == bytes[offset..offset + len], "{len} bytes at {offset}");
    }
    drop(begun);
    assert_eq!(host.backups(), [first], "who only reads makes no backup");
    Ok(vec![one])
}

pub(super) fn a_dropped_session_makes_no_backup(host: &dyn Host) -> Outcome {
    let bytes = noise(8, 250_000);
    let begun = host.begin(single_stream(None), &[])?;
    send(host, &*begun, vec![Step::Bytes(bytes.clone())])?;
    drop(begun);
    assert_eq!(host.backups(), [], "it was not committed");
    let (_, made) = back_up(host, vec![Step::Bytes(bytes.clone())], &[], &bytes)?;
    Ok(vec![made])
}
