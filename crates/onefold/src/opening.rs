//! The listings with which every session begins, made while the password is stretched.
//!
//! Stretching takes a tenth of a second, as do these listings of a far storage. Nothing that they
//! show is secret: names alone. They are hints: a session claims its number by a conditional put,
//! and lists again. So listings that are a few seconds old serve as well as new ones. A change of
//! settings by this handle is not in them, so it ends their use.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use env::{Env, ListingOf, Moment};
use format::names;

/// How long they serve.
const SERVED: Duration = Duration::from_secs(3);

/// A moment before the listings, until somebody takes it.
#[derive(Debug, Default)]
pub(crate) struct Opening(Mutex<Option<Made>>);

#[derive(Debug, Clone, Copy)]
struct Made {
    since: Moment,
    at: Duration,
}

impl Opening {
    /// Runs `open`, and meanwhile lists, if the storage is far.
    pub(crate) fn during<R>(env: &Env, open: impl FnOnce() -> R) -> (R, Self) {
        if !env.storage.is_far() {
            return (open(), Self::default());
        }
        let made = Made {
            since: env.storage.moment(),
            at: env.clock.monotonic(),
        };
        let list = || env.storage.look_ahead(&LISTINGS);
        let (opened, is_made) = thread::scope(|scope| {
            let lists = thread::Builder::new().spawn_scoped(scope, list);
            (open(), lists.is_ok())
        });
        (opened, Self(Mutex::new(is_made.then_some(made))))
    }

    /// A moment before the listings, once, and only while they serve.
    pub(crate) fn take(&self, env: &Env) -> Option<Moment> {
        let made = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let age = env.clock.monotonic().saturating_sub(made.at);
        (age <= SERVED).then_some(made.since)
    }
}

/// What a backup lists before it claims its number. A reader needs the last two.
pub(crate) const LISTINGS: [ListingOf<'static>; 3] = [
    ListingOf::Objects(names::SERIES_FOLDER),
    ListingOf::Folders(names::SESSIONS_FOLDER),
    ListingOf::Objects(names::BACKUPS_FOLDER),
];

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
        let opening = |age| {
            let made = Made {
                since: env.storage.moment(),
                at: env.clock.monotonic(),
            };
            clock.advance(age);
            Opening(Mutex::new(Some(made)))
        };
        let fresh = opening(SERVED);
        assert!(fresh.take(&env).is_some() && fresh.take(&env).is_none());
        assert!(opening(SERVED + Duration::from_nanos(1)).take(&env).is_none());
    }
}
