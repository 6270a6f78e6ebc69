use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::ops::Range;

use format::listing::{Branch, EntryKind, FENCE_LEVEL_MAX, Fence, FencePage, ListingEntry};
use proptest::prelude::*;

use super::{Fences, ListingPlace, ListingReader, ListingWriter};
use crate::testing::entry;
use crate::{TreeError, order};

/// Returns its bytes a few at a time.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.len().min(out.len()).min(self.1);
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

struct Written {
    listing: Vec<u8>,
    fences: Vec<u8>,
    offsets: Vec<u64>,
}

impl Written {
    fn fences(&self) -> Fences {
        Fences::new(self.fences.len() as u64, self.listing.len() as u64)
    }
}

/// Returns ranges of the bytes, and counts the calls.
fn counted<'a>(
    bytes: &'a [u8],
    reads: &'a Cell<usize>,
) -> impl FnMut(Range<u64>) -> io::Result<Vec<u8>> + 'a {
    move |range| {
        reads.set(reads.get() + 1);
        let at = |offset: u64| usize::try_from(offset).unwrap();
        Ok(bytes[at(range.start)..at(range.end)].to_vec())
    }
}

/// Finds a path by fences of a listing of this length.
fn find(fences: &[u8], listing_len: u64, path: &[u8]) -> Result<Option<ListingPlace>, TreeError> {
    Fences::new(fences.len() as u64, listing_len).find(path, &mut counted(fences, &Cell::new(0)))
}

fn write(entries: &[ListingEntry]) -> Written {
    let mut written = Written {
        listing: Vec::new(),
        fences: Vec::new(),
        offsets: Vec::new(),
    };
    let mut writer = ListingWriter::new();
    for entry in entries {
        written.offsets.push(
            writer
                .push(entry, &mut written.listing, &mut written.fences)
                .unwrap(),
        );
    }
    assert_eq!(writer.listing_len(), written.listing.len() as u64);
    writer.finish(&mut written.fences);
    written
}

/// Folders of files with long names, in order.
fn many(folders: usize, files: usize) -> Vec<ListingEntry> {
    let mut all = vec![entry("/", EntryKind::Folder)];
    for folder in 0..folders {
        all.push(entry(&format!("/{folder:06}"), EntryKind::Folder));
        for file in 0..files {
            let kind = EntryKind::File {
                len: (folder * file) as u64,
                holes: Vec::new(),
            };
            all.push(entry(&format!("/{folder:06}/{file:060}"), kind));
        }
    }
    all
}

#[test]
fn a_hundred_thousand_entries_stream_through() {
    let all = many(100, 1000);
    let written = write(&all);
    assert!(written.listing.len() > 6 << 20);
    let mut reader = ListingReader::new(Trickle(&written.listing, 10_007));
    for (entry, offset) in all.iter().zip(&written.offsets) {
        let listed = reader.next_entry().unwrap().unwrap();
        assert_eq!((&listed.entry, listed.content_offset), (entry, *offset));
    }
    assert!(reader.next_entry().unwrap().is_none());
}

/// The entries of a path and below it, read from the place that the fences give.
fn found_at(written: &Written, place: &ListingPlace, path: &[u8]) -> (Vec<(ListingEntry, u64)>, u64) {
    let from = usize::try_from(place.listing_offset).unwrap();
    let mut reader = ListingReader::from_place(&written.listing[from..], place);
    let mut found = Vec::new();
    while let Some(listed) = reader.next_entry().unwrap() {
        if order::is_within(&listed.entry.path, path) {
            found.push((listed.entry, listed.content_offset));
        } else if order::compare(&listed.entry.path, path).is_gt() {
            break;
        }
    }
    (found, reader.offset() - place.listing_offset)
}

#[test]
fn fences_lead_to_every_path_and_its_subtree() {
    // Pages above pages.
    let all = many(500, 400);
    let written = write(&all);
    assert!(
        written.fences.len() * 300 < written.listing.len(),
        "fences are few: {} bytes for {}",
        written.fences.len(),
        written.listing.len()
    );
    let asked: Vec<&[u8]> = all
        .iter()
        .step_by(1009)
        .map(|e| &e.path[..])
        .chain([&b"/000007"[..], b"/0000075", b"/zzz", b"/000499"])
        .collect();
    let (reads, unread) = (Cell::new(0), Cell::new(0));
    let mut kept = written.fences();
    for path in &asked {
        let place = written.fences().find(path, &mut counted(&written.fences, &reads));
        let place = place.unwrap().unwrap();
        // The cached pages of an earlier path make no difference.
        let again = kept.find(path, &mut counted(&written.fences, &unread));
        assert_eq!(again.unwrap().as_ref(), Some(&place));
        let (found, read) = found_at(&written, &place, path);
        let below = |e: &ListingEntry| order::is_within(&e.path, path);
        let want: Vec<_> = all
            .iter()
            .zip(&written.offsets)
            .filter(|(e, _)| below(e))
            .map(|(entry, offset)| (entry.clone(), *offset))
            .collect();
        assert_eq!(found, want);
        if want.len() <= 1 {
            assert!(read <= 129 << 10, "{read} bytes of listing for one entry");
        }
    }
    assert!(reads.get() <= 3 * asked.len(), "{} reads", reads.get());

    // In listing order each page is read once.
    reads.set(0);
    let (mut fences, mut read) = (written.fences(), counted(&written.fences, &reads));
    for entry in &all {
        assert!(fences.find(&entry.path, &mut read).unwrap().is_some());
    }
    assert!(reads.get() < 200, "{} reads", reads.get());
    assert!(find(&[], 0, b"/x").unwrap().is_none());
}

