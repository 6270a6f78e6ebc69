//! Manifests that the storage does not give, now or for good: nothing is lost, and the user can
//! continue. The same holds if the storage fails when a backup may have been stored already.

use std::num::NonZeroU32;

use crate::common::pruning::{everything, everything_at_once, forget, prune, try_forget, try_prune};
use crate::common::{
    Asked, How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot,
};
use env::fault::{Counted, CrashPolicy, FailWith, Fault, OpKind};
use format::names;
use onefold::{
    CheckReport, Filter, ForgetRequest, ForgetWhat, GroupBy, HoldEnd, Limit, Monitor, Period, Policy,
    ReadData, Rule, SessionId, Snapshot, Store, TagChange, Which,
};
use types::{ByteRange, ObjectName, Revision};

fn manifest(of: &Snapshot, revision: u32) -> ObjectName {
    names::manifest(of.series, of.id, Revision::new(revision).unwrap())
}

fn take_sector(machine: &Process, name: &ObjectName) {
    machine
        .storage
        .make_unreadable(name, ByteRange { offset: 60, len: 1 });
}

/// Two backups of a file, the first of them held.
fn one_held(seed: u64) -> (Process, Snapshot, Snapshot) {
    let machine = Process::new(seed);
    let store = machine.init();
    let back_up = |seed| {
        let made = back_up_bytes(&store, "/file", &noise(seed, 60 << 10), &How::plain()).unwrap();
        made.id
    };
    let (held, other) = (back_up(1), back_up(2));
    let end = HoldEnd::After("10y".parse().unwrap());
    store.hold(&[held.to_string()], Some(end)).unwrap();
    let (held, other) = (snapshot(&store, held), snapshot(&store, other));
    assert_eq!(held.revision.get(), 1);
    (machine, held, other)
}

/// The second backup of [`one_held`] restores, and the store is sound.
fn assert_other_is_whole(machine: &Process, other: &Snapshot, when: &str) {
    let store = machine.open();
    let other = snapshot(&store, other.id);
    assert_restores_bytes(&store, &other, "/file", &noise(2, 60 << 10), when);
    assert_sound(&store, when);
}

fn check(store: &Store) -> CheckReport {
    store.check(ReadData::None, &Monitor::default()).unwrap()
}

fn tag(which: &Which, tag: &str) -> (Which, TagChange) {
    (which.clone(), TagChange::Set(vec![tag.to_owned()]))
}

fn forget_unread(store: &Store, id: SessionId) -> Vec<SessionId> {
    let request = ForgetRequest::new(ForgetWhat::Named(vec![id.to_string()]))
        .is_dry_run(false)
        .force_unreadable(true);
    store.forget(&request, &Monitor::default()).unwrap().forgotten
}

#[test]
fn a_revision_on_a_bad_sector_blocks_neither_pruning_nor_the_end_of_its_hold() {
    let (machine, held, other) = one_held(1);
    let bad = manifest(&held, 1);
    take_sector(&machine, &bad);

    let report = prune(&machine.open(), &everything(), "an older revision says as much");
    assert_eq!((report.groups_marked, report.bytes_freed()), (1, 0));
    let report = prune(&machine.open(), &everything(), "again");
    assert_eq!(report.groups_marked, 0, "what was marked is covered");
    let store = machine.open();
    assert_restores_bytes(
        &store,
        &snapshot(&store, held.id),
        "/file",
        &noise(1, 60 << 10),
        "kept",
    );

    let found = check(&store).findings;
    assert!(
        found.len() == 1
            && found[0].what.to_string().contains("could not be read now")
            && found[0].what.to_string().contains("onefold unhold"),
        "{found:?}"
    );
    assert!(check(&store).damaged_backups.is_empty());
    let refused = try_forget(&store, held.id).unwrap_err().to_string();
    assert!(
        refused.contains("may be a hold") && refused.contains("onefold unhold"),
        "{refused}"
    );

    // It comes back, and is marked unchanged: nothing needs to be read for it.
    machine.give_back(&bad);
    let report = prune(&machine.open(), &everything(), "read again");
    assert_eq!((report.groups_marked, report.nodes_read), (1, 0));
    let refused = try_forget(&machine.open(), held.id).unwrap_err().to_string();
    assert!(refused.contains("is held until"), "{refused}");

    take_sector(&machine, &bad);
    let store = machine.open();
    let unheld = store.hold(&[held.id.to_string()], None).unwrap();
    assert_eq!((unheld.ids, unheld.in_doubt), (vec![held.id], vec![held.id]));
    let store = machine.open();
    assert_eq!(snapshot(&store, held.id).revision.get(), 2);
    forget(&store, held.id);
    let report = prune(&machine.open(), &everything(), "after the hold was ended");
    assert!(report.bytes_freed() > 50 << 10, "{report:?}");
    prune(&machine.open(), &everything_at_once(), "drops what is unread");
    assert_other_is_whole(&machine, &other, "in the end");
}

