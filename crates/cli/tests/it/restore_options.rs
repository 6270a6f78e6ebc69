//! `restore --delete`, `--dry-run` and `--verify`.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use testfs::{Names, Options, mount};

use crate::bed::{Bed, last, lines};
use crate::sources::with_mounts;

/// Every path below a folder, with the content of files and links.
fn tree(top: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![top.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.symlink_metadata().unwrap();
            let content = if kind.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if kind.is_symlink() {
                fs::read_link(&path)
                    .unwrap()
                    .into_os_string()
                    .into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            found.push((path.strip_prefix(top).unwrap().to_owned(), content));
        }
    }
    found.sort();
    found
}

/// A store with one backup of `src`, and a target where it was restored and then changed: entries
/// that the backup does not have, and entries of another kind.
fn bed() -> Bed {
    let bed = Bed::new();
    fs::create_dir_all(bed.path("src/sub/deep")).unwrap();
    fs::create_dir(bed.path("src/empty")).unwrap();
    for (name, text) in [("one", "1"), ("sub/two", "22"), ("sub/deep/three", "333")] {
        fs::write(bed.path("src").join(name), text).unwrap();
    }
    symlink("one", bed.path("src/link")).unwrap();
    bed.ok(["backup", "src"]);
    bed.ok(["restore", "1", "--target", "to"]);
    let to = bed.restored("to", "src");
    fs::create_dir_all(to.join("more/below")).unwrap();
    fs::write(to.join("more/below/file"), "x").unwrap();
    fs::write(to.join("sub/extra.o"), "x").unwrap();
    fs::write(to.join("sub/extra.txt"), "x").unwrap();
    symlink("/", to.join("sub/deep/root")).unwrap();
    // Beside the source path, and above it.
    fs::write(to.join("../beside"), "x").unwrap();
    fs::write(bed.path("to/above"), "x").unwrap();
    // A folder that is not empty in the place of a file.
    fs::remove_file(to.join("one")).unwrap();
    fs::create_dir_all(to.join("one/was/a")).unwrap();
    fs::write(to.join("one/was/a/folder"), "x").unwrap();
    bed
}

#[test]
fn what_the_backup_does_not_have_is_deleted_if_that_was_asked() {
    let bed = bed();
    let to = bed.restored("to", "src");
    let before = fs::metadata(bed.path("src/sub")).unwrap();
    let ran = bed.run(["restore", "1", "--target", "to"]).expect(1);
    assert!(ran.err().contains("Directory not empty"), "{}", ran.err());
    assert!(to.join("more/below/file").exists());
    let ran = bed.ok(["restore", "1", "--target", "to", "--delete"]);
    // The folder `more` with two entries, two files and a link.
    assert!(ran.out().contains("deleted 6 entries"), "{}", ran.out());
    assert_eq!(tree(&to), tree(&bed.path("src")));
    assert!(to.join("../beside").exists() && bed.path("to/above").exists());
    let after = fs::metadata(to.join("sub")).unwrap();
    assert_eq!(
        (before.mtime(), before.mtime_nsec()),
        (after.mtime(), after.mtime_nsec())
    );
    let ran = bed.ok(["restore", "1", "--target", "to", "--delete", "--json"]);
    assert_eq!(last(&ran)["files_deleted"], 0);
}

#[test]
fn excluded_and_unrequested_entries_are_not_deleted() {
    let bed = bed();
    let to = bed.restored("to", "src");
    let include = bed.path("src/sub").display().to_string();
    bed.ok([
        "restore",
        "1",
        "--target",
        "to",
        "--delete",
        "--include",
        &include,
        "--exclude",
        "*.o",
    ]);
    assert!(to.join("more/below/file").exists() && to.join("one/was").exists());
    assert!(to.join("sub/extra.o").exists());
    assert!(!to.join("sub/extra.txt").exists());
    assert!(to.join("sub/deep/root").symlink_metadata().is_err());
    // Of a folder of the backup as the target.
    let of = format!("1:{include}");
    fs::create_dir(bed.path("other")).unwrap();
    fs::write(bed.path("other/extra"), "x").unwrap();
    bed.ok(["restore", &of, "--target", "other", "--delete"]);
    assert_eq!(tree(&bed.path("other")), tree(&bed.path("src/sub")));
}

