//! The volumes that a server serves, and who has them open.
//!
//! A volume is opened under a lock that [`ServedExports::unused`] holds, so no client opens a
//! volume while it is removed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use volume::Pool;
use volume_server::{Export, Exports, PoolExports};

use super::request::{Kind, Refusal};

type Open = BTreeMap<String, Vec<Weak<dyn Export>>>;

/// The volumes of a pool as exports.
pub(crate) struct ServedExports {
    volumes: PoolExports,
    open: Mutex<Open>,
}

impl ServedExports {
    /// The volumes of this pool.
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            volumes: PoolExports::new(pool),
            open: Mutex::default(),
        }
    }

    fn open_now(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections that have the volume open.
    pub(crate) fn connections(&self, name: &str) -> u64 {
        let open = self.open_now();
        let of_volume = open.get(name).into_iter().flatten();
        of_volume.filter(|one| one.strong_count() > 0).count() as u64
    }

    /// Does something that no client of the volume may see: nobody opens a volume meanwhile.
    ///
    /// # Errors
    /// [`Kind::InUse`] if a client has it open; those of `work`.
    pub(crate) fn unused<T>(
        &self,
        name: &str,
        work: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let open = self.open_now();
        let of_volume = open.get(name).into_iter().flatten();
        let clients = of_volume.filter(|one| one.strong_count() > 0).count();
        if clients > 0 {
            let what = if clients == 1 {
                "a client has".to_owned()
            } else {
                format!("{clients} connections of clients have")
            };
            return Err(Refusal::new(
                Kind::InUse,
                format!("{what} the volume {name:?} open; detach it from them first"),
            ));
        }
        work()
    }
}

impl Exports for ServedExports {
    fn list(&self) -> Vec<String> {
        self.volumes.list()
    }

    fn open(&self, name: &str) -> Option<Arc<dyn Export>> {
        let mut open = self.open_now();
        let name = if name.is_empty() {
            // The default export is the only volume.
            let mut names = self.volumes.list();
            names.pop().filter(|_| names.is_empty())?
        } else {
            name.to_owned()
        };
        let export = self.volumes.open(&name)?;
        let of_volume = open.entry(name).or_default();
        of_volume.retain(|one| one.strong_count() > 0);
        of_volume.push(Arc::downgrade(&export));
        Some(export)
    }
}
