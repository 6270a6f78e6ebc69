//! The time that a client has for its negotiation.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use env::Clock;

use crate::socket::Socket;

/// The moment when a client must be done.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    clock: Arc<dyn Clock>,
    until: Duration,
}

impl Deadline {
    /// The moment after this time.
    pub(crate) fn after(clock: &Arc<dyn Clock>, time: Duration) -> Self {
        Self {
            clock: Arc::clone(clock),
            until: clock.monotonic() + time,
        }
    }

    /// Gives the socket the time that is left. The socket's limits hold for each call, so this
    /// comes before each.
    pub(crate) fn limit(&self, socket: &Socket) -> io::Result<()> {
        let left = self.until.saturating_sub(self.clock.monotonic());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.wait_at_most(Some(left))?;
        socket.send_at_most(Some(left))?;
        Ok(())
    }
}