/// A link in the place of a folder leads to other people's files.
#[test]
fn nothing_is_deleted_behind_a_link_or_in_the_store() {
    let bed = bed();
    let to = bed.restored("to", "src");
    fs::create_dir(bed.path("elsewhere")).unwrap();
    fs::write(bed.path("elsewhere/precious"), "x").unwrap();
    symlink(bed.path("elsewhere"), to.join("away")).unwrap();
    fs::remove_dir_all(to.join("sub")).unwrap();
    symlink(bed.path("elsewhere"), to.join("sub")).unwrap();
    bed.run(["restore", "1", "--target", "to", "--delete"]);
    assert!(bed.path("elsewhere/precious").exists());
    assert!(to.join("away").symlink_metadata().is_err());
    // A store in the target, which no backup has.
    let mut bed = bed;
    bed.ok(["init", "-r", "to-store/src/store", "--reserve-mib", "0"]);
    bed.set(
        "ONEFOLD_REPOSITORY",
        &bed.path("to-store/src/store").display().to_string(),
    );
    bed.ok(["backup", "src"]);
    let of = format!("1:{}", bed.path("src").display());
    bed.ok(["restore", &of, "--target", "to-store/src", "--delete"]);
    assert!(bed.path("to-store/src/one").exists());
    assert!(bed.run(["check"]).expect(0).out().contains("no damage found"));
}

#[test]
fn a_dry_run_restores_and_deletes_nothing() {
    let bed = bed();
    let before = tree(&bed.path("to"));
    let args = [
        "restore",
        "1",
        "--target",
        "to",
        "--delete",
        "--dry-run",
        "--overwrite",
        "if-changed",
    ];
    let ran = bed.ok(args);
    for said in [
        "would restore 1 file, 1 B",
        "would leave 3 entries",
        "would delete 6 entries",
    ] {
        assert!(ran.out().contains(said), "{}", ran.out());
    }
    let ran = bed.ok(args.iter().chain(&["--json", "-vv"]));
    let of = |action: &str| -> Vec<String> {
        let named = |line: &serde_json::Value| {
            let item = line["item"].as_str()?.rsplit('/').next()?.to_owned();
            (line["action"] == action).then_some(item)
        };
        lines(&ran.out).iter().filter_map(named).collect()
    };
    assert_eq!(of("updated"), ["one"]);
    assert_eq!(of("deleted").len(), 4);
    assert!(of("unchanged").contains(&"three".to_owned()));
    assert!(of("restored").is_empty());
    assert_eq!(tree(&bed.path("to")), before);
    let ran = bed.ok(["restore", "1", "--target", "new", "-n", "--json"]);
    assert_eq!(last(&ran)["files_restored"], 3);
    assert!(!bed.path("new").exists());
}

#[test]
fn restored_files_are_read_again_if_that_was_asked() {
    let bed = bed();
    fs::write(bed.path("src/large"), crate::bed::noise(3 << 20, 7)).unwrap();
    let sparse = fs::File::create(bed.path("src/sparse")).unwrap();
    sparse.set_len(5 << 20).unwrap();
    sparse.write_all_at(b"in the middle", 2 << 20).unwrap();
    bed.ok(["backup", "src"]);
    let ran = bed.ok(["restore", "latest", "--target", "fresh", "--verify"]);
    assert!(ran.out().contains("read 5 files again"), "{}", ran.out());
    assert!(ran.out().contains("all are as in the backup"), "{}", ran.out());
    // A file with the same size and time keeps its place, and has other bytes.
    let large = bed.restored("fresh", "src/large");
    let time = fs::metadata(&large).unwrap().modified().unwrap();
    let file = fs::File::options().write(true).open(&large).unwrap();
    file.write_all_at(b"!", 2_500_000).unwrap();
    file.set_modified(time).unwrap();
    let args = [
        "restore",
        "latest",
        "--target",
        "fresh",
        "--verify",
        "--overwrite",
    ];
    let ran = bed.run(args.iter().chain(&["if-changed"])).expect(1);
    assert!(
        ran.err()
            .contains("large: differs from the backup from byte 2500000 on"),
        "{}",
        ran.err()
    );
    assert!(ran.out().contains("1 is not as in the backup"), "{}", ran.out());
    // What the user chose to keep is not compared.
    fs::write(bed.restored("fresh", "src/one"), "of the user").unwrap();
    let ran = bed.run(args.iter().chain(&["never"])).expect(1);
    assert!(!ran.err().contains("one:"), "{}", ran.err());
    let ran = bed.ok(args.iter().chain(&["always"]));
    assert!(ran.out().contains("all are as in the backup"), "{}", ran.out());
}

