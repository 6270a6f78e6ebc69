//! Files as devices beyond the suite: opening, locks, lengths, errors; disks are in `disks`.

mod disks;
mod queue;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tempfile::TempDir;

use super::*;
use crate::block::device::BLOCK_LEN;

const CACHED: FileCaching = FileCaching::PageCache;

/// A folder beside the tests' program, because the usual one may be on a file system in memory.
fn folder() -> TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

/// A file of so many blocks, each filled with its number from 1 on.
fn filled(folder: &TempDir, blocks: u8) -> PathBuf {
    let path = folder.path().join("pool");
    let bytes: Vec<u8> = (1..=blocks).flat_map(|block| [block; BLOCK_LEN]).collect();
    fs::write(&path, bytes).unwrap();
    path
}

fn read(device: &FileDevice, block: u64) -> Vec<u8> {
    let mut out = vec![0xEE; BLOCK_LEN];
    device.read_at(block * BLOCK_BYTES, &mut out).unwrap();
    out
}

fn is_in_use(outcome: Result<FileDevice, DeviceError>) -> bool {
    matches!(outcome, Err(DeviceError::InUse { .. }))
}

#[test]
fn a_closed_device_is_free_although_a_process_that_starts_has_its_file_open() {
    let folder = folder();
    let path = filled(&folder, 2);
    let writer = FileDevice::open(&path, CACHED).unwrap();
    // As a new process has it.
    let copy = writer.file.try_clone().unwrap();
    assert!(is_in_use(FileDevice::open(&path, CACHED)));
    drop(writer);
    FileDevice::open(&path, CACHED).unwrap();
    drop(copy);
}

#[test]
fn one_writer_or_many_readers_have_a_file() {
    let folder = folder();
    let path = filled(&folder, 2);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let writer = FileDevice::open(&link, CACHED).unwrap();
    assert!(!writer.is_disk());
    assert!(is_in_use(FileDevice::open(&path, CACHED)));
    assert!(is_in_use(FileDevice::open(&path, FileCaching::Direct)));
    assert!(is_in_use(FileDevice::open_read_only(&path, CACHED)));
    let beside = FileDevice::open_beside(&path).unwrap();
    assert_eq!(read(&beside, 1), [2; BLOCK_LEN]);
    writer.write_at(BLOCK_BYTES, &[7; BLOCK_LEN]).unwrap();
    assert_eq!(read(&beside, 1), [7; BLOCK_LEN]);
    let refused = beside.write_at(BLOCK_BYTES, &[8; BLOCK_LEN]);
    assert!(matches!(refused, Err(DeviceError::Denied { .. })), "{refused:?}");
    writer.write_at(BLOCK_BYTES, &[2; BLOCK_LEN]).unwrap();
    drop(writer);
    let readers = [(); 2].map(|()| FileDevice::open_read_only(&path, CACHED).unwrap());
    assert!(is_in_use(FileDevice::open(&link, CACHED)));
    assert_eq!(read(&readers[1], 1), [2; BLOCK_LEN]);
    drop(readers);
    FileDevice::open(&path, CACHED).unwrap();
}

#[test]
fn a_reader_changes_nothing_and_says_so() {
    let folder = folder();
    let path = filled(&folder, 2);
    let reader = FileDevice::open_read_only(&path, CACHED).unwrap();
    for (action, outcome) in [
        ("write", reader.write_at(0, &[9; BLOCK_LEN])),
        ("discard", reader.discard(0, BLOCK_BYTES)),
        ("grow", reader.grow(9 * BLOCK_BYTES)),
    ] {
        match outcome {
            Err(DeviceError::Denied { action: told, .. }) => assert_eq!(told, action),
            other => panic!("{action}: {other:?}"),
        }
    }
    reader.flush().unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 2 * BLOCK_BYTES);
    assert_eq!(read(&reader, 0), [1; BLOCK_LEN]);
}

#[test]
fn a_user_without_rights_is_denied() {
    let folder = tempfile::tempdir().unwrap();
    let path = filled(&folder, 1);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                // Of this thread alone.
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            let outcome = FileDevice::open(&path, CACHED);
            assert!(
                matches!(outcome, Err(DeviceError::Denied { action: "open", .. })),
                "{outcome:?}"
            );
            FileDevice::open_read_only(&path, CACHED).unwrap();
        });
    });
}

#[test]
fn a_new_file_is_empty_or_missing() {
    let folder = folder();
    let path = filled(&folder, 1);
    let outcome = FileDevice::create(&path, 4 * BLOCK_BYTES, CACHED);
    assert!(matches!(outcome, Err(DeviceError::AlreadyExists { .. })));
    assert_eq!(fs::read(&path).unwrap(), [1; BLOCK_LEN]);

    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    let device = FileDevice::create(&empty, 4 * BLOCK_BYTES + 5, CACHED).unwrap();
    assert_eq!(device.len(), 4 * BLOCK_BYTES);
    assert!(is_in_use(FileDevice::open(&empty, CACHED)), "it is locked");
    assert_eq!(fs::metadata(&empty).unwrap().len(), 4 * BLOCK_BYTES);
    assert_eq!(fs::metadata(&empty).unwrap().blocks(), 0, "without space yet");
}

