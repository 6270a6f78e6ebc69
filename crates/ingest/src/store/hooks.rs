//! Hooks of a backup's own containers, for the index.

use std::sync::{Arc, Mutex, PoisonError};

use container::{CatalogView, Containers};
use index::HookWriter;

use crate::error::IngestError;

/// Publishes the hooks of containers as they are put, so that look-ups find their chunks. Any
/// number of threads.
#[derive(Debug)]
pub(crate) struct HookPublisher {
    containers: Containers,
    hooks: Mutex<Option<HookWriter>>,
}

impl HookPublisher {
    pub(crate) fn new(containers: Containers, hooks: HookWriter) -> Self {
        Self {
            containers,
            hooks: Mutex::new(Some(hooks)),
        }
    }

    /// Publishes the hooks of a container that was put.
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn publish(&self, catalog: &Arc<CatalogView>) -> Result<(), IngestError> {
        self.containers.insert_catalog(Arc::clone(catalog));
        let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        match hooks.as_mut() {
            Some(hooks) => Ok(hooks.add(catalog)?),
            None => Err(IngestError::Internal("a container after the commit")),
        }
    }

    /// The gathered hooks; returned once.
    pub(crate) fn take(&self) -> Option<HookWriter> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
