//! Revisions of manifests against a plain model; damage; selection; I/O counts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use env::Storage;
use env::fault::{Counted, FailWith, Fault, OpKind};
use format::manifest::{Backup, Manifest};
use format::{names, wire};
use proptest::prelude::*;
use types::{Revision, SessionId};

use super::{Host, backup_of, id, plain_backup, series};
use crate::{Filter, Forgetting, Manifests, NamedContainers, Seen, SessionError};

fn revision(n: u32) -> Revision {
    Revision::new(n).unwrap()
}

fn put(host: &Host, session: u64, n: u32, manifest: &Manifest) {
    let name = names::manifest(series(1), id(session), revision(n));
    assert_eq!(
        host.objects().put_durably(&name, manifest).unwrap(),
        crate::objects::Put::Created
    );
}

fn tagged(tag: &str) -> Backup {
    Backup {
        tags: vec![tag.to_owned()],
        ..plain_backup(1)
    }
}

#[test]
fn the_highest_revision_counts_but_a_tombstone_is_final() {
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    put(&host, 1, 1, &Manifest::Revised(tagged("one")));
    put(&host, 2, 0, &Manifest::Commit(plain_backup(1)));
    put(&host, 2, 1, &Manifest::Forgotten);
    put(&host, 2, 2, &Manifest::Revised(tagged("too late")));
    put(&host, 3, 0, &Manifest::Expired { by: id(9) });
    put(
        &host,
        4,
        0,
        &Manifest::Adopted {
            by: id(9),
            checkpoint: None,
        },
    );
    let manifests = Manifests::new(&host.sealer);
    let list = manifests.list().unwrap();
    assert_eq!(list.entries.len(), 4);
    assert_eq!(list.get(id(1)).unwrap().backup().unwrap().tags, ["one"]);
    assert!(list.get(id(2)).unwrap().is_forgotten());
    assert_eq!(list.backups().count(), 1);
    assert!(list.get(id(3)).unwrap().ended_by().is_some() && list.get(id(4)).unwrap().ended_by().is_some());

    let revise = manifests.revise(series(1), id(2), |_| Ok(Some(tagged("no"))));
    assert!(matches!(revise, Err(SessionError::Forgotten { .. })));
    for session in [3, 4, 5] {
        assert!(matches!(
            manifests.forget(series(1), id(session)),
            Err(SessionError::NoBackup { .. })
        ));
    }
    assert_eq!(manifests.forget(series(1), id(1)).unwrap(), revision(2));
    assert_eq!(
        manifests.forget(series(1), id(1)).unwrap(),
        revision(2),
        "twice is once"
    );
}

#[test]
fn forget_as_seen_overrules_no_other_revision() {
    let host = Host::new();
    let manifests = Manifests::new(&host.sealer);
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    let seen = |n, is_read| Seen {
        highest: revision(n),
        is_read,
    };
    let forget = |n| manifests.forget_as_seen(series(1), id(1), seen(n, true)).unwrap();
    // Another process puts a hold between the look and the tombstone.
    manifests
        .revise(series(1), id(1), |_| Ok(Some(tagged("hold"))))
        .unwrap();
    assert_eq!(forget(0), Forgetting::Revised);
    assert!(manifests.list().unwrap().get(id(1)).unwrap().backup().is_some());
    assert_eq!(forget(1), Forgetting::Done);
    assert_eq!(forget(1), Forgetting::Before);
    assert!(manifests.list().unwrap().get(id(1)).unwrap().is_forgotten());
    put(&host, 3, 0, &Manifest::Expired { by: id(9) });
    for session in [2, 3] {
        let forgot = manifests.forget_as_seen(series(1), id(session), seen(0, true));
        assert!(matches!(forgot, Err(SessionError::NoBackup { .. })));
    }
    // The caller gave it up when the storage did not give it, and now the storage does.
    put(&host, 4, 0, &Manifest::Commit(plain_backup(1)));
    let unread = manifests.forget_as_seen(series(1), id(4), seen(0, false));
    assert_eq!(unread.unwrap(), Forgetting::Revised);
    take_sector(&host, &names::manifest(series(1), id(4), Revision::FIRST));
    let unread = Manifests::new(&host.sealer).forget_as_seen(series(1), id(4), seen(0, false));
    assert_eq!(unread.unwrap(), Forgetting::Done);
}

