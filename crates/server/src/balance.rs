//! What clients get of a busy server, in balance (B7).
//!
//! An owner *presses* while its messages are there before the server asks for them: then the server
//! is what slows it. Of owners that press, none goes on while it is more than [`AHEAD_BYTES`] ahead
//! of another one, however many connections it has. An owner that its own line, its processor or
//! its rate slows does not press: nobody waits for it, and it waits for nobody. What an owner had
//! before it began to press does not count.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::Clock;

/// So many bytes more than another owner that presses.
const AHEAD_BYTES: u64 = 2 << 20;
/// The least that a message counts: a short one may cost the server as much as a long one.
const MESSAGE_BYTES_MIN: u64 = 64 << 10;
/// A message that comes within this time counts as there: its client may wait for a processor.
const AT_ONCE: Duration = Duration::from_millis(2);
/// An owner presses for so long after its last message was processed, ...
const AFTER: Duration = Duration::from_millis(20);
/// ... and for so long while one is processed: others do not wait for a disk that hangs.
const DURING: Duration = Duration::from_secs(1);
/// Owners that do not press are forgotten once there are so many.
const OWNERS_MAX: usize = 64;

/// The bytes of owners, and who presses. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Balance(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    owners: BTreeMap<String, Owner>,
    /// Messages that wait.
    waiting: usize,
}

#[derive(Debug, Default)]
struct Owner {
    /// Bytes that were processed for it. When it begins to press, they are brought near those of
    /// others.
    bytes: u64,
    /// It presses until then, by the monotonic clock.
    presses_until: Duration,
    /// Its messages that are being processed.
    processing: usize,
}

/// A message that is being processed. Dropping it says that it is done.
#[derive(Debug)]
pub(crate) struct Processing {
    balance: Balance,
    owner: String,
}

/// The least bytes of others that press.
fn least_of_others(owners: &BTreeMap<String, Owner>, owner: &str, now: Duration) -> Option<u64> {
    let pressing = owners
        .iter()
        .filter(|(name, one)| *name != owner && one.presses_until > now);
    pressing.map(|(_, one)| one.bytes).min()
}

