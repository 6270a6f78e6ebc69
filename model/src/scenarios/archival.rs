//! Backups that refer forward to later ones, and sessions that make them do so.
//!
//! Contents have numbers: `X` is in several backups, `Y` in the oldest alone, `Z` in the next one
//! alone.

use super::{by_session, numbers};
use crate::archival::{Forward, Task};
use crate::properties::Witness;
use crate::scenario::{Backup, Scenario};
use crate::slots::{Numbers, Slots};
use crate::state::Budget;

const D0: Slots = Slots::data(0);
const D1: Slots = Slots::data(1);
const D2: Slots = Slots::data(2);
const D3: Slots = Slots::data(3);
const N0: Slots = Slots::node(0);
const N1: Slots = Slots::node(1);
const N2: Slots = Slots::node(2);
const N3: Slots = Slots::node(3);
const NONE: Slots = Slots::NONE;
const X: Numbers = Numbers::one(0);
const Y: Numbers = Numbers::one(1);
const Z: Numbers = Numbers::one(2);
const XY: Numbers = X.with(Y);
const NOTHING: Numbers = Numbers::NONE;

/// A reference forward to backup `to`, for `X`.
const fn forward(to: u8) -> Option<Forward> {
    Some(Forward { to, contents: X })
}

/// Backup 0 is rewritten to refer forward to backup 1.
const fn optimize() -> Option<Task> {
    Some(Task::Optimize {
        of: 0,
        next: 1,
        keeps: NONE,
    })
}

/// Session 2 rewrites backup 0 against backup 1; both may be forgotten at any time.
pub(super) fn optimizing() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE), Backup::covered(D1, NONE)],
        contents: [XY, X, NOTHING, Y],
        owns: by_session([D0, D1, D3.with(N0)]),
        running: numbers(&[2]),
        tasks: by_session([None, None, optimize()]),
        revisers: 2,
        forget: numbers(&[0, 1]),
        plain_roots: true,
        epochs: 2,
        witnesses: vec![
            Witness::Commit,
            Witness::Expiry,
            Witness::TwoRemovals,
            Witness::OldRootGone,
            Witness::RevisionLost,
            Witness::KeptForNext,
            Witness::AllGone,
        ],
        ..Scenario::new(
            "optimizing",
            "a backup is rewritten to refer forward to a later one",
        )
    }
}

/// Two sessions rewrite the same backup.
pub(super) fn two_optimizers() -> Scenario {
    Scenario {
        contents: [XY, X, Y, Y],
        owns: by_session([D0, D1, D3.with(N0), D2.with(N1)]),
        running: numbers(&[2, 3]),
        tasks: by_session([None, None, optimize(), optimize()]),
        forget: NOTHING,
        epochs: 1,
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::RevisionLost],
        name: "two-optimizers",
        about: "two sessions rewrite the same backup",
        ..optimizing()
    }
}

/// Session 3 rewrites backup 0 against backup 1, and session 4 that against backup 2.
pub(super) fn neighbours() -> Scenario {
    Scenario {
        backups: vec![
            Backup::covered(D0, NONE),
            Backup::covered(D1, NONE),
            Backup::covered(D2, NONE),
        ],
        contents: [XY, X, X, Y],
        owns: by_session([D0, D1, D2, D3.with(N0), N1]),
        running: numbers(&[3, 4]),
        tasks: by_session([
            None,
            None,
            None,
            optimize(),
            Some(Task::Optimize {
                of: 1,
                next: 2,
                keeps: NONE,
            }),
        ]),
        revisers: 1,
        forget: numbers(&[1]),
        epochs: 1,
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::KeptForNext],
        name: "neighbours",
        about: "a backup is rewritten, and the one that it is to refer forward to",
        ..optimizing()
    }
}

/// The same, when the later two are forgotten and their manifests dropped.
pub(super) fn neighbours_dropped() -> Scenario {
    Scenario {
        forget: numbers(&[1, 2]),
        drop_manifests: true,
        name: "neighbours-dropped",
        about: "the same, and manifests of the later two are dropped",
        ..neighbours()
    }
}

