//! The connection to a vault, and another one when it breaks.
//!
//! Requests of many threads share the connection. When it breaks, one thread connects again, with
//! growing pauses, and the others wait. Then each sends its request again.
//!
//! A server's handle of the vault has a name. Another handle, for example of a server that was
//! started again, knows nothing of what was done with the former one, and the machine may have lost
//! it. So if anything was done since the last barrier, all later barriers fail, as [`env::Storage`]
//! allows. Reading goes on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::Clock;

use crate::connection::Connection;
use crate::dial::Dialer;
use crate::error::ClientError;

/// How often one request is sent again.
const ATTEMPTS_MAX: u32 = 50;

/// The first pause before another attempt to connect. Pauses double, ...
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// ... up to this one.
const PAUSE_MAX: Duration = Duration::from_secs(15);
/// How long a server may be away.
const PATIENCE: Duration = Duration::from_mins(10);

/// A connection to a handle of a vault.
#[derive(Debug, Clone)]
pub(crate) struct Linked {
    pub(crate) connection: Arc<Connection>,
    /// Which connection of this link it is.
    number: u64,
    handle: [u8; 16],
}

/// What was done, for barriers.
#[derive(Debug)]
struct State {
    linked: Linked,
    /// Requests that were answered.
    done: u64,
    /// Of these, the ones that a barrier has covered.
    covered: u64,
    /// A barrier cannot cover what was done any more.
    is_lost: bool,
}

/// The connection to a vault, for any number of threads.
#[derive(Debug)]
pub(crate) struct VaultLink {
    pub(crate) dialer: Dialer,
    clock: Arc<dyn Clock>,
    patience: Duration,
    state: Mutex<State>,
}

impl VaultLink {
    pub(crate) fn new(dialer: Dialer, first: Connection, handle: [u8; 16], clock: &Arc<dyn Clock>) -> Self {
        Self {
            dialer,
            clock: Arc::clone(clock),
            patience: PATIENCE,
            state: Mutex::new(State {
                linked: Linked {
                    connection: Arc::new(first),
                    number: 0,
                    handle,
                },
                done: 0,
                covered: 0,
                is_lost: false,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a request, over another connection if the present one breaks. `run` learns whether it
    /// may have run before.
    pub(crate) fn request<T>(
        &self,
        run: impl Fn(&Connection, bool) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let (outcome, handle) = self.try_request(run);
        let mut state = self.state();
        state.done += 1;
        // The handle that answered was replaced meanwhile.
        state.is_lost |= state.linked.handle != handle;
        outcome
    }

    /// The outcome of a request, and the handle that answered it.
    fn try_request<T>(
        &self,
        run: impl Fn(&Connection, bool) -> Result<T, ClientError>,
    ) -> (Result<T, ClientError>, [u8; 16]) {
        let mut linked = self.state().linked.clone();
        let (mut is_again, mut attempt) = (false, 0);
        loop {
            match run(&linked.connection, is_again) {
                Err(error) if error.is_of_connection() && attempt < ATTEMPTS_MAX => {
                    // The server may be busy, or break the connection again.
                    let pause = PAUSE_MIN.saturating_mul(1 << attempt.min(6));
                    self.clock.sleep(pause.min(PAUSE_MAX));
                    attempt += 1;
                    let handle = linked.handle;
                    linked = match self.reconnect(&linked, error) {
                        Ok(linked) => linked,
                        Err(error) => return (Err(error), handle),
                    };
                    is_again = true;
                }
                outcome => return (outcome, linked.handle),
            }
        }
    }

    /// Runs a barrier, which covers all requests that were answered before. `Ok(false)`: it cannot
    /// cover them any more.
    pub(crate) fn barrier(
        &self,
        run: impl Fn(&Connection) -> Result<(), ClientError>,
    ) -> Result<bool, ClientError> {
        let covers = {
            let state = self.state();
            if state.is_lost {
                return Ok(false);
            }
            state.done
        };
        let (outcome, handle) = self.try_request(|connection, _| run(connection));
        let mut state = self.state();
        state.is_lost |= state.linked.handle != handle;
        if outcome.is_err() {
            // Nothing since the last barrier counts as durable, even if a later one succeeds.
            state.is_lost = true;
        } else if !state.is_lost {
            state.covered = state.covered.max(covers);
        }
        let is_lost = state.is_lost;
        outcome.map(|()| !is_lost)
    }

    /// Another connection than the broken one, for all threads.
    fn reconnect(&self, broken: &Linked, cause: ClientError) -> Result<Linked, ClientError> {
        // The other threads wait for the lock.
        let mut state = self.state();
        if state.linked.number != broken.number {
            return Ok(state.linked.clone());
        }
        let until = self.clock.monotonic() + self.patience;
        let mut pause = PAUSE_MIN;
        loop {
            match self.dialer.log_in_told() {
                Ok((connection, told)) => {
                    let none = || ClientError::Protocol("the namespace is no vault any more".to_owned());
                    let handle = told.vault.ok_or_else(none)?;
                    if handle != state.linked.handle && state.done != state.covered {
                        state.is_lost = true;
                    }
                    state.linked = Linked {
                        connection: Arc::new(connection),
                        number: broken.number + 1,
                        handle,
                    };
                    return Ok(state.linked.clone());
                }
                Err(error) if !error.is_of_connection() => return Err(error),
                Err(_) if self.clock.monotonic() >= until => return Err(cause),
                Err(_) => {}
            }
            self.clock.sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}
