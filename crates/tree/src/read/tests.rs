use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;

use format::listing::EntryKind;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{Piece, Section, SmallRead, open_file, read_small};
use crate::testing::{options, read, walk};
use crate::{Change, TreeError, WalkEntry};

fn only_file(dir: &Path) -> WalkEntry {
    walk(options(dir)).pop().unwrap()
}

fn sparse(path: &Path, len: u64, data: &[(u64, &[u8])]) {
    let file = fs::File::create(path).unwrap();
    file.set_len(len).unwrap();
    for (offset, bytes) in data {
        file.write_all_at(bytes, *offset).unwrap();
    }
}

#[test]
fn holes_are_pieces_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let block = [7; 4096];
    sparse(
        &dir.path().join("f"),
        1 << 20,
        &[(65536, &block), (131_072, &block), (200_704, &block)],
    );
    let found = only_file(dir.path());
    let mut reader = open_file(&found).unwrap();
    let mut buffer = vec![0; 3000];
    let mut pieces = Vec::new();
    loop {
        match reader.next(&mut buffer).unwrap() {
            Piece::End => break,
            piece => pieces.push(piece),
        }
    }
    assert_eq!(
        pieces[..3],
        [Piece::Hole(65536), Piece::Data(3000), Piece::Data(1096)]
    );
    let EntryKind::File { len, holes } = reader.finish().entry.kind else {
        panic!()
    };
    assert_eq!(len, 1 << 20);
    assert_eq!(
        holes,
        [(0, 65536), (69632, 61440), (135_168, 65536), (204_800, 843_776)]
    );
    assert_eq!(read(&found).1, fs::read(dir.path().join("f")).unwrap());
}

#[test]
fn files_without_data_or_bytes_are_read() {
    let dir = tempfile::tempdir().unwrap();
    sparse(&dir.path().join("f"), 100_000, &[]);
    let (entry, content) = read(&only_file(dir.path()));
    assert_eq!(
        entry.kind,
        EntryKind::File {
            len: 100_000,
            holes: vec![(0, 100_000)]
        }
    );
    assert_eq!(content, vec![0; 100_000]);
    sparse(&dir.path().join("f"), 0, &[]);
    assert_eq!(
        read(&only_file(dir.path())).0.kind,
        EntryKind::File {
            len: 0,
            holes: Vec::new()
        }
    );
}

/// Reads the first bytes, changes the file, and reads the rest.
fn disturb(len: usize, happen: impl FnOnce(&mut fs::File)) -> (u64, Option<Change>) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), vec![5; len]).unwrap();
    // Makes sure that a later write changes the time.
    let past = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(5);
    let mut file = fs::File::options()
        .write(true)
        .open(dir.path().join("f"))
        .unwrap();
    file.set_modified(past).unwrap();
    let found = only_file(dir.path());
    let mut reader = open_file(&found).unwrap();
    let mut buffer = vec![0; 1000];
    assert_eq!(reader.next(&mut buffer).unwrap(), Piece::Data(1000));
    happen(&mut file);
    while reader.next(&mut buffer).unwrap() != Piece::End {}
    let read = reader.finish();
    let EntryKind::File { len, .. } = read.entry.kind else {
        panic!()
    };
    assert_eq!(
        read.entry.mtime, found.entry.mtime,
        "the times of the opening stay"
    );
    let change = read.changed.map(|changed| match changed {
        TreeError::Changed { change, .. } => change,
        other => panic!("{other}"),
    });
    (len, change)
}

#[test]
fn changes_while_reading_are_reported() {
    assert_eq!(disturb(5000, |_| ()), (5000, None));
    assert_eq!(
        disturb(5000, |f| f.set_len(3500).unwrap()),
        (3500, Some(Change::Shrunk))
    );
    assert_eq!(
        disturb(5000, |f| f.set_len(500).unwrap()),
        (1000, Some(Change::Shrunk))
    );
    assert_eq!(
        disturb(5000, |f| f.set_len(9000).unwrap()),
        (5000, Some(Change::Grown))
    );
    let rewrite = |f: &mut fs::File| {
        f.seek(SeekFrom::Start(10)).unwrap();
        f.write_all(b"new").unwrap();
    };
    assert_eq!(disturb(5000, rewrite), (5000, Some(Change::Modified)));
}

