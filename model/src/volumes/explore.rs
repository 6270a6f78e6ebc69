//! The protocol of volumes, for the search of all its states.

use std::collections::BTreeSet;

use super::action::Action;
use super::properties::{self, Violation, Witness};
use super::rules::Rules;
use super::scenario::Scenario;
use super::state::{Events, State};
use super::{crash, finder, handover, index, interceptor};
use crate::search::{self, Protocol, search};

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
        self.scenario.start()
    }

    fn successors(&self, state: &State, out: &mut Vec<(Action, State)>) {
        out.clear();
        let mut state = *state;
        state.events = Events::default();
        for v in 0..self.scenario.volumes {
            interceptor::steps(self.scenario, self.rules, &state, v, out);
            finder::steps(self.scenario, self.rules, &state, v, out);
            handover::steps(self.scenario, self.rules, &state, v, out);
        }
        handover::takeover(self.scenario, self.rules, &state, out);
        index::steps(self.scenario, self.rules, &state, out);
        crash::steps(self.scenario, self.rules, &state, out);
        for (_, next) in out.iter_mut() {
            next.normalise(self.rules);
        }
    }

    fn violation(&self, state: &State) -> Option<Violation> {
        properties::violation(self.scenario, state)
    }

    fn witnesses(&self) -> Vec<Witness> {
        self.scenario.witnesses.clone()
    }

    fn is_seen(&self, witness: &Witness, state: &State) -> bool {
        properties::is_seen(self.scenario, *witness, state)
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
