//! Every structure of a pool decodes to itself, and every mutation of one is refused or is the
//! encoding of another value.

use format::FormatError;
use format::pool::frame::{BlockKind, FRAMED_BYTES_MAX, open};
use format::pool::header::VolumeHeader;
use format::pool::log::{LOG_HEAD_BYTES, LogBlockHead, RECORDS_BYTES_MAX};
use format::pool::record::Record;
use format::pool::state::{STATE_PAGE_BYTES, VolumeState, read_state_page, state_page};
use format::pool::superblock::{POOL_EXTENTS_MAX, Superblock, TABLE_EXTENTS_MAX};
use format::pool::table::{TABLE_PAGE_BYTES, TablePage};
use format::probe;
use format::wire::Reader;
use proptest::prelude::*;

use super::samples::{self, encoded, sealed};
use super::strategies as s;

macro_rules! payloads {
    ($($test:ident: $type:ty = $strategy:expr, $probe:path;)*) => {
        proptest! {
            $(
                #[test]
                fn $test(value in $strategy, cut: prop::sample::Index, flip: prop::sample::Index) {
                    value.check().unwrap();
                    let bytes = value.to_bytes();
                    prop_assert_eq!(&<$type>::decode(&bytes).unwrap(), &value);
                    prop_assert!(<$type>::decode(&bytes[..cut.index(bytes.len())]).is_err(), "cut off");
                    let longer = [bytes.as_slice(), &[0]].concat();
                    prop_assert!(<$type>::decode(&longer).is_err(), "left over");
                    let (mut other, bit) = (bytes, flip.index(longer.len() * 8 - 8));
                    other[bit / 8] ^= 1 << (bit % 8);
                    $probe(&other);
                }
            )*
        }

        /// The version byte comes first.
        #[test]
        fn later_versions_are_named() {
            $(
                let Err(FormatError::NewerVersion { found, known, .. }) = <$type>::decode(&[2, 0, 0]) else {
                    panic!("a later version of {}", stringify!($type));
                };
                assert_eq!((found, known), (2, 1));
                assert!(<$type>::decode(&[0, 0, 0]).is_err());
                assert!(<$type>::decode(&[]).is_err());
            )*
        }
    };
}

payloads! {
    superblock: Superblock = s::superblock(), probe::pool_blocks;
    header: VolumeHeader = s::header(), probe::pool_blocks;
    state: VolumeState = s::state(), probe::volume_state;
}

fn record_of(bytes: &[u8]) -> format::Result<(Record, usize)> {
    let mut r = Reader::new("record", bytes);
    Ok((Record::read(&mut r)?, r.position()))
}

proptest! {
    #[test]
    fn table_page(page in s::table_page(), flip: prop::sample::Index) {
        let bytes = page.to_bytes();
        prop_assert_eq!(bytes.len(), TABLE_PAGE_BYTES);
        prop_assert_eq!(&TablePage::from_bytes(&bytes).unwrap(), &page);
        prop_assert!(TablePage::from_bytes(&bytes[1..]).is_err());
        prop_assert!(TablePage::from_bytes(&[bytes.as_slice(), &[0]].concat()).is_err());
        let (bit, mut other) = (flip.index(bytes.len() * 8), bytes);
        other[bit / 8] ^= 1 << (bit % 8);
        probe::pool_blocks(&other);
    }

    #[test]
    fn record(record in s::record(), cut: prop::sample::Index) {
        record.check().unwrap();
        let mut bytes = encoded(std::slice::from_ref(&record));
        prop_assert_eq!(record_of(&bytes).unwrap(), (record.clone(), bytes.len()));
        let short = &bytes[..cut.index(bytes.len())];
        prop_assert!(record_of(short).is_err(), "cut off");
        let len = bytes.len();
        bytes.push(0xff);
        prop_assert_eq!(record_of(&bytes).unwrap(), (record, len), "the next one follows");
    }

    #[test]
    fn log_block(
        head in s::log_head(), records in prop::collection::vec(s::record(), 1..5), flip: prop::sample::Index,
    ) {
        let bytes = head.with_records(&encoded(&records));
        prop_assert_eq!(LogBlockHead::read(&bytes).unwrap(), (head, records));
        let (bit, mut other) = (flip.index(bytes.len() * 8), bytes);
        other[bit / 8] ^= 1 << (bit % 8);
        probe::log_block(&other);
    }

    #[test]
    fn frame(
        kind in prop::sample::select(BlockKind::ALL.to_vec()),
        payload in prop::collection::vec(any::<u8>(), 0..=FRAMED_BYTES_MAX),
    ) {
        let block = sealed(kind, &payload);
        prop_assert_eq!(open(kind, &block).unwrap(), payload.as_slice());
        for other in BlockKind::ALL.into_iter().filter(|other| *other != kind) {
            prop_assert!(open(other, &block).is_err(), "{kind:?} as {other:?}");
        }
    }

    /// A state of any length in a chain of pages.
    #[test]
    fn state_pages(bytes in prop::collection::vec(any::<u8>(), 0..3 * STATE_PAGE_BYTES)) {
        let mut read = Vec::new();
        for part in bytes.chunks(STATE_PAGE_BYTES) {
            let payload = state_page(Some(samples::block(5000)), part);
            prop_assert!(payload.len() <= FRAMED_BYTES_MAX);
            let (next, found) = read_state_page(&payload).unwrap();
            prop_assert_eq!(next, Some(samples::block(5000)));
            read.extend_from_slice(found);
        }
        prop_assert_eq!(read, bytes);
        let empty = state_page(None, &[]);
        prop_assert_eq!(read_state_page(&empty).unwrap(), (None, &[][..]));
    }
}

#[test]
fn the_largest_values_fit_a_block() {
    let superblock = Superblock {
        extents: POOL_EXTENTS_MAX,
        table: (POOL_EXTENTS_MAX - TABLE_EXTENTS_MAX as u32..POOL_EXTENTS_MAX)
            .map(samples::extent)
            .collect(),
        next_volume: types::VolumeId::MAX,
        index: "x".repeat(1024),
        ..samples::superblock()
    };
    let header = VolumeHeader {
        volume: types::VolumeId::MAX,
        name: "x".repeat(255),
        ..samples::header()
    };
    assert!(superblock.to_bytes().len() <= FRAMED_BYTES_MAX);
    assert!(header.to_bytes().len() <= FRAMED_BYTES_MAX);
    assert_eq!(LOG_HEAD_BYTES + RECORDS_BYTES_MAX, FRAMED_BYTES_MAX);
    let marks = vec![Record::FlushMark { covers: 1 }; RECORDS_BYTES_MAX / 2];
    let payload = samples::log_head().with_records(&encoded(&marks));
    assert_eq!(payload.len(), FRAMED_BYTES_MAX);
    let block = sealed(BlockKind::Log, &payload);
    let (_, read) = LogBlockHead::read(open(BlockKind::Log, &block).unwrap()).unwrap();
    assert_eq!(read, marks);
}