#[test]
fn a_restored_stream_is_read_again_if_that_was_asked() {
    let bed = Bed::new();
    bed.fed(
        ["backup", "--stdin", "--stdin-filename", "dump"],
        &crate::bed::noise(3 << 20, 9),
    )
    .expect(0);
    let ran = bed.ok(["restore", "1", "--target", "to", "--verify", "--json"]);
    assert_eq!(last(&ran)["files_verified"], 1);
    let ran = bed.ok(["restore", "1", "--target", "to", "-n"]);
    assert!(
        ran.out().contains("would restore 1 file, 3.00 MiB"),
        "{}",
        ran.out()
    );
    let ran = bed.run(["restore", "1", "--target", "to", "--delete"]).expect(1);
    assert!(
        ran.err().contains("--delete concerns files and folders"),
        "{}",
        ran.err()
    );
}

#[test]
fn a_stream_is_restored_only_where_it_was_asked_for() {
    let bed = Bed::new();
    bed.fed(["backup", "--stdin", "--stdin-filename", "shop.sql"], b"new")
        .expect(0);
    fs::write(bed.path("image"), "new").unwrap();
    bed.ok(["backup", "--image-kib", "64", "image"]);
    let image = bed.path("image");
    let image = image.to_str().unwrap();
    for (id, asked) in [
        ("1", "letters"),
        ("1", "*.txt"),
        ("2", "image/x"),
        ("2", "/image"),
    ] {
        for dry_run in [&["-n"][..], &[]] {
            bed.run(["restore", id, "-t", "to", "-i", asked].iter().chain(dry_run))
                .expect(1)
                .says(&["has nothing under", asked]);
        }
        assert!(!bed.path("to").exists(), "{asked}");
    }
    for (id, asked, restored) in [
        ("1", "shop.sql", "to/shop.sql".to_owned()),
        ("1", "*.sql", "to/shop.sql".to_owned()),
        ("2", image, format!("to{image}")),
    ] {
        bed.ok(["restore", id, "-t", "to", "-i", asked]);
        assert_eq!(fs::read(bed.path(&restored)).unwrap(), b"new");
        fs::remove_file(bed.path(&restored)).unwrap();
    }
}

/// A backup of a stream has its beginning for a time of modification.
#[test]
fn the_file_of_a_stream_stays_if_it_is_newer() {
    let bed = Bed::new();
    bed.fed(
        ["backup", "--stdin", "--stdin-filename", "dump"],
        b"of the backup",
    )
    .expect(0);
    fs::create_dir(bed.path("to")).unwrap();
    let there = bed.path("to/dump");
    let newer = "later, and so longer";
    for (age, overwrite, stays) in [
        (0, "if-newer", true),
        (0, "never", true),
        (86_400, "never", true),
        (86_400, "if-newer", false),
        (0, "if-changed", false),
    ] {
        fs::write(&there, newer).unwrap();
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(age);
        fs::File::options()
            .write(true)
            .open(&there)
            .unwrap()
            .set_modified(time)
            .unwrap();
        let ran = bed.ok(["restore", "1", "-t", "to", "--overwrite", overwrite, "--json"]);
        assert_eq!(last(&ran)["files_kept"], u64::from(stays), "{overwrite} {age}");
        let now = fs::read(&there).unwrap();
        assert_eq!(now == newer.as_bytes(), stays, "{overwrite} {age}");
    }
}

