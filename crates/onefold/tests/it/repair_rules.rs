//! Layout repair, one scenario for each rule: unreadable revisions, unreadable backups, containers
//! with two names, look-ups of nodes.

use crate::common::archival::optimize;
use crate::common::pruning::{
    assert_nothing_unexplained, everything, forget, leaving, prune, prune_after_crash, try_prune,
};
use crate::common::scattered::{Scattered, hold, only, repair, scattered};
use crate::common::{Asked, How, Process, assert_sound, back_up_bytes, snapshot};
use format::names;
use onefold::{Monitor, OptimizeRequest, PruneUnused, SessionId, TagChange, Which};
use types::{ByteRange, Generation, ObjectName};

const NAME: &str = "/image";

/// The revision that counts of a rewritten backup.
fn revision(machine: &Process, id: SessionId) -> ObjectName {
    let now = snapshot(&machine.open(), id);
    assert!(now.backup.rewritten.is_some(), "{now:?}");
    names::manifest(now.series, id, now.revision)
}

fn take_sector(machine: &Process, name: &ObjectName) {
    let sector = ByteRange { offset: 60, len: 1 };
    machine.storage.make_unreadable(name, sector);
}

/// Its group is marked again because of another backup. A lower revision, whose data may all exist
/// still, does not replace it, because the data that only the newest revision reaches would be
/// removed.
#[test]
fn no_lower_revision_is_marked_in_the_place_of_one_that_was_rewritten() {
    for (options, is_rotten) in [
        (leaving(PruneUnused::Unlimited), false),
        (everything(), false),
        (leaving(PruneUnused::Unlimited), true),
    ] {
        let machine = Process::new(11);
        machine.init();
        let series = scattered(&machine, NAME, 6);
        let (newest, _) = only(&repair(&machine.open(), 1000));
        prune(&machine.open(), &options, "marks the new revisions");
        let bad = revision(&machine, newest);
        if is_rotten {
            assert!(machine.storage.damage(&bad, |bytes| bytes[70] ^= 1));
        } else {
            take_sector(&machine, &bad);
        }
        let gone = series.made[1].0;
        forget(&machine.open(), gone);
        let refused = try_prune(&machine.beside(12).open(), &options)
            .unwrap_err()
            .to_string();
        let says = if is_rotten {
            "so nothing may be removed"
        } else {
            "is not known now"
        };
        assert!(
            refused.contains(bad.as_str()) && refused.contains(says),
            "{refused}"
        );
        if is_rotten {
            assert!(machine.storage.damage(&bad, |bytes| bytes[70] ^= 1));
        } else {
            machine.give_back(&bad);
        }
        prune_after_crash(&machine.beside(13).open(), &everything(), "read again");
        series.assert_all(&machine, &[gone], "read again");
        assert_sound(&machine.open(), "read again");
    }
}

/// A forgotten backup to which an archival one refers forward was rewritten for another series. Its
/// rewritten revision is kept, and no lower one.
#[test]
fn no_lower_revision_is_kept_for_an_archival_backup() {
    let machine = Process::new(14);
    machine.init();
    let series = scattered(&machine, NAME, 7);
    let mut other = Scattered::new("/other", 1000, 60);
    other.pieces.clone_from(&series.pieces);
    other.change(20, 3);
    let first = other.back_up(&machine);
    other.pieces.clone_from(&series.pieces);
    let second = other.back_up(&machine);
    let archival = OptimizeRequest::default()
        .series(Some(snapshot(&machine.open(), second).series))
        .live(Some(1))
        .workers(1);
    let report = machine.open().optimize(&archival, &Monitor::default()).unwrap();
    assert!(report.backups[0].1.is_done, "{report:?}");
    let of_series = OptimizeRequest::default()
        .series(Some(snapshot(&machine.open(), series.made[0].0).series))
        .repair(Some(1000))
        .workers(1);
    let report = machine.open().optimize(&of_series, &Monitor::default()).unwrap();
    assert!(only(&report).1.is_done, "{report:?}");
    prune(&machine.open(), &everything(), "marks all of it");
    let bad = revision(&machine, second);
    forget(&machine.open(), second);
    assert!(machine.storage.damage(&bad, |bytes| bytes[70] ^= 1));
    let refused = try_prune(&machine.beside(15).open(), &everything())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains(&format!("backup {first} refers forward to backup {second}")),
        "{refused}"
    );
    let lost = everything().allow_missing_manifests(true);
    assert!(machine.storage.damage(&bad, |bytes| bytes[70] ^= 1));
    prune_after_crash(&machine.beside(16).open(), &lost, "read again");
    other.assert_all(&machine, &[second], "read again");
    series.assert_all(&machine, &[], "read again");
}

