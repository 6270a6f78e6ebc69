//! What a reclaimer computes: the dead slots of an epoch, what is live at its end, the marks after
//! it.

use crate::archival::{List, behind_live, kept};
use crate::rules::{Rule, Rules};
use crate::scenario::Scenario;
use crate::slots::{Numbers, Slots};
use crate::state::{Condemned, Content, Ending, Marks, Reclaimer, SESSIONS, Stage, State};

/// Lists manifests, marks, and computes what to condemn.
pub(crate) fn read_marks(scenario: &Scenario, rules: Rules, state: &mut State, by: usize) {
    let mut marks = Marks {
        epoch: state.reclaimers[by].epoch,
        ..Marks::default()
    };
    let mut sweep = state.marks.owed;
    let me = state.reclaimers[by];
    let mut list = List::now(state);
    if me.stage == Stage::HalfRead && list.commits.has(0) {
        let seen = me.condemned.marks;
        list.revisions.set(0, seen.revisions.get(0));
        list.forgotten.remove(0);
        list.forgotten = list.forgotten.with(seen.forgotten);
    }
    let wanted_anyway = kept(scenario, Rules::all(), state, &list);
    let mut kept = kept(scenario, rules, state, &list);
    if !rules.has(Rule::KeptAnew) {
        kept = kept.without(state.marks.forgotten).with(state.marks.kept);
    }
    let mut wanted = Slots::NONE;
    for backup in list.commits.each() {
        marks.covered.add(backup);
        let number = list.revisions.get(backup);
        marks.revisions.set(backup, number);
        let root = scenario.revision_root(state, backup, number);
        if !list.forgotten.has(backup) {
            marks.reached |= root;
        } else if kept.has(backup) {
            marks.kept.add(backup);
            marks.reached |= root;
        } else {
            marks.forgotten.add(backup);
        }
        if !list.forgotten.has(backup) || wanted_anyway.has(backup) {
            wanted |= root;
        }
        if !state.marks.covered.has(backup) {
            sweep |= written_by(scenario, rules, state, backup);
        }
    }
    if rules.has(Rule::SweepExpired) {
        for old in (0..SESSIONS).filter(|&s| state.endings[s] == Ending::Expired) {
            sweep |= written_by(scenario, rules, state, old);
        }
    }
    sweep |= scenario.whole_containers(state.marks.reached - marks.reached);
    for lost in state.marks.missing.each() {
        sweep |= if rules.has(Rule::MissingSweepsAll) {
            scenario.owns.iter().fold(Slots::NONE, |all, owned| all | *owned)
        } else {
            written_by(scenario, rules, state, lost)
        };
    }
    if rules.has(Rule::SweepLatePuts) {
        for old in 0..SESSIONS {
            if matches!(state.endings[old], Ending::Adopted { by, .. }
                if state.has_ended(state.last_adopter(usize::from(by))))
            {
                sweep |= scenario.owns[old];
            }
        }
    }
    if rules.has(Rule::SweepLeftovers) {
        for epoch in &state.epochs {
            if let Some(condemned) = epoch.condemned {
                sweep |= condemned.dead - epoch.removed.unwrap_or_default();
            }
        }
    }
    let dead = (sweep & state.live) - marks.reached;
    let quiet = scenario
        .running
        .each()
        .all(|s| state.has_ended(s) || !state.created.has(s));
    let leaks = scenario.judges_leaks && quiet && !(state.live - wanted).within(dead);
    if !rules.has(Rule::MarksAfterRemoved) {
        state.marks = Marks {
            epoch: state.marks.epoch,
            ..marks
        };
    }
    let running = running(state);
    let me = &mut state.reclaimers[by];
    me.condemned = Condemned { dead, marks };
    me.leaks = leaks;
    me.stage = Stage::Marked;
    if !rules.has(Rule::CondemnThenList) {
        me.wait = running;
    }
}

/// Slots in the containers of `session`, and of those it adopted.
pub(crate) fn written_by(scenario: &Scenario, rules: Rules, state: &State, session: usize) -> Slots {
    let mut slots = scenario.owns[session];
    if rules.has(Rule::SweepAdopted) {
        for old in 0..SESSIONS {
            if matches!(state.endings[old], Ending::Adopted { by, .. }
                if state.last_adopter(usize::from(by)) == session)
            {
                slots |= scenario.owns[old];
            }
        }
    }
    slots
}

