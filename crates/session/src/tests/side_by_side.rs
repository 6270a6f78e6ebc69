//! Reads that are made side by side: each takes a round trip to an object store.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use format::frame::ObjectKind;
use format::manifest::{Backup, Manifest};
use format::names;
use format::reclaim::{CoveredManifest, GroupId, Marks, SlotList};
use types::{ObjectName, Revision};

use super::silence::Wrapped;
use super::{Host, data, id, plain_backup, sealer, series, span};
use crate::{Manifests, NamedContainers};

/// Holds the first caller back until another one calls meanwhile.
#[derive(Default)]
struct Meeting {
    callers: Mutex<u32>,
    came: Condvar,
}

impl Meeting {
    fn call(&self) {
        let mut callers = self.callers.lock().unwrap();
        *callers += 1;
        self.came.notify_all();
        let second = |callers: &mut u32| *callers < 2;
        let (callers, waited) = self
            .came
            .wait_timeout_while(callers, Duration::from_secs(10), second)
            .unwrap();
        drop(callers);
        assert!(!waited.timed_out(), "nobody reads beside it");
    }
}

fn put(host: &Host, session: u64, revision: u32, manifest: &Manifest) {
    let name = names::manifest(series(1), id(session), Revision::new(revision).unwrap());
    host.objects().put_durably(&name, manifest).unwrap();
}

/// An object store, in which two reads of such objects must be made side by side.
fn manifests(host: &Host, are_met: impl Fn(&ObjectName) -> bool + Send + Sync + 'static) -> Manifests {
    let meeting = Meeting::default();
    let storage = Wrapped::far_read(
        host.storage.clone(),
        Box::new(move |name| {
            if are_met(name) {
                meeting.call();
            }
        }),
    );
    Manifests::new(&sealer(Arc::new(storage), &host.clock))
}

/// A store may have thousands of forgotten backups.
#[test]
fn what_forgotten_backups_name_is_read_side_by_side() {
    let host = Host::new();
    for n in 1..=20 {
        let backup = Backup {
            containers: vec![span(u32::try_from(n).unwrap(), 1)],
            ..plain_backup(1)
        };
        put(&host, n, 0, &Manifest::Commit(backup));
        put(&host, n, 1, &Manifest::Forgotten);
    }
    let is_lower = |name: &ObjectName| {
        names::parse_manifest(name).is_some_and(|(_, _, revision)| revision == Revision::FIRST)
    };
    let manifests = manifests(&host, is_lower);
    let list = manifests.list().unwrap();
    let before = host.storage.counters();
    let named = NamedContainers::load(&manifests, &list).unwrap();
    assert_eq!(host.storage.counters().since(&before).gets, 20, "one for each");
    for n in 1..=20 {
        let sequence = u32::try_from(n).unwrap();
        assert!(named.contains(data(id(n), sequence)) && !named.contains(data(id(n), sequence + 1)));
    }
}

/// A series has a group for every sixteen backups. Those of any lower group may cover a backup.
#[test]
fn marks_of_lower_groups_are_read_side_by_side_before_a_revision_is_put() {
    let host = Host::new();
    put(&host, 30, 0, &Manifest::Commit(plain_backup(1)));
    let put_marks = |group: GroupId, session, revision| {
        let covered = CoveredManifest {
            session: id(session),
            revision: Revision::new(revision).unwrap(),
            digest: 0,
            forgotten: false,
            kept: false,
            next: None,
            rewritten: false,
        };
        let marks = Marks {
            group,
            epoch: None,
            covers: vec![covered],
            live: SlotList::default(),
        };
        let name = names::marks(group, Revision::FIRST);
        let put = host.sealer.put(&name, ObjectKind::Marks, &marks.to_bytes());
        put.unwrap();
    };
    let group = |series, first| GroupId {
        series,
        first: id(first),
    };
    for first in 1..=20 {
        put_marks(group(series(1), first), 30, if first == 10 { 5 } else { 1 });
    }
    // Of another series, and above the backup.
    put_marks(group(series(2), 1), 30, 20);
    put_marks(group(series(1), 31), 31, 20);
    let manifests = manifests(&host, |name| names::parse_marks(name).is_some());
    let before = host.storage.counters();
    let revised = manifests.revise(series(1), id(30), |present| Ok(Some(present.backup.clone())));
    assert_eq!(revised.unwrap(), Revision::new(6).unwrap());
    let cost = host.storage.counters().since(&before);
    assert_eq!(cost.gets, 20 + 2, "marks; the revision before, and the new one");
}