#[test]
fn a_marked_revision_that_rots_blocks_no_prune() {
    let (machine, held, other) = one_held(5);
    let elsewhere = back_up_bytes(&machine.open(), "/other", &noise(3, 60 << 10), &How::plain()).unwrap();
    prune(&machine.open(), &everything(), "marks the hold");
    take_sector(&machine, &manifest(&held, 1));
    // This one has no readable revision, and its group is unchanged.
    let rotten = manifest(&snapshot(&machine.open(), elsewhere.id), 0);
    assert!(machine.storage.damage(&rotten, |bytes| bytes[70] ^= 1));
    let previewed = |forget: &[SessionId]| {
        let store = machine.open();
        let forget = forget.iter().copied().collect();
        let preview = store.preview_prune(&everything(), &forget, &Monitor::default());
        preview.unwrap().0.bytes_freed
    };
    // It follows the steps of prune.
    assert_eq!(previewed(&[]), 0);
    let would_free = previewed(&[other.id]);
    assert!(would_free > 50 << 10, "{would_free}");
    assert!(
        previewed(&[elsewhere.id]) > 50 << 10,
        "it need not be read for that"
    );
    // Its group is marked again, from the older revision.
    forget(&machine.open(), other.id);
    assert_eq!(previewed(&[]), would_free);
    let report = prune(&machine.open(), &everything(), "the other one goes");
    assert!(report.bytes_freed() > 50 << 10, "{report:?}");
    let store = machine.open();
    let kept = snapshot(&store, held.id);
    assert_restores_bytes(&store, &kept, "/file", &noise(1, 60 << 10), "kept");
}

#[test]
fn a_backup_whose_tombstone_cannot_be_read_is_nobodys_parent_and_fills_no_rule() {
    let (machine, held, other) = one_held(6);
    forget(&machine.open(), other.id);
    prune(&machine.open(), &everything(), "it is gone");
    take_sector(&machine, &manifest(&other, 1));

    let store = machine.open();
    store.hold(&[held.id.to_string()], None).unwrap();
    assert_fills_no_rule(&machine.open());
    // Nor with a revision above it, which shows nothing of the lower one.
    let (which, change) = tag(&Which::Named(vec![other.id.to_string()]), "above");
    assert!(machine.open().tag(&which, &change).unwrap()[0].is_in_doubt);
    let store = machine.open();
    assert_eq!(snapshot(&store, other.id).revision.get(), 2);
    assert_fills_no_rule(&store);
    prune(&machine.open(), &everything(), "marks know that it was one");
    let found = check(&store).findings;
    assert!(
        found.iter().any(|found| found
            .what
            .to_string()
            .contains("may say that the backup is forgotten")),
        "{found:?}"
    );

    let bytes = noise(2, 60 << 10);
    let made = back_up_bytes(&machine.open(), "/file", &bytes, &How::plain()).unwrap();
    assert_ne!(made.parent, Some(other.id));
    let store = machine.open();
    assert_restores_bytes(&store, &snapshot(&store, made.id), "/file", &bytes, "made anew");
    // It can be read again, and counts.
    machine.give_back(&manifest(&other, 1));
    let listed = machine.open().snapshots().unwrap().snapshots;
    assert_eq!(
        listed.iter().map(|one| one.id).collect::<Vec<_>>(),
        [held.id, made.id]
    );
}

/// A rule that keeps one backup keeps the last one that exists for sure.
fn assert_fills_no_rule(store: &Store) {
    let request = ForgetRequest::new(ForgetWhat::ByPolicy {
        policy: Policy {
            rules: vec![Rule::Newest {
                period: Period::Each,
                limit: Limit::Count(NonZeroU32::MIN),
            }],
            may_remove_all: false,
        },
        group_by: GroupBy::SERIES,
        filter: Filter::default(),
        times: onefold::Times::default(),
    })
    .is_dry_run(false)
    .force_unreadable(false);
    let report = store.forget(&request, &Monitor::default()).unwrap();
    assert_eq!(report.forgotten, [], "the one that is there is the last");
}

