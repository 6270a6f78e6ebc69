//! What is in backups: kinds, names and attributes.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};

use mount::Kind;
use onefold::StreamOptions;
use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, XattrFlags, mknodat, setxattr, utimensat};
use rustix::io::Errno;

use crate::bed::{Bed, list, names, noise, number, read, walk};

#[test]
fn entries_have_the_kinds_names_and_attributes_that_they_had() {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    fs::write(at("a"), "text").unwrap();
    fs::set_permissions(at("a"), fs::Permissions::from_mode(0o4751)).unwrap();
    setxattr(at("a"), "user.key", b"value", XattrFlags::empty()).unwrap();
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(1, 1),
        last_modification: time(-123, 987_654_321),
    };
    utimensat(CWD, at("a"), &times, AtFlags::empty()).unwrap();
    symlink("a", at("link")).unwrap();
    mknodat(CWD, at("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
    let odd = OsStr::from_bytes(b"b\xff\n");
    fs::write(folder.path().join(odd), "").unwrap();
    fs::create_dir(at("c")).unwrap();
    bed.back_up(folder.path(), "host", &[]);

    let files = bed.files();
    let top = number(&files, &format!("ids/1{}", folder.path().display()));
    let listed = list(&files, top, true);
    let kinds: Vec<_> = listed.iter().map(|one| (&one.name[..], one.kind)).collect();
    let expected: [(&[u8], Kind); 5] = [
        (b"a", Kind::File),
        (odd.as_bytes(), Kind::File),
        (b"c", Kind::Folder),
        (b"link", Kind::Link),
        (b"pipe", Kind::Fifo),
    ];
    assert_eq!(kinds, expected);
    for one in &listed {
        let real = fs::symlink_metadata(folder.path().join(OsStr::from_bytes(&one.name))).unwrap();
        let entry = files.look_up(top, &one.name).unwrap();
        assert_eq!(one.entry, Some(entry.clone()));
        let is = entry.attributes;
        assert_eq!(is.number, one.number);
        assert_eq!(u32::from(is.mode), real.mode() & 0o7777);
        assert_eq!((is.uid, is.gid), (real.uid(), real.gid()));
        assert_eq!(
            (is.mtime.seconds(), i64::from(is.mtime.nanos())),
            (real.mtime(), real.mtime_nsec())
        );
        assert_eq!(
            (is.ctime.seconds(), i64::from(is.ctime.nanos())),
            (real.ctime(), real.ctime_nsec())
        );
        if one.kind != Kind::Folder {
            assert_eq!(is.len, real.len());
            assert_eq!(files.look_up(one.number, b"x"), Err(Errno::NOTDIR));
        }
    }
    assert_eq!(files.read_link(listed[3].number).unwrap(), b"a");
    let xattrs = files.extended_attributes(listed[0].number).unwrap();
    assert_eq!(xattrs, [(b"user.key".to_vec(), b"value".to_vec())]);
    assert_eq!(read(&files, listed[0].number).unwrap(), b"text");
    assert_eq!(files.look_up(top, b"d"), Err(Errno::NOENT));
    assert!(files.is_fixed(top) && !files.is_fixed(1));

    let of_root = bed.files_with(|options| options.is_owner_root = true);
    let top = number(&of_root, &format!("ids/1{}", folder.path().display()));
    assert_eq!(of_root.attributes(top).unwrap().attributes.uid, 0);
}

#[test]
fn hard_links_are_one_inode_with_all_its_names() {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("x")).unwrap();
    fs::write(at("b"), "text").unwrap();
    fs::write(at("alone"), "text").unwrap();
    for name in ["c", "x/d"] {
        fs::hard_link(at("b"), at(name)).unwrap();
    }
    bed.back_up(folder.path(), "host", &[]);
    let files = bed.files();
    let top = format!("ids/1{}", folder.path().display());
    let of = |name: &str| {
        files
            .attributes(number(&files, &format!("{top}/{name}")))
            .unwrap()
    };

    // Nothing was listed, so nothing was counted, and the kernel asks again soon.
    assert!(of("b").attributes_kept < of("").attributes_kept);
    list(&files, number(&files, &top), false);
    let first = of("b").attributes;
    assert_eq!(first.names, 3);
    assert_eq!((of("c").attributes, of("x/d").attributes), (first, first));
    assert_eq!(of("alone").attributes.names, 1);
    assert_eq!(of("alone").attributes_kept, of("").attributes_kept);
    assert_eq!(
        read(&files, number(&files, &format!("{top}/x/d"))).unwrap(),
        b"text"
    );
}

