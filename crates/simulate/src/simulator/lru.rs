//! Container LRU: the baseline of forward assembly [Lillibridge 4.2, figures 2 and 8; L2].
//!
//! References are served in order. The planner reads a needed container that is not in memory as a
//! whole. It drops the least recently used ones until the rest fits.

use std::collections::{BTreeMap, HashMap};

use restore::plan::Reference;
use types::ContainerId;

/// Plans reads of whole containers.
#[derive(Debug)]
pub(super) struct LruPlanner<I, W> {
    references: I,
    /// Returns a container's plain bytes.
    weigh: W,
    memory_bytes: u64,
    /// Kept containers: their bytes, and when they were last used.
    kept: HashMap<ContainerId, (u64, u64)>,
    order: BTreeMap<u64, ContainerId>,
    kept_bytes: u64,
    next_use: u64,
}

impl<I, W, E> LruPlanner<I, W>
where
    I: Iterator<Item = Result<Reference, E>>,
    W: FnMut(ContainerId) -> u64,
{
    /// Plans with `memory_bytes` for whole containers. The last container read is always kept.
    /// `weigh` returns a container's plain bytes.
    pub(super) fn new(references: I, memory_bytes: u64, weigh: W) -> Self {
        Self {
            references,
            weigh,
            memory_bytes,
            kept: HashMap::new(),
            order: BTreeMap::new(),
            kept_bytes: 0,
            next_use: 0,
        }
    }

    /// The next container to read; `None` at the end.
    pub(super) fn next_read(&mut self) -> Result<Option<ContainerId>, E> {
        while let Some(reference) = self.references.next().transpose()? {
            let container = reference.chunk.map(|part| part.location.container);
            if let Some(container) = container.filter(|container| !self.is_kept(*container)) {
                return Ok(Some(container));
            }
        }
        Ok(None)
    }

    /// Whether the container was kept. Marks it as used, and keeps it from now on.
    fn is_kept(&mut self, container: ContainerId) -> bool {
        let now = self.next_use;
        self.next_use += 1;
        if let Some((_, used)) = self.kept.get_mut(&container) {
            self.order.remove(used);
            self.order.insert(now, container);
            *used = now;
            return true;
        }
        let bytes = (self.weigh)(container);
        while self.kept_bytes + bytes > self.memory_bytes
            && let Some((_, oldest)) = self.order.pop_first()
        {
            let dropped = self.kept.remove(&oldest);
            self.kept_bytes -= dropped.map_or(0, |(bytes, _)| bytes);
        }
        self.kept.insert(container, (bytes, now));
        self.order.insert(now, container);
        self.kept_bytes += bytes;
        false
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;
    use crate::simulator::test_recipes::recipes;

    /// The straightforward model: a list, with the most recently used container last.
    fn by_list(recipe: &[Reference], memory: u64, weigh: impl Fn(ContainerId) -> u64) -> Vec<ContainerId> {
        let (mut kept, mut read): (Vec<ContainerId>, Vec<ContainerId>) = Default::default();
        for container in recipe.iter().filter_map(|r| Some(r.chunk?.location.container)) {
            match kept.iter().position(|id| *id == container) {
                Some(at) => drop(kept.remove(at)),
                None => {
                    read.push(container);
                    while !kept.is_empty()
                        && kept.iter().map(|id| weigh(*id)).sum::<u64>() + weigh(container) > memory
                    {
                        kept.remove(0);
                    }
                }
            }
            kept.push(container);
        }
        read
    }

    proptest! {
        #[test]
        fn lru_reads_the_same_as_a_plain_list(recipe in recipes(), memory in 0..200u64) {
            let weigh = |id: ContainerId| u64::from(id.sequence.get()) * 7 + 5;
            let references = recipe.iter().map(|r| Ok::<_, Infallible>(*r));
            let mut planner = LruPlanner::new(references, memory, weigh);
            let mut read = Vec::new();
            while let Some(container) = planner.next_read().unwrap() {
                read.push(container);
            }
            prop_assert_eq!(read, by_list(&recipe, memory, weigh));
        }
    }
}
