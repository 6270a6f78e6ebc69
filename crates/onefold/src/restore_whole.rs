//! Restores a backup of a single stream, as a file.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use recipe::{StoreReader, TreeRoot};
use restore::{AssembleStats, Fault, Output, RestoreCounters, VerifyStats};
use tree::{Action, BlockWriter, TreeError, WholeFile};
use types::ByteRange;

use crate::error::Result;
use crate::monitor::Monitor;
use crate::restore_request::RestoreRequest;
use crate::snapshots::Snapshot;

/// Writes the stream to its file.
pub(crate) fn restore_whole(
    reader: &dyn StoreReader,
    root: &TreeRoot,
    (target, snapshot): (&Path, &Snapshot),
    request: &RestoreRequest,
    monitor: &Monitor,
) -> Result<AssembleStats> {
    let stream = &*stream_name(snapshot);
    let path = &target.join(stream);
    let failed = |source| restore::RestoreError::Target {
        target: path.display().to_string(),
        source,
    };
    let file = WholeFile::create(target, stream).map_err(restore::RestoreError::Tree)?;
    // By this a later restore knows the older one of two backups.
    let began = u64::try_from(snapshot.backup.source_time.get()).unwrap_or(0);
    let file = file.modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(began));
    let mut output = PartialFile {
        blocks: BlockWriter::new(file.file(), root.len).map_err(|errno| failed(errno.into()))?,
        file,
        path: path.to_owned(),
        len: 0,
    };
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
    if is_kept(target, snapshot, request.overwrite) {
        return Err(failed(io::ErrorKind::AlreadyExists.into()).into());
    }
    let keeps = request.overwrite == tree::Overwrite::Never;
    output.finish(keeps).map_err(failed)?;
    Ok(stats)
}

/// Compares the file of a restored stream with the backup.
pub(crate) fn verify_whole(
    reader: &dyn StoreReader,
    root: &TreeRoot,
    (target, stream): (&Path, &Path),
    request: &RestoreRequest,
    monitor: &Monitor,
    report: &mut (dyn FnMut(Fault) + Send),
) -> Result<VerifyStats> {
    let path = target.join(stream);
    let shown = path.as_os_str().as_bytes().to_vec();
    let mut stats = VerifyStats::default();
    let file = match open_from_disk(&path) {
        Ok(file) => file,
        Err(error) => {
            stats.unlike = 1;
            report(Fault::Tree(TreeError::of_io(&shown, Action::Open, &error)));
            return Ok(stats);
        }
    };
    let mut output = CompareFile {
        file,
        offset: 0,
        fault: None,
        path: shown,
        buffer: Vec::new(),
    };
    let whole = ByteRange {
        offset: 0,
        len: root.len,
    };
    let (counters, cancel): (&RestoreCounters, _) = (&monitor.restore, monitor.cancel());
    counters.bytes.store(0, Ordering::Relaxed);
    let name = stream.display().to_string();
    restore::restore_stream(
        reader,
        root,
        whole,
        &name,
        &mut output,
        request.assembling,
        counters,
        cancel,
    )?;
    match output.finish(root.len) {
        None => (stats.files, stats.bytes) = (1, root.len),
        Some(fault) => {
            stats.unlike = 1;
            report(fault);
        }
    }
    Ok(stats)
}

/// Opens a file whose bytes are then read from the disk, as far as the system drops its pages.
fn open_from_disk(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    file.sync_data()?;
    tree::drop_pages(&file);
    Ok(file)
}

/// Compares a stream with a file.
struct CompareFile {
    file: File,
    offset: u64,
    /// What ended the comparison.
    fault: Option<Fault>,
    path: Vec<u8>,
    buffer: Vec<u8>,
}

impl CompareFile {
    fn compare(&mut self, len: usize, is_like: impl Fn(&[u8]) -> Option<usize>) {
        let at = self.offset;
        self.offset += len as u64;
        if self.fault.is_some() {
            return;
        }
        self.buffer.resize(len, 0);
        self.fault = match self.file.read_exact_at(&mut self.buffer, at) {
            Err(error) => Some(Fault::Tree(TreeError::of_io(&self.path, Action::Read, &error))),
            Ok(()) => is_like(&self.buffer).map(|differs| Fault::Unlike {
                path: self.path.clone(),
                offset: at + differs as u64,
            }),
        };
    }
}

