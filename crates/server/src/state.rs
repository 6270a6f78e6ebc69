//! What all connections of a server share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use onefold::{Credential, OpenOptions, Store};

use crate::error::ServerError;
use crate::home::Home;

/// The server's folder, its stores, and what runs.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) home: Home,
    stores: BTreeMap<String, Store>,
    is_ending: AtomicBool,
    running: AtomicUsize,
}

/// A running operation.
pub(crate) struct Operation<'a>(&'a AtomicUsize);

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl State {
    /// Opens the stores of all tenants with this credential.
    pub(crate) fn open(
        home: Home,
        credential: &Credential,
        options: &OpenOptions,
    ) -> Result<Self, ServerError> {
        let mut stores = BTreeMap::new();
        for (name, _) in home.tenants()? {
            let store = home.store(&name, credential, options)?;
            stores.insert(name, store);
        }
        Ok(Self {
            home,
            stores,
            is_ending: AtomicBool::new(false),
            running: AtomicUsize::new(0),
        })
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

    /// Whether an operation runs.
    pub(crate) fn is_busy(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Begins no operation any more.
    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }
}
