//! The state of disks after a power cut.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use super::content::{Block, Content, PART_BYTES};
use super::history::History;
use crate::block::device::BLOCK_LEN;

/// Which bytes that no flush covers survive a power cut. Each block of each disk is decided on its
/// own: a later write may survive where an earlier one did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerCut {
    /// All written bytes survive.
    KeepAll,
    /// Each block has its bytes of the last flush.
    DropAll,
    /// Each block has every second part of 512 bytes as it was written last, and the others as they
    /// were at the last flush. Lengths are those of the last write.
    TearAll,
    /// The seed chooses for each block: it has its bytes of the last flush, or those of any write
    /// since.
    Whole(u64),
    /// The same, and some blocks are torn: each part of 512 bytes is of any of these writes.
    Seeded(u64),
}

/// Decides disk by disk and block by block, in their order.
#[derive(Debug)]
pub(super) enum Judge {
    Policy {
        policy: PowerCut,
        random: Box<ChaCha8Rng>,
        mood: Mood,
    },
    /// The number of the state for each choice, the last one first.
    Chosen(Vec<usize>),
}

/// What a seed prefers, for a whole power cut. With fair choices alone, all blocks but one would
/// never survive.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mood {
    Fair,
    MostlyLast,
    MostlyDurable,
}

impl Judge {
    pub(super) fn new(policy: PowerCut) -> Self {
        let seed = match policy {
            PowerCut::Whole(seed) | PowerCut::Seeded(seed) => seed,
            _ => 0,
        };
        let mut random = Box::new(ChaCha8Rng::seed_from_u64(seed));
        let mood = match below(&mut random, 3) {
            0 => Mood::Fair,
            1 => Mood::MostlyLast,
            _ => Mood::MostlyDurable,
        };
        Self::Policy { policy, random, mood }
    }

    pub(super) fn len(&mut self, history: &History<u64>) -> u64 {
        match self {
            Self::Chosen(picks) => *history.distinct()[next(picks)],
            Self::Policy { policy, random, mood } => {
                let states = history.states();
                match policy {
                    PowerCut::KeepAll | PowerCut::TearAll => *history.live(),
                    PowerCut::DropAll => *states[0],
                    PowerCut::Whole(_) | PowerCut::Seeded(_) => *states[mood.pick(random, states.len())],
                }
            }
        }
    }

    pub(super) fn block(
        &mut self,
        history: &History<Content>,
        read: impl Fn(&Content, &mut [u8]),
    ) -> Content {
        match self {
            Self::Chosen(picks) => history.distinct()[next(picks)].clone(),
            Self::Policy { policy, random, mood } => {
                let states = history.states();
                let last = states.len() - 1;
                match policy {
                    PowerCut::KeepAll => history.live().clone(),
                    PowerCut::DropAll => states[0].clone(),
                    PowerCut::TearAll => tear(&states, read, |part| if part % 2 == 0 { last } else { 0 }),
                    PowerCut::Seeded(_) if below(random, 4) == 0 => {
                        tear(&states, read, |_| below(random, states.len()))
                    }
                    PowerCut::Whole(_) | PowerCut::Seeded(_) => {
                        states[mood.pick(random, states.len())].clone()
                    }
                }
            }
        }
    }
}

impl Mood {
    /// The number of a state, of so many.
    fn pick(self, random: &mut ChaCha8Rng, states: usize) -> usize {
        let is_usual = below(random, 8) > 0;
        match self {
            Self::MostlyLast if is_usual => states - 1,
            Self::MostlyDurable if is_usual => 0,
            _ => below(random, states),
        }
    }
}

/// A block whose parts are of several states. `pick` gives the number of the state of each part.
fn tear(
    states: &[&Content],
    read: impl Fn(&Content, &mut [u8]),
    mut pick: impl FnMut(usize) -> usize,
) -> Content {
    let (mut torn, mut whole): (Block, Block) = ([0; BLOCK_LEN], [0; BLOCK_LEN]);
    for (part, out) in torn.chunks_mut(PART_BYTES).enumerate() {
        read(states[pick(part)], &mut whole);
        let at = part * PART_BYTES;
        out.copy_from_slice(&whole[at..at + out.len()]);
    }
    Content::Bytes(Arc::new(torn))
}

fn next(picks: &mut Vec<usize>) -> usize {
    picks.pop().expect("there is a pick for every choice")
}

fn below(random: &mut ChaCha8Rng, bound: usize) -> usize {
    let draw = random.next_u64() % bound.max(1) as u64;
    usize::try_from(draw).expect("it is less than a usize")
}
