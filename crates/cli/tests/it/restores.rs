//! Restores of parts of backups, over existing entries.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::bed::{Bed, last, noise};
use crate::picture::{assert_same, picture};
use crate::sources::with_mounts;

fn set_mtime(path: &Path, time: SystemTime) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(time).unwrap();
}

#[test]
fn one_file_or_folder_comes_back_alone() {
    let bed = Bed::new();
    crate::main_job::plant(&bed.path("src"));
    let was = picture(&bed.path("src"));
    bed.ok(["backup", "src"]);
    let one = bed.ok([
        "restore",
        "latest",
        "-t",
        "one",
        "--include",
        "src/folder/large",
        "--json",
    ]);
    assert_eq!(last(&one)["files_restored"], 1);
    let is = picture(&bed.restored("one", "src"));
    assert_eq!(is.len(), 3, "the file and the folders that lead to it: {is:?}");
    let name = Path::new("folder/large");
    assert_eq!(is[name], was[name]);
    bed.ok([
        "restore",
        "latest",
        "-t",
        "some",
        "-i",
        "src/folder/deep",
        "-i",
        "src/link",
    ]);
    let is = picture(&bed.restored("some", "src"));
    let below = |name: &Path| name.starts_with("folder/deep") || name == Path::new("link");
    for (name, entry) in was.iter().filter(|(name, _)| below(name)) {
        assert_eq!(is.get(name), Some(entry), "{}", name.display());
    }
    assert!(
        is.keys()
            .all(|name| below(name) || name.parent().is_none() || name == Path::new("folder"))
    );
}

#[test]
fn a_partial_restore_counts_the_requested_entries_and_no_folder_above() {
    let bed = Bed::new();
    for folder in ["src/a/b/c", "src/e/empty"] {
        fs::create_dir_all(bed.path(folder)).unwrap();
    }
    for (name, text) in [("a/b/c/one", "1"), ("a/b/two", "22"), ("e/three", "333")] {
        fs::write(bed.path("src").join(name), text).unwrap();
    }
    fs::hard_link(bed.path("src/a/b/two"), bed.path("src/a/b/zwei")).unwrap();
    std::os::unix::fs::symlink("two", bed.path("src/a/b/link")).unwrap();
    bed.ok(["backup", "src"]);
    // The requested paths, the files and other entries in them, and the bytes.
    let cases: [(&[&str], u64, u64, u64); 9] = [
        (&["src/a/b/two"], 1, 0, 2),
        (&["src/a/b/zwei"], 1, 0, 2),
        (&["src/a/b/link"], 0, 1, 0),
        (&["src/e/empty"], 0, 1, 0),
        (&["src/a/b/c"], 1, 1, 1),
        (&["src/a/b"], 2, 4, 3),
        (&["src/a/b/c/one", "src/e/three"], 2, 0, 4),
        (&["src/a/b/c/one", "src/a/b/c"], 1, 1, 1),
        (&["src"], 3, 8, 6),
    ];
    for (number, (paths, files, others, bytes)) in cases.into_iter().enumerate() {
        let included: Vec<&str> = paths.iter().flat_map(|path| ["-i", path]).collect();
        let restore = |target: &str, more: &[&str]| {
            bed.ok([&["restore", "latest", "-t", target][..], &included, more].concat())
        };
        let counts = |target: &str, more: &[&str]| {
            let ran = last(&restore(target, &[&["--json"], more].concat()));
            [
                "files_restored",
                "others_restored",
                "bytes_restored",
                "files_kept",
            ]
            .map(|name| ran[name].as_u64().unwrap())
        };
        let target = format!("json-{number}");
        let all = [files, others, bytes, 0];
        assert_eq!(counts(&target, &[]), all, "{paths:?}");
        assert_eq!(
            counts(&target, &[]),
            all,
            "where the folders are there: {paths:?}"
        );
        let again = counts(&target, &["--overwrite", "if-changed"]);
        assert_eq!((again[0], again[2]), (0, 0), "{paths:?}");
        assert_eq!(again[1] + again[3], files + others, "{paths:?}");
        let plural =
            |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let words = format!(
            "restored {} and {} of backup 1",
            plural(files, "file", "files"),
            plural(others, "other entry", "other entries")
        );
        let said = restore(&format!("text-{number}"), &[]).out();
        assert!(said.starts_with(&words), "not {words:?} in {said}");
    }
}

