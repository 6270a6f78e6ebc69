//! Container LRU: the baseline that forward assembly is measured against [Lillibridge 4.2, figures
//! 2 and 8; L2].
//!
//! References are served in order; a needed container that is not in memory is read whole, and the
//! least recently used ones are dropped until the rest fits. Pure, like [`crate::plan`].

use std::collections::{BTreeMap, HashMap};

use types::ContainerId;

use crate::plan::{Assembler, Fill, From, Next, Place, Reference, Step};

/// References that are served at most by one step: bounds what is handed over at once.
const STEP_BYTES_MAX: u64 = 4 << 20;
const STEP_FILLS_MAX: usize = 4096;

/// Plans by whole containers.
#[derive(Debug)]
pub struct LruPlanner<I, W> {
    references: I,
    /// A container's plain bytes.
    weigh: W,
    memory_bytes: u64,
    /// Kept containers: their bytes, and when they were last used.
    kept: HashMap<ContainerId, (u64, u64)>,
    order: BTreeMap<u64, ContainerId>,
    kept_bytes: u64,
    next_use: u64,
    /// Spots so far.
    spots: u64,
    /// What was told as a spot and is not filled yet.
    waiting: Option<Step>,
    /// What came after it.
    ahead: Option<Reference>,
}

impl<I, W, E> LruPlanner<I, W>
where
    I: Iterator<Item = Result<Reference, E>>,
    W: FnMut(ContainerId) -> u64,
{
    /// Plans with so much memory for whole containers; the last one read is kept whatever it takes.
    /// `weigh` tells a container's plain bytes.
    pub fn new(references: I, memory_bytes: u64, weigh: W) -> Self {
        Self {
            references,
            weigh,
            memory_bytes,
            kept: HashMap::new(),
            order: BTreeMap::new(),
            kept_bytes: 0,
            next_use: 0,
            spots: 0,
            waiting: None,
            ahead: None,
        }
    }

    fn next_reference(&mut self) -> Result<Option<Reference>, E> {
        match self.ahead.take() {
            Some(reference) => Ok(Some(reference)),
            None => self.references.next().transpose(),
        }
    }

    /// Marks the container used, and makes room for it where it is not kept.
    fn using(&mut self, container: ContainerId) -> From {
        let now = self.next_use;
        self.next_use += 1;
        if let Some((_, used)) = self.kept.get_mut(&container) {
            self.order.remove(used);
            self.order.insert(now, container);
            *used = now;
            return From::Kept;
        }
        let bytes = (self.weigh)(container);
        let mut evicted = Vec::new();
        while self.kept_bytes + bytes > self.memory_bytes
            && let Some((_, oldest)) = self.order.pop_first()
        {
            let held = self.kept.remove(&oldest);
            self.kept_bytes -= held.map_or(0, |(bytes, _)| bytes);
            evicted.push(oldest);
        }
        self.kept.insert(container, (bytes, now));
        self.order.insert(now, container);
        self.kept_bytes += bytes;
        From::StorageToKeep { evicted }
    }

    /// The spots that one container serves in a row, zeros among them.
    fn collect(&mut self) -> Result<Vec<Reference>, E> {
        let mut spots = Vec::new();
        let mut step: Option<Step> = None;
        let mut bytes = 0;
        while bytes < STEP_BYTES_MAX && spots.len() < STEP_FILLS_MAX {
            let Some(reference) = self.next_reference()? else {
                break;
            };
            if let Some(part) = reference.chunk {
                let container = part.location.container;
                if step.as_ref().is_some_and(|step| step.container != container) {
                    self.ahead = Some(reference);
                    break;
                }
                if step.is_none() {
                    step = Some(Step {
                        container,
                        from: self.using(container),
                        fills: Vec::new(),
                        filled_below: 0,
                    });
                }
                if let Some(step) = &mut step {
                    step.fills.push(Fill {
                        place: Place::Spot(self.spots),
                        part,
                        len: reference.len,
                    });
                }
                bytes += reference.len;
            }
            self.spots += 1;
            spots.push(reference);
        }
        if let Some(step) = &mut step {
            step.filled_below = self.spots;
        }
        self.waiting = step;
        Ok(spots)
    }
}

impl<I, W, E> Assembler for LruPlanner<I, W>
where
    I: Iterator<Item = Result<Reference, E>>,
    W: FnMut(ContainerId) -> u64,
{
    type Error = E;

    fn next_action(&mut self) -> Result<Option<Next>, E> {
        if let Some(step) = self.waiting.take() {
            return Ok(Some(Next::Step(step)));
        }
        let spots = self.collect()?;
        Ok((!spots.is_empty()).then_some(Next::Spots(spots)))
    }
}
