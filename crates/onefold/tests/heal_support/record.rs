//! What removed lists say never comes back, and an unreadable one may say anything.

use onefold::{Monitor, ReadData};
use types::ObjectName;

use super::{Ward, bring_back, catalog_copies, take};
use crate::common::pruning::{everything_at_once, forget, prune_after_crash};
use crate::common::{How, back_up_bytes, noise};
use crate::{data, rot};

/// Healing does not bring back what prune has removed, even if a list of damage and the copies of
/// catalogs come back with an old copy of the disk.
#[test]
fn what_was_removed_is_not_made_again() {
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

/// As long as a removed list cannot be read, nobody knows whether a lost container was removed. It
/// is not made again, and it stays listed. When the list can be read, healing makes it again.
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
