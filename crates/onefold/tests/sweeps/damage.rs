//! The damage matrix: every kind of object is damaged in every way of the list in docs/testing.md.
//! The damage is found and named, affects no backup that does not need the object, and never gives
//! a wrong byte.

use std::collections::BTreeSet;

use crate::damage_support::fixture::{Fixture, container_of, fixture};
use crate::damage_support::is_long;
use crate::damage_support::judge::{Damaged, check, open};
use crate::damage_support::ways::{Way, of_itself};
use format::names::{self, ConfigCopy, LeaseRole, SessionObject};
use onefold::{Error, SessionId};
use types::{ContainerKind, ObjectName, Revision};

/// The backups that an object belongs to.
fn touched(fixture: &Fixture, name: &ObjectName) -> BTreeSet<SessionId> {
    if let Some((_, session, _)) = names::parse_manifest(name) {
        return BTreeSet::from([session]);
    }
    let Some(id) = container_of(name) else {
        return BTreeSet::new();
    };
    let needs = fixture.needs.iter();
    needs
        .filter(|(_, containers)| containers.contains(&id))
        .map(|(session, _)| *session)
        .collect()
}

fn run(name: &ObjectName, way: &Way) -> (String, Damaged) {
    let fixture = fixture();
    let mut objects = fixture.objects.clone();
    way.apply(&mut objects, &fixture.former, name);
    let what = format!("{name}: {way:?}");
    let damaged = check(&objects);
    let mut touched = touched(fixture, name);
    if let Way::Swap { with } = way {
        touched.extend(self::touched(fixture, with));
    }
    damaged.judge_restores(fixture, &touched, &what);
    (what, damaged)
}

fn run_all(name: &ObjectName, more: Vec<Way>, is_found: impl Fn(&Way) -> bool) {
    let bytes = &fixture().objects[name];
    for way in of_itself(bytes).into_iter().chain(more) {
        let (what, damaged) = run(name, &way);
        assert_eq!(
            damaged.names(name),
            is_found(&way),
            "{what}: {:?}",
            damaged.report
        );
    }
}

/// The first object for which the function is true.
fn find(is_it: impl Fn(&ObjectName) -> bool) -> ObjectName {
    all(is_it).into_iter().next().unwrap()
}

fn all(is_it: impl Fn(&ObjectName) -> bool) -> Vec<ObjectName> {
    fixture()
        .objects
        .keys()
        .filter(|name| is_it(name))
        .cloned()
        .collect()
}

fn container(kind: ContainerKind) -> Vec<ObjectName> {
    all(|name| names::parse_container(name).is_some_and(|(id, _)| id.kind == kind))
}

fn swap(with: &ObjectName) -> Way {
    Way::Swap { with: with.clone() }
}

fn older(from: &ObjectName) -> Way {
    Way::Older { from: from.clone() }
}

#[test]
fn the_undamaged_store_is_sound_and_has_every_kind_of_object() {
    let fixture = fixture();
    let damaged = check(&fixture.objects);
    assert!(damaged.report.is_sound(), "{:#?}", damaged.report);
    // The fixture has the objects of an unfinished epoch.
    let leftovers: Vec<_> = damaged
        .report
        .leftovers
        .iter()
        .map(|left| &*left.object)
        .collect();
    assert_eq!(leftovers, ["condemned/00000000000000000001"]);
    damaged.judge_restores(fixture, &BTreeSet::new(), "undamaged");
    for folder in [
        "config",
        "data",
        "recipe",
        "catalog",
        "small",
        "mirror",
        "backups",
        "sessions",
        "condemned",
        "removed",
        "damaged",
        "lease",
        "groups",
        "index",
    ] {
        let inside = |name: &ObjectName| name.parts().next() == Some(folder);
        assert!(fixture.objects.keys().any(inside), "nothing in {folder}/");
    }
    assert!(container(ContainerKind::Data).len() > 3);
    damaged.judge_healing(fixture, "undamaged");
}

/// Objects that no backup needs are named if they cannot be read, and backups still work. A missing
/// one cannot be distinguished from one that its owner deleted.
fn run_small(name: &ObjectName, more: Vec<Way>) {
    run_all(name, more.clone(), |way| !matches!(way, Way::Delete));
    let heal = [Way::Delete, Way::Truncate { len: 60 }];
    for way in heal.into_iter().chain(more) {
        let (what, damaged) = run(name, &way);
        damaged.judge_healing(fixture(), &what);
    }
}