#[test]
fn a_backup_that_is_unreadable_now_is_forgotten_only_with_force() {
    let (machine, held, other) = one_held(2);
    let both = [0, 1].map(|n| manifest(&held, n));
    both.iter().for_each(|name| take_sector(&machine, name));

    let store = machine.open();
    let refused = try_forget(&store, held.id).unwrap_err().to_string();
    assert!(
        refused.contains("--force-unreadable") && refused.contains("may be whole"),
        "{refused}"
    );
    let refused = try_prune(&store, &everything()).unwrap_err().to_string();
    assert!(refused.contains("forget --force-unreadable"), "{refused}");
    let report = check(&store);
    assert!(report.damaged_backups.is_empty() && report.unread_backups.contains(&held.id));
    assert!(
        report
            .findings
            .iter()
            .all(|found| found.what.to_string().contains("could not be read now")),
        "{:?}",
        report.findings
    );
    assert!(!report.is_sound());

    // The storage was away for a moment: everything is as before.
    both.iter().for_each(|name| machine.give_back(name));
    let store = machine.open();
    assert_eq!(snapshot(&store, held.id).revision, held.revision);
    assert_sound(&store, "read again");

    both.iter().for_each(|name| take_sector(&machine, name));
    let store = machine.open();
    assert_eq!(forget_unread(&store, held.id), [held.id]);
    prune(&machine.open(), &everything(), "without it");
    prune(&machine.open(), &everything_at_once(), "drops what is unread");
    assert_other_is_whole(&machine, &other, "without it");
}

#[test]
fn a_revision_that_may_reappear_is_overruled_only_if_its_backup_is_named() {
    let (machine, held, _) = one_held(3);
    take_sector(&machine, &manifest(&held, 1));
    let store = machine.open();
    let (which, change) = tag(&Which::All(Filter::default()), "all");
    let refused = store.tag(&which, &change).unwrap_err().to_string();
    assert!(refused.contains("keeps its tags"), "{refused}");
    let tags = |store: &Store| {
        let list = store.snapshots().unwrap().snapshots;
        list.into_iter().map(|one| one.backup.tags).collect::<Vec<_>>()
    };
    assert!(tags(&store).iter().all(Vec::is_empty), "nothing was changed");
    let (which, change) = tag(&Which::Named(vec![held.id.to_string()]), "named");
    let done = store.tag(&which, &change).unwrap();
    assert!(done[0].is_in_doubt && done[0].is_changed);
    assert_eq!(tags(&machine.open()), [vec!["named".to_owned()], vec![]]);
    // Forgetting it is no longer in doubt.
    try_forget(&machine.open(), held.id).unwrap();
}

#[test]
fn no_backup_before_a_damaged_one_counts_as_latest_and_a_backup_upon_one_says_so() {
    let machine = Process::new(4);
    let store = machine.init();
    let back_up =
        |store: &Store, seed| back_up_bytes(store, "/file", &noise(seed, 40 << 10), &How::plain()).unwrap();
    let (first, second) = (back_up(&store, 1), back_up(&store, 2));
    let name = manifest(&snapshot(&store, second.id), 0);
    assert!(machine.storage.damage(&name, |bytes| bytes[70] ^= 1));

    let store = machine.open();
    let refused = store.find("latest", &Filter::default()).unwrap_err().to_string();
    assert!(
        refused.contains(name.as_str()) && refused.contains("1 is the latest"),
        "{refused}"
    );
    assert_eq!(store.find("1", &Filter::default()).unwrap().id, first.id);
    let third = back_up(&store, 3);
    assert!(
        third.warnings.len() == 1 && third.warnings[0].to_string().contains(name.as_str()),
        "{:?}",
        third.warnings
    );
    let store = machine.open();
    assert_eq!(store.find("latest", &Filter::default()).unwrap().id, third.id);
    assert!(back_up(&store, 4).warnings.is_empty(), "an older one is damaged");

    // All of its data existed before.
    let again = back_up(&machine.open(), 4);
    assert_eq!(again.totals.bytes_stored, 0, "{:?}", again.totals);
    let again = snapshot(&machine.open(), again.id);
    assert!(again.backup.containers.is_empty());
    assert!(
        machine
            .storage
            .damage(&manifest(&again, 0), |bytes| bytes[70] ^= 1)
    );
    let store = machine.open();
    assert!(store.find("latest", &Filter::default()).is_err());
    assert!(check(&store).damaged_backups.contains(&again.id));
}