/// `backup -x` records a mount point as an empty folder of the backup.
#[test]
fn nothing_is_deleted_on_another_mount() {
    let bed = Bed::new();
    let script = "
        onefold() { \"$ONEFOLD\" --insecure-no-password \"$@\"; }
        mkdir -p src/usb src/whole/below real/box
        echo 1 > src/one; echo 2 > src/two; echo 3 > src/whole/below/three; echo r > real/box/precious
        onefold backup -x src > log
        onefold restore 1 --target to > log
        to=to$PWD/src
        echo x > $to/extra
        mount -t tmpfs none $to/usb; echo u > $to/usb/precious
        mount -t tmpfs none $to/whole; mkdir $to/whole/below; echo w > $to/whole/below/precious
        mkdir -p $to/more/bound; echo x > $to/more/file; mount --bind real $to/more/bound
        rm $to/one; mkdir $to/one; mount --bind real $to/one
        onefold restore 1 --target to --delete > log 2> errors && exit 9
        [ ! -e $to/extra ]; [ ! -e $to/more/file ]
        cat $to/usb/precious $to/whole/below/precious $to/more/bound/box/precious $to/one/box/precious real/box/precious
        # The path that was backed up may be a mount of its own.
        mkdir -p own$PWD/src; mount -t tmpfs none own$PWD/src; echo x > own$PWD/src/extra
        onefold restore 1 --target own --delete > log
        [ ! -e own$PWD/src/extra ]; cat own$PWD/src/one";
    let Some(ran) = with_mounts(&bed, script) else {
        return;
    };
    assert_eq!(ran.expect(0).out(), "u\nw\nr\nr\nr\n1\n");
    // Each mount in place of a folder of the backup is named once, with the outermost alone.
    let errors = fs::read_to_string(bed.path("errors")).unwrap();
    let named = |path: &str| {
        let is_it = |line: &&str| line.contains(path) && line.contains("nothing is deleted in it");
        errors.lines().filter(is_it).count()
    };
    assert_eq!((named("/src/usb:"), named("/src/whole:")), (1, 1), "{errors}");
    assert_eq!(named(""), 2, "{errors}");
}

#[test]
fn a_name_that_the_file_system_folds_is_not_deleted() {
    let bed = Bed::new();
    fs::create_dir_all(bed.path("src/Sub")).unwrap();
    fs::write(bed.path("src/README"), "of the backup").unwrap();
    fs::write(bed.path("src/Sub/One"), "1").unwrap();
    bed.ok(["backup", "src"]);
    let Some(disk) = mount(Options {
        names: Names::CaseInsensitive,
        ..Options::default()
    }) else {
        return;
    };
    let there = disk.path().join(bed.path("src").strip_prefix("/").unwrap());
    fs::create_dir_all(there.join("sub")).unwrap();
    for name in ["readme", "sub/one", "extra", "sub/extra"] {
        fs::write(there.join(name), "there").unwrap();
    }
    let target = disk.path().to_str().unwrap();
    bed.ok([
        "restore",
        "1",
        "--target",
        target,
        "--delete",
        "--overwrite",
        "never",
    ]);
    let names: Vec<PathBuf> = tree(&there).into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, ["readme", "sub", "sub/one"].map(PathBuf::from));
}

#[test]
fn an_excluded_entry_stays_wherever_it_is() {
    let bed = bed();
    let to = bed.restored("to", "src");
    fs::write(to.join("more/below/kept.o"), "x").unwrap();
    let args = ["restore", "1", "--target", "to", "--delete", "--exclude", "*.o"];
    let ran = bed.ok(args.iter().chain(&["--dry-run", "--json"]));
    // A file, a file and a link.
    assert_eq!(last(&ran)["files_deleted"], 3);
    bed.ok(args);
    assert!(to.join("more/below/kept.o").exists() && to.join("sub/extra.o").exists());
    assert!(!to.join("more/below/file").exists());
    // It also stays in a folder in the place of a file.
    fs::remove_file(to.join("one")).unwrap();
    fs::create_dir_all(to.join("one/was")).unwrap();
    fs::write(to.join("one/was/kept.o"), "x").unwrap();
    let ran = bed.run(args).expect(1);
    assert!(ran.err().contains("src/one: cannot replace"), "{}", ran.err());
    assert!(to.join("one/was/kept.o").exists());
}

