use std::ops::ControlFlow;

use format::listing::{EntryKind, Fence, FencePage, ListingEntry};
use proptest::prelude::*;
use recipe::{NodeCache, TreeRoot};
use tree::{Base, Difference, ExcludeBuilder, Include, Listed, ListingWriter, RestoreOptions, order};

use super::{BackupListing, FenceFault, Wanted};
use crate::test_store::{containers, store};
use crate::tree_tests::entry;

/// A listing in a store, with its fences.
struct Stored {
    nodes: NodeCache,
    all: Vec<Listed>,
    listing: TreeRoot,
    fences: Vec<(&'static str, Option<TreeRoot>)>,
}

/// Folders in folders, and fences of every kind: right ones first.
fn stored() -> Stored {
    let mut entries = vec![entry("/", EntryKind::Folder), entry("/top", EntryKind::Folder)];
    for folder in 0..30 {
        entries.push(entry(&format!("/top/{folder:02}"), EntryKind::Folder));
        for file in 0..100 {
            let kind = EntryKind::File {
                len: 7 * folder + file,
                holes: Vec::new(),
            };
            entries.push(entry(&format!("/top/{folder:02}/{file:060}"), kind));
        }
    }
    let (mut listing, mut fences, mut writer) = (Vec::new(), Vec::new(), ListingWriter::new());
    let mut later = 0;
    let all = entries.into_iter().map(|entry| {
        if entry.path == b"/top/15" {
            later = listing.len();
        }
        Listed {
            content_offset: writer.push(&entry, &mut listing, &mut fences).unwrap(),
            entry,
        }
    });
    let all: Vec<_> = all.collect();
    writer.finish(&mut fences);
    assert!(listing.len() > 200 << 10, "several parts");

    // Two bad fences: one leads into a record, and one to a later entry.
    let of = |path: &[u8], listing_len: usize| Fence {
        path: path.to_vec(),
        listing_len: listing_len as u64,
        content_len: 0,
        below: None,
    };
    let leading_to = |place: usize| {
        let mut page = FencePage {
            level: 0,
            fences: vec![of(b"/", place), of(b"/top/10", listing.len() - place)],
        }
        .to_bytes();
        let trailer = u32::try_from(page.len()).unwrap().to_le_bytes();
        page.extend(trailer);
        page
    };
    let (astray, too_far) = (leading_to(listing.len() / 2 + 1), leading_to(later));

    let containers = containers();
    let stored = |number, bytes: &[u8]| store(&containers, number, bytes);
    let (listing, fences) = (stored(1, &listing), stored(2000, &fences));
    let (astray, too_far) = (stored(3000, &astray), stored(4000, &too_far));
    Stored {
        nodes: NodeCache::new(containers, 1 << 20),
        all,
        listing,
        fences: vec![
            ("right", Some(fences)),
            ("none", None),
            ("of another stream", Some(listing)),
            ("leading astray", Some(astray)),
            ("leading too far", Some(too_far)),
        ],
    }
}

impl Stored {
    fn read(&self, fences: Option<TreeRoot>, wanted: Wanted) -> (Vec<Listed>, Option<FenceFault>) {
        let listing = BackupListing::new(&self.nodes, self.listing, fences);
        let mut entries = listing.entries(wanted).unwrap();
        let found = std::iter::from_fn(|| entries.next_entry().unwrap()).collect();
        (found, listing.fault())
    }

