//! Whether the network is what slows a backup.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use env::Clock;

/// It decides anew after so many bytes.
const WINDOW_BYTES: usize = 4 << 20;
/// A network that takes as many bytes a second is never slow: then the server is what waits.
const FAST_BYTES_A_SECOND: u128 = 150_000_000;

/// Measures how long a network takes the bytes of a backup. For any number of threads.
#[derive(Debug)]
pub(crate) struct Line {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    began: Duration,
    bytes: usize,
    /// How long senders waited in this window.
    sending: Duration,
    is_slow: bool,
}

impl Line {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Self {
        Self {
            state: Mutex::new(State {
                began: clock.monotonic(),
                bytes: 0,
                sending: Duration::ZERO,
                is_slow: false,
            }),
            clock: Arc::clone(clock),
        }
    }

    /// Whether the network was slower than the client in the last window.
    pub(crate) fn is_slow(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_slow
    }

    /// Measures how long so many bytes take.
    pub(crate) fn sent<T>(&self, bytes: usize, send: impl FnOnce() -> T) -> T {
        let began = self.clock.monotonic();
        let sent = send();
        let now = self.clock.monotonic();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += bytes;
        state.sending += now.saturating_sub(began);
        if state.bytes >= WINDOW_BYTES {
            let took = now.saturating_sub(state.began);
            // Most of the time, or still a good part of it.
            let least = if state.is_slow { took / 4 } else { took * 6 / 10 };
            let nanos = took.as_nanos().max(1);
            let rate = state.bytes as u128 * 1_000_000_000 / nanos;
            *state = State {
                began: now,
                bytes: 0,
                sending: Duration::ZERO,
                is_slow: state.sending > least && rate < FAST_BYTES_A_SECOND,
            };
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use env::ManualClock;

    use super::*;

    #[test]
    fn a_line_is_slow_while_the_client_mostly_waits_for_it() {
        let clock = ManualClock::default();
        let time: Arc<dyn Clock> = Arc::new(clock.clone());
        let line = Line::new(&time);
        let after = |sending: u64, elsewhere: u64| {
            clock.advance(Duration::from_millis(elsewhere));
            line.sent(WINDOW_BYTES, || clock.advance(Duration::from_millis(sending)));
            line.is_slow()
        };
        assert!(!after(100, 100), "half of the time");
        assert!(after(300, 50));
        assert!(after(100, 200), "still a good part");
        assert!(!after(50, 300));
        assert!(!after(20, 1), "200 MB/s");
    }
}