#[test]
fn a_creation_that_fails_leaves_no_file() {
    let folder = folder();
    let path = folder.path().join("pool");
    FileDevice::create(&path, u64::MAX, CACHED).unwrap_err();
    assert!(!path.exists());
    fs::write(&path, "").unwrap();
    FileDevice::create(&path, u64::MAX, CACHED).unwrap_err();
    assert!(path.exists(), "another one made it");
    let lock = FileDevice::open(&path, CACHED).unwrap();
    assert!(is_in_use(FileDevice::create(&path, BLOCK_BYTES, CACHED)));
    drop(lock);
    assert!(path.exists());
}

#[test]
fn only_files_and_disks_are_opened() {
    let folder = folder();
    let missing = folder.path().join("missing");
    for outcome in [
        FileDevice::open(&missing, CACHED),
        FileDevice::open_read_only(&missing, CACHED),
        FileDevice::create(&missing.join("pool"), BLOCK_BYTES, CACHED),
    ] {
        assert!(
            matches!(outcome, Err(DeviceError::NotFound { .. })),
            "{outcome:?}"
        );
    }
    assert!(!missing.exists());
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    for path in [&fifo, folder.path(), Path::new("/dev/null")] {
        for outcome in [
            FileDevice::open(path, CACHED),
            FileDevice::open_read_only(path, CACHED),
            FileDevice::create(path, BLOCK_BYTES, CACHED),
        ] {
            assert!(matches!(outcome, Err(DeviceError::Unfit { .. })), "{outcome:?}");
        }
    }
}

#[test]
fn bytes_that_fill_no_block_are_not_of_the_device() {
    let folder = folder();
    let path = filled(&folder, 3);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(2 * BLOCK_BYTES + 100).unwrap();
    let device = FileDevice::open(&path, CACHED).unwrap();
    assert_eq!(device.len(), 2 * BLOCK_BYTES);
    let outcome = device.read_at(2 * BLOCK_BYTES, &mut [0; BLOCK_LEN]);
    assert!(matches!(outcome, Err(DeviceError::OutOfRange { .. })));
    device.grow(2 * BLOCK_BYTES).unwrap();
    assert_eq!(device.len(), 2 * BLOCK_BYTES);
    device.grow(3 * BLOCK_BYTES).unwrap();
    let mut kept = [0; BLOCK_LEN];
    kept[..100].fill(3);
    assert_eq!(read(&device, 2), kept);
}

#[test]
fn a_file_that_somebody_cuts_is_an_error_and_no_zeros() {
    let folder = folder();
    for caching in [CACHED, FileCaching::Direct] {
        let path = filled(&folder, 3);
        let device = match FileDevice::open(&path, caching) {
            Err(DeviceError::NoDirect { device }) => {
                println!("skipped: {device}: no direct requests");
                continue;
            }
            device => device.unwrap(),
        };
        let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(BLOCK_BYTES + 512).unwrap();
        let mut memory = vec![0; 3 * BLOCK_LEN + 1];
        for out in [&mut memory[..3 * BLOCK_LEN], &mut [0; 3 * BLOCK_LEN]] {
            match device.read_at(0, out) {
                Err(DeviceError::TooShort { len, wanted, .. }) => {
                    assert_eq!((len, wanted), (BLOCK_BYTES + 512, 3 * BLOCK_BYTES));
                }
                other => panic!("{caching:?}: {other:?}"),
            }
        }
        assert_eq!(read(&device, 0), [1; BLOCK_LEN]);
    }
}

#[test]
fn a_discard_gives_space_back() {
    let folder = folder();
    let path = folder.path().join("pool");
    let device = FileDevice::create(&path, 1 << 20, CACHED).unwrap();
    device.write_at(0, &vec![7; 1 << 20]).unwrap();
    device.flush().unwrap();
    let space = || fs::metadata(&path).unwrap().blocks() * 512;
    assert!(space() >= 1 << 20);
    device.discard(1 << 18, 1 << 19).unwrap();
    assert!(space() < (1 << 19) + (1 << 18), "{} bytes", space());
    assert_eq!(read(&device, (1 << 18) / BLOCK_BYTES - 1), [7; BLOCK_LEN]);
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
}