#[test]
fn a_revision_during_a_storage_failure_forgets_nothing() {
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    let beside = host.beside();
    // The listing before the put reads one manifest.
    beside
        .storage
        .inject_here(Fault::fail_from(2, FailWith::Io).counting(Counted::Only(OpKind::Get)));
    let revised = Manifests::new(&beside.sealer).revise(series(1), id(1), |_| Ok(Some(tagged("x"))));
    assert!(
        matches!(&revised, Err(SessionError::Damaged(object)) if object.is_unread),
        "{revised:?}"
    );
    let list = Manifests::new(&host.sealer).list().unwrap();
    assert_eq!(list.get(id(1)).unwrap().backup().unwrap().tags, ["x"]);
    assert_eq!(list.get(id(1)).unwrap().revisions.len(), 2);
}

#[test]
fn a_backup_of_which_one_revision_rots_and_another_is_unread_may_come_back() {
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    put(&host, 1, 1, &Manifest::Revised(tagged("x")));
    let [first, second] = [0, 1].map(|n| names::manifest(series(1), id(1), revision(n)));
    host.storage.damage(&second, |bytes| bytes[80] ^= 1);
    take_sector(&host, &first);
    let list = Manifests::new(&host.sealer).list().unwrap();
    assert!(list.get(id(1)).is_none());
    assert_eq!(list.unread_of(series(1), id(1)).unwrap().name, first);
    assert_eq!(list.damaged_of(id(1)).count(), 2);
}

#[test]
fn the_digest_is_of_the_stored_bytes() {
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    let manifests = Manifests::new(&host.sealer);
    let stored = manifests.read(series(1), id(1), Revision::FIRST).unwrap();
    let bytes = host
        .storage
        .get(&names::manifest(series(1), id(1), Revision::FIRST))
        .unwrap();
    assert_eq!(stored.digest, wire::digest(&bytes));
    assert!(matches!(
        manifests.read(series(1), id(1), revision(1)),
        Err(SessionError::NoBackup { .. })
    ));
}

#[test]
fn a_listing_costs_one_listing_and_a_read_a_backup_and_then_none() {
    let host = Host::new();
    for n in 1..=50 {
        put(&host, n, 0, &Manifest::Commit(plain_backup(1)));
        if n % 5 == 0 {
            put(&host, n, 1, &Manifest::Revised(tagged("x")));
        }
    }
    let manifests = Manifests::new(&host.sealer);
    let cost = |manifests: &Manifests| {
        let before = host.storage.counters();
        assert_eq!(manifests.list().unwrap().backups().count(), 50);
        let cost = host.storage.counters().since(&before);
        (cost.lists, cost.gets, cost.heads)
    };
    assert_eq!(cost(&manifests), (1, 50, 0));
    assert_eq!(cost(&manifests), (1, 0, 0), "an object never changes");
    put(&host, 7, 1, &Manifest::Revised(tagged("y")));
    assert_eq!(cost(&manifests), (1, 1, 0));
}

#[test]
fn a_damaged_manifest_is_named_and_hides_no_other() {
    let host = Host::new();
    for n in 1..=3 {
        put(&host, n, 0, &Manifest::Commit(plain_backup(1)));
    }
    put(&host, 3, 1, &Manifest::Revised(tagged("x")));
    let (alone, newer) = (
        names::manifest(series(1), id(2), revision(0)),
        names::manifest(series(1), id(3), revision(1)),
    );
    host.storage.damage(&alone, |bytes| bytes.truncate(100));
    host.storage.damage(&newer, |bytes| bytes[80] ^= 1);
    let manifests = Manifests::new(&host.sealer);
    let list = manifests.list().unwrap();
    let mut damaged: Vec<_> = list.damaged.iter().map(|object| object.name.clone()).collect();
    damaged.sort();
    assert_eq!(damaged, [alone.clone(), newer]);
    let left: Vec<_> = list
        .backups()
        .map(|entry| (entry.session(), entry.newer_unreadable))
        .collect();
    assert_eq!(
        left,
        [(id(1), false), (id(3), true)],
        "of 3 the older revision can be restored"
    );
    let error = manifests.resolve(&list, "2", &Filter::default()).unwrap_err();
    assert!(
        matches!(&error, SessionError::Damaged(object) if object.name == alone),
        "{error}"
    );
    manifests.forget(series(1), id(2)).unwrap();
    assert!(
        manifests.list().unwrap().get(id(2)).unwrap().is_forgotten(),
        "a way out"
    );
}

