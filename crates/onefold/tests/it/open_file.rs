//! A file of a backup is read like the original file.

use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use env::{Entropy, SeededEntropy};
use onefold::{BackupFile, Error, Monitor, Snapshot, Store};

use crate::common::{How, Process, Tree, back_up, back_up_bytes, noise, snapshot};

/// A number below the bound.
fn draw(entropy: &SeededEntropy, below: usize) -> usize {
    let mut bytes = [0; 4];
    entropy.fill(&mut bytes);
    u32::from_le_bytes(bytes) as usize % below.max(1)
}

fn open<'a>(
    store: &'a Store,
    of: &Snapshot,
    path: &Path,
    monitor: &Monitor,
) -> Result<BackupFile<'a>, Error> {
    store.open_file(of, Some(path.as_os_str().as_bytes()), monitor)
}

/// Reads parts in random places, continues from there, and then reads all of it.
fn assert_reads(mut file: BackupFile<'_>, expected: &[u8], seed: u64, when: &str) {
    let entropy = SeededEntropy::new(seed);
    assert_eq!(file.len(), expected.len() as u64, "{when}");
    assert_eq!(file.is_empty(), expected.is_empty(), "{when}");
    let mut at = 0;
    for _ in 0..40 {
        if draw(&entropy, 3) == 0 {
            at = draw(&entropy, expected.len() + 10);
            let to = match draw(&entropy, 3) {
                0 => SeekFrom::Start(at as u64),
                1 => SeekFrom::End(at as i64 - expected.len() as i64),
                _ => SeekFrom::Current(at as i64 - file.stream_position().unwrap() as i64),
            };
            assert_eq!(file.seek(to).unwrap(), at as u64, "{when}");
        }
        let mut buffer = vec![0; 1 + draw(&entropy, 50_000)];
        let len = file.read(&mut buffer).unwrap();
        let rest = expected.get(at..).unwrap_or_default();
        assert!(len > 0 || rest.is_empty(), "{when}: nothing at {at}");
        assert!(buffer[..len] == rest[..len], "{when}: other bytes at {at}");
        at += len;
    }
    file.rewind().unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    assert!(all == expected, "{when}: other bytes in all");
    assert_eq!(
        file.seek(SeekFrom::End(-1 - expected.len() as i64))
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn every_file_of_a_tree_can_be_read_in_any_order() {
    let machine = Process::new(800);
    machine.init();
    let store = machine.open();
    let tree = Tree::plant(801, 2 << 20);
    let made = back_up(&store, &tree, &How::plain()).unwrap();
    let (of, monitor) = (snapshot(&store, made.id), Monitor::default());
    for (seed, name) in [
        "a/large",
        "a/deep/er/middle",
        "b/third",
        "b/third again",
        "b/small-3",
        "twice",
        "nothing",
    ]
    .into_iter()
    .enumerate()
    {
        let path = tree.root().join(name);
        let file = open(&store, &of, &path, &monitor).unwrap();
        assert_reads(file, &fs::read(&path).unwrap(), 810 + seed as u64, name);
    }
    for name in ["none", "a", "link"] {
        let error = open(&store, &of, &tree.root().join(name), &monitor).unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{name}: {error}");
    }
    let error = store.open_file(&of, None, &monitor).unwrap_err();
    assert!(error.to_string().contains("which file?"), "{error}");
    assert!(monitor.notes().is_empty(), "{:?}", monitor.notes());
}

#[test]
fn a_stream_needs_no_path() {
    let machine = Process::new(820);
    machine.init();
    let store = machine.open();
    let bytes = [noise(821, 700_000), vec![0; 300_000], noise(822, 50_000)].concat();
    let made = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
    let of = snapshot(&store, made.id);
    let file = store.open_file(&of, None, &Monitor::default()).unwrap();
    assert_eq!(file.path(), b"/stream");
    assert_reads(file, &bytes, 823, "a stream");
    let other = open(&store, &of, Path::new("/other"), &Monitor::default());
    assert!(matches!(other, Err(Error::NotFound(_))));
}

#[test]
fn a_read_that_failed_can_be_tried_again() {
    let machine = Process::new(830);
    machine.init();
    let bytes = noise(831, 300_000);
    let made = back_up_bytes(&machine.open(), "/stream", &bytes, &How::plain()).unwrap();
    let store = machine.beside(832).open();
    let of = snapshot(&store, made.id);
    let mut file = store.open_file(&of, None, &Monitor::default()).unwrap();
    let mut back = vec![0; 1000];
    file.read_exact(&mut back).unwrap();
    let data: Vec<_> = machine
        .names("data")
        .iter()
        .map(|name| types::ObjectName::new(name.clone()).unwrap())
        .collect();
    data.iter().for_each(|name| machine.take_away(name));
    file.seek(SeekFrom::Start(200_000)).unwrap();
    let error = file.read(&mut back).unwrap_err();
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    assert!(inner.is_some(), "{error}");
    assert_eq!(file.stream_position().unwrap(), 200_000);
    data.iter().for_each(|name| machine.give_back(name));
    file.read_exact(&mut back).unwrap();
    assert!(back == bytes[200_000..201_000]);
}
