//! Restores a backup, and lists its entries.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use env::Clock;
use format::listing::{EntryKind, ListingEntry};
use format::manifest::StreamRole;
use recipe::StoreReader;
use restore::{BackupListing, Fault, TreeSource, TreeStats, VerifyStats, Wanted};
use tree::{FolderId, Include, RestoreOptions};

use crate::error::{Error, Result};
use crate::monitor::{Monitor, RestoreFate};
use crate::repository::{Pinned, Repository};
use crate::restore_request::{RestoreReport, RestoreRequest};
use crate::restore_whole::{included, is_kept, restore_whole, stream_name, verify_whole};
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::streams::{self, role};
use crate::warning::Warning;

impl Store {
    /// Restores a backup below `target`. Reports faults of single entries to `faults`, and restores
    /// the others.
    ///
    /// # Errors
    /// If the restore cannot continue. The files written before are right. `Forgotten` if data is
    /// missing because the backup was forgotten and pruned meanwhile.
    pub fn restore(
        &self,
        snapshot: &Snapshot,
        target: &Path,
        request: &RestoreRequest,
        monitor: &Monitor,
        faults: &mut (dyn FnMut(&Fault) + Send),
    ) -> Result<RestoreReport> {
        restore(self, snapshot, target, request, monitor, faults)
    }

    /// Calls `each` with every entry of a directory backup that is in one of the paths, in listing
    /// order. Without paths: with every entry. A backup of a single stream has no entries.
    ///
    /// # Errors
    /// If the listing cannot be read; `Forgotten`, as for [`Self::restore`]; those of `each`.
    pub fn list_entries<E: From<Error>>(
        &self,
        snapshot: &Snapshot,
        paths: &[Vec<u8>],
        monitor: &Monitor,
        each: impl FnMut(&ListingEntry) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        list_entries(self, snapshot, paths, monitor, each)
    }
}

/// [`Store::restore`] from any repository.
///
/// # Errors
/// As [`Store::restore`]; of the connection.
pub fn restore(
    from: &dyn Repository,
    snapshot: &Snapshot,
    target: &Path,
    request: &RestoreRequest,
    monitor: &Monitor,
    faults: &mut (dyn FnMut(&Fault) + Send),
) -> Result<RestoreReport> {
    let pinned = from.pin(snapshot, monitor)?;
    let restored = restore_pinned(&*pinned, from.clock(), target, request, monitor, faults);
    let report = restored.map_err(|error| pinned.explain(error))?;
    if report.faults > 0
        && let Some(id) = pinned.forgotten()
    {
        return Err(Error::Forgotten { id, why: None });
    }
    pinned.end(monitor);
    Ok(report)
}

fn restore_pinned(
    pinned: &dyn Pinned,
    clock: &Arc<dyn Clock>,
    target: &Path,
    request: &RestoreRequest,
    monitor: &Monitor,
    faults: &mut (dyn FnMut(&Fault) + Send),
) -> Result<RestoreReport> {
    let (snapshot, reader) = (pinned.snapshot(), pinned.reader()?);
    let began = clock.monotonic();
    let mut count = 0;
    let mut report = |fault: Fault| {
        count += 1;
        monitor.add_error();
        if let Fault::Lost { error, .. } = &fault {
            pinned.note_missing(error);
        }
        faults(&fault);
    };
    let is_stream = role(&snapshot.backup, StreamRole::Whole).is_some();
    if is_stream && !request.base.is_empty() {
        let text = format!("backup {} is of one stream, and has no folders", snapshot.id);
        return Err(Error::NotFound(text));
    }
    let (is_met, is_asked) = if is_stream {
        included(snapshot, request)
    } else {
        (vec![false; request.include.len()], true)
    };
    let is_met: Arc<[AtomicBool]> = is_met.into_iter().map(Into::into).collect();
    let mut after = After::default();
    let stats = match role(&snapshot.backup, StreamRole::Whole) {
        Some(_) if !is_asked => TreeStats::default(),
        Some(_) if is_kept(target, snapshot, request.overwrite) => TreeStats {
            kept: 1,
            ..TreeStats::default()
        },
        Some(root) => {
            let name = stream_name(snapshot);
            let assemble = restore_whole(reader, &root, (target, snapshot), request, monitor)?;
            if request.verify {
                after.verified = Some(verify_whole(
                    reader,
                    &root,
                    (target, &name),
                    request,
                    monitor,
                    &mut report,
                )?);
            }
            TreeStats {
                files: 1,
                bytes: root.len,
                assemble,
                ..TreeStats::default()
            }
        }
        None => {
            let found = (snapshot, &is_met, request);
            restore_entries(found, reader, target, &mut after, monitor, &mut report)?
        }
    };
    if stats.older > 0 {
        monitor.add_note(Warning::OlderFiles {
            backup: snapshot.id,
            files: stats.older,
        });
    }
    let elapsed = clock.monotonic().saturating_sub(began);
    Ok(RestoreReport {
        files: stats.files,
        others: stats.others,
        kept: stats.kept,
        bytes: stats.bytes,
        older: stats.older,
        deleted: after.deleted,
        verified: after.verified,
        faults: count,
        is_included: is_met.iter().map(|met| met.load(Ordering::Relaxed)).collect(),
        assemble: stats.assemble,
        elapsed_nanos: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
    })
}

