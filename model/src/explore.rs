//! Breadth-first exploration of every state, with a shortest trace to the first violation.
//!
//! A state is remembered by a 64-bit digest; with some 10^8 states the chance that two share one,
//! so that one of them is passed over, is below 10^-3, and another seed makes another choice of
//! which.

use std::collections::{BTreeSet, HashSet, VecDeque};
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

/// A growing list that never moves what it holds, and can give back its front block by block.
struct Blocks<T> {
    blocks: VecDeque<Vec<T>>,
    len: usize,
}

/// Items of a block: small against memory, large against the cost of a block.
const BLOCK_ITEMS: usize = 1 << 16;

impl<T> Blocks<T> {
    const fn new() -> Self {
        Self {
            blocks: VecDeque::new(),
            len: 0,
        }
    }

    fn push(&mut self, item: T) {
        if self.len.is_multiple_of(BLOCK_ITEMS) {
            self.blocks.push_back(Vec::with_capacity(BLOCK_ITEMS));
        }
        self.blocks
            .back_mut()
            .expect("a block has just been pushed")
            .push(item);
        self.len += 1;
    }

    fn get(&self, place: usize) -> &T {
        &self.blocks[place / BLOCK_ITEMS][place % BLOCK_ITEMS]
    }
}

/// For each state in the order found: which one led to it, and by which of its steps.
type Origins = Blocks<(u32, u16)>;

/// Explores `scenario` under `rules` until a violation, the end, or `limit` states.
#[must_use]
pub fn explore(scenario: &Scenario, rules: Rules, limit: u64, seed: u64) -> Outcome {
    let mut known: HashSet<u64, BuildHasherDefault<Same>> = HashSet::default();
    let mut origins = Origins::new();
    origins.push((0, 0));
    let mut unseen = scenario.witnesses.clone();
    let start = start(scenario);
    known.insert(digest(seed, &start));
    let mut outcome = Outcome {
        states: 1,
        steps: 0,
        depth: 0,
        violation: None,
        unseen: Vec::new(),
        complete: true,
    };
    let mut level = Blocks::new();
    level.push(start);
    let mut origin = 0_u32;
    let mut steps = Vec::new();
    'levels: while level.len > 0 {
        let mut next_level = Blocks::new();
        // Blocks are given back as they are done with: two levels at once are most of the memory.
        while let Some(block) = level.blocks.pop_front() {
            for state in &block {
                successors(scenario, rules, state, &mut steps);
                outcome.steps += steps.len() as u64;
                for (ordinal, (_, next)) in steps.iter().enumerate() {
                    if !known.insert(digest(seed, next)) {
                        continue;
                    }
                    origins.push((
                        origin,
                        u16::try_from(ordinal).expect("few steps lead from a state"),
                    ));
                    unseen.retain(|witness| !witness.seen(scenario, next));
                    if let Some(violation) = violation(scenario, rules, next) {
                        outcome.violation = Some((violation, replay(scenario, rules, &origins)));
                        outcome.depth += 1;
                        break 'levels;
                    }
                    next_level.push(*next);
                }
                origin = origin
                    .checked_add(1)
                    .expect("memory ends before the numbers of states do");
            }
            if origins.len as u64 >= limit {
                outcome.complete = false;
                break 'levels;
            }
        }
        outcome.depth += u32::from(next_level.len > 0);
        level = next_level;
    }
    outcome.states = origins.len as u64;
    outcome.unseen = unseen;
    outcome
}

fn start(scenario: &Scenario) -> State {
    let mut start = scenario.start();
    environment::normalise(scenario, &mut start);
    start
}

/// The steps that lead to the state found last.
fn replay(scenario: &Scenario, rules: Rules, origins: &Origins) -> Vec<Action> {
    let mut ordinals = Vec::new();
    let mut at = origins.len - 1;
    while at != 0 {
        let (from, ordinal) = *origins.get(at);
        ordinals.push(usize::from(ordinal));
        at = usize::try_from(from).expect("a place in memory");
    }
    let mut state = start(scenario);
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

/// The kinds of steps that a scenario takes.
#[must_use]
pub fn step_kinds(scenario: &Scenario, rules: Rules) -> BTreeSet<String> {
    let mut kinds = HashSet::new();
    let mut names = BTreeSet::new();
    let mut known: HashSet<u64, BuildHasherDefault<Same>> = HashSet::default();
    let mut open = vec![start(scenario)];
    let mut steps = Vec::new();
    while let Some(state) = open.pop() {
        successors(scenario, rules, &state, &mut steps);
        for (action, next) in &steps {
            if kinds.insert(std::mem::discriminant(action)) {
                let text = format!("{action:?}");
                names.insert(text.split_whitespace().next().unwrap_or_default().to_owned());
            }
            if known.insert(digest(0, next)) {
                open.push(*next);
            }
        }
    }
    names
}
