//! What a restore would do, and what a target has besides: `restore --dry-run` and `--delete`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use format::listing::{EntryKind, ListingEntry};
use tree::{Fate, RestoreOptions, Surplus, SurplusObserver, SurplusReport, Survey};

use crate::error::RestoreError;
use crate::listing::{BackupListing, Wanted};
use crate::tree::Fault;

/// Counts of what a restore would do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preview {
    /// Files to restore.
    pub files: u64,
    /// Other entries to restore.
    pub others: u64,
    /// Existing entries to leave, besides folders.
    pub kept: u64,
    /// Bytes of the files to restore.
    pub bytes: u64,
}

/// Looks what a restore with these options would do, and calls `each` for each requested entry, in
/// listing order.
///
/// # Errors
/// If the listing cannot be read. `Interrupted`.
pub fn preview_tree(
    listing: &BackupListing<'_>,
    target: &Path,
    options: &RestoreOptions,
    cancel: &AtomicBool,
    each: &mut dyn FnMut(&ListingEntry, Fate),
) -> Result<Preview, RestoreError> {
    let mut survey = Survey::of_fates(target, options);
    let mut entries = listing.entries(Wanted::by_restore(options))?;
    let mut preview = Preview::default();
    while let Some(listed) = entries.next_entry()? {
        ensure_goes_on(cancel)?;
        let entry = &listed.entry;
        let fate = survey.fate(entry);
        match (fate, &entry.kind) {
            (Fate::NotAsked, _) => continue,
            (Fate::Leave, EntryKind::Folder) => preview.others += 1,
            (Fate::Leave, _) => preview.kept += 1,
            (Fate::Make | Fate::Replace, EntryKind::File { .. }) => {
                preview.files += 1;
                preview.bytes += entry.file_len();
            }
            (Fate::Make | Fate::Replace, _) => preview.others += 1,
        }
        each(entry, fate);
    }
    Ok(preview)
}

/// Finds the entries of a target that the backup does not have, in folders that were requested as a
/// whole, and removes them if `removes`. The faults of the returned report are passed to `faults`.
///
/// # Errors
/// If the listing cannot be read: then nothing more is removed. `Interrupted`, likewise. Entries
/// that cannot be removed are passed to `faults`.
pub fn remove_surplus(
    listing: &BackupListing<'_>,
    target: &Path,
    options: &RestoreOptions,
    removes: bool,
    cancel: &AtomicBool,
    observer: &mut SurplusObserver<'_>,
    faults: &mut (dyn FnMut(Fault) + Send),
) -> Result<SurplusReport, RestoreError> {
    // Before anything is removed, all of the listing is read once: what its rest names would look
    // like surplus.
    let mut entries = listing.entries(Wanted::by_restore(options))?;
    while entries.next_entry()?.is_some() {
        ensure_goes_on(cancel)?;
    }
    let mut entries = listing.entries(Wanted::by_restore(options))?;
    let mut surplus = Surplus::new(target, options, removes, cancel, observer);
    while let Some(listed) = entries.next_entry()? {
        ensure_goes_on(cancel)?;
        surplus.see(&listed.entry);
    }
    let mut report = surplus.finish();
    let failed = report.faults.drain(..);
    failed.for_each(|fault| faults(Fault::Tree(fault)));
    ensure_goes_on(cancel)?;
    Ok(report)
}

fn ensure_goes_on(cancel: &AtomicBool) -> Result<(), RestoreError> {
    if cancel.load(Ordering::Relaxed) {
        return Err(RestoreError::Interrupted);
    }
    Ok(())
}
