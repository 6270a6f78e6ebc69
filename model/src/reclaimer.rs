//! A reclaimer's half: mark, condemn, wait, decide, remove.
//!
//! No lease is modelled: any reclaimer may take any step at any time, also long after another has
//! taken the epoch over. What holds here holds whatever the lease does.

use crate::action::Action;
use crate::archival;
use crate::marking::{
    FIRST_LISTED, Part, checkpoints_live, manifests_live, read_marks, replace_marks, running, written_by,
};
use crate::rules::{Rule, Rules};
use crate::scenario::Scenario;
use crate::session;
use crate::slots::{Numbers, Slots};
use crate::state::{Ending, SESSIONS, Stage, State};

type Successors = Vec<(Action, State)>;

/// All steps that reclaimer `by` can take.
pub fn steps(scenario: &Scenario, rules: Rules, state: &State, by: usize, out: &mut Successors) {
    let me = state.reclaimers[by];
    match me.stage {
        Stage::Idle => begin(scenario, state, by, out),
        Stage::Listed if scenario.slow_marks => {
            let mut next = *state;
            let view = &mut next.reclaimers[by];
            view.stage = Stage::HalfRead;
            view.alone = scenario.hands_on;
            view.condemned.marks.revisions.set(0, state.revisions.get(0));
            view.condemned.marks.forgotten = state.tombs.both(Numbers::one(0));
            out.push((Action::ReadFirstManifest { by }, next));
        }
        Stage::Listed | Stage::HalfRead if !sees_all(rules, state) => {}
        Stage::Listed | Stage::HalfRead => {
            let mut next = *state;
            next.reclaimers[by].alone |= scenario.hands_on && me.stage == Stage::Listed;
            read_marks(scenario, rules, &mut next, by);
            out.push((Action::ReadMarks { by }, next));
        }
        Stage::Marked => put_condemned(rules, state, by, out),
        Stage::Announced => list_sessions(rules, state, by, out),
        Stage::Waiting => wait(scenario, rules, state, by, out),
        Stage::Read | Stage::HalfListed if !me.alone && !sees_all(rules, state) => {}
        Stage::Read if scenario.slow_decisions && !me.alone => {
            let mut next = *state;
            let view = &mut next.reclaimers[by];
            view.live |= manifests_live(scenario, rules, state, &me, Part::First);
            for s in FIRST_LISTED
                .each()
                .filter(|&s| s < SESSIONS && state.has_ended(s))
            {
                view.ended.add(s);
            }
            view.stage = Stage::HalfListed;
            out.push((Action::ListFirstManifests { by }, next));
        }
        Stage::Read | Stage::HalfListed => decide(scenario, rules, state, by, out),
        Stage::Decided => put_removed(rules, state, by, out),
        Stage::Published | Stage::FirstGone => remove(scenario, rules, state, by, out),
        Stage::AllGone => {
            let mut next = *state;
            replace_marks(scenario, rules, &mut next, by);
            out.push((Action::ReplaceMarks { by }, next));
        }
    }
}

/// Whether the storage gives every revision that it has to read.
fn sees_all(rules: Rules, state: &State) -> bool {
    state.readable_revisions() == state.revisions || !rules.has(Rule::UnreadStops)
}

fn place(epoch: u8) -> usize {
    usize::from(epoch) - 1
}

/// Lists epochs: an open one is taken over, otherwise the next is begun.
fn begin(scenario: &Scenario, state: &State, by: usize, out: &mut Successors) {
    if scenario.claims > 0 && state.reclaimers[by].claim != state.lease.max(1) {
        if state.lease < scenario.claims {
            let mut next = *state;
            next.lease += 1;
            next.reclaimers[by].claim = next.lease;
            out.push((Action::Claim { by }, next));
        }
        return;
    }
    let highest = state.highest();
    let mut next = *state;
    if highest > state.marks.epoch {
        let epoch = state.epochs[place(highest)];
        let me = &mut next.reclaimers[by];
        me.epoch = highest;
        me.condemned = epoch.condemned.unwrap_or_default();
        match epoch.removed {
            Some(list) => {
                me.stage = Stage::Published;
                me.list = list;
            }
            None => me.stage = Stage::Announced,
        }
        out.push((Action::TakeOver { by, epoch: highest }, next));
    } else if highest < scenario.epochs {
        let me = &mut next.reclaimers[by];
        me.stage = Stage::Listed;
        me.epoch = highest + 1;
        out.push((Action::Begin { by }, next));
    }
}

