//! A region of one generation is not taken for that of another, and wrong bytes for no chunk.

use crypto::{DomainKey, Fingerprinter};
use format::container::{CatalogEntry, Codec, RegionRow};
use format::node::Node;
use recipe::NodeSource;
use types::Level;

use super::*;

/// Two chunks that the first generation has in one region, and the second one in two. The
/// catalog is that of the first, of which the regions are gone.
#[derive(Debug)]
struct Rewritten {
    fingerprinter: Fingerprinter,
    views: [Arc<CatalogView>; 2],
}

const CHUNKS: [&[u8]; 2] = [b"one", b"two"];

impl Rewritten {
    fn new() -> Self {
        let fingerprinter = Fingerprinter::new(&DomainKey::from_bytes([5; 32]));
        let entries: Vec<CatalogEntry> = { (0..).zip(CHUNKS) }
            .map(|(slot, bytes)| CatalogEntry {
                slot: Slot::new(slot).unwrap(),
                fingerprint: fingerprinter.chunk(bytes),
                len: 3,
                level: Level::new(0).unwrap(),
                logical_len: 3,
            })
            .collect();
        let row = |first_entry, entry_count| RegionRow {
            offset: 100 + u64::from(first_entry) * 20,
            stored_len: 20,
            first_entry,
            entry_count,
            codec: Codec::Raw,
            digest: 0,
        };
        let view = |generation, rows| {
            let entries = entries.clone();
            Arc::new(CatalogView::from_rows(id(), generation, entries, rows).unwrap())
        };
        let first = view(Generation::FIRST, vec![row(0, 2)]);
        let second = view(Generation::FIRST.next(), vec![row(0, 1), row(1, 1)]);
        Self {
            fingerprinter,
            views: [first, second],
        }
    }
}

fn id() -> ContainerId {
    ContainerId::from_u64(1 << 27).unwrap()
}

impl NodeSource for Rewritten {
    fn node(&self, _: ChunkLocation) -> Result<Arc<Node>, RecipeError> {
        unreachable!("only regions are read")
    }

    fn catalog(&self, _: ContainerId) -> Result<Arc<CatalogView>, RecipeError> {
        Ok(Arc::clone(&self.views[0]))
    }

    fn fingerprinter(&self) -> &Fingerprinter {
        &self.fingerprinter
    }
}

impl StoreReader for Rewritten {
    fn region(&self, at: ChunkLocation) -> Result<(Arc<CatalogView>, PlainRegion), RecipeError> {
        let index = self.views[1].region_of(at.slot).unwrap();
        let bytes = CHUNKS[at.slot.get() as usize].to_vec();
        Ok((Arc::clone(&self.views[1]), PlainRegion::from_sent(index, bytes)))
    }

    fn read_regions_into(
        &self,
        _: &CatalogView,
        _: &[RegionIndex],
        _: &mut RegionBuffer,
    ) -> Result<(), RecipeError> {
        unreachable!("regions are read one by one")
    }

    fn newer_catalog(&self, _: &CatalogView) -> Result<Option<Arc<CatalogView>>, RecipeError> {
        Ok(Some(Arc::clone(&self.views[1])))
    }

    fn chunk(&self, _: ChunkLocation) -> Result<Vec<u8>, RecipeError> {
        unreachable!("only regions are read")
    }
}

#[test]
fn a_region_of_a_newer_generation_is_not_taken_for_that_of_the_old_one() {
    let (reader, regions) = (Rewritten::new(), Regions::new(1 << 20));
    for slot in [0, 1, 0] {
        let at = ChunkLocation {
            container: id(),
            slot: Slot::new(slot).unwrap(),
        };
        let chunk = CHUNKS[slot as usize];
        let reference = ChunkRef {
            place: Place::At(at),
            fingerprint: reader.fingerprinter.chunk(chunk),
            offset: 0,
            len: 3,
            skip: 0,
            chunk_len: 3,
        };
        let mut read = Vec::new();
        regions
            .append(
                &reader,
                at,
                &reference,
                (0, 3),
                &mut LastRegion::default(),
                &mut read,
            )
            .unwrap();
        assert_eq!(read, chunk);
    }
}

#[test]
fn a_chunk_of_wrong_bytes_stays_unverified_beside_right_ones() {
    let (reader, regions) = (Rewritten::new(), Regions::new(1 << 20));
    let view = Arc::clone(&reader.views[0]);
    let at = |slot| ChunkLocation {
        container: id(),
        slot: Slot::new(slot).unwrap(),
    };
    let index = view.region_of(at(0).slot).unwrap();
    let region = Region::new(view, PlainRegion::from_sent(index, b"oneTWO".to_vec()));
    let (key, bytes) = (region.key(), region.bytes());
    regions.cache.put(key, Arc::new(region), bytes);
    let references = [0, 1].map(|slot: u32| ChunkRef {
        place: Place::At(at(slot)),
        fingerprint: reader.fingerprinter.chunk(CHUNKS[slot as usize]),
        offset: 0,
        len: 3,
        skip: 0,
        chunk_len: 3,
    });
    regions.verify(&reader, references.iter());
    let read = |slot: u32| {
        let (mut last, mut read) = (LastRegion::default(), Vec::new());
        let reference = &references[slot as usize];
        regions.append(&reader, at(slot), reference, (0, 3), &mut last, &mut read)
    };
    assert!(read(0).is_ok() && read(1).is_err());
}
