//! Runs many small requests concurrently: on a remote storage, a thousand concurrent requests take
//! as long as one. The caller decides whether they may run in any order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The most threads.
const THREADS_MAX: usize = 8;
/// With fewer requests for each thread, threads cost more than they save.
const A_THREAD_MIN: usize = 8;

/// Calls `one` for each number below `count`, concurrently if there are many, or if each call takes
/// a round trip (`is_far`, as [`env::Storage::is_far`] says). The results are in order.
///
/// # Errors
/// The error of the lowest number that was tried.
pub fn several<T: Send, E: Send>(
    is_far: bool,
    count: usize,
    one: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let a_thread = if is_far { 1 } else { A_THREAD_MIN };
    threaded(count, (count / a_thread).min(THREADS_MAX), one)
}

/// Calls `one` for each number below `count`, on so many threads. The results are in order.
///
/// # Errors
/// The error of the lowest number that was tried.
pub fn threaded<T: Send, E: Send>(
    count: usize,
    threads: usize,
    one: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    if threads < 2 {
        return (0..count).map(one).collect();
    }
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return done;
            }
            let result = one(at);
            let failed = result.is_err();
            done.push((at, result));
            if failed {
                // The other threads end after their current request.
                next.store(count, Ordering::Relaxed);
            }
        }
    };
    let mut done: Vec<_> = thread::scope(|scope| {
        // The calling thread works too.
        let others = (1..threads).filter_map(|_| thread::Builder::new().spawn_scoped(scope, worker).ok());
        let others: Vec<_> = others.collect();
        let mut done = worker();
        for other in others {
            done.extend(other.join().expect("a thread for requests does not panic"));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_are_in_order_and_each_is_asked_for_once() {
        for (is_far, count) in [
            (false, 0),
            (false, 1),
            (false, 15),
            (true, 15),
            (false, 16),
            (false, 1000),
        ] {
            let asked = AtomicUsize::new(0);
            let done: Result<Vec<usize>, ()> = several(is_far, count, |at| {
                asked.fetch_add(1, Ordering::Relaxed);
                Ok(at)
            });
            assert_eq!(done, Ok((0..count).collect()));
            assert_eq!(asked.into_inner(), count);
        }
    }

    #[test]
    fn an_error_ends_it() {
        for (count, asked_max) in [(3, 3), (1000, 500)] {
            let asked = AtomicUsize::new(0);
            let done = several(false, count, |at| {
                asked.fetch_add(1, Ordering::Relaxed);
                if at == 2 {
                    return Err(at);
                }
                if at > 2 {
                    // Takes time like a read, so that the error comes while nearly all requests are
                    // still to be made.
                    thread::park_timeout(Duration::from_millis(1));
                }
                Ok(())
            });
            assert_eq!(done, Err(2));
            let asked = asked.into_inner();
            assert!(asked <= asked_max, "{asked} of {count}");
        }
    }
}