    fn filtered(&self, is_wanted: impl Fn(&ListingEntry) -> bool) -> Vec<Listed> {
        self.all
            .iter()
            .filter(|listed| is_wanted(&listed.entry))
            .cloned()
            .collect()
    }
}

/// A path that the listing has, almost has, or has entries below.
fn path() -> impl Strategy<Value = Vec<u8>> {
    (0..32usize, 0..105usize, 0..5u8).prop_map(|(folder, file, what)| {
        match what {
            0 => format!("/top/{folder:02}"),
            1 => format!("/top/{folder:02}/{file:060}"),
            2 => format!("/top/{folder:02}/{file:059}"),
            3 => format!("/top/{folder:02}-"),
            _ => ["/", "/top", "/to", "/zzz", "/a"][file % 5].to_owned(),
        }
        .into_bytes()
    })
}

#[test]
fn entries_match_those_of_a_scan_with_any_fences() {
    let stored = stored();
    let paths = prop::collection::vec(path(), 0..6);
    proptest!(|(paths in paths)| {
        for (what, fences) in &stored.fences {
            let (found, fault) = stored.read(*fences, Wanted::below(paths.clone()));
            let want = stored.filtered(|e| paths.iter().any(|path| order::is_within(&e.path, path)));
            prop_assert!(found == want, "fences {}: {:?}", what, paths);
            prop_assert!(fault.is_none() || *what != "right");
            let (found, _) = stored.read(*fences, Wanted::just(paths.clone()));
            let want = stored.filtered(|e| paths.contains(&e.path));
            prop_assert!(found == want, "fences {}: just {:?}", what, paths);
        }
    });
}

#[test]
fn useless_fences_are_reported_when_they_are_needed() {
    let stored = stored();
    let path = b"/top/20".to_vec();
    for (what, fences) in &stored.fences {
        let (_, fault) = stored.read(*fences, Wanted::all());
        assert!(fault.is_none(), "fences {what}: {fault:?}");
        let (found, fault) = stored.read(*fences, Wanted::below([path.clone()]));
        assert_eq!(found.len(), 101);
        assert_eq!(fault.is_some(), *what != "right", "fences {what}: {fault:?}");
    }
}

/// The entries that a restore reads include all entries that it restores, and the folders above
/// them.
#[test]
fn a_restore_reads_the_requested_entries_and_the_folders_above() {
    let stored = stored();
    let right = stored.fences[0].1;
    let patterns = |pattern: &str| {
        let mut builder = ExcludeBuilder::new();
        builder.add(pattern, false).unwrap();
        builder.build().unwrap()
    };
    let read = |paths: &[&str], pattern: Option<&str>, base: &str| {
        let options = RestoreOptions {
            include: Include {
                paths: paths.iter().map(|path| path.as_bytes().to_vec()).collect(),
                patterns: pattern.map(patterns).unwrap_or_default(),
                ..Include::default()
            },
            base: base.into(),
            ..RestoreOptions::default()
        };
        let (found, _) = stored.read(right, Wanted::by_restore(&options));
        let paths = found
            .into_iter()
            .map(|listed| String::from_utf8(listed.entry.path).unwrap());
        paths.collect::<Vec<_>>()
    };
    let file = format!("/top/03/{:060}", 5);
    assert_eq!(read(&[&file], None, ""), ["/", "/top", "/top/03", &file]);
    assert_eq!(read(&[&file], None, "/top/03"), ["/top/03", &file]);
    assert_eq!(read(&[&file], None, "/top/04"), [""; 0]);
    assert_eq!(read(&[], None, "/top/04").len(), 101);
    assert_eq!(read(&["/top"], None, "/top/04").len(), 101);
    assert_eq!(read(&["/top/07"], Some("/top/05/*1"), "").len(), 2 + 2 * 101);
    assert_eq!(read(&["/top/07"], Some("*1"), "").len(), stored.all.len());
    assert_eq!(read(&[], None, "").len(), stored.all.len());
}

/// The differences of the listing and a changed one, with any fences: those of the entries.
#[test]
fn differences_are_those_of_the_entries_with_any_fences() {
    let stored = stored();
    let change = |entry: &ListingEntry, round: usize| {
        let mut entry = entry.clone();
        let is_meant = |path: &[u8]| entry.path.starts_with(path);
        match round {
            // As long as before, near the end.
            _ if is_meant(b"/top/27/00") && entry.path.ends_with(b"33") => entry.mode ^= 1,
            // All that follows is at another offset.
            1 if is_meant(b"/top/13/00") && entry.path.ends_with(b"07") => return None,
            1 if is_meant(b"/top/29") => entry.uid += 1,
            _ => {}
        }
        Some(entry)
    };
    for round in 0..2 {
        let entries = { stored.all.iter() }.filter_map(|listed| change(&listed.entry, round));
        let (mut listing, mut fences, mut writer) = (Vec::new(), Vec::new(), ListingWriter::new());
        let listed = |entry: ListingEntry| Listed {
            content_offset: writer.push(&entry, &mut listing, &mut fences).unwrap(),
            entry,
        };
        let all: Vec<Listed> = entries.map(listed).collect();
        writer.finish(&mut fences);
        let containers = stored.nodes.containers();
        let at = 10_000 * (1 + u32::try_from(round).unwrap());
        let (root, fences) = (
            store(containers, at, &listing),
            store(containers, at + 5000, &fences),
        );
        let want: Vec<Difference> = { stored.all.iter() }
            .filter_map(|before| {
                let path = &before.entry.path;
                let after = all.iter().find(|after| after.entry.path == *path);
                let is_same = after.is_some_and(|after| after.entry == before.entry);
                (!is_same).then(|| Difference {
                    before: Some(before.clone()),
                    after: after.cloned(),
                })
            })
            .collect();
        assert_eq!(want.len(), [1, 103][round]);
        for (what, of_first) in &stored.fences {
            for of_second in [Some(fences), None] {
                let before = BackupListing::new(&stored.nodes, stored.listing, *of_first);
                let after = BackupListing::new(&stored.nodes, root, of_second);
                let mut found = Vec::new();
                let each = |difference, _| {
                    found.push(difference);
                    ControlFlow::<()>::Continue(())
                };
                let walked = super::for_each_difference(&before, &after, &Base::default(), each);
                assert!(walked.unwrap().is_continue());
                assert!(found == want, "round {round}, fences {what}");
                let is_right = *what == "right" && of_second.is_some();
                assert!(!is_right || before.fault().is_none() && after.fault().is_none());
            }
        }
    }
}
