//! Repair: every kind of object is damaged in turn. With a copy of the store at hand, all comes
//! back; without one, what is lost is named, and nothing else is.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use crate::damage_support::fixture::{Fixture, container_of, fixture};
use crate::damage_support::judge::{open, restore};
use crate::damage_support::ways::Way;
use crate::damage_support::{Objects, env_on, is_long, objects_of, storage_of};
use format::names;
use onefold::operations::copy;
use onefold::{
    CopyRequest, Credential, InitOptions, Monitor, OpenOptions, ReadData, RepairReport, SessionId, Store,
};
use types::{ContainerKind, ObjectName};

/// Stores with copies of the fixture's backups: of its domain, and of another one.
fn copies() -> &'static [Objects; 2] {
    static COPIES: OnceLock<[Objects; 2]> = OnceLock::new();
    COPIES.get_or_init(|| {
        let source = open(&fixture().objects).unwrap();
        [true, false].map(|is_within| {
            let storage = storage_of(&Objects::new());
            let env = env_on(std::sync::Arc::<env::MemoryStorage>::clone(&storage) as _, 5);
            let domain = is_within.then_some(&source);
            Store::init(&env, &Credential::None, &InitOptions::default(), domain).unwrap();
            let store = Store::open(&env, &Credential::None, &OpenOptions::default()).unwrap();
            let request = CopyRequest::default();
            let done = copy(&source, &store, &request, &Monitor::default(), &mut |_| {}).unwrap();
            assert_eq!(done.copied.len(), fixture().trees.len(), "{done:?}");
            objects_of(&*storage)
        })
    })
}

/// Damages the objects and repairs the store.
fn repaired(damage: &[(&ObjectName, &Way)], other: Option<&Objects>) -> (Store, RepairReport) {
    let fixture = fixture();
    let mut objects = fixture.objects.clone();
    for (name, way) in damage {
        way.apply(&mut objects, &fixture.former, name);
    }
    let store = open(&objects).unwrap();
    let other = other.map(|objects| open(objects).unwrap());
    let other = other
        .as_ref()
        .map(|store| store as &dyn onefold::repository::Repository);
    let report = store.repair(other, &Monitor::default(), &mut |_| {});
    let report = report.unwrap_or_else(|error| panic!("{damage:?}: {error}"));
    (store, report)
}

/// Every backup of the fixture can be restored as it was, or the one that replaced it.
fn judge_whole(fixture: &Fixture, store: &Store, report: &RepairReport, what: &str) {
    let list = store.snapshots().unwrap().snapshots;
    for (id, expected) in &fixture.trees {
        let now: SessionId = report.replaced.get(id).copied().unwrap_or(*id);
        let snapshot = list.iter().find(|snapshot| snapshot.id == now);
        let snapshot = snapshot.unwrap_or_else(|| panic!("{what}: backup {id} is gone: {report:#?}"));
        restore(store, snapshot).judge(expected, &format!("{what}: backup {id}, now {now}"));
    }
    assert_eq!(
        list.len(),
        fixture.trees.len(),
        "{what}: a copy was left, or a backup lost"
    );
}

/// With either other store, nothing stays damaged. Alone, what stays damaged is what the check had
/// said, or less.
fn run(damage: &[(&ObjectName, &Way)]) {
    let fixture = fixture();
    for (number, other) in copies().iter().enumerate() {
        let what = format!("{damage:?}, with store {number}");
        let (store, report) = repaired(damage, Some(other));
        assert!(report.after.is_sound(), "{what}: {report:#?}");
        assert!(report.missing.is_empty(), "{what}: {report:#?}");
        judge_whole(fixture, &store, &report, &what);
        let again = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
        let left: Vec<_> = again
            .findings
            .iter()
            .filter(|found| found.what.kind() != "config_copy")
            .collect();
        assert!(left.is_empty(), "{what}: {left:?}");
    }
    let (store, report) = repaired(damage, None);
    let what = format!("{damage:?}, alone");
    assert!(
        report
            .after
            .damaged_backups
            .is_subset(&report.before.damaged_backups),
        "{what}: {report:#?}"
    );
    for snapshot in store.snapshots().unwrap().snapshots {
        let restored = restore(&store, &snapshot);
        if !report.after.damaged_backups.contains(&snapshot.id) {
            restored.judge(&fixture.trees[&snapshot.id], &what);
        } else if let Some(files) = report.after.damaged_files.get(&snapshot.id) {
            restored.judge_lost(files, &what);
        }
    }
}

