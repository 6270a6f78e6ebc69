//! The containers with the segments of the series' previous backup.
//!
//! This is only a preference among equal nodes, so unreadable nodes are left out. It reads the
//! nodes above segments, one in some 500. It runs once, when a look-up finds two equal nodes.

use std::collections::HashSet;

use format::node::NodeEntry;
use recipe::{NodeSource, SEGMENT_LEVEL, TreeRoot};
use types::{ChunkLocation, ContainerId, Level};

/// The most nodes to read: enough for some hundred TiB of stream.
const NODES_MAX: usize = 1 << 16;

/// The containers that hold the segments of these streams.
pub(crate) fn segment_containers(nodes: &dyn NodeSource, streams: &[TreeRoot]) -> HashSet<ContainerId> {
    let mut found = HashSet::new();
    let mut open: Vec<(ChunkLocation, Level)> = streams
        .iter()
        .map(|stream| (stream.location, stream.level))
        .collect();
    let mut read = 0;
    while let Some((location, level)) = open.pop() {
        if level <= SEGMENT_LEVEL {
            found.insert(location.container);
            continue;
        }
        read += 1;
        let Some(node) = nodes.node(location).ok().filter(|_| read <= NODES_MAX) else {
            continue;
        };
        let Ok(below) = Level::new(level.get() - 1) else {
            continue;
        };
        for entry in &node.entries {
            let NodeEntry::Run {
                container,
                first,
                count,
                ..
            } = *entry
            else {
                continue;
            };
            if below <= SEGMENT_LEVEL {
                found.insert(container);
                continue;
            }
            let slots = (0..count).map_while(|ahead| first.checked_add(ahead));
            open.extend(slots.map(|slot| (ChunkLocation { container, slot }, below)));
        }
    }
    found
}
