//! The check before writing and the decoder both refuse values that break a rule.

use format::pool::header::VolumeHeader;
use format::pool::log::LogBlockHead;
use format::pool::record::{DecidedOutcome, FoundOutcome, Record};
use format::pool::state::{VolumeState, read_state_page, state_page};
use format::pool::superblock::{POOL_EXTENTS_MAX, Superblock};
use format::pool::table::{GRANTS_MAX, TABLE_EXTENT_ENTRIES, TABLE_PAGE_ENTRIES, TablePage};
use format::pool::{EXTENT_BLOCKS, VOLUME_BLOCK_MIN, VOLUME_BLOCKS_MAX};
use types::{BlockNumber, Lba};

use super::samples::{self, batch, bits, block, encoded, extent, lba, volume};

type Change<T> = fn(&mut T);

fn broken<T: Clone>(good: &T, is_good: impl Fn(&T) -> bool, changes: &[(&str, Change<T>)]) {
    assert!(is_good(good));
    for (why, change) in changes {
        let mut bad = good.clone();
        change(&mut bad);
        assert!(!is_good(&bad), "{why}");
    }
}

#[test]
fn superblocks_have_a_table_of_the_right_size() {
    broken(
        &samples::superblock(),
        |superblock: &Superblock| superblock.check().is_ok(),
        &[
            ("no extent", |s| s.extents = 0),
            ("no table", |s| s.table.clear()),
            ("a table too short", |s| s.table.truncate(1)),
            ("a table too long", |s| s.table.push(extent(80_000))),
            ("not sorted", |s| s.table.reverse()),
            ("twice", |s| s.table[1] = s.table[0]),
            ("in extent 0", |s| s.table[0] = extent(0)),
            ("behind the pool", |s| s.table[1] = extent(300_000)),
            ("volume 0", |s| s.next_volume = volume(0)),
            ("a long path", |s| s.index = "x".repeat(1025)),
        ],
    );
    let of = |extents, table| Superblock {
        extents,
        table,
        ..samples::superblock()
    };
    let whole = TABLE_EXTENT_ENTRIES as u32;
    of(whole, vec![extent(1)]).check().unwrap();
    of(whole + 1, vec![extent(1), extent(2)]).check().unwrap();
    assert!(of(whole + 1, vec![extent(1)]).check().is_err());
    let table = |n: u32| (1..=n).map(extent).collect();
    of(POOL_EXTENTS_MAX, table(512)).check().unwrap();
    assert!(of(POOL_EXTENTS_MAX + 1, table(513)).check().is_err());
}

#[test]
fn headers_refer_to_a_whole_checkpoint_or_none() {
    let is_good = |header: &VolumeHeader| header.check().is_ok();
    broken(
        &samples::header(),
        is_good,
        &[
            ("volume 0", |h| h.volume = volume(0)),
            ("a long name", |h| h.name = "x".repeat(256)),
            ("no block", |h| h.blocks = 0),
            ("too large", |h| h.blocks = VOLUME_BLOCKS_MAX + 1),
            ("21 bits", |h| h.birth = 1 << 20),
            ("a root of the pool", |h| h.root = Some((block(1023), 1))),
            ("a state of the pool", |h| h.state = Some(block(512))),
            ("no state", |h| h.state = None),
            ("no log", |h| h.log = None),
            ("neither, but a root", |h| (h.state, h.log) = (None, None)),
            ("a log of the pool", |h| {
                h.log.as_mut().unwrap().extent = extent(0)
            }),
            ("behind its extent", |h| h.log.as_mut().unwrap().index = 1024),
        ],
    );
    assert!(is_good(&samples::new_header()));
    let zeros = VolumeHeader {
        root: None,
        name: String::new(),
        ..samples::header()
    };
    assert!(is_good(&zeros), "a removed volume of zeros");
}