fn put_condemned(rules: Rules, state: &State, by: usize, out: &mut Successors) {
    let me = state.reclaimers[by];
    let mut next = *state;
    let epoch = &mut next.epochs[place(me.epoch)];
    if epoch.condemned.is_some() || epoch.removed.is_some() {
        next.reclaimers[by] = me.idle();
        out.push((Action::LoseEpoch { by, epoch: me.epoch }, next));
        return;
    }
    epoch.condemned = Some(me.condemned);
    if rules.has(Rule::BarrierCoversRead) {
        let marks = me.condemned.marks;
        next.tombs_durable = next.tombs_durable.with(marks.forgotten).with(marks.kept);
        for (backup, number) in marks.revisions.each() {
            let durable = next.revisions_durable.get(backup).max(number);
            next.revisions_durable.set(backup, durable);
        }
    }
    next.reclaimers[by].stage = Stage::Announced;
    out.push((Action::PutCondemned { by, epoch: me.epoch }, next));
}

fn list_sessions(rules: Rules, state: &State, by: usize, out: &mut Successors) {
    let me = state.reclaimers[by];
    let mut next = *state;
    if rules.has(Rule::LowerCondemnedVoid) && state.highest() > me.epoch {
        next.reclaimers[by] = me.idle();
        out.push((Action::FindVoid { by, epoch: me.epoch }, next));
        return;
    }
    if rules.has(Rule::CondemnThenList) {
        next.reclaimers[by].wait = running(state);
    }
    // Only an epoch that counts is judged: a stale computation, lost or void, does no harm.
    next.history.leaked |= me.leaks;
    next.reclaimers[by].leaks = false;
    next.reclaimers[by].stage = Stage::Waiting;
    out.push((Action::ListSessions { by }, next));
}

fn wait(scenario: &Scenario, rules: Rules, state: &State, by: usize, out: &mut Successors) {
    let me = state.reclaimers[by];
    let answered = |s: usize| state.checkpoints[s].is_some_and(|c| c.answered.has(place(me.epoch)));
    let mut all = true;
    for s in me.wait.each().filter(|&s| !state.has_ended(s)) {
        // A session that has answered may be expired as well: it may have died since.
        let mut next = *state;
        session::end(scenario, &mut next, s, Ending::Expired);
        next.settled.add(s);
        out.push((Action::Expire { by, session: s }, next));
        all &= answered(s);
    }
    if all {
        let mut next = *state;
        for s in me.wait.each() {
            let nexts = archival::nexts(scenario, rules, state, s);
            next.reclaimers[by].nexts = next.reclaimers[by].nexts.with(nexts);
        }
        next.reclaimers[by].live = if rules.has(Rule::CheckpointsThenManifests) {
            checkpoints_live(scenario, rules, state, &me)
        } else {
            manifests_live(scenario, rules, state, &me, Part::Whole)
        };
        next.reclaimers[by].stage = Stage::Read;
        out.push((Action::ReadCheckpoints { by }, next));
    }
}

fn decide(scenario: &Scenario, rules: Rules, state: &State, by: usize, out: &mut Successors) {
    let me = state.reclaimers[by];
    let part = if me.stage == Stage::HalfListed {
        Part::Rest
    } else {
        Part::Whole
    };
    let live = me.live
        | if me.alone {
            Slots::NONE
        } else if rules.has(Rule::CheckpointsThenManifests) {
            manifests_live(scenario, rules, state, &me, part)
        } else {
            checkpoints_live(scenario, rules, state, &me)
        };
    let live = live | archival::nexts_live(scenario, state, me.nexts);
    let dead = me.condemned.dead;
    for stay in (scenario.stay & (dead - live)).subsets() {
        let mut next = *state;
        if scenario.loses() && rules.has(Rule::BarrierCoversRead) {
            for s in state.commits() {
                next.settled.add(s);
            }
            next.revisions_durable = state.revisions;
        }
        let decided = &mut next.reclaimers[by];
        decided.live = Slots::NONE;
        decided.nexts = Numbers::NONE;
        decided.ended = Numbers::NONE;
        decided.stage = Stage::Decided;
        if rules.has(Rule::StaysNotListed) {
            let kept = if rules.has(Rule::StayKeepsReach) {
                state.closure(stay)
            } else {
                stay
            };
            decided.list = dead - live - kept;
        } else {
            decided.list = dead - live;
            decided.skip = stay;
        }
        out.push((Action::Decide { by, stay }, next));
    }
}

