//! Sequences of operations, run beside a plain map from names to bytes.

use std::collections::{BTreeMap, BTreeSet};

use types::{ByteRange, ObjectName};

use super::name;
use crate::{Entropy, SeededEntropy, Storage, StorageError};

/// Names for the operations: few, so that operations meet; in several folders; some of them
/// prefixes of others.
const NAMES: [&str; 9] = [
    "a", "a-b", "a.b/1", "ab", "c/1", "c/10", "c/d/1", "c/d/2", "c-d/1",
];
const FOLDERS: [&str; 6] = ["", "c", "c/d", "c-d", "a.b", "none"];

/// One operation. Any number chooses a name or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Put an object of `len` bytes, in parts of `part` bytes. The bytes count up from `first`.
    Put {
        /// The object.
        name: u8,
        /// Its length.
        len: u16,
        /// Its first byte.
        first: u8,
        /// The length of its parts.
        part: u16,
    },
    /// Delete an object.
    Delete(u8),
    /// Read a whole object, and map it.
    Get(u8),
    /// Read a range of an object.
    Range {
        /// The object.
        name: u8,
        /// Its offset.
        offset: u16,
        /// Its length.
        len: u16,
    },
    /// Read the end of an object.
    Tail {
        /// The object.
        name: u8,
        /// The number of bytes.
        len: u16,
    },
    /// Look an object up.
    Head(u8),
    /// List a folder.
    List(u8),
    /// List a folder's folders.
    ListFolders(u8),
    /// A barrier.
    Barrier,
}

/// That many operations, the same for the same seed.
#[must_use]
pub fn random_operations(seed: u64, count: usize) -> Vec<Op> {
    let entropy = SeededEntropy::new(seed);
    let draw = move || {
        let mut bytes = [0; 8];
        entropy.fill(&mut bytes);
        bytes
    };
    (0..count).map(|_| random_operation(draw())).collect()
}

fn random_operation([kind, name, a, b, c, d, first, short]: [u8; 8]) -> Op {
    // Most ranges are short, so that some end within objects and others past them.
    let shift = short % 12;
    let (x, y) = (
        u16::from_le_bytes([a, b]) >> shift,
        u16::from_le_bytes([c, d]) >> shift,
    );
    match kind % 16 {
        0..=4 => Op::Put {
            name,
            len: x,
            first,
            part: y,
        },
        5 | 6 => Op::Delete(name),
        7 => Op::Get(name),
        8 | 9 => Op::Range {
            name,
            offset: x,
            len: y,
        },
        10 => Op::Tail { name, len: x },
        11 => Op::Head(name),
        12 | 13 => Op::List(name),
        14 => Op::ListFolders(name),
        _ => Op::Barrier,
    }
}

/// Runs the operations on names in the folder, which must be empty. Compares every answer with that
/// of a map.
///
/// # Panics
/// If they differ.
pub fn check_operations(storage: &dyn Storage, folder: &str, ops: &[Op]) {
    let mut model = Model {
        storage,
        folder,
        objects: BTreeMap::new(),
    };
    for op in ops {
        model.check(op);
    }
    for index in 0..NAMES.len() {
        let index = u8::try_from(index).expect("few");
        model.check(&Op::Get(index));
        model.check(&Op::List(index));
    }
}

struct Model<'a> {
    storage: &'a dyn Storage,
    folder: &'a str,
    objects: BTreeMap<ObjectName, Vec<u8>>,
}

