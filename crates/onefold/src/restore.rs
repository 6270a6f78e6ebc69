//! Restores a backup, and lists its entries.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use env::Clock;
use format::listing::{EntryKind, ListingEntry};
use format::manifest::StreamRole;
use recipe::{StoreReader, TreeRoot};
use restore::{
    AssembleOptions, AssembleStats, BackupListing, Fault, Output, RestoreCounters, TreeSource, TreeStats,
    Wanted,
};
use tree::{BlockWriter, Excludes, Include, RestoreOptions};
use types::ByteRange;

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::repository::{Pinned, Repository};
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::streams::{self, role};
use crate::warning::Warning;

/// The options of a restore; by default everything, as it was.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RestoreRequest {
    /// Restore only these paths of the backup, with everything below them. If this and `patterns`
    /// are empty: everything.
    pub include: Vec<Vec<u8>>,
    /// Also restore entries that match these patterns, with everything below them.
    pub patterns: Excludes,
    /// Leave out entries that match these patterns.
    pub excludes: Excludes,
    /// The folder of the backup that becomes the target. Empty: the paths are made below the
    /// target.
    pub base: Vec<u8>,
    /// What to do with existing entries.
    pub overwrite: tree::Overwrite,
    /// The owners of the restored entries.
    pub owners: tree::Owners,
    /// Where restored files get holes.
    pub sparse: tree::Sparse,
    /// Memory and threads.
    pub assembling: AssembleOptions,
}

types::setters!(RestoreRequest {
    include: Vec<Vec<u8>>,
    patterns: Excludes,
    excludes: Excludes,
    base: Vec<u8>,
    overwrite: tree::Overwrite,
    owners: tree::Owners,
    sparse: tree::Sparse,
    assembling: AssembleOptions,
});

impl RestoreRequest {
    /// Everything, as it was.
    #[must_use]
    pub fn new(assembling: AssembleOptions) -> Self {
        Self {
            assembling,
            ..Self::default()
        }
    }
}

/// The result of a restore.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Files restored.
    pub files: u64,
    /// Other entries restored.
    pub others: u64,
    /// Existing files that stayed.
    pub kept: u64,
    /// Bytes of content written to files.
    pub bytes: u64,
    /// Files with the content of an earlier backup, because they could not be read when this one
    /// was made.
    pub older: u64,
    /// Entries that could not be restored as they were.
    pub faults: u64,
    /// For each path to include, whether the backup has anything there. A stream has no paths, so
    /// all are true.
    pub is_included: Vec<bool>,
    /// The cost of assembling.
    pub assemble: AssembleStats,
    /// How long it took, in nanoseconds.
    pub elapsed_nanos: u64,
}

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
    let is_met: Arc<[AtomicBool]> = request.include.iter().map(|_| is_stream.into()).collect();
    let stats = match role(&snapshot.backup, StreamRole::Whole) {
        Some(_) if is_kept(&target.join(stream_name(snapshot)), request.overwrite) => TreeStats {
            kept: 1,
            ..TreeStats::default()
        },
        Some(root) => {
            let name = stream_name(snapshot);
            let assemble = restore_whole(reader, &root, (target, &name), request, monitor)?;
            TreeStats {
                files: 1,
                bytes: root.len,
                assemble,
                ..TreeStats::default()
            }
        }
        None => restore_entries(snapshot, reader, target, request, &is_met, monitor, &mut report)?,
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

/// Restores a directory backup.
fn restore_entries(
    snapshot: &Snapshot,
    reader: &dyn StoreReader,
    target: &Path,
    request: &RestoreRequest,
    is_met: &Arc<[AtomicBool]>,
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
    let options = RestoreOptions {
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
    };
    let (assembling, counters, cancel) = (request.assembling, &monitor.restore, monitor.cancel());
    let hint = "`onefold restore --include` restores it";
    let restored = ensure_folder(&listing, snapshot, &request.base, hint).and_then(|()| {
        restore::restore_tree(source, target, options, assembling, counters, cancel, report)
            .map_err(Error::from)
    });
    streams::note_fences(listing, snapshot.id, monitor);
    restored
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

fn restore_whole(
    reader: &dyn StoreReader,
    root: &TreeRoot,
    (target, stream): (&Path, &Path),
    request: &RestoreRequest,
    monitor: &Monitor,
) -> Result<AssembleStats> {
    let path = &target.join(stream);
    let failed = |source| restore::RestoreError::Target {
        target: path.display().to_string(),
        source,
    };
    let mut output = PartialFile::create(path, root.len).map_err(failed)?;
    let shown = stream.display().to_string();
    let (counters, cancel): (&RestoreCounters, _) = (&monitor.restore, monitor.cancel());
    let whole = ByteRange {
        offset: 0,
        len: root.len,
    };
    let stats = restore::restore_stream(
        reader,
        root,
        whole,
        &shown,
        &mut output,
        request.assembling,
        counters,
        cancel,
    )?;
    output.finish().map_err(failed)?;
    Ok(stats)
}

/// Whether the existing file of a single stream stays. Nothing is known of the stream to compare
/// with, so only one choice keeps the file.
fn is_kept(path: &Path, overwrite: tree::Overwrite) -> bool {
    overwrite == tree::Overwrite::Never && path.symlink_metadata().is_ok()
}

/// The name of a single stream's file: the path of the source, made relative.
fn stream_name(snapshot: &Snapshot) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let path = snapshot
        .backup
        .series
        .paths
        .first()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let normal = path
        .components()
        .filter(|component| matches!(component, Component::Normal(_)));
    let name: PathBuf = normal.collect();
    if name.as_os_str().is_empty() {
        PathBuf::from("stream")
    } else {
        name
    }
}

/// A file that gets its name only when it is whole.
struct PartialFile {
    file: File,
    blocks: Option<BlockWriter>,
    partial: PathBuf,
    path: PathBuf,
    len: u64,
    named: bool,
}

impl PartialFile {
    fn create(path: &Path, len: u64) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut partial = path.as_os_str().to_owned();
        partial.push(".onefold-partial");
        let partial = PathBuf::from(partial);
        match std::fs::remove_file(&partial) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial)?;
        let blocks = BlockWriter::new(&file, len)?;
        Ok(Self {
            file,
            blocks: Some(blocks),
            partial,
            path: path.to_owned(),
            len: 0,
            named: false,
        })
    }

    fn finish(mut self) -> io::Result<()> {
        if let Some(blocks) = self.blocks.take() {
            blocks.finish()?;
        }
        self.file.set_len(self.len)?;
        std::fs::rename(&self.partial, &self.path)?;
        self.named = true;
        Ok(())
    }
}

impl Output for PartialFile {
    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(blocks) = &mut self.blocks {
            blocks.write(self.len, bytes)?;
        }
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn skip_zeros(&mut self, len: u64) -> io::Result<()> {
        self.len += len;
        Ok(())
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        self.blocks = None;
        if !self.named {
            // A part of a stream is not useful. If it cannot be removed, its name shows that it is
            // partial.
            drop(std::fs::remove_file(&self.partial));
        }
    }
}
