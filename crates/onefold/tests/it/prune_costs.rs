//! The requests of forgetting and pruning, counted. They follow the changes and the present
//! content, not the past.

use std::collections::BTreeSet;

use crate::common::archival::optimize;
use crate::common::pruning::{Stage, assert_stages, everything};
use crate::common::reclaimer::Reclaimer;
use crate::common::{Asked, How, Process, Request, back_up_bytes, noise};
use container::Containers;
use env::Storage;
use env::fault::{Counters, CrashPolicy};
use format::manifest::SeriesName;
use format::names;
use object::config;
use onefold::{
    Credential, ForgetRequest, ForgetWhat, Monitor, OpenOptions, PruneOptions, PruneReport, SessionId,
    SessionPolicy, Store,
};
use session::{Begin, Session};

/// Requests, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    lists: usize,
    gets: usize,
    others: usize,
    puts: usize,
    deletes: usize,
    barriers: usize,
}

impl Cost {
    fn of(requests: &[Request]) -> Self {
        let count = |is: &dyn Fn(Asked) -> bool| requests.iter().filter(|request| is(request.asked)).count();
        Self {
            lists: count(&|asked| asked == Asked::List),
            gets: count(&|asked| matches!(asked, Asked::Whole | Asked::Tail | Asked::Range(_))),
            others: count(&|asked| asked == Asked::Other),
            puts: count(&|asked| asked == Asked::Put),
            deletes: count(&|asked| asked == Asked::Delete),
            barriers: count(&|asked| asked == Asked::Barrier),
        }
    }

    /// This, and another cost so many times.
    fn and(self, times: usize, each: Self) -> Self {
        Self {
            lists: self.lists + times * each.lists,
            gets: self.gets + times * each.gets,
            others: self.others + times * each.others,
            puts: self.puts + times * each.puts,
            deletes: self.deletes + times * each.deletes,
            barriers: self.barriers + times * each.barriers,
        }
    }
}

fn back_up(machine: &Process, name: &str, bytes: &[u8]) -> SessionId {
    back_up_bytes(&machine.open(), name, bytes, &How::plain())
        .unwrap()
        .id
}

fn forget(machine: &Process, ids: &[SessionId]) {
    let request = ForgetRequest::new(ForgetWhat::Named(ids.iter().map(ToString::to_string).collect()))
        .is_dry_run(false)
        .force_unreadable(false);
    let report = machine.open().forget(&request, &Monitor::default()).unwrap();
    assert_eq!(report.forgotten, ids);
}

fn prune(machine: &Process, options: &PruneOptions) -> PruneReport {
    machine.open().prune(options, &Monitor::default()).unwrap().0
}

/// A prune by a process that has opened the store before: its result, and its requests.
fn watched(machine: &Process, options: &PruneOptions) -> (PruneReport, Cost, Counters) {
    let process = machine.beside(9);
    let store = process.open();
    drop(process.watched.take_requests());
    let before = process.storage.counters();
    let report = store.prune(options, &Monitor::default()).unwrap().0;
    let cost = Cost::of(&process.watched.take_requests());
    (report, cost, process.storage.counters().since(&before))
}

/// A store after an epoch, with so many backups, each of a series of its own. Another two share a
/// half, and one of them is forgotten.
fn grown(others: u64) -> Process {
    let machine = Process::new(7);
    machine.init();
    let (own, shared) = (noise(1, 40 << 10), noise(2, 40 << 10));
    let first = back_up(&machine, "/file", &[own, shared.clone()].concat());
    back_up(&machine, "/file", &[shared, noise(3, 20 << 10)].concat());
    for n in 0..others {
        back_up(&machine, &format!("/other-{n}"), &noise(100 + n, 2 << 10));
    }
    let once = back_up(&machine, "/once", &noise(5, 30 << 10));
    prune(&machine, &everything());
    forget(&machine, &[once]);
    assert_eq!(prune(&machine, &everything()).epochs, 1);
    forget(&machine, &[first]);
    machine
}

