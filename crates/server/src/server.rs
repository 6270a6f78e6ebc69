//! A running server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::Clock;
use onefold::{Credential, OpenOptions};
use transport::{Acceptor, Channel, Closer, TransportError};

use crate::connection::{Connection, Granted};
use crate::error::ServerError;
use crate::guests::Guests;
use crate::home::Home;
use crate::peer::Deadline;
use crate::state::State;

/// How often an ending server looks whether all operations have ended.
const LOOK: Duration = Duration::from_millis(20);

/// A running server. Any number of threads serve connections with it.
#[derive(Debug)]
pub struct Server {
    state: State,
    away: Vec<ServerError>,
    acceptor: Acceptor,
    connections: Mutex<BTreeMap<u64, Closer>>,
    /// The connections of all network sockets.
    guests: Arc<Guests>,
    next: AtomicU64,
}

/// An open connection, however it ends.
struct Open<'a>(&'a Server, u64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.connections().remove(&self.1);
    }
}

impl Server {
    /// Opens the stores of all tenants with this credential. Clients share about so much memory;
    /// the server needs 288 MiB. [`Self::away`] has the stores that it cannot reach yet.
    ///
    /// # Errors
    /// Of the folder and the stores.
    pub fn open(
        home: Home,
        credential: &Credential,
        options: &OpenOptions,
        memory_bytes: u64,
    ) -> Result<Self, ServerError> {
        let mut server = Self::open_on_demand(home, credential, options, memory_bytes)?;
        server.away = server.state.open_all()?;
        Ok(server)
    }

    /// Like [`Self::open`], but opens the store of a tenant when its first client comes.
    ///
    /// # Errors
    /// Of the folder.
    pub fn open_on_demand(
        home: Home,
        credential: &Credential,
        options: &OpenOptions,
        memory_bytes: u64,
    ) -> Result<Self, ServerError> {
        let acceptor = Acceptor::new(home.authority()?, &home.env.clock)?;
        Ok(Self {
            state: State::new(home, credential, options, memory_bytes),
            away: Vec::new(),
            acceptor,
            connections: Mutex::default(),
            guests: Arc::new(Guests::new(env::descriptor_limit())),
            next: AtomicU64::new(0),
        })
    }

    /// The stores that the server could not reach when it was opened. It tries again by itself.
    #[must_use]
    pub fn away(&self) -> &[ServerError] {
        &self.away
    }

    /// Puts TLS around the server's end of a channel.
    ///
    /// # Errors
    /// If the client speaks no TLS 1.3, or is gone.
    pub fn secure(&self, channel: Channel) -> Result<Channel, TransportError> {
        self.acceptor.accept(channel)
    }

    /// Serves a client at this address until it leaves. The channel is secure. Calls `deadline`
    /// with the time in which bytes must come, or with `None` if they may come at any time: so it
    /// is while the server waits for the next message of a client that has shown its token.
    ///
    /// # Errors
    /// If the connection breaks, or the client breaks the protocol.
    pub fn serve(&self, channel: Channel, from: &str, deadline: &Deadline) -> Result<(), TransportError> {
        self.serve_as((channel, from), None, deadline)
    }

    /// Serves a client of a tunnel until it leaves. It needs no token.
    ///
    /// # Errors
    /// If the connection breaks, or the client breaks the protocol.
    pub fn serve_tunnel(&self, channel: Channel, granted: Granted) -> Result<(), TransportError> {
        // The system has authenticated the client.
        let none: Deadline = Arc::new(|_| ());
        self.serve_as((channel, "a tunnel"), Some(granted), &none)
    }

    fn serve_as(
        &self,
        (channel, from): (Channel, &str),
        granted: Option<Granted>,
        deadline: &Deadline,
    ) -> Result<(), TransportError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.connections().insert(number, channel.closer.clone());
        let _open = Open(self, number);
        if self.is_ending() {
            return Ok(());
        }
        Connection::new(&self.state, (channel, from), granted, deadline).serve()
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Closer>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn guests(&self) -> &Arc<Guests> {
        &self.guests
    }

    #[cfg(test)]
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.state.is_ending()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.state.home.env.clock
    }

    /// Ends the server: no operation begins any more. Running ones may take so long; then their
    /// connections are closed. A backup that is cut is continued by the next one of its series.
    pub fn end(&self, patience: Duration) {
        self.state.end();
        let clock = self.clock();
        let until = clock.monotonic() + patience;
        while self.state.is_busy() && clock.monotonic() < until {
            clock.sleep(LOOK);
        }
        for closer in self.connections().values() {
            closer.close();
        }
        while !self.connections().is_empty() && clock.monotonic() < until + patience {
            clock.sleep(LOOK);
        }
    }
}
