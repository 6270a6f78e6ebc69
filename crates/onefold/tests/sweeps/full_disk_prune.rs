//! The disk is full, or becomes full at any moment, while backups are forgotten and pruned. With
//! the reserve both complete; without any room they report it. Kept backups are whole at every
//! moment. With room again the next prune finishes, and there is a reserve.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::beside::dump;
use crate::common::pruning::{
    Stage, assert_nothing_unexplained, assert_stages, everything, forget, impatient, prune,
    prune_after_crash, try_forget,
};
use crate::common::{
    Asked, How, Process, assert_restores_bytes, assert_sound, back_up_bytes, is_long, noise, snapshot, tiny,
};
use env::fault::{Counted, CrashPolicy, FailWith, Fault, FaultStorage, OpKind};
use env::{Clock, LocalStorage, SeededEntropy, Storage, SystemClock};
use format::names;
use onefold::{
    Credential, Env, Error, Filter, ForgetRequest, ForgetWhat, GroupBy, Limit, Monitor,
    OpenOptions as HowToOpen, Period, Policy, ReadData, Rule, SessionId, Store,
};
use reclaim::reserve::{FIRST_BYTES, GIVEN_UP_BYTES, REST_BYTES};

/// Moments to try of each scenario, if not all.
const MOMENTS: u64 = 12;

/// A store with a reserve, several epochs old, with every kind of work for a prune: whole
/// containers, and parts of others.
struct Fixture {
    machine: Process,
    kept: Vec<(SessionId, &'static str, Vec<u8>)>,
    doomed: SessionId,
}

impl Fixture {
    fn new(seed: u64) -> Self {
        let machine = Process::new(seed);
        let options = tiny().reserve_bytes(FIRST_BYTES);
        machine.try_init(&options).unwrap();
        let parts: Vec<Vec<u8>> = (0..7).map(|n| noise(seed * 10 + n, 50 << 10)).collect();
        let of = |which: &[usize]| which.iter().flat_map(|n| parts[*n].clone()).collect::<Vec<u8>>();
        let back_up = |name: &str, which: &[usize], how: &How| {
            let store = machine.open();
            back_up_bytes(&store, name, &of(which), how).unwrap().id
        };
        let early = back_up("/a", &[0, 6], &How::plain());
        let doomed = back_up("/a", &[0, 1, 2], &How::plain());
        let mut kept = Vec::new();
        for (name, which, how) in [
            ("/b", &[1, 3][..], How::plain()),
            ("/c", &[4][..], How::small()),
            ("/d", &[5][..], How::small()),
            ("/a", &[0, 3][..], How::plain()),
        ] {
            kept.push((back_up(name, which, &how), name, of(which)));
        }
        forget(&machine.open(), early);
        prune(&machine.open(), &everything(), "the fixture");
        Self {
            machine,
            kept,
            doomed,
        }
    }

    /// The same, with something to prune.
    fn forgotten(seed: u64) -> Self {
        let fixture = Self::new(seed);
        forget(&fixture.machine.open(), fixture.doomed);
        for kind in 0..2 {
            let store = fixture.copy(kind).open();
            let report = prune(&store, &impatient(everything()), "with room");
            let stages = [Stage::Removes, Stage::Compacts];
            assert_stages(&report, &stages, &format!("storage {kind}"));
        }
        fixture
    }

    /// A process on a copy of the machine, that gives parts of objects back or does not.
    fn copy(&self, n: u64) -> Process {
        let machine = self.machine.storage.crash(CrashPolicy::KeepAll);
        Process::on(machine, self.machine.clock.clone(), 9000 + n).striding()
    }

    /// Kept backups restore, even without any room.
    fn assert_restores(&self, machine: &Process, when: &str) {
        let store = machine.beside(9100).open();
        for (id, name, bytes) in &self.kept {
            assert_restores_bytes(&store, &snapshot(&store, *id), name, bytes, when);
        }
        // An interrupted prune may have left one copy of two, which is reported.
        let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
        let mut findings = report.findings.iter();
        assert!(findings.all(|finding| finding.is_covered), "{when}: {report:#?}");
    }