#[test]
fn claims_heartbeats_and_checkpoints() {
    let session = |wanted: fn(SessionObject) -> bool| {
        all(|name| names::parse_session_object(name).is_some_and(|(_, object)| wanted(object)))
    };
    let claims = session(|object| object == SessionObject::Claim);
    let last = claims.last().unwrap();
    run_small(last, vec![swap(&claims[0]), older(&claims[0])]);
    let beats = session(|object| matches!(object, SessionObject::Heartbeat(_)));
    assert!(beats.len() > 1);
    let newest = beats.last().unwrap();
    run_small(newest, vec![swap(&beats[0]), older(&beats[0]), swap(last)]);
    let checkpoints = session(|object| matches!(object, SessionObject::Checkpoint(_)));
    assert!(checkpoints.len() > 1);
    let newest = checkpoints.last().unwrap();
    run_small(newest, vec![swap(&checkpoints[0]), older(&checkpoints[0])]);
}

#[test]
fn leases_marks_and_the_lists_of_reclamation() {
    let lease = find(|name| matches!(names::parse_lease(name), Some((LeaseRole::Reclaim, _))));
    let condemned = find(|name| names::parse_condemned(name).is_some());
    let removed = find(|name| names::parse_removed(name).is_some());
    let damaged = all(|name| names::parse_damaged(name).is_some());
    let marks = all(|name| names::parse_marks(name).is_some());
    run_small(&lease, vec![swap(&condemned)]);
    run_small(&condemned, vec![swap(&removed)]);
    run_small(&removed, vec![swap(&lease), older(&condemned)]);
    run_small(&damaged[1], vec![swap(&damaged[0]), older(&damaged[0])]);
    run_small(&marks[1], vec![swap(&marks[0]), older(&marks[0])]);
}

#[test]
fn settings_of_series() {
    let settings = all(|name| names::parse_settings(name).is_some());
    assert_eq!(settings.len(), 2);
    run_small(&settings[1], vec![swap(&settings[0]), older(&settings[0])]);
}

#[test]
fn manifests() {
    let manifests = all(|name| names::parse_manifest(name).is_some());
    let first = &manifests[0];
    let revised =
        find(|name| names::parse_manifest(name).is_some_and(|(_, _, revision)| revision != Revision::FIRST));
    let (series, session, _) = names::parse_manifest(&revised).unwrap();
    let original = names::manifest(series, session, Revision::FIRST);
    let other = manifests
        .iter()
        .find(|name| **name != *first && **name != revised)
        .unwrap();
    run_all(first, vec![swap(other), swap(&revised), older(other)], |_| true);
    // Without its newest revision a backup is as it was before.
    run_all(&revised, vec![swap(&original), older(&original)], |way| {
        !matches!(way, Way::Delete)
    });
    run_all(&original, vec![older(&revised)], |way| {
        !matches!(way, Way::Delete)
    });
    for way in [Way::Delete, Way::Truncate { len: 100 }] {
        let (what, damaged) = run(first, &way);
        damaged.judge_healing(fixture(), &what);
    }
}

#[test]
fn either_copy_of_the_config() {
    let revision = all(|name| names::parse_config(name).is_some())
        .iter()
        .filter_map(names::parse_config)
        .map(|(revision, _)| revision)
        .max()
        .unwrap();
    for copy in ConfigCopy::ALL {
        run_all(&names::config(revision, copy), Vec::new(), |_| true);
    }
}

#[test]
fn both_copies_of_the_config() {
    let fixture = fixture();
    let copies = all(|name| names::parse_config(name).is_some());
    assert_eq!(copies.len(), 2);
    for way in of_itself(&fixture.objects[&copies[0]]) {
        let mut objects = fixture.objects.clone();
        for copy in &copies {
            way.apply(&mut objects, &fixture.former, copy);
        }
        match open(&objects) {
            Ok(store) => panic!("{way:?}: opened {store:?}"),
            Err(Error::Object(error)) => {
                assert!(!error.to_string().is_empty(), "{way:?}");
            }
            Err(other) => panic!("{way:?}: {other}"),
        }
    }
}

#[test]
fn an_older_config_put_back_opens_the_store_as_it_was() {
    let fixture = fixture();
    let mut objects = fixture.objects.clone();
    // Beside the newer one: the highest revision counts, and the older one is reported.
    objects.extend(fixture.former.clone());
    check(&objects).judge_restores(fixture, &BTreeSet::new(), "older beside newer");
    // In its place: nothing in the storage shows that there was a newer one (docs/threat-model.md).
    objects.retain(|name, _| names::parse_config(name).is_none());
    objects.extend(fixture.former.clone());
    check(&objects).judge_restores(fixture, &BTreeSet::new(), "older alone");
}

