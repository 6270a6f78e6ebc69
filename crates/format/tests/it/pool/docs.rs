//! `docs/format-pool.md` agrees with the code: constants, offsets, numbers, magic bytes.

use std::collections::BTreeMap;

use format::pool::entry::{BIRTH_MAX, MapEntry, PageReference};
use format::pool::frame::{BLOCK_FRAME_VERSION, BlockKind, FRAME_BYTES, FRAMED_BYTES_MAX};
use format::pool::log::{LOG_HEAD_BYTES, RECORDS_BYTES_MAX};
use format::pool::record::{DecidedOutcome, FoundOutcome, Record};
use format::pool::state::STATE_PAGE_BYTES;
use format::pool::superblock::{INDEX_PATH_BYTES_MAX, POOL_EXTENTS_MAX, SUPERBLOCKS, TABLE_EXTENTS_MAX};
use format::pool::table::{
    ExtentOwner, GRANTS_MAX, TABLE_EXTENT_ENTRIES, TABLE_PAGE_BYTES, TABLE_PAGE_ENTRIES, TableEntry,
};
use format::pool::{self, header};
use types::{BatchSequence, BlockNumber, ExtentNumber, VolumeId};

use super::samples::{self, block, encoded, volume};
use crate::docs::{fixed_parts, pool_page, table_of};

#[test]
fn limits_are_those_of_the_code() {
    let expected: BTreeMap<&str, u64> = BTreeMap::from([
        ("BLOCK_BYTES", pool::BLOCK_BYTES as u64),
        ("EXTENT_BLOCKS", pool::EXTENT_BLOCKS),
        ("PAGE_ENTRIES", pool::PAGE_ENTRIES as u64),
        ("VOLUME_EXTENT_MIN", pool::VOLUME_EXTENT_MIN.into()),
        ("VOLUME_BLOCK_MIN", pool::VOLUME_BLOCK_MIN),
        ("VOLUME_BLOCKS_MAX", pool::VOLUME_BLOCKS_MAX),
        ("BLOCK_MAX", BlockNumber::MAX.get()),
        ("EXTENT_MAX", ExtentNumber::MAX.get().into()),
        ("VOLUME_MAX", VolumeId::MAX.get().into()),
        ("BATCH_MAX", BatchSequence::MAX.get()),
        ("BLOCK_FRAME_VERSION", BLOCK_FRAME_VERSION.into()),
        ("FRAME_BYTES", FRAME_BYTES as u64),
        ("FRAMED_BYTES_MAX", FRAMED_BYTES_MAX as u64),
        ("TABLE_PAGE_ENTRIES", TABLE_PAGE_ENTRIES as u64),
        ("TABLE_EXTENT_ENTRIES", TABLE_EXTENT_ENTRIES as u64),
        ("TABLE_EXTENTS_MAX", TABLE_EXTENTS_MAX as u64),
        ("POOL_EXTENTS_MAX", POOL_EXTENTS_MAX.into()),
        ("GRANTS_MAX", GRANTS_MAX.into()),
        ("BIRTH_MAX", BIRTH_MAX.into()),
        ("INDEX_PATH_BYTES_MAX", INDEX_PATH_BYTES_MAX as u64),
        ("VOLUME_NAME_BYTES_MAX", header::VOLUME_NAME_BYTES_MAX as u64),
        ("INTERVAL_S_DEFAULT", header::INTERVAL_S_DEFAULT.into()),
        ("QUIET_INTERVALS_DEFAULT", header::QUIET_INTERVALS_DEFAULT.into()),
        ("STATE_PAGE_BYTES", STATE_PAGE_BYTES as u64),
        ("LOG_HEAD_BYTES", LOG_HEAD_BYTES as u64),
        ("RECORDS_BYTES_MAX", RECORDS_BYTES_MAX as u64),
    ]);
    let rows = table_of(&pool_page(), "constant");
    let said: BTreeMap<&str, u64> = rows
        .iter()
        .map(|row| (row[0].as_str(), row[1].parse().unwrap()))
        .collect();
    assert_eq!(said, expected);
}

#[test]
fn fields_of_fixed_size_add_up() {
    let expected = BTreeMap::from([
        ("Frame".to_owned(), FRAME_BYTES),
        ("Table of extents".to_owned(), TABLE_PAGE_BYTES),
        ("Log".to_owned(), LOG_HEAD_BYTES),
    ]);
    assert_eq!(fixed_parts(&pool_page()), expected);
}

/// The rows of a table as (name, number).
fn numbers(first: &str) -> BTreeMap<String, u64> {
    let rows = table_of(&pool_page(), first);
    let all = rows.iter().map(|row| (row[0].clone(), row[1].parse().unwrap()));
    all.collect()
}

