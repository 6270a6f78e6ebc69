//! Random changes of listings, against two sorted maps.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::Range;

use format::listing::{EntryKind, ListingEntry};
use proptest::prelude::*;
use proptest::sample::Index;
use types::ByteRange;

use super::{Base, ComparedListing, Comparing, Fences, ListingPlace, ListingReader, ListingWriter};
use super::{Listed, UnequalParts};
use crate::testing::entry;
use crate::{TreeError, order};

/// Folders of the first listing.
const FOLDERS: usize = 40;
/// Files of a folder.
const FILES: usize = 60;

/// A listing in memory, and what was read of it.
struct Held {
    listing: Vec<u8>,
    fences: Vec<u8>,
    all: Vec<Listed>,
    has_fences: bool,
    read: Cell<usize>,
    given_up: Cell<u32>,
}

impl Held {
    fn new(entries: impl IntoIterator<Item = ListingEntry>) -> Self {
        let (mut listing, mut fences, mut writer) = (Vec::new(), Vec::new(), ListingWriter::new());
        let listed = |entry: ListingEntry| Listed {
            content_offset: writer.push(&entry, &mut listing, &mut fences).unwrap(),
            entry,
        };
        let all = entries.into_iter().map(listed).collect();
        writer.finish(&mut fences);
        Self {
            listing,
            fences,
            all,
            has_fences: true,
            read: Cell::new(0),
            given_up: Cell::new(0),
        }
    }
}

/// Counts what is read.
struct Counted<'a>(&'a [u8], &'a Cell<usize>);

impl Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.read(&mut out[..4096])?;
        self.1.set(self.1.get() + n);
        Ok(n)
    }
}

impl<'a> ComparedListing for &'a Held {
    type Source = Counted<'a>;

    fn read_from(&self, place: &ListingPlace) -> Result<ListingReader<Counted<'a>>, TreeError> {
        let from = usize::try_from(place.listing_offset).unwrap();
        Ok(ListingReader::from_place(
            Counted(&self.listing[from..], &self.read),
            place,
        ))
    }

    fn part_at(&self, offset: u64) -> Option<ListingPlace> {
        let mut fences = Fences::new(self.fences.len() as u64, self.listing.len() as u64);
        let mut read = |range: Range<u64>| {
            let at = |offset: u64| usize::try_from(offset).unwrap();
            Ok(self.fences[at(range.start)..at(range.end)].to_vec())
        };
        let found = fences.find_offset(offset, &mut read).unwrap();
        found.filter(|_| self.has_fences)
    }

    fn give_up_parts(&self) {
        self.given_up.set(self.given_up.get() + 1);
    }
}

fn name(folder: usize, file: usize) -> String {
    format!("/top/{folder:04}/{file:0180}")
}

fn file(path: &str, len: u64) -> ListingEntry {
    let holes = Vec::new();
    entry(path, EntryKind::File { len, holes })
}

fn map(entries: impl IntoIterator<Item = ListingEntry>) -> BTreeMap<Vec<Vec<u8>>, ListingEntry> {
    let key = |path: &[u8]| order::components(path).map(<[u8]>::to_vec).collect();
    entries
        .into_iter()
        .map(|entry| (key(&entry.path), entry))
        .collect()
}

fn first() -> Vec<ListingEntry> {
    let mut all = vec![entry("/", EntryKind::Folder), entry("/top", EntryKind::Folder)];
    for folder in 0..FOLDERS {
        all.push(entry(&format!("/top/{folder:04}"), EntryKind::Folder));
        all.extend((0..FILES).map(|number| file(&name(folder, number), (folder * number) as u64)));
    }
    all
}

/// A change of a listing.
#[derive(Debug, Clone)]
enum Edit {
    Remove(Index),
    Grow(Index, u64),
    Add(Index, String),
    RemoveFolder(usize),
    AddFolder(usize, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        3 => any::<Index>().prop_map(Edit::Remove),
        3 => (any::<Index>(), 1..9u64).prop_map(|(index, by)| Edit::Grow(index, by)),
        3 => (any::<Index>(), "[a-z.]{1,300}x").prop_map(|(index, name)| Edit::Add(index, name)),
        1 => (0..FOLDERS).prop_map(Edit::RemoveFolder),
        1 => (0..FOLDERS, 1..99usize).prop_map(|(folder, files)| Edit::AddFolder(folder, files)),
    ]
}

fn changed(edits: &[Edit]) -> Vec<ListingEntry> {
    let mut all = first();
    for edit in edits {
        match edit {
            Edit::Remove(index) => drop(all.remove(2 + index.index(all.len() - 2))),
            Edit::Grow(index, by) => {
                let count = all.len();
                if let EntryKind::File { len, .. } = &mut all[index.index(count)].kind {
                    *len += by;
                }
            }
            Edit::Add(index, name) => {
                let near = String::from_utf8(index.get(&all).path.clone()).unwrap();
                all.push(file(&format!("{}-{name}", near.trim_end_matches('/')), 7));
            }
            Edit::RemoveFolder(folder) => {
                let path = format!("/top/{folder:04}");
                all.retain(|entry| !order::is_within(&entry.path, path.as_bytes()));
            }
            Edit::AddFolder(folder, files) => {
                let path = format!("/top/{folder:04}+");
                all.push(entry(&path, EntryKind::Folder));
                all.extend((0..*files).map(|number| file(&format!("{path}/{number:0150}"), 3)));
            }
        }
        // A name may be added below one that has been removed, or twice.
        all = map(all)
            .into_values()
            .filter(|entry| entry.path.starts_with(b"/"))
            .collect();
    }
    all
}

