//! Larger bounds, run by hand; `docs/protocol-model.md` has the states explored.

use super::by_session;
use crate::properties::Witness;
use crate::scenario::{Backup, Scenario};
use crate::slots::{Numbers, Slots};
use crate::state::Budget;

const D0: Slots = Slots::data(0);
const D1: Slots = Slots::data(1);
const N0: Slots = Slots::node(0);
const N1: Slots = Slots::node(1);
const N2: Slots = Slots::node(2);
const NONE: Slots = Slots::NONE;

const fn numbers(a: usize, b: usize) -> Numbers {
    Numbers::one(a).with(Numbers::one(b))
}

/// Scenarios that take minutes.
pub(super) fn large() -> Vec<Scenario> {
    vec![
        two_epochs(),
        three_epochs(),
        three_epochs_two_reclaimers(),
        two_epochs_everything(),
        two_epochs_everything_two_reclaimers(),
        two_epochs_power_two_reclaimers(),
        two_epochs_parents(),
        two_epochs_adoption(),
        two_epochs_nodes(),
        two_epochs_nodes_two_reclaimers(),
        two_epochs_adoption_two_reclaimers(),
        two_epochs_parents_two_reclaimers(),
        two_epochs_marks(),
        chain_two_epochs(),
        two_epochs_power(),
    ]
}

/// Two sessions, two reclaimers, two epochs: data alone, slow look-ups, slots left in place,
/// restarts.
pub(super) fn two_epochs() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, D1, NONE, NONE]),
        running: numbers(1, 2),
        look_up: by_session([NONE, D0, D0.with(D1), NONE]),
        slow_look_ups: true,
        forget: numbers(0, 1),
        plain_roots: true,
        stay: D0.with(D1),
        reclaimers: 2,
        epochs: 2,
        drop_epochs: true,
        witnesses: vec![
            Witness::Commit,
            Witness::Expiry,
            Witness::TwoRemovals,
            Witness::LeftInPlace,
            Witness::TwoReclaimers,
            Witness::ForgottenUncovered,
        ],
        ..Scenario::new(
            "two-epochs",
            "two sessions, two reclaimers, two epochs, data alone",
        )
    }
}

/// The same over three epochs, with one reclaimer that may restart.
pub(super) fn three_epochs() -> Scenario {
    Scenario {
        name: "three-epochs",
        about: "two sessions, three epochs, a reclaimer that restarts",
        reclaimers: 1,
        epochs: 3,
        slow_look_ups: false,
        budget: Budget {
            restarts: 1,
            ..Budget::default()
        },
        witnesses: vec![
            Witness::Commit,
            Witness::Expiry,
            Witness::TwoRemovals,
            Witness::LeftInPlace,
        ],
        ..two_epochs()
    }
}

/// Two sessions that splice from a parent or look up, over two epochs.
pub(super) fn two_epochs_parents() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(N0, N0)],
        refs: [D0, NONE, NONE, NONE],
        owns: by_session([D0.with(N0), N1, NONE, NONE]),
        running: numbers(1, 2),
        look_up: by_session([NONE, D0, N0.with(N1), NONE]),
        parents: by_session([Numbers::NONE, Numbers::one(0), numbers(0, 1), Numbers::NONE]),
        rewrite: by_session([Some(D1), None, None, None]),
        forget: numbers(0, 1),
        stay: N0,
        epochs: 2,
        judges_leaks: false,
        witnesses: vec![
            Witness::Commit,
            Witness::Expiry,
            Witness::TwoRemovals,
            Witness::LeftInPlace,
            Witness::ForgottenParentUsed,
        ],
        ..Scenario::new("two-epochs-parents", "two sessions with parents, two epochs")
    }
}

/// Session 2 adopts session 1 over two epochs, with nodes of both.
pub(super) fn two_epochs_adoption() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, N0, N1, NONE]),
        running: numbers(1, 2),
        look_up: by_session([NONE, D0, D0, NONE]),
        adopts: by_session([Numbers::NONE, Numbers::NONE, Numbers::one(1), Numbers::NONE]),
        forget: numbers(0, 2),
        stay: D0,
        zombies: true,
        epochs: 2,
        witnesses: vec![
            Witness::Commit,
            Witness::AdoptionCommits,
            Witness::Expiry,
            Witness::TwoRemovals,
            Witness::LeftInPlace,
        ],
        ..Scenario::new("two-epochs-adoption", "an adoption and two epochs")
    }
}

/// Two sessions with nodes, one of whose nodes the other looks up, over two epochs.
fn two_epochs_nodes() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, N0.with(N1), N2, NONE]),
        running: numbers(1, 2),
        look_up: by_session([NONE, D0, D0.with(N0).with(N1), NONE]),
        forget: numbers(0, 1),
        stay: D0.with(N0),
        epochs: 2,
        drop_epochs: true,
        drop_manifests: true,
        judges_leaks: false,
        witnesses: vec![
            Witness::Commit,
            Witness::Expiry,
            Witness::TwoRemovals,
            Witness::LeftInPlace,
            Witness::ForgottenUncovered,
        ],
        ..Scenario::new("two-epochs-nodes", "two sessions with nodes, two epochs")
    }
}

/// The same with two reclaimers, a node for each session, and manifests that are not dropped.
fn two_epochs_nodes_two_reclaimers() -> Scenario {
    Scenario {
        name: "two-epochs-nodes-two-reclaimers",
        about: "two sessions with nodes, two reclaimers, two epochs",
        owns: by_session([D0, N0, N2, NONE]),
        reclaimers: 2,
        drop_manifests: false,
        ..two_epochs_nodes()
    }
}