impl Balance {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner {
            clock: Arc::clone(clock),
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a message of so many bytes, for which the server has `waited`. Waits while its owner
    /// is ahead of others that press.
    pub(crate) fn enter(
        &self,
        owner: &str,
        bytes: usize,
        waited: Duration,
        is_over: &dyn Fn() -> bool,
    ) -> Processing {
        let presses = waited < AT_ONCE;
        let mut state = self.state();
        if state.owners.len() >= OWNERS_MAX {
            let now = self.0.clock.monotonic();
            let is_kept =
                |name: &String, one: &Owner| name == owner || one.processing > 0 || one.presses_until > now;
            state.owners.retain(|name, one| is_kept(name, one));
        }
        loop {
            let now = self.0.clock.monotonic();
            let least = least_of_others(&state.owners, owner, now);
            let one = state.owners.entry(owner.to_owned()).or_default();
            if one.presses_until <= now
                && let Some(least) = least
            {
                // Nobody owes it what it has not asked for, and it owes nobody what it had alone.
                one.bytes = one.bytes.clamp(least, least + AHEAD_BYTES);
            }
            if presses {
                one.presses_until = one.presses_until.max(now + DURING);
            }
            if !presses || is_over() || least.is_none_or(|least| one.bytes <= least + AHEAD_BYTES) {
                one.bytes += (bytes as u64).max(MESSAGE_BYTES_MIN);
                one.processing += 1;
                if state.waiting > 0 {
                    self.0.changed.notify_all();
                }
                return Processing {
                    balance: self.clone(),
                    owner: owner.to_owned(),
                };
            }
            state.waiting += 1;
            let waited = self.0.changed.wait_timeout(state, AFTER);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    #[cfg(test)]
    pub(crate) fn presses(&self, owner: &str) -> bool {
        let now = self.0.clock.monotonic();
        self.state()
            .owners
            .get(owner)
            .is_some_and(|one| one.presses_until > now)
    }

    /// Counts bytes that the server has sent to an owner.
    pub(crate) fn count(&self, owner: &str, bytes: usize) {
        if let Some(one) = self.state().owners.get_mut(owner) {
            one.bytes += bytes as u64;
        }
    }
}

impl Drop for Processing {
    fn drop(&mut self) {
        let now = self.balance.0.clock.monotonic();
        let mut state = self.balance.state();
        if let Some(one) = state.owners.get_mut(&self.owner) {
            one.processing -= 1;
            if one.processing == 0 {
                one.presses_until = one.presses_until.min(now + AFTER);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use env::{ManualClock, SystemClock};

    use super::*;

    const MIB: usize = 1 << 20;

    fn balance() -> Balance {
        Balance::new(&(Arc::new(SystemClock) as _))
    }

    /// Runs connections of a greedy owner and one of a modest one, which presses if
    /// `modest_waits` is short. Returns the messages that each had when the modest one ended.
    fn messages(modest_waits: Duration) -> (usize, usize) {
        let (balance, is_over) = (balance(), AtomicBool::new(false));
        thread::scope(|scope| {
            let greedy: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let mut had = 0;
                        while !is_over.load(Ordering::Acquire) {
                            let ending = || is_over.load(Ordering::Acquire);
                            let held = balance.enter("greedy", MIB, Duration::ZERO, &ending);
                            SystemClock.sleep(Duration::from_millis(1));
                            drop(held);
                            had += 1;
                        }
                        had
                    })
                })
                .collect();
            for _ in 0..100 {
                let held = balance.enter("modest", MIB, modest_waits, &|| false);
                SystemClock.sleep(Duration::from_millis(1));
                drop(held);
            }
            is_over.store(true, Ordering::Release);
            let had = greedy.into_iter().map(|thread| thread.join().unwrap()).sum();
            (had, 100)
        })
    }

    #[test]
    fn owners_that_press_get_the_same_whatever_the_number_of_their_connections() {
        let (greedy, modest) = messages(Duration::ZERO);
        assert!(greedy <= 2 * modest, "{greedy} and {modest}");
    }

    #[test]
    fn nobody_waits_for_an_owner_that_does_not_press() {
        let (greedy, modest) = messages(AT_ONCE);
        assert!(greedy > 2 * modest, "{greedy} and {modest}");
    }

    /// An owner that had much while it was alone waits no longer than one that had nothing.
    #[test]
    fn what_an_owner_had_alone_does_not_count() {
        let balance = balance();
        for _ in 0..100 {
            drop(balance.enter("early", MIB, Duration::ZERO, &|| false));
        }
        SystemClock.sleep(2 * AFTER);
        let late = balance.enter("late", MIB, Duration::ZERO, &|| false);
        let began = SystemClock.monotonic();
        drop(balance.enter("early", MIB, Duration::ZERO, &|| false));
        assert!(SystemClock.monotonic() - began < DURING);
        drop(late);
    }

    /// Whether the owner has to wait with a message that was there.
    fn has_to_wait(balance: &Balance, owner: &str) -> bool {
        let looks = Cell::new(0);
        let is_over = || {
            looks.set(looks.get() + 1);
            looks.get() > 1
        };
        drop(balance.enter(owner, MIB, Duration::ZERO, &is_over));
        looks.get() > 1
    }

    #[test]
    fn an_owner_waits_while_it_is_ahead_of_one_that_presses() {
        let clock = ManualClock::default();
        let balance = Balance::new(&(Arc::new(clock.clone()) as _));
        // One whose message came late presses never, and one whose message was there does.
        let late = balance.enter("late", MIB, AT_ONCE, &|| false);
        for _ in 0..20 {
            assert!(!has_to_wait(&balance, "fast"), "the late one does not press");
        }
        let held = balance.enter("early", MIB, Duration::ZERO, &|| false);
        let waits = (0..20).filter(|_| has_to_wait(&balance, "fast")).count();
        assert!(waits >= 16, "it is ahead by 2 MiB soon: {waits}");
        // A message that hangs holds back nobody for long.
        clock.advance(DURING);
        assert!(!has_to_wait(&balance, "fast"));
        drop((late, held));
        // After its last message, an owner presses a little longer.
        drop(balance.enter("early", MIB, Duration::ZERO, &|| false));
        clock.advance(AFTER / 2);
        assert!(balance.presses("early"));
        clock.advance(AFTER / 2);
        assert!(!balance.presses("early"));
    }

    #[test]
    fn owners_that_are_gone_are_forgotten() {
        let balance = balance();
        for number in 0..10 * OWNERS_MAX {
            drop(balance.enter(&number.to_string(), 1, DURING, &|| false));
        }
        assert!(balance.state().owners.len() <= OWNERS_MAX);
    }
}