    /// And nothing else is reported.
    fn assert_whole(&self, machine: &Process, when: &str) {
        self.assert_restores(machine, when);
        assert_sound(&machine.beside(9101).open(), when);
    }

    /// With room again the next prune finishes. `has_reserve`: whether there must be a reserve
    /// then.
    fn assert_settles(&self, machine: &Process, has_reserve: bool, when: &str) {
        machine.watched.clear_before();
        machine.storage.clear_faults();
        machine.storage.set_capacity_bytes(None);
        let pruner = machine.beside(9200).striding();
        forget(&pruner.open(), self.doomed);
        prune_after_crash(&pruner.open(), &impatient(everything()), when);
        if has_reserve {
            assert_eq!(reserve(machine), Some(FIRST_BYTES), "{when}");
        }
        self.assert_whole(machine, &format!("{when}, with room"));
        // The next prunes remove the sessions that the first has ended.
        for _ in 0..2 {
            prune_after_crash(&pruner.open(), &impatient(everything()), when);
        }
        assert_nothing_unexplained(&pruner, when);
        self.assert_whole(machine, &format!("{when}, and pruned again"));
    }
}

/// Bytes that all objects take.
fn used(storage: &FaultStorage) -> u64 {
    storage.list("").unwrap().iter().map(|object| object.space).sum()
}

/// From now on, only deletions free space.
fn fill(storage: &FaultStorage) {
    storage.set_capacity_bytes(Some(used(&storage.handle())));
}

fn reserve(machine: &Process) -> Option<usize> {
    let meta = machine.storage.head(&names::reserve()).ok()?;
    Some(usize::try_from(meta.len).unwrap())
}

fn assert_says_why(error: &Error, when: &str) {
    let text = error.to_string();
    assert!(
        error.is_no_space() && text.contains("no space left"),
        "{when}: {text}"
    );
}

/// Counts operations that change something. Before the n-th of them, the disk becomes full.
fn full_from(process: &Process, n: u64) -> Arc<AtomicU64> {
    let counted = Arc::new(AtomicU64::new(0));
    let (count, storage) = (Arc::clone(&counted), process.storage.handle());
    process.watched.set_before(move |_, _| {
        if count.fetch_add(1, Ordering::Relaxed) + 1 == n {
            fill(&storage);
        }
    });
    counted
}

/// The moments to try: all, or some from the first to the last.
fn moments(total: u64) -> impl Iterator<Item = u64> {
    let step = if is_long() { 1 } else { 1 + total / MOMENTS };
    (1..=total).rev().step_by(usize::try_from(step).unwrap())
}

/// For every n: from the n-th moment on, only deletions free space. The work still succeeds.
fn becomes_full_at_every_moment(fixture: &Fixture, act: impl Fn(&Store) -> Result<(), Error>) {
    for kind in 0..2 {
        let quiet = fixture.copy(kind);
        let counted = full_from(&quiet, u64::MAX);
        act(&quiet.open()).unwrap();
        let total = counted.load(Ordering::Relaxed);
        assert!(total >= 3, "{total}");
        for n in moments(total) {
            let when = format!("storage {kind}, full from change {n} of {total} on");
            let process = fixture.copy(kind);
            let store = process.open();
            full_from(&process, n);
            act(&store).unwrap_or_else(|error| panic!("{when}: {error}"));
            fixture.assert_whole(&process, &when);
            assert!(reserve(&process) >= Some(GIVEN_UP_BYTES), "{when}");
            fixture.assert_settles(&process, true, &when);
        }
    }
}

/// For every n: from the n-th put on, no put finds room, whatever is deleted.
fn has_no_room_from_every_put_on(fixture: &Fixture, act: impl Fn(&Store) -> Result<(), Error>) {
    for kind in 0..2 {
        let quiet = fixture.copy(kind);
        let before = quiet.storage.counters();
        act(&quiet.open()).unwrap();
        let total = quiet.storage.counters().since(&before).puts;
        let mut refused = 0;
        for n in moments(total) {
            let when = format!("storage {kind}, no room from put {n} of {total} on");
            let process = fixture.copy(kind);
            let store = process.open();
            let fault = Fault::fail_from(n, FailWith::NoSpace);
            process.storage.inject(fault.counting(Counted::Only(OpKind::Put)));
            if let Err(error) = act(&store) {
                assert_says_why(&error, &when);
                refused += 1;
            }
            fixture.assert_restores(&process, &when);
            // If not even the byte that records the reserve found room, nobody knows that there was
            // one.
            let is_remembered = reserve(&process).is_some();
            fixture.assert_settles(&process, is_remembered, &when);
        }
        assert!(refused > 0, "of {total}");
    }
}

#[test]
fn forgetting_on_a_disk_that_becomes_full() {
    let fixture = Fixture::new(60);
    let act = |store: &Store| try_forget(store, fixture.doomed);
    becomes_full_at_every_moment(&fixture, act);
    has_no_room_from_every_put_on(&fixture, act);
}

fn prune_all(store: &Store) -> Result<(), Error> {
    let (report, _) = store.prune(&impatient(everything()), &Monitor::default())?;
    assert!(report.damaged.is_empty(), "{report:?}");
    Ok(())
}

#[test]
fn pruning_on_a_disk_that_becomes_full() {
    becomes_full_at_every_moment(&Fixture::forgotten(61), prune_all);
}

#[test]
fn pruning_on_a_disk_where_nothing_finds_room() {
    has_no_room_from_every_put_on(&Fixture::forgotten(62), prune_all);
}

/// Only the reserve gives it room to begin.
#[test]
fn with_not_a_byte_free_a_prune_gives_space_back() {
    for turn in 0..2 {
        let fixture = Fixture::forgotten(63);
        let process = fixture.copy(turn);
        fill(&process.storage);
        let before = used(&process.storage);
        let (report, warnings) = process.open().prune(&everything(), &Monitor::default()).unwrap();
        assert!(
            report.bytes_freed() > 30 << 10 && warnings.is_empty(),
            "{report:?} {warnings:?}"
        );
        assert!(
            used(&process.storage) < before,
            "{} of {before}",
            used(&process.storage)
        );
        assert_eq!(reserve(&process), Some(FIRST_BYTES), "it is there again");
        fixture.assert_whole(&process, "full");
        fixture.assert_settles(&process, true, "full");
    }
}

/// Another program takes every byte that forgetting has freed. A part of the reserve is left for
/// the prune.
#[test]
fn with_not_a_byte_free_a_backup_is_forgotten_and_its_space_is_freed() {
    let fixture = Fixture::new(64);
    let process = fixture.copy(0);
    fill(&process.storage);
    let store = process.open();
    try_forget(&store, fixture.doomed).unwrap();
    let list = store.snapshots().unwrap();
    assert!(list.snapshots.iter().all(|one| one.id != fixture.doomed));
    assert_eq!(reserve(&process), Some(REST_BYTES), "some of it was needed");
    fill(&process.storage);
    let (report, _) = process.open().prune(&everything(), &Monitor::default()).unwrap();
    assert!(report.bytes_freed() > 30 << 10, "{report:?}");
    assert!(reserve(&process) >= Some(REST_BYTES));
    fixture.assert_whole(&process, "full");
    fixture.assert_settles(&process, true, "full");
}

/// Reading the storage's clock means putting an object.
#[test]
fn with_not_a_byte_free_backups_are_forgotten_beside_one_that_is_held() {
    let fixture = Fixture::new(65);
    let process = fixture.copy(0);
    let store = process.open();
    let (held, ..) = fixture.kept[0];
    let until = onefold::HoldEnd::After("10d".parse().unwrap());
    store.hold(&[held.to_string()], Some(until)).unwrap();
    fill(&process.storage);
    let one = Limit::Count(std::num::NonZeroU32::new(1).unwrap());
    let what = ForgetWhat::ByPolicy {
        policy: Policy {
            rules: vec![Rule::Newest {
                period: Period::Each,
                limit: one,
            }],
            may_remove_all: false,
        },
        group_by: GroupBy::SERIES,
        filter: Filter::default(),
        times: onefold::Times::default(),
    };
    let request = ForgetRequest::new(what).is_dry_run(false).force_unreadable(false);
    let report = store.forget(&request, &Monitor::default()).unwrap();
    assert_eq!(report.forgotten, [fixture.doomed]);
    fixture.assert_whole(&process, "full");
    fixture.assert_settles(&process, true, "full");
}

/// A store without a reserve reports the problem, and loses nothing.
#[test]
fn without_a_reserve_a_full_disk_is_an_error_that_says_so() {
    let fixture = Fixture::forgotten(66);
    let process = fixture.copy(0);
    process.storage.delete(&names::reserve()).unwrap();
    fill(&process.storage);
    let error = prune_all(&process.open()).unwrap_err();
    assert_says_why(&error, "full");
    fixture.assert_whole(&process, "full");
    fixture.assert_settles(&process, false, "full");
    assert_eq!(reserve(&process), None, "nobody makes one that was not asked for");
}

/// The disk fills up after prune has announced an epoch. A reader cannot answer it, and prune
/// cannot even put a heartbeat. Prune gives up the reserve, and then the reader can answer.
#[test]
fn nobody_waits_for_a_reader_that_finds_no_room_to_answer() {
    let fixture = Fixture::forgotten(67);
    let process = fixture.copy(0);
    let reader = process.beside(9300);
    let (id, _, bytes) = &fixture.kept[0];
    let full = process.storage.handle();
    process.watched.set_before(move |asked, name| {
        // The barrier after the list: later writes find no room.
        if asked == Asked::Other && name.starts_with("condemned/") {
            fill(&full);
        }
    });
    let mut report = None;
    let began = process.clock.monotonic();
    let read = dump(&reader.open(), *id, || {
        report = Some(
            process
                .open()
                .prune(&everything(), &Monitor::default())
                .unwrap()
                .0,
        );
    });
    assert!(read == *bytes);
    let waited = process.clock.monotonic() - began;
    assert!(waited < everything().answer_within / 10, "{waited:?}");
    let report = report.unwrap();
    assert!(
        report.sessions_expired.is_empty() && report.bytes_freed() > 30 << 10,
        "{report:?}"
    );
    process.watched.clear_before();
    fixture.assert_whole(&process, "full");
    fixture.assert_settles(&process, true, "full");
}

/// A prune that is killed when it has decided, and before it has executed anything.
fn decided(fixture: &Fixture, kind: u64) -> Process {
    let process = fixture.copy(kind);
    let pruner = process.beside(9400 + kind).striding();
    let dying = pruner.storage.clone();
    pruner.watched.set_before(move |asked, name| {
        let is_of_container = ["data/", "recipe/", "small/", "mirror/"]
            .iter()
            .any(|folder| name.starts_with(folder));
        if is_of_container && matches!(asked, Asked::Put | Asked::Delete | Asked::Trim) {
            dying.kill();
        }
    });
    pruner
        .open()
        .prune(&impatient(everything()), &Monitor::default())
        .unwrap_err();
    assert_eq!(process.names("removed").len(), 2, "it has decided");
    assert_eq!(process.names("condemned").len(), 1, "it has not finished");
    process
}

/// An open epoch would rewrite containers for which there is no room, and there is no reserve. The
/// work that fits is done, and the epoch ends. So does the next one, which removes everything
/// forgotten since. With room the rest is removed.
#[test]
fn an_open_epoch_ends_with_the_work_that_fits_on_the_disk() {
    let mut given_up = 0;
    for turn in 0..2 {
        let fixture = Fixture::forgotten(68 + turn);
        for room in [5 << 10, 10 << 10] {
            let when = format!("storage {turn}, {room} bytes free");
            let process = decided(&fixture, turn);
            reclaim::reserve::give_up(&process.storage).unwrap();
            let storage = process.storage.handle();
            let leave = move || storage.set_capacity_bytes(Some(used(&storage) + room));
            leave();
            // Another program takes the space that is free by then.
            process.watched.set_before(move |asked, name| {
                if asked == Asked::Put && name.starts_with("data/") {
                    leave();
                }
            });
            let pruned = process
                .open()
                .prune(&impatient(everything()), &Monitor::default());
            let (report, _) = pruned.unwrap_or_else(|error| panic!("{when}: {error}"));
            given_up += report.given_up.len();
            process.watched.clear_before();
            assert!(process.names("condemned").is_empty(), "{when}: an epoch is open");
            fixture.assert_whole(&process, &when);
            // Slots that were given up stay absent for other sessions, because they are on an
            // existing list.
            let again = process.beside(9500);
            let (_, name, bytes) = &fixture.kept[0];
            if let Ok(made) = back_up_bytes(&again.open(), name, bytes, &How::plain()) {
                let store = again.open();
                assert_restores_bytes(&store, &snapshot(&store, made.id), name, bytes, &when);
                forget(&again.open(), made.id);
            }
            process
                .storage
                .set_capacity_bytes(Some(used(&process.storage) + room));
            let pruned = process
                .open()
                .prune(&impatient(everything()), &Monitor::default());
            pruned.unwrap_or_else(|error| panic!("{when}, once more: {error}"));
            assert!(process.names("condemned").is_empty(), "{when}: an epoch is open");
            fixture.assert_whole(&process, &when);
            fixture.assert_settles(&process, true, &when);
        }
    }
    assert!(given_up > 0, "there was room for all");
}

/// A file system of its own, which is unmounted when this is dropped.
struct Mounted {
    folder: tempfile::TempDir,
    _image: Option<tempfile::NamedTempFile>,
}

impl Mounted {
    const BYTES: u64 = 24 << 20;

