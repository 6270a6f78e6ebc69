//! A session's half of the protocol: one process that looks up, writes, splices, adopts and
//! commits.
//!
//! A crash or a pause is a process that takes no further step, and needs no step of its own: expiry
//! and adoption may befall any session at any time.

use crate::action::Action;
use crate::adoption::adopt;
use crate::rewriting;
use crate::rules::{Rule, Rules};
use crate::scenario::Scenario;
use crate::slots::{Counts, Numbers, Slots};
use crate::state::{Checkpoint, Content, Ending, Phase, Process, SESSIONS, State};

/// Steps with the states that they lead to.
pub(crate) type Successors = Vec<(Action, State)>;

/// Slots that whoever lists epochs now treats as absent.
#[must_use]
pub fn absent_view(rules: Rules, state: &State) -> Slots {
    let mut absent = state.recorded;
    for epoch in &state.epochs {
        match (epoch.removed, epoch.condemned) {
            (Some(removed), _) => absent |= removed,
            (None, Some(condemned)) if rules.has(Rule::CondemnedAbsent) => absent |= condemned.dead,
            _ => {}
        }
    }
    absent
}

/// Nodes that the index can lead a look-up to.
#[must_use]
pub fn findable_nodes(rules: Rules, state: &State) -> Slots {
    let found = if rules.has(Rule::LookupOnlyCommitted) {
        // An index may find anything; the manifest decides what is returned.
        state.commits().fold(Slots::NONE, |all, s| all | state.named(s))
    } else {
        state.hooks
    };
    let found = found & state.live.only_nodes();
    if rules.has(Rule::LookUpNoForwards) {
        found - state.forwarding(found)
    } else {
        found
    }
}

/// All steps that session `i` can take.
pub fn steps(scenario: &Scenario, rules: Rules, state: &State, i: usize, out: &mut Successors) {
    let me = state.sessions[i];
    match me.phase {
        Phase::Unborn => be_born(scenario, rules, state, i, out),
        Phase::ListedEarly => {
            let mut next = *state;
            next.created.add(i);
            next.sessions[i].phase = Phase::Open;
            out.push((Action::CreateSession { session: i }, next));
        }
        Phase::Created => {
            let mut next = *state;
            see_epochs(rules, state, &mut next.sessions[i]);
            next.sessions[i].phase = Phase::Open;
            out.push((Action::ListEpochs { session: i }, next));
        }
        Phase::Open if !state.has_ended(i) => run(scenario, rules, state, i, out),
        Phase::Done
            if scenario.zombies && matches!(state.endings[i], Ending::Expired | Ending::Adopted { .. }) =>
        {
            adopt(scenario, rules, state, i, out);
            write(scenario, rules, state, i, out);
        }
        Phase::Open | Phase::Done => {}
    }
    if scenario.rewriter == Some(i) {
        put_revision(scenario, rules, state, i, out);
    }
    if scenario.loses() && matches!(state.endings[i], Ending::Commit { .. }) && !state.settled.has(i) {
        let mut next = *state;
        settle(rules, &mut next, i);
        out.push((Action::SettleManifest { session: i }, next));
    }
}

fn be_born(scenario: &Scenario, rules: Rules, state: &State, i: usize, out: &mut Successors) {
    let mut next = *state;
    if rules.has(Rule::CreateThenList) {
        next.created.add(i);
        next.sessions[i].phase = Phase::Created;
        out.push((Action::CreateSession { session: i }, next));
    } else {
        see_epochs(rules, state, &mut next.sessions[i]);
        next.sessions[i].phase = Phase::ListedEarly;
        out.push((Action::ListEpochs { session: i }, next));
    }
    if !rules.has(Rule::ParentsListedAfter) && state.sessions[i].pins.is_empty() {
        choose_parent(scenario, state, i, out);
    }
}

fn see_epochs(rules: Rules, state: &State, me: &mut Process) {
    for (n, epoch) in state.epochs.iter().enumerate() {
        if epoch.condemned.is_some() || epoch.removed.is_some() {
            me.seen.add(n);
        }
    }
    me.absent = absent_view(rules, state);
    let kept = (1_u8..)
        .zip(&state.epochs)
        .find(|(_, e)| e.condemned.is_some() || e.removed.is_some());
    if let Some((oldest, _)) = kept
        && rules.has(Rule::CachesDropped)
        && me.cache_epoch < oldest
    {
        me.cache = Slots::NONE;
    }
}

