//! Breadth-first search of every state of a protocol, with a shortest trace to the first violation.
//!
//! A state is remembered by a 64-bit digest; with some 10^8 states the chance that two share one,
//! so that one of them is passed over, is below 10^-3, and another seed makes another choice of
//! which. The protocols of this crate share the search; each brings its states and steps.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// States, steps and properties of one protocol within one scenario's bounds.
pub trait Protocol {
    /// A state, whole.
    type State: Copy + Eq + Hash;
    /// One step.
    type Action: Copy + Debug;
    /// A property that a state violates.
    type Violation: Debug;
    /// An event that must be seen.
    type Witness: Clone;

    /// The state at the start.
    fn start(&self) -> Self::State;
    /// Every state that one step leads to, replacing what `out` held.
    fn successors(&self, state: &Self::State, out: &mut Vec<(Self::Action, Self::State)>);
    /// The first property that `state` violates.
    fn violation(&self, state: &Self::State) -> Option<Self::Violation>;
    /// Events that some state must show.
    fn witnesses(&self) -> Vec<Self::Witness>;
    /// Whether `state` shows `witness`.
    fn is_seen(&self, witness: &Self::Witness, state: &Self::State) -> bool;
}

/// What a search found.
#[derive(Debug)]
pub struct Outcome<A, V, W> {
    /// Distinct states.
    pub states: u64,
    /// Steps followed, those to known states included.
    pub steps: u64,
    /// Length of the longest shortest path.
    pub depth: u32,
    /// The first violation, with the steps that lead to it.
    pub violation: Option<(V, Vec<A>)>,
    /// Witnesses asked for and not seen.
    pub unseen: Vec<W>,
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

fn digest<S: Hash>(seed: u64, state: &S) -> u64 {
    let mut digest = Digest {
        sum: seed ^ 0x5851_f42d_4c95_7f2d,
        word: 0,
        bytes: 0,
    };
    state.hash(&mut digest);
    digest.finish()
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

/// Searches `protocol` until a violation, the end, or `limit` states.
#[must_use]
pub fn search<P: Protocol>(
    protocol: &P,
    limit: u64,
    seed: u64,
) -> Outcome<P::Action, P::Violation, P::Witness> {
    let mut known: HashSet<u64, BuildHasherDefault<Same>> = HashSet::default();
    let mut origins = Origins::new();
    origins.push((0, 0));
    let mut unseen = protocol.witnesses();
    let start = protocol.start();
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
                protocol.successors(state, &mut steps);
                outcome.steps += steps.len() as u64;
                for (ordinal, (_, next)) in steps.iter().enumerate() {
                    // A step to a known state may show what the first step to it did not.
                    unseen.retain(|witness| !protocol.is_seen(witness, next));
                    if !known.insert(digest(seed, next)) {
                        continue;
                    }
                    origins.push((
                        origin,
                        u16::try_from(ordinal).expect("few steps lead from a state"),
                    ));
                    if let Some(violation) = protocol.violation(next) {
                        outcome.violation = Some((violation, replay(protocol, &origins)));
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

/// The steps that lead to the state found last.
fn replay<P: Protocol>(protocol: &P, origins: &Origins) -> Vec<P::Action> {
    let mut ordinals = Vec::new();
    let mut at = origins.len - 1;
    while at != 0 {
        let (from, ordinal) = *origins.get(at);
        ordinals.push(usize::from(ordinal));
        at = usize::try_from(from).expect("a place in memory");
    }
    let mut state = protocol.start();
    let mut trace = Vec::new();
    let mut steps = Vec::new();
    for ordinal in ordinals.into_iter().rev() {
        protocol.successors(&state, &mut steps);
        let (action, next) = steps[ordinal];
        trace.push(action);
        state = next;
    }
    trace
}

/// The kinds of steps that a protocol takes.
#[must_use]
pub fn step_kinds<P: Protocol>(protocol: &P) -> BTreeSet<String> {
    let mut kinds = HashSet::new();
    let mut names = BTreeSet::new();
    let mut known: HashSet<u64, BuildHasherDefault<Same>> = HashSet::default();
    let mut open = vec![protocol.start()];
    let mut steps = Vec::new();
    while let Some(state) = open.pop() {
        protocol.successors(&state, &mut steps);
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