fn named<T: std::fmt::Debug>(value: &T, number: u64) -> (String, u64) {
    let name = format!("{value:?}");
    let end = name.find([' ', '(']).unwrap_or(name.len());
    (name[..end].to_owned(), number)
}

#[test]
fn kinds_have_the_numbers_of_the_code() {
    let rows = table_of(&pool_page(), "block kind");
    let said: Vec<_> = rows.iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    let expected = BlockKind::ALL.map(|kind| {
        let magic = String::from_utf8(kind.magic().to_vec()).unwrap();
        (format!("{kind:?}"), magic.replace('\n', "\\n"))
    });
    assert_eq!(said, expected);

    let of_records = samples::records()
        .into_iter()
        .map(|record| named(&record, encoded(std::slice::from_ref(&record))[0].into()));
    assert_eq!(numbers("record"), of_records.collect());

    let (taken, birth) = (block(2000), 1);
    let entries = [
        MapEntry::Zero,
        MapEntry::Private { block: taken, birth },
        MapEntry::Counted { block: taken, birth },
    ];
    let of_entries = entries.map(|entry| named(&entry, entry.to_u64() >> 60));
    assert_eq!(numbers("map entry"), BTreeMap::from(of_entries));

    let owners = [
        ExtentOwner::Free,
        ExtentOwner::Granted(volume(1)),
        ExtentOwner::Owned(volume(1)),
        ExtentOwner::Header(volume(1)),
        ExtentOwner::Pool,
    ];
    let of_owners = owners.map(|owner| named(&owner, TableEntry { owner, grants: 0 }.to_u64() >> 61));
    assert_eq!(numbers("owner"), BTreeMap::from(of_owners));
}

#[test]
fn answers_have_the_numbers_of_the_code() {
    let number = |record: Record| u64::from(encoded(&[record])[4]);
    let (batch, from) = (samples::batch(1), 0);
    let found = [
        FoundOutcome::Registered,
        FoundOutcome::Known(block(2000)),
        FoundOutcome::Different(block(2000)),
    ];
    let of_found = found.map(|outcome| {
        let outcomes = vec![outcome];
        named(
            &outcome,
            number(Record::Found {
                batch,
                from,
                outcomes,
            }),
        )
    });
    assert_eq!(numbers("found"), BTreeMap::from(of_found));
    let of_decided = DecidedOutcome::ALL.map(|outcome| {
        let outcomes = vec![outcome];
        named(
            &outcome,
            number(Record::Decided {
                batch,
                from,
                outcomes,
            }),
        )
    });
    assert_eq!(numbers("decided"), BTreeMap::from(of_decided));
}

#[test]
fn packed_fields_are_where_the_page_says() {
    let rows = table_of(&pool_page(), "packed");
    let said: Vec<_> = rows
        .iter()
        .map(|row| [&row[0], &row[1], &row[2]].map(String::as_str))
        .collect();
    let bits = |value: u64| format!("{} to {}", value.trailing_zeros(), 63 - value.leading_zeros());
    let (all, one) = (BlockNumber::MAX, block(pool::VOLUME_BLOCK_MIN));
    let private = |block, birth| MapEntry::Private { block, birth }.to_u64();
    let block_bits = private(all, 0) ^ private(one, 0) | one.get();
    let birth_bits = private(one, BIRTH_MAX) ^ private(one, 0);
    let reference = |block, check| PageReference { block, check }.to_u64();
    let check_bits = reference(one, 0xff_ffff) ^ reference(one, 0);
    let owned = |number, grants| {
        let owner = ExtentOwner::Owned(volume(number));
        TableEntry { owner, grants }.to_u64()
    };
    let grants_bits = owned(1, GRANTS_MAX) ^ owned(1, 0);
    let expected = [
        ["map entry", "block", &bits(block_bits)],
        ["map entry", "birth generation", &bits(birth_bits)],
        ["map entry", "kind", "60 to 63"],
        ["page reference", "block", &bits(reference(all, 0))],
        ["page reference", "check", &bits(check_bits)],
        ["table entry", "volume", "0 to 31"],
        ["table entry", "grants", &bits(grants_bits)],
        ["table entry", "kind", "61 to 63"],
    ];
    assert_eq!(said, expected);
}

#[test]
fn copies_are_where_the_page_says() {
    let page = pool_page();
    let [even, odd] = SUPERBLOCKS;
    let sentence = format!("A superblock with an even counter is written to block {even}, one with an odd");
    assert!(page.contains(&sentence), "{sentence}");
    assert!(page.contains(&format!("counter to block {odd}.")));
}
