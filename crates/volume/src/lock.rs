//! Locking of mutexes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also behind a panic of another thread.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
