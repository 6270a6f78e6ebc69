//! Values by key, within a budget of bytes. The least recently used one goes first.
//!
//! Threads share it. One thread makes a value, and the others that want it wait for that. No lock
//! is held while a value is made. Only the newest value may exceed the budget (INV-7).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Values by key.
#[derive(Debug)]
pub(crate) struct Cache<K: Copy + Eq + Hash, V> {
    budget_bytes: u64,
    held: Mutex<Held<K, V>>,
    /// Signals that a thread has made a value, or failed to.
    made: Condvar,
}

#[derive(Debug)]
struct Held<K, V> {
    values: HashMap<K, Value<V>>,
    /// By time of last use.
    order: BTreeMap<u64, K>,
    next_use: u64,
    bytes: u64,
    making: HashSet<K>,
}

#[derive(Debug)]
struct Value<V> {
    value: Arc<V>,
    used: u64,
    bytes: u64,
}

/// The turn to make a value. Dropping it ends the wait of others, whether the value was kept or
/// not.
#[derive(Debug)]
pub(crate) struct Turn<'a, K: Copy + Eq + Hash, V> {
    cache: &'a Cache<K, V>,
    key: K,
}

impl<K: Copy + Eq + Hash, V> Drop for Turn<'_, K, V> {
    fn drop(&mut self) {
        self.cache.held().making.remove(&self.key);
        self.cache.made.notify_all();
    }
}

impl<K: Copy + Eq + Hash, V> Turn<'_, K, V> {
    /// Keeps the value, which takes so many bytes.
    pub(crate) fn keep(self, value: V, bytes: u64) -> Arc<V> {
        let value = Arc::new(value);
        self.cache.keep(self.key, Arc::clone(&value), bytes);
        value
    }
}

impl<K: Copy + Eq + Hash, V> Cache<K, V> {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            held: Mutex::new(Held {
                values: HashMap::new(),
                order: BTreeMap::new(),
                next_use: 0,
                bytes: 0,
                making: HashSet::new(),
            }),
            made: Condvar::new(),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held<K, V>> {
        // No code panics under the lock, and any value may be dropped.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value, or the turn to make it. Waits while another thread makes it. A thread that has
    /// waited in vain gets the turn.
    pub(crate) fn get_or_turn(&self, key: K) -> Result<Arc<V>, Turn<'_, K, V>> {
        let mut held = self.held();
        loop {
            if let Some(value) = held.get(key) {
                return Ok(value);
            }
            if held.making.insert(key) {
                return Err(Turn { cache: self, key });
            }
            held = self.made.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The value, if it is there.
    pub(crate) fn get(&self, key: K) -> Option<Arc<V>> {
        self.held().get(key)
    }

    /// The turn to make a value, unless it is there or another thread makes it.
    pub(crate) fn turn(&self, key: K) -> Option<Turn<'_, K, V>> {
        let mut held = self.held();
        let is_due = held.get(key).is_none() && held.making.insert(key);
        // Dropping a turn takes the lock.
        drop(held);
        is_due.then(|| Turn { cache: self, key })
    }

    /// Keeps a value that no other thread waits for, which takes so many bytes.
    pub(crate) fn put(&self, key: K, value: Arc<V>, bytes: u64) {
        self.keep(key, value, bytes);
    }

    /// Drops a value.
    pub(crate) fn forget(&self, key: K) {
        self.held().remove(key);
    }

    /// Memory of the values.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.held().bytes
    }

    fn keep(&self, key: K, value: Arc<V>, bytes: u64) {
        let mut held = self.held();
        held.remove(key);
        let used = held.next_use;
        held.next_use += 1;
        held.bytes += bytes;
        held.order.insert(used, key);
        held.values.insert(key, Value { value, used, bytes });
        while held.bytes > self.budget_bytes && held.values.len() > 1 {
            let Some((_, oldest)) = held.order.first_key_value() else {
                break;
            };
            let oldest = *oldest;
            held.remove(oldest);
        }
    }
}

impl<K: Copy + Eq + Hash, V> Held<K, V> {
    fn get(&mut self, key: K) -> Option<Arc<V>> {
        let held = self.values.get_mut(&key)?;
        self.order.remove(&held.used);
        held.used = self.next_use;
        self.order.insert(self.next_use, key);
        self.next_use += 1;
        Some(Arc::clone(&held.value))
    }

    fn remove(&mut self, key: K) {
        if let Some(held) = self.values.remove(&key) {
            self.order.remove(&held.used);
            self.bytes -= held.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    use super::*;

    fn keep(cache: &Cache<u32, u32>, key: u32, bytes: u64) {
        drop(cache.turn(key).unwrap().keep(key, bytes));
    }

    #[test]
    fn the_least_recently_used_value_goes_first() {
        let cache = Cache::new(100);
        for key in 0..4 {
            keep(&cache, key, 25);
        }
        assert!(cache.get_or_turn(0).is_ok());
        keep(&cache, 4, 25);
        assert!(cache.get_or_turn(0).is_ok() && cache.get_or_turn(1).is_err());
        assert_eq!(cache.bytes(), 100);
        keep(&cache, 5, 1000);
        assert_eq!(cache.bytes(), 1000, "the newest alone");
        cache.forget(5);
        cache.forget(5);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn one_thread_makes_a_value_and_a_failure_gives_the_turn_to_the_next() {
        let cache = Cache::new(100);
        let made = AtomicU32::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| match cache.get_or_turn(7) {
                    Ok(value) => assert_eq!(*value, 70),
                    Err(turn) => {
                        // The first one fails.
                        if made.fetch_add(1, Ordering::SeqCst) > 0 {
                            turn.keep(70, 1);
                        }
                    }
                });
            }
        });
        assert_eq!(made.load(Ordering::SeqCst), 2);
    }
}