/// Cuts where a hash of the last bytes says so.
fn chunks(bytes: &[u8], mask: u128) -> Vec<&[u8]> {
    let mut begin = 0;
    let ends = (8..bytes.len()).filter(|at| format::wire::digest(&bytes[at - 8..*at]) & mask == 0);
    let ends: Vec<usize> = ends.chain([bytes.len()]).collect();
    ends.into_iter()
        .map(|end| &bytes[std::mem::replace(&mut begin, end)..end])
        .filter(|chunk| !chunk.is_empty())
        .collect()
}

/// The ranges between equal chunks, which are matched greedily in order.
fn parts(before: &Held, after: &Held, mask: u128) -> Vec<Result<UnequalParts, TreeError>> {
    let (a, b) = (chunks(&before.listing, mask), chunks(&after.listing, mask));
    let places: HashMap<&[u8], usize> = b.iter().enumerate().map(|(at, chunk)| (*chunk, at)).collect();
    let (mut next, mut at) = (0, (0, 0));
    let (mut begin, mut found) = ((0, 0), Vec::new());
    let len = |chunks: &[&[u8]]| chunks.iter().map(|chunk| chunk.len() as u64).sum::<u64>();
    let pairs = a.iter().enumerate().filter_map(|(of_a, chunk)| {
        let of_b = *places.get(chunk).filter(|place| **place >= next)?;
        next = of_b + 1;
        Some((of_a, of_b))
    });
    for (of_a, of_b) in pairs.chain([(a.len(), b.len())]).collect::<Vec<_>>() {
        let (len_a, len_b) = (len(&a[at.0..of_a]), len(&b[at.1..of_b]));
        let range = |offset, len| ByteRange { offset, len };
        if len_a + len_b > 0 {
            found.push(Ok(UnequalParts {
                before: range(begin.0, len_a),
                after: range(begin.1, len_b),
            }));
        }
        let same = a.get(of_a).map_or(0, |chunk| chunk.len() as u64);
        begin = (begin.0 + len_a + same, begin.1 + len_b + same);
        at = (of_a + 1, of_b + 1);
    }
    found
}

type Pair = (Option<Listed>, Option<Listed>);

fn compared(
    before: &Held,
    after: &Held,
    base: &Base,
    parts: Vec<Result<UnequalParts, TreeError>>,
) -> Vec<Pair> {
    let mut walk = Comparing::new(&before, &after, base, parts.into_iter());
    let mut found = Vec::new();
    while let Some(difference) = walk.next_difference().unwrap() {
        found.push((difference.before, difference.after));
    }
    found
}

/// The differences of two sorted maps.
fn model(before: &Held, after: &Held, base: &Base) -> Vec<Pair> {
    let mut all: BTreeMap<Vec<Vec<u8>>, Pair> = BTreeMap::new();
    let mut add = |held: &Held, base: &[u8], is_after: bool| {
        for listed in held
            .all
            .iter()
            .filter(|listed| order::is_within(&listed.entry.path, base))
        {
            let path = &listed.entry.path[base.len()..];
            let key = order::components(path).map(<[u8]>::to_vec).collect();
            let pair = all.entry(key).or_default();
            *(if is_after { &mut pair.1 } else { &mut pair.0 }) = Some(listed.clone());
        }
    };
    add(before, &base.before, false);
    add(after, &base.after, true);
    let is_equal = |pair: &Pair| match pair {
        (Some(before), Some(after)) => {
            let mut moved = before.entry.clone();
            moved.path.clone_from(&after.entry.path);
            moved == after.entry
        }
        _ => false,
    };
    all.into_values().filter(|pair| !is_equal(pair)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn differences_are_those_of_two_sorted_maps(
        edits in prop::collection::vec(edit(), 0..6),
        more in prop::collection::vec(edit(), 0..6),
        bits in 5..13u32,
        has_fences in any::<(bool, bool)>(),
        folder in 0..FOLDERS,
    ) {
        let (mut before, mut after) = (Held::new(changed(&edits)), Held::new(changed(&more)));
        (before.has_fences, after.has_fences) = (has_fences.0 || folder % 4 > 0, has_fences.1 || folder % 4 > 0);
        let parts = || parts(&before, &after, (1 << bits) - 1);
        let base = Base::default();
        prop_assert_eq!(compared(&before, &after, &base, parts()), model(&before, &after, &base));

        // One folder of both, and a folder with another.
        let folder = format!("/top/{folder:04}").into_bytes();
        let same = Base { before: folder.clone(), after: folder.clone() };
        prop_assert_eq!(compared(&before, &after, &same, parts()), model(&before, &after, &same));
        let other = Base { before: b"/top/0003".to_vec(), after: folder };
        let all = |held: &Held| ByteRange { offset: 0, len: held.listing.len() as u64 };
        let whole = vec![Ok(UnequalParts { before: all(&before), after: all(&after) })];
        prop_assert_eq!(compared(&before, &after, &other, whole), model(&before, &after, &other));
        prop_assert_eq!((before.given_up.get(), after.given_up.get()), (0, 0));
    }
}

#[test]
fn one_change_costs_one_part_of_each_listing() {
    let mut grown = first();
    let number = grown.len() / 2;
    assert!(matches!(grown[number].kind, EntryKind::File { .. }));
    grown[number].mode ^= 0o1;
    let (before, after) = (Held::new(first()), Held::new(grown));
    assert!(before.listing.len() > 400 << 10, "{}", before.listing.len());
    let parts = parts(&before, &after, 0xfff);
    let found = compared(&before, &after, &Base::default(), parts);
    assert_eq!(found, model(&before, &after, &Base::default()));
    assert_eq!(found.len(), 1);
    let read = (before.read.get(), after.read.get());
    assert!(read.0 < 200 << 10 && read.1 < 200 << 10, "{read:?}");
}
