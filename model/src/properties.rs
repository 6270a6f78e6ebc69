//! What must hold in every state, and what must happen in some.

use crate::archival::reads_what_is_gone;
use crate::rewriting::{declared, is_void};
use crate::rules::Rules;
use crate::scenario::Scenario;
use crate::session::{absent_view, findable_nodes};
use crate::slots::{NODES, Slots};
use crate::state::{Ending, Phase, SESSIONS, Stage, State};

/// A property that a state can violate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Violation {
    /// INV-1: a visible manifest reaches something that is not durable.
    Inv1VisibleNotDurable,
    /// INV-3: a manifest not forgotten reaches something that is gone.
    Inv3Manifest,
    /// INV-3: a manifest not forgotten refers forward to something that is gone.
    Inv3Forward,
    /// INV-3: a session without an ending refers to something that is gone.
    Inv3Session,
    /// INV-3: an adoption that counts names something that is gone.
    Inv3Adoption,
    /// INV-9: a look-up can return a node that reaches something that is gone.
    Inv9LookUp,
    /// INV-9: a node that a committed manifest names stands in the store and reaches something
    /// gone.
    Inv9Standing,
    /// A session got a second ending.
    SecondEnding,
    /// Adoptions go round in a circle: no session can finish what they name.
    AdoptionCircle,
    /// An epoch begun while no session ran did not condemn all that nothing reaches.
    NotReclaimed,
}

/// Something that must happen in at least one state of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Witness {
    /// A session that ran has committed.
    Commit,
    /// A session that adopted another has committed.
    AdoptionCommits,
    /// A session was expired.
    Expiry,
    /// An epoch has removed something and is finished.
    Removal,
    /// Two epochs have removed something and are finished.
    TwoRemovals,
    /// A session refers to a slot that was condemned and stayed in place.
    LeftInPlace,
    /// A session committed what it took from a parent that was forgotten by then.
    ForgottenParentUsed,
    /// Two reclaimers stand in the same epoch.
    TwoReclaimers,
    /// A commit not covered by an epoch's marks is forgotten before the epoch is decided.
    ForgottenUncovered,
    /// A power cut has happened.
    PowerCut,
    /// A backup refers forward to one that is forgotten, and that a finished epoch's marks have
    /// kept.
    KeptForNext,
    /// A backup that referred forward to one that is forgotten does so no more.
    MadeDirect,
    /// Marks in force let go of what a backup had before it was rewritten.
    OldRootGone,
    /// A revision was published by who found that of a session which had died, or another was
    /// quicker.
    RevisionLost,
    /// Everything is forgotten, and nothing is left.
    AllGone,
}

/// The first property that `state` violates.
#[must_use]
pub fn violation(scenario: &Scenario, rules: Rules, state: &State) -> Option<Violation> {
    manifests(scenario, state)
        .or_else(|| adoptions(scenario, state))
        .or_else(|| sessions(scenario, rules, state))
        .or_else(|| look_ups(rules, state))
        .or_else(|| state.history.ended_twice.then_some(Violation::SecondEnding))
        .or_else(|| state.history.leaked.then_some(Violation::NotReclaimed))
}

fn manifests(scenario: &Scenario, state: &State) -> Option<Violation> {
    for backup in state.commits() {
        let root = scenario.root(state, backup);
        if !state.tombs.has(backup) && !root.within(state.live) {
            // Lost without having been removed: it was never made durable.
            return Some(if root.within(state.live | state.history.listed) {
                Violation::Inv3Manifest
            } else {
                Violation::Inv1VisibleNotDurable
            });
        }
        if !root.within(state.durable | state.history.listed) {
            return Some(Violation::Inv1VisibleNotDurable);
        }
        let is_read = scenario.is_archival() && !state.tombs.has(backup) && !is_void(scenario, state, backup);
        if is_read && !scenario.missing_now(state, backup).is_empty() {
            return Some(Violation::Inv3Forward);
        }
    }
    None
}

fn sessions(scenario: &Scenario, rules: Rules, state: &State) -> Option<Violation> {
    for s in scenario.running.each().filter(|&s| !state.has_ended(s)) {
        let me = &state.sessions[s];
        let mut reached = state.closure(me.held);
        if me.declared {
            reached |= scenario.pinned(state, declared(scenario, rules, s, me.pins));
        }
        if let Some(checkpoint) = state.checkpoints[s] {
            reached |= state.closure(checkpoint.content.refs);
        }
        if !reached.within(state.live) || reads_what_is_gone(scenario, state, s) {
            return Some(Violation::Inv3Session);
        }
    }
    None
}