#[test]
fn states_are_sorted_and_count_from_one() {
    broken(
        &samples::state(),
        |state: &VolumeState| state.check().is_ok(),
        &[
            ("batch 0", |s| s.batch = Some(batch(0))),
            ("more counted than mapped", |s| s.mapped = 128),
            ("more mapped than there are", |s| s.mapped = VOLUME_BLOCKS_MAX + 1),
            ("free extents not sorted", |s| s.free_extents.reverse()),
            ("a free extent twice", |s| s.free_extents[1] = extent(12)),
            ("a free extent of the pool", |s| s.free_extents[0] = extent(0)),
            ("partly free extents not sorted", |s| s.free_blocks.reverse()),
            ("partly free, twice", |s| s.free_blocks[1].0 = extent(1)),
            ("partly free, of the pool", |s| s.free_blocks[0].0 = extent(0)),
            ("wholly and partly free", |s| s.free_extents[0] = extent(3)),
            ("partly free, without one", |s| s.free_blocks[0].1 = bits([])),
            ("partly free, with all", |s| s.free_blocks[0].1 = bits(0..1024)),
            ("no reference", |s| s.unreferenced[1].1 = 0),
            ("a reference to the pool", |s| s.unreferenced[0].0 = block(1023)),
            ("suspects not sorted", |s| s.suspects.reverse()),
            ("a suspect twice", |s| s.suspects[1] = block(1024)),
            ("a suspect of the pool", |s| s.suspects[0] = block(0)),
            ("different of the pool", |s| s.different[0] = block(1023)),
            ("different twice", |s| s.different = vec![block(2000); 2]),
            ("takers not sorted", |s| s.taken.reverse()),
            ("gift 0", |s| s.taken[0].1 = 0),
            ("volume 0", |s| s.given[0].0 = volume(0)),
            ("volume twice", |s| s.given = vec![(volume(3), 1); 2]),
        ],
    );
}

#[test]
fn pages_of_a_state_are_no_longer_than_a_block_and_refer_to_blocks_of_volumes() {
    let page = |next: u64, len: usize| [next.to_le_bytes().as_slice(), &vec![1; len]].concat();
    assert!(read_state_page(&page(0, 0)).is_ok());
    assert!(read_state_page(&page(VOLUME_BLOCK_MIN, 4056)).is_ok());
    assert!(read_state_page(&page(BlockNumber::MAX.get(), 4056)).is_ok());
    for (why, bad) in [
        ("too long", page(0, 4057)),
        ("a block of the pool", page(VOLUME_BLOCK_MIN - 1, 1)),
        ("no block", page(BlockNumber::MAX.get() + 1, 1)),
        ("cut off", vec![0; 7]),
    ] {
        assert!(read_state_page(&bad).is_err(), "{why}");
    }
    let is_written = |next, len: usize| {
        let next = Some(block(next));
        std::panic::catch_unwind(|| state_page(next, &vec![1; len])).is_ok()
    };
    assert!(is_written(VOLUME_BLOCK_MIN, 4056));
    assert!(!is_written(VOLUME_BLOCK_MIN - 1, 4056), "a block of the pool");
    assert!(!is_written(VOLUME_BLOCK_MIN, 4057), "too long");
}

#[test]
fn pages_of_the_table_are_whole_and_begin_where_the_one_before_ends() {
    let bytes = samples::table_page().to_bytes();
    let with_first = |first: u32| {
        let mut bytes = bytes.clone();
        bytes[8..12].copy_from_slice(&first.to_le_bytes());
        TablePage::from_bytes(&bytes)
    };
    assert!(with_first(0).is_ok());
    assert!(with_first(TABLE_PAGE_ENTRIES as u32).is_ok());
    for first in [1, TABLE_PAGE_ENTRIES as u32 - 1, (1 << 30) + 112, u32::MAX] {
        assert!(with_first(first).is_err(), "{first}");
    }
    let (mut short, mut moved) = (samples::table_page(), samples::table_page());
    short.entries.pop();
    moved.first = extent(1);
    for bad in [short, moved] {
        assert!(std::panic::catch_unwind(|| bad.to_bytes()).is_err(), "{bad:?}");
    }
}

