//! Nodes, their children, and catalogs that a client has received, so that it does not ask for them again.
//!
//! Slots change neither number nor content in any generation (INV-2), so what was received stays
//! right. A full cache is emptied: a client reads mostly forward.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use container::CatalogView;
use format::node::Node;
use recipe::Child;
use types::{ChunkLocation, ContainerId};

/// Bytes of each of the three, at most.
const BYTES_MAX: u64 = 8 << 20;
/// Bytes of an entry of a node in memory.
const ENTRY_BYTES: u64 = 40;

/// Received nodes, children and catalogs. For any number of threads.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) nodes: Kept<ChunkLocation, Node>,
    pub(crate) children: Kept<ChunkLocation, Vec<Child>>,
    pub(crate) catalogs: Kept<ContainerId, CatalogView>,
}

/// Values by key, within a budget.
#[derive(Debug)]
pub(crate) struct Kept<K, V> {
    held: Mutex<Held<K, V>>,
}

#[derive(Debug)]
struct Held<K, V> {
    values: HashMap<K, Arc<V>>,
    bytes: u64,
}

impl<K, V> Default for Kept<K, V> {
    fn default() -> Self {
        let held = Held {
            values: HashMap::new(),
            bytes: 0,
        };
        Self {
            held: Mutex::new(held),
        }
    }
}

impl<K: Eq + Hash, V> Kept<K, V> {
    fn held(&self) -> MutexGuard<'_, Held<K, V>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.held().values.get(key).cloned()
    }

    /// Keeps a value of so many bytes.
    pub(crate) fn keep(&self, key: K, value: V, bytes: u64) -> Arc<V> {
        let value = Arc::new(value);
        let mut held = self.held();
        if held.bytes.saturating_add(bytes) > BYTES_MAX {
            held.values.clear();
            held.bytes = 0;
        }
        held.bytes += bytes;
        held.values.insert(key, Arc::clone(&value));
        value
    }

    pub(crate) fn drop(&self, key: &K) {
        self.held().values.remove(key);
    }
}

/// About how much memory a node takes.
pub(crate) fn node_bytes(node: &Node) -> u64 {
    64 + node.entries.len() as u64 * ENTRY_BYTES
}
