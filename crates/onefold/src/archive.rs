//! Writes a folder of a backup as one archive, in one pass over its content.
//!
//! The files of a folder follow each other in the content stream, in listing order. So one restore
//! of that range feeds the archive, and the listing says where each file begins. Further names of a
//! file become links where the format has them. The others are written at the end, and their
//! content is read for that.
//!
//! Nothing leaves unverified (INV-5). An archive that ends early is cut off, and no program takes
//! it for a whole one. One thread writes.

mod feeding;
mod format;
mod tar;
mod zip;

use std::io::{self, Write};

use ::format::listing::EntryKind;
use ::format::manifest::StreamRole;
use recipe::StoreReader;
use restore::{AssembleOptions, BackupListing, RestoreError, Wanted};
use types::ByteRange;

use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::repository::Repository;
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::streams::{self, role};
use crate::warning::Warning;
use feeding::Feeding;
use format::ArchiveWriter;

/// The format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ArchiveFormat {
    /// A tar archive in the format of POSIX (`pax`): any names, times to the nanosecond, owners by
    /// number and name, extended attributes, links, devices.
    #[default]
    Tar,
    /// A zip archive with deflate: names in UTF-8, times to 2 seconds, modes, symbolic links.
    Zip,
}

/// What is archived, and how; by default all of a backup, as tar.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ArchiveRequest {
    /// The folder or file; empty: all.
    pub path: Vec<u8>,
    /// Names in the archive begin at that folder, and not at the root.
    pub is_base: bool,
    /// The format.
    pub format: ArchiveFormat,
    /// Memory and threads.
    pub assembling: AssembleOptions,
}

types::setters!(ArchiveRequest {
    path: Vec<u8>,
    is_base: bool,
    format: ArchiveFormat,
    assembling: AssembleOptions,
});

/// An entry that the archive does not have as the backup has it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", String::from_utf8_lossy(path))]
pub struct ArchiveFault {
    /// Its path in the backup.
    pub path: Vec<u8>,
    /// What is missing, and why.
    pub why: &'static str,
}

/// The result of writing an archive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchiveReport {
    /// Files in the archive.
    pub files: u64,
    /// Folders, links and others in the archive.
    pub others: u64,
    /// Names of sockets, which no archive has. They are of no use without their program.
    pub sockets: u64,
    /// Other entries that are not in it as they were.
    pub faults: u64,
    /// Files of an earlier backup, because they could not be read when this one was made.
    pub older: u64,
}

impl Store {
    /// Writes a folder of a backup to `output` as one archive.
    ///
    /// ```
    /// # use onefold::{BackupOptions, Credential, Env, Filter, InitOptions, Monitor, OpenOptions};
    /// # use onefold::{Store, TreeOptions};
    /// use onefold::{ArchiveFormat, ArchiveRequest};
    ///
    /// # let place = tempfile::tempdir()?;
    /// # let folder = place.path().join("folder");
    /// # std::fs::create_dir(&folder)?;
    /// # std::fs::write(folder.join("letter"), "Dear reader")?;
    /// # let env = Env::create_local(place.path().join("store"))?;
    /// # let credential = Credential::password("correct horse battery staple");
    /// # Store::init(&env, &credential, &InitOptions::default(), None)?;
    /// # let store = Store::open(&env, &credential, &OpenOptions::default())?;
    /// # let monitor = Monitor::default();
    /// # let (options, tree) = (BackupOptions::default().host("laptop"), TreeOptions::new([&folder]));
    /// # store.backup_tree(&options, &tree, &monitor, &mut |_| {})?;
    /// let snapshot = store.find("latest", &Filter::default())?;
    /// let request = ArchiveRequest::default().format(ArchiveFormat::Tar);
    /// let mut archive = Vec::new();
    /// let mut faults = |fault: &_| eprintln!("{fault}");
    /// let report = store.dump_archive(&snapshot, &request, &mut archive, &monitor, &mut faults)?;
    /// assert_eq!((report.files, report.faults), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `NotFound` if there is no such entry, or if the backup is of a single stream. An error for
    /// the first byte that cannot be read or written; the archive is cut off then. `Forgotten`, as
    /// for [`Self::restore`].
    pub fn dump_archive(
        &self,
        snapshot: &Snapshot,
        request: &ArchiveRequest,
        output: &mut dyn Write,
        monitor: &Monitor,
        faults: &mut dyn FnMut(&ArchiveFault),
    ) -> Result<ArchiveReport> {
        dump_archive(self, snapshot, request, output, monitor, faults)
    }
}

