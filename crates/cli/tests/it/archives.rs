//! A folder of a backup as an archive: what `tar` and `zip` make of it is the folder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use crate::bed::{Bed, Ran, noise, settle};
use crate::main_job::plant;
use crate::picture::{Picture, assert_same, picture};

/// A folder with an entry of every kind, and with names that headers have no room for.
fn tree(bed: &Bed) -> PathBuf {
    let root = bed.path("tree");
    plant(&root);
    let long = root.join("l".repeat(200)).join("m".repeat(200));
    fs::create_dir_all(&long).unwrap();
    fs::write(long.join("n".repeat(200)), noise(70_000, 3)).unwrap();
    symlink("t".repeat(300), root.join("long target")).unwrap();
    symlink(OsStr::from_bytes(b"\xfe\xff"), root.join("odd target")).unwrap();
    fs::hard_link(long.join("n".repeat(200)), root.join("z another name")).unwrap();
    // Further names of what is outside of `zz`.
    fs::create_dir(root.join("zz")).unwrap();
    for name in ["second", "third"] {
        fs::hard_link(root.join("small"), root.join("zz").join(name)).unwrap();
    }
    fs::write(root.join("zz/first"), b"of its own").unwrap();
    let old = File::options()
        .write(true)
        .open(root.join("line\nbreak"))
        .unwrap();
    old.set_modified(UNIX_EPOCH - Duration::from_millis(1500))
        .unwrap();
    root
}

/// What an archive can have of a picture: no sockets, and no holes.
fn without(mut picture: Picture) -> Picture {
    picture.retain(|_, entry| entry.kind != "socket");
    picture.values_mut().for_each(|entry| entry.is_sparse = false);
    picture
}

/// Extracts a tar archive into a new folder.
fn extracted(bed: &Bed, archive: &[u8], to: &str) -> PathBuf {
    fs::write(bed.path("archive.tar"), archive).unwrap();
    fs::create_dir(bed.path(to)).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["--xattrs", "-xpf", "archive.tar", "-C", to])
        .current_dir(bed.path(""));
    let ran = Ran::from(tar.output().unwrap()).expect(0);
    // Some of the entries are of 1969 and 2096.
    let err = ran.err();
    let mut strange = err
        .lines()
        .filter(|line| !line.contains("time stamp") && !line.ends_with("line"));
    assert_eq!(strange.next(), None, "{err}");
    bed.path(to)
}

#[test]
fn a_tar_archive_is_the_folder() {
    let bed = Bed::new();
    let root = tree(&bed);
    settle();
    bed.ok(["backup", "tree"]);
    let want = without(picture(&root));

    // The folder itself is not among the names; what is in it is as it was.
    let ran = bed.ok(["dump", "latest:tree", "--archive", "tar"]);
    assert!(
        ran.err().contains("1 socket is not in the archive"),
        "{}",
        ran.err()
    );
    let out = extracted(&bed, &ran.out, "out");
    let mut found = without(picture(&out));
    let mut want_below = want.clone();
    found.remove(Path::new(""));
    want_below.remove(Path::new(""));
    assert_same(&want_below, &found);

    // With its whole path, and the folder's own metadata.
    let whole = bed.ok(["dump", "latest", "tree", "-a", "tar", "-t", "whole.tar"]);
    assert_eq!(whole.out, b"");
    let out = extracted(&bed, &fs::read(bed.path("whole.tar")).unwrap(), "whole");
    let below = out.join(root.strip_prefix("/").unwrap());
    assert_same(&want, &without(picture(&below)));

    // A list of it has each name once.
    let listed = Command::new("tar")
        .args(["-tf"])
        .arg(bed.path("whole.tar"))
        .output()
        .unwrap();
    assert_eq!(Ran::from(listed).expect(0).out().lines().count(), want.len());
}

#[test]
fn further_names_of_files_outside_come_with_content() {
    let bed = Bed::new();
    let root = tree(&bed);
    bed.ok(["backup", "tree"]);
    let ran = bed.ok(["dump", "1:tree/zz", "-a", "tar"]);
    let out = extracted(&bed, &ran.out, "out");
    let (second, third) = (out.join("second"), out.join("third"));
    assert_eq!(fs::read(&second).unwrap(), b"a few words\n");
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&second), inode(&third), "they are names of one file");
    assert_eq!(fs::metadata(&third).unwrap().mode() & 0o777, 0o604);
    let mut want = without(picture(&root.join("zz")));
    let mut found = without(picture(&out));
    for picture in [&mut want, &mut found] {
        picture.remove(Path::new(""));
        // Their first name is outside.
        picture
            .values_mut()
            .for_each(|entry| *entry = entry.clone().alone());
    }
    assert_eq!(want.len(), 3);
    assert_same(&want, &found);

    // One file alone.
    let one = bed.ok(["dump", "1:tree/small", "-a", "tar"]);
    let out = extracted(&bed, &one.out, "one");
    assert_eq!(fs::read(out.join("small")).unwrap(), b"a few words\n");
}

