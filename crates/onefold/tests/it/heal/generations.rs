//! Several generations of a container, none of which is whole.

use env::Storage;
use format::names;
use onefold::{Monitor, ReadData};
use types::{ObjectName, Slot};

use super::support::{Ward, bring_back, catalog_copies, take};
use crate::common::pruning::{everything, forget, prune};
use crate::common::{How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot};

/// Rots the first region of a generation.
fn rot(ward: &Ward, generation: u32) {
    let spoil = |bytes: &mut Vec<u8>| bytes[200] ^= 1;
    assert!(ward.machine.storage.damage(&ward.name(generation), spoil));
}

/// The last slots of the container.
fn some(ward: &Ward) -> Vec<Slot> {
    let slots = ward.slots();
    slots[slots.len() - 3..].to_vec()
}

/// Healing has remade a lost container without some slots. The lost generation comes back, and then
/// the remade one rots. Each has slots that the other lacks.
#[test]
fn a_generation_that_reappeared_supplies_slots_that_the_remade_one_lacks() {
    for has_copy in [true, false] {
        let ward = Ward::new(601);
        let lacking = some(&ward);
        ward.put_without(1, &lacking);
        rot(&ward, 1);
        ward.list(0, Some(&[&[ward.slots()[0]], &lacking[..]].concat()));
        if !has_copy {
            take(&ward.machine, &catalog_copies(&ward.machine));
        }
        let report = ward.prune(602, "heals");
        assert_eq!(report.healed.len(), 1, "{report:?}");
        let store = ward.machine.beside(603).open();
        let first = snapshot(&store, ward.first);
        assert_restores_bytes(&store, &first, "/a", &ward.bytes, "healed");
        assert_eq!(ward.listed(), Some([].into()), "copy: {has_copy}");
        let generations = ward.containers.generations(ward.id).unwrap();
        assert_eq!(generations, [types::Generation::new(2).unwrap()]);
    }
}

/// A trimmed container whose body is missing for now, and for which other places have only some
/// chunks.
#[test]
fn a_missing_body_is_waited_for() {
    let machine = Process::new(2);
    let store = machine.init();
    let parts: Vec<Vec<u8>> = (0..6).map(|n| noise(n, 60 << 10)).collect();
    let first = back_up_bytes(&store, "/a", &parts.concat(), &How::plain()).unwrap();
    let kept = [&parts[0][..], &parts[2], &parts[4]].concat();
    let second = back_up_bytes(&store, "/b", &kept, &How::plain()).unwrap();
    forget(&store, first.id);
    let mut options = everything();
    options.limits.repack_bytes_max = 0;
    let trimmed = prune(&machine.beside(4).open(), &options, "trims");
    assert!(trimmed.containers_trimmed > 1, "{trimmed:?}");
    let listed = machine.storage.list("data").unwrap().into_iter();
    let bodies: Vec<ObjectName> = listed
        .map(|meta| meta.name)
        .filter(|name| names::parse_body(name).is_some())
        .collect();
    let taken = take(&machine, &bodies);

    let store = machine.beside(6).open();
    store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    let listed = machine.names("damaged");
    assert!(!listed.is_empty());
    let third = back_up_bytes(&store, "/c", &kept[..90 << 10], &How::plain()).unwrap();
    assert!(
        third.healed.iter().all(|healed| healed.left == 0),
        "given up: {:?}",
        third.healed
    );
    assert_eq!(machine.names("damaged"), listed);

    bring_back(&machine, &taken);
    prune(&machine.beside(8).open(), &options, "heals");
    let store = machine.beside(10).open();
    assert_restores_bytes(&store, &snapshot(&store, second.id), "/b", &kept, "back");
    assert_eq!(machine.names("damaged"), Vec::<String>::new());
    assert_sound(&store, "back");
}

