//! Marks, epochs and reclaimers: what stays in place, who finishes what, which numbers are taken.

use super::{by_session, numbers};
use crate::properties::Witness;
use crate::scenario::{Backup, Scenario};
use crate::slots::{Numbers, Slots};
use crate::state::Budget;

const D0: Slots = Slots::data(0);
const D1: Slots = Slots::data(1);
const D2: Slots = Slots::data(2);
const N0: Slots = Slots::node(0);
const N1: Slots = Slots::node(1);
const NONE: Slots = Slots::NONE;

/// A dead node stays in place in the first epoch; in the second its data's container loses another
/// bit.
pub(super) fn leftovers() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(N0, N0), Backup::covered(D1, NONE)],
        refs: [D0, NONE, NONE, NONE],
        owns: by_session([D0.with(N0), D1, NONE, NONE]),
        containers: vec![D0.with(D1)],
        running: numbers(&[2]),
        look_up: by_session([NONE, NONE, N0, NONE]),
        forget: numbers(&[0, 1]),
        stay: N0,
        plain_roots: true,
        reclaimers: 2,
        epochs: 2,
        judges_leaks: false,
        witnesses: vec![Witness::Commit, Witness::TwoRemovals, Witness::LeftInPlace],
        ..Scenario::new("leftovers", "a dead node stays in place over two epochs")
    }
}

/// Marks are extended while an epoch is open, and its reclaimer may be another than the one that
/// began.
pub(super) fn marks() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, NONE, NONE, NONE]),
        running: numbers(&[1, 2]),
        look_up: by_session([NONE, D0, D0, NONE]),
        forget: numbers(&[0]),
        extend_marks: true,
        plain_roots: true,
        reclaimers: 2,
        budget: Budget {
            restarts: 1,
            ..Budget::default()
        },
        witnesses: vec![Witness::Commit, Witness::Removal],
        ..Scenario::new("marks", "marks are extended while an epoch is open")
    }
}

/// A backup's first mark happens outside an epoch; what it does not reach must still be swept.
pub(super) fn first_marks() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, D1.with(N0).with(N1), NONE, NONE]),
        running: numbers(&[1]),
        look_up: by_session([NONE, D0, NONE, NONE]),
        forget: numbers(&[0]),
        extend_marks: true,
        witnesses: vec![Witness::Commit, Witness::Removal],
        ..Scenario::new(
            "first-marks",
            "marks are extended by a backup with an unreached node",
        )
    }
}

/// A second backup is forgotten between an epoch's marks and their publication.
pub(super) fn exact_marks() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE), Backup::covered(N0, N0)],
        refs: [D1, NONE, NONE, NONE],
        owns: by_session([D0.with(D2), N0.with(D1), NONE, NONE]),
        containers: vec![D0.with(D1)],
        running: numbers(&[2]),
        look_up: by_session([NONE, NONE, D0.with(N0), NONE]),
        forget: numbers(&[0, 1]),
        plain_roots: true,
        epochs: 2,
        reclaimers: 2,
        judges_leaks: false,
        budget: Budget {
            restarts: 1,
            ..Budget::default()
        },
        witnesses: vec![Witness::Commit, Witness::TwoRemovals],
        ..Scenario::new(
            "exact-marks",
            "a backup is forgotten between marks and their publication",
        )
    }
}

/// Epochs are dropped while a session that answered them runs on.
pub(super) fn epoch_numbers() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE), Backup::covered(D1, NONE)],
        owns: by_session([D0, D1, NONE, NONE]),
        containers: vec![D0.with(D1)],
        running: numbers(&[2]),
        look_up: by_session([NONE, NONE, D0, NONE]),
        forget: numbers(&[0, 1]),
        drop_epochs: true,
        stay: D0,
        plain_roots: true,
        epochs: 2,
        judges_leaks: false,
        witnesses: vec![Witness::Commit, Witness::LeftInPlace],
        ..Scenario::new(
            "epoch-numbers",
            "epochs are dropped while a session that answered them runs",
        )
    }
}

/// A reclaimer sleeps through two epochs of another, and goes on.
pub(super) fn stale_reclaimer() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, NONE, NONE, NONE]),
        running: numbers(&[1]),
        look_up: by_session([NONE, D0, NONE, NONE]),
        forget: numbers(&[0]),
        drop_epochs: true,
        stay: D0,
        plain_roots: true,
        reclaimers: 2,
        epochs: 2,
        judges_leaks: false,
        witnesses: vec![
            Witness::Commit,
            Witness::Removal,
            Witness::LeftInPlace,
            Witness::TwoReclaimers,
        ],
        ..Scenario::new(
            "stale-reclaimer",
            "a reclaimer sleeps through two epochs of another",
        )
    }
}

/// The same, with a lease.
pub(super) fn leases() -> Scenario {
    Scenario {
        claims: 3,
        name: "leases",
        about: "the same under a lease",
        ..stale_reclaimer()
    }
}

/// The marks of a backup are lost, which alone reached a node of another session's.
pub(super) fn missing_marks() -> Scenario {
    Scenario {
        backups: vec![
            Backup::covered(D0.with(N0), NONE),
            Backup::covered(N1, N0.with(N1)),
        ],
        refs: [D0, D1, NONE, NONE],
        owns: by_session([D0, D1.with(N0).with(N1), NONE, NONE]),
        running: numbers(&[2]),
        look_up: by_session([NONE, NONE, N0, NONE]),
        forget: numbers(&[0, 1]),
        plain_roots: true,
        budget: Budget {
            marks_losses: 1,
            ..Budget::default()
        },
        epochs: 2,
        judges_leaks: false,
        witnesses: vec![Witness::Commit, Witness::Removal],
        ..Scenario::new(
            "missing-marks",
            "the marks of a group are lost before its backup is forgotten",
        )
    }
}

/// A session that has been adopted, or expired, and does not know it, goes on writing.
pub(super) fn late_puts() -> Scenario {
    Scenario {
        owns: by_session([NONE, D0.with(N0), D1, NONE]),
        running: numbers(&[1, 2]),
        adopts: by_session([Numbers::NONE, Numbers::NONE, numbers(&[1]), Numbers::NONE]),
        forget: numbers(&[2]),
        plain_roots: true,
        zombies: true,
        epochs: 2,
        witnesses: vec![Witness::AdoptionCommits, Witness::Removal, Witness::Expiry],
        ..Scenario::new(
            "late-puts",
            "an ended session that does not know it goes on writing",
        )
    }
}
