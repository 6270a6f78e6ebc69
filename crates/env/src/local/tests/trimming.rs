//! Giving back parts of files: space, hard links, and file systems without support.

use std::os::unix::fs::MetadataExt;

use super::*;

const RANGE: ByteRange = ByteRange {
    offset: 100_000,
    len: 500_000,
};

fn blocks(folder: &Path, file: &str) -> u64 {
    fs::metadata(folder.join(file)).unwrap().blocks() * 512
}

#[test]
fn trimmed_ranges_take_no_space() {
    let (folder, storage) = store();
    let content = vec![7; 1_000_000];
    storage.put(&name("data/1"), &[&content]).unwrap();
    storage.barrier().unwrap();
    assert!(
        storage.can_trim(&name("data/1")).unwrap(),
        "tests run where files can have holes"
    );
    let before = blocks(folder.path(), "data/1");
    storage
        .trim(&name("data/1"), &name("data/1.body"), &[RANGE])
        .unwrap();
    storage.barrier().unwrap();
    let after = blocks(folder.path(), "data/1.body");
    assert!(before - after > 480_000, "{before} bytes before, {after} after");
    assert_eq!(storage.head(&name("data/1.body")).unwrap().len, 1_000_000);
}

#[test]
fn a_file_that_has_a_second_name_is_left_alone() {
    let (folder, storage) = store();
    storage.put(&name("data/1"), &[&[7; 1000]]).unwrap();
    fs::hard_link(folder.path().join("data/1"), folder.path().join("copy")).unwrap();
    assert!(!storage.can_trim(&name("data/1")).unwrap());
    // Nor is it trimmed if the second name was made after the query.
    storage.put(&name("data/2"), &[&[7; 100_000]]).unwrap();
    assert!(storage.can_trim(&name("data/2")).unwrap());
    fs::hard_link(folder.path().join("data/2"), folder.path().join("copy2")).unwrap();
    let range = ByteRange {
        offset: 0,
        len: 100_000,
    };
    let given_back = storage.trim(&name("data/2"), &name("data/2.body"), &[range]);
    assert!(!given_back.unwrap());
    assert_eq!(fs::read(folder.path().join("copy2")).unwrap(), [7; 100_000]);
}

#[test]
fn asking_leaves_nothing_behind() {
    let (folder, storage) = store();
    storage.put(&name("data/1"), &[&[7; 1000]]).unwrap();
    drop(storage);
    let before: Vec<String> = contents(folder.path()).into_keys().collect();
    let storage = LocalStorage::open(folder.path()).unwrap();
    storage.can_trim(&name("data/1")).unwrap();
    let after: Vec<String> = contents(folder.path()).into_keys().collect();
    assert_eq!(before, after);
}

/// A file system that cannot free parts of files.
#[derive(Debug)]
struct Whole;

impl Calls for Whole {
    fn give_back(&self, _: &File, _: ByteRange) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn a_file_system_that_cannot_trim_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let storage = open_with(folder.path(), Whole, &LocalOptions::default());
    storage.put(&name("data/1"), &[&[7; 1000]]).unwrap();
    assert!(!storage.can_trim(&name("data/1")).unwrap());
    // A caller that does not ask before only renames the file.
    let range = ByteRange { offset: 0, len: 10 };
    let given_back = storage.trim(&name("data/1"), &name("data/2"), &[range]);
    assert!(!given_back.unwrap());
    assert_eq!(storage.get(&name("data/2")).unwrap(), [7; 1000]);
}
