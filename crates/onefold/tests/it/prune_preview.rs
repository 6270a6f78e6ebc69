//! The preview of `prune -n` equals the report of the prune right after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::common::pruning::{forget, leaving, prune};
use crate::common::reclaimer::Reclaimer;
use crate::common::{
    Asked, HandClock, How, Process, StorageClock, assert_restores_bytes, back_up_bytes, is_long, noise,
    snapshot,
};
use container::Containers;
use crypto::Credential;
use env::fault::FaultStorage;
use object::config;
use onefold::{Monitor, PruneOptions, PrunePreview, PruneReport, PruneUnused, SessionId};
use types::{ChunkLocation, ContainerId};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A machine whose storage uses the test's time.
fn machine(seed: u64) -> Process {
    let clock = HandClock::new();
    let storage = FaultStorage::with_clock(Arc::new(StorageClock::new(&clock)));
    let machine = Process::on(storage, clock, seed);
    machine.init();
    machine
}

/// Words that compress, the same for the same seed.
fn words(seed: u64, len: usize) -> Vec<u8> {
    let drawn = noise(seed, len / 4 + 1);
    let words = drawn
        .iter()
        .flat_map(|byte| [b'w', b'a' + byte % 8, b'o', b'a' + byte / 32]);
    words.take(len).collect()
}

/// A backup that dies before it is committed.
fn back_up_dying(machine: &Process, name: &str, bytes: &[u8], how: &How) {
    let storage = machine.storage.clone();
    machine.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.starts_with("backups") {
            storage.kill();
        }
    });
    back_up_bytes(&machine.open(), name, bytes, how).unwrap_err();
}

/// A prune that dies before this change.
fn prune_dying(machine: &Process, options: &PruneOptions, mut changes: usize) {
    let storage = machine.storage.clone();
    machine.watched.set_before(move |_, _| {
        changes = changes.saturating_sub(1);
        if changes == 0 {
            storage.kill();
        }
    });
    drop(machine.open().prune(options, &Monitor::default()));
}

fn previewed(
    machine: &Process,
    options: &PruneOptions,
    forget: &BTreeSet<SessionId>,
    when: &str,
) -> PrunePreview {
    let store = machine.open();
    drop(machine.watched.take_requests());
    let preview = store.preview_prune(options, forget, &Monitor::default());
    let (preview, warnings) = preview.unwrap_or_else(|error| panic!("{when}: {error}"));
    assert!(warnings.is_empty(), "{when}: {warnings:?}");
    let changes = |asked| matches!(asked, Asked::Put | Asked::Delete | Asked::Trim | Asked::Barrier);
    let requests = machine.watched.take_requests();
    let changed: Vec<_> = requests.iter().filter(|request| changes(request.asked)).collect();
    assert!(changed.is_empty(), "{when}: {changed:?}");
    preview
}

/// The preview must equal the report, except for lengths of data that is compressed again: the
/// removed part of a region of 8 KiB may be just the part that compressed. If a session was found
/// dead, a second epoch follows, which decides anew, and may copy other containers. The same may
/// happen if a prune was killed while it rewrote some.
fn compare(told: &PrunePreview, done: &PruneReport, options: &PruneOptions, is_rough: bool, when: &str) {
    let when = format!("{when}: told {told:?}, done {done:?}");
    let rewritten = done.containers_compacted;
    let share = done.bytes_copied / 10 + rewritten * (2 << 10);
    assert_eq!(told.containers_removed, done.containers_removed, "{when}");
    let is_limited = options.limits.repack_bytes_max < u64::MAX;
    assert!(
        !is_limited || done.bytes_copied <= told.bytes_copied + share,
        "{when}"
    );
    if is_rough || done.epochs > 1 {
        let left = told.bytes_left_dead + done.bytes_left_dead;
        let far = told.bytes_freed.abs_diff(done.bytes_freed());
        assert!(
            far <= share + left + if is_rough { 40 << 10 } else { 0 },
            "{far} of what is freed: {when}"
        );
        return;
    }
    let counts = [
        (told.containers_compacted, done.containers_compacted),
        (told.containers_trimmed, done.containers_trimmed),
        (told.bytes_left_dead, done.bytes_left_dead),
    ];
    assert!(
        counts.iter().all(|(told, done)| told == done),
        "{counts:?}: {when}"
    );
    let far = told.bytes_copied.abs_diff(done.bytes_copied);
    assert!(far <= share, "{far} of the copies: {when}");
    let far = told.bytes_freed.abs_diff(done.bytes_freed());
    assert!(far <= share, "{far} of what is freed: {when}");
}