/// What a backup could not read looks as if it had been deleted.
#[test]
fn nothing_is_deleted_by_a_backup_with_unread_entries_unless_that_was_asked() {
    let bed = Bed::new();
    let Some(disk) = mount(Options {
        unreadable: Some(("bad".to_owned(), 0)),
        ..Options::default()
    }) else {
        return;
    };
    fs::write(disk.backing().join("bad"), "x").unwrap();
    fs::write(disk.backing().join("one"), "1").unwrap();
    bed.run(["backup", disk.path().to_str().unwrap()]).expect(3);
    let to = bed.path("to").join(disk.path().strip_prefix("/").unwrap());
    fs::create_dir_all(&to).unwrap();
    fs::write(to.join("more"), "x").unwrap();
    let args = ["restore", "1", "--target", "to", "--delete"];
    for more in [&[][..], &["--dry-run"]] {
        let ran = bed.run(args.iter().chain(more)).expect(1);
        assert!(ran.err().contains("1 entry could not be read"), "{}", ran.err());
        assert!(ran.err().contains("--delete-unread"), "{}", ran.err());
        assert!(to.join("more").exists() && !to.join("one").exists());
    }
    // That the file is not there whole is an error of its own.
    bed.run(args.iter().chain(&["--delete-unread"]));
    assert!(!to.join("more").exists() && to.join("one").exists());
    bed.run(["restore", "1", "--target", "to", "--delete-unread"])
        .expect(2);
}

#[test]
fn a_dry_run_takes_a_file_in_the_place_of_a_folder_as_replaced() {
    let bed = bed();
    let to = bed.restored("to", "src");
    fs::remove_dir_all(to.join("sub")).unwrap();
    fs::write(to.join("sub"), "a file").unwrap();
    fs::remove_dir(to.join("empty")).unwrap();
    symlink("/", to.join("empty")).unwrap();
    let ran = bed.ok(["restore", "1", "--target", "to", "--delete", "--dry-run"]);
    assert_eq!(ran.err(), "");
    // The folder `more` with two entries.
    assert!(ran.out().contains("would delete 3 entries"), "{}", ran.out());
}

#[test]
fn what_is_not_compared_is_not_called_equal() {
    let bed = Bed::new();
    fs::create_dir_all(bed.path("src/a")).unwrap();
    fs::create_dir(bed.path("src/b")).unwrap();
    fs::write(bed.path("src/a/first"), "linked").unwrap();
    fs::write(bed.path("src/b/file"), "of its own").unwrap();
    fs::hard_link(bed.path("src/a/first"), bed.path("src/b/second")).unwrap();
    fs::hard_link(bed.path("src/a/first"), bed.path("src/b/third")).unwrap();
    bed.ok(["backup", "src"]);
    let b = bed.path("src/b").display().to_string();
    let args = ["restore", "1", "--include", &b, "--verify", "--target"];
    let ran = bed.ok(args.iter().chain(&["part"]));
    assert!(
        ran.out().contains("read 2 files again, 16 B: all are as"),
        "{}",
        ran.out()
    );
    // The link as a file of the same length and time, and other bytes.
    let second = bed.restored("part", "src/b/second");
    let time = fs::metadata(&second).unwrap().modified().unwrap();
    let file = fs::File::options().write(true).open(&second).unwrap();
    file.write_all_at(b"LINK", 0).unwrap();
    file.set_modified(time).unwrap();
    let ran = bed
        .run(args.iter().chain(&["part", "--overwrite", "if-changed"]))
        .expect(1);
    assert!(
        ran.err()
            .contains("second: differs from the backup from byte 0 on"),
        "{}",
        ran.err()
    );
    // Nothing is compared.
    for name in ["file", "second", "third"] {
        let path = bed.restored("part", "src/b").join(name);
        fs::remove_file(&path).unwrap();
        fs::write(path, "mine").unwrap();
    }
    let ran = bed.ok(args.iter().chain(&["part", "--overwrite", "never"]));
    assert!(ran.out().contains("read no file again"), "{}", ran.out());
    assert!(!ran.out().contains("as in the backup"), "{}", ran.out());
}

#[test]
fn a_file_that_was_not_restored_is_one_fault_also_if_files_are_compared() {
    let bed = bed();
    let ran = bed
        .run(["restore", "1", "--target", "to", "--verify", "--json"])
        .expect(1);
    // A folder that is not empty is in the place of `one`.
    assert_eq!(last(&ran)["faults"], 1, "{}", ran.err());
    assert_eq!(last(&ran)["files_verified"], 2);
}