/// All ways for one container. The next backup stores the lost chunks again. This is tried for a
/// third of them.
fn run_container(name: &ObjectName, more: Vec<Way>) {
    let bytes = &fixture().objects[name];
    let of_itself = of_itself(bytes);
    let count = of_itself.len();
    for (number, way) in of_itself.into_iter().chain(more).enumerate() {
        let (what, damaged) = run(name, &way);
        assert!(damaged.names(name), "{what}: {:?}", damaged.report);
        if is_long() || number % 3 == 0 || number >= count {
            damaged.judge_healing(fixture(), &what);
        }
    }
}

#[test]
fn data_containers() {
    let (data, recipe) = (container(ContainerKind::Data), container(ContainerKind::Recipe));
    run_container(&data[0], vec![swap(&data[1]), swap(&recipe[0]), older(&data[1])]);
}

#[test]
fn data_containers_of_listings() {
    // The last container of the first backup has its listing and fences.
    let of_first = |name: &ObjectName| {
        names::parse_container(name)
            .is_some_and(|(id, _)| id.kind == ContainerKind::Data && id.session.get() == 1)
    };
    let last = all(of_first).pop().unwrap();
    run_container(&last, Vec::new());
}

#[test]
fn recipe_containers_and_their_mirrors() {
    let recipe = container(ContainerKind::Recipe);
    let catalog = container(ContainerKind::Catalog);
    run_container(&recipe[0], vec![swap(&recipe[1]), swap(&catalog[0])]);
    let mirror = names::mirror(container_of(&recipe[0]).unwrap(), types::Generation::FIRST).unwrap();
    let other = names::mirror(container_of(&recipe[1]).unwrap(), types::Generation::FIRST).unwrap();
    run_container(&mirror, vec![swap(&other)]);
}

#[test]
fn small_containers_and_their_mirrors() {
    let small = container(ContainerKind::Small);
    let recipe = container(ContainerKind::Recipe);
    run_container(&small[0], vec![swap(&recipe[0])]);
    let mirror = names::mirror(container_of(&small[0]).unwrap(), types::Generation::FIRST).unwrap();
    run_container(&mirror, Vec::new());
}

#[test]
fn catalog_containers() {
    let catalog = container(ContainerKind::Catalog);
    run_container(&catalog[0], vec![swap(&catalog[1])]);
}

#[test]
fn both_copies_of_a_recipe_container() {
    let fixture = fixture();
    let main = container(ContainerKind::Recipe).remove(0);
    let id = container_of(&main).unwrap();
    let mirror = names::mirror(id, types::Generation::FIRST).unwrap();
    for way in of_itself(&fixture.objects[&main]) {
        let mut objects = fixture.objects.clone();
        way.apply(&mut objects, &fixture.former, &main);
        way.apply(&mut objects, &fixture.former, &mirror);
        let what = format!("{main} and {mirror}: {way:?}");
        let damaged = check(&objects);
        assert!(damaged.names(&main), "{what}");
        damaged.judge_restores(fixture, &touched(fixture, &main), &what);
        damaged.judge_healing(fixture, &what);
    }
}

#[test]
fn an_older_generation_put_back_under_a_newer_name() {
    let fixture = fixture();
    for kind in [ContainerKind::Data, ContainerKind::Recipe, ContainerKind::Small] {
        let old = container(kind).remove(0);
        let id = container_of(&old).unwrap();
        let newer = names::container(id, types::Generation::new(1).unwrap());
        let (what, damaged) = run(&newer, &older(&old));
        assert!(damaged.names(&old), "{what}: {:?}", damaged.report);
        damaged.judge_healing(fixture, &what);
    }
}

#[test]
fn runs_of_the_index_are_hints() {
    let fixture = fixture();
    let runs = all(|name| names::parse_index_run(name).is_some());
    for name in &runs {
        for way in of_itself(&fixture.objects[name])
            .into_iter()
            .chain([swap(&runs[0])])
        {
            let (what, damaged) = run(name, &way);
            assert!(damaged.report.is_sound(), "{what}: {:?}", damaged.report);
            damaged.judge_healing(fixture, &what);
        }
    }
}