#[test]
fn a_replacement_of_the_file_is_neither_followed_nor_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    fs::write(&path, "x").unwrap();
    let found = only_file(dir.path());
    let kind_changed = || {
        let fault = open_file(&found).unwrap_err();
        assert!(
            matches!(
                fault,
                TreeError::Changed {
                    change: Change::Kind,
                    ..
                }
            ),
            "{fault}"
        );
        fs::remove_file(&path).unwrap();
    };
    fs::remove_file(&path).unwrap();
    assert!(matches!(open_file(&found), Err(TreeError::Vanished { .. })));
    mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    kind_changed();
    symlink("/etc/passwd", &path).unwrap();
    kind_changed();
    let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
    kind_changed();
    drop(socket);
    fs::create_dir(&path).unwrap();
    assert!(open_file(&found).is_err());
    fs::remove_dir(&path).unwrap();

    fs::write(&path, "another").unwrap();
    let (entry, content) = read(&found);
    assert_eq!(content, b"another");
    assert_ne!(
        entry.ctime, found.entry.ctime,
        "the metadata is that of the file that was read"
    );
}

#[test]
fn small_files_are_read_whole_on_another_thread() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..50 {
        fs::write(dir.path().join(format!("{n:02}")), vec![n; usize::from(n) * 40]).unwrap();
    }
    rustix::fs::setxattr(
        dir.path().join("03"),
        "user.x",
        b"y",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    sparse(&dir.path().join("hole"), 900, &[]);
    let mut found: Vec<_> = walk(options(dir.path()))
        .into_iter()
        .filter(|e| matches!(e.entry.kind, EntryKind::File { .. }))
        .collect();
    fs::write(dir.path().join("11"), "changed since").unwrap();
    std::thread::spawn(move || {
        for found in &mut found {
            let mut room = vec![9; 1000];
            let (by_step, content) = read(found);
            let name = found.entry.path.rsplit(|b| *b == b'/').next().unwrap().to_vec();
            match read_small(found, &mut room).unwrap() {
                SmallRead::Whole { len, attributes } => {
                    assert!(attributes.is_none());
                    assert_eq!(found.entry, by_step);
                    assert!(room[..len] == content && room[len..].iter().all(|b| *b == 9));
                    assert!(len <= 1000 && name != b"11" && name != b"hole");
                    assert_eq!(found.entry.xattrs.len(), usize::from(name == b"03"));
                }
                SmallRead::Other(reader) => {
                    assert!(reader.len() > 1000 || name == b"11" || name == b"hole");
                    assert_eq!(reader.len(), content.len() as u64);
                }
            }
        }
    })
    .join()
    .unwrap();
}

/// Reads a file by sections as far as they go, into aligned memory or not, and the rest by the
/// reader itself.
fn by_sections(
    found: &WalkEntry,
    most: usize,
    shift: usize,
    mut before: impl FnMut(usize),
) -> (EntryKind, Vec<u8>) {
    let mut reader = open_file(found).unwrap();
    let mut sections = reader.sections().unwrap();
    let mut memory = vec![0; most + 3 * 4096];
    let begin = memory.as_ptr().align_offset(4096) + shift;
    let mut content = Vec::new();
    let mut number = 0;
    while let Some(section) = sections.next(most) {
        before(number);
        number += 1;
        match &section {
            Section::Data(data) => {
                if !data.read(&mut memory[begin..]) {
                    break;
                }
                content.extend_from_slice(&memory[begin..begin + data.len()]);
            }
            Section::Hole(len) => content.resize(content.len() + usize::try_from(*len).unwrap(), 0),
        }
        reader.passed(&section);
    }
    let mut buffer = vec![0; 1 << 20];
    loop {
        match reader.next(&mut buffer).unwrap() {
            Piece::Data(len) => content.extend_from_slice(&buffer[..len]),
            Piece::Hole(len) => content.resize(content.len() + usize::try_from(len).unwrap(), 0),
            Piece::End => break,
        }
    }
    (reader.finish().entry.kind, content)
}

