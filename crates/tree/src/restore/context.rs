//! The state that the parts of a restore share: its options, and its own identity.

use std::collections::HashSet;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{CWD, readlinkat};

use super::{Overwrite, Owners, RestoreOptions, Sparse, leftovers, newborn};
use crate::folder::Folder;
use crate::retry::retry;
use crate::{Accounts, Excludes, FolderId, TreeError};

/// The shared state.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) overwrite: Overwrite,
    pub(super) owners: Owners,
    pub(super) sparse: Sparse,
    pub(super) accounts: Accounts,
    pub(super) superuser: bool,
    pub(super) umask: Option<u32>,
    faults: Mutex<Vec<TreeError>>,
    pub(super) temporary_names: AtomicU64,
    /// Whether the file system allows files without a name, as far as is known.
    pub(super) nameless: AtomicBool,
    /// Entries that have no name yet, or never will. An existing entry of such a name is another
    /// one.
    unfinished: Mutex<HashSet<Vec<u8>>>,
    /// The path of the target, as the system shows it.
    pub(super) top: Option<Vec<u8>>,
    /// Whether the restore ends early: a user asked to stop, a fault ends it, or the disk is full.
    /// Incomplete folders then stay unfinished, so that the next restore recognises them.
    is_broken_off: AtomicBool,
    /// Whether a folder that is not empty gives way to another entry, ...
    pub(super) clears_folders: bool,
    /// ... unless it is one of these, or has it below.
    pub(super) spared: HashSet<FolderId>,
    /// The same holds for what these match.
    pub(super) excludes: Excludes,
}

impl Context {
    pub(super) fn new(options: &RestoreOptions, top: &Arc<Folder>) -> Self {
        let accounts = match options.owners {
            Owners::Numbers => Accounts::default(),
            Owners::Names => Accounts::of_system(),
        };
        Self {
            overwrite: options.overwrite,
            owners: options.owners,
            sparse: options.sparse,
            accounts,
            superuser: rustix::process::geteuid().is_root(),
            umask: newborn::umask(),
            faults: Mutex::default(),
            temporary_names: AtomicU64::new(0),
            nameless: AtomicBool::new(Path::new("/proc/self/fd").exists()),
            unfinished: Mutex::default(),
            top: top.descriptor().ok().and_then(|top| whereabouts(&top)),
            is_broken_off: AtomicBool::new(false),
            clears_folders: options.clears_folders,
            spared: options.spared.clone(),
            excludes: options.excludes.clone(),
        }
    }

    pub(super) fn take_faults(&self) -> Vec<TreeError> {
        std::mem::take(&mut *self.faults.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn is_broken_off(&self) -> bool {
        self.is_broken_off.load(Ordering::Acquire)
    }

    pub(super) fn break_off(&self) {
        self.is_broken_off.store(true, Ordering::Release);
    }

    /// Records a fault that ends the restore. Call it while the folder is still held, because the
    /// folder otherwise gets its final metadata.
    pub(super) fn note(&self, fault: &TreeError) {
        if fault.is_no_room() {
            self.break_off();
        }
    }

    pub(super) fn unfinished(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that this restore has not restored an entry: no later link may lead to its name.
    pub(super) fn give_up(&self, path: &[u8]) {
        self.unfinished().insert(path.to_vec());
    }

    pub(super) fn temporary_name(&self) -> Vec<u8> {
        let number = self.temporary_names.fetch_add(1, Ordering::Relaxed);
        leftovers::name(std::process::id(), number)
    }

    pub(super) fn fault(&self, fault: TreeError) {
        self.note(&fault);
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(fault);
    }
}

/// The path of an open folder, as the system shows it; `None` if it does not.
pub(super) fn whereabouts(folder: &OwnedFd) -> Option<Vec<u8>> {
    let path = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let found = retry(|| readlinkat(CWD, &*path, Vec::new())).ok()?;
    Some(found.as_bytes().to_vec())
}
