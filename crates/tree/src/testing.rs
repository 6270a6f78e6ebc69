//! Shared code of the tests: captures a tree, restores it, and compares.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use format::listing::{EntryKind, EntryState, ListingEntry};
use types::FileTime;

use crate::{Begun, PendingFile, Piece, Placed, Restorer, Roots, Walk, WalkEntry, WalkOptions, open_file};

/// An entry, and the bytes if it is a file.
pub(crate) type Captured = (ListingEntry, Vec<u8>);

pub(crate) fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

pub(crate) fn options(root: &Path) -> WalkOptions {
    WalkOptions {
        roots: Roots::new(Path::new("/"), [root]),
        ..WalkOptions::default()
    }
}

/// The entries of a walk that must have no faults.
pub(crate) fn walk(options: WalkOptions) -> Vec<WalkEntry> {
    Walk::new(options).map(|item| item.unwrap()).collect()
}

/// The paths below a root, without the root's own path before them.
pub(crate) fn names(root: &Path, entries: &[WalkEntry]) -> Vec<String> {
    let below = |e: &WalkEntry| Some(e.entry.path.strip_prefix(bytes_of(root))?.to_vec());
    let shown = |b: Vec<u8>| String::from_utf8_lossy(&b).into_owned();
    entries
        .iter()
        .filter_map(below)
        .filter(|p| !p.is_empty())
        .map(shown)
        .collect()
}

/// Reads a whole file. Returns its entry and its bytes.
pub(crate) fn read(found: &WalkEntry) -> Captured {
    let mut reader = open_file(found).unwrap();
    let mut content = Vec::new();
    let mut buffer = vec![0; 3000];
    loop {
        match reader.next(&mut buffer).unwrap() {
            Piece::Data(n) => content.extend_from_slice(&buffer[..n]),
            Piece::Hole(n) => content.resize(content.len() + usize::try_from(n).unwrap(), 0),
            Piece::End => break,
        }
    }
    let read = reader.finish();
    assert!(read.changed.is_none());
    (read.entry, content)
}

/// Everything below a root, with paths relative to the root, also for hard links.
pub(crate) fn capture(root: &Path) -> Vec<Captured> {
    let mut captured = Vec::new();
    for found in walk(options(root)) {
        if !crate::order::is_within(&found.entry.path, bytes_of(root)) || found.entry.path == bytes_of(root) {
            continue;
        }
        let is_file = matches!(found.entry.kind, EntryKind::File { .. });
        let (mut entry, content) = if is_file {
            read(&found)
        } else {
            (found.entry, Vec::new())
        };
        let below = |path: &mut Vec<u8>| *path = path.strip_prefix(bytes_of(root)).unwrap().to_vec();
        below(&mut entry.path);
        if let EntryKind::HardLink { target } = &mut entry.kind {
            below(target);
        }
        captured.push((entry, content));
    }
    captured
}

/// Like [`capture`], without metadata that no restore can bring back.
pub(crate) fn comparable(captured: &[Captured]) -> Vec<Captured> {
    let mut same = captured.to_vec();
    for (entry, _) in &mut same {
        (entry.ctime, entry.device, entry.inode) = (FileTime::default(), 0, 0);
    }
    same
}

/// Places every entry, with its bytes in two halves, the later first. Returns the faults.
pub(crate) fn restore(mut restorer: Restorer, captured: &[Captured]) -> Vec<crate::TreeError> {
    let mut faults = Vec::new();
    for (entry, content) in captured {
        match restorer.place(entry) {
            Ok(Placed::File(file)) => {
                let half = content.len() / 3;
                let written = file
                    .write_at(half as u64, &content[half..])
                    .and_then(|()| file.write_at(0, &content[..half]))
                    .and_then(|()| file.finish());
                faults.extend(written.err());
            }
            Ok(_) => {}
            Err(fault) => faults.push(fault),
        }
    }
    faults.extend(restorer.finish());
    faults
}

/// Like [`restore`], but makes files in one go when another entry comes, on two threads.
pub(crate) fn restore_whole(mut restorer: Restorer, captured: &[Captured]) -> Vec<crate::TreeError> {
    let mut faults = Vec::new();
    let mut pending: Vec<(PendingFile, &[u8])> = Vec::new();
    let make = |pending: &mut Vec<(PendingFile, &[u8])>, faults: &mut Vec<crate::TreeError>| {
        let later = pending.split_off(pending.len() / 2);
        let now = std::mem::take(pending);
        let made: Vec<_> = std::thread::scope(|scope| {
            let halves = [now, later].map(|half| {
                scope
                    .spawn(|| -> Vec<_> { half.into_iter().map(|(file, bytes)| file.write(bytes)).collect() })
            });
            halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
        });
        faults.extend(made.into_iter().filter_map(Result::err));
    };
    for (entry, content) in captured {
        if !matches!(entry.kind, EntryKind::File { .. } | EntryKind::Folder) {
            make(&mut pending, &mut faults);
        }
        match restorer.begin(entry) {
            Ok(Begun::File(file)) => pending.push((file, content)),
            Ok(Begun::Placed(_)) => {}
            Err(fault) => faults.push(fault),
        }
    }
    make(&mut pending, &mut faults);
    faults.extend(restorer.finish());
    faults
}

/// An entry with plain metadata.
pub(crate) fn entry(path: &str, kind: EntryKind) -> ListingEntry {
    ListingEntry {
        path: path.as_bytes().to_vec(),
        kind,
        mode: 0o750,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        user: Vec::new(),
        group: Vec::new(),
        mtime: FileTime::new(1_000_000_000, 123_456_789),
        ctime: FileTime::default(),
        device: 0,
        inode: 0,
        xattrs: Vec::new(),
        flags: 0,
        state: EntryState::WHOLE,
    }
}

/// A file with no holes.
pub(crate) fn file(path: &str, content: &[u8]) -> Captured {
    let kind = EntryKind::File {
        len: content.len() as u64,
        holes: Vec::new(),
    };
    (entry(path, kind), content.to_vec())
}
