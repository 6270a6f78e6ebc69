//! Counts the reads of restores, by planners over a simulated recipe: the engine's own, and those
//! for comparison.

use std::convert::Infallible;

use restore::belady::AheadPlanner;
use restore::plan::{ChunkPart, Next, Reference};

use super::Store;
use super::area::AreaPlanner;
use super::assembly::Assembly;
use super::containers::At;
use super::lru::LruPlanner;
use super::recipe::{Part, Recipe};
use crate::error::SimulateError;

/// How a restore uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of the assembly area, or of the kept containers.
    pub bytes: u64,
    /// How they are used.
    pub assembly: Assembly,
}

/// The reads of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// The memory of the restore.
    pub memory: Memory,
    /// Containers read. Each read counts.
    pub containers_read: u64,
    /// Bytes restored, zeros not counted.
    pub bytes: u64,
}

impl Restored {
    /// Containers read for each MiB: how fragmented the backup is for this memory [Lillibridge 2].
    /// `None` if nothing is restored.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
    pub fn containers_a_mib(&self) -> Option<f64> {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        (self.bytes > 0).then(|| self.containers_read as f64 / mib)
    }

    /// MiB restored for each container read [Lillibridge 4.1]: the higher, the faster. `None` if
    /// nothing is read.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
    pub fn speed_factor(&self) -> Option<f64> {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        (self.containers_read > 0).then(|| mib / self.containers_read as f64)
    }
}

/// Counts the reads of a backup's restores. Calls `poll` now and then, and returns its error.
pub(super) fn restore(
    store: &Store,
    recipe: &Recipe,
    memory: Memory,
    poll: &dyn Fn() -> Result<(), SimulateError>,
) -> Result<Restored, SimulateError> {
    let references = polled(references(store, recipe), poll);
    let bytes = memory.bytes;
    let containers_read = match memory.assembly {
        Assembly::Rolling | Assembly::Fixed => {
            let is_rolling = memory.assembly == Assembly::Rolling;
            let mut planner = AreaPlanner::new(references, is_rolling, bytes);
            count(|| Ok(planner.next_read()?.map(|_| 1)))
        }
        Assembly::Lru => {
            let slot = store.slot_bytes();
            let mut planner = LruPlanner::new(references, bytes, |_| slot);
            count(|| Ok(planner.next_read()?.map(|_| 1)))
        }
        Assembly::LookAhead => {
            let mut planner = AheadPlanner::new(references, bytes);
            count(|| {
                let next = planner.next_action()?;
                Ok(next.map(|next| u64::from(matches!(next, Next::Step(_)))))
            })
        }
    }?;
    Ok(Restored {
        memory,
        containers_read,
        bytes: recipe.bytes,
    })
}

/// A stretch of the stream with one location.
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

/// The sum of the values of `next` until its end.
fn count(mut next: impl FnMut() -> Result<Option<u64>, SimulateError>) -> Result<u64, SimulateError> {
    std::iter::from_fn(|| next().transpose()).sum()
}

/// The number of references between two polls.
const POLL_REFERENCES: u32 = 1 << 12;

/// The references. Each error of `poll` appears between them.
fn polled<'a>(
    references: impl Iterator<Item = Result<Reference, Infallible>> + 'a,
    poll: &'a dyn Fn() -> Result<(), SimulateError>,
) -> impl Iterator<Item = Result<Reference, SimulateError>> + 'a {
    let mut passed = 0_u32;
    references.map(move |Ok(reference)| {
        passed = passed.wrapping_add(1);
        if passed.is_multiple_of(POLL_REFERENCES) {
            poll()?;
        }
        Ok(reference)
    })
}
