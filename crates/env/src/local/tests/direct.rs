//! Writing past the page cache: it gives the same bytes, and falls back to the page cache if the
//! system refuses.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::{ALIGN_BYTES, AlignedBuffer};

/// A system that enforces the rules of direct writes, counts them, and can spoil them. One file at
/// a time.
#[derive(Debug, Clone, Default)]
struct Strict(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    direct: bool,
    asked: usize,
    direct_bytes: usize,
    other_bytes: usize,
    /// The number of direct writes before `spoil` affects each.
    sound: usize,
    spoil: Option<Spoil>,
}

#[derive(Debug, Clone, Copy)]
enum Spoil {
    NoDirect,
    NoRoom(i32),
    Fail(i32),
    Short(usize),
}

impl Strict {
    fn new(sound: usize, spoil: Spoil) -> Self {
        let (calls, spoil) = (Self::default(), Some(spoil));
        *calls.0.lock().unwrap() = Seen {
            sound,
            spoil,
            ..Seen::default()
        };
        calls
    }
}

fn errno(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}

impl Calls for Strict {
    fn set_direct(&self, _: &File, direct: bool) -> io::Result<()> {
        let mut seen = self.0.lock().unwrap();
        if direct {
            seen.asked += 1;
            if matches!(seen.spoil, Some(Spoil::NoDirect)) {
                return Err(errno(libc::EINVAL));
            }
        }
        seen.direct = direct;
        Ok(())
    }

    fn reserve(&self, file: &File, bytes: u64) -> io::Result<()> {
        match self.0.lock().unwrap().spoil {
            Some(Spoil::NoRoom(number)) => Err(errno(number)),
            _ => Kernel.reserve(file, bytes),
        }
    }

    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let mut seen = self.0.lock().unwrap();
        let mut bytes = bytes;
        if seen.direct {
            let blocks = |n: usize| n.is_multiple_of(ALIGN_BYTES);
            let at = usize::try_from(offset).unwrap();
            assert!(
                blocks(bytes.as_ptr().addr()) && blocks(bytes.len()) && blocks(at),
                "direct writes are of blocks"
            );
            if seen.sound > 0 {
                seen.sound -= 1;
            } else {
                match seen.spoil {
                    Some(Spoil::Fail(number)) => return Err(errno(number)),
                    Some(Spoil::Short(most)) => bytes = &bytes[..bytes.len().min(most)],
                    _ => {}
                }
            }
            seen.direct_bytes += bytes.len();
        } else {
            seen.other_bytes += bytes.len();
        }
        file.write_at(bytes, offset)
    }
}

fn direct_from(bytes: u64) -> LocalOptions {
    LocalOptions {
        direct_bytes_min: bytes,
        ..LocalOptions::default()
    }
}

fn some_bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| u8::try_from(n % 251).unwrap()).collect()
}

#[test]
fn only_large_objects_go_past_the_page_cache_and_all_but_their_last_block() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Strict::default());
    let storage = open_with(folder.path(), calls.clone(), &direct_from(10_000));
    for (len, direct) in [(9_999, 0), (10_000, 8192), (12_288, 12_288)] {
        let bytes = some_bytes(len);
        storage.put(&name(&format!("a/{len}")), &[&bytes]).unwrap();
        assert_eq!(storage.get(&name(&format!("a/{len}"))).unwrap(), bytes);
        let mut seen = calls.0.lock().unwrap();
        assert_eq!(std::mem::take(&mut seen.direct_bytes), direct, "{len} bytes");
    }
}

#[test]
fn aligned_bytes_are_written_from_where_they_are() {
    let (folder, calls) = (tempfile::tempdir().unwrap(), Strict::default());
    let storage = open_with(folder.path(), calls.clone(), &direct_from(1));
    let mut buffer = AlignedBuffer::with_capacity(0);
    buffer.extend_from_slice(&some_bytes(9 << 20));
    storage.put(&name("a"), &[&buffer]).unwrap();
    storage.put(&name("b"), &[&buffer[1..]]).unwrap();
    assert!(storage.get(&name("a")).unwrap() == buffer[..]);
    assert!(storage.get(&name("b")).unwrap() == buffer[1..]);
    // One call for the aligned part, three for gathered bytes, and one for the end.
    assert_eq!(calls.0.lock().unwrap().asked, 2);
    assert_eq!(calls.0.lock().unwrap().other_bytes, ALIGN_BYTES - 1);
}