/// Only marks show that it was rewritten.
#[test]
fn no_tag_is_put_above_an_unreadable_repaired_revision() {
    let machine = Process::new(17);
    machine.init();
    let series = scattered(&machine, NAME, 6);
    for (id, _) in &series.made[..5] {
        forget(&machine.open(), *id);
    }
    let (newest, done) = only(&repair(&machine.open(), 1000));
    assert!(done.is_done && done.backups == 0, "{done:?}");
    prune(&machine.open(), &everything(), "marks it");
    // The other traces of the rewrite are deleted in time.
    let rewrites = format!("backups/{}1/", "0".repeat(31));
    for name in machine.names("backups") {
        if name.starts_with(&rewrites) {
            assert!(machine.storage.lose(&ObjectName::new(name).unwrap()));
        }
    }
    let bad = revision(&machine, newest);
    take_sector(&machine, &bad);
    let which = Which::Named(vec![newest.to_string()]);
    let change = TagChange::Set(vec!["tag".to_owned()]);
    let tagged = machine.beside(18).open().tag(&which, &change);
    assert!(tagged.is_err(), "{tagged:?}");
    machine.give_back(&bad);
    machine.beside(19).open().tag(&which, &change).unwrap();
    series.assert_all(
        &machine,
        &series.made[..5].iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        "tagged",
    );
}

/// An unreadable backup keeps its data. The newest one is repaired anyway.
#[test]
fn one_backup_that_cannot_be_read_stops_no_repair() {
    let machine = Process::new(20);
    machine.init();
    let series = scattered(&machine, NAME, 7);
    let mut other = Scattered::new("/other", 1000, 60);
    other.pieces.clone_from(&series.pieces);
    other.change(9, 4);
    let id = other.back_up(&machine);
    let root = snapshot(&machine.open(), id).backup.streams[0].location.container;
    for name in [
        names::container(root, Generation::FIRST),
        names::mirror(root, Generation::FIRST).unwrap(),
    ] {
        assert!(machine.storage.damage(&name, |bytes| bytes.truncate(10)));
    }
    let report = {
        let request = OptimizeRequest::default()
            .series(Some(snapshot(&machine.open(), series.made[0].0).series))
            .repair(Some(1000))
            .workers(1);
        machine.open().optimize(&request, &Monitor::default()).unwrap()
    };
    let (_, done) = only(&report);
    assert!(done.is_done && done.backups > 0, "{done:?}");
    let told =
        |warning: &onefold::Warning| warning.to_string().contains(&format!("backup {id} still refers"));
    assert!(report.warnings.iter().any(told), "{report:?}");
    series.assert_all(&machine, &[], "repaired");
}

/// A stream that is backed up after a repair and a prune finds its segments in their new places,
/// and stores no recipe again.
#[test]
fn look_ups_find_the_new_nodes() {
    let machine = Process::new(22);
    machine.init();
    let series = scattered(&machine, NAME, 8);
    assert!(only(&repair(&machine.open(), 1000)).1.is_done);
    prune_after_crash(&machine.open(), &everything(), "after");
    let next = back_up_bytes(&machine.open(), "/next", &series.bytes(), &How::plain()).unwrap();
    let totals = next.totals;
    assert_eq!(
        (totals.bytes_new, totals.segments_known),
        (0, totals.segments),
        "{totals:?}"
    );
}

/// A hold while new nodes are put: a held backup keeps its places, and if it is the repaired one,
/// all do.
#[test]
fn a_backup_held_during_a_repair_keeps_its_places() {
    for is_newest in [false, true] {
        let machine = Process::new(13);
        machine.init();
        let series = scattered(&machine, NAME, 6);
        let ids: Vec<SessionId> = series.made.iter().map(|(id, _)| *id).collect();
        let held = ids[if is_newest { 5 } else { 2 }];
        let streams = |id| snapshot(&machine.open(), id).backup.streams;
        let before: Vec<_> = ids.iter().map(|id| streams(*id)).collect();
        let (worker, other) = (machine.beside(14), machine.beside(15));
        let mut is_held = false;
        worker.watched.set_before(move |asked, name| {
            if asked == Asked::Put && name.starts_with("recipe/") && !is_held {
                is_held = true;
                hold(&other, held);
            }
        });
        let (newest, done) = only(&repair(&worker.open(), 1000));
        assert_eq!((newest, done.is_done), (ids[5], !is_newest), "{done:?}");
        for (id, before) in ids.iter().zip(before) {
            let is_same = is_newest || *id == held;
            assert_eq!(streams(*id) == before, is_same, "{id}: {done:?}");
        }
        series.assert_all(&machine, &[], "held meanwhile");
        prune(&machine.open(), &everything(), "after it");
        series.assert_all(&machine, &[], "pruned");
        assert_sound(&machine.open(), "at the end");
    }
}

