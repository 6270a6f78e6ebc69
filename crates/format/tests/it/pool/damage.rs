//! Rot and tears of framed blocks.

use format::FormatError;
use format::pool::BLOCK_BYTES;
use format::pool::frame::{BlockKind, FRAME_BYTES, FRAMED_BYTES_MAX, open};
use format::wire::digest;

use super::samples::{self, sealed};

#[test]
fn every_flipped_bit_of_a_block_is_noticed_and_is_no_later_version() {
    for (kind, whole) in samples::blocks() {
        assert!(open(kind, &whole).is_ok());
        for bit in 0..whole.len() * 8 {
            let mut block = whole.clone();
            block[bit / 8] ^= 1 << (bit % 8);
            match open(kind, &block) {
                Err(FormatError::Malformed { .. }) => assert!(bit < 64, "{kind:?}, bit {bit}"),
                Err(FormatError::DigestMismatch { .. }) => assert!(bit >= 64, "{kind:?}, bit {bit}"),
                other => panic!("{kind:?}, bit {bit}: {other:?}"),
            }
        }
    }
}

#[test]
fn every_torn_block_is_noticed() {
    let old = samples::blocks().map(|(kind, _)| (kind, sealed(kind, &[0x55; FRAMED_BYTES_MAX])));
    for ((kind, whole), (_, old)) in samples::blocks().into_iter().zip(old) {
        for len in (1..whole.len()).step_by(7) {
            // The rest is of the block that was there before, zeros, or missing.
            for rest in [&old[len..], &vec![0; whole.len() - len], &[]] {
                let torn = [&whole[..len], rest].concat();
                if torn != whole && torn != old {
                    assert!(open(kind, &torn).is_err(), "{kind:?}, torn at {len}");
                }
            }
        }
        assert!(open(kind, &[whole.as_slice(), &[0]].concat()).is_err());
        assert!(open(kind, &[]).is_err());
    }
}

#[test]
fn a_block_that_no_encoder_writes_is_refused_though_its_digest_holds() {
    type Change = fn(&mut Vec<u8>);
    let changed = |change: Change| {
        let mut block = sealed(BlockKind::Log, &[7; 100]);
        change(&mut block);
        let digest = digest(&block[24..]);
        block[8..24].copy_from_slice(&digest.to_le_bytes());
        open(BlockKind::Log, &block).map(<[u8]>::len)
    };
    assert_eq!(changed(|_| {}), Ok(100));
    let changes: [(&str, Change); 8] = [
        ("longer than the block", |b| {
            b[24..28].copy_from_slice(&(FRAMED_BYTES_MAX as u32 + 1).to_le_bytes());
        }),
        ("4 GiB long", |b| b[24..28].fill(0xff)),
        ("shorter than its payload", |b| b[24] -= 1),
        ("version 0", |b| b[28] = 0),
        ("a reserved byte", |b| b[30] = 1),
        ("another reserved byte", |b| b[31] = 0x80),
        ("a byte behind the payload", |b| b[FRAME_BYTES + 100] = 1),
        ("the last byte", |b| b[BLOCK_BYTES - 1] = 1),
    ];
    for (why, change) in changes {
        let found = changed(change);
        assert!(
            matches!(found, Err(FormatError::Malformed { .. })),
            "{why}: {found:?}"
        );
    }
    let later = changed(|b| b[28..30].copy_from_slice(&0x0102_u16.to_le_bytes()));
    assert_eq!(
        later,
        Err(FormatError::NewerVersion {
            what: "log block",
            found: 0x0102,
            known: 1
        })
    );
}

#[test]
#[should_panic(expected = "fits a block")]
fn a_payload_that_is_too_long_is_not_sealed() {
    sealed(BlockKind::State, &[0; FRAMED_BYTES_MAX + 1]);
}