impl Model<'_> {
    fn name(&self, index: u8) -> ObjectName {
        name(self.folder, NAMES[usize::from(index) % NAMES.len()])
    }

    fn folder(&self, index: u8) -> String {
        match FOLDERS[usize::from(index) % FOLDERS.len()] {
            "" => self.folder.to_owned(),
            inner => format!("{}/{inner}", self.folder),
        }
    }

    fn check(&mut self, op: &Op) {
        match *op {
            Op::Put {
                name,
                len,
                first,
                part,
            } => self.check_put(&self.name(name), len, first, part),
            Op::Delete(name) => {
                let name = self.name(name);
                let expected = self.objects.remove(&name).map(drop);
                assert_outcome(self.storage.delete(&name), expected, op);
            }
            Op::Get(name) => {
                let name = self.name(name);
                let expected = self.objects.get(&name).cloned();
                assert_outcome(self.storage.get(&name), expected.clone(), op);
                assert_outcome(self.storage.map(&name).map(|map| map.to_vec()), expected, op);
            }
            Op::Range { name, offset, len } => self.check_range(&self.name(name), offset, len, op),
            Op::Tail { name, len } => {
                let name = self.name(name);
                let expected = self.objects.get(&name).map(|bytes| {
                    let len = usize::from(len).min(bytes.len());
                    (bytes[bytes.len() - len..].to_vec(), bytes.len() as u64)
                });
                assert_outcome(self.storage.get_tail(&name, u64::from(len)), expected, op);
            }
            Op::Head(name) => {
                let name = self.name(name);
                let expected = self.objects.get(&name).map(|bytes| bytes.len() as u64);
                assert_outcome(self.storage.head(&name).map(|meta| meta.len), expected, op);
            }
            Op::List(folder) => self.check_list(&self.folder(folder), op),
            Op::ListFolders(folder) => self.check_folders(&self.folder(folder), op),
            Op::Barrier => self.storage.barrier().expect("barrier"),
        }
    }

    fn check_put(&mut self, name: &ObjectName, len: u16, first: u8, part: u16) {
        let bytes: Vec<u8> = (0..len)
            .map(|at| first.wrapping_add(at.to_le_bytes()[0]))
            .collect();
        let parts: Vec<&[u8]> = bytes.chunks(usize::from(part).max(1)).collect();
        let outcome = self.storage.put(name, &parts);
        match (self.objects.contains_key(name), outcome) {
            (false, Ok(())) => {
                self.objects.insert(name.clone(), bytes);
            }
            (true, Err(StorageError::AlreadyExists { name: found })) => assert_eq!(&found, name),
            (exists, outcome) => panic!("put of {name} (there before: {exists}): {outcome:?}"),
        }
    }

    fn check_range(&self, name: &ObjectName, offset: u16, len: u16, op: &Op) {
        let (from, until) = (usize::from(offset), usize::from(offset) + usize::from(len));
        let range = ByteRange {
            offset: u64::from(offset),
            len: u64::from(len),
        };
        let outcome = self.storage.get_range(name, range);
        match self.objects.get(name) {
            Some(bytes) if until > bytes.len() => match outcome {
                Err(StorageError::PastEnd { len, end, .. }) => {
                    assert_eq!((len, end), (bytes.len() as u64, until as u64), "{op:?}");
                }
                other => panic!("{op:?} of {} bytes: {other:?}", bytes.len()),
            },
            bytes => assert_outcome(outcome, bytes.map(|bytes| bytes[from..until].to_vec()), op),
        }
    }

    fn check_list(&self, folder: &str, op: &Op) {
        let prefix = format!("{folder}/");
        let inside = self
            .objects
            .iter()
            .filter(|(name, _)| name.as_str().starts_with(&prefix));
        let expected: Vec<_> = inside
            .map(|(name, bytes)| (name.clone(), bytes.len() as u64))
            .collect();
        let listed = self.storage.list(folder).expect("list");
        let listed: Vec<_> = listed.into_iter().map(|meta| (meta.name, meta.len)).collect();
        assert_eq!(listed, expected, "{op:?}");
    }

    fn check_folders(&self, folder: &str, op: &Op) {
        let prefix = format!("{folder}/");
        let inner = |name: &ObjectName| {
            name.as_str()
                .strip_prefix(&prefix)?
                .split_once('/')
                .map(|(folder, _)| folder.to_owned())
        };
        let expected: BTreeSet<String> = self.objects.keys().filter_map(inner).collect();
        let listed = self.storage.list_folders(folder).expect("list");
        assert!(listed.is_sorted_by(|a, b| a < b), "{op:?}: {listed:?}");
        // Folders without objects may be listed or not.
        let listed: BTreeSet<String> = listed.into_iter().collect();
        assert!(
            listed.is_superset(&expected),
            "{op:?}: {listed:?}, not {expected:?}"
        );
        assert!(
            listed.iter().all(|folder| !folder.contains('/')),
            "{op:?}: {listed:?}"
        );
    }
}

/// Compares the storage's answer with the map's, which is `None` if there is no object.
#[track_caller]
fn assert_outcome<T: PartialEq + std::fmt::Debug>(
    outcome: Result<T, StorageError>,
    expected: Option<T>,
    op: &Op,
) {
    match (outcome, expected) {
        (Ok(found), Some(expected)) => assert_eq!(found, expected, "{op:?}"),
        (Err(StorageError::NotFound { .. }), None) => {}
        (outcome, expected) => panic!("{op:?}: {outcome:?}, not {expected:?}"),
    }
}
