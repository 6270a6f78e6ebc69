//! Trees of files: made, read back, compared.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{noise, text};

/// The entry at a path.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    File(Vec<u8>),
    Folder,
    Link(PathBuf),
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(bytes) => write!(f, "file of {} bytes", bytes.len()),
            Self::Folder => f.write_str("folder"),
            Self::Link(target) => write!(f, "link to {}", target.display()),
        }
    }
}

/// A whole tree by relative path.
pub(crate) type Tree = BTreeMap<PathBuf, Entry>;

/// Reads a tree. Leaves out files with temporary names if `with_parts` is false.
pub(crate) fn read(root: &Path) -> Tree {
    let mut tree = Tree::new();
    visit(root, root, &mut tree);
    tree
}

fn visit(root: &Path, folder: &Path, tree: &mut Tree) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.unwrap().path();
        let relative = path.strip_prefix(root).unwrap().to_path_buf();
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() {
            tree.insert(relative, Entry::Folder);
            visit(root, &path, tree);
        } else if kind.is_symlink() {
            tree.insert(relative, Entry::Link(fs::read_link(&path).unwrap()));
        } else {
            tree.insert(relative, Entry::File(fs::read(&path).unwrap()));
        }
    }
}

/// A folder with files of many shapes, small enough to back up hundreds of times.
pub(crate) fn make_first(root: &Path) {
    fs::create_dir_all(root.join("sub/deeper")).unwrap();
    fs::write(root.join("big.bin"), noise(1, 60_000)).unwrap();
    fs::write(root.join("text.txt"), text(2, 30_000)).unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("sub/one"), text(3, 700)).unwrap();
    fs::write(root.join("sub/two"), noise(4, 5_000)).unwrap();
    fs::write(root.join("sub/deeper/three"), noise(5, 12_000)).unwrap();
    let mut holed = noise(6, 3_000);
    holed.resize(40_000, 0);
    holed.extend(noise(7, 1_000));
    fs::write(root.join("zeros"), holed).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"not-utf8-\xff\xfe")), text(8, 900)).unwrap();
    std::os::unix::fs::symlink("sub/one", root.join("link")).unwrap();
    fs::hard_link(root.join("sub/two"), root.join("sub/zwei")).unwrap();
}

/// The folder some time later.
pub(crate) fn make_second(root: &Path) {
    let mut big = noise(1, 60_000);
    big.splice(20_000..20_010, b"changed".iter().copied());
    fs::write(root.join("big.bin"), big).unwrap();
    fs::remove_file(root.join("sub/one")).unwrap();
    fs::write(root.join("new"), noise(9, 9_000)).unwrap();
}