fn adoptions(scenario: &Scenario, state: &State) -> Option<Violation> {
    for old in 0..SESSIONS {
        let Ending::Adopted { by, checkpoint } = state.endings[old] else {
            continue;
        };
        let last = state.last_adopter(usize::from(by));
        if matches!(state.endings[last], Ending::Adopted { .. }) {
            return Some(Violation::AdoptionCircle);
        }
        let parents = scenario.pinned(state, checkpoint.pins);
        if !state.has_ended(last) && !(state.closure(checkpoint.refs) | parents).within(state.live) {
            return Some(Violation::Inv3Adoption);
        }
    }
    None
}

fn look_ups(rules: Rules, state: &State) -> Option<Violation> {
    let mut broken = Slots::NONE;
    for n in 0..NODES {
        if !state.refs[n].within(state.live) {
            broken |= Slots::node(u8::try_from(n).expect("a few nodes"));
        }
    }
    let broken = broken & state.live;
    if broken.is_empty() {
        return None;
    }
    let returned = findable_nodes(rules, state) & broken;
    if !returned.within(absent_view(rules, state)) {
        return Some(Violation::Inv9LookUp);
    }
    let views = (0..SESSIONS)
        .filter(|&s| state.sessions[s].phase == Phase::Open && !state.has_ended(s))
        .map(|s| state.sessions[s].absent);
    for absent in views {
        if !returned.within(absent) {
            return Some(Violation::Inv9LookUp);
        }
    }
    // Check, rebuild and other readers consult no list: for them the node must not be there at all.
    let standing = state.commits().fold(Slots::NONE, |all, s| all | state.named(s)) & broken;
    (!standing.within(state.history.late)).then_some(Violation::Inv9Standing)
}

impl Witness {
    /// Whether `state` witnesses it.
    #[must_use]
    pub fn seen(self, scenario: &Scenario, state: &State) -> bool {
        let committed = |s: usize| matches!(state.endings[s], Ending::Commit { .. });
        let mut ran = scenario.running.each();
        let removals = state.epochs.iter().take(usize::from(state.marks.epoch));
        let removals = removals
            .filter(|e| e.removed.is_some_and(|r| !r.is_empty()))
            .count();
        match self {
            Self::Commit => ran.any(committed),
            Self::AdoptionCommits => (0..SESSIONS).any(|old| {
                matches!(state.endings[old], Ending::Adopted { by, .. }
                    if committed(state.last_adopter(usize::from(by))))
            }),
            Self::Expiry => ran.any(|s| state.endings[s] == Ending::Expired),
            Self::Removal => removals >= 1,
            Self::TwoRemovals => removals >= 2,
            Self::LeftInPlace => state.history.left_alone,
            Self::ForgottenParentUsed => ran.any(|s| {
                let me = &state.sessions[s];
                me.pins.each().any(|(backup, number)| {
                    state.tombs.has(backup)
                        && state.marks.forgotten.has(backup)
                        && scenario.revision_root(state, backup, number - 1).within(me.held)
                })
            }),
            Self::TwoReclaimers => {
                let [a, b] = &state.reclaimers;
                a.epoch == b.epoch && a.stage >= Stage::Waiting && b.stage >= Stage::Waiting
            }
            Self::ForgottenUncovered => state.reclaimers.iter().any(|r| {
                r.stage >= Stage::Announced
                    && state
                        .tombs
                        .each()
                        .any(|b| committed(b) && !r.condemned.marks.covered.has(b))
            }),
            Self::PowerCut => state.budget.power_cuts < scenario.budget.power_cuts,
            Self::KeptForNext => !state.marks.kept.is_empty(),
            Self::MadeDirect => state.revisions.each().any(|(b, number)| {
                let before = scenario.next(state, b, number - 1);
                before.is_some_and(|old| state.tombs.has(old) && scenario.next(state, b, number) != Some(old))
            }),
            Self::OldRootGone => state.revisions.each().any(|(b, number)| {
                !state.tombs.has(b) && !scenario.revision_root(state, b, number - 1).within(state.live)
            }),
            Self::RevisionLost => state.revisers.iter().flatten().any(|intent| {
                let task = scenario.tasks[usize::from(intent.session)];
                task.is_some_and(|task| state.revisions.get(task.of()) >= intent.number)
            }),
            Self::AllGone => state.live.is_empty() && state.commits().all(|b| state.tombs.has(b)),
        }
    }
}