    /// `None`: this process may not mount anything. Prints this.
    fn new(kind: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut image = None;
        let mut mount = Command::new("mount");
        if kind == "tmpfs" {
            mount.args(["-t", "tmpfs", "-o", &format!("size={}", Self::BYTES), "tmpfs"]);
        } else {
            let file = tempfile::NamedTempFile::new().unwrap();
            file.as_file().set_len(Self::BYTES).unwrap();
            let mut make = Command::new("mkfs.ext4");
            make.args(["-q", "-F", "-m", "0", "-O", "^has_journal"])
                .arg(file.path());
            if !succeeds(&mut make) {
                return None;
            }
            mount.args(["-o", "loop"]).arg(file.path());
            image = Some(file);
        }
        succeeds(mount.arg(folder.path())).then_some(Self {
            folder,
            _image: image,
        })
    }

    /// Another program takes all free space, except so many bytes.
    fn take_all_but(&self, free: u64) {
        let path = self.folder.path().join("ballast");
        let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
        while file.write_all(&[0xa5; 32 << 10]).is_ok() {}
        let len = file.metadata().unwrap().len();
        file.set_len(len.saturating_sub(free)).unwrap();
        // Bytes that are not written yet take no block yet.
        drop(file.sync_all());
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        succeeds(Command::new("umount").arg("-l").arg(self.folder.path()));
    }
}

fn succeeds(command: &mut Command) -> bool {
    match command.output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            println!(
                "skipped: {command:?}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            false
        }
        Err(error) => {
            println!("skipped: {command:?}: {error}");
            false
        }
    }
}