fn take_sector(host: &Host, name: &types::ObjectName) {
    host.storage
        .make_unreadable(name, types::ByteRange { offset: 60, len: 1 });
}

#[test]
fn a_manifest_on_a_bad_sector_is_named_and_hides_no_other() {
    let host = Host::new();
    // So many that several threads read them.
    for n in 1..=40 {
        put(&host, n, 0, &Manifest::Commit(plain_backup(1)));
    }
    put(&host, 3, 1, &Manifest::Revised(tagged("x")));
    let bad = [(2, 0), (3, 1)].map(|(session, n)| names::manifest(series(1), id(session), revision(n)));
    bad.iter().for_each(|name| take_sector(&host, name));
    let manifests = Manifests::new(&host.sealer);
    let list = manifests.list().unwrap();
    let damaged: Vec<_> = list.damaged.iter().map(|object| object.name.clone()).collect();
    assert_eq!(damaged, bad);
    assert!(list.damaged.iter().all(|object| object.is_unread), "{list:?}");
    assert_eq!(list.backups().count(), 39);
    assert!(list.get(id(3)).unwrap().newer_unreadable);
    assert!(list.get(id(2)).is_none());
    assert!(
        matches!(manifests.resolve(&list, "2", &Filter::default()), Err(SessionError::Damaged(object)) if object.name == bad[0])
    );
    assert!(NamedContainers::load(&manifests, &list).is_ok());

    let refused = manifests.revise(series(1), id(2), |_| Ok(Some(tagged("of nothing"))));
    assert!(matches!(refused, Err(SessionError::Damaged(object)) if object.name == bad[0]));
    // `change` learns of the doubt, and decides.
    let mut told = None;
    let above = manifests.revise(series(1), id(3), |present| {
        told = present.unread.cloned();
        Ok(present.is_in_doubt.then(|| tagged("of an older revision")))
    });
    assert_eq!((above.unwrap(), &told.unwrap().name), (revision(2), &bad[1]));
    assert!(!manifests.list().unwrap().get(id(3)).unwrap().newer_unreadable);
    manifests
        .revise(series(1), id(4), |_| Ok(Some(tagged("y"))))
        .unwrap();
    manifests.forget(series(1), id(2)).unwrap();
    assert!(
        manifests.list().unwrap().get(id(2)).unwrap().is_forgotten(),
        "a way out"
    );
}

/// A tombstone is final, and so is the doubt whether there is one.
#[test]
fn a_revision_above_a_possible_tombstone_makes_nothing_certain() {
    let host = Host::new();
    for n in 1..=3 {
        put(&host, n, 0, &Manifest::Commit(plain_backup(1)));
    }
    put(&host, 1, 1, &Manifest::Forgotten);
    put(&host, 2, 1, &Manifest::Forgotten);
    put(&host, 3, 1, &Manifest::Revised(tagged("no tombstone")));
    let name = |n| names::manifest(series(1), id(n), revision(1));
    take_sector(&host, &name(1));
    host.storage.damage(&name(2), |bytes| bytes[70] ^= 1);
    take_sector(&host, &name(3));
    let manifests = Manifests::new(&host.sealer);
    let mut told = Vec::new();
    for n in 1..=3 {
        let change = |present: &crate::Present<'_>| {
            told.push(present.may_be_forgotten);
            Ok(Some(tagged("above")))
        };
        assert_eq!(manifests.revise(series(1), id(n), change).unwrap(), revision(2));
    }
    assert_eq!(told, [true, true, false], "a tombstone is short");
    let list = Manifests::new(&host.sealer).list().unwrap();
    let doubts = |n| {
        let entry = list.get(id(n)).unwrap();
        (
            entry.newer_unreadable,
            entry.may_be_forgotten,
            entry.is_in_doubt(),
        )
    };
    assert_eq!([1, 2].map(doubts), [(false, true, true); 2]);
    assert_eq!(doubts(3), (false, false, false));
    manifests.forget(series(1), id(2)).unwrap();
    let nowhere = types::ByteRange {
        offset: 1 << 40,
        len: 1,
    };
    host.storage.make_unreadable(&name(1), nowhere);
    let list = Manifests::new(&host.sealer).list().unwrap();
    for n in [1, 2] {
        let entry = list.get(id(n)).unwrap();
        assert!(entry.is_forgotten() && !entry.is_in_doubt(), "{n}");
    }
}

