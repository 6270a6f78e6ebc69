//! A server: its sockets, its connections, and its end.
//!
//! Each socket has a thread that accepts clients, and each connection has a thread, and more if it
//! waits for devices. Any number of threads may call a [`Server`] at once.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use env::Clock;

use crate::error::{ServeError, TARGET};
use crate::export::Exports;
use crate::handshake;
use crate::listen::Listening;
use crate::shared::{ServerSettings, Shared};
use crate::socket::Socket;
use crate::stats::ExportStats;
use crate::threads;

/// How long the accepting thread rests after the system gave it no client.
const REST: Duration = Duration::from_millis(100);
/// For so long a server that is being stopped answers that it is, before it stops listening to its
/// clients.
const FAREWELL: Duration = Duration::from_millis(100);

/// A running server. Dropping it ends it without waiting for requests.
pub struct Server {
    shared: Arc<Shared>,
    accepting: Vec<(Arc<Listening>, Option<JoinHandle<()>>)>,
}

impl Server {
    /// Listens on all places, and serves clients on threads of its own.
    ///
    /// # Errors
    /// [`ServeError`]
    pub fn start(
        settings: ServerSettings,
        exports: Arc<dyn Exports>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ServeError> {
        let listening: Result<Vec<_>, _> = settings.places.iter().map(Listening::start).collect();
        let mut server = Self {
            shared: Arc::new(Shared::new(settings, exports, clock)),
            accepting: Vec::new(),
        };
        for listening in listening? {
            let listening = Arc::new(listening);
            let (shared, socket) = (Arc::clone(&server.shared), Arc::clone(&listening));
            let thread = thread::Builder::new()
                .name("nbd accept".to_owned())
                .spawn(move || accept(&shared, &socket))
                .map_err(ServeError::Thread)?;
            server.accepting.push((listening, Some(thread)));
        }
        Ok(server)
    }

    /// The addresses of the network's sockets, with the ports that the system has chosen.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let addresses = self.accepting.iter().map(|(listening, _)| listening.address());
        addresses.flatten().collect()
    }

    /// The counters of every export that a client has used.
    #[must_use]
    pub fn stats(&self) -> BTreeMap<String, ExportStats> {
        self.shared.stats()
    }

    /// Accepts no more clients, finishes and answers the requests that it has received, and refuses
    /// new ones. Then it flushes each export and closes the connections. Connections that do not
    /// end within `time`, because a client does not receive, are cut. Returns whether all ended in
    /// time.
    pub fn stop(mut self, time: Duration) -> bool {
        self.shared.stop();
        self.end_accepting();
        if self.shared.wait_for_end(FAREWELL.min(time)) {
            return true;
        }
        // Requests that have arrived are still answered.
        self.shared.shut_down(Shutdown::Read);
        self.shared.wait_for_end(time.saturating_sub(FAREWELL))
    }

    fn end_accepting(&mut self) {
        for (listening, thread) in &mut self.accepting {
            listening.end();
            if let Some(thread) = thread.take()
                && thread.join().is_err()
            {
                tracing::error!(target: TARGET, "a thread that accepted clients panicked");
            }
        }
        self.accepting.clear();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop();
        self.end_accepting();
        self.shared.shut_down(Shutdown::Both);
        // A thread ends when its device answers.
        self.shared.wait_for_end(Duration::MAX);
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}

fn accept(shared: &Arc<Shared>, listening: &Listening) {
    loop {
        let accepted = listening.accept();
        if shared.is_stopping() {
            return;
        }
        let socket = match accepted {
            Ok(socket) => Arc::new(socket),
            Err(error) => {
                // Without a free descriptor, for example, the next call fails at once, too.
                tracing::warn!(target: TARGET, %error, "a client was not accepted");
                shared.clock.sleep(REST);
                continue;
            }
        };
        let Some(number) = shared.enter(&socket) else {
            tracing::warn!(target: TARGET, "a client was refused: there are too many connections");
            continue;
        };
        let serving = Arc::clone(shared);
        let started = thread::Builder::new()
            .name("nbd client".to_owned())
            .spawn(move || {
                // Also if a thread of the connection panics.
                let _leaving = Leaving(&serving, number);
                serve(&serving, &socket);
            });
        if let Err(error) = started {
            shared.leave(number);
            tracing::warn!(target: TARGET, %error, "a client was not accepted");
        }
    }
}

/// Closes a connection and forgets it when it is dropped.
struct Leaving<'a>(&'a Shared, u64);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// Serves a client until it ends.
fn serve(shared: &Shared, socket: &Arc<Socket>) {
    let negotiated = socket
        .prepare()
        .map_err(Into::into)
        .and_then(|()| handshake::negotiate(shared, socket));
    match negotiated {
        Ok(Some(negotiated)) => threads::serve(shared, socket, negotiated),
        Ok(None) => {}
        Err(broken) => tracing::info!(target: TARGET, %broken, "a client was refused"),
    }
}
