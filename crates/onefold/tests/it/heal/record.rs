//! Slots on removed lists never come back, and any slot may be on an unreadable list.

use std::collections::BTreeSet;

use env::Storage;
use onefold::{Monitor, ReadData};
use types::{ObjectName, Slot};

use super::support::{Ward, bring_back, catalog_copies, take};
use super::{data, rot};
use crate::common::pruning::{everything_at_once, forget, prune_after_crash};
use crate::common::{How, assert_restores_bytes, back_up_bytes, noise, snapshot};

/// Healing does not bring back what prune has removed, even if a list of damage and the copies of
/// catalogs come back with an old copy of the disk.
#[test]
fn healing_does_not_restore_removed_data() {
    let ward = Ward::new(86);
    let machine = &ward.machine;
    rot(machine, ward.name(0).as_str());
    let store = machine.beside(87).open();
    store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    let lists = machine.names("damaged").into_iter();
    let lists: Vec<_> = lists.map(|name| ObjectName::new(name).unwrap()).collect();
    assert_eq!(lists.len(), 1);
    let back = take(machine, &[lists, catalog_copies(machine)].concat());
    bring_back(machine, &back);
    forget(&store, ward.first);
    prune_after_crash(&store, &everything_at_once(), "all goes");
    assert!(data(machine).is_empty());
    bring_back(machine, &back);
    let second = back_up_bytes(&machine.beside(88).open(), "/a", &ward.bytes, &How::plain()).unwrap();
    assert!(second.healed.is_empty(), "{:?}", second.healed);
    let of_first = format!("{:013}", ward.first.get());
    let made = data(machine).into_iter().find(|name| name.contains(&of_first));
    assert_eq!(made, None);
}

/// While a removed list cannot be read, nobody knows whether a lost container was removed. It is
/// not made again, and it stays listed. Once the list can be read, healing makes it again.
#[test]
fn while_a_removed_list_cannot_be_read_nothing_is_made_again() {
    let ward = Ward::new(661);
    let machine = &ward.machine;
    let other = back_up_bytes(&machine.open(), "/other", &noise(662, 60 << 10), &How::plain()).unwrap();
    forget(&machine.open(), other.id);
    ward.prune(663, "has a removed list");
    let removed = machine.names("removed").into_iter();
    let removed: Vec<_> = removed.map(|name| ObjectName::new(name).unwrap()).collect();
    assert!(!removed.is_empty());
    take(machine, &[ward.name(0)]);
    ward.list(0, None);
    let flip = |bytes: &mut Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
    };
    for name in &removed {
        assert!(machine.storage.damage(name, flip));
    }
    let second = back_up_bytes(&machine.beside(664).open(), "/a", &ward.bytes, &How::plain()).unwrap();
    assert!(second.healed.is_empty(), "{:?}", second.healed);
    assert_eq!(ward.listed(), None, "it stays listed as a whole");
    for name in &removed {
        assert!(machine.storage.damage(name, flip));
    }
    let report = ward.prune(665, "heals");
    assert_eq!(report.healed.len(), 1, "{report:?}");
    ward.assert_whole(666, "the removed lists are whole");
}

/// The other damage of a container of which prune has removed a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// Only a list of damage names the removed slots.
    Listed,
    /// The generation from before the removal exists again.
    OldBack,
    /// The same, and the newer one is rotten.
    OldBackNewRotten,
    /// No generation exists.
    Lost,
}