#[test]
fn a_full_file_system_is_told_apart() {
    for code in [libc::ENOSPC, libc::EDQUOT] {
        let error = failed("write", Path::new("pool"), io::Error::from_raw_os_error(code));
        assert!(matches!(error, DeviceError::NoSpace { .. }), "{error:?}");
    }
    let Some(mounted) = testfs::mount(testfs::Options {
        room_bytes: Some(6 * BLOCK_BYTES),
        ..testfs::Options::default()
    }) else {
        return;
    };
    let path = mounted.path().join("pool");
    let device = FileDevice::create(&path, 64 * BLOCK_BYTES, CACHED).unwrap();
    let outcome = (0..64)
        .try_for_each(|block| device.write_at(block * BLOCK_BYTES, &[1; BLOCK_LEN]))
        .and_then(|()| device.flush());
    assert!(matches!(outcome, Err(DeviceError::NoSpace { .. })), "{outcome:?}");
}

#[test]
fn after_a_failed_flush_nothing_is_written_or_flushed() {
    let folder = folder();
    let path = filled(&folder, 2);
    let mut device = FileDevice::open(&path, CACHED).unwrap();
    // The system flushes no pipe.
    let (pipe, _other_end) = io::pipe().unwrap();
    let mut pipe = File::from(std::os::fd::OwnedFd::from(pipe));
    std::mem::swap(&mut device.ways[0], &mut pipe);
    assert!(matches!(
        device.flush(),
        Err(DeviceError::Io { action: "flush", .. })
    ));
    std::mem::swap(&mut device.ways[0], &mut pipe);
    for outcome in [
        device.write_at(0, &[9; BLOCK_LEN]),
        device.flush(),
        device.discard(0, BLOCK_BYTES),
        device.grow(9 * BLOCK_BYTES),
    ] {
        assert!(
            matches!(outcome, Err(DeviceError::Poisoned { .. })),
            "{outcome:?}"
        );
    }
    assert_eq!(read(&device, 0), [1; BLOCK_LEN]);
    drop(device);
    let again = FileDevice::open(&path, CACHED).unwrap();
    again.write_at(0, &[9; BLOCK_LEN]).unwrap();
    again.flush().unwrap();
}

#[test]
fn a_flush_returns_after_a_call_that_began_later() {
    for ways in [1, 2, 4] {
        flush_from_many_threads(ways);
    }
}

fn flush_from_many_threads(ways: usize) {
    let (flushes, calls) = (Flushes::new(ways), AtomicU64::new(0));
    let busy: Vec<AtomicBool> = (0..ways).map(|_| AtomicBool::new(false)).collect();
    let (written, durable) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let own = written.fetch_add(1, Ordering::SeqCst) + 1;
                    let sync = |way: usize| {
                        assert!(!busy[way].swap(true, Ordering::SeqCst), "two calls on a way");
                        let covered = written.load(Ordering::SeqCst);
                        std::thread::yield_now();
                        durable.fetch_max(covered, Ordering::SeqCst);
                        busy[way].store(false, Ordering::SeqCst);
                        calls.fetch_add(1, Ordering::SeqCst);
                        Ok(())
                    };
                    flushes.flush(sync).unwrap().unwrap();
                    assert!(durable.load(Ordering::SeqCst) >= own);
                }
            });
        }
    });
    assert!(calls.into_inner() <= 8 * 200);
}

#[test]
fn a_flush_with_a_way_of_its_own_does_not_wait() {
    let (flushes, both) = (Flushes::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let sync = |_| {
                    both.wait();
                    Ok(())
                };
                flushes.flush(sync).unwrap().unwrap();
            });
        }
    });
}

#[test]
fn a_flush_that_succeeds_beside_an_earlier_one_that_fails_is_none() {
    let (flushes, later_began) = (Flushes::new(2), std::sync::Barrier::new(2));
    let later_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let later = || {
            let sync = |_| {
                later_began.wait();
                later_ended.store(true, Ordering::SeqCst);
                Ok(())
            };
            assert!(flushes.flush(sync).is_none(), "nobody knows what is durable");
        };
        let fails = |_| {
            scope.spawn(later);
            later_began.wait();
            while !later_ended.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            // The later one must wait for this one.
            (0..1000).for_each(|_| std::thread::yield_now());
            Err(io::Error::other("the disk failed"))
        };
        flushes.flush(fails).unwrap().unwrap_err();
    });
}

#[test]
fn a_failed_flush_is_told_to_those_who_wait_for_it() {
    let (flushes, waits) = (Flushes::new(1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let fails = |_| {
            scope.spawn(|| {
                waits.store(true, Ordering::SeqCst);
                let outcome = flushes.flush(|_| panic!("a call after the failed one"));
                assert!(outcome.is_none(), "a waiting flush has succeeded");
            });
            while !waits.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Err(io::Error::other("the disk failed"))
        };
        flushes.flush(fails).unwrap().unwrap_err();
    });
    assert!(flushes.has_failed());
}
