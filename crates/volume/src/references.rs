//! References that wait for the collector, in the order in which records dropped them.
//!
//! The lock of the volume's core protects the list.

use std::collections::{BTreeMap, VecDeque};

use types::{BlockNumber, Fingerprint};

/// References to a registered block that the collector gives back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Unreferenced {
    /// The block.
    pub(crate) block: BlockNumber,
    /// How many references.
    pub(crate) count: u32,
    /// The sequence number of the record's block of log.
    pub(crate) at: u64,
    /// From this era of the readers on, none of this volume can be at the block. Another volume may
    /// free it then.
    pub(crate) ready_era: u64,
}

/// Takes these references out of the list. The collector took the first ones of each block; those
/// of blocks that it could not read are between them. Returns whether there were so many.
pub(crate) fn take_references(
    list: &mut VecDeque<Unreferenced>,
    blocks: &[(BlockNumber, Fingerprint, u32)],
) -> bool {
    let mut wanted: BTreeMap<BlockNumber, u32> = BTreeMap::new();
    for (block, _, count) in blocks {
        *wanted.entry(*block).or_insert(0) += count;
    }
    let mut passed = Vec::new();
    while !wanted.is_empty() {
        let Some(mut first) = list.pop_front() else {
            break;
        };
        if let Some(left) = wanted.get_mut(&first.block) {
            let taken = first.count.min(*left);
            first.count -= taken;
            *left -= taken;
            if *left == 0 {
                wanted.remove(&first.block);
            }
        }
        if first.count > 0 {
            passed.push(first);
        }
    }
    for one in passed.into_iter().rev() {
        list.push_front(one);
    }
    wanted.is_empty()
}
