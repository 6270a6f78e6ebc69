//! The stored bytes of containers for their plain bytes, from their catalogs.
//!
//! Some data compresses ten times, some not at all, so a full container has many plain bytes or
//! few. For this reason a backup's share of a container is counted in stored bytes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use container::{ContainerError, Containers};
use types::ContainerId;

use crate::progress::Progress;

/// Plain and stored bytes of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Weight {
    plain: u64,
    /// The container's stored bytes.
    stored: u64,
}

impl Weight {
    /// About how many stored bytes so many of its plain bytes take: the average of the container,
    /// and never more than `len`.
    pub(super) fn of(self, len: u64) -> u64 {
        let stored = u128::from(len) * u128::from(self.stored) / u128::from(self.plain.max(1));
        u64::try_from(stored).unwrap_or(len).min(len)
    }
}

/// Computes the weights of containers in several threads. It leaves out containers without a
/// readable catalog, and the rest once the progress is cancelled.
///
/// # Errors
/// Of the storage.
pub(super) fn weigh(
    containers: &Containers,
    ids: &[ContainerId],
    workers: usize,
    progress: &dyn Progress,
) -> Result<HashMap<ContainerId, Weight>, ContainerError> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Vec::new();
        while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
            if progress.is_cancelled() {
                break;
            }
            match containers.catalog(*id) {
                Ok(view) => {
                    let plain = view.entries().iter().map(|entry| u64::from(entry.len)).sum();
                    let stored = view.stored_bytes();
                    found.push((*id, Weight { plain, stored }));
                }
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    // The other threads end after their current container.
                    next.store(ids.len(), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(found)
    };
    thread::scope(|scope| {
        let others = (1..workers.min(ids.len()))
            .filter_map(|_| thread::Builder::new().spawn_scoped(scope, worker).ok())
            .collect::<Vec<_>>();
        let mut all: HashMap<_, _> = worker()?.into_iter().collect();
        for other in others {
            all.extend(other.join().expect("a weighing thread does not panic")?);
        }
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_takes_as_much_as_all_on_average() {
        let of = |plain, stored, len| Weight { plain, stored }.of(len);
        assert_eq!(of(4000, 1000, 40), 10);
        // Data that does not compress takes a little more, for its catalog; this is not counted.
        assert_eq!(of(4000, 4100, 40), 40);
        assert_eq!(of(0, 0, 40), 0);
    }
}
