//! Writes one stream or one file of a backup, as bytes in order.

use format::listing::{Content, EntryKind};
use format::manifest::StreamRole;
use recipe::{StoreReader, TreeRoot};
use restore::{AssembleOptions, AssembleStats, BackupListing, Output, Wanted};
use types::ByteRange;

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::repository::Repository;
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::streams::{self, role};
use crate::warning::Warning;

/// How many links to follow. A listing of ours has no links to links.
const LINKS_MAX: usize = 2;

impl Store {
    /// Writes the stream of a backup of a single stream, or one file of a directory backup, to
    /// `output`.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, or if no path was given and the backup is of a
    /// directory. An error for the first byte that cannot be read or written; the bytes written
    /// before are right. `Forgotten`, as for [`Self::restore`].
    pub fn dump(
        &self,
        snapshot: &Snapshot,
        path: Option<&[u8]>,
        output: &mut dyn Output,
        assembling: AssembleOptions,
        monitor: &Monitor,
    ) -> Result<AssembleStats> {
        dump(self, snapshot, path, output, assembling, monitor)
    }
}

/// [`Store::dump`] from any repository.
///
/// # Errors
/// As [`Store::dump`]; of the connection.
pub fn dump(
    from: &dyn Repository,
    snapshot: &Snapshot,
    path: Option<&[u8]>,
    output: &mut dyn Output,
    assembling: AssembleOptions,
    monitor: &Monitor,
) -> Result<AssembleStats> {
    let pinned = from.pin(snapshot, monitor)?;
    let dumped = pinned
        .reader()
        .and_then(|reader| dump_kept(reader, pinned.snapshot(), path, output, assembling, monitor));
    let stats = dumped.map_err(|error| pinned.explain(error))?;
    pinned.end(monitor);
    Ok(stats)
}

fn dump_kept(
    reader: &dyn StoreReader,
    snapshot: &Snapshot,
    path: Option<&[u8]>,
    output: &mut dyn Output,
    assembling: AssembleOptions,
    monitor: &Monitor,
) -> Result<AssembleStats> {
    let (root, range, name) = find_stream(reader, snapshot, path, monitor)?;
    let name = String::from_utf8_lossy(&name).into_owned();
    let stats = restore::restore_stream(
        reader,
        &root,
        range,
        &name,
        output,
        assembling,
        &monitor.restore,
        monitor.cancel(),
    )?;
    Ok(stats)
}

/// The stream of a backup for a path, the range of the path's content there, and its name.
pub(crate) fn find_stream(
    reader: &dyn StoreReader,
    snapshot: &Snapshot,
    path: Option<&[u8]>,
    monitor: &Monitor,
) -> Result<(TreeRoot, ByteRange, Vec<u8>)> {
    if let Some(root) = role(&snapshot.backup, StreamRole::Whole) {
        let names = &snapshot.backup.series.paths;
        let name = names.first().cloned().unwrap_or_default();
        if let Some(path) = path.filter(|path| *path != name) {
            let (path, name) = (String::from_utf8_lossy(path), String::from_utf8_lossy(&name));
            let text = format!("{path}: backup {} has one stream, {name}", snapshot.id);
            return Err(Error::NotFound(text));
        }
        let range = ByteRange {
            offset: 0,
            len: root.len,
        };
        return Ok((root, range, name));
    }
    let no_path = || {
        let id = snapshot.id;
        Error::NotFound(format!(
            "which file? Backup {id} is of a directory; `onefold ls {id}` lists what it has"
        ))
    };
    let content = role(&snapshot.backup, StreamRole::Content).ok_or_else(no_path)?;
    let path = path.ok_or_else(no_path)?;
    let listing = streams::listing(reader, &snapshot.backup).ok_or_else(|| not_a_file(snapshot, path))?;
    let found = find_file(&listing, snapshot, path, monitor);
    streams::note_fences(listing, snapshot.id, monitor);
    let (range, name) = found?;
    Ok((content, range, name))
}

/// Where a file's content is, and the file's name in the listing.
fn find_file(
    listing: &BackupListing<'_>,
    snapshot: &Snapshot,
    path: &[u8],
    monitor: &Monitor,
) -> Result<(ByteRange, Vec<u8>)> {
    let mut wanted = path.to_vec();
    for _ in 0..LINKS_MAX {
        match place(listing, snapshot, &wanted, monitor)? {
            Place::At(range) => return Ok((range, wanted)),
            Place::LinkTo(target) => wanted = target,
            Place::Nowhere => break,
        }
    }
    Err(not_a_file(snapshot, path))
}

fn place(listing: &BackupListing<'_>, snapshot: &Snapshot, path: &[u8], monitor: &Monitor) -> Result<Place> {
    let mut entries = listing.entries(Wanted::just([path.to_vec()]))?;
    let Some(listed) = entries.next_entry()? else {
        return Ok(Place::Nowhere);
    };
    let (shown, id) = (String::from_utf8_lossy(path), snapshot.id);
    match listed.entry.state.content {
        Content::Partial { .. } => {
            return Err(Error::NotFound(format!(
                "{shown}: could not be read whole when backup {id} was made; `onefold restore {id} --include` restores what there is of it, under another name"
            )));
        }
        Content::Older { .. } => monitor.add_note(Warning::OlderFile {
            backup: id,
            path: path.to_vec(),
        }),
        Content::Whole | Content::Changed => {}
    }
    Ok(match listed.entry.kind {
        EntryKind::File { len, .. } => Place::At(ByteRange {
            offset: listed.content_offset,
            len,
        }),
        EntryKind::HardLink { target } => Place::LinkTo(target),
        _ => Place::Nowhere,
    })
}

/// Where a file's content is.
enum Place {
    At(ByteRange),
    LinkTo(Vec<u8>),
    /// There is no file of that name.
    Nowhere,
}

fn not_a_file(snapshot: &Snapshot, path: &[u8]) -> Error {
    let (id, path) = (snapshot.id, String::from_utf8_lossy(path));
    Error::NotFound(format!(
        "backup {id} has no file {path}; `onefold ls {id}` lists what it has"
    ))
}