/// Backup 0 refers forward to backup 1, which session 3 rewrites against backup 2, while session 4
/// reads backup 0.
pub(super) fn archival_chain() -> Scenario {
    Scenario {
        backups: vec![
            Backup::covered(N0, N0),
            Backup::covered(D1, NONE),
            Backup::covered(D2, NONE),
        ],
        refs: [D3, NONE, NONE, NONE],
        forwards: [forward(1), None, None, None],
        contents: [NOTHING, X, X, Y],
        owns: by_session([D3.with(N0), D1, D2, N1]),
        running: numbers(&[3, 4]),
        tasks: by_session([
            None,
            None,
            None,
            Some(Task::Optimize {
                of: 1,
                next: 2,
                keeps: NONE,
            }),
            Some(Task::Read { of: 0 }),
        ]),
        revisers: 1,
        forget: numbers(&[0, 1, 2]),
        plain_roots: true,
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::KeptForNext],
        ..Scenario::new(
            "archival-chain",
            "what a backup refers forward to is rewritten while it is read",
        )
    }
}

/// Backup 0 refers forward to backup 1, which may be forgotten: then session 2 makes its references
/// direct.
pub(super) fn forgotten_middle() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(N0, N0), Backup::covered(D0.with(D1), NONE)],
        refs: [D3, NONE, NONE, NONE],
        forwards: [forward(1), None, None, None],
        contents: [Z, X, NOTHING, Y],
        owns: by_session([D3.with(N0), D1.with(D0), N1]),
        running: numbers(&[2, 3]),
        tasks: by_session([
            None,
            None,
            Some(Task::MakeDirect { of: 0 }),
            Some(Task::Read { of: 0 }),
        ]),
        revisers: 2,
        forget: numbers(&[0, 1]),
        plain_roots: true,
        epochs: 2,
        drop_manifests: true,
        witnesses: vec![
            Witness::Commit,
            Witness::TwoRemovals,
            Witness::KeptForNext,
            Witness::MadeDirect,
            Witness::AllGone,
        ],
        ..Scenario::new(
            "forgotten-middle",
            "what a backup refers forward to is forgotten, and its references are made direct",
        )
    }
}

/// A chain of three, of which the later two may be forgotten: the first is made to refer past the
/// second, then direct.
pub(super) fn forgotten_chain() -> Scenario {
    Scenario {
        backups: vec![
            Backup::covered(N0, N0),
            Backup::covered(N1, N1),
            Backup::covered(D2, NONE),
        ],
        refs: [D3, NONE, NONE, NONE],
        forwards: [forward(1), forward(2), None, None],
        contents: [NOTHING, NOTHING, X, Y],
        owns: by_session([D3.with(N0), N1, D2, N2, N3]),
        running: numbers(&[3, 4]),
        tasks: by_session([
            None,
            None,
            None,
            Some(Task::MakeDirect { of: 0 }),
            Some(Task::MakeDirect { of: 0 }),
        ]),
        revisers: 1,
        forget: numbers(&[0, 1, 2]),
        plain_roots: true,
        witnesses: vec![
            Witness::Commit,
            Witness::Removal,
            Witness::KeptForNext,
            Witness::MadeDirect,
        ],
        ..Scenario::new(
            "forgotten-chain",
            "the later two of a chain of three are forgotten, and the first is made direct",
        )
    }
}

/// As `optimizing`, with forgotten manifests that are dropped; what only backup 0 has stays where
/// it is.
pub(super) fn archival_housekeeping() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0.with(D2), NONE), Backup::covered(D1, NONE)],
        contents: [X, X, Y, NOTHING],
        owns: by_session([D0.with(D2), D1, N0]),
        tasks: by_session([
            None,
            None,
            Some(Task::Optimize {
                of: 0,
                next: 1,
                keeps: D2,
            }),
        ]),
        drop_manifests: true,
        name: "archival-housekeeping",
        about: "the same in place, and forgotten manifests are dropped",
        ..optimizing()
    }
}