#[test]
fn a_second_name_asked_for_alone_is_a_file_with_all_that_the_first_has() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/first"), noise(300_000, 19)).unwrap();
    fs::set_permissions(bed.path("src/first"), fs::Permissions::from_mode(0o751)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_111_111_111, 111_111_111);
    set_mtime(&bed.path("src/first"), time);
    fs::hard_link(bed.path("src/first"), bed.path("src/second")).unwrap();
    bed.ok(["backup", "src"]);
    bed.ok(["restore", "latest", "-t", "out", "-i", "src/second"]);
    let back = bed.restored("out", "src/second");
    assert_eq!(fs::read(&back).unwrap(), noise(300_000, 19));
    let meta = back.metadata().unwrap();
    assert_eq!(meta.mode() & 0o7777, 0o751);
    assert_eq!(meta.modified().unwrap(), time);
    assert!(!bed.restored("out", "src/first").exists());
}

#[test]
fn existing_files_are_overwritten_as_the_option_says() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
    let (earlier, later) = (old - Duration::from_secs(9), old + Duration::from_secs(9));
    for name in ["same", "older", "newer", "longer"] {
        fs::write(bed.path("src").join(name), "backup").unwrap();
        set_mtime(&bed.path("src").join(name), old);
    }
    bed.ok(["backup", "src"]);
    let prepare = || {
        let there = bed.restored("out", "src");
        fs::create_dir_all(&there).unwrap();
        for (name, text, time) in [
            ("same", "target", old),
            ("older", "target", earlier),
            ("newer", "target", later),
            ("longer", "target!", old),
            ("other", "target", old),
        ] {
            fs::write(there.join(name), text).unwrap();
            set_mtime(&there.join(name), time);
        }
    };
    for (mode, replaced) in [
        ("always", ["same", "older", "newer", "longer"].as_slice()),
        ("if-changed", &["older", "newer", "longer"]),
        ("if-newer", &["older"]),
        ("never", &[]),
    ] {
        prepare();
        let ran = last(&bed.ok(["restore", "latest", "-t", "out", "--overwrite", mode, "--json"]));
        assert_eq!(ran["files_restored"], replaced.len(), "{mode}");
        assert_eq!(ran["files_kept"], 4 - replaced.len(), "{mode}");
        for name in ["same", "older", "newer", "longer", "other"] {
            let text = fs::read_to_string(bed.restored("out", "src").join(name)).unwrap();
            assert_eq!(
                text == "backup",
                replaced.contains(&name),
                "{mode}: {name} is {text:?}"
            );
        }
    }
    fs::remove_dir_all(bed.path("out")).unwrap();
    bed.ok(["restore", "latest", "-t", "out", "--overwrite", "never"]);
    assert_same(&picture(&bed.path("src")), &picture(&bed.restored("out", "src")));
}

#[test]
fn a_stream_obeys_overwrite_too() {
    let bed = Bed::new();
    bed.fed(["backup", "--stdin", "--stdin-filename", "dump"], b"new")
        .expect(0);
    fs::create_dir(bed.path("out")).unwrap();
    fs::write(bed.path("out/dump"), "old").unwrap();
    let args = ["restore", "latest", "-t", "out", "--overwrite", "never", "--json"];
    assert_eq!(last(&bed.ok(args))["files_kept"], 1);
    assert_eq!(fs::read(bed.path("out/dump")).unwrap(), b"old");
    bed.ok(["restore", "latest", "-t", "out"]);
    assert_eq!(fs::read(bed.path("out/dump")).unwrap(), b"new");
    assert_eq!(
        fs::read_dir(bed.path("out")).unwrap().count(),
        1,
        "no partial file is left"
    );
}

#[test]
fn nothing_is_restored_into_the_store() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/f"), b"x").unwrap();
    bed.ok(["backup", "src"]);
    for target in [bed.store(), bed.store().join("data/out")] {
        let ran = bed.run([
            "restore".as_ref(),
            "latest".as_ref(),
            "-t".as_ref(),
            target.as_os_str(),
        ]);
        ran.expect(1).says(&["the store's own folder"]);
    }
}

/// Files below a folder, by their paths below it.
fn files(root: &Path) -> Vec<String> {
    let names = picture(root).into_keys().filter(|name| root.join(name).is_file());
    names.map(|name| name.to_str().unwrap().to_owned()).collect()
}

