//! Closes connections whose token is valid no longer.
//!
//! A connection asks about its token when a message comes. One that is idle, or whose client takes
//! nothing, would keep its place, its memory and its pins for ever. So a thread looks from time to
//! time at the tokens of all open connections. It begins with the first of them, and ends with the
//! server. A connection that runs an operation should tell its client why it ends, so the thread
//! closes a connection only if its token was not valid at the look before, either.
//!
//! For any number of threads. A token that cannot be read closes no connection.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use transport::Closer;

use crate::error::{ServerError, TARGET};

/// How often the thread looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Whether the token with this id is valid.
type IsValid = Box<dyn Fn(&str) -> Result<bool, ServerError> + Send + Sync>;

/// The open connections that have logged in with a token. Dropping it ends the thread.
pub(crate) struct TokenWatch(Arc<Inner>);

struct Inner {
    is_valid: IsValid,
    state: Mutex<State>,
    /// A first connection has come, or the server has ended.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    open: BTreeMap<u64, Watched>,
    next: u64,
    has_thread: bool,
    is_over: bool,
}

struct Watched {
    token: String,
    closer: Closer,
    /// The token was not valid at the last look.
    was_invalid: bool,
}

/// An open connection. Dropping it says that it has ended.
pub(crate) struct Watching<'a> {
    watch: &'a TokenWatch,
    number: u64,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.watch.0.state().open.remove(&self.number);
    }
}

impl TokenWatch {
    /// Watches no connection yet.
    pub(crate) fn new(is_valid: impl Fn(&str) -> Result<bool, ServerError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            is_valid: Box::new(is_valid),
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    /// Watches a connection that has logged in with this token.
    pub(crate) fn enter(&self, token: &str, closer: &Closer) -> Watching<'_> {
        let mut state = self.0.state();
        let number = state.next;
        state.next += 1;
        let watched = Watched {
            token: token.to_owned(),
            closer: closer.clone(),
            was_invalid: false,
        };
        state.open.insert(number, watched);
        if !state.has_thread {
            let inner = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("tokens".to_owned());
            // The guard is made in the thread: it takes the lock that is held here.
            match thread.spawn(move || Running(inner).0.run()) {
                Ok(_) => state.has_thread = true,
                // The next client tries again.
                Err(error) => tracing::warn!(target: TARGET, %error, "no thread to look at tokens"),
            }
        }
        self.0.changed.notify_all();
        Watching { watch: self, number }
    }
}

/// The thread. If it panics, the next client starts another one.
struct Running(Arc<Inner>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.state().has_thread = false;
    }
}

impl Drop for TokenWatch {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks from time to time while connections are open.
    fn run(&self) {
        loop {
            let is_empty = |state: &mut State| state.open.is_empty() && !state.is_over;
            let waited = self.changed.wait_while(self.state(), is_empty);
            let state = waited.unwrap_or_else(PoisonError::into_inner);
            let goes_on = |state: &mut State| !state.is_over;
            let waited = self.changed.wait_timeout_while(state, LOOK_EVERY, goes_on);
            let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
            if state.is_over {
                return;
            }
            drop(state);
            self.look();
        }
    }

    /// Closes the connections whose tokens are not valid, and were not at the last look.
    fn look(&self) {
        let token = |watched: &Watched| watched.token.clone();
        let tokens: Vec<String> = self.state().open.values().map(token).collect();
        let mut validity = BTreeMap::new();
        for token in tokens {
            // No lock is held: this reads a file.
            validity.entry(token).or_insert_with_key(|token| {
                let read = (self.is_valid)(token);
                read.unwrap_or_else(|error| {
                    tracing::warn!(target: TARGET, %token, %error, "a token cannot be read");
                    true
                })
            });
        }
        let mut ended = Vec::new();
        for watched in self.state().open.values_mut() {
            let is_invalid = validity.get(&watched.token) == Some(&false);
            if is_invalid && watched.was_invalid {
                ended.push((watched.token.clone(), watched.closer.clone()));
            }
            watched.was_invalid = is_invalid;
        }
        for (token, closer) in ended {
            tracing::info!(target: TARGET, %token, "a connection was closed: its token is not valid any more");
            closer.close();
        }
    }
}

impl fmt::Debug for TokenWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenWatch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A closer, and how often it was called.
    fn closer() -> (Closer, Arc<AtomicUsize>) {
        let closed = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&closed);
        let closer = Closer::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        (closer, closed)
    }

    #[test]
    fn only_a_token_that_stays_invalid_closes_its_connections() {
        let watch = TokenWatch::new(|token| match token {
            "damaged" => Err(ServerError::Refused("cannot be read".to_owned())),
            token => Ok(token != "revoked"),
        });
        // The test looks, and no thread beside it.
        watch.0.state().has_thread = true;
        let closers = [closer(), closer(), closer(), closer()];
        let tokens = ["valid", "damaged", "revoked", "revoked"];
        let enter = |number: usize| watch.enter(tokens[number], &closers[number].0);
        let count = |(_, closed): &(Closer, Arc<AtomicUsize>)| closed.load(Ordering::SeqCst);
        let closed = || closers.each_ref().map(count);
        let open = [enter(0), enter(1), enter(2)];
        watch.0.look();
        assert_eq!(closed(), [0; 4], "an operation may tell its client why it ends");
        // A client that has logged in before the token was revoked.
        let later = enter(3);
        watch.0.look();
        assert_eq!(closed(), [0, 0, 1, 0]);
        drop(later);
        watch.0.look();
        assert_eq!(closed(), [0, 0, 2, 0], "an ended connection is watched no longer");
        drop(open);
        assert!(watch.0.state().open.is_empty());
    }

    /// A thread that panics is no reason to watch nothing any more.
    #[test]
    fn a_thread_that_panicked_is_replaced() {
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let watch = TokenWatch::new(move |_| {
            assert!(
                counted.fetch_add(1, Ordering::SeqCst) > 0,
                "the first look panics"
            );
            Ok(true)
        });
        let reaches = |number| {
            (0..1000).any(|_| {
                thread::park_timeout(Duration::from_millis(10));
                looks.load(Ordering::SeqCst) == number && watch.0.state().has_thread == (number > 1)
            })
        };
        let first = watch.enter("token", &closer().0);
        assert!(reaches(1));
        let second = watch.enter("token", &closer().0);
        // One token, so one question a look.
        assert!(reaches(2));
        drop((first, second));
    }

    /// The thread belongs to the server.
    #[test]
    fn the_thread_ends_with_the_server() {
        let watch = TokenWatch::new(|_| Ok(true));
        let inner = Arc::downgrade(&watch.0);
        drop(watch.enter("token", &closer().0));
        drop(watch);
        let has_ended = (0..1000).any(|_| {
            thread::park_timeout(Duration::from_millis(10));
            inner.strong_count() == 0
        });
        assert!(has_ended);
    }
}
