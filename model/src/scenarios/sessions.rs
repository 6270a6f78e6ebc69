//! Sessions beside one epoch or two: look-ups, commits, adoption, parents.

use super::{by_session, numbers};
use crate::properties::Witness;
use crate::scenario::{Backup, Scenario};
use crate::slots::{Numbers, Slots};

const D0: Slots = Slots::data(0);
const D1: Slots = Slots::data(1);
const N0: Slots = Slots::node(0);
const N1: Slots = Slots::node(1);
const NONE: Slots = Slots::NONE;

/// One old backup whose one slot two sessions look up, in two steps, while it is forgotten and
/// reclaimed.
pub(super) fn look_ups() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, NONE, NONE, NONE]),
        running: numbers(&[1, 2]),
        look_up: by_session([NONE, D0, D0, NONE]),
        slow_look_ups: true,
        forget: numbers(&[0]),
        plain_roots: true,
        stay: D0,
        reclaimers: 2,
        witnesses: vec![
            Witness::Commit,
            Witness::Removal,
            Witness::Expiry,
            Witness::LeftInPlace,
            Witness::TwoReclaimers,
        ],
        ..Scenario::new("look-ups", "two sessions look up a slot that is being reclaimed")
    }
}

/// A session commits while an epoch is open, with a node that its backup does not reach.
pub(super) fn uncovered() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, D1.with(N0).with(N1), NONE, NONE]),
        running: numbers(&[1]),
        look_up: by_session([NONE, D0, NONE, NONE]),
        forget: numbers(&[0, 1]),
        epochs: 2,
        witnesses: vec![
            Witness::Commit,
            Witness::Removal,
            Witness::TwoRemovals,
            Witness::Expiry,
            Witness::ForgottenUncovered,
        ],
        ..Scenario::new(
            "uncovered",
            "a commit that no marks cover, forgotten at once, with an unreached node",
        )
    }
}

/// Session 2 adopts session 1, writes a node of its own, and commits either's nodes.
pub(super) fn adoption() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, N0, D1.with(N1), NONE]),
        running: numbers(&[1, 2]),
        look_up: by_session([NONE, D0, NONE, NONE]),
        adopts: by_session([Numbers::NONE, Numbers::NONE, numbers(&[1]), Numbers::NONE]),
        forget: numbers(&[0]),
        witnesses: vec![
            Witness::Commit,
            Witness::AdoptionCommits,
            Witness::Removal,
            Witness::Expiry,
        ],
        ..Scenario::new("adoption", "a session adopts another while an epoch is open")
    }
}

/// The same, for what look-ups return of what the adopted session wrote, and not for what leaks.
pub(super) fn adopted_containers() -> Scenario {
    Scenario {
        name: "adopted-containers",
        about: "an adopted session's node is left behind by its adopter's backup",
        judges_leaks: false,
        ..adoption()
    }
}

/// Session 3 adopts session 2, which has adopted session 1 and has not said so in a checkpoint.
pub(super) fn adoption_chain() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, NONE, NONE, NONE]),
        running: numbers(&[1, 2, 3]),
        look_up: by_session([NONE, D0, NONE, NONE]),
        adopts: by_session([Numbers::NONE, Numbers::NONE, numbers(&[1]), numbers(&[2])]),
        forget: numbers(&[0]),
        plain_roots: true,
        witnesses: vec![Witness::AdoptionCommits, Witness::Removal],
        ..Scenario::new("adoption-chain", "an adopter is itself adopted")
    }
}

/// Two sessions that would adopt each other.
pub(super) fn mutual_adoption() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, NONE, NONE, NONE]),
        running: numbers(&[1, 2]),
        look_up: by_session([NONE, D0, D0, NONE]),
        adopts: by_session([Numbers::NONE, numbers(&[2]), numbers(&[1]), Numbers::NONE]),
        plain_roots: true,
        zombies: true,
        witnesses: vec![Witness::AdoptionCommits],
        ..Scenario::new("mutual-adoption", "two sessions each hold the other for dead")
    }
}

/// Sessions splice from a parent that is forgotten or rewritten meanwhile.
pub(super) fn parents() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(N0, N0)],
        refs: [D0, NONE, NONE, NONE],
        owns: by_session([D0.with(N0), NONE, NONE, NONE]),
        running: numbers(&[1, 2]),
        parents: by_session([Numbers::NONE, numbers(&[0]), numbers(&[0]), Numbers::NONE]),
        rewrite: by_session([Some(D1), None, None, None]),
        forget: numbers(&[0]),
        plain_roots: true,
        judges_leaks: false,
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::ForgottenParentUsed],
        ..Scenario::new("parents", "splices from a parent that is forgotten or rewritten")
    }
}

/// A session rewrites backup 0 with what only backup 1 reaches, which is forgotten; then it is
/// expired.
pub(super) fn rewriting() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE), Backup::covered(D1, NONE)],
        owns: by_session([D0, D1, NONE, NONE]),
        running: numbers(&[2]),
        parents: by_session([Numbers::NONE, Numbers::NONE, numbers(&[1]), Numbers::NONE]),
        rewrite: by_session([Some(D1), None, None, None]),
        rewriter: Some(2),
        forget: numbers(&[1, 2]),
        slow_marks: true,
        plain_roots: true,
        reclaimers: 2,
        epochs: 2,
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::Expiry],
        ..Scenario::new(
            "rewriting",
            "a session rewrites a backup, and may be expired before it publishes",
        )
    }
}

/// An old checkpoint names what the newest does not, and it is the old one that is adopted.
pub(super) fn releases() -> Scenario {
    Scenario {
        name: "releases",
        about: "a session gives up a reference that an older checkpoint of its names",
        owns: by_session([D0, NONE, NONE, NONE]),
        plain_roots: true,
        releases: true,
        ..adoption()
    }
}

/// An adoption and the adopter's commit fall between two parts of a listing.
pub(super) fn slow_listing() -> Scenario {
    Scenario {
        name: "slow-listing",
        about: "manifests are listed in two steps while an adoption commits",
        owns: by_session([D0, NONE, NONE, NONE]),
        plain_roots: true,
        slow_decisions: true,
        ..adoption()
    }
}
