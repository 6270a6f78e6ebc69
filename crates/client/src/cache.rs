//! Nodes, their children, and catalogs that a client has received, so that it does not ask for them
//! again.
//!
//! Slots change neither number nor content in any generation (INV-2), so what was received stays
//! right. A full cache is emptied: a client reads mostly forward. One thread asks for a value, and
//! the others that need it wait.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
pub(crate) struct Kept<K: Eq + Hash, V> {
    held: Mutex<Held<K, V>>,
    answered: Condvar,
}

/// The task to ask for a value. Dropping it ends the wait of others, whether the value came or not.
#[derive(Debug)]
pub(crate) struct Turn<'a, K: Eq + Hash, V> {
    kept: &'a Kept<K, V>,
    key: K,
}

#[derive(Debug)]
struct Held<K, V> {
    values: HashMap<K, Arc<V>>,
    bytes: u64,
    asked: HashSet<K>,
}

impl<K: Eq + Hash, V> Default for Kept<K, V> {
    fn default() -> Self {
        let held = Held {
            values: HashMap::new(),
            bytes: 0,
            asked: HashSet::new(),
        };
        Self {
            held: Mutex::new(held),
            answered: Condvar::new(),
        }
    }
}

impl<K: Eq + Hash, V> Drop for Turn<'_, K, V> {
    fn drop(&mut self) {
        self.kept.held().asked.remove(&self.key);
        self.kept.answered.notify_all();
    }
}

impl<K: Eq + Hash + Copy, V> Kept<K, V> {
    /// The value, or the task to ask for it. Waits while another thread asks.
    pub(crate) fn get_or_turn(&self, key: K) -> Result<Arc<V>, Turn<'_, K, V>> {
        let mut held = self.held();
        loop {
            if let Some(value) = held.values.get(&key) {
                return Ok(Arc::clone(value));
            }
            if held.asked.insert(key) {
                return Err(Turn { kept: self, key });
            }
            let waited = self.answered.wait(held);
            held = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<K: Eq + Hash, V> Kept<K, V> {
    fn held(&self) -> MutexGuard<'_, Held<K, V>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;
    use std::time::Duration;

    use env::{Clock, SystemClock};

    use super::*;

    #[test]
    fn one_thread_asks_and_the_others_wait() {
        let (kept, asked) = (Kept::<u32, u32>::default(), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| match kept.get_or_turn(5) {
                    Ok(value) => assert_eq!(*value, 50),
                    Err(_turn) => {
                        // The others come meanwhile. The first one gets no answer.
                        SystemClock.sleep(Duration::from_millis(20));
                        if asked.fetch_add(1, Ordering::SeqCst) > 0 {
                            kept.keep(5, 50, 1);
                        }
                    }
                });
            }
        });
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}
