//! Forgetting, holding and tagging: forgotten backups do not come back, held ones stay, and the
//! storage's clock counts.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::common::{
    HandClock, How, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot, tiny,
};
use env::{Clock, ManualClock, MemoryStorage, SeededEntropy, Storage};
use format::manifest::SeriesName;
use format::names;
use onefold::repository::{Beginning, Repository, RunningBackup};
use onefold::{
    BackupOptions, Credential, Env, Error, ErrorKind, Filter, ForgetReport, ForgetRequest, ForgetWhat,
    GroupBy, HoldEnd, Limit, Monitor, OpenOptions, Period, Policy, Rule, SessionId, Store, TagChange, Times,
    UnixNanos, Which,
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A store whose storage has another clock than the process.
struct Bed {
    storage: Arc<MemoryStorage>,
    /// The storage's clock.
    clock: ManualClock,
    store: Store,
}

impl Bed {
    fn new() -> Self {
        let clock = ManualClock::default();
        let storage = Arc::new(MemoryStorage::with_clock(Arc::new(clock.clone())));
        let store = Store::init(&process(&storage, 1), &Credential::None, &tiny(), None).unwrap();
        Self {
            storage,
            clock,
            store,
        }
    }

    /// Another process, without caches.
    fn opened(&self) -> Store {
        Store::open(
            &process(&self.storage, 2),
            &Credential::None,
            &OpenOptions::default(),
        )
        .unwrap()
    }

    fn backup(&self, name: &str) -> SessionId {
        back_up_bytes(&self.store, name, &noise(1, 20 << 10), &How::plain())
            .unwrap()
            .id
    }

    /// One backup a day.
    fn daily(&self, days: usize) -> Vec<SessionId> {
        let one = |_| {
            self.clock.advance(DAY);
            self.backup("/one")
        };
        (0..days).map(one).collect()
    }

    fn try_forget(&self, what: ForgetWhat, is_dry_run: bool) -> Result<ForgetReport, Error> {
        let request = ForgetRequest::new(what)
            .is_dry_run(is_dry_run)
            .force_unreadable(false);
        self.store.forget(&request, &Monitor::default())
    }

    fn forget(&self, rules: &[Rule]) -> ForgetReport {
        self.try_forget(by(rules), false).unwrap()
    }

    fn there(&self) -> Vec<SessionId> {
        let list = self.store.snapshots().unwrap();
        list.snapshots.iter().map(|snapshot| snapshot.id).collect()
    }

    fn damage(&self, id: SessionId, revision: u32) {
        let series = snapshot(&self.store, id).series;
        let name = names::manifest(series, id, types::Revision::new(revision).unwrap());
        drop(self.storage.delete(&name));
        self.storage.put(&name, &[b"rot"]).unwrap();
    }
}

fn process(storage: &Arc<MemoryStorage>, seed: u64) -> Env {
    Env {
        storage: storage.clone(),
        clock: Arc::new(HandClock::new()),
        entropy: Arc::new(SeededEntropy::new(seed)),
    }
}

fn by(rules: &[Rule]) -> ForgetWhat {
    ForgetWhat::ByPolicy {
        policy: Policy {
            rules: rules.to_vec(),
            may_remove_all: false,
        },
        group_by: GroupBy::SERIES,
        filter: Filter::default(),
        times: Times::default(),
    }
}

fn named(ids: &[SessionId]) -> ForgetWhat {
    ForgetWhat::Named(texts(ids))
}

fn texts(ids: &[SessionId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

fn keep(period: Period, n: u32) -> Rule {
    let limit = Limit::Count(NonZeroU32::new(n).unwrap());
    Rule::Newest { period, limit }
}

#[test]
fn a_policy_forgets_backups_that_no_rule_keeps_and_the_rest_restores() {
    let bed = Bed::new();
    let ids = bed.daily(5);
    let other = bed.backup("/other");
    let rules = [keep(Period::Day, 2)];
    let dry = bed.try_forget(by(&rules), true).unwrap();
    assert_eq!(bed.there().len(), 6, "a dry run changes nothing");
    let report = bed.forget(&rules);
    assert_eq!(report, dry, "and says what would happen");
    assert_eq!(report.forgotten, ids[..3]);
    assert_eq!(bed.there(), [ids[3], ids[4], other]);
    for id in bed.there() {
        let backup = snapshot(&bed.store, id);
        let name = String::from_utf8(backup.backup.series.paths[0].clone()).unwrap();
        assert_restores_bytes(&bed.store, &backup, &name, &noise(1, 20 << 10), "kept");
    }
    assert_sound(&bed.store, "after forgetting");
    assert_eq!(bed.forget(&rules).forgotten, [], "again is nothing");
    assert_eq!(bed.opened().snapshots().unwrap().snapshots.len(), 3);
}

#[test]
fn a_storage_clock_that_jumps_costs_no_backup_its_place() {
    let bed = Bed::new();
    let mut ids = bed.daily(3);
    // One backup while the storage's clock is decades behind, and one while it is ahead. Then it is
    // right again.
    let right = bed.clock.wall();
    bed.clock.set_wall(UnixNanos::new(0));
    ids.push(bed.backup("/one"));
    bed.clock.set_wall(UnixNanos::new(i64::MAX / 2));
    ids.push(bed.backup("/one"));
    bed.clock.set_wall(right);
    ids.extend(bed.daily(3));
    bed.forget(&[keep(Period::Day, 4)]);
    // The newest backup of the third day is the one from when the clock was ahead.
    assert_eq!(bed.there(), ids[4..]);
    bed.forget(&[keep(Period::Each, 1)]);
    assert_eq!(bed.there(), ids[7..]);
}

#[test]
fn named_backups_are_forgotten_once_and_all_are_looked_at_first() {
    let bed = Bed::new();
    let ids = bed.daily(3);
    let missing = ForgetWhat::Named(vec![ids[0].to_string(), "99".into()]);
    let error = bed.try_forget(missing, false).unwrap_err();
    assert!(error.to_string().contains("no backup 99"), "{error}");
    assert_eq!(bed.there(), ids, "nothing was forgotten");
    let report = bed.try_forget(named(&[ids[0], ids[0]]), false).unwrap();
    assert_eq!(report.forgotten, [ids[0]]);
    let report = bed.try_forget(named(&ids[..2]), false).unwrap();
    assert_eq!(report.forgotten, [ids[1]]);
    assert_eq!(report.already_forgotten, [ids[0]]);
    let latest = bed
        .try_forget(ForgetWhat::Named(vec!["latest".into()]), false)
        .unwrap();
    assert_eq!(latest.forgotten, [ids[2]]);
    assert_eq!(bed.there(), []);
}

#[test]
fn a_hold_ends_by_the_storages_clock_alone() {
    let bed = Bed::new();
    let ids = bed.daily(3);
    let span = "10d".parse().unwrap();
    let held = bed
        .store
        .hold(&texts(&ids[..1]), Some(HoldEnd::After(span)))
        .unwrap();
    assert!(held.ids == ids[..1] && held.in_doubt.is_empty());
    let until = held.until;
    let ten_days = i64::try_from((10 * DAY).as_nanos()).unwrap();
    assert_eq!(until.unwrap().get(), bed.clock.wall().get() + ten_days);
    let error = bed.try_forget(named(&ids), false).unwrap_err();
    let words = error.to_string();
    assert!(
        words.contains("backup 1 is held until 2024-01-14") && words.contains("onefold unhold 1"),
        "{words}"
    );
    assert_eq!(bed.there(), ids, "nothing was forgotten");
    let rules = [keep(Period::Each, 1)];
    let report = bed.forget(&rules);
    assert_eq!(report.forgotten, ids[1..2]);
    let reasons = &report.groups[0].decisions[2].reasons;
    assert_eq!(reasons[0].to_string(), "held until 2024-01-14 00:00 UTC");
    // The process's own clock is years ahead, and does not matter. The storage's clock counts.
    bed.clock.advance(10 * DAY - Duration::from_nanos(1));
    assert_eq!(bed.forget(&rules).forgotten, []);
    bed.clock.advance(Duration::from_nanos(1));
    assert_eq!(bed.forget(&rules).forgotten, ids[..1]);
    assert_sound(&bed.store, "after asking the storage for the time");
}

#[test]
fn a_hold_can_be_ended_and_must_be_in_the_future() {
    let bed = Bed::new();
    let ids = bed.daily(2);
    let hold = |end| bed.store.hold(&texts(&ids), end);
    let error = hold(Some(HoldEnd::At(bed.clock.wall()))).unwrap_err();
    assert!(error.to_string().contains("name a later time"), "{error}");
    hold(Some(HoldEnd::At(UnixNanos::new(i64::MAX)))).unwrap();
    hold(None).unwrap();
    let revision = snapshot(&bed.store, ids[0]).revision;
    hold(None).unwrap();
    assert_eq!(
        snapshot(&bed.store, ids[0]).revision,
        revision,
        "nothing to change"
    );
    assert_eq!(bed.try_forget(named(&ids), false).unwrap().forgotten, ids);
}

#[test]
fn without_a_rule_and_of_the_whole_store_nothing_is_forgotten() {
    let bed = Bed::new();
    let ids = bed.daily(2);
    let error = bed.try_forget(by(&[]), false).unwrap_err();
    assert!(error.to_string().contains("--keep-last"), "{error}");
    let everything = |host: Option<&str>| ForgetWhat::ByPolicy {
        policy: Policy {
            rules: Vec::new(),
            may_remove_all: true,
        },
        group_by: GroupBy::SERIES,
        filter: Filter::default().hosts(host.into_iter().map(Vec::from).collect()),
        times: Times::default(),
    };
    let error = bed.try_forget(everything(None), false).unwrap_err();
    assert!(error.to_string().contains("--host"), "{error}");
    let untagged = by(&[Rule::Tagged(vec!["x".into()])]);
    let error = bed.try_forget(untagged, false).unwrap_err();
    assert!(error.to_string().contains("none of the 2 backups"), "{error}");
    assert_eq!(bed.there(), ids);
    bed.try_forget(everything(Some("host")), false).unwrap();
    assert_eq!(bed.there(), []);
}

#[test]
fn a_backup_with_an_unreadable_newest_revision_stays_until_the_user_decides() {
    let mut bed = Bed::new();
    let ids = bed.daily(2);
    bed.damage(ids[0], 1);
    let report = bed.forget(&[keep(Period::Each, 1)]);
    assert_eq!((report.forgotten.len(), report.damaged.len()), (0, 1));
    let error = bed.try_forget(named(&ids[..1]), false).unwrap_err();
    assert!(error.to_string().contains("onefold unhold 1"), "{error}");
    let held = bed.store.hold(&texts(&ids[..1]), None).unwrap();
    assert_eq!(held.in_doubt, ids[..1], "who names it is told");
    assert_eq!(bed.forget(&[keep(Period::Each, 1)]).forgotten, ids[..1]);
    // A backup without a readable revision is forgotten only if the user names it.
    let ids = bed.daily(1);
    bed.damage(ids[0], 0);
    bed.store = bed.opened();
    assert_eq!(bed.forget(&[keep(Period::Each, 1)]).forgotten, []);
    assert_eq!(bed.try_forget(named(&ids), false).unwrap().forgotten, ids);
    let damaged = bed.store.snapshots().unwrap().damaged;
    let of_it = |name| names::parse_manifest(name).unwrap().1 == ids[0];
    assert!(!damaged.iter().any(|object| of_it(&object.name)), "{damaged:?}");
}

#[test]
fn tags_are_added_and_removed() {
    let bed = Bed::new();
    let ids = bed.daily(3);
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let tags = |id| snapshot(&bed.store, id).backup.tags;
    let set = TagChange::Set(words(&["b", "a", "b", ""]));
    let done = bed.store.tag(&Which::Named(texts(&ids[..2])), &set).unwrap();
    assert!(done.len() == 2 && done.iter().all(|one| one.is_changed));
    assert_eq!(tags(ids[0]), ["a", "b"]);
    let change = TagChange::Alter {
        add: words(&["c"]),
        remove: words(&["a"]),
    };
    let only_b = Filter::default().tags(vec![words(&["b"])]);
    let done = bed.store.tag(&Which::All(only_b), &change).unwrap();
    assert_eq!(done.len(), 2);
    assert_eq!(tags(ids[1]), ["b", "c"]);
    let again = bed.store.tag(&Which::Named(texts(&ids[..1])), &change).unwrap();
    assert!(!again[0].is_changed && again[0].tags == ["b", "c"]);
    assert!(tags(ids[2]).is_empty());
    let long = TagChange::Set(vec!["x".repeat(1025)]);
    let error = bed.store.tag(&Which::All(Filter::default()), &long).unwrap_err();
    assert!(error.to_string().contains("1024 at most"), "{error}");
    let report = bed.forget(&[Rule::Tagged(words(&["c"]))]);
    assert_eq!(report.forgotten, ids[2..]);
    // Tagged backups restore as before.
    let first = snapshot(&bed.store, ids[0]);
    assert_restores_bytes(&bed.store, &first, "/one", &noise(1, 20 << 10), "tagged");
}

/// All lists of backups have the tags in memory.
#[test]
fn a_backup_has_only_so_many_tags() {
    let bed = Bed::new();
    let ids = bed.daily(2);
    let words = |count: usize| (0..count).map(|word| format!("tag-{word}")).collect::<Vec<_>>();
    let tags = |id| snapshot(&bed.store, id).backup.tags.len();
    let second = Which::Named(texts(&ids[1..]));
    bed.store.tag(&second, &TagChange::Set(words(999))).unwrap();
    let add = |count: usize| TagChange::Alter {
        add: words(999 + count).split_off(999),
        remove: Vec::new(),
    };
    let all = Which::All(Filter::default());
    let error = bed.store.tag(&all, &add(2)).unwrap_err();
    assert!(error.to_string().contains("at most 1000 tags"), "{error}");
    assert_eq!((tags(ids[0]), tags(ids[1])), (0, 999), "nothing is changed");
    bed.store.tag(&all, &add(1)).unwrap();
    assert_eq!((tags(ids[0]), tags(ids[1])), (1, 1000));
    let long = TagChange::Set((0..65).map(|word| format!("{word:01024}")).collect());
    let error = bed.store.tag(&second, &long).unwrap_err();
    assert!(error.to_string().contains("65536 bytes"), "{error}");
}

fn begun<'a>(
    store: &'a Store,
    options: &BackupOptions,
    paths: Vec<Vec<u8>>,
) -> Result<Box<dyn RunningBackup + 'a>, Error> {
    let host = b"host".to_vec();
    let name = SeriesName { host, paths };
    let how = Beginning::new(options, name, ingest::single_stream(None));
    store.begin(&how, &Monitor::default())
}

/// A backup is told before it reads anything.
#[test]
fn a_backup_with_too_many_tags_does_not_begin() {
    let bed = Bed::new();
    let words = |count: usize| (0..count).map(|word| word.to_string()).collect::<Vec<_>>();
    let tagged = |count| BackupOptions::default().tags(words(count));
    let path = vec![b"/one".to_vec()];
    let error = begun(&bed.store, &tagged(1001), path.clone()).err().unwrap();
    assert!(error.to_string().contains("1001 tags"), "{error}");
    begun(&bed.store, &tagged(1000), path).unwrap();
    assert_eq!(bed.there(), []);
}

/// Only a server has lists that others wait for.
#[test]
fn paths_have_a_limit_on_a_server_alone() {
    let bed = Bed::new();
    let path = |number: usize| format!("/{number:065534}").into_bytes();
    let paths = |count| (0..count).map(path).collect::<Vec<_>>();
    let options = BackupOptions::default();
    begun(&bed.store, &options, paths(129)).unwrap();
    let within = |paths| {
        let host = b"host".to_vec();
        let name = SeriesName { host, paths };
        Beginning::new(&options, name, Vec::new()).ensure_within_limits()
    };
    within(paths(127)).unwrap();
    let told = within(paths(129)).unwrap_err().to_string();
    assert!(
        told.contains("129 paths") && told.contains("folders that contain them"),
        "{told}"
    );
}

#[test]
fn a_stopped_forget_forgets_no_more() {
    let bed = Bed::new();
    let ids = bed.daily(2);
    let monitor = Monitor::new(Arc::new(AtomicBool::new(true)));
    let request = ForgetRequest::new(named(&ids))
        .is_dry_run(false)
        .force_unreadable(false);
    let error = bed.store.forget(&request, &monitor).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert_eq!(bed.there(), ids);
}

/// A store of ten daily backups whose source has a wrong clock, and a copy of the store without its
/// times.
fn copied(wrong_by_seconds: i64) -> (Store, Store, Vec<SessionId>) {
    let clock = ManualClock::default();
    let time = HandClock::new().seen_by(wrong_by_seconds, 1000);
    let storage = Arc::new(MemoryStorage::with_clock(Arc::new(clock.clone())));
    let env = Env {
        clock: Arc::new(time.clone()),
        ..process(&storage, 1)
    };
    let store = Store::init(&env, &Credential::None, &tiny(), None).unwrap();
    let one_a_day = |_| {
        clock.advance(DAY);
        time.move_wall(24 * 3600);
        back_up_bytes(&store, "/one", &noise(1, 20 << 10), &How::plain())
            .unwrap()
            .id
    };
    let ids = (0..10).map(one_a_day).collect();
    let copy = Arc::new(MemoryStorage::with_clock(Arc::new(clock.clone())));
    for meta in storage.list("").unwrap() {
        clock.advance(Duration::from_millis(3));
        copy.put(&meta.name, &[&storage.get(&meta.name).unwrap()])
            .unwrap();
    }
    let copy = Store::open(&process(&copy, 2), &Credential::None, &OpenOptions::default()).unwrap();
    (store, copy, ids)
}

#[test]
fn a_store_that_was_copied_without_its_times_forgets_nothing_unsaid() {
    for wrong_by_seconds in [0, -50_000_000, 50_000_000] {
        let (store, copy, ids) = copied(wrong_by_seconds);
        let forget = |store: &Store, times: Times, is_dry_run| {
            let what = match by(&[keep(Period::Day, 7)]) {
                ForgetWhat::ByPolicy {
                    policy,
                    group_by,
                    filter,
                    ..
                } => ForgetWhat::ByPolicy {
                    policy,
                    group_by,
                    filter,
                    times,
                },
                named @ ForgetWhat::Named(_) => named,
            };
            let request = ForgetRequest::new(what)
                .is_dry_run(is_dry_run)
                .force_unreadable(false);
            store.forget(&request, &Monitor::default())
        };
        let error = forget(&copy, Times::Agreeing, false).unwrap_err().to_string();
        assert!(
            error.contains("10 backups were committed") && error.contains("--times"),
            "{error}"
        );
        assert_eq!(
            copy.snapshots().unwrap().snapshots.len(),
            10,
            "nothing is forgotten"
        );
        // By the commit times of the copy, two backups stay.
        let by_commit = forget(&copy, Times::Commit, true).unwrap();
        assert_eq!(by_commit.forgotten, ids[1..9]);
        let original = forget(&store, Times::Agreeing, false).unwrap();
        assert_eq!(
            original.forgotten,
            ids[..3],
            "a wrong clock of a source is nothing to the original"
        );
        let by_own = forget(&copy, Times::Backup, false).unwrap();
        assert_eq!(by_own.forgotten, ids[..3]);
    }
}