/// A store fills its file system. Then another program takes nearly all free space, again and
/// again, while the backups are forgotten one after another. Every prune completes, kept backups
/// restore, and nothing is left when no backup is kept.
fn fills_and_prunes_to_nothing(kind: &str, seed: u64) -> Option<usize> {
    let when = |what: &str| format!("{kind}, seed {seed}, {what}");
    let disk = Mounted::new(kind)?;
    let mut seeds = SplitMix(seed);
    let env = Env {
        storage: Arc::new(LocalStorage::create(disk.folder.path().join("store")).unwrap()),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SeededEntropy::new(seed)),
    };
    let init = tiny()
        .chunk_avg_bytes(8 << 10)
        .region_bytes(64 << 10)
        .container_bytes(1 << 20)
        .reserve_bytes(if seed.is_multiple_of(3) { 0 } else { FIRST_BYTES });
    let open = || Store::open(&env, &Credential::None, &HowToOpen::default()).unwrap();
    drop(Store::init(&env, &Credential::None, &init, None).unwrap());
    let parts: Vec<Vec<u8>> = (0..40).map(|n| noise(seed * 100 + n, 300 << 10)).collect();
    let mut kept: Vec<(SessionId, String, Vec<u8>)> = Vec::new();
    loop {
        let which: Vec<&[u8]> = (0..=seeds.below(8))
            .map(|_| &parts[seeds.below(40)][..])
            .collect();
        let bytes = which.concat();
        let name = format!("/{}", seeds.below(3));
        let how = if seeds.below(4) == 0 {
            How::small()
        } else {
            How::plain()
        };
        match back_up_bytes(&open(), &name, &bytes, &how) {
            Ok(made) => kept.push((made.id, name, bytes)),
            Err(error) => {
                assert_says_why(&error, &when("backup"));
                break;
            }
        }
        if kept.len() == 30 {
            break;
        }
    }
    let mut given_up = 0;
    while !kept.is_empty() {
        disk.take_all_but((80 << 10) + seeds.below(1900 << 10) as u64);
        for _ in 0..=seeds.below(2.min(kept.len())) {
            let (id, ..) = kept.swap_remove(seeds.below(kept.len()));
            try_forget(&open(), id).unwrap_or_else(|error| panic!("{}: {error}", when("forget")));
        }
        let options = match seeds.below(3) {
            0 => onefold::PruneOptions::default(),
            _ => everything(),
        };
        let pruned = open().prune(&options, &Monitor::default());
        let (report, _) = pruned.unwrap_or_else(|error| panic!("{}: {error}", when("prune")));
        given_up += report.given_up.len();
        let open_epochs = env.storage.list("condemned").unwrap();
        assert!(open_epochs.is_empty(), "{}: {open_epochs:?}", when("prune"));
        if let Some((id, name, bytes)) = kept.get(seeds.below(kept.len().max(1))) {
            let store = open();
            assert_restores_bytes(&store, &snapshot(&store, *id), name, bytes, &when("restore"));
        }
    }
    let pruned = open().prune(&everything(), &Monitor::default());
    pruned.unwrap_or_else(|error| panic!("{}: {error}", when("the last prune")));
    for folder in ["data", "recipe", "small", "archive", "mirror"] {
        let left = env.storage.list(folder).unwrap();
        assert!(left.is_empty(), "{}: {left:?}", when("nothing is kept"));
    }
    Some(given_up)
}

struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}

#[test]
fn random_stores_on_disks_that_are_nearly_full_are_pruned_to_nothing() {
    let seeds = if is_long() { 100 } else { 2 };
    for kind in ["tmpfs", "ext4"] {
        let mut given_up = 0;
        // Every third one has no reserve.
        for seed in 2..2 + seeds {
            let Some(of_one) = fills_and_prunes_to_nothing(kind, seed) else {
                break;
            };
            given_up += of_one;
        }
        println!("{kind}: {given_up} rewrites were given up");
    }
}
