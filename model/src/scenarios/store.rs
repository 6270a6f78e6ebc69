//! The store itself: the index, late puts, dropped objects, power cuts.

use super::{by_session, numbers};
use crate::properties::Witness;
use crate::scenario::{Backup, Scenario};
use crate::slots::{Numbers, Slots};
use crate::state::Budget;

const D0: Slots = Slots::data(0);
const N0: Slots = Slots::node(0);
const N1: Slots = Slots::node(1);
const NONE: Slots = Slots::NONE;

/// Nodes of a session that never commits, under an index that is rebuilt.
pub(super) fn hooks() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, N0, NONE, NONE]),
        running: numbers(&[1, 2]),
        look_up: by_session([NONE, D0, N0, NONE]),
        forget: numbers(&[0]),
        rebuild: true,
        epochs: 2,
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::Expiry],
        ..Scenario::new(
            "hooks",
            "nodes of a session that may never commit, and an index rebuild",
        )
    }
}

/// A put is repeated long after its slot was removed and its epoch dropped.
pub(super) fn late_writer() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, N0, NONE, NONE]),
        running: numbers(&[1]),
        look_up: by_session([NONE, D0, NONE, NONE]),
        forget: numbers(&[0, 1]),
        drop_epochs: true,
        epochs: 2,
        judges_leaks: false,
        budget: Budget {
            late_writes: 1,
            ..Budget::default()
        },
        witnesses: vec![Witness::Commit, Witness::Removal],
        ..Scenario::new("late-writer", "a put is repeated after its slot was removed")
    }
}

/// A forgotten manifest is dropped while another session uses its nodes.
pub(super) fn dropped_manifests() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, N0, NONE, NONE]),
        running: numbers(&[1, 2]),
        look_up: by_session([NONE, D0, N0, NONE]),
        forget: numbers(&[0, 1]),
        drop_manifests: true,
        epochs: 2,
        judges_leaks: false,
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::ForgottenUncovered],
        ..Scenario::new("dropped-manifests", "forgotten manifests are dropped")
    }
}

/// An expired or adopted session wakes.
pub(super) fn dropped_endings() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, NONE, NONE, NONE]),
        running: numbers(&[1, 2]),
        look_up: by_session([NONE, D0, NONE, NONE]),
        adopts: by_session([Numbers::NONE, Numbers::NONE, numbers(&[1]), Numbers::NONE]),
        forget: numbers(&[0]),
        drop_endings: true,
        plain_roots: true,
        witnesses: vec![
            Witness::Commit,
            Witness::AdoptionCommits,
            Witness::Removal,
            Witness::Expiry,
        ],
        ..Scenario::new("dropped-endings", "an expired or adopted session wakes")
    }
}

/// A session refers to what another has put and not yet made durable; the power goes.
pub(super) fn power_cut_nodes() -> Scenario {
    Scenario {
        owns: by_session([NONE, D0.with(N0), N1, NONE]),
        running: numbers(&[1, 2]),
        look_up: by_session([NONE, NONE, D0.with(N0), NONE]),
        full_nodes: true,
        budget: Budget {
            power_cuts: 1,
            ..Budget::default()
        },
        epochs: 0,
        witnesses: vec![Witness::Commit, Witness::PowerCut],
        ..Scenario::new(
            "power-cut-nodes",
            "a commit refers to what another has not made durable",
        )
    }
}

/// The power goes while a forgotten backup is being removed.
pub(super) fn power_cut_reclaim() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(N0, N0)],
        refs: [D0, NONE, NONE, NONE],
        owns: by_session([D0.with(N0), N1, NONE, NONE]),
        running: numbers(&[1]),
        look_up: by_session([NONE, D0.with(N0), NONE, NONE]),
        forget: numbers(&[0]),
        reclaimers: 2,
        budget: Budget {
            power_cuts: 1,
            ..Budget::default()
        },
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::PowerCut],
        ..Scenario::new("power-cut-reclaim", "the power goes while an epoch removes")
    }
}

/// Catalogs cached before an epoch that has been dropped since, of a container that was compacted.
pub(super) fn old_caches() -> Scenario {
    Scenario {
        backups: vec![Backup::covered(D0, NONE)],
        owns: by_session([D0, NONE, NONE, NONE]),
        running: numbers(&[1]),
        look_up: by_session([NONE, D0, NONE, NONE]),
        compacted: D0,
        cached: D0,
        forget: numbers(&[0]),
        drop_epochs: true,
        plain_roots: true,
        stay: D0,
        epochs: 2,
        witnesses: vec![Witness::Commit, Witness::Removal, Witness::LeftInPlace],
        ..Scenario::new("old-caches", "a session begins with catalogs cached long ago")
    }
}

/// The same with data alone.
pub(super) fn power_cut() -> Scenario {
    Scenario {
        name: "power-cut",
        about: "a commit refers to data that another has not made durable",
        plain_roots: true,
        ..power_cut_nodes()
    }
}