#[test]
fn the_execution_of_a_plan_matches_the_plan() {
    for (seed, unused_max) in [(700, PruneUnused::Unlimited), (710, PruneUnused::Bytes(0))] {
        let when = format!("{unused_max:?}");
        let machine = machine(seed);
        let store = machine.open();
        let bytes = words(seed + 1, 400 << 10);
        let gone = back_up_bytes(&store, "/gone", &bytes, &How::plain()).unwrap();
        // A part of each container.
        let stays: Vec<u8> = bytes.chunks(20 << 10).step_by(2).flatten().copied().collect();
        let kept = back_up_bytes(&store, "/stays", &stays, &How::plain()).unwrap();
        forget(&store, gone.id);
        let options = leaving(unused_max);
        let before = machine.names("");
        let plan = store.plan_prune(&options, &Monitor::default()).unwrap();
        assert!(plan.warnings().is_empty(), "{when}: {:?}", plan.warnings());
        let told = plan.preview().clone();
        let leaves_much = told.bytes_left_dead > 50 << 10;
        assert_eq!(leaves_much, unused_max == PruneUnused::Unlimited, "{told:?}");
        drop(plan);
        assert_eq!(machine.names(""), before, "{when}: a plan writes nothing");
        let plan = store.plan_prune(&options, &Monitor::default()).unwrap();
        let (done, warnings) = plan.execute(&Monitor::default()).unwrap();
        assert!(warnings.is_empty(), "{when}: {warnings:?}");
        compare(&told, &done, &options, false, &when);
        assert_restores_bytes(&store, &snapshot(&store, kept.id), "stays", &stays, &when);
    }
}

/// The exclusive data of each of these backups, computed from everything that each backup reaches.
fn alone(machine: &Process, doomed: &BTreeSet<SessionId>) -> BTreeMap<SessionId, u64> {
    let reclaimer = Reclaimer::new(machine.clone());
    let opened = config::open(&machine.env, Credential::NoPassword).unwrap();
    let containers = Containers::new(machine.env.clone(), opened.store(), &opened.keys, 8 << 20);
    let list = reclaimer.manifests.list().unwrap();
    let reached: BTreeMap<SessionId, BTreeSet<ChunkLocation>> = list
        .backups()
        .map(|entry| {
            let reached = reclaimer.reached_by(entry.backup().unwrap());
            (entry.session(), reached.iter().copied().collect())
        })
        .collect();
    let alone = |id: &SessionId| {
        let is_elsewhere =
            |at: &ChunkLocation| reached.iter().any(|(other, of)| other != id && of.contains(at));
        let mut plain: BTreeMap<ContainerId, u64> = BTreeMap::new();
        for at in reached[id].iter().filter(|at| !is_elsewhere(at)) {
            let len = containers
                .catalog(at.container)
                .unwrap()
                .entry(at.slot)
                .unwrap()
                .len;
            *plain.entry(at.container).or_default() += u64::from(len);
        }
        let shares = plain.into_iter().map(|(container, plain)| {
            let view = containers.catalog(container).unwrap();
            let total: u64 = view.entries().iter().map(|entry| u64::from(entry.len)).sum();
            let copies = if container.kind.is_mirrored() { 2 } else { 1 };
            view.stored_bytes() * plain / total * copies
        });
        (*id, shares.sum())
    };
    doomed.iter().map(alone).collect()
}

struct Made {
    id: SessionId,
    name: String,
    bytes: Vec<u8>,
}