/// A process that completes a rewrite identifies its targets by their bytes. It cannot leave out
/// one that is held meanwhile if another has the same bytes.
#[test]
fn nothing_is_rewritten_where_one_with_the_same_bytes_is_held_meanwhile() {
    let machine = Process::new(21);
    machine.init();
    let mut series = scattered(&machine, NAME, 6);
    series.back_up(&machine);
    let ids: Vec<SessionId> = series.made.iter().map(|(id, _)| *id).collect();
    let (worker, other) = (machine.beside(22), machine.beside(23));
    let mut is_held = false;
    let held = ids[5];
    worker.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.starts_with("recipe/") && !is_held {
            is_held = true;
            hold(&other, held);
        }
    });
    let streams = |id| snapshot(&machine.open(), id).backup.streams;
    let before: Vec<_> = ids.iter().map(|id| streams(*id)).collect();
    let (newest, done) = only(&repair(&worker.open(), 1000));
    assert_eq!((newest, done.is_done), (ids[6], false), "{done:?}");
    assert!(ids.iter().zip(before).all(|(id, before)| streams(*id) == before));
    // A backup that was held before is no target.
    let (newest, done) = only(&repair(&machine.open(), 1000));
    assert_eq!((newest, done.is_done), (ids[6], true), "{done:?}");
    series.assert_all(&machine, &[], "repaired");
    assert_sound(&machine.open(), "at the end");
}

/// It was archival, onto one backup after another as they were forgotten, and has archived data for
/// each. Now it is the newest.
#[test]
fn archived_data_of_a_backup_that_now_refers_to_none_is_put_in_order() {
    let machine = Process::new(16);
    machine.init();
    let mut series = Scattered::new(NAME, 1000, 60);
    for n in 0..7 {
        series.back_up(&machine);
        series.change(30, n * 4 + 1);
    }
    let ids: Vec<SessionId> = series.made.iter().map(|(id, _)| *id).collect();
    optimize(&machine.open(), 1);
    for gone in &ids[1..] {
        forget(&machine.open(), *gone);
        optimize(&machine.open(), 1);
        prune(&machine.open(), &everything(), "when it refers to another");
    }
    let (first, gone) = (ids[0], &ids[1..]);
    assert!(snapshot(&machine.open(), first).backup.next.is_none());
    let containers = machine.names("archive").len();
    assert!(
        machine.names("data").is_empty() && containers >= 14,
        "{containers}"
    );
    let (repaired, done) = only(&repair(&machine.open(), 1000));
    assert!(repaired == first && done.is_done, "{done:?}");
    assert_eq!(usize::try_from(done.containers_before).unwrap(), containers);
    assert!(done.containers_after < done.containers_before, "{done:?}");
    series.assert_all(&machine, gone, "in order");
    assert_sound(&machine.open(), "in order");
    prune(&machine.open(), &everything(), "what was archived goes");
    series.assert_all(&machine, gone, "pruned");
    assert_nothing_unexplained(&machine, "pruned");
    let left = machine.names("archive").len() + machine.names("data").len();
    assert_eq!(left, usize::try_from(done.containers_after).unwrap());
    // It becomes archival again, and is removed.
    series.back_up(&machine);
    optimize(&machine.open(), 1);
    prune(&machine.open(), &everything(), "archival again");
    series.assert_all(&machine, gone, "archival again");
    forget(&machine.open(), first);
    prune(&machine.open(), &everything(), "it is forgotten");
    series.assert_all(&machine, &ids, "the newest");
    // Look-ups find nodes of a repair. So the newest backup may refer to data that is still
    // archived, as to any other data.
    assert_nothing_unexplained(&machine, "at the end");
    assert_sound(&machine.open(), "at the end");
}
