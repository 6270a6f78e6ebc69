//! What the threads of a connection share ([`crate::threads`]).

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nbd::{Rules, Transmission};

use crate::export::Export;
use crate::input::Input;
use crate::output::Output;
use crate::pace::{Pace, Patience};
use crate::shared::Shared;
use crate::socket::Socket;
use crate::stats::Counters;

/// What the threads of a connection share.
pub(crate) struct Connection<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) socket: &'a Socket,
    pub(crate) export: Arc<dyn Export>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) transmission: Transmission,
    pub(crate) rules: Rules,
    pub(crate) pace: Pace,
    pub(crate) input: Mutex<(Input, Patience)>,
    pub(crate) output: Mutex<Output>,
    /// Threads that wait for the input.
    pub(crate) waiting: AtomicUsize,
    pub(crate) threads: AtomicUsize,
}

impl Connection<'_> {
    /// The time, for measuring.
    pub(crate) fn now(&self) -> Duration {
        self.shared.clock.monotonic()
    }
}
