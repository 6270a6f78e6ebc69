//! Random trees: make, walk, list, restore, walk again, compare.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use format::listing::EntryKind;
use proptest::prelude::*;
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, mknodat, utimensat};

use super::{RestoreOptions, Restorer};
use crate::testing::{bytes_of, capture, comparable, options, path_of, restore, restore_whole, walk};
use crate::{ListingReader, ListingWriter};

#[derive(Debug, Clone)]
enum What {
    Folder,
    /// Length, and blocks of data in it: (offset, length, byte).
    File(u64, Vec<(u64, usize, u8)>),
    Symlink(Vec<u8>),
    HardLink(prop::sample::Index),
    Fifo,
    Socket,
    Device(u32),
}

#[derive(Debug, Clone)]
struct Thing {
    parent: prop::sample::Index,
    name: Vec<u8>,
    what: What,
    mode: u32,
    owner: (u32, u32),
    mtime: (i64, i64),
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("a name's byte", |b| *b != b'/' && *b != 0);
    prop::collection::vec(byte, 1..20).prop_filter("a name", |n| n != b"." && n != b"..")
}

fn what() -> impl Strategy<Value = What> {
    let data = (0..300_000u64, 1..20_000usize, any::<u8>());
    prop_oneof![
        3 => Just(What::Folder),
        6 => (0..320_000u64, prop::collection::vec(data, 0..4)).prop_map(|(len, data)| What::File(len, data)),
        1 => prop::collection::vec(1..=255u8, 1..40).prop_map(What::Symlink),
        3 => any::<prop::sample::Index>().prop_map(What::HardLink),
        2 => prop_oneof![Just(What::Fifo), Just(What::Socket), any::<u32>().prop_map(What::Device)],
    ]
}

fn thing() -> impl Strategy<Value = Thing> {
    let attribute = ("user\\.[a-z]{1,10}", prop::collection::vec(any::<u8>(), 0..60));
    let attributes = prop::collection::btree_map(attribute.0, attribute.1, 0..3);
    let attributes = attributes.prop_map(|map| map.into_iter().map(|(n, v)| (n.into_bytes(), v)).collect());
    let mtime = (-2_000_000_000..9_000_000_000i64, 0..1_000_000_000i64);
    (
        any::<prop::sample::Index>(),
        name(),
        what(),
        0..0o10000u32,
        (0..3u32, 0..3u32),
        mtime,
        attributes,
    )
        .prop_map(|(parent, name, what, mode, owner, mtime, attributes)| Thing {
            parent,
            name,
            what,
            mode,
            owner,
            mtime,
            attributes,
        })
}

