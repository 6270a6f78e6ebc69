//! An environment for dry runs: operations see the store, and change nothing in it.

use std::sync::Arc;

use env::{DryRunStorage, Env};
use format::names;
use types::ObjectName;

/// The same environment for a dry run: what a store over it puts or deletes, nobody else sees, and
/// it is gone with the environment. A backup costs the memory of its small objects, and stores no
/// container. Open the store without a cache on this machine: it would outlive the dry run.
///
/// ```
/// use std::sync::Arc;
/// # use onefold::*;
/// # let env = Env::system(Arc::new(MemoryStorage::default()));
/// # Store::init(&env, &Credential::None, &InitOptions::default(), None)?;
/// let store = Store::open(&dry_run(&env), &Credential::None, &OpenOptions::default())?;
/// # let (options, monitor) = (BackupOptions::default(), Monitor::default());
/// # let (mut source, how) = (ReaderSource(&b"Dear reader"[..]), StreamOptions::default());
/// let report = store.backup_stream(&options, "letter".as_ref(), &how, &mut source, &monitor)?;
/// assert_eq!(report.totals.bytes_new, 11);
///
/// let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;
/// assert!(store.snapshots()?.snapshots.is_empty());
/// # Ok::<(), Error>(())
/// ```
#[must_use]
pub fn dry_run(env: &Env) -> Env {
    let storage = DryRunStorage::new(Arc::clone(&env.storage), Arc::clone(&env.clock), is_small);
    Env {
        storage: Arc::new(storage),
        ..env.clone()
    }
}

/// Whether an object is small, and may be read again by the operation that puts it.
fn is_small(name: &ObjectName) -> bool {
    let is_container = names::parse_container(name).is_some()
        || names::parse_body(name).is_some()
        || names::parse_mirror(name).is_some();
    !is_container && *name != names::reserve()
}
