//! The content of the simulated store.

use std::collections::HashSet;

use format::node::Node;
use types::ContainerId;

use super::containers::{At, Containers};
use super::nodes::Nodes;

/// The content of the store. It does not change while a backup runs.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) containers: Containers,
    pub(super) nodes: Nodes,
    /// Recipe containers that have segments of the last backup.
    pub(super) previous: HashSet<ContainerId>,
}

impl Stored {
    /// The chunks that a segment's node refers to, in order.
    pub(super) fn chunks_of(&self, node: &Node) -> Vec<At> {
        let runs = super::nodes::runs(node).filter_map(|(container, first, count)| {
            Some((self.containers.number(container)?, first.get(), count))
        });
        runs.flat_map(|(container, first, count)| {
            (first..first + count).map(move |slot| At { container, slot })
        })
        .collect()
    }
}