fn make(things: &[Thing], root: &Path) {
    let root_user = rustix::process::geteuid().is_root();
    let mut folders = vec![root.to_path_buf()];
    let mut others: Vec<PathBuf> = Vec::new();
    let mut made: Vec<(PathBuf, &Thing)> = Vec::new();
    for thing in things {
        let path = folders[thing.parent.index(folders.len())].join(path_of(&thing.name));
        if path.symlink_metadata().is_ok() {
            continue;
        }
        match &thing.what {
            What::Folder => {
                fs::create_dir(&path).unwrap();
                folders.push(path.clone());
            }
            What::File(len, data) => {
                let file = fs::File::create(&path).unwrap();
                for (offset, len, byte) in data {
                    file.write_all_at(&vec![*byte; *len], *offset).unwrap();
                }
                file.set_len(*len).unwrap();
            }
            What::Symlink(target) => std::os::unix::fs::symlink(path_of(target), &path).unwrap(),
            What::HardLink(_) if others.is_empty() => continue,
            What::HardLink(to) => {
                fs::hard_link(&others[to.index(others.len())], &path).unwrap();
                continue;
            }
            What::Fifo => mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap(),
            What::Socket => mknodat(CWD, &path, FileType::Socket, Mode::RWXU, 0).unwrap(),
            What::Device(_) if !root_user => continue,
            What::Device(number) => {
                mknodat(
                    CWD,
                    &path,
                    FileType::CharacterDevice,
                    Mode::RWXU,
                    u64::from(*number),
                )
                .unwrap();
            }
        }
        if !matches!(thing.what, What::Folder) {
            others.push(path.clone());
        }
        made.push((path, thing));
    }
    for (path, thing) in made.iter().rev() {
        let is_link = matches!(thing.what, What::Symlink(_));
        if matches!(thing.what, What::Folder | What::File(..)) {
            for (name, value) in &thing.attributes {
                rustix::fs::lsetxattr(path, &name[..], value, XattrFlags::empty()).unwrap();
            }
        }
        if root_user {
            std::os::unix::fs::lchown(path, Some(thing.owner.0), Some(thing.owner.1)).unwrap();
        }
        if !is_link {
            // An ordinary user who runs the test must be able to read everything again.
            let mode = if root_user {
                thing.mode
            } else {
                thing.mode & 0o1777 | 0o700
            };
            rustix::fs::chmodat(CWD, path, Mode::from_raw_mode(mode), AtFlags::empty()).unwrap();
        }
        let time = Timespec {
            tv_sec: thing.mtime.0,
            tv_nsec: thing.mtime.1,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 4))]

    #[test]
    fn a_tree_is_restored_unchanged(things in prop::collection::vec(thing(), 0..40), whole: bool) {
        let source = tempfile::tempdir().unwrap();
        make(&things, source.path());
        let before = capture(source.path());
        let (mut listing, mut fences) = (Vec::new(), Vec::new());
        let mut writer = ListingWriter::new();
        let mut content = Vec::new();
        for (entry, bytes) in &before {
            let offset = writer.push(entry, &mut listing, &mut fences).unwrap();
            prop_assert_eq!(offset, content.len() as u64);
            content.extend_from_slice(bytes);
        }
        let listed: Vec<_> = ListingReader::new(&listing[..])
            .map(|listed| {
                let listed = listed.unwrap();
                let from = usize::try_from(listed.content_offset).unwrap();
                let len = if let EntryKind::File { len, .. } = listed.entry.kind { len } else { 0 };
                let to = from + usize::try_from(len).unwrap();
                (listed.entry, content[from..to].to_vec())
            })
            .collect();
        prop_assert_eq!(&listed, &before);

        let target = tempfile::tempdir().unwrap();
        let restorer = Restorer::new(target.path(), RestoreOptions::default()).unwrap();
        let faults = if whole { restore_whole(restorer, &listed) } else { restore(restorer, &listed) };
        prop_assert!(faults.is_empty(), "{:?}", faults);
        let after = comparable(&capture(target.path()));
        for (after, before) in after.iter().zip(comparable(&before)) {
            prop_assert_eq!(after, &before);
        }
        prop_assert_eq!(after.len(), before.len());
    }
}

#[test]
fn a_tree_deeper_than_any_path_is_restored() {
    let source = tempfile::tempdir().unwrap();
    let name = "d".repeat(200);
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let mut at = rustix::fs::openat(CWD, source.path(), flags, Mode::empty()).unwrap();
    for _ in 0..150 {
        rustix::fs::mkdirat(&at, &*name, Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, &*name, flags, Mode::empty()).unwrap();
    }
    mknodat(&at, "bottom", FileType::Fifo, Mode::RWXU, 0).unwrap();
    let before = capture(source.path());
    assert_eq!(before.len(), 151);
    let target = tempfile::tempdir().unwrap();
    let faults = restore(
        Restorer::new(target.path(), RestoreOptions::default()).unwrap(),
        &before,
    );
    assert!(faults.is_empty(), "{faults:?}");
    assert_eq!(comparable(&capture(target.path())), comparable(&before));
}

/// The backup has the whole path too, so a restore to `/` puts every entry in its place.
#[test]
fn parents_are_restored_with_their_metadata() {
    let source = tempfile::tempdir().unwrap();
    fs::create_dir(source.path().join("in")).unwrap();
    fs::write(source.path().join("in/f"), "x").unwrap();
    let entries: Vec<_> = walk(options(&source.path().join("in")))
        .into_iter()
        .map(|e| {
            let content = if e.len > 0 { b"x".to_vec() } else { Vec::new() };
            (e.entry, content)
        })
        .collect();
    let target = tempfile::tempdir().unwrap();
    let faults = restore(
        Restorer::new(target.path(), RestoreOptions::default()).unwrap(),
        &entries,
    );
    assert!(faults.is_empty(), "{faults:?}");
    let copy = target.path().join(path_of(&bytes_of(source.path())[1..]));
    let facts = |path: &Path| {
        use std::os::unix::fs::MetadataExt as _;
        let m = fs::metadata(path).unwrap();
        (m.mode(), m.mtime(), m.mtime_nsec())
    };
    assert_eq!(facts(&copy), facts(source.path()));
    assert_eq!(fs::read(copy.join("in/f")).unwrap(), b"x");
}
