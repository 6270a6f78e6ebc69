//! Removed lists that have rotted while some of their slots still exist: no session gets removed
//! slots anyway. Also lists of damage, which are deleted with their containers, and marks for an
//! epoch that was never announced.

use crate::common::pruning::{assert_nothing_unexplained, everything, forget, try_prune};
use crate::common::reclaimer::Reclaimer;
use crate::common::{
    Asked, How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot,
    try_restores_bytes, try_snapshot,
};
use env::Storage as _;
use env::fault::{Counted, FailWith, Fault, OpKind};
use format::frame::ObjectKind;
use format::names;
use format::reclaim::{GroupId, Marks};
use onefold::{Monitor, PruneOptions, PruneReport, ReadData, SessionId};
use types::{Epoch, ObjectName, Revision};

const PART: usize = 12 << 10;

fn part(n: u64) -> Vec<u8> {
    noise(n, PART)
}

fn back_up(machine: &Process, name: &str, bytes: &[u8]) -> (SessionId, u64) {
    let made = back_up_bytes(&machine.open(), name, bytes, &How::plain()).unwrap();
    (made.id, made.totals.chunks_new)
}

fn prune(machine: &Process) -> PruneReport {
    try_prune(&machine.open(), &everything()).unwrap()
}

fn object(name: &str) -> ObjectName {
    ObjectName::new(name).unwrap()
}

fn rot(machine: &Process, name: &str) {
    assert!(machine.storage.damage(&object(name), |bytes| bytes[70] ^= 1));
}

/// A container half of which is dead, and whose other half has rotted, so that nothing of it is
/// removed; and a later epoch. Returns the container, and the two lists.
fn two_lists(seed: u64) -> (Process, String, Vec<String>) {
    let machine = Process::new(seed);
    machine.init();
    let (old, _) = back_up(&machine, "/file", &[part(0), part(1)].concat());
    let data = machine.names("data").remove(0);
    back_up(&machine, "/kept", &part(1));
    forget(&machine.open(), old);
    let at = PART + PART / 2;
    assert!(machine.storage.damage(&object(&data), |bytes| bytes[at] ^= 1));
    assert_eq!(prune(&machine).damaged.len(), 1);
    let (other, _) = back_up(&machine, "/other", &part(2));
    forget(&machine.open(), other);
    assert_eq!(prune(&machine).epochs, 1);
    let lists = machine.names("removed");
    assert_eq!(lists.len(), 2, "the first stays while something on it stands");
    (machine, data, lists)
}

#[test]
fn entries_of_a_rotten_list_are_listed_again() {
    for which in [0, 1] {
        let (machine, _, lists) = two_lists(1);
        rot(&machine, &lists[which]);
        let report = prune(&machine);
        assert_eq!((report.epochs, report.damaged.len()), (1, 1), "{report:?}");
        let left = machine.names("removed");
        assert!(!left.contains(&lists[which]), "{left:?}");
        assert_eq!(prune(&machine).epochs, 0, "once is enough");
        // The index still leads to the container, where the removed chunks exist.
        let (_, new) = back_up(&machine, "/again", &part(0));
        assert!(new > 0, "list {which}");
    }
}

#[test]
fn a_rotten_list_stays_while_it_may_have_unknown_entries() {
    let (machine, data, lists) = two_lists(2);
    rot(&machine, &lists[0]);
    machine.take_away(&object(&data));
    for _ in 0..2 {
        prune(&machine);
        assert!(machine.names("removed").contains(&lists[0]));
    }
    machine.give_back(&object(&data));
    prune(&machine);
    assert!(!machine.names("removed").contains(&lists[0]));
    let (_, new) = back_up(&machine, "/again", &part(0));
    assert!(new > 0);
}

/// A list of damage never outlives its container, not even if its deletion was undone.
#[test]
fn a_list_of_damage_is_deleted_with_its_container() {
    let machine = Process::new(3);
    machine.init();
    let (old, _) = back_up(&machine, "/file", &part(0));
    let data = machine.names("data").remove(0);
    back_up(&machine, "/kept", &part(1));
    assert!(
        machine
            .storage
            .damage(&object(&data), |bytes| bytes[PART / 2] ^= 1)
    );
    let check = || {
        machine
            .open()
            .check(ReadData::Share(1.0), &Monitor::default())
            .unwrap()
    };
    assert!(check().damaged_backups.contains(&old));
    let listed = machine.names("damaged");
    assert!(!listed.is_empty());
    let list = env::Storage::get(&machine.storage, &object(&listed[0])).unwrap();
    prune(&machine);
    assert_eq!(machine.names("damaged"), listed, "the container stands");
    forget(&machine.open(), old);
    assert_eq!(prune(&machine).epochs, 1);
    assert!(!machine.names("data").contains(&data));
    assert_eq!(machine.names("damaged"), Vec::<String>::new());
    assert_nothing_unexplained(&machine, "after it went");
    env::Storage::put(&machine.storage, &object(&listed[0]), &[&list]).unwrap();
    let (other, _) = back_up(&machine, "/other", &part(2));
    forget(&machine.open(), other);
    assert_eq!(prune(&machine).epochs, 1);
    assert_eq!(machine.names("damaged"), Vec::<String>::new());
    assert!(check().is_sound());
}

