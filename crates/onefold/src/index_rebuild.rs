//! Making the index anew: it is a hint, and can be thrown away at any time (INV-4).

use std::sync::Arc;

use index::{Index, Warning};

use crate::backup::committed;
use crate::error::Result;
use crate::monitor::Monitor;
use crate::store::Store;

/// What a rebuild did.
#[derive(Debug, Clone, Default)]
pub struct RebuildReport {
    /// Catalogs read.
    pub containers: u64,
    /// Hooks in the new index.
    pub hooks: u64,
    /// Runs of the new index.
    pub runs: u64,
    /// Containers whose catalog cannot be read, and why.
    pub unreadable: Vec<(String, String)>,
}

impl Store {
    /// Makes the index anew from the catalogs of all committed backups.
    ///
    /// # Errors
    /// Of the storage; the old index then stays in use.
    pub fn rebuild_index(&self, monitor: &Monitor) -> Result<RebuildReport> {
        self.ensure_writable()?;
        let list = self.manifests.list()?;
        let sessions = committed(&self.sealer, &list, |_| true)?;
        monitor.set_total(
            sessions
                .iter()
                .map(|session| session.containers.len() as u64)
                .sum(),
        );
        let index = Index::open(Arc::clone(&self.env.storage), self.id(), self.index_options())?;
        drop(index.take_warnings());
        let containers = index.rebuild(&self.containers, &sessions)?;
        monitor.add_done(containers);
        let unreadable = index
            .take_warnings()
            .into_iter()
            .filter_map(|warning| match warning {
                Warning::BadCatalog { container, why } => Some((container.to_string(), why)),
                _ => None,
            });
        let unreadable = unreadable.collect();
        let stats = index.stats();
        Ok(RebuildReport {
            containers,
            hooks: stats.entries,
            runs: stats.runs,
            unreadable,
        })
    }
}