/// A power cut left the beginning of an object that was not durable. A revision above it ends the
/// doubt.
#[test]
fn an_object_shorter_than_a_tombstone_is_none() {
    let len = Manifest::Forgotten.to_bytes().len() + format::frame::FRAME_OVERHEAD_BYTES;
    for (left, may_be_forgotten) in [(0, false), (len - 1, false), (len, true), (len + 17, false)] {
        let host = Host::new();
        put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
        put(&host, 1, 1, &Manifest::Revised(tagged("torn")));
        let name = names::manifest(series(1), id(1), revision(1));
        assert!(host.storage.damage(&name, |bytes| bytes.truncate(left)));
        let entry = || {
            let list = Manifests::new(&host.sealer).list().unwrap();
            list.get(id(1)).unwrap().clone()
        };
        let torn = entry();
        assert_eq!(
            (torn.newer_unreadable, torn.may_be_forgotten),
            (true, may_be_forgotten)
        );
        let change = |_: &crate::Present<'_>| Ok(Some(tagged("above")));
        let above = Manifests::new(&host.sealer).revise(series(1), id(1), change);
        assert_eq!(above.unwrap(), revision(2));
        assert_eq!(entry().is_in_doubt(), may_be_forgotten, "{left} bytes");
    }
}

#[test]
fn a_list_with_an_unread_manifest_is_not_whole() {
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    put(&host, 2, 0, &Manifest::Commit(plain_backup(1)));
    let manifests = Manifests::new(&host.sealer);
    assert_eq!(manifests.list().unwrap().whole().unwrap().entries.len(), 2);
    let bad = names::manifest(series(1), id(2), Revision::FIRST);
    take_sector(&host, &bad);
    let refused = Manifests::new(&host.sealer).list().unwrap().whole();
    assert!(matches!(refused, Err(SessionError::Damaged(object)) if object.name == bad));
}

#[test]
fn the_latest_is_not_one_before_a_manifest_that_may_come_back() {
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    let other = names::manifest(series(2), id(2), Revision::FIRST);
    for n in [2, 3] {
        let name = names::manifest(series(2), id(n), Revision::FIRST);
        host.objects()
            .put_durably(&name, &Manifest::Commit(plain_backup(2)))
            .unwrap();
    }
    let latest = |filter: &Filter| {
        let manifests = Manifests::new(&host.sealer);
        let list = manifests.list().unwrap();
        manifests
            .resolve(&list, "latest", filter)
            .map(crate::ManifestEntry::session)
    };
    let of_first = Filter {
        hosts: vec![plain_backup(1).series.host],
        ..Filter::default()
    };
    take_sector(&host, &other);
    assert_eq!(latest(&Filter::default()).unwrap(), id(3), "that one is older");
    let newest = names::manifest(series(2), id(3), Revision::FIRST);
    take_sector(&host, &newest);
    let refused = latest(&Filter::default()).unwrap_err();
    assert!(
        matches!(&refused, SessionError::LatestInDoubt { latest, .. } if *latest == Some(id(1))),
        "{refused}"
    );
    assert!(refused.to_string().contains(newest.as_str()) || refused.to_string().contains(other.as_str()));
    put(&host, 4, 0, &Manifest::Commit(plain_backup(1)));
    assert_eq!(latest(&Filter::default()).unwrap(), id(4));
    // Its series has other backups, and the filter lets none of them pass.
    let name = names::manifest(series(2), id(5), Revision::FIRST);
    let second = Manifest::Commit(plain_backup(2));
    host.objects().put_durably(&name, &second).unwrap();
    let last = names::manifest(series(2), id(6), Revision::FIRST);
    host.objects().put_durably(&last, &second).unwrap();
    take_sector(&host, &last);
    assert_eq!(latest(&of_first).unwrap(), id(4));
    assert!(latest(&Filter::default()).is_err());
}