/// Prune has removed some slots of a container that stays. Other places have their chunks, and they
/// still do not come back.
#[test]
fn removed_slots_of_a_container_that_stays_are_not_made_again() {
    for (seed, trouble) in [
        (701, Trouble::Listed),
        (711, Trouble::OldBack),
        (721, Trouble::OldBackNewRotten),
        (731, Trouble::Lost),
    ] {
        let ward = Ward::new(seed);
        let machine = &ward.machine;
        let slots = ward.slots();
        let (stays, goes) = slots.split_at(slots.len() / 2);
        let kept = &ward.bytes[..ward.offset(stays.len())];
        let second = back_up_bytes(&machine.open(), "/b", kept, &How::plain()).unwrap();
        let old = take(machine, &[ward.name(0)]);
        bring_back(machine, &old);
        forget(&machine.open(), ward.first);
        ward.prune(seed + 2, "removes a part");
        assert!(machine.storage.head(&ward.name(0)).is_err(), "{trouble:?}");
        match trouble {
            Trouble::Listed => ward.list(0, Some(goes)),
            Trouble::OldBack => {
                bring_back(machine, &old);
                ward.list(0, Some(goes));
            }
            Trouble::OldBackNewRotten => {
                bring_back(machine, &old);
                assert!(machine.storage.damage(&ward.name(1), |bytes| bytes.fill(0)));
                ward.list(0, None);
            }
            Trouble::Lost => {
                take(machine, &[ward.name(1)]);
                ward.list(0, None);
            }
        }
        let third = back_up_bytes(&machine.beside(seed + 4).open(), "/c", &ward.bytes, &How::plain());
        assert!(third.is_ok(), "{trouble:?}");
        assert_eq!(ward.listed(), Some([].into()), "{trouble:?}");
        let left = ward.containers.generations(ward.id).unwrap();
        assert_eq!(left.len(), 1, "{trouble:?}: {left:?}");
        let view = ward.containers.generation(ward.id, left[0]).unwrap();
        let left: BTreeSet<Slot> = view.entries().iter().map(|entry| entry.slot).collect();
        assert_eq!(left, stays.iter().copied().collect(), "{trouble:?}");
        let store = machine.beside(seed + 6).open();
        let second = snapshot(&store, second.id);
        assert_restores_bytes(&store, &second, "/b", kept, &format!("{trouble:?}"));
    }
}

/// While no removed list can be read, healing neither uses an older generation nor deletes one, and
/// prune reports why. Each container becomes whole when another list has replaced the rotten one.
#[test]
fn prune_says_that_an_unreadable_removed_list_keeps_it_from_healing() {
    let lost = "which may say that it was removed";
    let short = "which may name the slots that it lacks";
    for (seed, is_short, why) in [(741, false, lost), (751, true, short)] {
        let ward = Ward::new(seed);
        let machine = &ward.machine;
        let other = back_up_bytes(&machine.open(), "/other", &noise(seed, 60 << 10), &How::plain()).unwrap();
        forget(&machine.open(), other.id);
        ward.prune(seed + 2, "has a removed list");
        let removed = machine.names("removed").into_iter();
        let removed: Vec<_> = removed.map(|name| ObjectName::new(name).unwrap()).collect();
        let lacking = &ward.slots()[..1];
        if is_short {
            ward.put_without(1, lacking);
            ward.list(0, Some(lacking));
        } else {
            ward.put_without(1, &[]);
            assert!(machine.storage.damage(&ward.name(1), |bytes| bytes.fill(0)));
            ward.list(0, None);
        }
        take(machine, &removed);
        for name in &removed {
            machine.storage.put(name, &[b"rotten"]).unwrap();
        }
        let second = back_up_bytes(&machine.beside(seed + 4).open(), "/a", &ward.bytes, &How::plain());
        assert!(second.unwrap().healed.is_empty(), "short: {is_short}");
        let report = ward.prune(seed + 6, "does not heal");
        let [(_, said)] = &report.unhealed[..] else {
            panic!("{report:?}")
        };
        assert!(said.ends_with(why), "{said}");
        let generations = ward.containers.generations(ward.id).unwrap();
        assert_eq!(generations.len(), 2, "both stay: {generations:?}");
        let listed = is_short.then(|| lacking.iter().copied().collect());
        assert_eq!(ward.listed(), listed);
        // The prune has replaced the rotten list by a new one.
        assert!(removed.iter().all(|name| machine.storage.head(name).is_err()));
        ward.prune(seed + 8, "heals");
        let generations = ward.containers.generations(ward.id).unwrap();
        assert_eq!(generations.len(), 1, "{generations:?}");
        ward.assert_whole(seed + 10, why);
    }
}
