//! What restores read: the engine's planners over a simulated recipe.

use std::convert::Infallible;

use restore::belady::AheadPlanner;
use restore::lru::LruPlanner;
use restore::plan::{Assembler, Assembly, ChunkPart, Next, Planner, Reference};

use super::Store;
use super::containers::At;
use super::recipe::{Part, Recipe};
use crate::error::SimulateError;

/// How a restore uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of the assembly area, or of the containers kept.
    pub bytes: u64,
    /// How they are used.
    pub assembly: Assembly,
}

/// What a restore reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// With this memory.
    pub memory: Memory,
    /// Containers that are read, each time counted.
    pub containers_read: u64,
    /// Bytes restored, zeros not counted.
    pub bytes: u64,
}

impl Restored {
    /// Containers read for each MiB: how fragmented the backup is for this memory [Lillibridge 2].
    /// None where nothing is restored.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
    pub fn containers_a_mib(&self) -> Option<f64> {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        (self.bytes > 0).then(|| self.containers_read as f64 / mib)
    }

    /// MiB restored for each container read [Lillibridge 4.1]: the higher, the faster. None where
    /// nothing is read.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
    pub fn speed_factor(&self) -> Option<f64> {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        (self.containers_read > 0).then(|| mib / self.containers_read as f64)
    }
}

/// What restoring a backup reads. `poll` is called now and then, and what it fails with is passed
/// on.
pub(super) fn restore(
    store: &Store,
    recipe: &Recipe,
    memory: Memory,
    poll: &dyn Fn() -> Result<(), SimulateError>,
) -> Result<Restored, SimulateError> {
    let containers_read = match memory.assembly {
        assembly @ (Assembly::Rolling | Assembly::Fixed) => {
            let references = references(store, recipe);
            reads(Planner::new(references, assembly, memory.bytes), poll)?
        }
        Assembly::Lru => {
            let slot = store.slot_bytes();
            reads(
                LruPlanner::new(references(store, recipe), memory.bytes, |_| slot),
                poll,
            )?
        }
        Assembly::LookAhead => reads(AheadPlanner::new(references(store, recipe), memory.bytes), poll)?,
    };
    Ok(Restored {
        memory,
        containers_read,
        bytes: recipe.bytes,
    })
}

/// A stretch of the stream that lies in one place.
enum Stretch {
    Zeros(u64),
    Run { first: At, count: u32 },
}

pub(super) fn references<'a>(
    store: &'a Store,
    recipe: &'a Recipe,
) -> impl Iterator<Item = Result<Reference, Infallible>> + 'a {
    let stretches = recipe.parts.iter().flat_map(move |part| {
        let (own, node) = match *part {
            Part::Zeros { len } => (Some(Stretch::Zeros(len)), None),
            Part::Run { first, count } => (Some(Stretch::Run { first, count }), None),
            Part::Node(number) => (None, Some(store.stretches_of(number))),
        };
        own.into_iter().chain(node.into_iter().flatten())
    });
    stretches.flat_map(move |stretch| {
        let (first, slots, zeros) = match stretch {
            Stretch::Zeros(len) => (None, 0..1, len),
            Stretch::Run { first, count } => (Some(first), first.slot..first.slot + count, 0),
        };
        slots.map(move |slot| {
            let Some(first) = first else {
                return Ok(Reference {
                    chunk: None,
                    len: zeros,
                });
            };
            let at = At { slot, ..first };
            let held = store.containers().held(at);
            let len = u64::from(held.len);
            Ok(Reference {
                chunk: Some(ChunkPart {
                    location: store.containers().location(at),
                    fingerprint: held.fingerprint,
                    chunk_len: len,
                    skip: 0,
                }),
                len,
            })
        })
    })
}

impl Store {
    fn stretches_of(&self, node: u32) -> impl Iterator<Item = Stretch> {
        use format::node::NodeEntry;
        let node = self.node(node).into_iter();
        node.flat_map(|node| {
            node.entries.iter().filter_map(|entry| match *entry {
                NodeEntry::Zeros { len } => Some(Stretch::Zeros(len)),
                NodeEntry::Run {
                    container,
                    first,
                    count,
                    ..
                } => {
                    let first = At {
                        container: self.containers().number(container)?,
                        slot: first.get(),
                    };
                    Some(Stretch::Run { first, count })
                }
                NodeEntry::Forward { .. } => None,
            })
        })
    }
}

/// Steps between two polls.
const POLL_STEPS: u32 = 1 << 10;

fn reads(
    mut assembler: impl Assembler<Error = Infallible>,
    poll: &dyn Fn() -> Result<(), SimulateError>,
) -> Result<u64, SimulateError> {
    let (mut reads, mut steps) = (0, 0_u32);
    loop {
        match assembler.next_action() {
            Ok(Some(Next::Step(step))) => reads += u64::from(step.is_read()),
            Ok(Some(Next::Spots(_) | Next::Uses(_))) => {}
            Ok(None) => return Ok(reads),
        }
        steps = steps.wrapping_add(1);
        if steps.is_multiple_of(POLL_STEPS) {
            poll()?;
        }
    }
}