#[test]
fn a_prune_costs_one_read_for_each_unchanged_group() {
    let (few, many) = (3, 43);
    let [(report, small, rows), (same, large, more_rows)] =
        [few, many].map(|others| watched(&grown(others), &everything()));
    assert!(report.bytes_deleted > 0 && report.epochs == 1, "{report:?}");
    // Which chunks share a region depends on threads, and so do a few bytes.
    let difference = report.bytes_deleted.abs_diff(same.bytes_deleted);
    assert!(difference < 100, "{difference} bytes");
    let more = usize::try_from(many - few).unwrap();
    let expected = Cost {
        gets: small.gets + more,
        ..small
    };
    assert_eq!(
        large, expected,
        "marks each; manifests that they cover are listed alone"
    );
    // Manifests are listed once. Marks are listed to be read, and to be deleted. Sessions are
    // listed to find a number, to see that it is the highest and who runs, and twice to see that
    // none has begun since. And the index has a few more runs.
    let listed = more_rows.listed - rows.listed;
    assert!(listed < 9 * (many - few), "{listed} rows more");
}

/// How often manifests were listed.
fn listings(requests: &[Request]) -> usize {
    let is_of_all = |request: &&Request| request.asked == Asked::List && request.name == "backups";
    requests.iter().filter(is_of_all).count()
}

#[test]
fn manifests_are_listed_once_where_nobody_else_is_there() {
    let of = |is_there: bool| {
        let machine = grown(2);
        let process = machine.beside(9).striding();
        let store = process.open();
        let reclaimer = Reclaimer::new(machine.beside(10));
        let other =
            is_there.then(|| Session::begin_read(reclaimer.sealer(), 1, SessionPolicy::default()).unwrap());
        drop(process.watched.take_requests());
        let heartbeats = other.as_ref().map(|other| other.start_heartbeats().unwrap());
        let report = store.prune(&everything(), &Monitor::default()).unwrap().0;
        drop(heartbeats);
        assert_eq!(report.epochs, 1);
        listings(&process.watched.take_requests())
    };
    assert_eq!(of(false), 1);
    assert!(of(true) > 2);
}

#[test]
fn earlier_prunes_cost_nothing() {
    let cost = |prunes: u64| {
        let machine = grown(2);
        (0..prunes).for_each(|_| {
            prune(&machine, &everything());
        });
        let last = machine.names("backups").len();
        let back = back_up(&machine, "/file", &noise(4, 20 << 10));
        prune(&machine, &everything());
        forget(&machine, &[back]);
        (watched(&machine, &everything()), last)
    };
    let ((_, small, rows), left) = cost(2);
    let ((report, large, more_rows), still_left) = cost(20);
    assert!(report.bytes_deleted > 0, "{report:?}");
    assert_eq!((large, more_rows.listed), (small, rows.listed));
    assert_eq!(left, still_left, "endings of prunes go");
}

/// A backup with `--skip-if-unchanged` leaves an ending for weeks, and no containers.
#[test]
fn sessions_that_ended_without_containers_cost_nothing() {
    let cost = |ended: u32| {
        let machine = grown(2);
        let reclaimer = Reclaimer::new(machine.beside(10));
        for process in 0..ended {
            let begin = Begin {
                series: reclaimer.sealer().key().series_id(b"unchanged"),
                name: SeriesName {
                    host: b"host".to_vec(),
                    paths: vec![b"unchanged".to_vec()],
                },
                process,
                policy: SessionPolicy::default(),
            };
            Session::begin(reclaimer.sealer(), begin).unwrap().end().unwrap();
        }
        watched(&machine, &everything()).1.lists
    };
    assert_eq!(cost(5), cost(25));
}

#[test]
fn a_prune_waits_for_few_barriers() {
    let machine = grown(2);
    let (report, cost, _) = watched(&machine, &everything());
    assert_stages(&report, &[Stage::Removes, Stage::Compacts], "of what is counted");
    // The claimed number; before and after the condemned list; before and after the removed list;
    // new generations of nodes, and of data; all deleted objects of either; the endings for
    // tidying.
    assert_eq!(cost.barriers, 10, "{cost:?}");
    let (_, idle, _) = watched(&machine, &everything());
    assert_eq!((idle.barriers, idle.puts), (2, 5), "{idle:?}");
}