#[test]
fn a_catalog_that_could_not_be_read_for_a_moment_is_hooked_by_the_next_backup() {
    let machine = Process::new(5);
    let store = machine.init();
    let bytes = noise(1, 100 << 10);
    back_up_bytes(&store, "/a", &bytes, &How::plain()).unwrap();
    for run in machine.names("index") {
        assert!(machine.storage.lose(&ObjectName::new(run).unwrap()));
    }
    let name = ObjectName::new(machine.names("data").swap_remove(0)).unwrap();
    machine.take_away(&name);
    let beside = back_up_bytes(&machine.open(), "/b", &noise(2, 1 << 10), &How::plain()).unwrap();
    assert!(
        beside.warnings.len() == 1 && beside.warnings[0].to_string().contains("until it can be read"),
        "{:?}",
        beside.warnings
    );
    machine.give_back(&name);
    let again = back_up_bytes(&machine.open(), "/c", &bytes, &How::plain()).unwrap();
    assert!(again.warnings.is_empty(), "{:?}", again.warnings);
    assert_eq!(
        again.totals.chunks_new, 0,
        "all of it was there: {:?}",
        again.totals
    );
}

#[test]
fn a_catalog_on_a_permanent_bad_sector_is_reported_once_and_costs_later_backups_nothing() {
    let machine = Process::new(6);
    let store = machine.init();
    let bytes = noise(1, 100 << 10);
    back_up_bytes(&store, "/a", &bytes, &How::plain()).unwrap();
    let lost: Vec<_> = machine.names("index");
    lost.into_iter()
        .for_each(|run| assert!(machine.storage.lose(&ObjectName::new(run).unwrap())));
    let name = ObjectName::new(machine.names("data").swap_remove(0)).unwrap();
    machine.take_away(&name);
    let back_up =
        |n: u64| back_up_bytes(&machine.open(), "/b", &noise(10 + n, 1 << 10), &How::plain()).unwrap();
    let counted = |n| {
        let before = machine.names("index").len();
        let made = back_up(n);
        (made.warnings.len(), machine.names("index").len() - before)
    };
    assert_eq!(
        counted(0),
        (1, 3),
        "what can be read of the first, what cannot, and its own"
    );
    for n in 1..4 {
        assert_eq!(counted(n), (0, 1), "its own run");
    }
    machine.give_back(&name);
    // Tidying reaches it when twice as many sessions have come.
    (4..8).for_each(|n| _ = back_up(n));
    let again = back_up_bytes(&machine.open(), "/c", &bytes, &How::plain()).unwrap();
    assert_eq!(again.totals.chunks_new, 0, "{:?}", again.totals);
    assert!(!machine.names("index").iter().any(|name| name.contains("unread")));
}

/// A backup during which the storage begins to fail when the manifest is put.
fn back_up_failing(machine: &Process, fault: Fault) -> Result<SessionId, String> {
    let process = machine.beside(60);
    let store = process.open();
    let storage = process.storage.clone();
    process.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.starts_with(names::BACKUPS_FOLDER) {
            storage.inject_here(fault);
        }
    });
    let made = back_up_bytes(&store, "/file", &noise(60, 60 << 10), &How::plain());
    made.map(|report| report.id).map_err(|error| error.to_string())
}

/// Checks whether the next process lists the backup. Another backup then stores nothing new if it
/// does.
fn assert_told_next(machine: &Process, is_there: bool, when: &str) {
    let (store, bytes) = (machine.open(), noise(60, 60 << 10));
    let listed = store.snapshots().unwrap().snapshots;
    assert_eq!(listed.len(), usize::from(is_there), "{when}");
    for snapshot in &listed {
        assert_restores_bytes(&store, snapshot, "/file", &bytes, when);
    }
    assert_sound(&store, when);
    let next = back_up_bytes(&store, "/file", &bytes, &How::plain()).unwrap();
    assert!(next.warnings.is_empty(), "{when}: {next:?}");
    assert_eq!(next.totals.bytes_stored == 0, is_there, "{when}: {next:?}");
    assert_restores_bytes(&store, &snapshot(&store, next.id), "/file", &bytes, when);
    prune(&machine.open(), &everything(), when);
    assert_sound(&machine.open(), when);
}

