//! Many backups that are revised at once: the cost, and that each follows the rules of one.

use std::cell::Cell;

use env::Storage;
use format::manifest::{Backup, Manifest};
use format::names;
use types::{Revision, SeriesId, SessionId};

use super::{Host, id, plain_backup, series};
use crate::objects::Put;
use crate::{Manifests, SessionError};

fn put(host: &Host, (series, session): (SeriesId, SessionId), n: u32, manifest: &Manifest) {
    let name = names::manifest(series, session, Revision::new(n).unwrap());
    assert_eq!(host.objects().put_durably(&name, manifest).unwrap(), Put::Created);
}

fn tagged(before: &Backup, tag: &str) -> Backup {
    let mut backup = before.clone();
    backup.tags.push(tag.to_owned());
    backup
}

/// This many backups in each of three series.
fn backups(host: &Host, of_each: u64) -> Vec<(SeriesId, SessionId)> {
    let all = (1..=3 * of_each).map(|n| (series(u8::try_from(n % 3).unwrap() + 1), id(n)));
    let all: Vec<_> = all.collect();
    for backup in &all {
        put(host, *backup, 0, &Manifest::Commit(plain_backup(1)));
    }
    all
}

#[test]
fn barriers_and_listings_do_not_grow_with_the_backups_that_are_revised() {
    for of_each in [1, 30] {
        let host = Host::new();
        let all = backups(&host, of_each);
        let asked = Cell::new(0);
        let before_put = || {
            asked.set(asked.get() + 1);
            Ok(())
        };
        let before = host.storage.counters();
        let manifests = Manifests::new(&host.sealer);
        let revised = manifests.revise_all(&all, &before_put, |at, present| {
            Ok(Some(tagged(present.backup, &format!("t{at}"))))
        });
        let cost = host.storage.counters().since(&before);
        assert!(
            revised
                .unwrap()
                .iter()
                .all(|one| *one.as_ref().unwrap() == Revision::new(1).unwrap())
        );
        // For each series: existing revisions, covered ones, and the existing ones again after the
        // second barrier.
        assert_eq!((cost.lists, cost.barriers), (9, 2));
        assert_eq!((cost.puts, asked.get()), (3 * of_each, 3 * of_each));
        let list = manifests.list().unwrap();
        for (at, (_, session)) in all.iter().enumerate() {
            assert_eq!(
                list.get(*session).unwrap().backup().unwrap().tags,
                [format!("t{at}")]
            );
        }
        let before = host.storage.counters();
        let same = manifests.revise_all(&all, &|| unreachable!("nothing is put"), |_, _| Ok(None));
        let cost = host.storage.counters().since(&before);
        assert_eq!(same.unwrap().len(), all.len());
        assert_eq!((cost.barriers, cost.puts), (0, 0));
        assert_eq!(cost.lists, 6);
    }
}

#[test]
fn changes_by_others_affect_only_the_changed_backups() {
    let host = Host::new();
    let [kept, forgotten, revised, dropped, other] = [1, 2, 3, 4, 5].map(|n| (series(1), id(n)));
    for backup in [kept, forgotten, revised, dropped, other] {
        put(&host, backup, 0, &Manifest::Commit(plain_backup(1)));
    }
    put(&host, (series(1), id(9)), 0, &Manifest::Expired { by: id(20) });
    let manifests = Manifests::new(&host.sealer);
    let wanted = [
        kept,
        forgotten,
        revised,
        dropped,
        other,
        (series(1), id(9)),
        (series(2), id(10)),
    ];
    let revision_of = |session| {
        let list = Manifests::new(&host.sealer).list().unwrap();
        list.get(session).map(|entry| entry.stored.revision.get())
    };
    let mut is_first = true;
    let done = manifests
        .revise_all(&wanted, &|| Ok(()), |at, present| {
            if std::mem::take(&mut is_first) {
                put(&host, forgotten, 1, &Manifest::Forgotten);
                put(
                    &host,
                    revised,
                    1,
                    &Manifest::Revised(tagged(&plain_backup(1), "also")),
                );
                // Forgotten, and 30 days later deleted, the tombstone last.
                let last = names::manifest(dropped.0, dropped.1, Revision::FIRST);
                host.storage.delete(&last).unwrap();
            }
            Ok((at != 4).then(|| tagged(present.backup, "ours")))
        })
        .unwrap();
    let told: Vec<_> = done
        .iter()
        .map(|one| one.as_ref().map(|revision| revision.get()).ok())
        .collect();
    assert_eq!(told, [Some(1), None, Some(2), None, Some(0), None, None]);
    for (at, session) in [(1, forgotten.1), (3, dropped.1)] {
        assert!(
            matches!(done[at], Err(SessionError::Forgotten { session: of }) if of == session),
            "{done:?}"
        );
    }
    assert!(matches!(
        done[5..],
        [
            Err(SessionError::NoBackup { .. }),
            Err(SessionError::NoBackup { .. })
        ]
    ));
    let list = Manifests::new(&host.sealer).list().unwrap();
    assert_eq!(
        list.get(revised.1).unwrap().backup().unwrap().tags,
        ["also", "ours"]
    );
    assert!(list.get(forgotten.1).unwrap().is_forgotten() && list.get(dropped.1).unwrap().is_forgotten());
    assert_eq!([kept.1, other.1].map(revision_of), [Some(1), Some(0)]);
}

#[test]
fn a_closed_session_brings_no_removed_backup_back() {
    let host = Host::new();
    let all = backups(&host, 1);
    let manifests = Manifests::new(&host.sealer);
    let asked = Cell::new(0);
    let before_put = || {
        asked.set(asked.get() + 1);
        match asked.get() {
            3 => Err(SessionError::Closed { session: id(30) }),
            _ => Ok(()),
        }
    };
    let done = manifests.revise_all(&all, &before_put, |at, present| {
        if at == 0 {
            let first = names::manifest(all[0].0, all[0].1, Revision::FIRST);
            host.storage.delete(&first).unwrap();
        }
        Ok(Some(tagged(present.backup, "ours")))
    });
    assert!(matches!(done, Err(SessionError::Closed { .. })), "{done:?}");
    let list = Manifests::new(&host.sealer).list().unwrap();
    assert!(list.get(all[0].1).unwrap().is_forgotten());
    assert_eq!(list.backups().count(), 2);
}