/// A session looks nodes up, and would commit one that refers forward.
pub(super) fn archival_look_ups() -> Scenario {
    Scenario {
        running: numbers(&[2, 3]),
        look_up: by_session([NONE, NONE, NONE, N0]),
        revisers: 1,
        judges_leaks: false,
        witnesses: vec![Witness::Commit, Witness::TwoRemovals, Witness::OldRootGone],
        name: "archival-look-ups",
        about: "a session looks up nodes while a backup is rewritten",
        ..optimizing()
    }
}

/// The manifests from which an epoch is computed are listed in two steps, that of the rewritten
/// backup first.
pub(super) fn archival_marks() -> Scenario {
    Scenario {
        slow_marks: true,
        reclaimers: 2,
        revisers: 1,
        epochs: 1,
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::OldRootGone],
        name: "archival-marks",
        about: "manifests are listed for marks in two steps while a backup is rewritten",
        ..optimizing()
    }
}

/// The manifests from which an epoch is decided are listed in two steps, that of the rewriting
/// session first.
pub(super) fn archival_decisions() -> Scenario {
    Scenario {
        slow_marks: false,
        slow_decisions: true,
        name: "archival-decisions",
        about: "manifests are listed for the decision in two steps while a backup is rewritten",
        ..archival_marks()
    }
}

/// The same, by a reclaimer that lists manifests once where it has been alone.
pub(super) fn archival_alone() -> Scenario {
    Scenario {
        hands_on: true,
        reclaimers: 1,
        epochs: 2,
        forget: numbers(&[1]),
        name: "archival-alone",
        about: "manifests are listed once, in two steps, while a rewritten backup is published",
        ..archival_marks()
    }
}

/// The backup gets tags meanwhile.
pub(super) fn archival_tags() -> Scenario {
    Scenario {
        tags: numbers(&[0]),
        name: "archival-tags",
        about: "a backup gets tags while it is rewritten",
        ..optimizing()
    }
}

/// The storage does not give the revision that has been published.
pub(super) fn archival_unread() -> Scenario {
    Scenario {
        unread: true,
        tags: numbers(&[0]),
        revisers: 1,
        epochs: 1,
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::OldRootGone],
        name: "archival-unread",
        about: "a revision that has been published cannot be read",
        ..optimizing()
    }
}

/// A session takes over from a parent that refers forward.
pub(super) fn archival_parents() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(N0, N0), Backup::covered(D1, NONE)],
        refs: [D3, NONE, NONE, NONE],
        forwards: [forward(1), None, None, None],
        contents: [NOTHING, X, NOTHING, Y],
        owns: by_session([D3.with(N0), D1]),
        running: numbers(&[2]),
        parents: by_session([NOTHING, NOTHING, numbers(&[0])]),
        forget: numbers(&[0, 1]),
        plain_roots: true,
        reclaimers: 2,
        epochs: 2,
        witnesses: vec![Witness::Commit, Witness::TwoRemovals, Witness::KeptForNext],
        ..Scenario::new(
            "archival-parents",
            "a session takes over from a parent that refers forward",
        )
    }
}

/// The power goes while a backup is rewritten.
pub(super) fn archival_power() -> Scenario {
    Scenario {
        epochs: 1,
        budget: Budget {
            power_cuts: 1,
            ..Budget::default()
        },
        witnesses: vec![
            Witness::Commit,
            Witness::Removal,
            Witness::OldRootGone,
            Witness::PowerCut,
        ],
        name: "archival-power",
        about: "the power goes while a backup is rewritten",
        ..optimizing()
    }
}

/// The same, against a backup that has only just been committed.
pub(super) fn archival_power_fresh() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        running: numbers(&[1, 2]),
        name: "archival-power-fresh",
        about: "the power goes while a backup is rewritten against one that has just been committed",
        ..archival_power()
    }
}

/// The power goes while references forward to a forgotten backup are made direct.
pub(super) fn archival_power_middle() -> Scenario {
    Scenario {
        running: numbers(&[2]),
        drop_manifests: false,
        epochs: 1,
        budget: Budget {
            power_cuts: 1,
            ..Budget::default()
        },
        witnesses: vec![
            Witness::Commit,
            Witness::Removal,
            Witness::MadeDirect,
            Witness::PowerCut,
        ],
        name: "archival-power-middle",
        about: "the power goes while references forward are made direct",
        ..forgotten_middle()
    }
}
