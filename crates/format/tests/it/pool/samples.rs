//! One fixed value of every structure of a pool.

use format::pool::entry::{BIRTH_MAX, MapEntry, PageReference};
use format::pool::frame::{BlockKind, seal};
use format::pool::header::{LogPosition, VolumeHeader, VolumeSettings};
use format::pool::log::LogBlockHead;
use format::pool::record::{DecidedOutcome, FoundOutcome, IntentBlock, Record};
use format::pool::state::{FreeBits, VolumeState, state_page};
use format::pool::superblock::Superblock;
use format::pool::table::{ExtentOwner, GRANTS_MAX, TABLE_PAGE_ENTRIES, TableEntry, TablePage};
use format::pool::{BLOCK_BYTES, VOLUME_BLOCK_MIN, VOLUME_BLOCKS_MAX};
use types::{BatchSequence, BlockNumber, ExtentNumber, Fingerprint, Lba, VolumeId};

use crate::samples::bytes;

pub(crate) fn block(n: u64) -> BlockNumber {
    BlockNumber::new(n).unwrap()
}

pub(crate) fn extent(n: u32) -> ExtentNumber {
    ExtentNumber::new(n).unwrap()
}

pub(crate) fn lba(n: u64) -> Lba {
    Lba::new(n).unwrap()
}

pub(crate) fn volume(n: u32) -> VolumeId {
    VolumeId::new(n).unwrap()
}

pub(crate) fn batch(n: u64) -> BatchSequence {
    BatchSequence::new(n).unwrap()
}

pub(crate) fn superblock() -> Superblock {
    Superblock {
        counter: 258,
        pool: bytes(0x10),
        domain_key: bytes(0x20),
        extents: 300_000,
        table: vec![extent(1), extent(70_000)],
        next_volume: volume(4),
        index: "/srv/pool.index".to_owned(),
    }
}

/// A page with every kind of owner, and the highest numbers.
pub(crate) fn table_page() -> TablePage {
    let entry = |owner, grants| TableEntry { owner, grants };
    let highest = volume(VolumeId::MAX.get());
    let mut entries = vec![
        entry(ExtentOwner::Pool, 0),
        entry(ExtentOwner::Header(volume(1)), 1),
        entry(ExtentOwner::Owned(volume(1)), 3),
        entry(ExtentOwner::Granted(volume(2)), 0),
        entry(ExtentOwner::Free, 2),
        entry(ExtentOwner::Granted(highest), GRANTS_MAX),
    ];
    entries.resize(TABLE_PAGE_ENTRIES, TableEntry::FRESH);
    TablePage {
        counter: 3,
        first: extent(2 * TABLE_PAGE_ENTRIES as u32),
        entries,
    }
}

pub(crate) fn header() -> VolumeHeader {
    VolumeHeader {
        volume: volume(2),
        counter: 513,
        name: "vm-1.root".to_owned(),
        blocks: 2_621_440,
        birth: 1,
        epoch: 300,
        root: Some((block(5000), u128::MAX - 1)),
        state: Some(block(5001)),
        log: Some(LogPosition {
            extent: extent(9),
            index: 1023,
            sequence: 70_000,
        }),
        settings: VolumeSettings {
            deduplicate: true,
            compare_bytes: true,
            interval_s: 300,
            quiet_intervals: 2,
            finder_bytes_per_s: 64 << 20,
        },
    }
}

/// The header of a volume before its first checkpoint.
pub(crate) fn new_header() -> VolumeHeader {
    VolumeHeader {
        counter: 1,
        epoch: 0,
        root: None,
        state: None,
        log: None,
        settings: VolumeSettings::default(),
        ..header()
    }
}

/// The bits of these numbers.
pub(crate) fn bits(numbers: impl IntoIterator<Item = usize>) -> FreeBits {
    let mut bits = FreeBits::default();
    for number in numbers {
        bits[number / 64] |= 1 << (number % 64);
    }
    bits
}

pub(crate) fn state() -> VolumeState {
    VolumeState {
        batch: Some(batch(300)),
        mapped: 20_000,
        counted: 129,
        free_extents: vec![extent(12), extent(300)],
        free_blocks: vec![
            (extent(1), bits([0, 63, 64, 1023])),
            // The longest list, and the smallest bitmap.
            (extent(2), bits(0..63)),
            (extent(3), bits(0..64)),
            (extent(299), bits(1..1024)),
        ],
        unreferenced: vec![(block(3000), 1), (block(1500), 300), (block(3000), 2)],
        suspects: vec![block(1024), block(1026)],
        taken: vec![(volume(1), 1), (volume(3), 129)],
        given: vec![(volume(3), 2)],
        different: vec![block(BlockNumber::MAX.get())],
    }
}