/// One of each kind of object that backups need.
fn of_each_kind() -> Vec<ObjectName> {
    let mut seen = BTreeSet::new();
    let kind = |name: &ObjectName| -> Option<String> {
        if let Some((_, session, revision)) = names::parse_manifest(name) {
            return Some(format!("manifest of {session}, {revision}"));
        }
        if names::parse_config(name).is_some() {
            return Some(name.to_string());
        }
        let id = container_of(name)?;
        let copy = name.parts().next()?.to_owned();
        Some(format!("{copy} of {}", id.session))
    };
    let all = fixture().objects.keys();
    all.filter(|name| kind(name).is_some_and(|kind| seen.insert(kind)))
        .cloned()
        .collect()
}

fn ways(bytes: &[u8]) -> Vec<Way> {
    let middle = bytes.len() / 2;
    let flip = |at: usize| Way::Flip {
        at,
        bit: 3,
        field: String::new(),
    };
    let mut ways = vec![Way::Delete, flip(middle), Way::Truncate { len: middle }];
    if is_long() {
        ways.extend([flip(9), flip(bytes.len() - 3), Way::Extend, flip(bytes.len() / 3)]);
    }
    ways
}

#[test]
fn every_kind_of_object_is_repaired_from_another_store() {
    for name in of_each_kind() {
        for way in ways(&fixture().objects[&name]) {
            run(&[(&name, &way)]);
        }
    }
}

/// Nodes have no other place: the backups that lost them are copied again.
#[test]
fn backups_whose_nodes_are_lost_are_replaced() {
    let is_recipe =
        |name: &&ObjectName| container_of(name).is_some_and(|id| id.kind == ContainerKind::Recipe);
    let main = fixture()
        .objects
        .keys()
        .find(|name| is_recipe(name) && names::parse_mirror(name).is_none());
    let main = main.unwrap();
    let mirror = names::mirror(container_of(main).unwrap(), types::Generation::FIRST).unwrap();
    run(&[(main, &Way::Delete), (&mirror, &Way::Delete)]);
    let (_, report) = repaired(
        &[(main, &Way::Delete), (&mirror, &Way::Delete)],
        Some(&copies()[0]),
    );
    assert!(!report.replaced.is_empty(), "{report:#?}");
}

/// Everything of data is lost at once.
#[test]
fn a_store_without_its_data_is_filled_from_another_one() {
    let is_data = |name: &&ObjectName| container_of(name).is_some_and(|id| id.kind == ContainerKind::Data);
    let names: Vec<&ObjectName> = fixture().objects.keys().filter(is_data).collect();
    let damage: Vec<(&ObjectName, &Way)> = names.iter().map(|name| (*name, &Way::Delete)).collect();
    run(&damage);
}

#[test]
fn a_sound_store_stays_as_it_is() {
    let before = fixture().objects.clone();
    let storage = storage_of(&before);
    let env = env_on(std::sync::Arc::<env::MemoryStorage>::clone(&storage) as _, 7);
    let store = Store::open(&env, &Credential::None, &OpenOptions::default()).unwrap();
    let report = store.repair(None, &Monitor::default(), &mut |_| {}).unwrap();
    assert!(report.before.is_sound() && report.healed.is_empty() && report.rewritten.is_empty());
    let containers = |objects: &Objects| -> Vec<ObjectName> {
        objects
            .keys()
            .filter(|name| container_of(name).is_some())
            .cloned()
            .collect()
    };
    assert_eq!(containers(&objects_of(&*storage)), containers(&before));
}