#[test]
fn forgetting_many_waits_as_long_as_forgetting_one() {
    for count in [1, 7] {
        let machine = Process::new(8);
        machine.init();
        let ids: Vec<SessionId> = (0..count)
            .map(|n| back_up(&machine, &format!("/file-{}", n % 3), &noise(n, 2 << 10)))
            .collect();
        let process = machine.beside(10);
        let store = process.open();
        drop(process.watched.take_requests());
        let request = ForgetRequest::new(ForgetWhat::Named(ids.iter().map(ToString::to_string).collect()))
            .is_dry_run(false)
            .force_unreadable(false);
        store.forget(&request, &Monitor::default()).unwrap();
        let cost = Cost::of(&process.watched.take_requests());
        let expected = (1, 2, ids.len(), ids.len());
        assert_eq!(
            (cost.lists, cost.barriers, cost.puts, cost.gets),
            expected,
            "{cost:?}"
        );
    }
}

/// The requests for forgetting the oldest backups of a hybrid store, and for the prune after it.
fn expiry(base: &Process, count: usize) -> [Cost; 2] {
    let machine = Process::on(base.storage.crash(CrashPolicy::KeepAll), base.clock.clone(), 14).striding();
    let store = machine.open();
    let backups = store.snapshots().unwrap().snapshots;
    let ids = backups[..count].iter().map(|snapshot| snapshot.id.to_string());
    let request = ForgetRequest::new(ForgetWhat::Named(ids.collect()))
        .is_dry_run(false)
        .force_unreadable(false);
    drop(machine.watched.take_requests());
    store.forget(&request, &Monitor::default()).unwrap();
    let forgetting = Cost::of(&machine.watched.take_requests());
    let report = store.prune(&everything(), &Monitor::default()).unwrap().0;
    assert_eq!((report.epochs, report.bytes_copied), (1, 0), "{report:?}");
    assert!(report.containers_removed >= count as u64, "{report:?}");
    [forgetting, Cost::of(&machine.watched.take_requests())]
}

/// Each backup has a tombstone, marks and containers of its own. The other requests and waits of a
/// run are the same.
#[test]
fn backups_that_expire_together_cost_their_own_data_and_no_barrier_each() {
    let base = Process::new(14);
    base.init();
    let part = |n: u64| noise(100 + n, 24 << 10);
    for n in 0..24 {
        back_up(&base, "/image", &[n, n + 1, n + 2].map(part).concat());
        optimize(&base.open(), 1);
    }
    prune(&base, &everything());
    let each = Cost {
        // The folders of its containers, and those of catalogs, for dead slots and for removal.
        lists: 5,
        gets: 1,
        others: 3,
        puts: 1,
        deletes: 5,
        barriers: 0,
    };
    let forgetting = Cost {
        puts: 1,
        ..Cost::default()
    };
    let [few, more, most] = [2, 11, 20].map(|count| expiry(&base, count));
    for (at, each) in [forgetting, each].into_iter().enumerate() {
        assert_eq!(more[at], few[at].and(9, each));
        assert_eq!(most[at], few[at].and(18, each));
    }
    assert_eq!((few[0].barriers, few[1].barriers), (2, 8), "{few:?}");
}

#[test]
fn with_no_memory_for_marks_a_prune_does_the_same() {
    let base = grown(5);
    let done = |marks_bytes_max| {
        let machine = Process::on(base.storage.crash(CrashPolicy::KeepAll), base.clock.clone(), 11);
        let options = everything().marks_bytes_max(marks_bytes_max);
        let (report, cost, _) = watched(&machine, &options);
        let folders = ["data", "recipe", "mirror", "removed", "groups"];
        let stored = folders.map(|folder| machine.names(folder));
        (report, stored, cost.gets)
    };
    let (report, stored, gets) = done(32 << 20);
    assert!(report.bytes_deleted > 0, "{report:?}");
    let (without, stored_without, gets_without) = done(0);
    assert_eq!((without, stored_without), (report, stored));
    assert!(gets_without > gets, "{gets_without} reads, {gets} before");
}

/// The first prune of six series, by a process with so much memory for marks: its requests, and the
/// store.
fn first_prune(marks_bytes_max: u64) -> (Process, Vec<Request>) {
    let machine = Process::new(12);
    machine.init();
    for n in 0..6 {
        back_up(&machine, &format!("/file-{n}"), &noise(n, 40 << 10));
    }
    let process = machine.beside(13);
    let store = process.open();
    drop(process.watched.take_requests());
    let options = everything().marks_bytes_max(marks_bytes_max);
    let report = store.prune(&options, &Monitor::default()).unwrap().0;
    assert_eq!((report.epochs, report.groups_marked), (0, 6), "{report:?}");
    let requests = process.watched.take_requests();
    (machine, requests)
}

