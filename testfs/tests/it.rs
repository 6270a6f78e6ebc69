//! Tests of each peculiarity; all else is as on any file system.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use testfs::{Names, Options, mount};

fn entries(path: &std::path::Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn ordinary_files_behave_as_usual() {
    let Some(fs_) = mount(Options::default()) else {
        return;
    };
    let top = fs_.path();
    fs::create_dir(top.join("folder")).unwrap();
    fs::write(top.join("folder/file"), vec![7; 300_000]).unwrap();
    let file = File::options()
        .read(true)
        .write(true)
        .open(top.join("folder/file"))
        .unwrap();
    file.write_all_at(b"xyz", 100_000).unwrap();
    file.set_len(200_000).unwrap();
    let time = SystemTime::UNIX_EPOCH - Duration::from_millis(1500);
    file.set_modified(time).unwrap();
    fs::hard_link(top.join("folder/file"), top.join("other")).unwrap();
    symlink("folder/file", top.join("link")).unwrap();
    fs::set_permissions(top.join("folder"), fs::Permissions::from_mode(0o710)).unwrap();
    fs::rename(top.join("folder"), top.join("moved")).unwrap();
    let meta = fs::metadata(top.join("moved/file")).unwrap();
    assert_eq!((meta.len(), meta.nlink()), (200_000, 2));
    assert_eq!(meta.modified().unwrap(), time);
    assert_eq!(fs::metadata(top.join("moved")).unwrap().mode() & 0o7777, 0o710);
    assert_eq!(
        fs::read_link(top.join("link")).unwrap().to_str(),
        Some("folder/file")
    );
    let bytes = fs::read(top.join("other")).unwrap();
    assert_eq!(&bytes[100_000..100_004], b"xyz\x07");
    assert_eq!(bytes, fs::read(fs_.backing().join("other")).unwrap());
    assert_eq!(entries(top), ["link", "moved", "other"]);
    fs::remove_dir(top.join("moved")).unwrap_err();
    fs::remove_file(top.join("moved/file")).unwrap();
    fs::remove_dir(top.join("moved")).unwrap();
    // An open file outlives its name.
    fs::remove_file(top.join("other")).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 100_000).unwrap();
    assert_eq!(byte, *b"x");
}

#[test]
fn a_file_without_length_has_content() {
    let Some(fs_) = mount(Options {
        without_length: Some("hidden".to_owned()),
        ..Options::default()
    }) else {
        return;
    };
    for name in ["hidden", "shown"] {
        fs::write(fs_.backing().join(name), vec![7; 300_000]).unwrap();
        assert_eq!(fs::read(fs_.path().join(name)).unwrap(), vec![7; 300_000]);
    }
    let len = |name: &str| fs::metadata(fs_.path().join(name)).unwrap().len();
    assert_eq!((len("hidden"), len("shown")), (0, 300_000));
}

#[test]
fn a_file_may_show_its_length_once_it_was_read() {
    let Some(fs_) = mount(Options {
        without_length: Some("hidden".to_owned()),
        length_once_read: true,
        ..Options::default()
    }) else {
        return;
    };
    fs::write(fs_.backing().join("hidden"), [7; 3000]).unwrap();
    let file = fs::File::open(fs_.path().join("hidden")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 0);
    file.read_exact_at(&mut [0], 0).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 3000);
}

#[test]
fn names_without_case_are_one() {
    let names = Names::CaseInsensitive;
    let Some(fs_) = mount(Options {
        names,
        ..Options::default()
    }) else {
        return;
    };
    let top = fs_.path();
    fs::write(top.join("README"), "first").unwrap();
    assert_eq!(fs::read_to_string(top.join("readme")).unwrap(), "first");
    let again = File::create_new(top.join("readme")).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    let linked = fs::hard_link(top.join("README"), top.join("ReadMe")).unwrap_err();
    assert_eq!(linked.kind(), ErrorKind::AlreadyExists);
    fs::write(top.join("other"), "second").unwrap();
    fs::rename(top.join("other"), top.join("readme")).unwrap();
    assert_eq!(entries(top), ["README"]);
    assert_eq!(fs::read_to_string(top.join("README")).unwrap(), "second");
    fs::create_dir(top.join("Folder")).unwrap();
    fs::write(top.join("FOLDER/file"), "x").unwrap();
    assert_eq!(entries(&top.join("folder")), ["file"]);
    fs::remove_file(top.join("folder/FILE")).unwrap();
    fs::remove_dir(top.join("fOLDER")).unwrap();
    fs::remove_file(top.join("README")).unwrap();
    assert_eq!(entries(fs_.backing()), [""; 0]);
}

#[test]
fn composed_and_decomposed_names_are_one() {
    let names = Names::Normalizing;
    let Some(fs_) = mount(Options {
        names,
        ..Options::default()
    }) else {
        return;
    };
    fs::write(fs_.path().join("a\u{308}"), "x").unwrap();
    assert_eq!(fs::read_to_string(fs_.path().join("\u{e4}")).unwrap(), "x");
    fs::metadata(fs_.path().join("\u{c4}")).unwrap_err();
    assert_eq!(entries(fs_.path()), ["a\u{308}"]);
}

#[test]
fn a_file_stops_reading_at_an_offset() {
    let unreadable = Some(("bad".to_owned(), 200_000));
    let Some(fs_) = mount(Options {
        unreadable,
        ..Options::default()
    }) else {
        return;
    };
    for name in ["bad", "good"] {
        fs::write(fs_.path().join(name), vec![1; 300_000]).unwrap();
    }
    assert_eq!(fs::read(fs_.path().join("good")).unwrap().len(), 300_000);
    let mut bytes = Vec::new();
    let error = File::open(fs_.path().join("bad"))
        .unwrap()
        .read_to_end(&mut bytes)
        .unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    assert_eq!(bytes, vec![1; 200_000]);
}

#[test]
fn only_one_user_may_look() {
    let only_user = Some(65_534);
    let Some(fs_) = mount(Options {
        only_user,
        ..Options::default()
    }) else {
        return;
    };
    let error = fs::metadata(fs_.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    let error = fs::read_dir(fs_.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
}

#[test]
fn a_disk_is_full_after_so_many_bytes() {
    let room_bytes = Some(1_000_000);
    let Some(fs_) = mount(Options {
        room_bytes,
        ..Options::default()
    }) else {
        return;
    };
    let mut file = File::create(fs_.path().join("file")).unwrap();
    file.write_all(&[1; 900_000]).unwrap();
    let error = file.write_all(&[1; 900_000]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    fs_.set_room_bytes(u64::MAX);
    file.write_all(&[1; 900_000]).unwrap();
}

#[test]
fn it_is_unmounted_when_a_test_panics() {
    let Some(fs_) = mount(Options::default()) else {
        return;
    };
    let at = fs_.path().to_owned();
    let mounted = || {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        table.contains(at.to_str().unwrap())
    };
    assert!(mounted());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _held = fs_;
        panic!("as meant");
    }));
    assert!(panicked.is_err());
    assert!(!mounted());
    assert!(!at.exists());
}