/// Sessions that a listing shows and that have no ending.
pub(crate) fn running(state: &State) -> Numbers {
    let mut running = Numbers::NONE;
    for s in state.created.each().filter(|&s| !state.has_ended(s)) {
        running.add(s);
    }
    running
}

/// What the checkpoints of the sessions waited for keep alive.
pub(crate) fn checkpoints_live(scenario: &Scenario, rules: Rules, state: &State, me: &Reclaimer) -> Slots {
    me.wait
        .each()
        .filter_map(|s| state.checkpoints[s])
        .fold(Slots::NONE, |live, checkpoint| {
            let ever = if rules.has(Rule::AllCheckpointsRead) {
                checkpoint.ever
            } else {
                Slots::NONE
            };
            live | state.closure(ever) | content_live(scenario, rules, state, &checkpoint.content)
        })
}

fn content_live(scenario: &Scenario, rules: Rules, state: &State, content: &Content) -> Slots {
    state.closure(content.refs) | scenario.marked_pins(rules, state, content.pins)
}

/// Which manifests a step lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Whole,
    First,
    Rest,
}

/// The manifests that a listing in two steps shows first: those of the later sessions, so that an
/// adoption is seen after the adopter.
pub(crate) const FIRST_LISTED: Numbers = Numbers::one(2).with(Numbers::one(3));

impl Part {
    const fn lists(self, session: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::First => FIRST_LISTED.has(session),
            Self::Rest => !FIRST_LISTED.has(session),
        }
    }
}

/// What manifests, listed now, keep alive beyond the marks that the epoch was computed from.
pub(crate) fn manifests_live(
    scenario: &Scenario,
    rules: Rules,
    state: &State,
    me: &Reclaimer,
    part: Part,
) -> Slots {
    let covered = if rules.has(Rule::CoveredByNamedMarks) {
        me.condemned.marks.covered
    } else {
        state.marks.covered.with(me.condemned.marks.covered)
    };
    let mut live = Slots::NONE;
    let list = List::now(state);
    let newer = |b: usize| {
        rules.has(Rule::RevisionsCovered) && list.revisions.get(b) > me.condemned.marks.revisions.get(b)
    };
    for backup in state
        .commits()
        .filter(|&b| part.lists(b) && (!covered.has(b) || newer(b)))
    {
        if state.tombs.has(backup) && !rules.has(Rule::UncoveredEvenForgotten) {
            continue;
        }
        live |= scenario.revision_root(state, backup, list.revisions.get(backup));
        live |= behind_live(scenario, rules, state, &list, backup);
        let written = state.named(backup);
        let own = written & scenario.owns[backup];
        if rules.has(Rule::UncoveredAllNodes) {
            live |= state.closure(own);
        }
        if rules.has(Rule::UncoveredAdoptedNodes) {
            live |= state.closure(written - own);
        }
    }
    if rules.has(Rule::AdoptionMarked) {
        for old in (0..SESSIONS).filter(|&s| part.lists(s)) {
            let Ending::Adopted { by, checkpoint } = state.endings[old] else {
                continue;
            };
            let adopter = if rules.has(Rule::LastAdopter) {
                state.last_adopter(usize::from(by))
            } else {
                usize::from(by)
            };
            // What the first part of the listing did not show is not looked up again.
            let ended = if part == Part::Rest && FIRST_LISTED.has(adopter) && rules.has(Rule::OneListing) {
                me.ended.has(adopter)
            } else {
                state.has_ended(adopter)
            };
            if !ended {
                live |= content_live(scenario, rules, state, &checkpoint);
            }
        }
    }
    live
}

/// Publishes the marks that the epoch was computed from: with this it is finished.
pub(crate) fn replace_marks(scenario: &Scenario, rules: Rules, state: &mut State, by: usize) {
    let me = state.reclaimers[by];
    state.durable -= me.list - me.skip;
    state.reclaimers[by] = me.idle();
    if state.marks.epoch >= me.epoch {
        return;
    }
    state.marks = me.condemned.marks;
    if !rules.has(Rule::MarksExactlyThose) {
        let mut marks = Marks {
            reached: Slots::NONE,
            ..state.marks
        };
        for backup in state.commits() {
            marks.covered.add(backup);
            if state.tombs.has(backup) {
                marks.forgotten.add(backup);
            } else {
                marks.reached |= scenario.root(state, backup);
            }
        }
        state.marks = marks;
    }
}
