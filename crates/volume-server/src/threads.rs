//! A connection after its negotiation: the threads that serve its requests.
//!
//! One thread at a time has the *input*: it receives requests. It does quick ones itself, and sends
//! several replies at once. Before it does a request that waits for a device ([`crate::pace`]), it
//! gives the input to another thread, which receives the next request meanwhile. Nothing is handed
//! from thread to thread but the input; a request's reply is sent by the thread that received it.
//! If the export does several reads at once, a thread takes all reads that have arrived, and does
//! them together.
//!
//! What must hold: a thread that waits for a device holds no lock (except for the rest of a long
//! read in one chunk, see [`crate::execute`]). The memory of a connection is bounded by its
//! threads: each has at most one payload and one set of replies, also for reads
//! done together. Errors of the connection end all
//! its threads; no request is answered twice or by halves.

use std::net::Shutdown;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Scope;

use nbd::{PAYLOAD_BYTES_MAX, Rules};

use crate::connection::Connection;
use crate::error::TARGET;
use crate::execute::{Next, Worker};
use crate::handshake::Negotiated;
use crate::input::Input;
use crate::pace::{Pace, Patience};
use crate::shared::{Shared, lock};
use crate::socket::Socket;

/// Serves the requests of a connection until it ends.
pub(crate) fn serve(shared: &Shared, socket: &Socket, negotiated: Negotiated) {
    let Negotiated {
        export,
        transmission,
        source,
        output,
        received,
    } = negotiated;
    let counters = shared.counters(&transmission.export);
    let rules = Rules {
        size_bytes: export.size_bytes(),
        flags: transmission.flags,
        is_structured: transmission.is_structured,
        has_contexts: !transmission.contexts.is_empty(),
        payload_max: PAYLOAD_BYTES_MAX,
    };
    let connection = Connection {
        shared,
        socket,
        export,
        counters,
        transmission,
        rules,
        pace: Pace::default(),
        input: Mutex::new((Input::new(source, &received), Patience::default())),
        output: Mutex::new(output),
        waiting: AtomicUsize::new(0),
        threads: AtomicUsize::new(1),
    };
    connection.counters.connections.fetch_add(1, Ordering::Relaxed);
    std::thread::scope(|scope| connection.work(scope));
    connection.counters.connections.fetch_sub(1, Ordering::Relaxed);
    if shared.is_stopping()
        && let Err(error) = connection.export.flush()
    {
        let export = &connection.transmission.export;
        tracing::error!(target: TARGET, %export, %error, "the last flush failed");
    }
    lock(&connection.output).close();
}

/// Ends the other threads of a connection if this one panics.
struct Ending<'a>(&'a Socket);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.shut_down(Shutdown::Both);
        }
    }
}

impl Connection<'_> {
    fn work<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        let mut worker = Worker::new(self);
        let _ending = Ending(self.socket);
        loop {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let mut input = lock(&self.input);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            let (bytes, patience) = &mut *input;
            let next = worker.serve(bytes, patience);
            let done = match next {
                Ok(Next::Slow(request)) => {
                    drop(input);
                    self.help(scope);
                    worker.slow(&request)
                }
                Ok(Next::Over) => {
                    bytes.end();
                    return;
                }
                Err(broken) => {
                    bytes.end();
                    Err(broken)
                }
            };
            if let Err(broken) = done {
                tracing::info!(target: TARGET, export = %self.transmission.export, %broken, "a connection ended");
                // The thread that has the input, or waits for room to send, returns.
                self.socket.shut_down(Shutdown::Both);
                return;
            }
        }
    }

    /// Starts a thread if none waits for the input.
    fn help<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return;
        }
        let threads = self.threads.load(Ordering::Relaxed);
        if threads >= self.shared.settings.threads_of_connection_max {
            return;
        }
        let is_ours = |threads, more| {
            self.threads
                .compare_exchange(threads, more, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        if !is_ours(threads, threads + 1) {
            return;
        }
        let none_started = || _ = self.threads.fetch_sub(1, Ordering::Relaxed);
        if !self.shared.take_helper() {
            return none_started();
        }
        let started = std::thread::Builder::new()
            .name("nbd helper".to_owned())
            .spawn_scoped(scope, || {
                let _helper = Helper(self.shared);
                self.work(scope);
            });
        if let Err(error) = started {
            self.shared.return_helper();
            none_started();
            tracing::warn!(target: TARGET, %error, "the system starts no thread");
        }
    }
}

/// One of the server's helpers, returned also if its thread panics.
struct Helper<'a>(&'a Shared);

impl Drop for Helper<'_> {
    fn drop(&mut self) {
        self.0.return_helper();
    }
}