/// A record of every kind.
pub(crate) fn records() -> Vec<Record> {
    let one = |at, block_number, seed| IntentBlock {
        lba: lba(at),
        block: block(block_number),
        fingerprint: Fingerprint::from_bytes(bytes(seed)),
    };
    vec![
        Record::Map {
            lba: lba(510),
            block: block(2048),
            digests: vec![0x0102_0304_0506_0708, u64::MAX],
        },
        Record::Cut {
            lba: lba(512),
            count: 512,
        },
        Record::Intent {
            batch: batch(300),
            is_last: false,
            blocks: vec![one(0, 1024, 0x40), one(VOLUME_BLOCKS_MAX - 1, 1 << 39, 0x41)],
        },
        Record::Found {
            batch: batch(300),
            from: 512,
            outcomes: vec![
                FoundOutcome::Registered,
                FoundOutcome::Known(block(4096)),
                FoundOutcome::Different(block(4097)),
            ],
        },
        Record::DecIntent {
            batch: batch(301),
            is_last: true,
            blocks: vec![(block(4096), Fingerprint::from_bytes(bytes(0x50)), 300)],
        },
        Record::Decided {
            batch: batch(301),
            from: 0,
            outcomes: DecidedOutcome::ALL.to_vec(),
        },
        Record::Extents {
            extents: vec![(extent(7), 1), (extent(6), GRANTS_MAX)],
        },
        Record::Returned {
            extents: vec![(extent(7), 1)],
        },
        Record::Give {
            to: volume(3),
            gift: 2,
            runs: vec![(block(2048), 1024), (block(1500), 1)],
        },
        Record::Take {
            from: volume(1),
            gift: 129,
            runs: vec![(block(3071), 1)],
        },
        Record::FlushMark { covers: 70_000 },
        Record::Resized {
            blocks: VOLUME_BLOCKS_MAX,
        },
    ]
}

pub(crate) fn encoded(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        record.write(&mut out);
    }
    out
}

/// The head of a block that is not the last one of its extent.
pub(crate) fn log_head() -> LogBlockHead {
    LogBlockHead {
        volume: volume(2),
        epoch: 300,
        sequence: 70_001,
        next: None,
    }
}

/// The payload of the last block of an extent.
pub(crate) fn last_log_block() -> Vec<u8> {
    let head = LogBlockHead {
        next: Some(extent(10)),
        ..log_head()
    };
    head.with_records(&encoded(&[Record::FlushMark { covers: 70_001 }]))
}

fn page(packed: &[u64]) -> Vec<u8> {
    let mut page: Vec<u8> = packed.iter().flat_map(|packed| packed.to_le_bytes()).collect();
    page.resize(BLOCK_BYTES, 0);
    page
}

/// A page of entries.
pub(crate) fn leaf() -> Vec<u8> {
    let (block, birth) = (block(VOLUME_BLOCK_MIN), 1);
    page(&[
        MapEntry::Zero.to_u64(),
        MapEntry::Private { block, birth }.to_u64(),
        MapEntry::Counted {
            block: BlockNumber::MAX,
            birth: BIRTH_MAX,
        }
        .to_u64(),
    ])
}

/// The page of references above [`leaf`].
pub(crate) fn upper() -> Vec<u8> {
    let reference = PageReference::to_page(block(5002), &leaf()).unwrap();
    page(&[0, 0, reference.to_u64()])
}

/// A whole block with a payload.
pub(crate) fn sealed(kind: BlockKind, payload: &[u8]) -> Vec<u8> {
    let mut whole = vec![0xee; BLOCK_BYTES];
    seal(kind, payload, &mut whole);
    whole
}

/// A whole block of every kind.
pub(crate) fn blocks() -> [(BlockKind, Vec<u8>); 5] {
    let block = |kind, payload: &[u8]| (kind, sealed(kind, payload));
    [
        block(BlockKind::Superblock, &superblock().to_bytes()),
        block(BlockKind::Table, &table_page().to_bytes()),
        block(BlockKind::Header, &header().to_bytes()),
        block(BlockKind::State, &first_state_page()),
        block(BlockKind::Log, &log_head().with_records(&encoded(&records()))),
    ]
}

/// The payload of the first page of a state.
fn first_state_page() -> Vec<u8> {
    state_page(Some(block(5003)), &state().to_bytes()[..100])
}

/// Every sample by the name of its golden vector.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let [(_, superblock), ..] = blocks();
    vec![
        ("pool-superblock", superblock),
        ("pool-table", table_page().to_bytes()),
        ("pool-header", header().to_bytes()),
        ("pool-header-new", new_header().to_bytes()),
        ("pool-state", state().to_bytes()),
        ("pool-state-new", VolumeState::default().to_bytes()),
        ("pool-state-page", first_state_page()),
        ("pool-log", log_head().with_records(&encoded(&records()))),
        ("pool-log-last", last_log_block()),
        ("pool-map", leaf()),
        ("pool-map-upper", upper()),
    ]
}