impl CompareFile {
    /// What is not as in the backup, after the whole stream.
    fn finish(self, expected: u64) -> Option<Fault> {
        if self.fault.is_some() {
            return self.fault;
        }
        let found = match self.file.metadata() {
            Ok(facts) => facts.len(),
            Err(error) => {
                let fault = TreeError::of_io(&self.path, Action::ReadMetadata, &error);
                return Some(Fault::Tree(fault));
            }
        };
        let path = self.path;
        (found != expected).then_some(Fault::Tree(TreeError::OtherLength {
            path,
            expected,
            found,
        }))
    }
}

impl Output for CompareFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.compare(bytes.len(), |found| {
            found.iter().zip(bytes).position(|(found, byte)| found != byte)
        });
        Ok(())
    }

    fn skip_zeros(&mut self, mut len: u64) -> io::Result<()> {
        while len > 0 {
            let now = len.min(1 << 20);
            self.compare(usize::try_from(now).unwrap_or(usize::MAX), |found| {
                found.iter().position(|byte| *byte != 0)
            });
            len -= now;
        }
        Ok(())
    }
}

/// Whether the existing file of a single stream stays. The backup records no time of modification
/// of its source. So what was modified when the backup began or later counts as newer, and a
/// restored file has that time. `IfChanged` replaces the file: nothing is known to compare it with.
pub(crate) fn is_kept(target: &Path, snapshot: &Snapshot, overwrite: tree::Overwrite) -> bool {
    let Ok(there) = target.join(stream_name(snapshot)).symlink_metadata() else {
        return false;
    };
    match overwrite {
        tree::Overwrite::Never => true,
        tree::Overwrite::IfNewer => {
            let began = snapshot.backup.source_time.get();
            i128::from(there.mtime()) * 1_000_000_000 + i128::from(there.mtime_nsec()) >= i128::from(began)
        }
        tree::Overwrite::Always | tree::Overwrite::IfChanged => false,
    }
}

/// Whether a backup of a single stream has anything at each path to include: the stream, which is a
/// relative path if it came by standard input. The second value is whether the stream is requested.
pub(crate) fn included(snapshot: &Snapshot, request: &RestoreRequest) -> (Vec<bool>, bool) {
    let (typed, _) = snapshot.single_stream().unwrap_or_default();
    let name = stream_name(snapshot);
    let is_it = |path: &Vec<u8>| {
        let path = Path::new(OsStr::from_bytes(path));
        Path::new("/").join(&name).starts_with(path) || !typed.starts_with(b"/") && path.ends_with(&name)
    };
    let is_met: Vec<_> = request.include.iter().map(is_it).collect();
    let whole = [b"/", name.as_os_str().as_bytes()].concat();
    // A pattern that matches a folder includes what is below it.
    let mut ends = (1..=whole.len()).filter(|end| whole.get(*end).is_none_or(|byte| *byte == b'/'));
    let is_asked = request.include.is_empty() && request.patterns.is_empty()
        || is_met.contains(&true)
        || ends.any(|end| request.patterns.excludes(&whole[..end]));
    (is_met, is_asked)
}

/// The name of a single stream's file: the path of the source, made relative.
pub(crate) fn stream_name(snapshot: &Snapshot) -> PathBuf {
    let path = snapshot
        .backup
        .series
        .paths
        .first()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let path = Path::new(OsStr::from_bytes(path));
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
    /// Written before the file gets its name, so dropped before it.
    blocks: BlockWriter,
    file: WholeFile,
    path: PathBuf,
    len: u64,
}

impl PartialFile {
    /// Gives the file its name. If `keeps`, what has the name by now stays, which is an error.
    fn finish(self, keeps: bool) -> io::Result<()> {
        self.blocks.finish()?;
        if keeps {
            self.file.finish_if_free(self.len)
        } else {
            self.file.finish(self.len)
        }
    }
}

impl Output for PartialFile {
    fn shown(&self) -> String {
        self.path.display().to_string()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.blocks.write(self.len, bytes)?;
        self.len += bytes.len() as u64;
        Ok(())
    }

    fn skip_zeros(&mut self, len: u64) -> io::Result<()> {
        self.len += len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_longer_than_its_stream_differs() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"stream, and more").unwrap();
        let differs = |compared: &[u8]| {
            let mut output = CompareFile {
                file: file.try_clone().unwrap(),
                offset: 0,
                fault: None,
                path: b"/stream".to_vec(),
                buffer: Vec::new(),
            };
            output.write(compared).unwrap();
            output.finish(compared.len() as u64)
        };
        assert!(differs(b"stream, and more").is_none());
        let fault = differs(b"stream").unwrap().to_string();
        assert!(fault.contains("16 bytes instead of 6"), "{fault}");
        assert!(matches!(
            differs(b"strewn"),
            Some(Fault::Unlike { offset: 4, .. })
        ));
    }
}
