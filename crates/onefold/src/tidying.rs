//! Removal of what ended sessions left: on a far storage beside a backup, on others before it.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use session::{Listing, Session};

use crate::warning::Warning;

/// The removal, which may still run. Dropped before its end, it goes on, and nobody waits for it.
#[derive(Debug)]
pub(crate) struct Tidying(Mutex<Option<JoinHandle<Option<Warning>>>>);

impl Tidying {
    /// Begins, by the listing from when the session began. On a near storage it ends here, with a
    /// warning if something could not be removed.
    pub(crate) fn begin(session: &Session, listing: Listing, is_far: bool) -> (Self, Option<Warning>) {
        // It does not hold the session: if the backup fails, its lock is free at once.
        let tidier = session.tidier();
        let tidy = move || {
            let tidied = tidier.gc_sessions_by(&listing);
            tidied.err().map(|error| Warning::traces_left(&error))
        };
        if !is_far {
            return (Self(Mutex::default()), tidy());
        }
        // If the system gives no thread, a later backup tidies.
        let thread = thread::Builder::new().name("tidy".to_owned()).spawn(tidy);
        (Self(Mutex::new(thread.ok())), None)
    }

    /// What could not be removed, once, if that is known. Waits for nothing.
    pub(crate) fn ended(&self) -> Option<Warning> {
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = thread.as_ref().is_some_and(JoinHandle::is_finished);
        drop(thread.take_if(|_| !is_over));
        drop(thread);
        self.end()
    }

    /// Waits for the end. Returns what could not be removed, once.
    pub(crate) fn end(&self) -> Option<Warning> {
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        thread.join().unwrap_or_else(|_| {
            let why = "the thread that removes them panicked".to_owned();
            Some(Warning::TracesLeft { why })
        })
    }
}
