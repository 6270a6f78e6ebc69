//! A limited good that clients share fairly (B7): memory, places for running backups.
//!
//! The gate serves waiting owners in turn, so that one owner with many connections gets no more
//! than another with one. An owner may have a part of the good alone, so that others need not wait
//! for its long operations.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A limited good. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The most that one owner may have.
    own_max: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    free: u64,
    /// What each owner has.
    held: BTreeMap<String, u64>,
    /// What each owner waits for: tickets and amounts, in order.
    waiting: BTreeMap<String, VecDeque<(u64, u64)>>,
    /// The owners that wait, the next one first.
    turn: VecDeque<String>,
    next_ticket: u64,
    /// Tickets that were served, and whose threads have not seen it.
    served: Vec<u64>,
}

/// A part of the good. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Gate,
    owner: String,
    amount: u64,
}

impl State {
    /// Serves those who wait, as far as the good goes.
    fn serve(&mut self, own_max: u64) {
        let mut passed = 0;
        while passed < self.turn.len() {
            let Some(owner) = self.turn.pop_front() else {
                return;
            };
            let held = self.held.get(&owner).copied().unwrap_or(0);
            let queue = self.waiting.get_mut(&owner);
            let Some((ticket, amount)) = queue.as_ref().and_then(|queue| queue.front()).copied() else {
                self.waiting.remove(&owner);
                continue;
            };
            if held > 0 && held + amount > own_max {
                // It waits for itself, and others do not wait for it.
                self.turn.push_back(owner);
                passed += 1;
                continue;
            }
            if amount > self.free {
                self.turn.push_front(owner);
                return;
            }
            self.free -= amount;
            *self.held.entry(owner.clone()).or_default() += amount;
            self.served.push(ticket);
            queue.and_then(VecDeque::pop_front);
            self.turn.push_back(owner);
            passed = 0;
        }
    }
}

