//! The sources of a run: trees, streams and disk images, made and changed by drawn edits. They
//! change between steps only, so that the content of a backup is known, whenever it reads a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Result;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::draws::{Draws, pick};
use super::picture::Picture;

/// How a source is backed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Tree,
    Stream,
    /// In blocks of `kib` KiB.
    Image {
        kib: u64,
    },
}

/// One source. It is one series, because all backups of a run are of one host.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) sort: Sort,
    /// The path; for a stream, the file that the program reads from standard input.
    pub(super) path: PathBuf,
    /// The path that `snapshots` shows.
    pub(super) name: String,
    largest: u64,
    /// The current state, if it is known.
    picture: Option<Arc<Picture>>,
}

impl Source {
    /// Draws a source and makes it below `work`.
    pub(super) fn new(draws: &mut Draws, work: &Path, number: usize, largest: u64) -> Result<Self> {
        let sort = match draws.below(6) {
            _ if number == 0 => Sort::Tree,
            0..=3 => Sort::Tree,
            4 => Sort::Stream,
            _ => Sort::Image {
                kib: draws.one(&[4, 16, 64]),
            },
        };
        let path = work.join(format!("source{number}"));
        let name = match sort {
            Sort::Stream => format!("stream{number}"),
            Sort::Tree | Sort::Image { .. } => path.to_string_lossy().into_owned(),
        };
        let mut source = Self {
            sort,
            path,
            name,
            largest,
            picture: None,
        };
        match sort {
            Sort::Tree => {
                fs::create_dir(&source.path)?;
                for _ in 0..draws.within(8, 40) {
                    source.edit(draws)?;
                }
            }
            Sort::Stream => {
                let len = size(draws.about(1, largest));
                fs::write(&source.path, draws.bytes(len))?;
            }
            Sort::Image { kib } => {
                let blocks = (largest / 1024 / kib).max(4);
                File::create(&source.path)?.set_len(blocks * kib * 1024)?;
                for _ in 0..draws.within(2, 12) {
                    source.edit(draws)?;
                }
            }
        }
        Ok(source)
    }

    /// The state of the source.
    pub(super) fn picture(&mut self) -> Result<Arc<Picture>> {
        if let Some(picture) = &self.picture {
            return Ok(Arc::clone(picture));
        }
        let picture = Arc::new(match self.sort {
            Sort::Tree => Picture::of(&self.path)?,
            Sort::Stream | Sort::Image { .. } => Picture::bytes_of(&self.path)?,
        });
        self.picture = Some(Arc::clone(&picture));
        Ok(picture)
    }

    /// Changes the source.
    pub(super) fn edit(&mut self, draws: &mut Draws) -> Result<()> {
        self.picture = None;
        match self.sort {
            Sort::Tree => edit_tree(&self.path, draws, self.largest),
            Sort::Stream => {
                let len = self.path.metadata()?.len();
                let more = size(draws.about(1, 1 + self.largest / 8));
                let bytes = draws.bytes(more);
                match draws.below(4) {
                    0 => fs::write(&self.path, bytes)?,
                    1 => File::options().append(true).open(&self.path)?.write_all(&bytes)?,
                    _ => overwrite(&self.path, draws.below(len + 1), &bytes)?,
                }
                Ok(())
            }
            Sort::Image { kib } => {
                let block = kib * 1024;
                let at = draws.below(self.path.metadata()?.len() / block) * block;
                let len = block * draws.about(1, 64);
                let end = self.path.metadata()?.len();
                let len = size(len.min(end - at));
                let bytes = if draws.chance(20) {
                    vec![0; len]
                } else {
                    draws.bytes(len)
                };
                overwrite(&self.path, at, &bytes)
            }
        }
    }
}

