//! The state of a source, detailed enough to see whether a restore brought it back.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// One entry, with all that a restore must bring back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    pub(super) len: u64,
    pub(super) digest: Option<blake3::Hash>,
    target: Option<PathBuf>,
    device: u64,
    /// Entries of the same number are names of one file.
    file: u64,
}

/// A tree, by path relative to its root. A stream or an image is one entry under the empty path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Picture(pub(super) BTreeMap<PathBuf, Entry>);

impl Picture {
    /// The tree at `root`.
    pub(super) fn of(root: &Path) -> Result<Self> {
        let mut entries = BTreeMap::new();
        let mut paths = vec![root.to_owned()];
        while let Some(path) = paths.pop() {
            let meta = path
                .symlink_metadata()
                .with_context(|| format!("looking at {}", path.display()))?;
            if meta.is_dir() {
                for below in fs::read_dir(&path)? {
                    paths.push(below?.path());
                }
            }
            entries.insert(path.strip_prefix(root)?.to_owned(), entry(&path, &meta)?);
        }
        Ok(Self(entries))
    }

    /// The bytes of one file alone, for a stream or an image.
    pub(super) fn bytes_of(path: &Path) -> Result<Self> {
        let entry = Entry {
            kind: "bytes",
            mode: 0,
            owner: (0, 0),
            mtime: (0, 0),
            len: path
                .metadata()
                .with_context(|| format!("looking at {}", path.display()))?
                .len(),
            digest: Some(digest(path)?),
            target: None,
            device: 0,
            file: 0,
        };
        Ok(Self(BTreeMap::from([(PathBuf::new(), entry)])))
    }

    /// The entries at or below `path`, by path relative to it.
    pub(super) fn part(&self, path: &Path) -> Self {
        let below = self.0.iter().filter_map(|(name, entry)| {
            let name = name.strip_prefix(path).ok()?;
            Some((name.to_owned(), entry.clone()))
        });
        Self(below.collect())
    }

    /// The first difference between `was` and this one.
    pub(super) fn differs(&self, was: &Self) -> Option<String> {
        let (was, is) = (was.canonical(), self.canonical());
        for (name, entry) in &was {
            match is.get(name) {
                None => return Some(format!("{name:?} is missing")),
                Some(other) if other != entry => {
                    return Some(format!("{name:?} was {entry:?} and is {other:?}"));
                }
                Some(_) => {}
            }
        }
        is.keys()
            .find(|name| !was.contains_key(*name))
            .map(|name| format!("{name:?} is too much"))
    }

    /// Names of regular files that have bytes.
    pub(super) fn files(&self) -> Vec<&PathBuf> {
        let has_bytes = |entry: &Entry| entry.kind == "file" && entry.len > 0;
        self.0
            .iter()
            .filter(|(_, entry)| has_bytes(entry))
            .map(|(name, _)| name)
            .collect()
    }

    /// Replaces the number of each file, which differs from disk to disk, by the position of its
    /// first name.
    fn canonical(&self) -> BTreeMap<PathBuf, Entry> {
        let mut first = BTreeMap::new();
        let mut entries = self.0.clone();
        for (place, entry) in (0..).zip(entries.values_mut()) {
            entry.file = *first.entry(entry.file).or_insert(place);
        }
        entries
    }
}

fn entry(path: &Path, meta: &fs::Metadata) -> Result<Entry> {
    let sort = meta.file_type();
    let kind = match sort {
        _ if sort.is_dir() => "folder",
        _ if sort.is_symlink() => "link",
        _ if sort.is_fifo() => "fifo",
        _ if sort.is_socket() => "socket",
        _ if sort.is_char_device() => "character device",
        _ if sort.is_block_device() => "block device",
        _ => "file",
    };
    let is_device = sort.is_char_device() || sort.is_block_device();
    Ok(Entry {
        kind,
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        mtime: (meta.mtime(), meta.mtime_nsec()),
        len: if sort.is_file() { meta.len() } else { 0 },
        digest: if sort.is_file() { Some(digest(path)?) } else { None },
        target: if sort.is_symlink() {
            Some(fs::read_link(path)?)
        } else {
            None
        },
        device: if is_device { meta.rdev() } else { 0 },
        file: meta.ino(),
    })
}

pub(super) fn digest(path: &Path) -> Result<blake3::Hash> {
    let mut file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize()),
            len => hasher.update(&buffer[..len]),
        };
    }
}
