//! What happens to the store from outside the protocol: forgetting, power cuts, late writers,
//! restarts.

use crate::action::Action;
use crate::archival;
use crate::marking::running;
use crate::rewriting;
use crate::rules::{Rule, Rules};
use crate::scenario::Scenario;
use crate::slots::{Numbers, Slots};
use crate::state::{Ending, Phase, Process, Reclaimer, SESSIONS, State};

type Successors = Vec<(Action, State)>;

/// All steps of the world.
pub fn steps(scenario: &Scenario, rules: Rules, state: &State, out: &mut Successors) {
    forget(scenario, rules, state, out);
    rewriting::publish(scenario, rules, state, out);
    if scenario.drop_endings && !rules.has(Rule::EndingKept) {
        for session in scenario.running.each() {
            if matches!(state.endings[session], Ending::Expired | Ending::Adopted { .. }) {
                let mut next = *state;
                next.endings[session] = Ending::None;
                out.push((Action::DropEnding { session }, next));
            }
        }
    }
    if scenario.rebuild && !rules.has(Rule::LookupOnlyCommitted) {
        let mut next = *state;
        next.hooks = if rules.has(Rule::RebuildOnlyMarked) {
            (state.marks.reached & state.live).only_nodes()
        } else {
            state.live.only_nodes()
        };
        if next != *state {
            out.push((Action::RebuildIndex, next));
        }
    }
    if state.budget.marks_losses > 0 {
        for backup in state.marks.covered.each() {
            let mut next = *state;
            next.budget.marks_losses -= 1;
            next.marks.missing.add(backup);
            next.marks.covered.remove(backup);
            next.marks.reached = state
                .marks
                .covered
                .without(state.marks.forgotten)
                .each()
                .filter(|&other| other != backup)
                .fold(Slots::NONE, |reached, other| {
                    reached | scenario.root(state, other)
                });
            out.push((Action::LoseMarks { backup }, next));
        }
    }
    for (backup, _) in state.revisions.each() {
        if scenario.unread && !state.unread.has(backup) {
            let mut next = *state;
            next.unread.add(backup);
            out.push((Action::LoseSight { backup }, next));
        }
    }
    late_writes(state, out);
    power_cuts(state, out);
    if state.budget.restarts > 0 {
        for by in 0..scenario.reclaimers {
            if state.reclaimers[by] != Reclaimer::default() {
                let mut next = *state;
                next.budget.restarts -= 1;
                next.reclaimers[by] = Reclaimer::default(); // its claim is nobody's now
                out.push((Action::Restart { by }, next));
            }
        }
    }
}

fn forget(scenario: &Scenario, rules: Rules, state: &State, out: &mut Successors) {
    for backup in state.commits() {
        let forgotten = state.tombs.has(backup);
        if scenario.forget.has(backup) && !forgotten {
            let mut next = *state;
            next.tombs.add(backup);
            if !scenario.loses() {
                next.tombs_durable.add(backup);
            }
            out.push((Action::Forget { backup }, next));
        }
        if let Some(root) = scenario.rewrite[backup]
            && scenario.rewriter.is_none()
            && !forgotten
            && state.revisions.get(backup) == 0
        {
            let mut next = *state;
            next.revise(backup, root);
            next.live |= root;
            next.durable |= root;
            out.push((Action::Rewrite { backup }, next));
        }
        let read = state.readable_revisions().get(backup);
        let is_read = read == state.revisions.get(backup) || !rules.has(Rule::UnreadNotRevised);
        if scenario.tags.has(backup) && !forgotten && is_read && state.has_room(backup) {
            let mut next = *state;
            next.revise(backup, scenario.revision_root(state, backup, read));
            out.push((Action::Tag { backup }, next));
        }
        if scenario.drop_manifests && forgotten {
            let covered = state.marks.forgotten.has(backup) && state.highest() <= state.marks.epoch;
            let may_drop = archival::may_drop(scenario, rules, state, backup);
            if (covered || !rules.has(Rule::DropOnlyCovered)) && may_drop {
                let mut next = *state;
                if rules.has(Rule::TombstoneLast) {
                    next.dropped.add(backup);
                    out.push((Action::DropManifest { backup }, next));
                } else {
                    next.tombs.remove(backup);
                    next.tombs_durable.remove(backup);
                    out.push((Action::DropTombstone { backup }, next));
                }
            }
        }
    }
}