fn large(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|n| u8::try_from((n / 3 + seed) % 251).unwrap())
        .collect()
}

fn forget(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn large_files_are_read_in_sections_cached_or_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let data = large(1, (5 << 20) + 777);
    sparse(&path, 15 << 20, &[(0, &data), (9 << 20, &data)]);
    let found = only_file(dir.path());
    let wanted = read(&found);
    for cached in [true, false] {
        for (most, shift) in [(1 << 20, 0), (1 << 20, 1), (1_000_000, 0)] {
            if cached {
                fs::read(&path).unwrap();
            } else {
                forget(&path);
            }
            let (kind, content) = by_sections(&found, most, shift, |_| ());
            assert!(content == wanted.1, "{cached} {most} {shift}");
            assert_eq!(kind, wanted.0.kind);
        }
    }
}

/// Whatever the system tells about the cache, true or not, the bytes are the file's.
#[test]
fn a_section_is_the_same_by_every_way() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let data = large(3, (4 << 20) + 4097);
    fs::write(&path, &data).unwrap();
    let reader = open_file(&only_file(dir.path())).unwrap();
    for said in [None, Some(0), Some(4096), Some(u64::MAX)] {
        let mut sections = reader.sections().unwrap();
        let mut memory = vec![0; (1 << 20) + 4096];
        let begin = memory.as_ptr().align_offset(4096);
        let mut content = Vec::new();
        forget(&path);
        while let Some(Section::Data(section)) = sections.next(1 << 20) {
            assert!(section.read_knowing(&mut memory[begin..], said));
            content.extend_from_slice(&memory[begin..begin + section.len()]);
        }
        assert!(content == data, "{said:?}");
    }
}

/// A large file that is read once leaves nothing in the page cache. Pages that are there already
/// stay, and are used.
#[test]
fn a_cold_large_file_is_read_past_the_page_cache() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let data = large(4, 16 << 20);
    fs::write(&path, &data).unwrap();
    forget(&path);
    let all = types::ByteRange {
        offset: 0,
        len: data.len() as u64,
    };
    let cached = || env::cached_bytes(fs::File::open(&path).unwrap(), all);
    let found = only_file(dir.path());
    // Not every system evicts pages, tells what is cached, and reads directly.
    if cached() != Some(0) || !open_file(&found).unwrap().sections().unwrap().is_direct() {
        return;
    }
    let (_, content) = by_sections(&found, 1 << 20, 0, |_| ());
    assert!(content == data);
    assert_eq!(cached(), Some(0));
    // The rest of a partly cached file is read past the cache too. The system may evict some pages
    // meanwhile, but not each time.
    let stays = || {
        forget(&path);
        let begin = fs::File::open(&path).unwrap();
        rustix::fs::fadvise(&begin, 0, None, rustix::fs::Advice::Random).unwrap();
        begin.read_exact_at(&mut vec![0; 2 << 20], 0).unwrap();
        let before = cached();
        let (_, content) = by_sections(&found, 1 << 20, 0, |_| ());
        assert!(content == data);
        assert!(cached() <= before, "{:?} of {before:?}", cached());
        before == Some(2 << 20) && cached() == before
    };
    assert!((0..5).any(|_| stays()));
}

#[test]
fn small_files_and_those_in_many_pieces_have_no_sections() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), large(0, (4 << 20) - 1)).unwrap();
    assert!(open_file(&only_file(dir.path())).unwrap().sections().is_none());
    let pieces: Vec<(u64, &[u8])> = (0..10).map(|n| (n << 20, &[7; 4096][..])).collect();
    sparse(&dir.path().join("f"), 10 << 20, &pieces);
    assert!(open_file(&only_file(dir.path())).unwrap().sections().is_none());
}

