use std::collections::BTreeMap;

use format::listing::{EntryKind, ListingEntry};
use proptest::prelude::*;
use types::{ByteRange, UnixNanos};

use super::{Comparison, Trust, Unchanged, is_settled};
use crate::testing::entry;
use crate::{ListingReader, ListingWriter};

const SECOND: i64 = 1_000_000_000;
const START: i64 = 1000 * SECOND;

fn paths() -> impl Strategy<Value = String> {
    prop::collection::vec("[ab.]?[ab-]", 1..3).prop_map(|parts| format!("/{}", parts.join("/")))
}

fn entries() -> impl Strategy<Value = Vec<ListingEntry>> {
    let time = prop::sample::select(vec![5, 7 * SECOND, START - 1, START - 30_000_000, START - SECOND]);
    let one = (paths(), 0..3u64, time.clone(), time, 0..2u64, 0..8u8);
    prop::collection::vec(one, 0..20).prop_map(|list| {
        let mut sorted: Vec<ListingEntry> = list
            .into_iter()
            .map(|(path, len, mtime, ctime, inode, folder)| {
                let kind = match folder {
                    0 => EntryKind::Folder,
                    _ => EntryKind::File {
                        len,
                        holes: Vec::new(),
                    },
                };
                let (mtime, ctime) = (UnixNanos::new(mtime), UnixNanos::new(ctime));
                ListingEntry {
                    mtime,
                    ctime,
                    inode,
                    ..entry(&path, kind)
                }
            })
            .collect();
        sorted.sort_by(|a, b| crate::order::compare(&a.path, &b.path));
        sorted.dedup_by(|a, b| a.path == b.path);
        sorted
    })
}

/// What the merge must answer, by looking every entry up.
fn naive(
    current: &ListingEntry,
    before: &BTreeMap<Vec<u8>, (ListingEntry, u64)>,
    trust: &Trust,
) -> Comparison {
    let Some((before, offset)) = before.get(&current.path) else {
        return Comparison::New;
    };
    let unchanged = |len, xattrs| Comparison::Unchanged {
        content: ByteRange { offset: *offset, len },
        holes: Vec::new(),
        xattrs,
    };
    match (&current.kind, &before.kind) {
        (EntryKind::Folder, EntryKind::Folder) if current.mtime == before.mtime => unchanged(0, None),
        (EntryKind::File { len: a, .. }, EntryKind::File { len: b, .. }) => {
            let mut same = a == b && current.mtime == before.mtime;
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
            let xattrs = (!trust.ignore_ctime).then(|| before.xattrs.clone());
            if same {
                unchanged(*a, xattrs)
            } else {
                Comparison::Changed
            }
        }
        _ => Comparison::Changed,
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
        // Some of the entries as they were, some of the others.
        let as_before = before.iter().enumerate().filter(|(n, _)| kept >> n & 1 == 1).map(|(_, e)| e.clone());
        let mut now: Vec<_> = as_before.chain(fresh).collect();
        now.sort_by(|a, b| crate::order::compare(&a.path, &b.path));
        now.dedup_by(|a, b| a.path == b.path);

        let mut merge = Unchanged::new(ListingReader::new(&listing[..]), trust);
        for entry in &now {
            prop_assert_eq!(merge.compare_entry(entry), naive(entry, &table, &trust));
        }
        prop_assert!(merge.take_fault().is_none());
    }
}

#[test]
fn times_just_before_the_start_are_not_trusted() {
    let settled = |nanos| is_settled(UnixNanos::new(nanos), UnixNanos::new(START));
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
            ctime: UnixNanos::new(1),
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
        let content = ByteRange {
            offset: 9 * n as u64,
            len: 9,
        };
        assert_eq!(
            merge.compare_entry(entry),
            Comparison::Unchanged {
                content,
                holes: vec![(1, 8)],
                xattrs: Some(Vec::new())
            }
        );
    }
    assert_eq!(merge.compare_entry(&all[2]), Comparison::New);
    assert!(merge.take_fault().is_some());
    assert_eq!(merge.compare_entry(&all[2]), Comparison::New);
}
