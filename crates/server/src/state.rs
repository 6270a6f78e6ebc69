//! What all connections of a server share.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use onefold::{Credential, OpenOptions, Store};

use crate::balance::Balance;
use crate::error::ServerError;
use crate::home::Home;
use crate::memory::Memory;
use crate::namespaces::Place;
use crate::rate::Rates;
use crate::running::{RunningBackups, RunningBytes};
use crate::stores::Stores;
use crate::tenants::TenantInfo;
use crate::token_watch::TokenWatch;
use crate::vault::Vault;

/// The server's folder, its stores, and what runs.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) home: Home,
    stores: Stores,
    /// By namespace.
    vaults: Mutex<BTreeMap<String, Arc<Vault>>>,
    pub(crate) running_bytes: RunningBytes,
    pub(crate) running_backups: RunningBackups,
    pub(crate) memory: Memory,
    pub(crate) rates: Rates,
    pub(crate) balance: Balance,
    pub(crate) token_watch: TokenWatch,
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
    /// Opens the store of a tenant with this credential when its first client comes.
    pub(crate) fn new(home: Home, credential: &Credential, options: &OpenOptions, memory_bytes: u64) -> Self {
        let (opening, credential, options) = (home.clone(), credential.clone(), options.clone());
        let watched = home.clone();
        let open = move |tenant: &str| opening.store(tenant, &credential, &options);
        Self {
            stores: Stores::new(&home.env.clock, open),
            balance: Balance::new(&home.env.clock),
            token_watch: TokenWatch::new(move |token| watched.is_valid(token)),
            home,
            vaults: Mutex::default(),
            running_bytes: RunningBytes::default(),
            running_backups: RunningBackups::default(),
            memory: Memory::new(memory_bytes),
            rates: Rates::default(),
            is_ending: AtomicBool::new(false),
            running: AtomicUsize::new(0),
        }
    }

    /// Opens the stores of all tenants. Returns why some are away.
    pub(crate) fn open_all(&self) -> Result<Vec<ServerError>, ServerError> {
        let tenants = self.home.tenants()?;
        // Each that does not answer takes some time.
        let opened: Vec<_> = thread::scope(|scope| {
            let open = |tenant: &TenantInfo| self.stores.of(&tenant.name).map(drop);
            let threads: Vec<_> = tenants
                .iter()
                .map(|tenant| scope.spawn(move || open(tenant)))
                .collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        let mut away = Vec::new();
        for opened in opened {
            match opened.unwrap_or_else(|panic| resume_unwind(panic)) {
                Ok(()) => {}
                Err(error @ ServerError::Away { .. }) => away.push(error),
                Err(error) => return Err(error),
            }
        }
        Ok(away)
    }

    /// The store of a namespace's tenant.
    pub(crate) fn store_of(&self, namespace: &str) -> Result<Arc<Store>, ServerError> {
        match self.home.place_of(namespace)? {
            Some(Place::Tenant(tenant)) => self.stores.of(&tenant),
            Some(Place::Vault) => Err(ServerError::Refused(format!(
                "the namespace {namespace} is a vault: its clients have its keys"
            ))),
            None => Err(ServerError::Refused(format!(
                "there is no namespace {namespace}; `onefold server namespace add` makes one"
            ))),
        }
    }

    /// The vault of a namespace, if it is one. It is opened if it is new.
    pub(crate) fn vault_of(&self, namespace: &str) -> Result<Option<Arc<Vault>>, ServerError> {
        if self.home.place_of(namespace)? != Some(Place::Vault) {
            return Ok(None);
        }
        let mut vaults = self.vaults.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(vault) = vaults.get(namespace) {
            return Ok(Some(Arc::clone(vault)));
        }
        let vault = Arc::new(Vault::open(&self.home, namespace)?);
        vaults.insert(namespace.to_owned(), Arc::clone(&vault));
        Ok(Some(vault))
    }

    /// Does not use a vault's handle for later clients: its barriers fail.
    pub(crate) fn close_vault(&self, namespace: &str, vault: &Arc<Vault>) {
        let mut vaults = self.vaults.lock().unwrap_or_else(PoisonError::into_inner);
        if vaults.get(namespace).is_some_and(|open| Arc::ptr_eq(open, vault)) {
            vaults.remove(namespace);
        }
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
