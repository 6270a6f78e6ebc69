//! The protocol of sessions and reclamation, for the search of all its states.

use std::collections::BTreeSet;

use crate::action::Action;
use crate::environment;
use crate::properties::{self, Violation, Witness};
use crate::reclaimer;
use crate::rules::Rules;
use crate::scenario::Scenario;
use crate::search::{self, Protocol, search};
use crate::session;
use crate::state::State;

/// What an exploration found.
pub type Outcome = search::Outcome<Action, Violation, Witness>;

/// One scenario under some rules.
struct Bounded<'a> {
    scenario: &'a Scenario,
    rules: Rules,
}

impl Protocol for Bounded<'_> {
    type State = State;
    type Action = Action;
    type Violation = Violation;
    type Witness = Witness;

    fn start(&self) -> State {
        let mut start = self.scenario.start();
        environment::normalise(self.scenario, &mut start);
        start
    }

    fn successors(&self, state: &State, out: &mut Vec<(Action, State)>) {
        successors(self.scenario, self.rules, state, out);
    }

    fn violation(&self, state: &State) -> Option<Violation> {
        properties::violation(self.scenario, self.rules, state)
    }

    fn witnesses(&self) -> Vec<Witness> {
        self.scenario.witnesses.clone()
    }

    fn is_seen(&self, witness: &Witness, state: &State) -> bool {
        witness.seen(self.scenario, state)
    }
}

/// Every state that one step leads to.
pub fn successors(scenario: &Scenario, rules: Rules, state: &State, out: &mut Vec<(Action, State)>) {
    out.clear();
    for i in scenario.running.each() {
        session::steps(scenario, rules, state, i, out);
    }
    for by in 0..scenario.reclaimers {
        if by > 0 && state.reclaimers[by] == state.reclaimers[by - 1] {
            continue;
        }
        reclaimer::steps(scenario, rules, state, by, out);
    }
    reclaimer::housekeeping(scenario, rules, state, out);
    environment::steps(scenario, rules, state, out);
    for (_, next) in out.iter_mut() {
        environment::normalise(scenario, next);
    }
}

/// Explores `scenario` under `rules` until a violation, the end, or `limit` states.
#[must_use]
pub fn explore(scenario: &Scenario, rules: Rules, limit: u64, seed: u64) -> Outcome {
    search(&Bounded { scenario, rules }, limit, seed)
}

/// The kinds of steps that a scenario takes.
#[must_use]
pub fn step_kinds(scenario: &Scenario, rules: Rules) -> BTreeSet<String> {
    search::step_kinds(&Bounded { scenario, rules })
}