/// The place of a path before the first entry is the first entry.
#[test]
fn a_path_before_all_entries_leads_to_the_first() {
    let written = write(&many(1, 3)[1..]);
    let place = find(&written.fences, written.listing.len() as u64, b"/");
    let place = place.unwrap().unwrap();
    assert_eq!((&place.path[..], place.listing_offset), (&b"/000000"[..], 0));
    assert_eq!(found_at(&written, &place, b"/").0.len(), 4);
}

/// Pages of paths that are as long as a page still have fewer pages above them.
#[test]
fn fences_of_the_longest_paths_are_a_tree_too() {
    let long = "/".to_owned() + &vec!["x".repeat(200); 320].join("/");
    let names: Vec<_> = (0..400).map(|n| format!("{long}/{n:03}")).collect();
    let all: Vec<_> = names.iter().map(|name| entry(name, EntryKind::Folder)).collect();
    let written = write(&all);
    let (pages, trailer) = written.fences.split_last_chunk().unwrap();
    let root = &pages[pages.len() - usize::try_from(u32::from_le_bytes(*trailer)).unwrap()..];
    let (root, _) = FencePage::decode_one(root).unwrap().unwrap();
    assert_eq!(root.level, 2, "{} fences", root.fences.len());
    let reads = Cell::new(0);
    for name in names.iter().step_by(57) {
        let place = written
            .fences()
            .find(name.as_bytes(), &mut counted(&written.fences, &reads));
        let (found, _) = found_at(&written, &place.unwrap().unwrap(), name.as_bytes());
        assert_eq!(found.len(), 1);
    }
    assert!(reads.get() <= 5 * 8, "{} reads", reads.get());
}

/// A change costs the pages above it, and not all later fences.
#[test]
fn fences_of_an_unchanged_listing_have_the_same_bytes() {
    let all = many(300, 400);
    let mut changed = all.clone();
    let EntryKind::File { len, .. } = &mut changed[60_000].kind else {
        panic!("{:?}", changed[60_000])
    };
    *len += 1_000_000;
    changed.remove(30_000);
    let (before, after) = (write(&all).fences, write(&changed).fences);
    // Cut like chunks: the pieces of the later stream that the earlier one has.
    let pieces = |bytes: &[u8]| -> BTreeSet<Vec<u8>> {
        let ends = bytes.windows(7).enumerate();
        let ends = ends
            .filter(|(_, w)| format::wire::digest(w).is_multiple_of(128))
            .map(|(at, _)| at);
        let mut begin = 0;
        ends.chain([bytes.len()])
            .map(|end| bytes[std::mem::replace(&mut begin, end)..end].to_vec())
            .collect()
    };
    let known = pieces(&before);
    let new: usize = pieces(&after).difference(&known).map(Vec::len).sum();
    assert!(new * 4 < after.len(), "{new} of {} bytes are new", after.len());
}

#[test]
fn entries_out_of_order_or_impossible_are_refused() {
    let (mut listing, mut fences) = (Vec::new(), Vec::new());
    let mut writer = ListingWriter::new();
    let mut push = |entry: &ListingEntry| writer.push(entry, &mut listing, &mut fences);
    push(&entry("/a/b", EntryKind::Folder)).unwrap();
    assert!(matches!(
        push(&entry("/a/b", EntryKind::Folder)),
        Err(TreeError::Order { .. })
    ));
    assert!(matches!(
        push(&entry("/a", EntryKind::Folder)),
        Err(TreeError::Order { .. })
    ));
    let holes = EntryKind::File {
        len: 1,
        holes: vec![(0, 2)],
    };
    assert!(matches!(
        push(&entry("/b", holes)),
        Err(TreeError::Unlistable { .. })
    ));
    push(&entry("/a.b", EntryKind::Fifo)).unwrap();
    assert_eq!(ListingReader::new(&listing[..]).map(Result::unwrap).count(), 2);

    let mut swapped = Vec::new();
    entry("/b", EntryKind::Folder).encode(&mut swapped);
    entry("/a", EntryKind::Folder).encode(&mut swapped);
    let read: Vec<_> = ListingReader::new(&swapped[..]).collect();
    assert!(matches!(read[..], [Ok(_), Err(TreeError::Damaged { .. })]));
}

