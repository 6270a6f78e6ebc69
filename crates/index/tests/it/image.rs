//! Checkpoints of the index in memory: they keep all answers, and a bad image is reported, never
//! used.

use env::Storage;
use env::fault::FaultStorage;
use format::names::IndexRunName;
use format::wire::digest;
use index::conformance::with_anchors;
use index::{HookKind, MEMORY_BYTES_MIN, MemoryIndex};
use proptest::prelude::*;
use types::{ObjectName, StoreId};

use crate::store::*;

const SLAB_BYTES: usize = 64 << 10;
const BUDGET: usize = MEMORY_BYTES_MIN * 4;

fn name() -> ObjectName {
    ObjectName::new("index/image".to_owned()).unwrap()
}

fn run(number: u32) -> IndexRunName {
    IndexRunName {
        first: session(1),
        last: session(7),
        number,
    }
}

/// Three hundred containers, at an R of about 1/4.
fn some() -> MemoryIndex {
    let index = MemoryIndex::new(BUDGET);
    for n in 0..300 {
        let hooks = (n * 300..n * 300 + 300).map(|n| hook(bits(n), data(n / 300 + 1, 0)));
        index.add(with_anchors(hooks.collect()));
    }
    index
}

fn image() -> Vec<u8> {
    let storage = FaultStorage::new();
    some()
        .checkpoint(&storage, store_id(), &name(), &[run(0), run(9)])
        .unwrap();
    storage.get(&name()).unwrap()
}

#[test]
fn an_image_answers_as_before_and_takes_new_hooks() {
    let before = some();
    let (after, filled) = MemoryIndex::restore(&image(), store_id(), BUDGET)
        .unwrap()
        .unwrap();
    assert_eq!(filled, [run(0), run(9)]);
    assert_eq!(after.rates(), before.rates());
    assert_eq!(after.stats().entries, before.stats().entries);
    for index in [&before, &after] {
        let hooks = (0..300).map(|n| hook(bits(1_000_000 + n), data(2000, 0)));
        index.add(with_anchors(hooks.collect()));
    }
    for n in (0..90_000).chain(1_000_000..1_000_300) {
        assert_eq!(
            ask(&after, bits(n), HookKind::Data),
            ask(&before, bits(n), HookKind::Data)
        );
    }
    assert!(after.stats().bytes <= after.stats().budget_bytes);
}

#[test]
fn an_image_of_another_store_or_budget_is_refused() {
    let image = image();
    let other = StoreId::from_bytes([9; 16]);
    assert!(MemoryIndex::restore(&image, other, BUDGET).is_err());
    for budget in [BUDGET * 2, BUDGET / 2] {
        assert!(
            MemoryIndex::restore(&image, store_id(), budget)
                .unwrap()
                .is_none()
        );
    }
}

#[test]
fn no_changed_byte_is_believed() {
    let mut image = image();
    for at in (0..image.len()).step_by(97).chain(0..200) {
        image[at] ^= 0x20;
        assert!(
            !matches!(MemoryIndex::restore(&image, store_id(), BUDGET), Ok(Some(_))),
            "byte {at}"
        );
        image[at] ^= 0x20;
    }
    for len in (0..image.len()).step_by(1013) {
        assert!(
            MemoryIndex::restore(&image[..len], store_id(), BUDGET).is_err(),
            "{len} bytes"
        );
    }
    assert!(
        MemoryIndex::restore(&image, store_id(), BUDGET)
            .unwrap()
            .is_some()
    );
}

/// The image with fitting digests.
fn sealed(mut image: Vec<u8>) -> Vec<u8> {
    let Some(len) = image.get(12..16) else {
        return image;
    };
    let front = 16 + u32::from_le_bytes(len.try_into().unwrap()) as usize;
    let end = image.len().saturating_sub(16);
    if front > end {
        return image;
    }
    let slabs = image[front..end].chunks(SLAB_BYTES);
    let digests: Vec<u8> = std::iter::once(&image[..front])
        .chain(slabs)
        .flat_map(|bytes| digest(bytes).to_le_bytes())
        .collect();
    image[end..].copy_from_slice(&digest(&digests).to_le_bytes());
    image
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    /// A forged image may forget hooks and give wrong answers, but nothing panics.
    #[test]
    fn a_forged_image_does_no_harm(
        at in proptest::collection::vec((any::<bool>(), any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut image = image();
        let front = 16 + u32::from_le_bytes(image[12..16].try_into().unwrap()) as usize;
        for (in_front, at, byte) in at {
            let within = if in_front { front } else { image.len() };
            image[at.index(within)] = byte;
        }
        if let Ok(Some((index, _))) = MemoryIndex::restore(&sealed(image), store_id(), BUDGET) {
            for n in 0..2000 {
                ask(&index, bits(n * 45), HookKind::Data);
                ask(&index, bits(n * 45), HookKind::Node);
            }
            let keys: Vec<_> = (0..2000).map(|n| (HookKind::Data, bits(n * 45))).collect();
            ask_all(&index, &keys);
            index.add((0..20_000).map(|n| hook(bits(500_000 + n), data(3000, 0))));
            index.retain(&|container| container != data(7, 0));
        }
    }
}