/// A record of this kind that follows the rules, and changes that break one.
fn broken_records() -> Vec<(Record, Vec<Record>)> {
    let map = |at, first, count| Record::Map {
        lba: lba(at),
        block: block(first),
        digests: vec![1; count],
    };
    let cut = |at, count| Record::Cut { lba: lba(at), count };
    let highest = BlockNumber::MAX.get();
    let (end, pool) = (VOLUME_BLOCKS_MAX, VOLUME_BLOCK_MIN - 1);
    let intent = |number, at, taken, count| Record::Intent {
        batch: batch(number),
        is_last: true,
        blocks: vec![
            format::pool::record::IntentBlock {
                lba: lba(at),
                block: block(taken),
                fingerprint: types::Fingerprint::from_bytes([9; 32]),
            };
            count
        ],
    };
    let found = |number, from, outcomes| Record::Found {
        batch: batch(number),
        from,
        outcomes,
    };
    let dec_intent = |number, taken, references, count| Record::DecIntent {
        batch: batch(number),
        is_last: false,
        blocks: vec![(block(taken), types::Fingerprint::from_bytes([9; 32]), references); count],
    };
    let decided = |number, from, count| Record::Decided {
        batch: batch(number),
        from,
        outcomes: vec![DecidedOutcome::Freed; count],
    };
    let known = |taken| vec![FoundOutcome::Registered, FoundOutcome::Known(block(taken))];
    let different = |taken| vec![FoundOutcome::Different(block(taken))];
    let resized = |blocks| Record::Resized { blocks };
    vec![
        (
            map(1, 2000, 511),
            vec![map(1, 2000, 0), map(1, 2000, 512), map(0, 2000, 513)],
        ),
        (
            map(0, highest - 1, 2),
            vec![map(0, highest - 1, 3), map(0, highest, 2)],
        ),
        (
            map(end - 1, VOLUME_BLOCK_MIN, 1),
            vec![map(end, 2000, 1), map(0, pool, 1)],
        ),
        (
            cut(512, 512),
            vec![cut(512, 0), cut(512, 513), cut(1023, 2), cut(513, 512)],
        ),
        (
            cut(end - 1, 1),
            vec![cut(end, 1), cut(Lba::MAX.get(), 1), cut(0, u64::MAX)],
        ),
        (
            intent(1, end - 1, 2000, 2),
            vec![
                intent(0, 0, 2000, 2),
                intent(1, end, 2000, 2),
                intent(1, 0, pool, 2),
                intent(1, 0, 2000, 0),
            ],
        ),
        (
            found(1, u32::MAX - 1, known(2000)),
            vec![
                found(0, 0, known(2000)),
                found(1, 0, known(pool)),
                found(1, 0, different(pool)),
                found(1, 0, Vec::new()),
                found(1, u32::MAX, known(2000)),
            ],
        ),
        (
            dec_intent(1, 2000, 1, 2),
            vec![
                dec_intent(0, 2000, 1, 2),
                dec_intent(1, pool, 1, 2),
                dec_intent(1, 2000, 0, 2),
                dec_intent(1, 2000, 1, 0),
            ],
        ),
        (
            decided(1, u32::MAX, 1),
            vec![decided(0, 0, 1), decided(1, 0, 0), decided(1, u32::MAX, 2)],
        ),
        (resized(1), vec![resized(0), resized(end + 1)]),
        (resized(end), vec![resized(u64::MAX)]),
    ]
}

/// Records about extents and runs, likewise.
fn broken_grants_and_gifts() -> Vec<(Record, Vec<Record>)> {
    let extents = |list: &[(u32, u32)]| Record::Extents {
        extents: list
            .iter()
            .map(|(number, grants)| (extent(*number), *grants))
            .collect(),
    };
    let returned = |list: &[(u32, u32)]| match extents(list) {
        Record::Extents { extents } => Record::Returned { extents },
        _ => unreachable!("it was just made"),
    };
    let run = |first, count| vec![(block(2000), 1), (block(first), count)];
    let give = |to, gift, runs| Record::Give {
        to: volume(to),
        gift,
        runs,
    };
    let take = |from, gift, runs| Record::Take {
        from: volume(from),
        gift,
        runs,
    };
    let last = 2 * EXTENT_BLOCKS - 1;
    vec![
        (
            extents(&[(1, GRANTS_MAX)]),
            vec![extents(&[]), extents(&[(0, 1)]), extents(&[(1, GRANTS_MAX + 1)])],
        ),
        (
            returned(&[(1, 0)]),
            vec![
                returned(&[]),
                returned(&[(1, 0), (0, 1)]),
                returned(&[(1, u32::MAX)]),
            ],
        ),
        (
            give(1, 1, run(1024, 1024)),
            vec![
                give(0, 1, run(1024, 1024)),
                give(1, 0, run(1024, 1024)),
                give(1, 1, Vec::new()),
                give(1, 1, run(1024, 1025)),
                give(1, 1, run(1024, 0)),
                give(1, 1, run(last, 2)),
                give(1, 1, run(last, u32::MAX)),
                give(1, 1, run(1023, 1)),
            ],
        ),
        (
            take(1, 1, run(last, 1)),
            vec![
                take(0, 1, run(last, 1)),
                take(1, 0, run(last, 1)),
                take(1, 1, Vec::new()),
                take(1, 1, run(last, 2)),
            ],
        ),
    ]
}

