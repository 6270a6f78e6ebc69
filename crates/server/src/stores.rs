//! The stores of the tenants that a running server has open.
//!
//! An object store that cannot be reached keeps nobody from the other stores. The server refuses
//! its clients as "busy", and tries again by itself, with growing pauses. A store that cannot be
//! opened for another reason is tried again when the next client asks for it.
//!
//! For any number of threads. None holds the lock while it opens a store.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use env::Clock;
use onefold::Store;

use crate::error::{ServerError, TARGET};

/// The first pause before a store that cannot be reached is tried again. Pauses double, ...
const PAUSE_MIN: Duration = Duration::from_secs(5);
/// ... up to this one.
const PAUSE_MAX: Duration = Duration::from_mins(5);
/// The thread that waits looks so often whether the server has ended.
const LOOK: Duration = Duration::from_secs(1);

/// Opens the store of a tenant.
type Opener = Box<dyn Fn(&str) -> Result<Store, ServerError> + Send + Sync>;

/// The stores. Dropping it ends the thread that tries again.
pub(crate) struct Stores(Arc<Inner>);

struct Inner {
    opener: Opener,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
    is_over: AtomicBool,
}

#[derive(Default)]
struct State {
    /// By tenant.
    slots: BTreeMap<String, Slot>,
    /// Whether a thread tries again.
    is_retrying: bool,
}

enum Slot {
    /// A thread opens it for the first time.
    Opening,
    Open(Arc<Store>),
    /// It could not be reached. A thread tries again.
    Away,
}

impl Stores {
    pub(crate) fn new(
        clock: &Arc<dyn Clock>,
        open: impl Fn(&str) -> Result<Store, ServerError> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            opener: Box::new(open),
            clock: Arc::clone(clock),
            state: Mutex::default(),
            changed: Condvar::new(),
            is_over: AtomicBool::new(false),
        }))
    }

    /// A tenant's store. It is opened if the tenant is new.
    ///
    /// # Errors
    /// `Away`; of the store.
    pub(crate) fn of(&self, tenant: &str) -> Result<Arc<Store>, ServerError> {
        let mut state = self.0.state();
        loop {
            match state.slots.get(tenant) {
                Some(Slot::Open(store)) => return Ok(Arc::clone(store)),
                Some(Slot::Away) => {
                    let (tenant, why) = (tenant.to_owned(), None);
                    return Err(ServerError::Away { tenant, why });
                }
                Some(Slot::Opening) => {
                    let waited = self.0.changed.wait(state);
                    state = waited.unwrap_or_else(PoisonError::into_inner);
                }
                None => break,
            }
        }
        state.slots.insert(tenant.to_owned(), Slot::Opening);
        drop(state);
        let opened = self.0.open(tenant);
        if matches!(opened, Err(ServerError::Away { .. })) {
            self.try_again();
        }
        opened
    }

    /// Makes sure that a thread tries again to open the stores that are away.
    fn try_again(&self) {
        let mut state = self.0.state();
        if state.is_retrying {
            return;
        }
        let (stores, clock) = (Arc::downgrade(&self.0), Arc::clone(&self.0.clock));
        let spawned = thread::Builder::new()
            .name("reopen".to_owned())
            .spawn(move || reopen(&stores, &*clock));
        match spawned {
            Ok(_) => state.is_retrying = true,
            Err(error) => {
                // The next client tries again.
                tracing::warn!(target: TARGET, %error, "no thread to reach the stores that are away");
                state.slots.retain(|_, slot| !matches!(slot, Slot::Away));
            }
        }
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").finish_non_exhaustive()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a store, and notes what came of it.
    fn open(&self, tenant: &str) -> Result<Arc<Store>, ServerError> {
        let opened = (self.opener)(tenant).map(Arc::new);
        let mut state = self.state();
        match &opened {
            Ok(store) => drop(
                state
                    .slots
                    .insert(tenant.to_owned(), Slot::Open(Arc::clone(store))),
            ),
            Err(error @ ServerError::Away { .. }) => {
                tracing::warn!(target: TARGET, %tenant, %error, "a store is away");
                state.slots.insert(tenant.to_owned(), Slot::Away);
            }
            Err(error) => {
                tracing::warn!(target: TARGET, %tenant, %error, "a store cannot be opened");
                state.slots.remove(tenant);
            }
        }
        self.changed.notify_all();
        opened
    }

    /// The tenants whose stores are away. If there are none, the thread that asks ends.
    fn away(&self) -> Vec<String> {
        let mut state = self.state();
        let is_away = |(tenant, slot): (&String, &Slot)| matches!(slot, Slot::Away).then(|| tenant.clone());
        let away: Vec<String> = state.slots.iter().filter_map(is_away).collect();
        state.is_retrying = !away.is_empty();
        away
    }
}