#[test]
fn a_long_folder_is_listed_in_batches_and_folders_in_it_are_passed_over() {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    let mut expected = Vec::new();
    for number in 0..2500 {
        let name = format!("{number:04}");
        if number % 100 == 0 {
            fs::create_dir_all(folder.path().join(&name).join("in/it")).unwrap();
            fs::write(folder.path().join(&name).join("file"), "").unwrap();
        } else {
            fs::write(folder.path().join(&name), &name).unwrap();
        }
        expected.push(name);
    }
    bed.back_up(folder.path(), "host", &[]);
    let files = bed.files();
    let top = format!("ids/1{}", folder.path().display());
    assert_eq!(names(&files, &top), expected);
    assert_eq!(names(&files, &format!("{top}/1100")), ["file", "in"]);
    // From the middle, in a file system that has no batch yet.
    let files = bed.files();
    let mut found = Vec::new();
    let mut each = |listed: &mount::Listed| {
        found.push(String::from_utf8(listed.name.clone()).unwrap());
        found.len() > 100
    };
    files.list(number(&files, &top), 2000, false, &mut each).unwrap();
    assert_eq!(found, expected[2000..2101]);
    for name in ["0001", "2499"] {
        let file = number(&files, &format!("{top}/{name}"));
        assert_eq!(read(&files, file).unwrap(), name.as_bytes());
    }
    assert_eq!(walk(&files, number(&files, &top)).len(), 2500);
}

#[test]
fn streams_and_images_are_files_below_their_folders() {
    let bed = Bed::new();
    let bytes = noise(1, 100_000);
    bed.back_up_stream(&bytes, "shop.sql", &StreamOptions::default());
    bed.back_up_stream(
        &bytes[..50_000],
        "/var/lib/../web.img",
        &StreamOptions::fixed(4096),
    );
    bed.back_up_stream(b"", "/", &StreamOptions::default());
    let files = bed.files();
    assert_eq!(names(&files, "ids/1"), ["shop.sql"]);
    assert_eq!(read(&files, number(&files, "ids/1/shop.sql")).unwrap(), bytes);
    assert_eq!(names(&files, "ids/2/var/lib"), ["web.img"]);
    let image = number(&files, "ids/2/var/lib/web.img");
    assert_eq!(files.attributes(image).unwrap().attributes.len, 50_000);
    assert_eq!(read(&files, image).unwrap(), bytes[..50_000]);
    assert_eq!(
        files.look_up(number(&files, "ids/2/var"), b"x"),
        Err(Errno::NOENT)
    );
    assert_eq!(names(&files, "ids/3"), ["stream"]);
    assert_eq!(read(&files, number(&files, "ids/3/stream")).unwrap(), b"");
}

#[test]
fn holes_are_found_in_files_and_images() {
    let (bed, folder) = (Bed::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("sparse");
    let file = fs::File::create(&path).unwrap();
    file.set_len(5 << 20).unwrap();
    file.write_all_at(&noise(2, 8192), 1 << 20).unwrap();
    file.write_all_at(b"end", (3 << 20) + 4096).unwrap();
    bed.back_up(folder.path(), "host", &[]);
    let all = fs::read(&path).unwrap();
    bed.back_up_stream(&all, "image", &StreamOptions::fixed(4096));
    let files = bed.files();
    for (path, is_image) in [
        (format!("ids/1{}", path.display()), false),
        ("ids/2/image".to_owned(), true),
    ] {
        let file = number(&files, &path);
        let seek = |from, is_hole_sought| files.seek(file, from, is_hole_sought);
        assert_eq!(seek(0, true), Ok(0), "{path}");
        assert_eq!(seek(0, false), Ok(1 << 20));
        assert_eq!(seek((1 << 20) + 5, false), Ok((1 << 20) + 5));
        assert_eq!(seek((1 << 20) + 5, true), Ok((1 << 20) + 8192));
        assert_eq!(seek(2 << 20, false), Ok((3 << 20) + 4096));
        assert_eq!(seek((3 << 20) + 4096, true), Ok((3 << 20) + 8192));
        assert_eq!(seek(4 << 20, false), Err(Errno::NXIO));
        assert_eq!(seek(5 << 20, true), Err(Errno::NXIO));
        assert_eq!(read(&files, file).unwrap(), all);
        let blocks = files.attributes(file).unwrap().attributes.blocks;
        assert_eq!(blocks, if is_image { 5 << 11 } else { 24 });
    }
}