/// A prune that died before it announced its epoch leaves marks above those that count.
#[test]
fn marks_of_an_epoch_that_never_was_are_replaced() {
    let machine = Process::new(4);
    machine.init();
    back_up(&machine, "/file", &part(0));
    prune(&machine);
    let reclaimer = Reclaimer::new(machine.beside(5));
    let counts = object(&machine.names("groups")[0]);
    let (group, revision) = names::parse_marks(&counts).unwrap();
    let sealer = reclaimer.sealer();
    let marks = sealer.read(&counts, ObjectKind::Marks, Marks::decode).unwrap();
    let marks = Marks {
        epoch: Some(Epoch::new(7).unwrap()),
        ..marks
    };
    let above = names::marks(group, revision.next());
    sealer.put(&above, ObjectKind::Marks, &marks.to_bytes()).unwrap();
    assert_eq!(prune(&machine).groups_marked, 1);
    // Its number is not used again.
    let next = names::marks(group, revision.next().next()).to_string();
    assert_eq!(machine.names("groups"), [next]);
    assert_eq!(prune(&machine).groups_marked, 0);
    assert_nothing_unexplained(&machine, "replaced");
}

/// Three series of ten small backups, some forgotten, with a prune now and then. Then the newest
/// removed list is lost, and no backup is lost with it.
#[test]
fn a_removed_list_that_is_lost_takes_no_backup_with_it() {
    for (seed, how) in [(6, How::plain()), (7, How::small())] {
        let machine = Process::new(seed);
        machine.init();
        let mut kept = Vec::new();
        for n in 0..30 {
            let name = ["/a", "/b", "/c"][usize::try_from(n % 3).unwrap()];
            let parts = [(n / 3, 1800), (1000 + n, 1500), (2000 + n / 5, 900)];
            let bytes = parts.map(|(seed, len)| noise(seed, len)).concat();
            let made = back_up_bytes(&machine.beside(100 + n).open(), name, &bytes, &how).unwrap();
            kept.push((made.id, name, bytes));
            if n % 5 == 4 {
                for _ in 0..2 {
                    forget(&machine.open(), kept.remove(kept.len() / 2).0);
                }
                try_prune(&machine.beside(200 + n).open(), &PruneOptions::default()).unwrap();
            }
        }
        let lists = machine.names("removed");
        env::Storage::delete(&machine.storage, &object(lists.last().unwrap())).unwrap();
        for round in 0..3 {
            let when = format!("seed {seed}, prune {round}");
            let store = machine.beside(300 + round).open();
            let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
            assert!(report.is_sound(), "{when}: {:#?}", report.findings);
            for (id, name, bytes) in &kept {
                let back = try_snapshot(&store, *id)
                    .and_then(|snapshot| try_restores_bytes(&store, &snapshot, name, bytes));
                back.unwrap_or_else(|error| panic!("{when}: backup {id}: {error}"));
            }
            let options =
                [PruneOptions::default(), everything()][usize::try_from(round % 2).unwrap()].clone();
            try_prune(&store, &options).unwrap();
        }
        for (id, name, bytes) in &kept {
            let store = machine.open();
            assert_restores_bytes(&store, &snapshot(&store, *id), name, bytes, "at the end");
        }
        assert_sound(&machine.open(), "at the end");
        assert_nothing_unexplained(&machine, "at the end");
    }
}

/// Sessions may refer again to what the list leaves, and others may execute it. So it stays,
/// unless a higher epoch is known.
#[test]
fn an_error_behind_a_removed_list_does_not_take_it_back() {
    let machine = Process::new(46);
    machine.init();
    let (old, _) = back_up(&machine, "/old", &[part(0), part(1)].concat());
    let (kept, _) = back_up(&machine, "/kept", &part(1));
    forget(&machine.open(), old);
    let pruner = machine.beside(47);
    let storage = pruner.storage.clone();
    pruner.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.starts_with("removed/") {
            storage.inject_here(Fault::fail(1, FailWith::Io).counting(Counted::Only(OpKind::List)));
        }
    });
    try_prune(&pruner.open(), &everything()).unwrap_err();
    let lists = machine.names("removed");
    assert_eq!(lists.len(), 1, "{lists:?}");
    let stored = |name: &str| {
        let found = env::Storage::list(&machine.storage, "removed").unwrap();
        found
            .iter()
            .find(|object| object.name.as_str() == name)
            .map(|object| object.put_at)
    };
    let put_at = stored(&lists[0]);
    prune(&machine.beside(48));
    assert_eq!(stored(&lists[0]), put_at, "the next run executes that list");
    assert!(machine.names("condemned").is_empty());
    let store = machine.open();
    assert_restores_bytes(&store, &snapshot(&store, kept), "/kept", &part(1), "pruned");
    assert_nothing_unexplained(&machine, "pruned");
    assert_sound(&store, "pruned");
}

/// Somebody who writes to the storage can put an object under any name. No number follows the
/// highest one.
#[test]
fn a_name_with_the_last_number_is_an_error_that_names_it() {
    let group = GroupId {
        series: types::SeriesId::from_bytes([7; 16]),
        first: SessionId::new(1).unwrap(),
    };
    for name in [
        names::removed(Epoch::MAX),
        names::condemned(Epoch::MAX),
        names::marks(group, Revision::MAX),
    ] {
        let machine = Process::new(49);
        machine.init();
        let (kept, _) = back_up(&machine, "/kept", &part(1));
        machine.storage.put(&name, &[b"x"]).unwrap();
        let refused = try_prune(&machine.open(), &everything()).unwrap_err().to_string();
        assert!(refused.contains(name.as_str()), "{refused}");
        env::Storage::delete(&machine.storage, &name).unwrap();
        prune(&machine);
        let store = machine.open();
        assert_restores_bytes(&store, &snapshot(&store, kept), "/kept", &part(1), "pruned");
    }
}
