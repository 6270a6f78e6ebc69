//! The listings with which a session begins, made while the password is stretched.
//!
//! Stretching takes a tenth of a second, as do these listings of a far storage. Nothing that they
//! show is secret: names alone. They are hints: a session claims its number by a conditional put,
//! and lists again. So listings that are some seconds old serve as well as new ones. A change of
//! settings by this handle is not in them, so it ends their use.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use env::{Env, ListingOf, Moment};
use format::names;

/// How long they serve.
const SERVED: Duration = Duration::from_secs(3);

/// What a backup lists before it claims its number. A reader needs the last two.
pub(crate) const LISTINGS: [ListingOf<'static>; 3] = [
    ListingOf::Objects(names::SERIES_FOLDER),
    ListingOf::Folders(names::SESSIONS_FOLDER),
    ListingOf::Objects(names::BACKUPS_FOLDER),
];

/// These listings, until the first session takes them.
#[derive(Debug, Default)]
pub(crate) struct FirstListings(Mutex<Option<Coming>>);

#[derive(Debug)]
struct Coming {
    /// A moment before them.
    since: Moment,
    /// Makes them, and returns the time behind them.
    thread: JoinHandle<Duration>,
}

impl FirstListings {
    /// Begins to list, if the storage is far.
    pub(crate) fn begin(env: &Env) -> Self {
        if !env.storage.is_far() {
            return Self::default();
        }
        let since = env.storage.moment();
        let env = env.clone();
        let list = move || {
            env.storage.look_ahead(&LISTINGS);
            env.clock.monotonic_with_suspend()
        };
        let thread = thread::Builder::new().name("list".to_owned()).spawn(list).ok();
        Self(Mutex::new(thread.map(|thread| Coming { since, thread })))
    }

    /// A moment before the listings, once, and only while they serve. Waits for them.
    pub(crate) fn take(&self, env: &Env) -> Option<Moment> {
        let coming = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let made_at = coming.thread.join().ok()?;
        let age = env.clock.monotonic_with_suspend().saturating_sub(made_at);
        (age <= SERVED).then_some(coming.since)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use env::{ManualClock, MemoryStorage};

    use super::*;

    #[test]
    fn listings_serve_once_and_for_some_seconds() {
        let clock = Arc::new(ManualClock::default());
        let env = Env {
            clock: clock.clone(),
            ..Env::system(Arc::new(MemoryStorage::default()))
        };
        assert!(FirstListings::begin(&env).take(&env).is_none(), "not far");
        let listed = |age| {
            let (since, at) = (env.storage.moment(), env.clock.monotonic_with_suspend());
            clock.advance(age);
            let thread = thread::spawn(move || at);
            FirstListings(Mutex::new(Some(Coming { since, thread })))
        };
        let fresh = listed(SERVED);
        assert!(fresh.take(&env).is_some() && fresh.take(&env).is_none());
        assert!(listed(SERVED + Duration::from_nanos(1)).take(&env).is_none());
    }
}
