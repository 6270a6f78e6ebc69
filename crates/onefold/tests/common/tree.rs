//! Small trees of real files, equal for equal seeds, and pictures of trees.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use env::{Entropy, SeededEntropy};
use tempfile::TempDir;

/// Bytes that do not compress, the same for the same seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    SeededEntropy::new(seed).fill(&mut bytes);
    bytes
}

/// The properties of an entry that must be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    File {
        bytes: Vec<u8>,
        mode: u32,
        mtime: (i64, i64),
        links: u64,
    },
    Folder {
        mode: u32,
        mtime: (i64, i64),
    },
    Link(PathBuf),
}

/// A picture of a tree, by paths below its root.
pub type Picture = BTreeMap<PathBuf, Seen>;

/// The picture of everything below a folder, and of the folder itself.
pub fn picture_of(root: &Path) -> Picture {
    let mut picture = Picture::new();
    let mut pending = vec![root.to_owned()];
    while let Some(path) = pending.pop() {
        let meta = fs::symlink_metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mtime = (meta.mtime(), meta.mtime_nsec());
        let seen = if meta.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            Seen::Folder {
                mode: meta.mode(),
                mtime,
            }
        } else if meta.is_symlink() {
            Seen::Link(fs::read_link(&path).unwrap())
        } else {
            Seen::File {
                bytes: fs::read(&path).unwrap(),
                mode: meta.mode(),
                mtime,
                links: meta.nlink(),
            }
        };
        picture.insert(path.strip_prefix(root).unwrap().to_owned(), seen);
    }
    picture
}

/// Reports the differences of two pictures, without printing whole files.
pub fn assert_same(found: &Picture, expected: &Picture, when: &str) {
    if found == expected {
        return;
    }
    let paths = expected.keys().chain(found.keys());
    let differ = paths.filter(|path| found.get(*path) != expected.get(*path));
    let differ: Vec<_> = differ
        .map(|path| format!("{}: {}", path.display(), how(found.get(path), expected.get(path))))
        .collect();
    panic!("{when}: restored otherwise: {differ:#?}");
}

fn how(found: Option<&Seen>, expected: Option<&Seen>) -> String {
    match (found, expected) {
        (None, _) => "is missing".into(),
        (_, None) => "should not be there".into(),
        (Some(Seen::File { bytes, .. }), Some(Seen::File { bytes: before, .. })) if bytes != before => {
            let at = bytes.iter().zip(before).position(|(a, b)| a != b);
            format!(
                "{} bytes for {}, first other at {at:?}",
                bytes.len(),
                before.len()
            )
        }
        (Some(found), Some(expected)) => {
            let short = |seen: &Seen| match seen {
                Seen::File {
                    mode, mtime, links, ..
                } => format!("file {mode:o} {mtime:?} {links}"),
                other => format!("{other:?}"),
            };
            format!("{} for {}", short(found), short(expected))
        }
    }
}

/// A folder for trees, in memory if the system has one: tests create and delete thousands of files.
pub fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// A tree in a folder of its own, removed with it.
pub struct Tree {
    folder: TempDir,
    seed: u64,
    /// Dropped after the folder, whose removal changes a time.
    _alone: Option<MutexGuard<'static, ()>>,
}

impl Tree {
    /// Some twenty entries with about so many bytes in all.
    pub fn plant(seed: u64, bytes: usize) -> Self {
        Self::plant_in(scratch(), None, seed, bytes)
    }

    /// The same where no other test changes the folders above, whose times a backup has, too. Waits
    /// until no other test has such a tree.
    pub fn plant_apart(seed: u64, bytes: usize) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self::plant_in(folder, Some(alone), seed, bytes)
    }

    fn plant_in(folder: TempDir, alone: Option<MutexGuard<'static, ()>>, seed: u64, bytes: usize) -> Self {
        let tree = Self {
            folder,
            seed,
            _alone: alone,
        };
        let root = tree.root();
        for folder in ["", "a", "a/deep/er", "b", "empty"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        tree.write("a/large", 1, bytes / 2);
        tree.write("a/deep/er/middle", 2, bytes / 4);
        tree.write("b/third", 3, bytes / 8);
        for n in 0..8 {
            let len = bytes / 64 + usize::try_from(n).unwrap() * 7;
            tree.write(&format!("b/small-{n}"), 10 + n, len);
        }
        tree.write("nothing", 0, 0);
        // A file that repeats another one, and has a run of zeros.
        let mut twice = noise(seed ^ 3, bytes / 8);
        twice.extend(vec![0; bytes / 4]);
        twice.push(1);
        fs::write(root.join("twice"), twice).unwrap();
        fs::set_permissions(root.join("b/third"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::hard_link(root.join("b/third"), root.join("b/third again")).unwrap();
        symlink("a/large", root.join("link")).unwrap();
        tree
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn write(&self, path: &str, salt: u64, len: usize) {
        fs::write(self.root().join(path), noise(self.seed ^ salt, len)).unwrap();
    }

    /// Changes the tree: changes one file in its middle, adds one, deletes one, moves one.
    pub fn change(&self, step: u64) {
        let root = self.root();
        let large = root.join("a/large");
        let mut bytes = fs::read(&large).unwrap();
        let (middle, patch) = (bytes.len() / 2, noise(step ^ 0x77, 100));
        bytes.splice(middle..middle + 10, patch);
        fs::write(&large, bytes).unwrap();
        self.write(&format!("b/new-{step}"), 1000 + step, 3000);
        fs::remove_file(root.join(format!("b/small-{}", step % 4))).unwrap();
        let moved = format!("b/small-{}", 4 + step % 4);
        fs::rename(root.join(&moved), root.join("a/moved")).unwrap();
    }

    pub fn picture(&self) -> Picture {
        picture_of(&self.root())
    }
}