fn run(scenario: &Scenario, rules: Rules, state: &State, i: usize, out: &mut Successors) {
    let me = state.sessions[i];
    let mut relisted = me;
    see_epochs(rules, state, &mut relisted);
    if relisted != me {
        let mut next = *state;
        next.sessions[i] = relisted;
        out.push((Action::ListEpochs { session: i }, next));
    }
    checkpoint(scenario, rules, state, i, out);
    look_up(scenario, rules, state, i, out);
    if let Some(task) = scenario.tasks[i] {
        rewriting::steps(scenario, rules, state, i, task, out);
        commit(scenario, rules, state, i, out);
        return;
    }
    write(scenario, rules, state, i, out);
    if me.pins.is_empty() {
        choose_parent(scenario, state, i, out);
    }
    splice(scenario, rules, state, i, out);
    adopt(scenario, rules, state, i, out);
    commit(scenario, rules, state, i, out);
    if scenario.releases {
        for slot in me.held.each() {
            let mut next = *state;
            next.sessions[i].held -= slot;
            out.push((Action::Release { session: i, slot }, next));
        }
    }
}

/// The next revision of a backup, with a root that the rewriting session has put together.
fn put_revision(scenario: &Scenario, rules: Rules, state: &State, i: usize, out: &mut Successors) {
    for backup in state
        .commits()
        .filter(|&b| !state.tombs.has(b) && state.revisions.get(b) == 0)
    {
        let Some(root) = scenario.rewrite[backup] else {
            continue;
        };
        let ready = if rules.has(Rule::RewriteCommittedFirst) {
            !state.tombs.has(i)
                && matches!(state.endings[i], Ending::Commit { root: own, .. } if root.within(own))
        } else {
            root.within(state.sessions[i].held)
        };
        if ready {
            let mut next = *state;
            next.revise(backup, root);
            out.push((Action::PutRevision { session: i, backup }, next));
        }
    }
}

/// Makes durable what session `i` has put, and what it has read.
fn barrier(rules: Rules, state: &mut State, i: usize) {
    let me = state.sessions[i];
    state.durable |= me.wrote & state.live;
    if rules.has(Rule::BarrierCoversRead) {
        state.durable |= state.closure(me.held) & state.live;
        for backup in 0..SESSIONS {
            if state.named(backup).meets(me.held) {
                state.settled.add(backup);
            }
            if me.pins.get(backup) > 0 {
                state.settled.add(backup);
                state.revisions_durable.set(backup, state.revisions.get(backup));
            }
        }
    }
    for old in 0..SESSIONS {
        if matches!(state.endings[old], Ending::Adopted { by, .. } if usize::from(by) == i) {
            state.settled.add(old);
        }
    }
}

fn content(scenario: &Scenario, rules: Rules, i: usize, me: &Process, declares: bool) -> Content {
    Content {
        refs: me.held,
        named: me.wrote.only_nodes() | me.adopted_named,
        pins: if declares {
            rewriting::declared(scenario, rules, i, me.pins)
        } else {
            Counts::NONE
        },
    }
}

/// A heartbeat with a checkpoint: the answer to every epoch seen.
fn checkpoint(scenario: &Scenario, rules: Rules, state: &State, i: usize, out: &mut Successors) {
    let me = state.sessions[i];
    let answered = state.checkpoints[i].map_or(Numbers::NONE, |c| c.answered);
    if rules.has(Rule::Drain) && answered != me.seen && !me.pending.is_empty() {
        return;
    }
    let declares_always = rules.has(Rule::AnswerDeclaresChosen) && rules.has(Rule::ParentsDeclared);
    for declares in [true, false] {
        let dropped_parent = !declares && !me.pins.is_empty();
        if declares && !rules.has(Rule::ParentsDeclared) || !declares && declares_always {
            continue;
        }
        if !declares && (me.declared || !dropped_parent && rules.has(Rule::ParentsDeclared)) {
            continue;
        }
        let content = content(scenario, rules, i, &me, declares);
        let ever = content.refs | state.checkpoints[i].map_or(Slots::NONE, |earlier| earlier.ever);
        let put = Checkpoint {
            content,
            ever,
            answered: me.seen,
        };
        if state.checkpoints[i] == Some(put) {
            continue;
        }
        let mut next = *state;
        if scenario.loses() {
            barrier(rules, &mut next, i);
        }
        next.checkpoints[i] = Some(put);
        next.sessions[i].declared = declares && !me.pins.is_empty();
        out.push((Action::Checkpoint { session: i, declares }, next));
    }
}

fn look_up(scenario: &Scenario, rules: Rules, state: &State, i: usize, out: &mut Successors) {
    let me = state.sessions[i];
    if !me.pending.is_empty() {
        let mut next = *state;
        next.sessions[i].held |= me.pending;
        next.sessions[i].pending = Slots::NONE;
        out.push((Action::FinishLookUp { session: i }, next));
        return;
    }
    let found = state.live.only_data() | me.cache | findable_nodes(rules, state);
    let candidates = (found & scenario.look_up[i]) - me.absent - me.held;
    for slot in candidates.each() {
        let mut next = *state;
        let action = if scenario.slow_look_ups {
            next.sessions[i].pending = slot;
            Action::BeginLookUp { session: i, slot }
        } else {
            next.sessions[i].held |= slot;
            Action::LookUp { session: i, slot }
        };
        if left_alone(state, i, slot) {
            next.history.left_alone = true;
        }
        out.push((action, next));
    }
}

