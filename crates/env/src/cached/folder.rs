//! The folder of a cache: a file for each entry, within a bound for all stores together.
//!
//! An entry gets its name when it is whole, and is never changed. So any number of processes share
//! the folder without a lock, and it may be deleted at any time. The file's time is that of its
//! last use, to an hour. A process that has written a sixteenth of the bound deletes the entries
//! that were used least recently. An error of the folder costs the entry: no operation on the store
//! fails for it.

use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use types::{ByteRange, ObjectName};

use super::entry::{self, Entry, Header};
use crate::{Clock, Entropy, SystemEntropy};

/// The beginning of the name of a file that is being written.
const TEMPORARY: &str = "tmp-";
/// A file that was being written for so long was left by a crash.
const ABANDONED: Duration = Duration::from_hours(24);
/// The time of an entry is set when it is older than this.
const USED: Duration = Duration::from_hours(1);
/// After this share of the bound was written, entries are deleted.
const SHARE: u64 = 16;

/// Which entry of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// Its last bytes, or all.
    End,
    /// The bytes from this offset on.
    From(u64),
}

/// The entries of one store.
#[derive(Debug)]
pub(super) struct Folder {
    /// Of all stores.
    root: PathBuf,
    own: PathBuf,
    bytes_max: u64,
    clock: Arc<dyn Clock>,
    /// Bytes that were written since entries were deleted.
    written: AtomicU64,
    /// The folder cannot be written.
    is_off: AtomicBool,
}

impl Folder {
    pub(super) fn new(root: &Path, store: &str, bytes_max: u64, clock: Arc<dyn Clock>) -> Self {
        Self {
            root: root.to_owned(),
            own: root.join(store),
            bytes_max,
            clock,
            // The first entry looks what the others have left.
            written: AtomicU64::new(bytes_max),
            is_off: AtomicBool::new(false),
        }
    }

    /// The files of an object begin with this.
    fn stem(name: &ObjectName) -> String {
        blake3::hash(name.as_str().as_bytes()).to_hex()[..32].to_owned()
    }

    fn path(&self, stem: &str, which: Which) -> PathBuf {
        let file = match which {
            Which::End => format!("{stem}.end"),
            Which::From(offset) => format!("{stem}.{offset:x}"),
        };
        self.own.join(&stem[..2]).join(file)
    }

    /// The entry, if there is a good one.
    pub(super) fn open(&self, name: &ObjectName, which: Which) -> Option<Entry> {
        let path = self.path(&Self::stem(name), which);
        let file = File::open(&path).ok()?;
        let entry = Entry::open(file).filter(|entry| entry.header.name == *name);
        if entry.is_none() {
            drop(fs::remove_file(&path));
        }
        entry
    }

    /// These bytes of the entry. A damaged one is deleted.
    pub(super) fn read(&self, entry: &Entry, which: Which, range: ByteRange) -> Option<Vec<u8>> {
        let path = self.path(&Self::stem(&entry.header.name), which);
        match entry.read(range)? {
            Ok(bytes) => {
                self.note_use(&path);
                Some(bytes)
            }
            Err(_) => {
                drop(fs::remove_file(&path));
                None
            }
        }
    }

    fn now(&self) -> SystemTime {
        let nanos = u64::try_from(self.clock.wall().get()).unwrap_or(0);
        SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)
    }

    fn note_use(&self, path: &Path) {
        let now = self.now();
        let is_recent = |used: SystemTime| now.duration_since(used).is_ok_and(|age| age < USED);
        let set = || -> io::Result<()> {
            if !is_recent(fs::metadata(path)?.modified()?) {
                File::open(path)?.set_times(FileTimes::new().set_modified(now))?;
            }
            Ok(())
        };
        // At worst the entry is deleted too early.
        drop(set());
    }

    /// Keeps an entry, in place of the one that there was.
    pub(super) fn keep(&self, which: Which, header: &Header, bytes: &[u8]) {
        let len = bytes.len() as u64;
        if self.is_off.load(Ordering::Relaxed) || len > self.bytes_max / 4 {
            return;
        }
        if self.written.fetch_add(len, Ordering::Relaxed) >= self.bytes_max / SHARE {
            self.written.store(0, Ordering::Relaxed);
            self.make_room();
        }
        let path = self.path(&Self::stem(&header.name), which);
        if let Err(error) = self.write(&path, header, bytes) {
            self.is_off.store(true, Ordering::Relaxed);
            tracing::warn!(
                target: "onefold::cache", folder = %self.root.display(), %error,
                "the cache cannot be written, and is not filled any more"
            );
        }
    }

    fn write(&self, path: &Path, header: &Header, bytes: &[u8]) -> io::Result<()> {
        let mut random = [0; 8];
        SystemEntropy.fill(&mut random);
        let folder = path.parent().unwrap_or(&self.own);
        let temporary = folder.join(format!("{TEMPORARY}{:016x}", u64::from_le_bytes(random)));
        let create = || {
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).open(&temporary)
        };
        let file = match create() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                create()?
            }
            file => file?,
        };
        let written = entry::write(&file, header, bytes)
            .and_then(|()| file.set_times(FileTimes::new().set_modified(self.now())))
            .and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            drop(fs::remove_file(&temporary));
        }
        written
    }

    /// Deletes all entries of an object. Returns whether there were any.
    pub(super) fn forget(&self, name: &ObjectName) -> bool {
        let stem = Self::stem(name);
        let Ok(files) = fs::read_dir(self.own.join(&stem[..2])) else {
            return false;
        };
        let mut were_any = false;
        for file in files.flatten() {
            let is_own = file.file_name().to_str().is_some_and(|it| it.starts_with(&stem));
            were_any |= is_own && fs::remove_file(file.path()).is_ok();
        }
        were_any
    }

    /// Deletes the entries that were used least recently, until an eighth of the bound is free.
    fn make_room(&self) {
        let now = self.now();
        let (mut files, mut bytes) = (Vec::new(), 0);
        for file in files_below(&self.root) {
            let Ok(meta) = file.metadata() else { continue };
            let used = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let is_temporary = file
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(TEMPORARY));
            if is_temporary {
                if now.duration_since(used).is_ok_and(|age| age > ABANDONED) {
                    drop(fs::remove_file(file.path()));
                }
                continue;
            }
            let taken = meta.blocks() * 512;
            bytes += taken;
            files.push((used, taken, file.path()));
        }
        if bytes <= self.bytes_max {
            return;
        }
        files.sort_unstable();
        for (_, taken, path) in files {
            if bytes <= self.bytes_max / 8 * 7 {
                return;
            }
            if fs::remove_file(path).is_ok() {
                bytes -= taken;
            }
        }
    }
}

/// All files of all stores.
fn files_below(root: &Path) -> impl Iterator<Item = fs::DirEntry> {
    let within = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    within(root.to_owned())
        .flat_map(move |store| within(store.path()))
        .flat_map(move |part| within(part.path()))
}