/// Marks are extended and lost, reclaimers restart, two epochs.
pub(super) fn two_epochs_marks() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, N0, N1, NONE]),
        running: numbers(1, 2),
        look_up: by_session([NONE, D0, D0.with(N0), NONE]),
        forget: numbers(0, 1),
        extend_marks: true,
        stay: D0,
        epochs: 2,
        budget: Budget {
            restarts: 1,
            marks_losses: 1,
            ..Budget::default()
        },
        witnesses: vec![
            Witness::Commit,
            Witness::Expiry,
            Witness::TwoRemovals,
            Witness::LeftInPlace,
        ],
        ..Scenario::new("two-epochs-marks", "marks are extended and lost over two epochs")
    }
}

/// A chain of three sessions over two epochs.
pub(super) fn chain_two_epochs() -> Scenario {
    Scenario {
        name: "chain-two-epochs",
        about: "a chain of adoptions over two epochs",
        look_up: by_session([NONE, D0, D0, NONE]),
        stay: D0,
        epochs: 2,
        zombies: true,
        witnesses: vec![
            Witness::AdoptionCommits,
            Witness::Removal,
            Witness::Expiry,
            Witness::LeftInPlace,
        ],
        ..super::sessions::adoption_chain()
    }
}

/// The power goes once in two epochs with two sessions.
pub(super) fn two_epochs_power() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(N0, N0)],
        refs: [D0, NONE, NONE, NONE],
        owns: by_session([D0.with(N0), D1.with(N1), NONE, NONE]),
        running: numbers(1, 2),
        look_up: by_session([NONE, D0, N0.with(D1).with(N1), NONE]),
        full_nodes: true,
        forget: numbers(0, 1),
        stay: N0,
        epochs: 2,
        judges_leaks: false,
        budget: Budget {
            power_cuts: 1,
            ..Budget::default()
        },
        witnesses: vec![
            Witness::Commit,
            Witness::Expiry,
            Witness::TwoRemovals,
            Witness::LeftInPlace,
            Witness::PowerCut,
        ],
        ..Scenario::new("two-epochs-power", "a power cut, two sessions, two epochs")
    }
}

/// An adoption over two epochs with two reclaimers and epochs that are dropped.
fn two_epochs_adoption_two_reclaimers() -> Scenario {
    Scenario {
        name: "two-epochs-adoption-two-reclaimers",
        about: "an adoption, two reclaimers, two epochs",
        reclaimers: 2,
        drop_epochs: true,
        ..two_epochs_adoption()
    }
}

/// Parents over two epochs with two reclaimers.
fn two_epochs_parents_two_reclaimers() -> Scenario {
    Scenario {
        name: "two-epochs-parents-two-reclaimers",
        about: "two sessions with parents, two reclaimers, two epochs",
        owns: by_session([D0.with(N0), NONE, NONE, NONE]),
        look_up: by_session([NONE, N0, D0, NONE]),
        parents: by_session([Numbers::NONE, Numbers::one(0), Numbers::one(0), Numbers::NONE]),
        plain_roots: true,
        reclaimers: 2,
        ..two_epochs_parents()
    }
}

/// Three epochs with two reclaimers.
fn three_epochs_two_reclaimers() -> Scenario {
    Scenario {
        name: "three-epochs-two-reclaimers",
        about: "two sessions, two reclaimers, three epochs",
        owns: by_session([D0, NONE, NONE, NONE]),
        look_up: by_session([NONE, D0, D0, NONE]),
        stay: D0,
        reclaimers: 2,
        epochs: 3,
        slow_look_ups: false,
        witnesses: vec![
            Witness::Commit,
            Witness::Expiry,
            Witness::Removal,
            Witness::LeftInPlace,
        ],
        ..two_epochs()
    }
}

/// Look-ups, nodes, a parent, an adoption, late processes, extended marks and dropped epochs
/// together.
fn two_epochs_everything() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(N0, N0)],
        refs: [D0, NONE, NONE, NONE],
        owns: by_session([D0.with(N0), N1, N2, NONE]),
        running: numbers(1, 2),
        look_up: by_session([NONE, D0, N0.with(N1), NONE]),
        parents: by_session([Numbers::NONE, Numbers::NONE, Numbers::one(0), Numbers::NONE]),
        adopts: by_session([Numbers::NONE, Numbers::NONE, Numbers::one(1), Numbers::NONE]),
        forget: numbers(0, 1),
        stay: N0,
        zombies: true,
        extend_marks: true,
        slow_marks: true,
        drop_epochs: true,
        drop_manifests: true,
        epochs: 2,
        witnesses: vec![
            Witness::Commit,
            Witness::AdoptionCommits,
            Witness::Expiry,
            Witness::TwoRemovals,
            Witness::LeftInPlace,
            Witness::ForgottenParentUsed,
            Witness::ForgottenUncovered,
        ],
        ..Scenario::new(
            "two-epochs-everything",
            "two sessions, two epochs, all that sessions do",
        )
    }
}

/// A power cut with two reclaimers.
fn two_epochs_power_two_reclaimers() -> Scenario {
    Scenario {
        name: "two-epochs-power-two-reclaimers",
        about: "a power cut, two sessions, two reclaimers, two epochs",
        owns: by_session([D0.with(N0), D1, NONE, NONE]),
        look_up: by_session([NONE, D0, N0.with(D1), NONE]),
        plain_roots: true,
        reclaimers: 2,
        ..two_epochs_power()
    }
}

/// The same with two reclaimers, less what belongs to marks alone.
fn two_epochs_everything_two_reclaimers() -> Scenario {
    Scenario {
        name: "two-epochs-everything-two-reclaimers",
        about: "two sessions, two reclaimers, two epochs, all that sessions do",
        owns: by_session([D0.with(N0), N1, NONE, NONE]),
        reclaimers: 2,
        extend_marks: false,
        slow_marks: false,
        ..two_epochs_everything()
    }
}
