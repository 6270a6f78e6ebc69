//! Breadth-first exploration of every state, with a shortest trace to the first violation.
//!
//! A state is remembered by a 64-bit digest; with some 10^8 states the chance that two share one, so that
//! one of them is passed over, is below 10^-3, and another seed makes another choice of which.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::action::Action;
use crate::environment;
use crate::properties::{Violation, Witness, violation};
use crate::reclaimer;
use crate::rules::Rules;
use crate::scenario::Scenario;
use crate::session;
use crate::state::State;

/// What an exploration found.
#[derive(Debug)]
pub struct Outcome {
    /// Distinct states.
    pub states: u64,
    /// Steps followed, those to known states included.
    pub steps: u64,
    /// Length of the longest shortest path.
    pub depth: u32,
    /// The first violation, with the steps that lead to it.
    pub violation: Option<(Violation, Vec<Action>)>,
    /// Witnesses asked for and not seen.
    pub unseen: Vec<Witness>,
    /// False if the limit on states was reached first.
    pub complete: bool,
}

/// Folds bytes, eight at a time, into 64 bits.
struct Digest {
    sum: u64,
    word: u64,
    bytes: u32,
}

impl Digest {
    fn fold(&mut self) {
        let product = u128::from(self.sum ^ self.word) * 0x9e37_79b9_7f4a_7c15_u128;
        let bytes = product.to_le_bytes();
        let half = |at: usize| {
            let mut part = [0; 8];
            part.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(part)
        };
        self.sum = (half(0) ^ half(8))
            .rotate_left(23)
            .wrapping_add(0x2545_f491_4f6c_dd1d);
        self.word = 0;
        self.bytes = 0;
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u8(*byte);
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.word = (self.word << 8) | u64::from(byte);
        self.bytes += 1;
        if self.bytes == 8 {
            self.fold();
        }
    }

    fn write_isize(&mut self, discriminant: isize) {
        self.write_u8(discriminant.to_le_bytes()[0]);
    }

    fn write_usize(&mut self, length: usize) {
        self.write_u8(length.to_le_bytes()[0]);
    }

    fn finish(&self) -> u64 {
        let mut last = Self {
            sum: self.sum,
            word: self.word,
            bytes: self.bytes,
        };
        last.fold();
        last.fold();
        last.sum
    }
}

/// Keys are digests already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn digest(seed: u64, state: &State) -> u64 {
    let mut digest = Digest {
        sum: seed ^ 0x5851_f42d_4c95_7f2d,
        word: 0,
        bytes: 0,
    };
    state.hash(&mut digest);
    digest.finish()
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
    let mut known: HashSet<u64, BuildHasherDefault<Same>> = HashSet::default();
    // For each state in the order found: who found it, and by which of its steps.
    let mut origins: Vec<(u32, u16)> = vec![(0, 0)];
    let mut unseen = scenario.witnesses.clone();
    let mut start = scenario.start();
    environment::normalise(scenario, &mut start);
    known.insert(digest(seed, &start));
    let mut outcome = Outcome {
        states: 1,
        steps: 0,
        depth: 0,
        violation: None,
        unseen: Vec::new(),
        complete: true,
    };
    let mut level = vec![start];
    let mut first_of_level = 0_u32;
    let mut steps = Vec::new();
    'levels: while !level.is_empty() {
        let mut next_level = Vec::new();
        let next_first = number(origins.len());
        for (place, state) in level.iter().enumerate() {
            successors(scenario, rules, state, &mut steps);
            outcome.steps += steps.len() as u64;
            for (ordinal, (_, next)) in steps.iter().enumerate() {
                if !known.insert(digest(seed, next)) {
                    continue;
                }
                let origin = first_of_level + number(place);
                origins.push((
                    origin,
                    u16::try_from(ordinal).expect("few steps lead from a state"),
                ));
                unseen.retain(|witness| !witness.seen(scenario, next));
                if let Some(violation) = violation(scenario, rules, next) {
                    let trace = replay(scenario, rules, &origins);
                    outcome.violation = Some((violation, trace));
                    outcome.depth += 1;
                    break 'levels;
                }
                next_level.push(*next);
            }
            if origins.len() as u64 >= limit {
                outcome.complete = false;
                break 'levels;
            }
        }
        outcome.depth += u32::from(!next_level.is_empty());
        first_of_level = next_first;
        level = next_level;
    }
    outcome.states = origins.len() as u64;
    outcome.unseen = unseen;
    outcome
}

fn number(place: usize) -> u32 {
    u32::try_from(place).expect("memory ends before the numbers of states do")
}

/// The steps that lead to the state found last.
fn replay(scenario: &Scenario, rules: Rules, origins: &[(u32, u16)]) -> Vec<Action> {
    let mut ordinals = Vec::new();
    let mut at = origins.len() - 1;
    while at != 0 {
        let (from, ordinal) = origins[at];
        ordinals.push(usize::from(ordinal));
        at = usize::try_from(from).expect("a place in memory");
    }
    let mut state = scenario.start();
    environment::normalise(scenario, &mut state);
    let mut trace = Vec::new();
    let mut steps = Vec::new();
    for ordinal in ordinals.into_iter().rev() {
        successors(scenario, rules, &state, &mut steps);
        let (action, next) = steps[ordinal];
        trace.push(action);
        state = next;
    }
    trace
}

/// How often each kind of step occurs in the states of a scenario: none may be dead.
#[must_use]
pub fn step_kinds(scenario: &Scenario, rules: Rules, limit: u64) -> HashMap<String, u64> {
    let mut kinds = HashMap::new();
    let mut known: HashSet<u64, BuildHasherDefault<Same>> = HashSet::default();
    let mut start = scenario.start();
    environment::normalise(scenario, &mut start);
    let mut open = vec![start];
    let mut steps = Vec::new();
    while let Some(state) = open.pop() {
        successors(scenario, rules, &state, &mut steps);
        for (action, next) in &steps {
            let text = format!("{action:?}");
            let kind = text.split([' ', '{']).next().unwrap_or_default().to_owned();
            *kinds.entry(kind).or_insert(0) += 1;
            if known.insert(digest(0, next)) && (known.len() as u64) < limit {
                open.push(*next);
            }
        }
    }
    kinds
}
