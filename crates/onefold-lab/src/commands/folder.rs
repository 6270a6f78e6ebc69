//! Folders of backups, each in a file of its own.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use anyhow::{Context, Result, bail};
use cli_support::output::count;
use cli_support::private;
use lab::DestorWriter;
use simulate::{BackupHead, SimulateError, Sink};

use super::{Counted, Generated};

/// A folder that receives each backup as a file. Complete backups stay after a failure or an
/// interrupt.
pub(super) struct Folder<'a> {
    path: &'a Path,
    was_there: bool,
    complete: Rc<Cell<u64>>,
}

/// A backup that is being written. A flush completes it; otherwise dropping it deletes the file.
pub(super) struct Backup {
    path: PathBuf,
    file: BufWriter<File>,
    is_complete: bool,
    complete: Rc<Cell<u64>>,
}

impl<'a> Folder<'a> {
    /// Creates the folder, or uses an empty one.
    pub(super) fn new(path: &'a Path) -> Result<Self> {
        let place = || path.display().to_string();
        let was_there = path.exists();
        private::create_folder(path).with_context(place)?;
        if fs::read_dir(path).with_context(place)?.next().is_some() {
            bail!("{}: the folder is not empty; name an empty or a new one", place());
        }
        Ok(Self {
            path,
            was_there,
            complete: Rc::default(),
        })
    }

    /// Begins a backup's file.
    pub(super) fn open(&self, name: &str) -> Result<Backup, SimulateError> {
        let path = self.path.join(name);
        let file = private::create_new(&path).map_err(|source| SimulateError::Io {
            what: path.display().to_string(),
            source,
        })?;
        Ok(Backup {
            path,
            file: BufWriter::with_capacity(1 << 20, file),
            is_complete: false,
            complete: Rc::clone(&self.complete),
        })
    }

    /// Number of complete backups.
    pub(super) fn complete(&self) -> u64 {
        self.complete.get()
    }

    /// Adds to an error which backups are kept. The incomplete one must be deleted already. Removes
    /// the folder if it is new and empty.
    pub(super) fn told<T>(&self, made: Result<T, SimulateError>) -> Result<T> {
        let complete = self.complete();
        if made.is_err() && complete == 0 && !self.was_there {
            drop(fs::remove_dir(self.path));
        }
        made.with_context(|| {
            let kept = match complete {
                0 => "no backup was complete, so the folder has none".to_owned(),
                some => format!(
                    "the folder has {}",
                    count(some, "complete backup", "complete backups")
                ),
            };
            format!("{}: {kept}", self.path.display())
        })
    }
}

impl Write for Backup {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()?;
        self.is_complete = true;
        self.complete.set(self.complete.get() + 1);
        Ok(())
    }
}

impl Drop for Backup {
    fn drop(&mut self) {
        if !self.is_complete {
            // An error cannot be reported any more.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Writes replayed backups as destor's traces, each to the file that `name` returns. The folder
/// exists before the replay begins.
pub(super) fn to_destor(
    folder: &Path,
    mut name: impl FnMut(&BackupHead) -> String,
    cancelled: &AtomicBool,
    done: &AtomicU64,
    replay: impl FnOnce(&mut dyn Sink) -> Result<(), SimulateError>,
) -> Result<Generated> {
    let folder = Folder::new(folder)?;
    let writer = DestorWriter::new(|head| folder.open(&name(head)));
    let mut sink = Counted::new(writer, cancelled, done);
    let replayed = replay(&mut sink);
    let made = sink.generated();
    // Deletes an incomplete backup, before the kept ones are counted.
    drop(sink);
    folder.told(replayed)?;
    Ok(made)
}