/// [`Store::list_entries`] from any repository.
///
/// # Errors
/// As [`Store::list_entries`]; of the connection.
pub fn list_entries<E: From<Error>>(
    from: &dyn Repository,
    snapshot: &Snapshot,
    paths: &[Vec<u8>],
    monitor: &Monitor,
    mut each: impl FnMut(&ListingEntry) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    if role(&snapshot.backup, StreamRole::Listing).is_none() {
        return Ok(());
    }
    let pinned = from.pin(snapshot, monitor)?;
    let failed = |error: Error| pinned.explain(error);
    let reader = pinned.reader().map_err(failed)?;
    let Some(listing) = streams::listing(reader, &pinned.snapshot().backup) else {
        return Ok(());
    };
    let wanted = match paths {
        [] => Wanted::all(),
        paths => Wanted::below(paths.iter().cloned()),
    };
    let mut entries = listing.entries(wanted).map_err(|error| failed(error.into()))?;
    while let Some(listed) = entries.next_entry().map_err(|error| failed(error.into()))? {
        each(&listed.entry)?;
    }
    drop(entries);
    streams::note_fences(listing, snapshot.id, monitor);
    pinned.end(monitor);
    Ok(())
}

/// What followed the restore.
#[derive(Default)]
struct After {
    deleted: u64,
    verified: Option<VerifyStats>,
}

/// The options of a restore of this backup.
pub(crate) fn options_of(
    snapshot: &Snapshot,
    request: &RestoreRequest,
    is_met: &Arc<[AtomicBool]>,
) -> RestoreOptions {
    RestoreOptions {
        overwrite: request.overwrite,
        owners: request.owners,
        sparse: request.sparse,
        include: Include {
            paths: request.include.clone(),
            patterns: request.patterns.clone(),
            is_met: Arc::clone(is_met),
        },
        excludes: request.excludes.clone(),
        base: request.base.clone(),
        sources: snapshot.backup.series.paths.clone(),
        clears_folders: request.delete,
        spared: request
            .spared
            .iter()
            .filter_map(|path| FolderId::of(path))
            .collect(),
    }
}

/// Restores a directory backup, and does what follows.
fn restore_entries(
    (snapshot, is_met, request): (&Snapshot, &Arc<[AtomicBool]>, &RestoreRequest),
    reader: &dyn StoreReader,
    target: &Path,
    after: &mut After,
    monitor: &Monitor,
    report: &mut (dyn FnMut(Fault) + Send),
) -> Result<TreeStats> {
    let no_stream = |stream| Error::NotFound(format!("backup {} has no {stream} stream", snapshot.id));
    let content = role(&snapshot.backup, StreamRole::Content).ok_or_else(|| no_stream("content"))?;
    let listing = streams::listing(reader, &snapshot.backup).ok_or_else(|| no_stream("listing"))?;
    let source = TreeSource {
        reader,
        content: &content,
        listing: &listing,
    };
    let options = options_of(snapshot, request, is_met);
    let (assembling, counters, cancel) = (request.assembling, &monitor.restore, monitor.cancel());
    let hint = "`onefold restore --include` restores it";
    let mut run = || -> Result<TreeStats> {
        ensure_folder(&listing, snapshot, &request.base, hint)?;
        let again = options.clone();
        let mut failed = HashSet::new();
        let mut note = |fault: Fault| {
            if request.verify {
                failed.extend(fault.unrestored().map(<[u8]>::to_vec));
            }
            report(fault);
        };
        let stats = restore::restore_tree(source, target, again, assembling, counters, cancel, &mut note)?;
        if request.delete {
            let mut tell = |path: &[u8]| monitor.tell_restored(RestoreFate::Delete, path);
            let surplus =
                restore::remove_surplus(&listing, target, &options, true, cancel, &mut tell, report)?;
            after.deleted = surplus.found;
            note_mounts(surplus.mounts, monitor);
        }
        if request.verify {
            let at = (target, &failed);
            let verified = restore::verify_tree(source, at, &options, assembling, counters, cancel, report)?;
            after.verified = Some(verified);
        }
        Ok(stats)
    };
    let restored = run();
    streams::note_fences(listing, snapshot.id, monitor);
    restored
}

/// Notes the folders on other mounts, in which nothing is deleted.
pub(crate) fn note_mounts(mounts: Vec<Vec<u8>>, monitor: &Monitor) {
    for path in mounts {
        monitor.add_note(Warning::MountSpared { path });
    }
}

/// Fails unless `base` is a folder. The message for another entry ends with the hint.
pub(crate) fn ensure_folder(
    listing: &BackupListing<'_>,
    snapshot: &Snapshot,
    base: &[u8],
    hint: &str,
) -> Result<()> {
    if base.is_empty() {
        return Ok(());
    }
    let (id, shown) = (snapshot.id, String::from_utf8_lossy(base));
    let mut entries = listing.entries(Wanted::just([base.to_vec()]))?;
    match entries.next_entry()? {
        Some(listed) if listed.entry.kind == EntryKind::Folder => Ok(()),
        Some(_) => Err(Error::NotFound(format!(
            "{shown} is no folder in backup {id}; {hint}"
        ))),
        None => Err(Error::NotFound(format!(
            "backup {id} has no folder {shown}; `onefold ls {id}` lists what it has"
        ))),
    }
}