/// A tree of a few files: `src/a/{one.txt,two.log}`, `src/b/{Three.TXT,four[4].txt,deep/five.txt}`.
fn plant_few(bed: &Bed) {
    for (name, text) in [
        ("a/one.txt", "1"),
        ("a/two.log", "2"),
        ("b/Three.TXT", "3"),
        ("b/four[4].txt", "4"),
        ("b/deep/five.txt", "5"),
    ] {
        let path = bed.path("src").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn patterns_include_and_exclude_entries_of_a_restore() {
    let bed = Bed::new();
    plant_few(&bed);
    bed.ok(["backup", "src"]);
    let here = format!("{}/src/b/*.txt", bed.path("").display()).replace("//", "/");
    let cases: [(&[&str], &[&str]); 9] = [
        (&["-e", "*.txt"], &["a/two.log", "b/Three.TXT"]),
        (&["--iexclude", "*.txt"], &["a/two.log"]),
        (&["-e", "b", "--iexclude", "ONE.*"], &["a/two.log"]),
        (&["-i", "src/b", "-e", "deep"], &["b/Three.TXT", "b/four[4].txt"]),
        (&["-i", "*.log"], &["a/two.log"]),
        (&["-i", &here], &["b/four[4].txt"]),
        (
            &["-i", "./src/?", "-e", "!x", "-e", "./src/a"],
            &["b/Three.TXT", "b/deep/five.txt", "b/four[4].txt"],
        ),
        (&["-i", "src/b/four[4].txt"], &["b/four[4].txt"]),
        (
            &["-i", "*.log", "-i", "src/b/deep"],
            &["a/two.log", "b/deep/five.txt"],
        ),
    ];
    for (number, (options, expected)) in cases.iter().enumerate() {
        let target = format!("to{number}");
        let ran = bed.ok(["restore", "latest", "-t", &target, "--json"]
            .iter()
            .chain(*options));
        assert_eq!(files(&bed.restored(&target, "src")), *expected, "{options:?}");
        assert_eq!(last(&ran)["files_restored"], expected.len(), "{options:?}");
        let bytes = last(&ran)["bytes_restored"].as_u64();
        assert_eq!(
            bytes,
            Some(expected.len() as u64),
            "{options:?}: only theirs are read"
        );
    }
    // A pattern without a match is a missing path.
    let ran = bed.run(["restore", "latest", "-t", "none", "-i", "*.none"]);
    ran.expect(1).says(&["has nothing under *.none"]);
    let ran = bed.run(["restore", "latest", "-t", "some", "-i", "*.none", "-i", "*.log"]);
    ran.expect(1).says(&["has nothing under *.none"]);
    bed.run(["restore", "latest", "-t", "bad", "-e", "[a"])
        .expect(1)
        .says(&["[a"]);
    // A stream has no entries to leave out.
    bed.fed(["backup", "--stdin"], b"stream").expect(0);
    for option in [&["-e", "x"][..], &["--sparse"], &["--owners", "names"]] {
        let ran = bed.run(["restore", "latest", "-t", "stream"].iter().chain(option));
        ran.expect(1).says(&["concerns files and folders"]);
    }
}

#[test]
fn the_path_after_the_id_selects_a_file_a_folder_or_the_root_of_the_target() {
    let bed = Bed::new();
    plant_few(&bed);
    fs::hard_link(bed.path("src/a/one.txt"), bed.path("src/b/again")).unwrap();
    bed.ok(["backup", "src"]);
    assert_eq!(bed.ok(["dump", "latest:src/a/two.log"]).out, b"2");
    bed.run(["dump", "1:src/a/two.log", "src/a/one.txt"])
        .expect(1)
        .says(&["named twice"]);
    let deep = format!("1:{}", bed.path("src/b/deep").display());
    let ls = bed.ok(["ls", &deep, "src/a/one.txt"]).out();
    let listed: Vec<_> = ls
        .lines()
        .map(|line| line.rsplit_once("src/").unwrap().1)
        .collect();
    assert_eq!(listed, ["a/one.txt", "b/deep", "b/deep/five.txt"]);
    bed.ok(["restore", "latest:src/b", "-t", "b"]);
    let all = ["Three.TXT", "again", "deep/five.txt", "four[4].txt"];
    assert_eq!(files(&bed.path("b")), all);
    assert_eq!(
        fs::read(bed.path("b/again")).unwrap(),
        b"1",
        "its first name lies elsewhere"
    );
    bed.ok(["restore", "latest:src/b", "-t", "part", "-i", "src/b/deep"]);
    assert_eq!(files(&bed.path("part")), ["deep/five.txt"]);
    for (id, code, words) in [
        ("latest:src/none", 1, "has no folder"),
        ("latest:src/a/one.txt", 1, "--include"),
        ("7:src", 1, "7"),
    ] {
        bed.run(["restore", id, "-t", "none"]).expect(code).says(&[words]);
    }
    bed.run(["ls", "latest:"]).expect(2).says(&["after the colon"]);
    bed.fed(["backup", "--stdin", "--stdin-filename", "x"], b"stream")
        .expect(0);
    assert_eq!(bed.ok(["dump", "latest:x"]).out, b"stream");
    bed.run(["restore", "latest:x", "-t", "none"])
        .expect(1)
        .says(&["one stream"]);
}

#[test]
fn zeros_take_space_as_asked_for() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/zeros"), vec![0; 1 << 20]).unwrap();
    let holes = fs::File::create(bed.path("src/holes")).unwrap();
    holes.set_len(1 << 20).unwrap();
    bed.ok(["backup", "src"]);
    let space = |target: &str, options: &[&str]| {
        bed.ok(["restore", "latest", "-t", target].iter().chain(options));
        ["zeros", "holes"].map(|name| {
            let path = bed.restored(target, "src").join(name);
            assert!(fs::read(&path).unwrap() == vec![0; 1 << 20], "{target}: {name}");
            fs::metadata(path).unwrap().blocks() * 512 >= 1 << 20
        })
    };
    assert_eq!(space("as", &[]), [true, false]);
    assert_eq!(space("source", &["--sparse=source"]), [true, false]);
    assert_eq!(space("sparse", &["--sparse"]), [false, false]);
    assert_eq!(space("never", &["--sparse=never"]), [true, true]);
}

/// On a machine where the user has another number than on the source.
#[test]
fn owners_are_restored_by_number_or_by_name() {
    let bed = Bed::new();
    fs::write(bed.path("passwd"), "root:x:0:0::/:\nsomebody:x:4711:4711::/:\n").unwrap();
    fs::write(bed.path("elsewhere"), "root:x:0:0::/:\nsomebody:x:815:815::/:\n").unwrap();
    let script = r#"
        onefold() { "$ONEFOLD" --insecure-no-password "$@"; }
        mkdir src
        echo x > src/file
        chown 4711 src/file
        mount --bind passwd /etc/passwd
        onefold backup src -q
        mount --bind elsewhere /etc/passwd
        onefold restore latest -t usual -q
        onefold restore latest -t numbers --owners numbers -q
        onefold restore latest -t names --owners names -q
    "#;
    let Some(ran) = with_mounts(&bed, script) else {
        return;
    };
    ran.expect(0);
    let owner = |target: &str| fs::metadata(bed.restored(target, "src/file")).unwrap().uid();
    assert_eq!(["usual", "numbers", "names"].map(owner), [4711, 4711, 815]);
}

#[test]
fn a_path_that_is_no_pattern_is_restored_as_a_path() {
    let bed = Bed::new();
    fs::create_dir_all(bed.path("src/odd*?[31m")).unwrap();
    fs::write(bed.path("src/odd*?[31m/file"), "here").unwrap();
    bed.ok(["backup", "src"]);
    let path = bed.path("src/odd*?[31m");
    let path = path.to_str().unwrap();
    bed.ok(["restore", "latest", "--target", "out", "--include", path]);
    let file = bed.restored("out", "src").join("odd*?[31m/file");
    assert_eq!(fs::read(file).unwrap(), b"here");
    bed.run(["restore", "latest", "--target", "other", "--include", "*.[ch"])
        .expect(1)
        .says(&["*.[ch", "cannot be understood"]);
}

/// A restored stream has the time of its backup, so that a newer backup is newer.
#[test]
fn if_newer_knows_the_newer_of_two_backups_of_a_stream() {
    let bed = Bed::new();
    for text in ["monday", "tuesday"] {
        bed.fed(
            ["backup", "--stdin", "--stdin-filename", "/dumps/db"],
            text.as_bytes(),
        )
        .expect(0);
    }
    let restore = |id: &str, overwrite: &str| {
        bed.ok(["restore", id, "-t", "to", "--overwrite", overwrite]);
        fs::read_to_string(bed.path("to/dumps/db")).unwrap()
    };
    assert_eq!(restore("1", "if-newer"), "monday");
    assert_eq!(restore("2", "if-newer"), "tuesday");
    assert_eq!(restore("1", "if-newer"), "tuesday");
    assert_eq!(restore("1", "always"), "monday");
    fs::write(bed.path("to/dumps/db"), "changed since").unwrap();
    assert_eq!(restore("2", "if-newer"), "changed since");
    // A pattern of a folder includes what is below it.
    bed.ok(["restore", "2", "-t", "in", "--include", "/dump?"]);
    assert_eq!(fs::read_to_string(bed.path("in/dumps/db")).unwrap(), "tuesday");
}
