//! A crash at storage operations of forgetting and pruning, with bytes under no barrier kept,
//! dropped or torn; and kills. They are at a sample of the operations; with `ONEFOLD_TEST_LONG=1`
//! at every one, and kills at reads too. After each: another process prunes, and once more, which
//! does nothing; every kept backup restores identically; `check` of every byte finds no damage; no
//! slot is stored that no backup reaches; and the next backup deduplicates against the remaining
//! data.
//!
//! As in `crash.rs`, one recorded run gives all cuts.

use std::collections::BTreeSet;
use std::io;

use crate::common::play::{Image, Play, every, everything, everything_at_once, policies};
use crate::common::pruning::{
    Stage, assert_stages, forget, impatient, leaving, prune, try_forget, try_prune,
};
use crate::common::{Asked, How, Process, Request, is_long};
use env::fault::{Counted, CrashPolicy, Fault};
use onefold::{PruneOptions, PruneUnused, SessionId};

#[test]
fn a_crash_in_the_first_prune() {
    let play = Play::new(1);
    let ids = play.fill();
    play.record(policies(), every(7));
    play.forget(&ids[..2]);
    play.prune_by(&[Stage::Removes, Stage::Compacts], &everything());
    play.verify_all();
}

/// Marks are extended and dropped, lists of an earlier epoch exist, and tombstones are deleted.
#[test]
fn a_crash_in_a_later_prune() {
    let play = Play::new(2);
    let ids = play.fill();
    play.forget(&ids[..1]);
    play.prune(&everything());
    play.back_up("/a", &[0, 3, 7], &How::plain());
    play.record(policies(), every(9));
    let tombstones = play.process.names("backups");
    play.forget(&ids[2..4]);
    play.prune_by(&[Stage::Compacts], &everything_at_once());
    let left = play.process.names("backups");
    assert!(tombstones.iter().any(|name| !left.contains(name)), "{left:?}");
    play.verify_all();
}

/// A backup takes slots that an epoch left in place, and the next epoch removes the rest.
#[test]
fn a_crash_in_a_prune_of_slots_that_were_left_in_place() {
    let play = Play::new(3);
    let ids = play.fill();
    play.forget(&ids[..3]);
    play.prune_leaving();
    play.back_up("/a", &[0, 7], &How::plain());
    play.back_up("/b", &[1, 7], &How::small());
    play.record(policies(), every(7));
    play.prune_by(&[Stage::Removes, Stage::Compacts], &everything());
    play.verify_all();
}

/// Small containers with nodes and chunks lose a part, or are removed.
#[test]
fn a_crash_in_a_prune_of_small_containers() {
    let play = Play::new(7);
    let (plain, small) = (How::plain(), How::small());
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(play.back_up("/a", &[n, n + 1], &plain));
        ids.push(play.back_up("/b", &[n + 2], &small));
    }
    play.forget(&ids[..1]);
    play.record(policies(), every(7));
    play.prune_by(&[Stage::Compacts], &everything());
    play.forget(&ids[2..4]);
    play.prune_by(&[Stage::Removes, Stage::Compacts], &everything());
    play.verify_all();
}

/// Regions are given back; then more of them, of the same containers.
#[test]
fn a_crash_in_a_prune_that_trims() {
    let play = Play::new(60);
    let plain = How::plain();
    let ids = [
        play.back_up("/a", &[0, 1, 2, 3, 4, 5, 6], &plain),
        play.back_up("/b", &[0, 1, 2, 4, 5], &plain),
        play.back_up("/b", &[0, 2, 5, 7], &plain),
    ];
    play.record(policies(), every(6));
    for id in &ids[..2] {
        play.forget(&[*id]);
        let report = prune(
            &play.process.open(),
            &impatient(leaving(PruneUnused::Bytes(20 << 10))),
            "in the scenario",
        );
        assert_stages(&report, &[Stage::Trims], "in the scenario");
    }
    play.assert_trims();
    play.verify_all();
}

/// Everything is removed, including the groups.
#[test]
fn a_crash_in_a_prune_of_everything() {
    let play = Play::new(4);
    let ids = play.fill();
    play.forget(&ids[..3]);
    play.prune(&everything());
    play.record(policies(), every(9));
    play.forget(&ids[3..]);
    play.prune_by(&[Stage::Removes], &everything_at_once());
    play.verify_all();
}

/// Requests of each stage of forgetting and pruning, by kind and folder.
const STAGES: [&str; 7] = [
    // Forget, mark, condemn, decide.
    "Put backups",
    "Put groups",
    "Put condemned",
    "Put removed",
    // Remove, finish, and delete temporary metadata.
    "Delete data",
    "Delete condemned",
    "Delete backups",
];

/// Kind and folder of a request.
fn stage(request: &Request) -> String {
    let folder = request.name.split('/').next().unwrap_or_default();
    format!("{:?} {folder}", request.asked)
}