#[test]
fn records_stay_within_their_page_their_extent_and_their_numbers() {
    let all = [broken_records(), broken_grants_and_gifts()].concat();
    for (good, bad) in all {
        good.check().unwrap();
        for bad in bad {
            assert!(bad.check().is_err(), "{bad:?}");
            let written = std::panic::catch_unwind(|| encoded(std::slice::from_ref(&bad)));
            assert!(written.is_err(), "about to write {bad:?}");
        }
    }
}

/// The payload of a block with these bytes as records.
fn with(records: &[u8]) -> Vec<u8> {
    let mut payload = samples::log_head().with_records(&encoded(&[Record::FlushMark { covers: 1 }]));
    payload.truncate(payload.len() - 2);
    [payload.as_slice(), records].concat()
}

#[test]
fn records_that_break_a_rule_are_refused_on_the_way_in_too() {
    // Block 2048, lba 511.
    let (taken, at): ([u8; 2], [u8; 2]) = ([0x80, 0x10], [0xff, 0x03]);
    let join = |parts: &[&[u8]]| with(&parts.concat());
    assert!(LogBlockHead::read(&join(&[&[1], &at, &taken, &[1], &[0; 8]])).is_ok());
    assert!(LogBlockHead::read(&join(&[&[9, 1, 1, 1], &taken, &[0x80, 8]])).is_ok());
    for (why, bad) in [
        ("no record", with(&[])),
        ("no kind", with(&[0, 1])),
        ("no kind of this version", with(&[14, 1])),
        ("across the page", join(&[&[1], &at, &taken, &[2], &[0; 16]])),
        ("nothing is mapped", join(&[&[1], &at, &taken, &[0]])),
        ("nothing is cut", join(&[&[2], &at, &[0]])),
        ("across the extent", join(&[&[9, 1, 1, 1], &taken, &[0x81, 8]])),
        (
            "4 billion blocks",
            join(&[&[9, 1, 1, 1], &taken, &[0xff, 0xff, 0xff, 0xff, 0xf]]),
        ),
        ("an empty gift", join(&[&[9, 1, 1, 0]])),
        ("more answers than bytes", with(&[6, 1, 0, 100, 0])),
        ("an answer of no kind", with(&[6, 1, 0, 1, 3])),
        ("an answer about a block of no kind", with(&[4, 1, 0, 1, 3])),
        ("a flag", with(&[3, 1, 2, 0])),
        ("an overlong number", with(&[11, 0x80, 0])),
        ("no end", with(&[11])),
    ] {
        assert!(LogBlockHead::read(&bad).is_err(), "{why}");
    }
    let mark = [11, 1].repeat(2022);
    assert!(LogBlockHead::read(&with(&mark)).is_ok());
    let more = [mark.as_slice(), &[11, 1]].concat();
    assert!(LogBlockHead::read(&with(&more)).is_err(), "longer than a block");
}

#[test]
fn heads_of_log_blocks_have_numbers_of_volumes_and_extents() {
    let whole = samples::last_log_block();
    let read = |at: usize, value: u32| {
        let mut payload = whole.clone();
        payload[at..at + 4].copy_from_slice(&value.to_le_bytes());
        LogBlockHead::read(&payload).map(|(head, _)| head)
    };
    assert_eq!(read(16, u32::MAX).unwrap().next, None);
    assert_eq!(read(16, 1).unwrap().next, Some(extent(1)));
    for (why, at, value) in [
        ("volume 0", 0, 0),
        ("no volume", 0, u32::MAX),
        ("the pool's extent", 16, 0),
        ("no extent", 16, 1 << 30),
        ("almost none", 16, u32::MAX - 1),
    ] {
        assert!(read(at, value).is_err(), "{why}");
    }
    for bad in [
        LogBlockHead {
            volume: volume(0),
            ..samples::log_head()
        },
        LogBlockHead {
            next: Some(extent(0)),
            ..samples::log_head()
        },
    ] {
        assert!(std::panic::catch_unwind(|| bad.with_records(&[11, 1])).is_err());
    }
    let head = samples::log_head();
    assert!(
        std::panic::catch_unwind(|| head.with_records(&[])).is_err(),
        "no record"
    );
}
