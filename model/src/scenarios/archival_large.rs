//! Larger bounds of backups that refer forward.

use super::archival::{forgotten_chain, forgotten_middle, neighbours, optimizing};
use super::{by_session, numbers};
use crate::archival::Task;
use crate::properties::Witness;
use crate::scenario::Scenario;
use crate::slots::Slots;
use crate::state::{Budget, SESSIONS};

const D0: Slots = Slots::data(0);
const D1: Slots = Slots::data(1);
const D2: Slots = Slots::data(2);
const D3: Slots = Slots::data(3);
const N0: Slots = Slots::node(0);
const N1: Slots = Slots::node(1);
const N2: Slots = Slots::node(2);
const NONE: Slots = Slots::NONE;

/// Scenarios that take minutes.
pub(super) fn large() -> Vec<Scenario> {
    vec![
        optimizing_everything(),
        archival_chain_whole(),
        archival_chain_direct(),
        forgotten_chain_two_epochs(),
        forgotten_middle_everything(),
        archival_marks_everything(),
        archival_power_two_epochs(),
    ]
}

/// Backup 0 is rewritten to refer forward to backup 1, and made direct again.
const THERE_AND_BACK: [Option<Task>; SESSIONS] = {
    let mut tasks = [None; SESSIONS];
    tasks[2] = Some(Task::Optimize {
        of: 0,
        next: 1,
        keeps: NONE,
    });
    tasks[3] = Some(Task::MakeDirect { of: 0 });
    tasks
};

/// The tasks of another scenario, and one more.
fn with_task(scenario: Scenario, session: usize, task: Task) -> [Option<Task>; SESSIONS] {
    let mut tasks = scenario.tasks;
    tasks[session] = Some(task);
    tasks
}

/// One rewrites, one looks up what is copied, two reclaim.
fn optimizing_everything() -> Scenario {
    Scenario {
        running: numbers(&[2, 3]),
        look_up: by_session([NONE, NONE, NONE, D3.with(N0)]),
        revisers: 1,
        forget: numbers(&[0, 1, 3]),
        reclaimers: 2,
        stay: D3.with(N0),
        witnesses: vec![
            Witness::Commit,
            Witness::TwoRemovals,
            Witness::OldRootGone,
            Witness::KeptForNext,
            Witness::LeftInPlace,
            Witness::AllGone,
        ],
        name: "optimizing-everything",
        about: "a rewriter, a session that looks up, two reclaimers, two epochs",
        ..optimizing()
    }
}

/// Three backups, each but the last rewritten against the next, while the first is read.
fn archival_chain_whole() -> Scenario {
    Scenario {
        running: numbers(&[3, 4, 5]),
        tasks: with_task(neighbours(), 5, Task::Read { of: 0 }),
        forget: numbers(&[0, 1, 2]),
        epochs: 2,
        drop_manifests: true,
        witnesses: vec![
            Witness::Commit,
            Witness::TwoRemovals,
            Witness::OldRootGone,
            Witness::KeptForNext,
            Witness::AllGone,
        ],
        name: "archival-chain-whole",
        about: "a chain of three comes to be while its first backup is read, two epochs",
        ..neighbours()
    }
}

/// The same, and the first is made direct instead.
fn archival_chain_direct() -> Scenario {
    Scenario {
        owns: by_session([D0, D1, D2, D3.with(N0), N1, N2]),
        tasks: with_task(neighbours(), 5, Task::MakeDirect { of: 0 }),
        witnesses: vec![
            Witness::Commit,
            Witness::TwoRemovals,
            Witness::OldRootGone,
            Witness::MadeDirect,
            Witness::KeptForNext,
            Witness::AllGone,
        ],
        name: "archival-chain-direct",
        about: "a chain of three comes to be, and its first backup is made direct, two epochs",
        ..archival_chain_whole()
    }
}

/// A chain of which the later two are forgotten, over two epochs, with manifests that are dropped
/// and a reader.
fn forgotten_chain_two_epochs() -> Scenario {
    Scenario {
        running: numbers(&[3, 4, 5]),
        tasks: with_task(forgotten_chain(), 5, Task::Read { of: 0 }),
        epochs: 2,
        drop_manifests: true,
        witnesses: vec![
            Witness::Commit,
            Witness::TwoRemovals,
            Witness::KeptForNext,
            Witness::MadeDirect,
            Witness::AllGone,
        ],
        name: "forgotten-chain-two-epochs",
        about: "the later two of a chain are forgotten and dropped, two epochs",
        ..forgotten_chain()
    }
}

/// A backup is made direct while one reads it and another looks up what is written.
fn forgotten_middle_everything() -> Scenario {
    Scenario {
        running: numbers(&[2, 3, 4]),
        look_up: by_session([NONE, NONE, NONE, NONE, D1.with(N1)]),
        revisers: 1,
        name: "forgotten-middle-everything",
        about: "a backup is made direct beside a reader and a session that looks up, two epochs",
        ..forgotten_middle()
    }
}

/// Marks are extended and lost, reclaimers die, epochs and manifests are dropped.
fn archival_marks_everything() -> Scenario {
    Scenario {
        running: numbers(&[2, 3]),
        tasks: THERE_AND_BACK,
        owns: by_session([D0, D1, D3.with(N0), N1]),
        extend_marks: true,
        drop_manifests: true,
        drop_epochs: true,
        slow_marks: true,
        judges_leaks: false,
        budget: Budget {
            restarts: 1,
            marks_losses: 1,
            ..Budget::default()
        },
        witnesses: vec![
            Witness::Commit,
            Witness::TwoRemovals,
            Witness::OldRootGone,
            Witness::KeptForNext,
            Witness::MadeDirect,
        ],
        name: "archival-marks-everything",
        about: "marks are extended and lost while a backup is rewritten twice, two epochs",
        ..optimizing()
    }
}

/// The power goes in two epochs.
fn archival_power_two_epochs() -> Scenario {
    Scenario {
        running: numbers(&[2, 3]),
        tasks: THERE_AND_BACK,
        owns: by_session([D0, D1, D3.with(N0), N1]),
        budget: Budget {
            power_cuts: 1,
            ..Budget::default()
        },
        witnesses: vec![
            Witness::Commit,
            Witness::TwoRemovals,
            Witness::OldRootGone,
            Witness::KeptForNext,
            Witness::MadeDirect,
            Witness::PowerCut,
        ],
        name: "archival-power-two-epochs",
        about: "the power goes while a backup is rewritten twice, two epochs",
        ..optimizing()
    }
}
