use std::io::Read;

use format::listing::{EntryKind, Fence, ListingEntry};
use proptest::prelude::*;

use super::{Fences, ListingReader, ListingWriter};
use crate::testing::entry;
use crate::{TreeError, order};

/// Gives its bytes a few at a time.
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
    assert!(written.listing.len() as u64 > 100 * super::PART_BYTES);
    let mut reader = ListingReader::new(Trickle(&written.listing, 10_007));
    for (entry, offset) in all.iter().zip(&written.offsets) {
        let listed = reader.next_entry().unwrap().unwrap();
        assert_eq!((&listed.entry, listed.content_offset), (entry, *offset));
    }
    assert!(reader.next_entry().unwrap().is_none());
}

#[test]
fn fences_lead_to_every_path_and_what_is_below_it() {
    let all = many(60, 100);
    let written = write(&all);
    let len = written.listing.len() as u64;
    let fences = Fences::read(Trickle(&written.fences, 7), len).unwrap();
    assert!(
        written.fences.len() * 500 < written.listing.len(),
        "fences are few"
    );
    let asked: Vec<&[u8]> = all
        .iter()
        .step_by(41)
        .map(|e| &e.path[..])
        .chain([&b"/000007"[..], b"/0000075"])
        .collect();
    for path in asked {
        let part = fences.part(path).unwrap();
        let from = usize::try_from(part.listing.offset).unwrap();
        let to = usize::try_from(part.listing.end()).unwrap();
        let found: Vec<_> = ListingReader::of_part(&written.listing[from..to], &part)
            .map(Result::unwrap)
            .collect();
        let below = |e: &ListingEntry| order::is_within(&e.path, path);
        let want: Vec<_> = all
            .iter()
            .zip(&written.offsets)
            .filter(|(e, _)| below(e))
            .collect();
        let got: Vec<_> = found
            .iter()
            .filter(|l| below(&l.entry))
            .map(|l| (&l.entry, &l.content_offset))
            .collect();
        assert_eq!(got, want);
        if want.len() == 1 {
            assert!(part.listing.len < 2 * super::PART_BYTES);
        }
    }
    assert!(Fences::read(&[][..], 0).unwrap().part(b"/x").is_none());
}

#[test]
fn what_is_out_of_order_or_impossible_is_refused() {
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
fn fences_out_of_place_are_damage() {
    let fence = |path: &str, at| {
        Fence {
            path: path.into(),
            listing_offset: at,
            content_offset: 0,
        }
        .to_bytes()
    };
    for wrong in [
        fence("/a", 1),
        [fence("/b", 0), fence("/a", 5)].concat(),
        [fence("/a", 0), fence("/b", 0)].concat(),
        [fence("/a", 0), fence("/b", 100)].concat(),
        fence("/a", 0)[1..].to_vec(),
        Vec::new(),
    ] {
        assert!(matches!(
            Fences::read(&wrong[..], 100),
            Err(TreeError::Damaged { .. })
        ));
    }
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
            bytes.truncate(cut.index(bytes.len()) + 1);
            let faults = ListingReader::new(&bytes[..]).filter(Result::is_err).count();
            prop_assert!(faults <= 1);
            let _either = Fences::read(&bytes[..], 1000);
        }
    }
}