#[test]
fn offsets_that_overflow_are_damage() {
    let mut listing = Vec::new();
    for path in ["/a", "/b"] {
        entry(
            path,
            EntryKind::File {
                len: u64::MAX / 2 + 1,
                holes: Vec::new(),
            },
        )
        .encode(&mut listing);
    }
    let read: Vec<_> = ListingReader::new(&listing[..]).collect();
    assert!(matches!(read[..], [Ok(_), Err(TreeError::Damaged { .. })]));
}

#[test]
fn fences_that_do_not_fit_together_are_damage() {
    let fence = |path: &str, listing_len, below| Fence {
        path: path.into(),
        listing_len,
        content_len: 0,
        below,
    };
    let page = |level, fences| FencePage { level, fences }.to_bytes();
    let stream = |pages: &[&[u8]]| {
        let trailer = u32::try_from(pages.last().unwrap().len()).unwrap();
        [&pages.concat(), &trailer.to_le_bytes()[..]].concat()
    };
    let low = page(0, vec![fence("/a", 60, None), fence("/b", 40, None)]);
    let to = |page_len: usize, tree_len: usize| {
        Some(Branch {
            page_len: page_len as u64,
            tree_len: tree_len as u64,
        })
    };
    let root = |path, listing_len, level, below| page(level, vec![fence(path, listing_len, below)]);
    let is_damage = |stream: &[u8]| {
        let found = find(stream, 100, b"/b");
        assert!(
            matches!(found, Ok(Some(_)) | Err(TreeError::Damaged { .. })),
            "{found:?}"
        );
        found.is_err()
    };
    let endless = |path| Fence {
        content_len: u64::MAX,
        ..fence(path, 50, None)
    };
    let len = low.len();
    assert!(!is_damage(&stream(&[&low])));
    assert!(!is_damage(&stream(&[&low, &root("/a", 100, 1, to(len, len))])));
    for wrong in [
        stream(&[&low, &root("/", 100, 1, to(len, len))]),
        stream(&[&low, &root("/a", 99, 1, to(len, len))]),
        stream(&[&low, &root("/a", 100, 2, to(len, len))]),
        stream(&[&low, &root("/a", 100, 1, to(len - 1, len))]),
        stream(&[&low, &root("/a", 100, 1, to(len, len + 1))]),
        stream(&[&low, &low, &root("/a", 100, 1, to(len, len))]),
        stream(&[&page(0, vec![fence("/b", 60, None), fence("/a", 40, None)])]),
        stream(&[&page(0, vec![fence("/a", 60, None)])]),
        // Lengths that overflow.
        stream(&[&page(
            0,
            vec![fence("/a", u64::MAX, None), fence("/b", 101, None)],
        )]),
        stream(&[&page(0, vec![endless("/a"), endless("/b")])]),
        stream(&[&page(
            1,
            vec![fence("/a", 100, to(len, usize::MAX)), fence("/b", 1, to(1, 1))],
        )]),
        // No page is below it but itself.
        stream(&[&root("/a", 100, 1, to(len, len))]),
        stream(&[&low])[1..].to_vec(),
        stream(&[&low])[..len].to_vec(),
        vec![0; 3],
        vec![0; 4],
        vec![0xff; 40],
        Vec::new(),
    ] {
        assert!(is_damage(&wrong), "{wrong:?}");
    }
}

/// A tree of the highest level is read to its end.
#[test]
fn pages_of_all_levels_lead_to_a_part() {
    let fence = |below| Fence {
        path: b"/a".to_vec(),
        listing_len: 100,
        content_len: 0,
        below,
    };
    let (mut stream, mut below, mut page_len) = (Vec::new(), None, 0);
    for level in 0..=FENCE_LEVEL_MAX {
        let page = FencePage {
            level,
            fences: vec![fence(below)],
        }
        .to_bytes();
        stream.extend_from_slice(&page);
        page_len = page.len();
        below = Some(Branch {
            page_len: page_len as u64,
            tree_len: stream.len() as u64,
        });
    }
    stream.extend_from_slice(&u32::try_from(page_len).unwrap().to_le_bytes());
    let place = find(&stream, 100, b"/b").unwrap().unwrap();
    assert_eq!((&place.path[..], place.listing_offset), (&b"/a"[..], 0));
}

proptest! {
    /// INV-8: damaged streams end in an error or in other entries, never in a panic.
    #[test]
    fn damage_is_an_error_at_worst(at in any::<prop::sample::Index>(), flip in 1..=255u8, cut in any::<prop::sample::Index>()) {
        let written = write(&many(2, 3));
        for stream in [&written.listing, &written.fences] {
            let mut bytes = stream.clone();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let _either = find(&bytes, written.listing.len() as u64, b"/000001");
            bytes.truncate(cut.index(bytes.len()) + 1);
            let faults = ListingReader::new(&bytes[..]).filter(Result::is_err).count();
            prop_assert!(faults <= 1);
            let _either = find(&bytes, 1000, b"/000001");
        }
    }
}
