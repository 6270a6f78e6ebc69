//! A running server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use onefold::{Credential, OpenOptions, Store};
use transport::{Acceptor, Channel, Closer, TransportError};

use crate::connection::Peer;
use crate::error::ServerError;
use crate::home::Home;

/// How often an ending server looks whether all operations have ended.
const LOOK: Duration = Duration::from_millis(20);

/// A running server. Any number of threads serve connections with it.
#[derive(Debug)]
pub struct Server {
    pub(crate) home: Home,
    stores: BTreeMap<String, Store>,
    acceptor: Acceptor,
    is_ending: AtomicBool,
    running: AtomicUsize,
    connections: Mutex<BTreeMap<u64, Closer>>,
    next: AtomicU64,
}

/// A running operation.
pub(crate) struct Operation<'a>(&'a AtomicUsize);

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Server {
    /// Opens the stores of all tenants with this credential.
    ///
    /// # Errors
    /// Of the folder and the stores.
    pub fn open(home: Home, credential: &Credential, options: &OpenOptions) -> Result<Self, ServerError> {
        let mut stores = BTreeMap::new();
        for (name, _) in home.tenants()? {
            let store = home.store(&name, credential, options)?;
            stores.insert(name, store);
        }
        let acceptor = Acceptor::new(home.authority()?, &home.env.clock)?;
        Ok(Self {
            home,
            stores,
            acceptor,
            is_ending: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            connections: Mutex::default(),
            next: AtomicU64::new(0),
        })
    }

    /// Puts TLS around the server's end of a channel.
    ///
    /// # Errors
    /// If the client speaks no TLS 1.3, or is gone.
    pub fn secure(&self, channel: Channel) -> Result<Channel, TransportError> {
        self.acceptor.accept(channel)
    }

    /// Serves a client until it leaves. The channel is secure. Calls `trusted` once the client has
    /// shown its token.
    ///
    /// # Errors
    /// If the connection breaks, or the client breaks the protocol.
    pub fn serve(&self, channel: Channel, trusted: &dyn Fn()) -> Result<(), TransportError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.connections().insert(number, channel.closer.clone());
        let served = if self.is_ending() {
            Ok(())
        } else {
            Peer::new(self, channel).serve(trusted)
        };
        self.connections().remove(&number);
        served
    }

    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Closer>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store of a namespace's tenant.
    pub(crate) fn store_of(&self, namespace: &str) -> Result<&Store, ServerError> {
        let tenant = self.home.tenant_of(namespace)?;
        let store = tenant.as_ref().and_then(|tenant| self.stores.get(tenant));
        store.ok_or_else(|| ServerError::Refused(format!("there is no namespace {namespace}")))
    }

    /// Counts an operation. `None` if the server is ending.
    pub(crate) fn begin(&self) -> Option<Operation<'_>> {
        self.running.fetch_add(1, Ordering::AcqRel);
        let operation = Operation(&self.running);
        (!self.is_ending()).then_some(operation)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// The number of open connections.
    #[must_use]
    pub fn connections_open(&self) -> usize {
        self.connections().len()
    }

    /// Ends the server: no operation begins any more. Running ones may take so long; then their
    /// connections are closed. A backup that is cut is continued by the next one of its series.
    pub fn end(&self, patience: Duration) {
        self.is_ending.store(true, Ordering::Release);
        let clock = &self.home.env.clock;
        let until = clock.monotonic() + patience;
        while self.running.load(Ordering::Acquire) > 0 && clock.monotonic() < until {
            clock.sleep(LOOK);
        }
        for closer in self.connections().values() {
            closer.close();
        }
        while self.connections_open() > 0 && clock.monotonic() < until + patience {
            clock.sleep(LOOK);
        }
    }
}