/// Opens the stores that are away, until none is, or the server has ended.
fn reopen(stores: &Weak<Inner>, clock: &dyn Clock) {
    let living = || {
        stores
            .upgrade()
            .filter(|stores| !stores.is_over.load(Ordering::Acquire))
    };
    let mut pause = PAUSE_MIN;
    loop {
        let until = clock.monotonic() + pause;
        while clock.monotonic() < until {
            if living().is_none() {
                return;
            }
            clock.sleep(until.saturating_sub(clock.monotonic()).min(LOOK));
        }
        let Some(stores) = living() else { return };
        let away = stores.away();
        if away.is_empty() {
            return;
        }
        for tenant in away {
            if stores.open(&tenant).is_ok() {
                tracing::info!(target: TARGET, %tenant, "a store is back");
            }
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use env::{Env, ManualClock, MemoryStorage, SystemClock};
    use onefold::{Credential, InitOptions, OpenOptions};

    use super::*;

    fn store() -> Store {
        let env = Env::system(Arc::new(MemoryStorage::new()));
        Store::init(&env, &Credential::None, &InitOptions::default(), None).unwrap();
        Store::open(&env, &Credential::None, &OpenOptions::default()).unwrap()
    }

    fn away(tenant: &str) -> ServerError {
        ServerError::Away {
            tenant: tenant.to_owned(),
            why: None,
        }
    }

    #[test]
    fn a_store_that_is_away_is_tried_again_with_growing_pauses() {
        let manual = ManualClock::default();
        let clock: Arc<dyn Clock> = Arc::new(manual.clone());
        let tried_at = Arc::new(Mutex::new(Vec::new()));
        let tries = Arc::clone(&tried_at);
        let stores = Stores::new(&clock, move |tenant| {
            if tenant == "main" {
                return Ok(store());
            }
            let mut tried_at = tries.lock().unwrap();
            tried_at.push(manual.monotonic());
            if tried_at.len() < 10 {
                return Err(away(tenant));
            }
            Ok(store())
        });
        assert!(matches!(stores.of("lab"), Err(ServerError::Away { .. })));
        stores.of("main").unwrap();
        let is_back = (0..1000).any(|_| {
            SystemClock.sleep(Duration::from_millis(10));
            match stores.of("lab") {
                Ok(_) => true,
                Err(ServerError::Away { .. }) => false,
                Err(error) => panic!("{error}"),
            }
        });
        assert!(is_back);
        let tried_at = tried_at.lock().unwrap();
        let pauses: Vec<u64> = tried_at
            .windows(2)
            .map(|pair| (pair[1] - pair[0]).as_secs())
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn a_store_that_cannot_be_opened_is_tried_again_by_its_next_client() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let is_first = AtomicBool::new(true);
        let stores = Stores::new(&clock, move |tenant| {
            if is_first.swap(false, Ordering::SeqCst) {
                return Err(ServerError::Refused(format!("there is no tenant {tenant}")));
            }
            Ok(store())
        });
        assert!(matches!(stores.of("lab"), Err(ServerError::Refused(_))));
        stores.of("lab").unwrap();
    }

    #[test]
    fn clients_that_come_together_get_one_store() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let stores = Stores::new(&clock, |_| {
            SystemClock.sleep(Duration::from_millis(50));
            Ok(store())
        });
        let opened: Vec<Arc<Store>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| stores.of("lab").unwrap()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(opened.iter().all(|one| Arc::ptr_eq(one, &opened[0])));
    }
}