/// One drawn edit of a tree.
fn edit_tree(root: &Path, draws: &mut Draws, largest: u64) -> Result<()> {
    let (folders, others) = everything(root)?;
    let folder = &folders[pick(draws.next(), folders.len())];
    let name = folder.join(odd_name(draws));
    let choice = draws.below(100);
    let old = (!others.is_empty()).then(|| &others[pick(draws.next(), others.len())]);
    let is_file = old.is_some_and(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_file()));
    let at = draws.next();
    let most = if draws.chance(8) {
        largest
    } else {
        1 + largest / 24
    };
    let len = draws.about(1, most);
    if fs::symlink_metadata(&name).is_ok() {
        return Ok(());
    }
    match (choice, old) {
        (0..=29, _) | (_, None) => fs::write(&name, draws.bytes(size(len)))?,
        (30..=39, Some(old)) if is_file => {
            let end = old.metadata()?.len();
            overwrite(old, at % (end + 1), &draws.bytes(size(len)))?;
        }
        (40..=46, Some(old)) if is_file => File::options()
            .append(true)
            .open(old)?
            .write_all(&draws.bytes(size(len)))?,
        (47..=50, Some(old)) if is_file => {
            let end = old.metadata()?.len();
            File::options().write(true).open(old)?.set_len(at % (end + 1))?;
        }
        (51..=58, Some(old)) => fs::remove_file(old)?,
        (59..=63, Some(old)) => fs::rename(old, &name)?,
        (64..=68, Some(old)) => fs::hard_link(old, &name)?,
        (69..=75, _) => fs::create_dir(&name)?,
        (76..=78, _) => symlink(OsString::from_vec(odd_name(draws).into_vec()), &name)?,
        (79, _) => mknodat(CWD, &name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?,
        (80, _) => {
            // The address of a socket has at most some hundred bytes, so not every path is one.
            if UnixListener::bind(&name).is_err() {
                fs::write(&name, b"no socket has so long a name")?;
            }
        }
        (81..=84, _) => {
            // A hole, bytes, and a hole.
            let mut file = File::create(&name)?;
            file.seek(SeekFrom::Start(draws.about(1, 4 << 20)))?;
            file.write_all(&draws.bytes(size(len.min(100_000))))?;
            let end = file.stream_position()?;
            file.set_len(end + draws.about(1, 1 << 20))?;
        }
        (85..=87, Some(old)) if is_file => {
            let mode = draws.one(&[0o600, 0o644, 0o755, 0o4755, 0o640]);
            fs::set_permissions(old, fs::Permissions::from_mode(mode))?;
        }
        (88..=91, Some(old)) if is_file => {
            let time = UNIX_EPOCH + Duration::from_secs(draws.below(4_000_000_000));
            File::open(old)?.set_modified(time)?;
        }
        (92..=93, _) => {
            // Copies of a whole file: known data under a new name.
            if let Some(old) = old.filter(|_| is_file) {
                fs::copy(old, &name)?;
            }
        }
        (94, _) if folder != root => fs::remove_dir_all(folder)?,
        _ => fs::write(&name, b"")?,
    }
    Ok(())
}

/// Folders, and other entries, in an order that does not depend on the disk.
fn everything(root: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut found = BTreeMap::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let is_folder = path.symlink_metadata()?.is_dir();
        if is_folder {
            for below in fs::read_dir(&path)? {
                paths.push(below?.path());
            }
        }
        found.insert(path, is_folder);
    }
    let (folders, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|(_, is_folder)| *is_folder);
    let names = |list: Vec<(PathBuf, bool)>| list.into_iter().map(|(path, _)| path).collect();
    Ok((names(folders), names(others)))
}

/// A name; one in three could confuse a shell, a terminal or a listing.
fn odd_name(draws: &mut Draws) -> OsString {
    let number = draws.below(500);
    let odd: &[u8] = match draws.below(24) {
        0 => b"with blank ",
        1 => b"new\nline",
        2 => b"-r",
        3 => b"\xff\xfe not utf-8 ",
        4 => "\u{e4}\u{308}\u{1f4be}".as_bytes(),
        5 => b"back\\slash*?[a]",
        6 => b"'\"$(x)",
        7 => b"\x1b[31m",
        _ => b"",
    };
    let mut name = odd.to_vec();
    name.extend_from_slice(format!("f{number}").as_bytes());
    if draws.chance(2) {
        name.resize(200, b'l');
    }
    OsString::from_vec(name)
}

fn overwrite(path: &Path, at: u64, bytes: &[u8]) -> Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)?;
    Ok(())
}

fn size(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
