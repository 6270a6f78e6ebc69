//! What the threads of a server share: its settings, its open connections, its counters.
//!
//! Any number of threads call everything at once. A connection counts as open from
//! [`Shared::enter`] to [`Shared::leave`].

use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::Clock;

use crate::export::Exports;
use crate::listen::Place;
use crate::pace::Spinners;
use crate::socket::Socket;
use crate::stats::{Counters, ExportStats};
use crate::tls::TlsIdentity;

/// Locks, also after a thread panicked: each state here is whole between its changes.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// TLS of a server.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    /// The certificate and key.
    pub identity: TlsIdentity,
    /// Clients without TLS learn nothing.
    pub is_required: bool,
}

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Where it accepts clients.
    pub places: Vec<Place>,
    /// TLS, if it speaks it.
    pub tls: Option<TlsSettings>,
    /// More connections at once are closed.
    pub connections_max: usize,
    /// A connection has at most so many requests at devices at once.
    pub threads_of_connection_max: usize,
    /// All connections together have at most so many threads beyond one each.
    pub helpers_max: usize,
    /// A client must be done negotiating within this time.
    pub handshake_time: Duration,
}

impl ServerSettings {
    /// Settings for most uses: a server that listens here, without TLS.
    #[must_use]
    pub fn at(places: Vec<Place>) -> Self {
        Self {
            places,
            tls: None,
            connections_max: 256,
            threads_of_connection_max: 16,
            helpers_max: 256,
            handshake_time: Duration::from_secs(20),
        }
    }
}

/// What the threads of a server share.
pub(crate) struct Shared {
    pub(crate) settings: ServerSettings,
    pub(crate) exports: Arc<dyn Exports>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spinners: Spinners,
    is_stopping: AtomicBool,
    helpers: AtomicUsize,
    counters: Mutex<BTreeMap<String, Arc<Counters>>>,
    open: Mutex<Open>,
    closed: Condvar,
}

/// The open connections.
#[derive(Default)]
struct Open {
    sockets: BTreeMap<u64, Arc<Socket>>,
    next: u64,
}

impl Shared {
    pub(crate) fn new(settings: ServerSettings, exports: Arc<dyn Exports>, clock: Arc<dyn Clock>) -> Self {
        Self {
            settings,
            exports,
            clock,
            spinners: Spinners::new(),
            is_stopping: AtomicBool::new(false),
            helpers: AtomicUsize::new(0),
            counters: Mutex::default(),
            open: Mutex::default(),
            closed: Condvar::new(),
        }
    }

    /// From now on requests and clients are refused.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
    }

    /// The counters of every export that a client has used.
    pub(crate) fn stats(&self) -> BTreeMap<String, ExportStats> {
        let counters = lock(&self.counters);
        let snapshot = |(name, counters): (&String, &Arc<Counters>)| (name.clone(), counters.snapshot());
        counters.iter().map(snapshot).collect()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// The counters of an export.
    pub(crate) fn counters(&self, name: &str) -> Arc<Counters> {
        Arc::clone(lock(&self.counters).entry(name.to_owned()).or_default())
    }

    /// Whether another thread may start.
    pub(crate) fn take_helper(&self) -> bool {
        let max = self.settings.helpers_max;
        let took = self
            .helpers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                Some(now + 1).filter(|now| *now <= max)
            });
        took.is_ok()
    }

    pub(crate) fn return_helper(&self) {
        self.helpers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Registers a connection, unless there are too many.
    pub(crate) fn enter(&self, socket: &Arc<Socket>) -> Option<u64> {
        let mut open = lock(&self.open);
        if self.is_stopping() || open.sockets.len() >= self.settings.connections_max {
            return None;
        }
        let number = open.next;
        open.next += 1;
        open.sockets.insert(number, Arc::clone(socket));
        Some(number)
    }

    pub(crate) fn leave(&self, number: u64) {
        if let Some(socket) = lock(&self.open).sockets.remove(&number) {
            socket.shut_down(Shutdown::Both);
        }
        self.closed.notify_all();
    }

    /// Shuts all connections down.
    pub(crate) fn shut_down(&self, how: Shutdown) {
        for socket in lock(&self.open).sockets.values() {
            socket.shut_down(how);
        }
    }

    /// Waits until no connection is open. Returns whether that is so.
    pub(crate) fn wait_for_end(&self, time: Duration) -> bool {
        let open = lock(&self.open);
        let waited = self
            .closed
            .wait_timeout_while(open, time, |open| !open.sockets.is_empty());
        waited.is_ok_and(|(_, result)| !result.timed_out())
    }
}