/// [`Store::dump_archive`] from any repository.
///
/// # Errors
/// As [`Store::dump_archive`]; of the connection.
pub fn dump_archive(
    from: &dyn Repository,
    snapshot: &Snapshot,
    request: &ArchiveRequest,
    output: &mut dyn Write,
    monitor: &Monitor,
    faults: &mut dyn FnMut(&ArchiveFault),
) -> Result<ArchiveReport> {
    let pinned = from.pin(snapshot, monitor)?;
    let written = pinned
        .reader()
        .and_then(|reader| write(reader, pinned.snapshot(), request, output, monitor, faults));
    let report = written.map_err(|error| pinned.explain(error))?;
    pinned.end(monitor);
    if report.older > 0 {
        monitor.add_note(Warning::OlderFiles {
            backup: snapshot.id,
            files: report.older,
        });
    }
    Ok(report)
}

fn write(
    reader: &dyn StoreReader,
    snapshot: &Snapshot,
    request: &ArchiveRequest,
    output: &mut dyn Write,
    monitor: &Monitor,
    faults: &mut dyn FnMut(&ArchiveFault),
) -> Result<ArchiveReport> {
    let no_tree = || {
        let id = snapshot.id;
        Error::NotFound(format!(
            "backup {id} is of one stream, and has no folders; `onefold dump {id}` writes the stream"
        ))
    };
    let content = role(&snapshot.backup, StreamRole::Content).ok_or_else(no_tree)?;
    let listing = streams::listing(reader, &snapshot.backup).ok_or_else(no_tree)?;
    let range = content_range(&listing, snapshot, request)?;
    let mut writer: Box<dyn ArchiveWriter + '_> = match request.format {
        ArchiveFormat::Tar => Box::new(tar::Tar::new(output)),
        ArchiveFormat::Zip => Box::new(zip::Zip::new(output)),
    };
    let entries = listing.entries(wanted(request))?;
    let mut feeding = Feeding::new(&mut *writer, entries, &listing, request, monitor.cancel(), faults);
    let restore_to = |range: ByteRange, feeding: &mut Feeding<'_, '_>| {
        let restored = restore::restore_stream(
            reader,
            &content,
            range,
            "the archive's content",
            feeding,
            request.assembling,
            &monitor.restore,
            monitor.cancel(),
        );
        match (feeding.take_failure(), restored) {
            (Some(failure), Err(_)) => Err(failure),
            (_, restored) => Ok(restored.map(drop)?),
        }
    };
    if range.len > 0 {
        restore_to(range, &mut feeding)?;
    }
    feeding.place_rest()?;
    while let Some(range) = feeding.next_late()? {
        if range.len > 0 {
            restore_to(range, &mut feeding)?;
        }
        feeding.end_late()?;
    }
    let report = feeding.report();
    drop(feeding);
    writer.finish().map_err(not_written)?;
    drop(writer);
    streams::note_fences(listing, snapshot.id, monitor);
    Ok(report)
}

/// The error for output that cannot be written.
fn not_written(source: io::Error) -> Error {
    Error::Restore(RestoreError::Target {
        target: "the archive".to_owned(),
        source,
    })
}

fn wanted(request: &ArchiveRequest) -> Wanted {
    match &request.path[..] {
        b"" | b"/" => Wanted::all(),
        path => Wanted::below([path.to_vec()]),
    }
}

/// The range of the content stream with the files below the path, and what lies between them.
fn content_range(
    listing: &BackupListing<'_>,
    snapshot: &Snapshot,
    request: &ArchiveRequest,
) -> Result<ByteRange> {
    let mut entries = listing.entries(wanted(request))?;
    let mut is_empty = true;
    let mut range: Option<ByteRange> = None;
    while let Some(listed) = entries.next_entry()? {
        is_empty = false;
        if !matches!(listed.entry.kind, EntryKind::File { .. }) {
            continue;
        }
        let begin = listed.content_offset - listed.entry.lead();
        let offset = range.map_or(begin, |range| range.offset);
        let end = listed.content_offset + listed.entry.file_len();
        range = Some(ByteRange {
            offset,
            len: end - offset,
        });
    }
    if is_empty {
        let (id, path) = (snapshot.id, String::from_utf8_lossy(&request.path));
        return Err(Error::NotFound(format!(
            "backup {id} has nothing under {path}; `onefold ls {id}` lists what it has"
        )));
    }
    Ok(range.unwrap_or(ByteRange { offset: 0, len: 0 }))
}