#[test]
fn where_direct_writes_are_refused_the_usual_way_is_taken_and_kept() {
    let spoils = [
        (0, Spoil::NoDirect),
        (0, Spoil::Fail(libc::EINVAL)),
        (1, Spoil::Fail(libc::EINVAL)),
        (1, Spoil::Fail(libc::EOPNOTSUPP)),
        (0, Spoil::Short(1000)),
        (1, Spoil::Short(5000)),
        (0, Spoil::Short(0)),
    ];
    for (sound, spoil) in spoils {
        let (folder, calls) = (tempfile::tempdir().unwrap(), Strict::new(sound, spoil));
        let storage = open_with(folder.path(), calls.clone(), &direct_from(1));
        let bytes = some_bytes((9 << 20) + 77);
        for number in 0..2 {
            let name = name(&number.to_string());
            storage.put(&name, &[&bytes[..5000], &bytes[5000..]]).unwrap();
            assert!(storage.get(&name).unwrap() == bytes, "{spoil:?}");
        }
        assert_eq!(calls.0.lock().unwrap().asked, 1, "{spoil:?}: asked once");
    }
}

#[test]
fn short_writes_of_whole_blocks_are_continued() {
    let calls = Strict::new(0, Spoil::Short(8192));
    let folder = tempfile::tempdir().unwrap();
    let storage = open_with(folder.path(), calls.clone(), &direct_from(1));
    let bytes = some_bytes(100_000);
    storage.put(&name("a"), &[&bytes]).unwrap();
    assert!(storage.get(&name("a")).unwrap() == bytes);
    assert_eq!(calls.0.lock().unwrap().direct_bytes, 98_304);
}

#[test]
fn failures_are_reported_and_leave_nothing() {
    for (spoil, no_space) in [
        (Spoil::NoRoom(libc::ENOSPC), true),
        (Spoil::NoRoom(libc::EDQUOT), true),
        (Spoil::Fail(libc::ENOSPC), true),
        (Spoil::Fail(libc::EIO), false),
    ] {
        let (folder, calls) = (tempfile::tempdir().unwrap(), Strict::new(0, spoil));
        let storage = open_with(folder.path(), calls, &direct_from(1));
        let outcome = storage.put(&name("a"), &[&some_bytes(10_000)]);
        assert_eq!(matches!(outcome, Err(StorageError::NoSpace { .. })), no_space);
        assert!(outcome.is_err(), "{spoil:?}");
        drop(storage);
        assert_eq!(contents(folder.path()).into_keys().collect::<Vec<_>>(), [".tmp"]);
    }
}

#[test]
fn the_suite_passes_with_every_object_direct() {
    let folder = tempfile::tempdir().unwrap();
    crate::conformance::check(&LocalStorage::open_with(folder.path(), direct_from(1)).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]
    /// Uses the system itself, whether it supports direct writes or not.
    #[test]
    fn any_parts_are_the_object(lens in prop::collection::vec((0..20_000_usize, any::<bool>()), 0..8)) {
        let (folder, calls) = (tempfile::tempdir().unwrap(), Strict::default());
        let parts: Vec<AlignedBuffer> = lens
            .iter()
            .map(|(len, aligned)| {
                let mut part = AlignedBuffer::with_capacity(0);
                let len = if *aligned { len.next_multiple_of(ALIGN_BYTES) } else { *len };
                part.extend_from_slice(&some_bytes(len));
                part
            })
            .collect();
        let slices: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
        let whole = slices.concat();
        for calls in [Box::new(Kernel) as Box<dyn Calls>, Box::new(calls)] {
            let storage =
                LocalStorage::open_on(folder.path(), &direct_from(1), calls, Host::here()).unwrap();
            storage.put(&name("a"), &slices).unwrap();
            prop_assert!(storage.get(&name("a")).unwrap() == whole);
            storage.delete(&name("a")).unwrap();
        }
    }
}
