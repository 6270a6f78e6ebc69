use std::collections::BTreeMap;

use format::listing::{Content, EntryKind, EntryState, ListingEntry};
use proptest::prelude::*;
use types::{FileTime, UnixNanos};

use super::{Comparison, Trust, Unchanged, is_settled};
use crate::testing::entry;
use crate::{Listed, ListingReader, ListingWriter};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1000 * SECOND;

fn paths() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab.]?[ab-]", 1..3).prop_map(|parts| format!("/{}", parts.join("/")))
}

fn entries() -> impl Strategy<Value = Vec<ListingEntry>> {
    let time = prop::sample::select(vec![5, 7 * SECOND, START - 1, START - 30_000_000, START - SECOND]);
    let state = prop_oneof![
        5 => Just(EntryState::WHOLE),
        1 => Just(EntryState { lacks_attributes: true, ..EntryState::WHOLE }),
        1 => Just(EntryState { content: Content::Older { lead: 0 }, ..EntryState::WHOLE }),
    ];
    let one = (paths(), 0..3u64, time.clone(), time, 0..2u64, 0..8u8, state);
    prop::collection::vec(one, 0..20).prop_map(|list| {
        let mut sorted: Vec<ListingEntry> = list
            .into_iter()
            .map(|(path, len, mtime, ctime, inode, folder, state)| {
                let kind = match folder {
                    0 => EntryKind::Folder,
                    _ => EntryKind::File {
                        len,
                        holes: Vec::new(),
                    },
                };
                let (mtime, ctime) = (UnixNanos::new(mtime).into(), UnixNanos::new(ctime).into());
                ListingEntry {
                    mtime,
                    ctime,
                    inode,
                    state,
                    ..entry(&path, kind)
                }
            })
            .collect();
        sorted.sort_by(|a, b| crate::order::compare(&a.path, &b.path));
        sorted.dedup_by(|a, b| a.path == b.path);
        sorted
    })
}

/// The expected answers, found by looking every entry up.
fn naive(
    current: &ListingEntry,
    before: &BTreeMap<Vec<u8>, (ListingEntry, u64)>,
    trust: &Trust,
) -> Comparison {
    let Some((before, offset)) = before.get(&current.path) else {
        return Comparison::New;
    };
    let listed = Box::new(Listed {
        entry: before.clone(),
        content_offset: *offset,
    });
    let (EntryKind::File { len: a, .. }, EntryKind::File { len: b, .. }) = (&current.kind, &before.kind)
    else {
        return Comparison::Changed(listed);
    };
    let mut same = a == b && current.mtime == before.mtime && before.state == EntryState::WHOLE;
    same &= trust.ignore_inode || current.inode == before.inode;
    same &= trust.ignore_ctime || current.ctime == before.ctime;
    same &= is_settled(
        if trust.ignore_ctime {
            current.mtime
        } else {
            current.ctime
        },
        trust.previous_start,
    );
    if same {
        Comparison::Unchanged(listed)
    } else {
        Comparison::Changed(listed)
    }
}

proptest! {
    #[test]
    fn merging_answers_as_looking_up_does(
        before in entries(),
        fresh in entries(),
        kept in any::<u64>(),
        ignore_ctime: bool,
        ignore_inode: bool,
    ) {
        let trust = Trust { previous_start: UnixNanos::new(START), ignore_ctime, ignore_inode };
        let (mut listing, mut fences) = (Vec::new(), Vec::new());
        let mut writer = ListingWriter::new();
        let mut table = BTreeMap::new();
        for entry in &before {
            let offset = writer.push(entry, &mut listing, &mut fences).unwrap();
            table.insert(entry.path.clone(), (entry.clone(), offset));
        }
        // Some entries unchanged, and some of the others.
        let as_before = before.iter().enumerate().filter(|(n, _)| kept >> n & 1 == 1).map(|(_, e)| e.clone());
        let mut now: Vec<_> = as_before.chain(fresh).collect();
        now.sort_by(|a, b| crate::order::compare(&a.path, &b.path));
        now.dedup_by(|a, b| a.path == b.path);

        let mut merge = Unchanged::new(ListingReader::new(&listing[..]), trust);
        let mut passing = Unchanged::new(ListingReader::new(&listing[..]), trust);
        let mut passed = Vec::new();
        for entry in &now {
            while let Some(listed) = passing.next_passed(Some(&entry.path)) {
                passed.push(listed.entry.path);
            }
            passing.pass(&entry.path);
            prop_assert_eq!(merge.compare_entry(entry), naive(entry, &table, &trust));
        }
        prop_assert!(merge.take_fault().is_none());
        passed.extend(std::iter::from_fn(|| passing.next_passed(None)).map(|listed| listed.entry.path));
        let is_met = |path: &Vec<u8>| now.iter().any(|entry| entry.path == *path);
        let missed: Vec<_> = before.into_iter().map(|e| e.path).filter(|path| !is_met(path)).collect();
        prop_assert_eq!(passed, missed);
    }
}

#[test]
fn times_just_before_the_start_are_not_trusted() {
    let settled = |nanos| is_settled(UnixNanos::new(nanos).into(), UnixNanos::new(START));
    assert!(!settled(START + 1) && !settled(START - 1) && !settled(START - 19_999_999));
    assert!(settled(START - 20_000_001));
    assert!(
        !settled(START - SECOND) && !settled(START - 2 * SECOND),
        "whole seconds have long ticks"
    );
    assert!(settled(START - 3 * SECOND));
}

#[test]
fn a_damaged_listing_makes_the_rest_new() {
    let (mut listing, mut fences) = (Vec::new(), Vec::new());
    let mut writer = ListingWriter::new();
    let mut ends = Vec::new();
    let all: Vec<_> = ["/a", "/b", "/c"]
        .map(|path| ListingEntry {
            ctime: FileTime::new(0, 1),
            ..entry(
                path,
                EntryKind::File {
                    len: 9,
                    holes: vec![(1, 8)],
                },
            )
        })
        .into();
    for entry in &all {
        writer.push(entry, &mut listing, &mut fences).unwrap();
        ends.push(listing.len());
    }
    listing.truncate(ends[1] + 5);
    let trust = Trust {
        previous_start: UnixNanos::new(START),
        ignore_ctime: false,
        ignore_inode: false,
    };
    let mut merge = Unchanged::new(ListingReader::new(&listing[..]), trust);
    for (n, entry) in all.iter().enumerate().take(2) {
        let before = Listed {
            entry: entry.clone(),
            content_offset: 9 * n as u64,
        };
        assert_eq!(
            merge.compare_entry(entry),
            Comparison::Unchanged(Box::new(before))
        );
    }
    assert_eq!(merge.compare_entry(&all[2]), Comparison::New);
    assert!(merge.take_fault().is_some());
    assert_eq!(merge.compare_entry(&all[2]), Comparison::New);
}