#[test]
fn a_zip_archive_has_names_contents_and_modes() {
    let bed = Bed::new();
    let root = tree(&bed);
    settle();
    bed.ok(["backup", "tree"]);
    let zipped = bed
        .run(["dump", "1:tree", "-a", "zip", "-t", "tree.zip"])
        .expect(1);
    let zipped = zipped.says(&[
        "pipe: left out",
        "its name is not UTF-8",
        "its target is not UTF-8",
    ]);
    assert!(zipped.out.is_empty());
    let mut archive = zip::ZipArchive::new(File::open(bed.path("tree.zip")).unwrap()).unwrap();
    let want = picture(&root);
    let is_text = |path: &Path| path.to_str().is_some();
    let mut files = 0;
    for (name, entry) in want.iter().filter(|(name, _)| is_text(name)) {
        let name = name.to_str().unwrap();
        match entry.kind {
            "file" => {
                let mut found = archive.by_name(name).unwrap();
                let mut bytes = Vec::new();
                found.read_to_end(&mut bytes).unwrap();
                let path = root.join(name);
                assert!(bytes == fs::read(&path).unwrap(), "{name}");
                let mode = fs::metadata(&path).unwrap().permissions().mode();
                assert_eq!(found.unix_mode().unwrap() & 0o777, mode & 0o777, "{name}");
                files += 1;
            }
            "folder" if !name.is_empty() => assert!(archive.by_name(&format!("{name}/")).unwrap().is_dir()),
            "link" if fs::read_link(root.join(name)).unwrap().to_str().is_some() => {
                let mut found = archive.by_name(name).unwrap();
                let mut target = String::new();
                found.read_to_string(&mut target).unwrap();
                assert_eq!(Path::new(&target), fs::read_link(root.join(name)).unwrap());
                assert!(found.is_symlink());
            }
            _ => {}
        }
    }
    assert!(files > 200, "{files}");
    // The usual program reads it, where there is one.
    if let Ok(tested) = Command::new("unzip")
        .args(["-tq"])
        .arg(bed.path("tree.zip"))
        .output()
    {
        Ran::from(tested).expect(0);
    }
}

/// Different names may be the same as text.
#[test]
fn a_zip_archive_has_all_files_whose_names_are_not_text() {
    let bed = Bed::new();
    for (number, last) in [0xfe, 0xff].into_iter().enumerate() {
        let folder = bed.path("src").join(OsStr::from_bytes(&[b'd', last]));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("in"), format!("in {number}")).unwrap();
        let file = bed.path("src").join(OsStr::from_bytes(&[b'a', last]));
        fs::write(&file, format!("file {number}")).unwrap();
        let link = bed.path("src").join(OsStr::from_bytes(&[b'l', last]));
        symlink("nowhere", link).unwrap();
    }
    fs::write(bed.path("src/a\u{fffd}-1"), "of that name").unwrap();
    bed.ok(["backup", "src"]);
    bed.run(["dump", "1:src", "-a", "zip", "-t", "src.zip"])
        .expect(1)
        .says(&["its name is not UTF-8"]);
    let mut archive = zip::ZipArchive::new(File::open(bed.path("src.zip")).unwrap()).unwrap();
    let mut texts = Vec::new();
    for number in 0..archive.len() {
        let mut found = archive.by_index(number).unwrap();
        let mut text = String::new();
        found.read_to_string(&mut text).unwrap();
        texts.push(text);
    }
    texts.sort();
    let want = [
        "",
        "file 0",
        "file 1",
        "in 0",
        "in 1",
        "nowhere",
        "nowhere",
        "of that name",
    ];
    assert_eq!(texts, want);
}

#[test]
fn an_archive_that_fails_is_no_archive() {
    let bed = Bed::new();
    tree(&bed);
    bed.ok(["backup", "tree"]);
    bed.run(["dump", "1:tree/none", "-a", "tar"])
        .expect(1)
        .says(&["has nothing under"]);
    bed.run(["dump", "1:tree", "-a", "rar"]).expect(2);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ran = bed.command(["dump", "1:tree", "-a", "tar"]).stdout(full).output();
    Ran::from(ran.unwrap()).expect(1).says(&["No space left"]);
    bed.fed(["backup", "--stdin"], b"x").expect(0);
    bed.run(["dump", "latest", "-a", "tar"])
        .expect(1)
        .says(&["is of one stream"]);

    // Rot in the middle of the content: the archives are cut off, and the file gets no name.
    for object in bed.objects("data") {
        let mut bytes = fs::read(&object).unwrap();
        if bytes.len() > 900 << 10 {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(&object, bytes).unwrap();
        }
    }
    for format in ["tar", "zip"] {
        bed.run(["dump", "1:tree", "-a", format, "-t", "broken"])
            .expect(1);
        assert!(!bed.path("broken").exists());
        let ran = bed.run(["dump", "1:tree", "-a", format]).expect(1);
        assert!(!ran.out.is_empty());
        fs::write(bed.path("cut"), &ran.out).unwrap();
        match format {
            "tar" => {
                let listed = Command::new("tar")
                    .arg("-tf")
                    .arg(bed.path("cut"))
                    .output()
                    .unwrap();
                assert!(!listed.status.success());
            }
            _ => assert!(zip::ZipArchive::new(File::open(bed.path("cut")).unwrap()).is_err()),
        }
    }
}