/// A manifest that rotted was acknowledged. A torn one was not.
#[test]
fn the_latest_is_not_one_before_a_manifest_that_rotted_and_may_be_one_before_a_torn_one() {
    let host = Host::new();
    for n in 1..=3 {
        put(&host, n, 0, &Manifest::Commit(plain_backup(1)));
    }
    let name = |n| names::manifest(series(1), id(n), Revision::FIRST);
    let manifests = Manifests::new(&host.sealer);
    let latest = || {
        // These have cached nothing.
        let manifests = Manifests::new(&host.sealer);
        let list = manifests.list().unwrap();
        manifests
            .resolve(&list, "latest", &Filter::default())
            .map(crate::ManifestEntry::session)
    };
    // A session deletes its heartbeats when its backup is safe. Missing containers show nothing.
    let heartbeats = [2, 3].map(|n| names::heartbeat(id(n), 0));
    for (n, heartbeat) in [2, 3].into_iter().zip(&heartbeats) {
        host.storage.damage(&name(n), |bytes| bytes.truncate(70));
        host.storage.put(heartbeat, &[b"alive"]).unwrap();
    }
    assert_eq!(latest().unwrap(), id(1), "nobody was told of those");
    host.storage.delete(&heartbeats[0]).unwrap();
    let refused = latest().unwrap_err();
    assert!(
        matches!(&refused, SessionError::LatestInDoubt { damaged, .. } if damaged.name == name(2)),
        "{refused}"
    );
    let words = refused.to_string();
    assert!(
        words.contains("is damaged")
            && words.contains("1 is the latest")
            && words.contains("onefold forget 2"),
        "{words}"
    );
    host.storage.damage(&name(1), |bytes| bytes.truncate(70));
    let refused = latest().unwrap_err().to_string();
    assert!(refused.contains("no other can be read"), "{refused}");
    for n in [1, 2] {
        manifests.forget(series(1), id(n)).unwrap();
    }
    assert!(matches!(latest(), Err(SessionError::NoBackup { .. })));
}

#[test]
fn a_storage_that_fails_as_a_whole_ends_a_listing() {
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    for with in [FailWith::Io, FailWith::Denied] {
        let beside = host.beside();
        beside
            .storage
            .inject_here(Fault::fail_from(1, with).counting(Counted::All));
        let error = Manifests::new(&beside.sealer).list().unwrap_err();
        assert!(matches!(error, SessionError::Storage(_)), "{error}");
    }
}

#[test]
fn every_truncation_and_flip_is_damage_and_no_panic() {
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    let name = names::manifest(series(1), id(1), Revision::FIRST);
    let whole = host.storage.get(&name).unwrap();
    for at in 0..whole.len() {
        for cut in [true, false] {
            host.storage.damage(&name, |bytes| {
                bytes.clone_from(&whole);
                if cut {
                    bytes.truncate(at)
                } else {
                    bytes[at] ^= 0x10
                }
            });
            let list = Manifests::new(&host.sealer).list().unwrap();
            assert_eq!(
                (list.entries.len(), list.damaged.len()),
                (0, 1),
                "byte {at}, cut {cut}"
            );
        }
    }
}