/// Backups of some series, of which some are forgotten. Sessions die, and prunes run with many
/// options, time after time.
fn run(seed: u64, seen: &mut PruneReport) {
    let machine = machine(seed);
    let pieces: Vec<Vec<u8>> = (0..12)
        .map(|n| {
            if n % 3 == 0 {
                words(seed * 100 + n, 40 << 10)
            } else {
                noise(seed * 100 + n, 20 << 10)
            }
        })
        .collect();
    let mut kept: Vec<Made> = Vec::new();
    for round in 0..8u64 {
        let when = format!("seed {seed}, round {round}");
        let draw = noise(seed * 1000 + round, 64);
        let at = |n: usize| usize::from(draw[n]);
        for n in 0..2 + at(0) % 3 {
            let how = if at(10 + n) % 3 == 0 {
                How::small()
            } else {
                How::plain()
            };
            let name = format!("/series-{}", at(20 + n) % 3);
            let count = if at(30 + n) % 3 == 0 { 1 } else { 5 };
            let mut bytes = noise(seed * 7777 + round * 10 + n as u64, 1500);
            for piece in 0..count {
                bytes.extend(&pieces[(at(40 + n) + piece * (1 + at(50 + n) % 3)) % pieces.len()]);
            }
            let made = back_up_bytes(&machine.beside(seed + n as u64).open(), &name, &bytes, &how).unwrap();
            kept.push(Made {
                id: made.id,
                name,
                bytes,
            });
        }
        let dies = at(1) % 3 == 0;
        if dies {
            let dying = machine.beside(seed + 50 + round);
            back_up_dying(
                &dying,
                "/dying",
                &noise(seed * 31 + round, 50 << 10),
                &How::plain(),
            );
        }
        if at(2) % 2 == 0 {
            machine.clock.advance(HOUR * 25);
        }
        let mut doomed = BTreeSet::new();
        for n in 0..at(3) % 4 {
            if kept.len() > 2 {
                doomed.insert(kept.remove(at(4 + n) % kept.len()).id);
            }
        }
        let unused = [
            PruneUnused::Bytes(0),
            PruneUnused::Share(0.05),
            PruneUnused::Unlimited,
        ][at(8) % 3];
        let mut options = leaving(unused);
        if at(9) % 3 == 0 {
            options.limits.repack_bytes_max = 40 << 10;
        }
        let when = format!(
            "{when}, {:?}, dies {dies}, forget {}",
            options.limits,
            doomed.len()
        );
        let mut is_open = false;
        if at(5) % 5 == 0 {
            for id in std::mem::take(&mut doomed) {
                forget(&machine.open(), id);
            }
            prune_dying(&machine.beside(seed + 70 + round), &options, 4 + at(6) % 20);
            is_open = !machine.names("condemned").is_empty();
        }
        let process = machine.beside(seed + round);
        let mut before = previewed(&process, &options, &doomed, &when);
        assert_eq!(before.alone, alone(&machine, &doomed), "{when}");
        for id in &doomed {
            forget(&machine.open(), *id);
        }
        let preview = previewed(&process, &options, &BTreeSet::new(), &when);
        let report = prune(&process.open(), &options, &when);
        before.alone.clear();
        assert_eq!(before, preview, "{when}: before they are forgotten, and after");
        compare(&preview, &report, &options, is_open, &when);
        seen.containers_removed += report.containers_removed;
        seen.containers_compacted += report.containers_compacted;
        seen.containers_trimmed += report.containers_trimmed;
        seen.bytes_left_dead += report.bytes_left_dead;
        seen.sessions_expired.extend(report.sessions_expired);
    }
    let store = machine.open();
    for made in &kept {
        assert_restores_bytes(
            &store,
            &snapshot(&store, made.id),
            &made.name,
            &made.bytes,
            "at the end",
        );
    }
}

#[test]
fn the_preview_matches_the_prune() {
    let seeds = if is_long() { 60 } else { 12 };
    let mut seen = PruneReport::default();
    for seed in 0..seeds {
        run(seed, &mut seen);
    }
    let all = [
        seen.containers_removed,
        seen.containers_compacted,
        seen.containers_trimmed,
        seen.bytes_left_dead,
        seen.sessions_expired.len() as u64,
    ];
    assert!(
        all.iter().all(|seen| *seen > 0),
        "there was some of everything: {seen:?}"
    );
}

/// The data of a dead backup is removed when no backup has adopted it for a day, or earlier with an
/// epoch that runs for another reason. The preview shows it exactly then.
#[test]
fn the_preview_shows_data_of_dead_backups_when_a_prune_would_remove_it() {
    for (seed, is_old, has_other) in [
        (1, true, false),
        (2, true, true),
        (3, false, true),
        (4, false, false),
    ] {
        let when = format!("a day old: {is_old}, an epoch for something else: {has_other}");
        let machine = machine(seed);
        let other = back_up_bytes(&machine.open(), "/other", &noise(1, 60 << 10), &How::plain()).unwrap();
        let kept = back_up_bytes(&machine.open(), "/kept", &noise(2, 60 << 10), &How::plain()).unwrap();
        let options = leaving(PruneUnused::Share(0.05));
        prune(&machine.open(), &options, &when);
        back_up_dying(
            &machine.beside(seed + 10),
            "/dying",
            &noise(3, 100 << 10),
            &How::plain(),
        );
        machine.clock.advance(if is_old { HOUR * 25 } else { HOUR * 23 });
        if has_other {
            forget(&machine.open(), other.id);
        }
        let process = machine.beside(seed + 20);
        let told = previewed(&process, &options, &BTreeSet::new(), &when);
        let done = prune(&process.open(), &options, &when);
        let expected = if is_old || has_other { 100 << 10 } else { 0 } + if has_other { 60 << 10 } else { 0 };
        assert!(
            (expected..=expected + (30 << 10)).contains(&told.bytes_freed),
            "{when}: {told:?}"
        );
        assert!(
            told.bytes_freed > 0 || told == PrunePreview::default(),
            "{when}: {told:?}"
        );
        compare(&told, &done, &options, false, &when);
        assert_eq!(
            done.sessions_expired.len(),
            usize::from(is_old || has_other),
            "{when}"
        );
        let store = machine.open();
        assert_restores_bytes(
            &store,
            &snapshot(&store, kept.id),
            "/kept",
            &noise(2, 60 << 10),
            &when,
        );
    }
}
