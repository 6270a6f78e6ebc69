//! Nodes and catalogs as they are stored, for people who look into a store.
//!
//! Nothing is checked but what the reader checks: a node here may not be the one that its parent
//! names. Nothing shows a key.

use std::sync::Arc;

use container::CatalogView;
use format::node::Node;
use types::{ChunkLocation, ContainerId};

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::repository::{Pinned, Repository};

/// The node at a location, as it is stored.
///
/// ```
/// # use onefold::{BackupOptions, Credential, Env, Filter, InitOptions, Monitor, OpenOptions};
/// # use onefold::{Store, TreeOptions};
/// use onefold::operations;
///
/// # let place = tempfile::tempdir()?;
/// # let folder = place.path().join("folder");
/// # std::fs::create_dir(&folder)?;
/// # let env = Env::create_local(place.path().join("store"))?;
/// # let credential = Credential::password("correct horse battery staple");
/// # Store::init(&env, &credential, &InitOptions::default(), None)?;
/// # let store = Store::open(&env, &credential, &OpenOptions::default())?;
/// # let monitor = Monitor::default();
/// # let (options, tree) = (BackupOptions::default().host("laptop"), TreeOptions::new([&folder]));
/// # store.backup_tree(&options, &tree, &monitor, &mut |_| {})?;
/// let latest = store.find("latest", &Filter::default())?;
/// let root = &latest.backup.streams[0];
/// let node = operations::stored_node(&store, root.location, &monitor)?;
/// assert_eq!((node.level, node.logical_len), (root.level, root.len));
/// let catalog = operations::stored_catalog(&store, root.location.container, &monitor)?;
/// assert!(catalog.entry(root.location.slot).is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `NotFound` if the store has no backup; if the node cannot be read.
pub fn stored_node(from: &dyn Repository, at: ChunkLocation, monitor: &Monitor) -> Result<Arc<Node>> {
    read(from, monitor, |pinned| Ok(pinned.reader()?.node(at)?))
}

/// The catalog of a container, in its highest generation. [`stored_node`] has an example.
///
/// # Errors
/// `NotFound` if the store has no backup; if the catalog cannot be read.
pub fn stored_catalog(
    from: &dyn Repository,
    container: ContainerId,
    monitor: &Monitor,
) -> Result<Arc<CatalogView>> {
    read(from, monitor, |pinned| Ok(pinned.reader()?.catalog(container)?))
}

/// Reads while the newest backup is pinned. What is read may belong to any backup.
fn read<T>(
    from: &dyn Repository,
    monitor: &Monitor,
    read: impl FnOnce(&dyn Pinned) -> Result<T>,
) -> Result<T> {
    let backups = from.snapshots()?.snapshots;
    let newest = backups.last();
    let none = || Error::NotFound("there is no backup, and so nothing to show".to_owned());
    let pinned = from.pin(newest.ok_or_else(none)?, monitor)?;
    let found = read(&*pinned)?;
    pinned.end(monitor);
    Ok(found)
}
