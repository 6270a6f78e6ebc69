//! The forward assembly area [Lillibridge 3.3, L5], for comparison with restores that look ahead.
//!
//! The next `window` bytes of the stream are laid out as *spots*. The earliest unfilled spot names
//! the container to read. The read fills every spot of the window that needs a chunk of that
//! container. A *rolling* area sends filled spots at the front, and as much of the recipe enters at
//! the end; a container is read at most once a window. A *fixed* area fills and sends a whole
//! window before the next one begins.

use std::collections::{HashMap, VecDeque};

use restore::plan::{Reference, SPOT_BYTES};
use types::ContainerId;

/// The area always holds at least so many spots.
const SPOTS_MIN: u64 = 1024;

/// Plans one read at a time. Takes references only as far as the window reaches.
#[derive(Debug)]
pub(super) struct AreaPlanner<I> {
    references: I,
    is_rolling: bool,
    window_bytes: u64,
    spots: VecDeque<Spot>,
    first_spot: u64,
    laid_out_bytes: u64,
    by_container: HashMap<ContainerId, Vec<u64>>,
}

#[derive(Debug)]
struct Spot {
    /// `None` for zeros.
    container: Option<ContainerId>,
    len: u64,
    is_filled: bool,
}

/// A read of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) container: ContainerId,
    /// The spots that it fills, by their numbers in the stream.
    pub(super) filled: Vec<u64>,
}

impl<I, E> AreaPlanner<I>
where
    I: Iterator<Item = Result<Reference, E>>,
{
    /// Plans the restore of a stream with an area of `window_bytes`.
    pub(super) fn new(references: I, is_rolling: bool, window_bytes: u64) -> Self {
        Self {
            references,
            is_rolling,
            window_bytes: window_bytes.max(1),
            spots: VecDeque::new(),
            first_spot: 0,
            laid_out_bytes: 0,
            by_container: HashMap::new(),
        }
    }

    /// The next read; `None` at the end.
    pub(super) fn next_read(&mut self) -> Result<Option<Read>, E> {
        loop {
            // Zeros alone may have used up the spots.
            self.retire();
            let may_enter = self.is_rolling || self.spots.is_empty();
            if !(may_enter && self.lay_out()?) {
                break;
            }
        }
        let front = self.spots.front().and_then(|front| front.container);
        Ok(front.map(|container| self.read(container)))
    }

    /// Lays out spots. Returns whether any entered the area.
    fn lay_out(&mut self) -> Result<bool, E> {
        let before = self.spots.len();
        let spots_max = (self.window_bytes / SPOT_BYTES).max(SPOTS_MIN);
        while self.laid_out_bytes < self.window_bytes && (self.spots.len() as u64) < spots_max {
            let Some(reference) = self.references.next().transpose()? else {
                break;
            };
            let container = reference.chunk.map(|part| part.location.container);
            if let Some(container) = container {
                // Zeros take no room: nothing is assembled for them.
                self.laid_out_bytes += reference.len;
                let number = self.first_spot + self.spots.len() as u64;
                self.by_container.entry(container).or_default().push(number);
            }
            self.spots.push_back(Spot {
                container,
                len: reference.len,
                is_filled: container.is_none(),
            });
        }
        Ok(self.spots.len() > before)
    }

    fn read(&mut self, container: ContainerId) -> Read {
        let filled = self.by_container.remove(&container).unwrap_or_default();
        for number in &filled {
            let index = usize::try_from(number - self.first_spot).expect("a spot of the window");
            self.spots[index].is_filled = true;
        }
        self.retire();
        Read { container, filled }
    }

    /// Removes filled spots at the front.
    fn retire(&mut self) {
        while let Some(spot) = self.spots.pop_front_if(|spot| spot.is_filled) {
            self.first_spot += 1;
            if spot.container.is_some() {
                self.laid_out_bytes -= spot.len;
            }
        }
    }
}

#[cfg(test)]
mod tests;