#[test]
fn marks_that_may_not_be_held_are_put_before_the_next_are_made() {
    for (marks_bytes_max, expected) in [(32 << 20, 0), (0, 5)] {
        let (machine, requests) = first_prune(marks_bytes_max);
        let is_read = |request: &Request| {
            let reads = matches!(request.asked, Asked::Whole | Asked::Tail | Asked::Range(_));
            reads
                && ["recipe", "small", "mirror"]
                    .iter()
                    .any(|folder| request.is_in(folder))
        };
        let last_node = requests.iter().rposition(is_read).unwrap();
        let is_put = |request: &&Request| request.asked == Asked::Put && request.is_in("groups");
        let puts = requests[..last_node].iter().filter(is_put).count();
        assert_eq!(puts, expected, "with {marks_bytes_max} bytes");
        // They count, although there was no epoch. Of each group one revision is left.
        assert_eq!(machine.names("groups").len(), 6);
        let again = prune(&machine, &everything());
        assert_eq!((again.groups_marked, again.epochs), (0, 0));
    }
}

#[test]
fn a_prune_that_fails_leaves_no_marks_behind_that_it_could_not_hold() {
    let (machine, _) = first_prune(32 << 20);
    let more: Vec<_> = (0..6)
        .map(|n| back_up(&machine, &format!("/file-{n}"), &noise(10 + n, 40 << 10)))
        .collect();
    let before = machine.names("groups");
    let last = *more.last().unwrap();
    for folder in ["recipe", "mirror", "small"] {
        for name in machine.names(folder) {
            if name.contains(&last.to_string()) {
                let name = types::ObjectName::new(name).unwrap();
                assert!(machine.storage.damage(&name, |bytes| bytes.reverse()));
            }
        }
    }
    let options = everything().marks_bytes_max(0);
    for _ in 0..2 {
        let failed = machine.open().prune(&options, &Monitor::default());
        assert!(
            failed
                .unwrap_err()
                .to_string()
                .contains("is not known, so nothing may be removed"),
            "a node is gone"
        );
        assert_eq!(machine.names("groups"), before);
    }
}

/// How many nodes are stored.
fn nodes_in(machine: &Process) -> usize {
    let opened = config::open(&machine.env, crypto::Credential::NoPassword).unwrap();
    let containers = Containers::new(machine.env.clone(), opened.store(), &opened.keys, 8 << 20);
    let listed = machine.storage.list("recipe").unwrap().into_iter();
    let ids = listed.map(|meta| names::parse_container(&meta.name).unwrap().0);
    ids.map(|id| {
        let catalog = containers.catalog(id).unwrap();
        let nodes = catalog.entries().iter().filter(|entry| entry.level.get() > 0);
        nodes.count()
    })
    .sum()
}

/// One walk finds the exclusive data of each of many backups: each shared node is read once.
#[test]
fn exclusive_bytes_of_fifty_backups_cost_one_read_a_node() {
    let machine = Process::new(12);
    machine.init();
    back_up(&machine, "/kept", &noise(1, 40 << 10));
    let shared = noise(2, 600 << 10);
    let doomed: BTreeSet<SessionId> = (0..50)
        .map(|n| {
            back_up(
                &machine,
                "/file",
                &[&shared[..], &noise(10 + n, 20 << 10)].concat(),
            )
        })
        .collect();
    prune(&machine, &everything());
    // No node is cached.
    let options = OpenOptions::default().node_cache_bytes(0);
    let store = Store::open(&machine.env, &Credential::None, &options).unwrap();
    drop(machine.watched.take_requests());
    let monitor = Monitor::default();
    let preview = store.preview_prune(&everything(), &doomed, &monitor).unwrap().0;
    let requests = machine.watched.take_requests();
    let is_read = |request: &&Request| matches!(request.asked, Asked::Range(_)) && request.is_in("recipe");
    let (read, nodes) = (requests.iter().filter(is_read).count(), nodes_in(&machine));
    assert!(nodes / 2 < read && read <= nodes, "{read} reads of {nodes} nodes");
    assert!(
        monitor.work_done() <= nodes as u64,
        "{} of {nodes} nodes",
        monitor.work_done()
    );
    assert!(preview.alone.keys().eq(&doomed));
    let own = 20 << 10..40 << 10;
    assert!(
        preview.alone.values().all(|bytes| own.contains(bytes)),
        "{:?}",
        preview.alone
    );
}
