//! Containers that lost their anchors are found by their new ones.

use container::{CatalogView, Compression, ContainerBuilder, Containers, compress_region};
use env::fault::FaultStorage;
use format::container::CatalogEntry;
use index::{HookIndex, HookKind, Index, IndexOptions, RUNS_MAX};
use types::{Fingerprint, Generation};

use crate::store::*;

/// The fingerprint that stays at every rate.
fn anchor_of(view: &CatalogView) -> Fingerprint {
    let anchor = view
        .entries()
        .iter()
        .min_by_key(|entry| entry.fingerprint.sample_bits().reverse_bits());
    anchor.unwrap().fingerprint
}

/// The container without its anchor.
fn rewrite(containers: &Containers, view: &CatalogView) -> CatalogView {
    let gone = anchor_of(view);
    let left: Vec<CatalogEntry> = view
        .entries()
        .iter()
        .filter(|e| e.fingerprint != gone)
        .copied()
        .collect();
    let bytes: Vec<u8> = left
        .iter()
        .flat_map(|entry| chunk(u64::from(entry.slot.get())))
        .collect();
    let mut builder = ContainerBuilder::new(view.id(), Generation::FIRST.next());
    builder.append_survivors(compress_region(bytes, Compression::Off), &left);
    containers.put(&builder.seal(containers).unwrap()).unwrap();
    containers
        .generation(view.id(), Generation::FIRST.next())
        .unwrap()
}

fn is_found(index: &Index, fingerprint: &Fingerprint) -> bool {
    let mut out = Vec::new();
    index.candidates(fingerprint, HookKind::Data, &mut out);
    out == [data(1, 0)]
}

/// With next to no budget only anchors are left, whichever of the two runs was merged first.
#[test]
fn the_new_anchor_outlives_every_halving() {
    let storage = FaultStorage::new();
    let containers = containers(&storage);
    let chunks: Vec<u64> = (0..200).collect();
    let view = put(&containers, data(1, 0), &chunks);
    let index = open(&storage, IndexOptions::default());
    let mut writer = index.session(session(1));
    writer.add(&view).unwrap();
    writer.publish(&[session(1)]).unwrap();
    let rewritten = rewrite(&containers, &view);
    assert_ne!(anchor_of(&view), anchor_of(&rewritten));
    let mut writer = index.rewritten(session(2));
    writer.add(&rewritten).unwrap();
    writer.publish(&[session(2)]).unwrap();
    assert!(index.covers(session(2)));
    for n in 3..=RUNS_MAX as u64 + 3 {
        index.add_session(session(n), []).unwrap();
    }
    assert!(index.merge(&|| true, &|_| true).unwrap().runs > 2);
    let tight = IndexOptions {
        bytes_max: 1,
        ..IndexOptions::default()
    };
    let index = open(&storage, tight);
    index.merge(&|| true, &|_| true).unwrap();
    let kept = view
        .entries()
        .iter()
        .filter(|entry| is_found(&index, &entry.fingerprint))
        .count();
    assert!(
        kept < 10,
        "{kept}: hardly more than the anchors, or this shows nothing"
    );
    assert!(is_found(&index, &anchor_of(&rewritten)));
}

/// At a rate at which none of the survivors is sampled, publishing keeps one of them.
#[test]
fn published_at_a_low_rate_the_anchor_is_among_the_hooks() {
    let storage = FaultStorage::new();
    let containers = containers(&storage);
    let view = put(&containers, data(1, 0), &(0..200).collect::<Vec<_>>());
    let tight = IndexOptions {
        bytes_max: 1,
        ..IndexOptions::default()
    };
    let index = open(&storage, tight);
    let mut writer = index.session(session(1));
    writer.add(&view).unwrap();
    writer.publish(&[session(1)]).unwrap();
    index.merge(&|| true, &|_| true).unwrap();
    let rewritten = rewrite(&containers, &view);
    assert!(!is_found(&index, &anchor_of(&rewritten)));
    let mut writer = index.rewritten(session(2));
    writer.add(&rewritten).unwrap();
    writer.publish(&[session(2)]).unwrap();
    assert!(is_found(&index, &anchor_of(&rewritten)));
}