/// A process that slept in the middle of a put, or its network, repeats the put long afterwards.
fn late_writes(state: &State, out: &mut Successors) {
    if state.budget.late_writes == 0 {
        return;
    }
    for session in 0..SESSIONS {
        for slot in (state.sessions[session].wrote - state.live).each() {
            let mut next = *state;
            next.budget.late_writes -= 1;
            next.live |= slot;
            next.history.late |= slot;
            out.push((Action::LateWrite { session, slot }, next));
        }
    }
}

/// Every process on the machine dies; of what no barrier covered, any part is lost or undone.
fn power_cuts(state: &State, out: &mut Successors) {
    if state.budget.power_cuts == 0 {
        return;
    }
    let unsure = (state.live - state.durable) | (state.durable - state.live);
    let mut endings_unsure = Numbers::NONE;
    for s in 0..SESSIONS {
        if state.endings[s] != Ending::None && !state.settled.has(s) {
            endings_unsure.add(s);
        }
    }
    let tombs_unsure = state.tombs.without(state.tombs_durable);
    let mut revisions_unsure = Numbers::NONE;
    for (backup, number) in state.revisions.each() {
        if number > state.revisions_durable.get(backup) {
            revisions_unsure.add(backup);
        }
    }
    for kept in unsure.subsets() {
        for endings_lost in endings_unsure.subsets() {
            for tombs_lost in tombs_unsure.subsets() {
                for revisions_lost in revisions_unsure.subsets() {
                    let cut = (kept, endings_lost, tombs_lost, revisions_lost);
                    out.push(power_cut(state, cut));
                }
            }
        }
    }
}

/// What is left when the slots in doubt are there that `kept` has, and these endings, tombstones
/// and revisions are not.
fn power_cut(
    state: &State,
    (kept, endings_lost, tombs_lost, revisions_lost): (Slots, Numbers, Numbers, Numbers),
) -> (Action, State) {
    let mut next = *state;
    next.budget.power_cuts -= 1;
    next.live = (state.live & state.durable) | kept;
    next.durable = next.live;
    for s in 0..SESSIONS {
        if endings_lost.has(s) {
            next.endings[s] = Ending::None;
            next.history.ended.remove(s);
        }
        if next.endings[s] != Ending::None {
            next.settled.add(s);
        }
        if state.sessions[s].phase != Phase::Unborn {
            next.sessions[s] = Process {
                phase: Phase::Done,
                ..Process::default()
            };
        }
    }
    next.tombs = state.tombs.without(tombs_lost);
    next.tombs_durable = next.tombs;
    for backup in revisions_lost.each() {
        let left = state.revisions_durable.get(backup);
        next.revisions.set(backup, left);
        next.revised[backup][usize::from(left)..].fill(Slots::NONE);
    }
    next.revisions_durable = next.revisions;
    next.revisers = Default::default();
    next.reclaimers = Default::default();
    let action = Action::PowerCut {
        kept,
        endings_lost,
        tombs_lost,
        revisions_lost,
    };
    (action, next)
}

/// What is true of every state: without power cuts all bytes are durable; equal processes have no
/// order.
pub fn normalise(scenario: &Scenario, state: &mut State) {
    if !scenario.loses() {
        state.durable = state.live;
        state.revisions_durable = state.revisions;
    }
    if !running(state).is_empty() {
        state.somebody_runs();
    }
    // Reclaimers differ in nothing but what they know: which of them knows it makes no difference.
    state.reclaimers[..scenario.reclaimers].sort_unstable();
    state.revisers[..scenario.revisers].sort_unstable();
}
