//! Runs many small requests concurrently: on a remote storage, a thousand concurrent requests take
//! as long as one. The caller decides whether they may run in any order.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// The most threads.
const THREADS_MAX: usize = 8;
/// With fewer requests for each thread, threads cost more than they save.
const A_THREAD_MIN: usize = 8;

/// Calls `one` for each number below `count`, concurrently if there are many. The results are in
/// order.
///
/// # Errors
/// The error of the lowest number that was tried.
pub fn several<T: Send, E: Send>(
    count: usize,
    one: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let threads = (count / A_THREAD_MIN).min(THREADS_MAX);
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
            done.extend(other.join().expect("asking for a small object does not panic"));
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
        for count in [0, 1, 15, 16, 1000] {
            let asked = AtomicUsize::new(0);
            let done: Result<Vec<usize>, ()> = several(count, |at| {
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
            let done = several(count, |at| {
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