fn put_removed(_rules: Rules, state: &State, by: usize, out: &mut Successors) {
    let me = state.reclaimers[by];
    let mut next = *state;
    let removed = &mut next.epochs[place(me.epoch)].removed;
    if let Some(list) = *removed {
        next.reclaimers[by].list = list;
        next.reclaimers[by].skip = Slots::NONE;
    } else {
        *removed = Some(me.list);
        next.history.listed |= me.list;
    }
    next.reclaimers[by].wait = Numbers::NONE;
    next.reclaimers[by].stage = Stage::Published;
    out.push((Action::PutRemoved { by, epoch: me.epoch }, next));
}

/// Executes the list: nodes, a barrier, data.
fn remove(scenario: &Scenario, rules: Rules, state: &State, by: usize, out: &mut Successors) {
    let me = state.reclaimers[by];
    let mut next = *state;
    let gone = me.list - me.skip;
    let (first, rest) = if rules.has(Rule::NodesFirst) {
        (gone.only_nodes(), gone.only_data())
    } else {
        (gone.only_data(), gone.only_nodes())
    };
    if me.stage == Stage::Published {
        if rules.has(Rule::LowerRemovedVoid) && state.highest() > me.epoch {
            // Void, or finished by another and about to be dropped: not to be executed from here.
            next.epochs[place(me.epoch)] = crate::state::Epoch::default();
            next.reclaimers[by] = me.idle();
            out.push((Action::FindVoid { by, epoch: me.epoch }, next));
            return;
        }
        if me.claim > 0 && me.claim < state.lease && rules.has(Rule::LeaseGivenUp) {
            next.reclaimers[by] = me.idle();
            out.push((Action::GiveUp { by }, next));
            return;
        }
        if rules.has(Rule::NamesOnRecord) {
            next.recorded |= gone - scenario.compacted;
        }
        next.live -= first;
        next.reclaimers[by].stage = Stage::FirstGone;
        out.push((Action::RemoveFirst { by }, next));
    } else {
        if rules.has(Rule::NodesGoneDurably) {
            next.durable -= first;
        }
        next.live -= rest;
        next.reclaimers[by].stage = Stage::AllGone;
        out.push((Action::RemoveRest { by }, next));
    }
}

/// Steps of reclamation that belong to no epoch: new backups are marked, finished epochs dropped.
pub fn housekeeping(scenario: &Scenario, rules: Rules, state: &State, out: &mut Successors) {
    if scenario.extend_marks {
        let mut next = *state;
        for backup in state.commits() {
            if !state.marks.covered.has(backup) && !state.tombs.has(backup) {
                next.marks.covered.add(backup);
                next.marks.revisions.set(backup, state.revisions.get(backup));
                next.marks.reached |= scenario.root(state, backup);
                if rules.has(Rule::FirstMarkOwed) {
                    next.marks.owed |= written_by(scenario, rules, state, backup);
                }
            }
        }
        if next != *state {
            out.push((Action::ExtendMarks, next));
        }
    }
    if !rules.has(Rule::HighestClaimKept)
        && state
            .reclaimers
            .iter()
            .any(|r| r.claim == state.lease && r.claim > 0 && r.stage == Stage::Idle)
    {
        let mut next = *state;
        for reclaimer in &mut next.reclaimers {
            if reclaimer.claim == state.lease {
                reclaimer.claim = 0;
            }
        }
        next.lease -= 1;
        out.push((Action::DropClaim, next));
    }
    if scenario.drop_epochs {
        for epoch in 1..=state.marks.epoch {
            let exists = state.epochs[place(epoch)] != crate::state::Epoch::default();
            if exists && (epoch < state.highest() || !rules.has(Rule::HighestEpochKept)) {
                let mut next = *state;
                next.epochs[place(epoch)] = crate::state::Epoch::default();
                out.push((Action::DropEpoch { epoch }, next));
            }
        }
    }
}
