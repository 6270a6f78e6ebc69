//! Parts of backups, and what is there already.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::bed::{Bed, last, noise};
use crate::picture::{assert_same, picture};

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
fn a_restore_of_parts_counts_what_was_asked_for_and_no_folder_above() {
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
    // What is asked for, the files and the other entries in it, and the bytes.
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
fn what_is_there_already_is_overwritten_as_asked() {
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
