//! What a restore would do: `restore --dry-run`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use format::manifest::StreamRole;
use restore::{Fault, Preview};
use tree::Fate;

use crate::error::{Error, Result};
use crate::monitor::{Monitor, RestoreFate};
use crate::repository::{Pinned, Repository};
use crate::restore::{ensure_folder, note_mounts, options_of};
use crate::restore_request::RestoreRequest;
use crate::restore_whole::{included, is_kept};
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::streams::{self, role};

/// What a restore would do.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RestorePreview {
    /// Files to restore.
    pub files: u64,
    /// Other entries to restore.
    pub others: u64,
    /// Existing entries to leave, besides folders.
    pub kept: u64,
    /// Bytes of the files to restore.
    pub bytes: u64,
    /// Existing entries to delete, with those below folders.
    pub deleted: u64,
    /// For each path to include, whether the backup has anything there.
    pub is_included: Vec<bool>,
}

impl Store {
    /// Says what [`Self::restore`] would do, and does nothing. The monitor's observer
    /// ([`Monitor::observe_restore`]) is told of each entry. Folders that would have to be looked
    /// into and cannot be are passed to `faults`.
    ///
    /// # Errors
    /// As [`Self::restore`], without those of writing.
    pub fn preview_restore(
        &self,
        snapshot: &Snapshot,
        target: &Path,
        request: &RestoreRequest,
        monitor: &Monitor,
        faults: &mut (dyn FnMut(&Fault) + Send),
    ) -> Result<RestorePreview> {
        preview_restore(self, snapshot, target, request, monitor, faults)
    }
}

/// [`Store::preview_restore`] from any repository.
///
/// # Errors
/// As [`Store::preview_restore`]; of the connection.
pub fn preview_restore(
    from: &dyn Repository,
    snapshot: &Snapshot,
    target: &Path,
    request: &RestoreRequest,
    monitor: &Monitor,
    faults: &mut (dyn FnMut(&Fault) + Send),
) -> Result<RestorePreview> {
    let pinned = from.pin(snapshot, monitor)?;
    let seen = preview_pinned(&*pinned, target, request, monitor, faults);
    let seen = seen.map_err(|error| pinned.explain(error))?;
    pinned.end(monitor);
    Ok(seen)
}

fn preview_pinned(
    pinned: &dyn Pinned,
    target: &Path,
    request: &RestoreRequest,
    monitor: &Monitor,
    faults: &mut (dyn FnMut(&Fault) + Send),
) -> Result<RestorePreview> {
    let (snapshot, reader) = (pinned.snapshot(), pinned.reader()?);
    let of = |preview: Preview, deleted, is_included| RestorePreview {
        files: preview.files,
        others: preview.others,
        kept: preview.kept,
        bytes: preview.bytes,
        deleted,
        is_included,
    };
    if let Some(root) = role(&snapshot.backup, StreamRole::Whole) {
        let (is_included, is_asked) = included(snapshot, request);
        let is_kept = is_asked && is_kept(target, snapshot, request.overwrite);
        let is_restored = is_asked && !is_kept;
        let preview = Preview {
            files: u64::from(is_restored),
            kept: u64::from(is_kept),
            bytes: if is_restored { root.len } else { 0 },
            ..Preview::default()
        };
        return Ok(of(preview, 0, is_included));
    }
    let listing = streams::listing(reader, &snapshot.backup);
    let listing =
        listing.ok_or_else(|| Error::NotFound(format!("backup {} has no listing stream", snapshot.id)))?;
    let cancel = monitor.cancel();
    let is_met: Arc<[AtomicBool]> = request.include.iter().map(|_| false.into()).collect();
    let options = options_of(snapshot, request, &is_met);
    ensure_folder(
        &listing,
        snapshot,
        &request.base,
        "`onefold restore --include` restores it",
    )?;
    let preview = restore::preview_tree(&listing, target, &options, cancel, &mut |entry, fate| {
        let fate = match fate {
            Fate::NotAsked => return,
            Fate::Make => RestoreFate::Make,
            Fate::Replace => RestoreFate::Replace,
            Fate::Leave => RestoreFate::Leave,
        };
        monitor.tell_restored(fate, &entry.path);
    })?;
    let deleted = if request.delete {
        let mut tell = |path: &[u8]| monitor.tell_restored(RestoreFate::Delete, path);
        let mut told = |fault| faults(&fault);
        let surplus =
            restore::remove_surplus(&listing, target, &options, false, cancel, &mut tell, &mut told)?;
        note_mounts(surplus.mounts, monitor);
        surplus.found
    } else {
        0
    };
    streams::note_fences(listing, snapshot.id, monitor);
    let is_included = is_met.iter().map(|met| met.load(Ordering::Relaxed)).collect();
    Ok(of(preview, deleted, is_included))
}
