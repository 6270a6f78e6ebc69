//! A picture of a tree, to tell whether it was restored as it was.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_128;

/// One entry, with everything that a restore must bring back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: &'static str,
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    len: u64,
    content: u128,
    target: PathBuf,
    device: u64,
    /// The first of its names, if it has several.
    first_name: Option<PathBuf>,
    attributes: BTreeMap<String, Vec<u8>>,
    /// Whether it takes much less space than its length.
    pub(crate) is_sparse: bool,
}

impl Entry {
    /// The entry without its other names.
    pub(crate) fn alone(self) -> Self {
        Self {
            first_name: None,
            ..self
        }
    }
}

pub(crate) type Picture = BTreeMap<PathBuf, Entry>;

/// The tree at `root`, by path relative to it.
pub(crate) fn picture(root: &Path) -> Picture {
    let mut picture = Picture::new();
    let mut first_names = BTreeMap::new();
    let mut paths = vec![root.to_owned()];
    while let Some(path) = paths.pop() {
        let meta = path.symlink_metadata().unwrap();
        let kind = meta.file_type();
        let name = path.strip_prefix(root).unwrap().to_owned();
        if kind.is_dir() {
            let mut below: Vec<_> = fs::read_dir(&path)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .collect();
            below.sort();
            paths.extend(below);
        }
        let first_name = (!kind.is_dir() && meta.nlink() > 1).then(|| {
            let inode = (meta.dev(), meta.ino());
            first_names.entry(inode).or_insert_with(|| name.clone()).clone()
        });
        let entry = Entry {
            kind: match kind {
                _ if kind.is_dir() => "folder",
                _ if kind.is_symlink() => "link",
                _ if kind.is_fifo() => "fifo",
                _ if kind.is_socket() => "socket",
                _ if kind.is_char_device() => "character device",
                _ if kind.is_block_device() => "block device",
                _ => "file",
            },
            mode: meta.mode(),
            owner: (meta.uid(), meta.gid()),
            mtime: (meta.mtime(), meta.mtime_nsec()),
            len: if kind.is_file() { meta.len() } else { 0 },
            content: if kind.is_file() {
                XxHash3_128::oneshot(&fs::read(&path).unwrap())
            } else {
                0
            },
            target: if kind.is_symlink() {
                fs::read_link(&path).unwrap()
            } else {
                PathBuf::new()
            },
            device: meta.rdev(),
            first_name,
            attributes: attributes(&path),
            is_sparse: kind.is_file() && meta.blocks() * 512 < meta.len() / 2,
        };
        picture.insert(name, entry);
    }
    picture
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 4096];
    let Ok(len) = rustix::fs::llistxattr(path, &mut names[..]) else {
        return BTreeMap::new();
    };
    let text = String::from_utf8_lossy(&names[..len]).into_owned();
    let value = |name: &str| {
        let mut value = vec![0; 4096];
        let len = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(len);
        value
    };
    text.split('\0')
        .filter(|name| name.starts_with("user."))
        .map(|name| (name.to_owned(), value(name)))
        .collect()
}

/// Fails unless the two are the same, and names the differences.
#[track_caller]
pub(crate) fn assert_same(was: &Picture, is: &Picture) {
    for (name, entry) in was {
        assert_eq!(Some(entry), is.get(name), "{}", name.display());
    }
    let added: Vec<_> = is.keys().filter(|name| !was.contains_key(*name)).collect();
    assert!(added.is_empty(), "too much: {added:?}");
}
