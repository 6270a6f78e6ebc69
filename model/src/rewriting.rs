//! Sessions that read or rewrite a backup, and whoever publishes what they have rewritten.

use crate::action::Action;
use crate::archival::{Forward, Intent, List, Task};
use crate::rules::{Rule, Rules};
use crate::scenario::Scenario;
use crate::session::Successors;
use crate::slots::{Counts, Numbers};
use crate::state::{Ending, SESSIONS, State};

/// Steps of session `i` towards its task. It answers epochs and commits as any other does.
pub(crate) fn steps(
    scenario: &Scenario,
    rules: Rules,
    state: &State,
    i: usize,
    task: Task,
    out: &mut Successors,
) {
    let me = state.sessions[i];
    if me.pins.is_empty() {
        choose(scenario, rules, state, i, task, out);
    } else if !rules.has(Rule::ChainFromOneList)
        && let Some(backup) = lacks(scenario, state, me.pins)
        && List::now(state).commits.has(backup)
    {
        let mut next = *state;
        next.sessions[i].pins.set(backup, state.revisions.get(backup) + 1);
        next.sessions[i].declared = false;
        out.push((Action::ChooseParent { session: i, backup }, next));
    }
    if me.declared && me.wrote.is_empty() && lacks(scenario, state, me.pins).is_none() {
        write(scenario, state, i, task, out);
    }
}

/// The first backup that `pins` refer forward to and do not have.
fn lacks(scenario: &Scenario, state: &State, pins: Counts) -> Option<usize> {
    pins.each()
        .filter_map(|(backup, number)| scenario.next(state, backup, number - 1))
        .find(|&next| pins.get(next) == 0)
}

/// Chooses, from one listing, the backup that is read or rewritten with all that it refers forward
/// to.
fn choose(scenario: &Scenario, rules: Rules, state: &State, i: usize, task: Task, out: &mut Successors) {
    let list = List::now(state);
    let there = |b: usize| list.commits.has(b) && !list.forgotten.has(b);
    let of = task.of();
    let forwards_to = scenario.next(state, of, state.revisions.get(of));
    let is_due = match task {
        Task::Read { .. } => there(of),
        Task::Optimize { next, .. } => there(of) && there(next) && forwards_to.is_none(),
        Task::MakeDirect { .. } => there(of) && forwards_to.is_some(),
    };
    if !is_due {
        return;
    }
    let mut next = *state;
    let pins = &mut next.sessions[i].pins;
    pins.set(of, state.revisions.get(of) + 1);
    if let Task::Optimize { next: later, .. } = task {
        pins.set(later, state.revisions.get(later) + 1);
    }
    if rules.has(Rule::ChainFromOneList) {
        while let Some(backup) = lacks(scenario, state, *pins)
            && list.commits.has(backup)
        {
            pins.set(backup, state.revisions.get(backup) + 1);
        }
    }
    out.push((
        Action::ChooseParent {
            session: i,
            backup: of,
        },
        next,
    ));
}

/// What of the parents chosen a checkpoint declares.
pub(crate) fn declared(scenario: &Scenario, rules: Rules, i: usize, pins: Counts) -> Counts {
    let Some(task) = scenario.tasks[i] else {
        return pins;
    };
    let rest = match task {
        Task::Read { .. } => Rule::ReaderPinsChain,
        Task::Optimize { .. } | Task::MakeDirect { .. } => Rule::RewriterPinsNext,
    };
    let mut declared = Counts::NONE;
    for (backup, number) in pins.each() {
        let is_declared = if backup == task.of() {
            matches!(task, Task::Read { .. }) || rules.has(Rule::RewriterPinsRewritten)
        } else {
            rules.has(rest)
        };
        if is_declared {
            declared.set(backup, number);
        }
    }
    declared
}