#[test]
fn a_large_file_that_becomes_shorter_ends_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    for (cut, when) in [(3_500_000, 2), (1 << 20, 5), (0, 0), (0, 7)] {
        fs::write(&path, large(2, 8 << 20)).unwrap();
        let found = only_file(dir.path());
        let mut stood = 0;
        let (kind, content) = by_sections(&found, 1 << 20, 0, |number| {
            if number == when {
                fs::File::options()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_len(cut)
                    .unwrap();
                stood = (number as u64) << 20;
            }
        });
        let len = cut.max(stood);
        assert_eq!(
            kind,
            EntryKind::File {
                len,
                holes: Vec::new()
            }
        );
        assert!(content == large(2, 8 << 20)[..usize::try_from(len).unwrap()]);
    }
}

/// A file of 100,000 bytes on a file system that hides its length. The walk may read at most so
/// many bytes of it.
#[cfg(target_os = "linux")]
fn of_unknown_length(len_max: u64, try_it: impl FnOnce(WalkEntry)) {
    let Some(disk) = testfs::mount(testfs::Options {
        without_length: Some("hidden".to_owned()),
        ..testfs::Options::default()
    }) else {
        return;
    };
    fs::write(disk.backing().join("hidden"), vec![7; 100_000]).unwrap();
    let found = walk(crate::WalkOptions {
        unknown_len_max: Some(len_max),
        ..options(disk.path())
    });
    try_it(found.into_iter().next_back().unwrap());
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_of_unknown_length_is_read_to_its_end_or_to_a_bound() {
    for bound in [1, 4096, 99_999, 100_000, 100_001] {
        of_unknown_length(bound, |mut found| {
            let mut room = vec![0; 200_000];
            let is_small = matches!(read_small(&mut found, &mut room), Ok(SmallRead::Whole { .. }));
            assert!(!is_small, "{bound}");
            let mut reader = open_file(&found).unwrap();
            assert!(reader.is_of_unknown_length() && reader.sections().is_none());
            let mut content = Vec::new();
            let fault = loop {
                match reader.next(&mut room[..3000]) {
                    Ok(Piece::Data(len)) => content.extend_from_slice(&room[..len]),
                    Ok(Piece::Hole(_)) => panic!("a hole"),
                    Ok(Piece::End) => break None,
                    Err(fault) => break Some(fault),
                }
            };
            let read = reader.finish();
            assert_eq!(content.len() as u64, bound.min(100_000));
            assert!(content.iter().all(|byte| *byte == 7));
            assert_eq!((read.len, read.changed.is_none()), (None, true));
            if bound < 100_000 {
                assert!(matches!(fault, Some(TreeError::NoEnd { read, .. }) if read == bound));
            } else {
                assert!(fault.is_none(), "{fault:?}");
            }
            let is = EntryKind::File {
                len: bound.min(100_000),
                holes: Vec::new(),
            };
            assert_eq!(read.entry.kind, is);
        });
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_small_file_of_unknown_length_is_read_at_once() {
    let Some(disk) = testfs::mount(testfs::Options {
        without_length: Some("hidden".to_owned()),
        ..testfs::Options::default()
    }) else {
        return;
    };
    let mut room = vec![0; 1 << 20];
    for len in [0, 1, 65_535] {
        fs::write(disk.backing().join("hidden"), vec![5; len]).unwrap();
        let mut found = only_file(disk.path());
        let read = read_small(&mut found, &mut room).unwrap();
        assert!(
            matches!(read, SmallRead::Whole { len: is, .. } if is == len),
            "{len}"
        );
        assert!(room[..len].iter().all(|byte| *byte == 5));
        let is = EntryKind::File {
            len: len as u64,
            holes: Vec::new(),
        };
        assert_eq!(found.entry.kind, is);
    }
}