#[test]
fn two_simultaneous_revisions_are_both_kept() {
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    let next = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (manifests, next) = (Manifests::new(&host.beside().sealer), Arc::clone(&next));
            thread::spawn(move || {
                for _ in 0..5 {
                    let mine = format!("t{:04}", next.fetch_add(1, Ordering::Relaxed));
                    manifests
                        .revise(series(1), id(1), |present| {
                            let mut backup = present.backup.clone();
                            backup.tags.push(mine.clone());
                            backup.tags.sort();
                            Ok(Some(backup))
                        })
                        .unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let list = Manifests::new(&host.sealer).list().unwrap();
    let entry = list.get(id(1)).unwrap();
    let expected: Vec<_> = (0..20).map(|n| format!("t{n:04}")).collect();
    assert_eq!(
        entry.backup().unwrap().tags,
        expected,
        "each saw the others' before adding its own"
    );
    assert_eq!(entry.revisions.len(), 21);
}

#[test]
fn a_revision_above_a_backup_that_was_dropped_meanwhile_brings_nothing_back() {
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    let manifests = Manifests::new(&host.sealer);
    let result = manifests.revise(series(1), id(1), |_| {
        // Forgotten, and 30 days later deleted, the tombstone last.
        host.storage
            .delete(&names::manifest(series(1), id(1), Revision::FIRST))
            .unwrap();
        Ok(Some(tagged("awake again")))
    });
    assert!(
        matches!(result, Err(SessionError::Forgotten { .. })),
        "{result:?}"
    );
    assert_eq!(manifests.list().unwrap().backups().count(), 0);
}

#[test]
fn latest_is_the_highest_number_that_the_filter_lets_through() {
    let host = Host::new();
    let sessions: Vec<_> = [1u8, 2, 1, 2]
        .into_iter()
        .map(|series| host.begin(series))
        .collect();
    for (n, session) in sessions.iter().enumerate().rev() {
        let mut backup = backup_of(session, 0);
        backup.tags = if n < 2 {
            vec!["early".to_owned()]
        } else {
            Vec::new()
        };
        session.commit(backup).unwrap();
    }
    let manifests = Manifests::new(&host.sealer);
    let list = manifests.list().unwrap();
    let resolve = |filter: &Filter| {
        let found = manifests.resolve(&list, "latest", filter);
        found.map(|entry| entry.session().get())
    };
    let any = Filter::default();
    assert_eq!(resolve(&any).unwrap(), 4, "though it was committed first");
    assert_eq!(
        resolve(&Filter {
            hosts: vec![b"host1".to_vec()],
            ..any.clone()
        })
        .unwrap(),
        3
    );
    assert_eq!(
        resolve(&Filter {
            tags: vec![vec!["early".to_owned()]],
            ..any.clone()
        })
        .unwrap(),
        2
    );
    assert_eq!(
        resolve(&Filter {
            paths: vec![b"/etc".to_vec()],
            ..any.clone()
        })
        .unwrap(),
        4
    );
    let nothing = Filter {
        hosts: vec![b"host8".to_vec(), b"host9".to_vec()],
        paths: vec![b"/srv".to_vec()],
        tags: vec![vec!["a".to_owned(), "b".to_owned()], vec![]],
        ..any.clone()
    };
    let error = resolve(&nothing).unwrap_err().to_string();
    assert!(
        error.contains("no backup latest of host host8 or host9 of /srv tagged a,b or without tags"),
        "{error}"
    );
    assert_eq!(manifests.resolve(&list, "2", &any).unwrap().session(), id(2));
    for text in ["9", "", "x", "-1", "99999999999999999999"] {
        assert!(
            matches!(
                manifests.resolve(&list, text, &any),
                Err(SessionError::NoBackup { .. })
            ),
            "{text}"
        );
    }
}

#[test]
fn a_listing_begins_again_when_objects_vanish_under_its_hands() {
    // The manifest is listed, and deleted by a rival before it is read. The second listing lacks
    // it.
    let host = Host::new();
    put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
    put(&host, 2, 0, &Manifest::Commit(plain_backup(1)));
    let storage = super::silence::Wrapped::new(host.storage.handle(), Box::new(|_| ()));
    let vanishing = Vanishing {
        storage,
        name: names::manifest(series(1), id(1), Revision::FIRST),
    };
    let sealer = super::sealer(Arc::new(vanishing), &host.clock);
    let list = Manifests::new(&sealer).list().unwrap();
    assert_eq!(
        list.entries
            .iter()
            .map(crate::ManifestEntry::session)
            .collect::<Vec<_>>(),
        [id(2)]
    );
}

/// Deletes an object just before it is read.
#[derive(Debug)]
struct Vanishing {
    storage: super::silence::Wrapped,
    name: types::ObjectName,
}

impl Storage for Vanishing {
    fn put(&self, name: &types::ObjectName, parts: &[&[u8]]) -> Result<(), env::StorageError> {
        self.storage.put(name, parts)
    }
    fn barrier(&self) -> Result<(), env::StorageError> {
        self.storage.barrier()
    }
    fn get(&self, name: &types::ObjectName) -> Result<Vec<u8>, env::StorageError> {
        if *name == self.name {
            self.storage.delete(name)?;
        }
        self.storage.get(name)
    }
    fn get_range(
        &self,
        name: &types::ObjectName,
        range: types::ByteRange,
    ) -> Result<Vec<u8>, env::StorageError> {
        self.storage.get_range(name, range)
    }
    fn get_tail(&self, name: &types::ObjectName, len: u64) -> Result<(Vec<u8>, u64), env::StorageError> {
        self.storage.get_tail(name, len)
    }
    fn head(&self, name: &types::ObjectName) -> Result<env::ObjectMeta, env::StorageError> {
        self.storage.head(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<env::ObjectMeta>, env::StorageError> {
        self.storage.list(folder)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, env::StorageError> {
        self.storage.list_folders(folder)
    }
    fn delete(&self, name: &types::ObjectName) -> Result<(), env::StorageError> {
        self.storage.delete(name)
    }
    fn lock(&self, name: &types::ObjectName) -> Result<Option<Box<dyn env::ProcessLock>>, env::StorageError> {
        self.storage.lock(name)
    }
    fn lock_state(&self, name: &types::ObjectName) -> Result<env::LockState, env::StorageError> {
        self.storage.lock_state(name)
    }
    fn drop_lock(&self, name: &types::ObjectName) -> Result<(), env::StorageError> {
        self.storage.drop_lock(name)
    }
}

#[test]
fn a_forget_that_crashes_is_done_or_not_and_an_acknowledged_one_stays() {
    for n in 1..=3 {
        for fault in [Fault::stop(n), Fault::stop_after(n)] {
            for policy in super::crashes::POLICIES {
                let host = Host::new();
                put(&host, 1, 0, &Manifest::Commit(plain_backup(1)));
                host.storage.inject(fault);
                let acknowledged = Manifests::new(&host.sealer).forget(series(1), id(1)).is_ok();
                let after = Host::of(host.storage.crash(policy), host.clock.clone());
                let manifests = Manifests::new(&after.sealer);
                let list = manifests.list().unwrap();
                let entry = list.get(id(1)).expect("a torn tombstone hides no backup");
                assert!(entry.is_forgotten() || !acknowledged);
                manifests.forget(series(1), id(1)).unwrap();
                assert!(manifests.list().unwrap().get(id(1)).unwrap().is_forgotten());
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Backup,
    Tombstone,
    Damaged,
    DamagedTombstone,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]
    #[test]
    fn any_set_of_revisions_gives_the_result_of_the_rule(
        revisions in prop::collection::btree_map((1..4u64, 0..6u32), prop_oneof![
            4 => Just(Kind::Backup), 1 => Just(Kind::Tombstone), 1 => Just(Kind::Damaged),
            1 => Just(Kind::DamagedTombstone),
        ], 0..14)
    ) {
        let host = Host::new();
        let mut model: BTreeMap<SessionId, Vec<(u32, Kind)>> = BTreeMap::new();
        for ((session, n), kind) in &revisions {
            let kind = match kind {
                Kind::Tombstone if *n == 0 => Kind::Backup,
                Kind::DamagedTombstone if *n == 0 => Kind::Damaged,
                kind => *kind,
            };
            let tag = format!("r{n}");
            put(&host, *session, *n, &match (kind, n) {
                (Kind::Tombstone | Kind::DamagedTombstone, _) => Manifest::Forgotten,
                (_, 0) => Manifest::Commit(tagged(&tag)),
                _ => Manifest::Revised(tagged(&tag)),
            });
            if matches!(kind, Kind::Damaged | Kind::DamagedTombstone) {
                let name = names::manifest(series(1), id(*session), revision(*n));
                host.storage.damage(&name, |bytes| bytes[70] ^= 1);
            }
            model.entry(id(*session)).or_default().push((*n, kind));
        }
        let list = Manifests::new(&host.sealer).list().unwrap();
        for (session, revisions) in &model {
            let forgotten = revisions.iter().any(|(_, kind)| *kind == Kind::Tombstone);
            let counts = revisions.iter().rev().find(|(_, kind)| *kind == Kind::Backup);
            let entry = list.get(*session);
            if forgotten {
                prop_assert!(entry.unwrap().is_forgotten());
            } else if let Some((n, _)) = counts {
                let entry = entry.unwrap();
                prop_assert_eq!(&entry.backup().unwrap().tags, &[format!("r{n}")]);
                let highest = revisions.last().unwrap().1;
                let is_damaged = matches!(highest, Kind::Damaged | Kind::DamagedTombstone);
                prop_assert_eq!(entry.newer_unreadable, is_damaged);
                let may_be = revisions.iter().any(|(_, kind)| *kind == Kind::DamagedTombstone);
                prop_assert_eq!(entry.may_be_forgotten, may_be);
            } else {
                prop_assert!(entry.is_none());
                prop_assert!(!list.damaged.is_empty());
            }
        }
    }
}