/// The newest generation lacks listed slots, and nothing shows their content, so it is not whole.
#[test]
fn a_short_generation_is_not_whole_because_its_catalog_has_no_copy() {
    for is_listed_whole in [false, true] {
        let ward = Ward::new(611);
        let lacking = some(&ward);
        ward.put_without(1, &lacking);
        let taken = take(&ward.machine, &[ward.name(0)]);
        let copies = take(&ward.machine, &catalog_copies(&ward.machine));
        ward.list(0, Some(&lacking));
        if is_listed_whole {
            ward.list(1, None);
        }
        let report = ward.prune(612, "cannot heal");
        assert_eq!((report.healed.len(), report.unhealed.len()), (0, 1), "{report:?}");
        assert_eq!(ward.listed(), Some(lacking.iter().copied().collect()));

        bring_back(&ward.machine, &copies);
        let report = ward.prune(613, "knows what was there");
        assert_eq!((report.healed.len(), report.unhealed.len()), (0, 1), "{report:?}");
        assert_eq!(ward.listed(), Some(lacking.iter().copied().collect()));

        bring_back(&ward.machine, &taken);
        let report = ward.prune(614, "heals");
        assert_eq!(report.healed.len(), 1, "{report:?}");
        ward.assert_whole(615, "the older generation came back");
    }
}

/// A remade generation without some slots exists beside the fuller one that came back, and a prune
/// removes a part of the container.
#[test]
fn a_prune_keeps_slots_of_only_one_of_two_generations() {
    for is_listed in [true, false] {
        let ward = Ward::new(621);
        let slots = ward.slots();
        assert!(slots.len() > 5, "{}", slots.len());
        let kept = &ward.bytes[..ward.offset(slots.len() / 2)];
        let store = ward.machine.beside(622).open();
        let second = back_up_bytes(&store, "/b", kept, &How::plain()).unwrap().id;
        forget(&store, ward.first);
        let lacking = &slots[..2];
        ward.put_without(1, lacking);
        if is_listed {
            ward.list(0, Some(lacking));
        }
        for round in 0..3 {
            ward.prune(623 + round, "unites, and then removes");
            let when = format!("round {round}, listed: {is_listed}");
            let store = ward.machine.beside(633 + round).open();
            assert_restores_bytes(&store, &snapshot(&store, second), "/b", kept, &when);
        }
        assert_eq!(ward.listed(), Some([].into()));
        let left = ward.containers.generations(ward.id).unwrap();
        assert_eq!(left.len(), 1, "{left:?}");
        let view = ward.containers.generation(ward.id, left[0]).unwrap();
        assert!(view.entries().len() < slots.len(), "the rest has gone");
        assert!(lacking.iter().all(|slot| view.entry(*slot).is_some()));
    }
}

/// Healing has remade a lost container without a chunk, and prune has removed a part of it. Then
/// the lost generation comes back. It alone has that chunk, the chunk is rotten there, and no
/// backup needs it. So the old generation is deleted.
#[test]
fn a_rotten_chunk_that_no_backup_needs_keeps_no_generation() {
    let ward = Ward::new(671);
    let slots = ward.slots();
    let lacking = &slots[slots.len() - 1..];
    let kept = &ward.bytes[..ward.offset(slots.len() / 2)];
    let store = ward.machine.beside(672).open();
    let second = back_up_bytes(&store, "/b", kept, &How::plain()).unwrap().id;
    forget(&store, ward.first);
    ward.put_without(1, lacking);
    let old = take(&ward.machine, &[ward.name(0)]);
    let pruned = ward.prune(673, "removes a part");
    assert!(pruned.containers_compacted > 0, "{pruned:?}");
    bring_back(&ward.machine, &old);
    let last = usize::try_from(ward.view.rows().last().unwrap().offset).unwrap();
    let spoil = |bytes: &mut Vec<u8>| bytes[last] ^= 1;
    assert!(ward.machine.storage.damage(&ward.name(0), spoil));
    ward.list(0, Some(lacking));
    let report = ward.prune(674, "drops the old generation");
    assert_eq!((&report.healed[..], &report.unhealed[..]), (&[][..], &[][..]));
    assert_eq!(ward.listed(), Some([].into()));
    let left = ward.containers.generations(ward.id).unwrap();
    assert_eq!(left, [types::Generation::new(2).unwrap()]);
    let view = ward.containers.generation(ward.id, left[0]).unwrap();
    assert_eq!(view.entries().len(), slots.len() / 2);
    let store = ward.machine.beside(675).open();
    assert_restores_bytes(&store, &snapshot(&store, second), "/b", kept, "at the end");
}