/// Whether `slot` was condemned, stayed in place, and is taken by a session that had not had it.
fn left_alone(state: &State, i: usize, slot: Slots) -> bool {
    state.epochs.iter().enumerate().any(|(n, epoch)| {
        state.sessions[i].seen.has(n)
            && matches!((epoch.condemned, epoch.removed), (Some(condemned), Some(removed))
                if slot.within(condemned.dead - removed))
    })
}

fn write(scenario: &Scenario, rules: Rules, state: &State, i: usize, out: &mut Successors) {
    let me = state.sessions[i];
    for slot in (scenario.owns[i] - me.wrote).each() {
        let mut next = *state;
        next.live |= slot;
        next.sessions[i].wrote |= slot;
        if !state.has_ended(i) {
            next.sessions[i].held |= slot;
        }
        let Some(node) = slot.node_numbers().next() else {
            out.push((Action::WriteData { session: i, slot }, next));
            continue;
        };
        if !rules.has(Rule::LookupOnlyCommitted) && !rules.has(Rule::HooksAfterManifest) {
            next.hooks |= slot;
        }
        let data = state.closure(me.held).only_data();
        for refs in data.subsets().skip(1) {
            if scenario.full_nodes && refs != data {
                continue;
            }
            next.refs[node] = refs;
            out.push((
                Action::WriteNode {
                    session: i,
                    slot,
                    refs,
                },
                next,
            ));
        }
    }
}

fn choose_parent(scenario: &Scenario, state: &State, i: usize, out: &mut Successors) {
    for backup in scenario.parents[i].each() {
        if state.commits().any(|b| b == backup) && !state.tombs.has(backup) {
            let mut next = *state;
            next.sessions[i].pins.set(backup, state.revisions.get(backup) + 1);
            out.push((Action::ChooseParent { session: i, backup }, next));
        }
    }
}

fn splice(scenario: &Scenario, rules: Rules, state: &State, i: usize, out: &mut Successors) {
    let me = state.sessions[i];
    if me.pins.is_empty() || !me.declared && rules.has(Rule::ParentsDeclared) {
        return;
    }
    let mut root = scenario.pinned(state, me.pins);
    if rules.has(Rule::SpliceNoForwards) {
        root = root - state.forwarding(root);
    }
    if !root.within(me.held) {
        let mut next = *state;
        next.sessions[i].held |= root;
        out.push((Action::SpliceParent { session: i }, next));
    }
}

fn commit(scenario: &Scenario, rules: Rules, state: &State, i: usize, out: &mut Successors) {
    let me = state.sessions[i];
    if !me.pending.is_empty() || me.adopting.is_some() {
        return;
    }
    let roots: Vec<Slots> = if scenario.plain_roots {
        [me.held].into_iter().filter(|held| !held.is_empty()).collect()
    } else {
        me.held.only_nodes().subsets().skip(1).collect()
    };
    let named = content(scenario, rules, i, &me, false).named;
    for root in roots {
        let root = state.closure(root);
        let mut next = *state;
        if scenario.loses() {
            barrier(rules, &mut next, i);
        }
        end(scenario, &mut next, i, Ending::Commit { root, named });
        if !scenario.loses() {
            settle(rules, &mut next, i);
        }
        out.push((Action::Commit { session: i, root }, next));
    }
}

/// Gives session `i` its ending. Its own objects go with it: a reclaimer must not count on them.
pub fn end(scenario: &Scenario, state: &mut State, i: usize, ending: Ending) {
    state.endings[i] = ending;
    state.history.ended_twice |= state.history.ended.has(i);
    state.history.ended.add(i);
    let rewrites = scenario.rewriter == Some(i);
    if (scenario.drop_endings || rewrites) && !matches!(ending, Ending::Commit { .. }) {
        return;
    }
    state.checkpoints[i] = None;
    let wrote = if scenario.budget.late_writes > 0 {
        state.sessions[i].wrote
    } else {
        Slots::NONE
    };
    let asleep = Process {
        phase: Phase::Done,
        wrote,
        ..Process::default()
    };
    state.sessions[i] = if scenario.zombies {
        Process {
            adopting: state.sessions[i].adopting,
            wrote: state.sessions[i].wrote,
            ..asleep
        }
    } else {
        asleep
    };
}

/// The barrier after the manifest, and the hooks that may follow it.
fn settle(rules: Rules, state: &mut State, i: usize) {
    state.settled.add(i);
    if !rules.has(Rule::LookupOnlyCommitted) {
        state.hooks |= state.named(i);
    }
}