#[test]
fn an_unconfirmed_backup_says_so_and_the_next_run_reports_whether_it_exists() {
    let of_claim = |fault: Fault| fault.counting(Counted::Only(OpKind::Head));
    let machine = Process::new(60);
    machine.init();
    let made = back_up_failing(&machine, of_claim(Fault::fail(1, FailWith::Io)));
    assert!(made.is_ok(), "the storage failed once: {made:?}");
    assert_told_next(&machine, true, "once");

    let machine = Process::new(61);
    machine.init();
    let error = back_up_failing(&machine, of_claim(Fault::fail_from(1, FailWith::Io))).unwrap_err();
    assert!(error.contains("backup 1 may be stored"), "{error}");
    assert_told_next(&machine, true, "from then on");

    for (policy, is_there) in [(CrashPolicy::KeepAll, true), (CrashPolicy::DropAll, false)] {
        let machine = Process::new(62);
        machine.init();
        let barrier = Fault::fail(1, FailWith::Io).counting(Counted::Only(OpKind::Barrier));
        let error = back_up_failing(&machine, barrier).unwrap_err();
        assert!(error.contains("backup 1 may be stored"), "{error}");
        let after = Process::on(machine.storage.crash(policy), machine.clock.clone(), 63);
        assert_told_next(&after, is_there, &format!("{policy:?}"));
    }
}

/// Damages the object, as somebody does who writes to the storage: it is no bad sector.
fn garble(machine: &Process, name: &ObjectName) {
    assert!(
        machine
            .storage
            .damage(name, |bytes| bytes.truncate(bytes.len() - 13)),
        "{name}"
    );
}

/// What no backup needs is no damage, for `check` and for the list of backups alike (B6).
#[test]
fn a_damaged_revision_below_the_one_that_counts_is_no_damage() {
    let (machine, held, other) = one_held(20);
    garble(&machine, &manifest(&held, 0));
    let store = machine.open();
    let report = check(&store);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let left = report.leftovers.iter().map(|left| left.what.kind());
    assert_eq!(left.collect::<Vec<_>>(), ["manifest_damaged"]);
    let list = store.snapshots().unwrap();
    assert!(list.damaged.is_empty() && list.snapshots.len() == 2, "{list:?}");
    assert_restores_bytes(
        &store,
        &snapshot(&store, held.id),
        "/file",
        &noise(1, 60 << 10),
        "held",
    );
    assert_other_is_whole(&machine, &other, "beside a damaged revision");

    // The one that counts is damaged: that is damage, and both say so.
    garble(&machine, &manifest(&held, 1));
    let store = machine.open();
    assert!(!check(&store).findings.is_empty());
    assert!(!store.snapshots().unwrap().damaged.is_empty());
}

/// Two backups of a file, of which the first is forgotten. Returns what it was, and the second.
fn one_forgotten(seed: u64) -> (Process, Snapshot, SessionId) {
    let machine = Process::new(seed);
    let store = machine.init();
    let back_up = |seed| {
        let made = back_up_bytes(&store, "/file", &noise(seed, 60 << 10), &How::plain());
        made.unwrap().id
    };
    let (first, second) = (back_up(1), back_up(2));
    let first = snapshot(&store, first);
    forget(&store, first.id);
    (machine, first, second)
}

#[test]
fn a_damaged_tombstone_that_marks_know_is_no_damage() {
    let (machine, first, _) = one_forgotten(21);
    garble(&machine, &manifest(&first, 1));
    // Nothing else says that it is forgotten, so it may not be.
    let list = machine.open().snapshots().unwrap();
    assert_eq!(list.damaged.len(), 1, "{list:?}");

    let (machine, first, second) = one_forgotten(22);
    prune(&machine.open(), &everything(), "marks cover the tombstone");
    garble(&machine, &manifest(&first, 1));
    let store = machine.open();
    let report = check(&store);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let list = store.snapshots().unwrap();
    let listed: Vec<SessionId> = list.snapshots.iter().map(|backup| backup.id).collect();
    assert_eq!((listed, list.damaged), (vec![second], Vec::new()));
}