impl Gate {
    /// So much of the good, of which one owner may have at most `own_max`.
    pub(crate) fn new(amount: u64, own_max: u64) -> Self {
        let state = State {
            free: amount,
            ..State::default()
        };
        Self(Arc::new(Inner {
            own_max,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an amount, which is at most what one owner may have. Waits until it is the owner's
    /// turn. `None`: it was not within `patience`.
    pub(crate) fn take(&self, owner: &str, amount: u64, patience: Duration) -> Option<Permit> {
        self.take_unless(owner, amount, patience, &|| true)
    }

    /// Takes an amount, as [`Self::take`]. Looks after each `look` whether the wait is over, and
    /// keeps its turn otherwise. `None`: it is.
    pub(crate) fn take_unless(
        &self,
        owner: &str,
        amount: u64,
        look: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Permit> {
        let amount = amount.min(self.0.own_max);
        let mut state = self.state();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        if !state.waiting.contains_key(owner) {
            state.turn.push_back(owner.to_owned());
        }
        let queue = state.waiting.entry(owner.to_owned()).or_default();
        queue.push_back((ticket, amount));
        state.serve(self.0.own_max);
        if state.served.iter().any(|served| *served != ticket) {
            self.0.changed.notify_all();
        }
        let is_waiting = |state: &mut State| !state.served.contains(&ticket);
        loop {
            let waited = self.0.changed.wait_timeout_while(state, look, is_waiting);
            let (after, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = after;
            if !timeout.timed_out() || is_over() {
                break;
            }
        }
        if let Some(at) = state.served.iter().position(|served| *served == ticket) {
            state.served.swap_remove(at);
            return Some(Permit {
                gate: self.clone(),
                owner: owner.to_owned(),
                amount,
            });
        }
        if let Some(queue) = state.waiting.get_mut(owner) {
            queue.retain(|(waiting, _)| *waiting != ticket);
        }
        state.serve(self.0.own_max);
        drop(state);
        self.0.changed.notify_all();
        None
    }
}

#[cfg(test)]
impl Gate {
    /// What all owners have.
    pub(crate) fn held(&self) -> u64 {
        self.state().held.values().sum()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        state.free += self.amount;
        if let Some(held) = state.held.get_mut(&self.owner) {
            *held -= self.amount;
            if *held == 0 {
                state.held.remove(&self.owner);
            }
        }
        state.serve(self.gate.0.own_max);
        drop(state);
        self.gate.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn taken(gate: &Gate, owner: &str, amount: u64) -> Permit {
        gate.take(owner, amount, LONG).unwrap()
    }

    fn is_free(gate: &Gate, owner: &str, amount: u64) -> bool {
        gate.take(owner, amount, Duration::ZERO).is_some()
    }

    #[test]
    fn what_is_taken_is_missing_until_it_is_given_back() {
        let gate = Gate::new(10, 10);
        let one = taken(&gate, "a", 6);
        assert!(is_free(&gate, "a", 4) && !is_free(&gate, "a", 5) && !is_free(&gate, "b", 5));
        drop(one);
        assert!(is_free(&gate, "b", 10));
        assert!(
            is_free(&gate, "b", 99),
            "an amount that never could be had is cut"
        );
        assert!(gate.state().waiting.values().all(VecDeque::is_empty));
        let state = gate.state();
        assert_eq!((state.free, state.held.len()), (10, 0));
    }

    #[test]
    fn an_owner_leaves_something_to_others() {
        let gate = Gate::new(4, 3);
        let held: Vec<Permit> = (0..3).map(|_| taken(&gate, "greedy", 1)).collect();
        assert!(!is_free(&gate, "greedy", 1) && is_free(&gate, "modest", 1));
        drop(held);
        assert!(is_free(&gate, "greedy", 3));
    }

    /// Of two owners that wait, each gets every second permit, however many threads it has.
    #[test]
    fn owners_take_turns() {
        let gate = Gate::new(1, 1);
        let first = taken(&gate, "other", 1);
        let (served, order) = channel();
        let mut threads = Vec::new();
        for (owner, count) in [("greedy", 8), ("modest", 2)] {
            for _ in 0..count {
                let (gate, served) = (gate.clone(), served.clone());
                threads.push(thread::spawn(move || {
                    let permit = taken(&gate, owner, 1);
                    served.send(owner).unwrap();
                    drop(permit);
                }));
            }
        }
        let waits = |gate: &Gate| gate.state().waiting.values().map(VecDeque::len).sum::<usize>();
        while waits(&gate) < 10 {
            thread::yield_now();
        }
        drop(first);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let order: Vec<&str> = order.try_iter().collect();
        let modest: Vec<usize> = (0..10).filter(|at| order[*at] == "modest").collect();
        assert!(modest[1] <= 3, "{order:?}");
    }

    /// A thread that looks whether its wait is over keeps its turn.
    #[test]
    fn a_long_wait_loses_no_turn() {
        let gate = Gate::new(10, 10);
        let small = taken(&gate, "a", 5);
        let looks = AtomicUsize::new(0);
        let is_over = || looks.fetch_add(1, Ordering::SeqCst) == usize::MAX;
        thread::scope(|scope| {
            let large = scope.spawn(|| gate.take_unless("b", 9, Duration::from_millis(1), &is_over));
            while looks.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            while looks.load(Ordering::SeqCst) < 3 {
                assert!(!is_free(&gate, "c", 1), "it is the turn of b");
            }
            drop(small);
            assert!(large.join().unwrap().is_some());
        });
        let held = taken(&gate, "a", 5);
        assert!(
            gate.take_unless("b", 9, Duration::from_millis(1), &|| true)
                .is_none()
        );
        drop(held);
        assert!(is_free(&gate, "c", 10));
    }

    #[test]
    fn a_large_amount_is_not_passed_by_small_ones_for_ever() {
        let gate = Gate::new(10, 10);
        let small = taken(&gate, "a", 2);
        let (large, waiting) = (gate.clone(), gate.clone());
        let thread = thread::spawn(move || drop(taken(&large, "b", 9)));
        while waiting.state().waiting.get("b").is_none_or(VecDeque::is_empty) {
            thread::yield_now();
        }
        assert!(!is_free(&gate, "c", 1), "it is the turn of b");
        drop(small);
        thread.join().unwrap();
        assert!(is_free(&gate, "c", 1));
    }
}