/// Puts what is copied, then the new root.
fn write(scenario: &Scenario, state: &State, i: usize, task: Task, out: &mut Successors) {
    let pins = state.sessions[i].pins;
    let own = scenario.owns[i];
    let (refs, forward) = match task {
        Task::Read { .. } => return,
        Task::Optimize { of, next, keeps } => {
            let refs = own.only_data() | keeps;
            let rest = scenario.all_contents(state, of).without(scenario.contents(refs));
            (refs, Some((next, rest)))
        }
        Task::MakeDirect { of } => {
            let now = scenario.revision_root(state, of, pins.get(of) - 1).only_data();
            let Some(forward) = scenario.forward(state, of, pins.get(of) - 1) else {
                return;
            };
            let to = usize::from(forward.to);
            let Some(number) = pins.get(to).checked_sub(1) else {
                return;
            };
            let taken = scenario.revision_root(state, to, number).only_data().each();
            let taken = taken.filter(|&slot| !scenario.contents(slot).both(forward.contents).is_empty());
            let refs = taken.fold(own.only_data() | now, |refs, slot| refs | slot);
            let rest = forward.contents.without(scenario.contents(refs));
            let further = scenario.forward(state, to, number);
            (refs, further.map(|further| (usize::from(further.to), rest)))
        }
    };
    let mut next = *state;
    next.live |= own;
    for node in own.node_numbers() {
        next.refs[node] = refs;
        next.forwards[node] = forward
            .filter(|(_, contents)| !contents.is_empty())
            .map(|(to, contents)| Forward {
                to: u8::try_from(to).expect("a session's number fits a byte"),
                contents,
            });
    }
    next.made_from.set(i, pins.get(task.of()));
    next.sessions[i].wrote = own;
    next.sessions[i].held = own | refs;
    let to = forward.map(|(to, _)| to);
    out.push((Action::WriteRevision { session: i, refs, to }, next));
}

/// The backup that session `i` rewrites, where its manifest is there and not forgotten.
fn rewrites(scenario: &Scenario, state: &State, i: usize) -> Option<usize> {
    let committed = matches!(state.endings[i], Ending::Commit { .. }) && !state.dropped.has(i);
    let of = scenario.tasks[i]
        .filter(|_| committed && !state.tombs.has(i))?
        .of();
    Some(of)
}

/// Whether the backup has gone on without what session `i` has made of it: for good, for no
/// revision brings back a root that another has replaced, and a tombstone is final.
fn is_lost(scenario: &Scenario, state: &State, i: usize, of: usize) -> bool {
    let Some(read) = state.made_from.get(i).checked_sub(1) else {
        return false;
    };
    let has_other_roots = scenario.root(state, of) != scenario.revision_root(state, of, read);
    state.tombs.has(of) || state.dropped.has(of) || has_other_roots
}

/// Whether it is the manifest of a session whose rewritten root nobody will publish: it is read by
/// nobody.
#[must_use]
pub fn is_void(scenario: &Scenario, state: &State, i: usize) -> bool {
    rewrites(scenario, state, i).is_some_and(|of| is_lost(scenario, state, i, of))
}

/// A session publishes the rewritten root of its own or of another, and forgets that session.
pub(crate) fn publish(scenario: &Scenario, rules: Rules, state: &State, out: &mut Successors) {
    for i in 0..SESSIONS {
        let Some(of) = rewrites(scenario, state, i) else {
            continue;
        };
        if state.readable_revisions().get(of) < state.revisions.get(of) {
            continue;
        }
        let session = u8::try_from(i).expect("a session's number fits a byte");
        let number = state.revisions.get(of) + 1;
        let is_forgotten = state.tombs.has(of) || state.dropped.has(of);
        let is_wanted = !is_forgotten && (!is_lost(scenario, state, i, of) || !rules.has(Rule::RootsAsRead));
        let free = state.revisers[..scenario.revisers]
            .iter()
            .position(Option::is_none);
        if let Some(place) = free
            && is_wanted
            && state.has_room(of)
        {
            let mut next = *state;
            next.revisers[place] = Some(Intent { session, number });
            out.push((Action::ListForRevision { session: i }, next));
        }
        if is_lost(scenario, state, i, of) || !rules.has(Rule::RewriterForgottenLast) {
            let mut next = *state;
            if rules.has(Rule::RevisionSettled) {
                next.revisions_durable.set(of, state.revisions.get(of));
                next.tombs_durable = next.tombs_durable.with(state.tombs.both(Numbers::one(of)));
            }
            next.tombs.add(i);
            if !scenario.loses() {
                next.tombs_durable.add(i);
            }
            out.push((Action::ForgetRewriter { session: i }, next));
        }
    }
    for (place, intent) in state.revisers.iter().enumerate() {
        let Some(Intent { session, number }) = *intent else {
            continue;
        };
        let i = usize::from(session);
        let of = scenario.tasks[i].expect("who rewrites has a task").of();
        let mut next = *state;
        next.revisers[place] = None;
        let taken = state.tombs.has(of) || state.revisions.get(of) >= number;
        if taken || state.dropped.has(of) {
            out.push((Action::LoseRevision { session: i }, next));
            continue;
        }
        if rules.has(Rule::RewriterSettled) {
            next.settled.add(i);
        }
        next.revise(of, scenario.revision_root(state, i, 0));
        if rules.has(Rule::PublishedInSession) {
            next.somebody_runs();
        }
        out.push((
            Action::PutRevision {
                session: i,
                backup: of,
            },
            next,
        ));
    }
}
