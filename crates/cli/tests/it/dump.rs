//! One file of a backup to standard output: its bytes and nothing else, or an error and a code for
//! scripts.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use crate::bed::{Bed, Ran, noise};

/// A file for every code path by size and kind, with its content.
fn files(bed: &Bed) -> Vec<(&'static str, Vec<u8>)> {
    fs::create_dir_all(bed.path("source/inside")).unwrap();
    let files = [
        ("source/empty", Vec::new()),
        ("source/one", b"x".to_vec()),
        ("source/inside/small", noise(70_000, 1)),
        ("source/large", noise((5 << 20) + 123, 2)),
        ("source/zeros", vec![0; (2 << 20) + 1]),
    ];
    for (path, bytes) in &files {
        fs::write(bed.path(path), bytes).unwrap();
    }
    let mut holes = File::create(bed.path("source/holes")).unwrap();
    let mut expected = vec![0; 9 << 20];
    for (at, seed) in [(0, 3), (3 << 20, 4), ((6 << 20) + 77, 5)] {
        let bytes = noise(100_000, seed);
        holes.seek(SeekFrom::Start(at as u64)).unwrap();
        holes.write_all(&bytes).unwrap();
        expected[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    holes.set_len(expected.len() as u64).unwrap();
    fs::hard_link(bed.path("source/large"), bed.path("source/other name")).unwrap();
    symlink("large", bed.path("source/link")).unwrap();
    drop(UnixListener::bind(bed.path("source/socket")).unwrap());
    for name in ["link", "socket"] {
        let first = bed.path("source").join(name);
        fs::hard_link(&first, first.with_extension("second name")).unwrap();
    }
    let large = files[3].1.clone();
    let more = [("source/holes", expected), ("source/other name", large)];
    files.into_iter().chain(more).collect()
}

#[test]
fn a_file_is_dumped_as_it_was_to_a_pipe_and_to_a_file() {
    let bed = Bed::new();
    let files = files(&bed);
    bed.ok(["backup", "source"]);
    fs::rename(bed.path("source"), bed.path("gone")).unwrap();
    for (path, expected) in &files {
        for id in ["latest", "1"] {
            let ran = bed.ok(["dump", id, path]);
            assert!(
                ran.out == *expected,
                "{path} of {id}: {} bytes to a pipe",
                ran.out.len()
            );
        }
        let to = bed.path("dumped");
        let mut command = bed.command(["dump", "latest", path]);
        let ran = command.stdout(File::create(&to).unwrap()).output().unwrap();
        Ran::from(ran).expect(0);
        assert!(fs::read(&to).unwrap() == *expected, "{path} to a file");
    }
    // By its whole path, and with very little memory.
    let path = bed.path("source/large").display().to_string();
    let ran = bed.ok(["dump", "--memory", "1M", "latest", &path]);
    assert!(ran.out == files[3].1);
}

#[test]
fn a_failed_dump_explains_itself_and_exits_with_1() {
    let bed = Bed::new();
    let files = files(&bed);
    bed.ok(["backup", "source"]);
    for (path, words) in [
        ("source/missing", ["source/missing", "onefold ls"]),
        ("source/inside", ["source/inside", "onefold ls"]),
        ("source/link", ["source/link;", "onefold ls"]),
        (
            "source/link.second name",
            ["source/link.second name;", "onefold ls"],
        ),
        (
            "source/socket.second name",
            ["source/socket.second name;", "onefold ls"],
        ),
    ] {
        let ran = bed.run(["dump", "latest", path]).expect(1).says(&words);
        assert_eq!(ran.out, b"");
    }
    let ran = bed
        .run(["dump", "latest"])
        .expect(1)
        .says(&["which file", "onefold ls"]);
    assert_eq!(ran.out, b"");
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = bed
        .command(["dump", "latest", "source/large"])
        .stdout(full)
        .output();
    Ran::from(ran.unwrap()).expect(1).says(&["standard output"]);

    // Rot in the middle of each full container: the bytes before it are right, and no wrong bytes
    // follow.
    for object in bed.objects("data") {
        let mut bytes = fs::read(&object).unwrap();
        let middle = bytes.len() / 2;
        // The last one has the listing, without which no path is found.
        if middle < 400 << 10 {
            continue;
        }
        bytes[middle] ^= 1;
        fs::write(&object, bytes).unwrap();
    }
    let (path, expected) = &files[3];
    let ran = bed.run(["dump", "latest", path]).expect(1);
    let ran = ran.says(&["source/large", "container", "damaged"]);
    assert!(ran.out.len() < expected.len() && expected.starts_with(&ran.out));
    let ran = bed.run(["dump", "latest", "source/empty"]).expect(0);
    assert_eq!(ran.out, b"");
}

/// A dump that fails leaves what was there, and no file of its own. One that was killed may have
/// left a temporary file, where files without a name are not possible.
#[test]
fn a_target_is_replaced_only_by_a_whole_file() {
    let bed = Bed::new();
    let files = files(&bed);
    bed.ok(["backup", "source"]);
    fs::create_dir(bed.path("to")).unwrap();
    fs::write(bed.path("to/target"), "before").unwrap();
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    fs::write(bed.path(format!("to/.onefold-{}-0.tmp", ended.id())), "killed").unwrap();
    bed.run(["dump", "1", "source/missing", "--target", "to/target"])
        .expect(1);
    let names = || {
        let found = fs::read_dir(bed.path("to")).unwrap();
        found.map(|one| one.unwrap().file_name()).collect::<Vec<_>>()
    };
    assert_eq!(names(), ["target"]);
    assert_eq!(fs::read(bed.path("to/target")).unwrap(), b"before");
    bed.ok(["dump", "1", "source/large", "--target", "to/target"]);
    assert_eq!(names(), ["target"]);
    assert!(fs::read(bed.path("to/target")).unwrap() == files[3].1);
    bed.run(["dump", "1", "source/large", "--target", "missing/target"])
        .expect(1)
        .says(&["missing"]);
}

/// A target has holes for zeros, as after a restore. Standard output gets every byte.
#[test]
fn a_dump_into_a_file_leaves_holes_for_zeros() {
    use std::os::unix::fs::MetadataExt;

    const MIB: u64 = 1 << 20;
    let bed = Bed::new();
    // Zeros at the beginning, between data, and at the end.
    let mut stream = vec![0; 16 << 20];
    for (at, seed) in [(3 << 20, 1), ((9 << 20) + 77, 2)] {
        stream[at..at + 100_000].copy_from_slice(&noise(100_000, seed));
    }
    bed.fed(["backup", "--stdin", "--stdin-filename", "web.raw"], &stream)
        .expect(0);
    fs::write(bed.path("image"), &stream).unwrap();
    bed.ok(["backup", "--image-kib", "64", "image"]);
    fs::create_dir(bed.path("folder")).unwrap();
    fs::write(bed.path("folder/file"), &stream).unwrap();
    bed.ok(["backup", "folder"]);
    fs::write(bed.path("existing"), "shorter").unwrap();
    for (args, target) in [
        (["dump", "1"].as_slice(), "of-stream"),
        (&["dump", "2"], "of-image"),
        (&["dump", "3", "folder/file"], "of-file"),
        (&["dump", "1"], "existing"),
    ] {
        bed.ok(args.iter().copied().chain(["--target", target]));
        let dumped = bed.path(target);
        assert!(fs::read(&dumped).unwrap() == stream, "{target}");
        let stored = fs::metadata(&dumped).unwrap().blocks() * 512;
        assert!(stored < 2 * MIB, "{target} takes {stored} bytes");
    }
    // Standard output may be a pipe, or a file to which another program has written.
    assert!(bed.ok(["dump", "1"]).out == stream);
    let to = bed.path("redirected");
    fs::write(&to, vec![b'x'; 20]).unwrap();
    let file = fs::OpenOptions::new().append(true).open(&to).unwrap();
    Ran::from(bed.command(["dump", "1"]).stdout(file).output().unwrap()).expect(0);
    assert!(fs::read(&to).unwrap()[20..] == stream);
}