/// The process that forgets and prunes is killed before or after each operation, or one in so many.
/// It ends, and another one continues. The run that survives goes through all these stages, so
/// other runs died at each operation of them.
fn kill_at_every_operation(
    play: &Play,
    doomed: &[SessionId],
    options: &PruneOptions,
    (every_short, is_trimming): (usize, bool),
    stages: &[&str],
) {
    let before = play.told().clone();
    let (counted, every) = if is_long() {
        (Counted::All, 1)
    } else {
        (Counted::Mutating, every_short)
    };
    let mut moments = 0;
    for n in (1..).step_by(every) {
        let mut reached = false;
        for fault in [Fault::kill(n), Fault::kill_after(n)] {
            let machine = play.process.storage.crash(CrashPolicy::KeepAll);
            let seed = 1000 + if is_trimming { 2 * n } else { n };
            let dying = Process::on(machine.handle(), play.process.clock.clone(), seed).striding();
            let store = dying.open();
            drop(dying.watched.take_requests());
            dying.storage.inject_here(fault.counting(counted));
            let mut told = before.clone();
            let mut in_time = io::Result::Ok(());
            for id in doomed {
                let content = told.kept.remove(id).unwrap();
                match try_forget(&store, *id) {
                    Ok(()) => {}
                    Err(error) => {
                        told.in_doubt.insert(*id, content);
                        in_time = Err(io::Error::other(error.to_string()));
                    }
                }
                if in_time.is_err() {
                    break;
                }
            }
            let pruned = try_prune(&store, options);
            drop(store);
            if !dying.storage.is_gone() {
                assert!(in_time.is_ok() && pruned.is_ok(), "{in_time:?} {pruned:?}");
                let asked: BTreeSet<String> = dying.watched.take_requests().iter().map(stage).collect();
                let missing: Vec<_> = stages.iter().filter(|stage| !asked.contains(**stage)).collect();
                assert!(missing.is_empty(), "{missing:?} of {asked:?}");
                continue;
            }
            reached = true;
            let when = format!("{fault:?}");
            play.verify(&Image { machine, told, when });
        }
        if !reached {
            break;
        }
        moments += 1;
    }
    assert!(moments >= 6, "{moments}");
}

#[test]
fn a_kill_at_every_operation() {
    let play = Play::new(5);
    let ids = play.fill();
    play.forget(&ids[..1]);
    play.prune_leaving();
    play.back_up("/a", &[0, 7], &How::plain());
    let compacts = [&STAGES[..], &["Put data", "Put recipe"]].concat();
    kill_at_every_operation(&play, &ids[1..4], &everything_at_once(), (3, false), &compacts);
}

#[test]
fn a_kill_at_every_operation_of_a_prune_of_small_containers() {
    let play = Play::new(8);
    let ids: Vec<_> = (0..4)
        .flat_map(|n| {
            [
                play.back_up("/a", &[n, n + 1], &How::plain()),
                play.back_up("/b", &[n + 2], &How::small()),
            ]
        })
        .collect();
    let compacts = [&STAGES[..], &["Put small", "Delete small"]].concat();
    kill_at_every_operation(&play, &ids[..3], &everything_at_once(), (7, false), &compacts);
}

#[test]
fn a_kill_at_every_operation_of_a_trim() {
    let play = Play::new(62);
    let ids = [
        play.back_up("/a", &[0, 1, 2, 3, 4, 5, 6], &How::plain()),
        play.back_up("/b", &[0, 2, 5, 7], &How::plain()),
    ];
    let options = impatient(leaving(PruneUnused::Bytes(20 << 10)));
    let trims = [&STAGES[..6], &["Trim data"]].concat();
    kill_at_every_operation(&play, &ids[..1], &options, (5, true), &trims);
}

/// The first process is killed before or after it has put a list, the second one executes the list
/// that it read, and the power fails. The list on which the second acted is durable before its
/// changes.
#[test]
fn a_crash_in_the_work_that_a_successor_finishes() {
    for (nth, folder) in [(1, "condemned"), (1, "removed"), (1, "recipe"), (1, "data")] {
        let play = Play::new(50);
        let ids = play.fill();
        play.forget(&ids[..3]);
        let dying = play.process.beside(51).striding();
        let store = dying.open();
        let (storage, mut puts) = (dying.storage.clone(), 0);
        dying.watched.set_before(move |asked, name| {
            if asked == Asked::Put && name.starts_with(folder) {
                puts += 1;
                if puts == nth {
                    storage.inject_here(Fault::kill_after(1));
                }
            }
        });
        try_prune(&store, &everything()).unwrap_err();
        assert!(dying.storage.is_gone(), "{folder}");
        dying.watched.clear_before();
        drop(store);
        play.record(policies(), every(5));
        play.prune(&everything());
        play.verify_all();
    }
}

/// One power cut after another, each in the prune that would mend the state after the one before.
#[test]
fn prunes_that_crash_again_and_again() {
    for seed in 0..if is_long() { 60 } else { 3 } {
        let play = Play::new(6 + seed);
        let ids = play.fill();
        let mut machine = play.process.storage.clone();
        for (round, id) in (0u64..).zip(&ids[..4]) {
            for cut in 0..4 {
                let when = format!("seed {seed}, backup {id}, cut {cut}");
                let process =
                    Process::on(machine.handle(), play.process.clock.clone(), seed * 100 + round).striding();
                let store = process.open();
                if cut == 0 {
                    forget(&store, *id);
                    play.told().kept.remove(id);
                }
                let n = 1 + (seed * 31 + round * 17 + cut * 23) % 60;
                let fault = if cut % 2 == 0 {
                    Fault::stop(n)
                } else {
                    Fault::tear(1 + n / 3)
                };
                process.storage.inject(fault);
                let done = try_prune(&store, &everything());
                machine.clear_faults();
                if process.storage.is_gone() {
                    machine = process
                        .storage
                        .crash(CrashPolicy::Seeded(seed * 1000 + round * 10 + cut));
                } else if done.is_err() {
                    let told = play.told().clone();
                    play.prune_as_told(&process.open(), &told, &when);
                }
                let process = Process::on(machine.handle(), play.process.clock.clone(), 7).striding();
                let told = play.told().clone();
                play.assert_restores(&process.open(), &told, &when);
            }
        }
        let told = play.told().clone();
        let when = format!("seed {seed}, at the end");
        play.verify(&Image { machine, told, when });
    }
}
