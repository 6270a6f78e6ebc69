//! Options of `backup` that decide whether a backup is made, and what it tells.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::bed::{Apart, Bed, last, lines};

fn bed() -> Bed {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/one"), "the first").unwrap();
    fs::write(bed.path("src/two"), "the second").unwrap();
    // A file that changed right before a backup is read again by the next one.
    std::thread::sleep(std::time::Duration::from_millis(50));
    bed
}

#[test]
fn nothing_changed_makes_no_backup_if_that_was_asked() {
    let bed = Bed::new();
    let apart = Apart::new();
    let src = apart.path().join("src");
    fs::create_dir(&src).unwrap();
    fs::write(src.join("one"), "the first").unwrap();
    fs::write(src.join("two"), "the second").unwrap();
    let source = src.to_str().unwrap();
    let skip = ["backup", "--skip-if-unchanged", source];
    bed.ok(skip);
    assert_eq!(bed.backups(), [1]);
    let ran = bed.ok(skip);
    let said = "all is as in backup 1, so no backup was made";
    assert!(ran.out().contains(said), "{}", ran.out());
    let ran = bed.ok(["backup", "--skip-if-unchanged", "--json", source]);
    let summary = last(&ran);
    assert_eq!(summary["same_as"], 1);
    assert!(summary.get("snapshot_id").is_none());
    assert_eq!(bed.backups(), [1]);
    // Without the option there is one.
    bed.ok(["backup", source]);
    assert_eq!(bed.backups().len(), 2);
    // A change of metadata alone is one.
    fs::set_permissions(src.join("one"), fs::Permissions::from_mode(0o600)).unwrap();
    bed.ok(skip);
    assert_eq!(bed.backups().len(), 3);
    // So is a file that is gone.
    fs::remove_file(src.join("two")).unwrap();
    bed.ok(skip);
    assert_eq!(bed.backups().len(), 4);
    bed.ok(skip);
    assert_eq!(bed.backups().len(), 4);
    bed.assert_sound();
    bed.ok(["prune"]);
    bed.ok(["restore", "latest", "--target", "back"]);
    let back = bed.path("back").join(src.strip_prefix("/").unwrap());
    assert_eq!(fs::read(back.join("one")).unwrap(), b"the first");
}

#[test]
fn streams_that_are_equal_make_no_second_backup_if_that_was_asked() {
    let bed = Bed::new();
    let args = ["backup", "--stdin", "--skip-if-unchanged"];
    bed.fed(args, b"a dump").expect(0);
    bed.fed(args, b"a dump").expect(0);
    assert_eq!(bed.backups(), [1]);
    bed.fed(args, b"another").expect(0);
    assert_eq!(bed.backups().len(), 2);
}

#[test]
fn a_dry_run_changes_nothing_and_says_what_a_backup_would_add() {
    let bed = Bed::new();
    let apart = Apart::new();
    let src = apart.path().to_str().unwrap();
    fs::write(apart.path().join("one"), "the first").unwrap();
    fs::write(apart.path().join("two"), "the second").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mut before = bed.objects("");
    before.sort();
    let ran = bed.ok(["backup", "--dry-run", src]);
    assert!(
        ran.out().contains("a dry run: no backup was made"),
        "{}",
        ran.out()
    );
    let ran = bed.ok(["backup", "-n", "--json", src]);
    let would = last(&ran);
    assert_eq!(
        (&would["dry_run"], &would["files_new"]),
        (&true.into(), &2.into())
    );
    assert!(would.get("snapshot_id").is_none());
    let mut after = bed.objects("");
    after.sort();
    assert_eq!(before, after);
    assert!(bed.backups().is_empty());
    let ran = bed.ok(["backup", "--json", src]);
    let made = last(&ran);
    for same in ["files_new", "data_added", "chunks_new"] {
        assert_eq!(would[same], made[same], "{same}");
    }
    assert!(made.get("dry_run").is_none());
    let ran = bed.ok(["backup", "-n", "--json", src]);
    let would = last(&ran);
    assert_eq!(
        (&would["files_unmodified"], &would["data_added"]),
        (&2.into(), &0.into())
    );
}

#[test]
fn a_server_s_store_has_no_dry_run() {
    let bed = Bed::bare();
    let args = ["-r", "onefold://localhost:1/web", "backup", "-n", "."];
    let ran = bed.run(args).expect(1);
    assert!(ran.err().contains("leave --dry-run out"), "{}", ran.err());
}

#[test]
fn each_file_is_named_if_that_was_asked() {
    let bed = bed();
    let named = |args: &[&str]| -> Vec<String> {
        let ran = bed.ok(["backup", "--json", "src"].iter().chain(args));
        let of = |line: &serde_json::Value| {
            let item = line["item"].as_str()?;
            Some(format!(
                "{} {}",
                line["action"].as_str()?,
                item.rsplit('/').next()?
            ))
        };
        lines(&ran.out).iter().filter_map(of).collect()
    };
    assert_eq!(named(&["--verbose=2"]), ["new one", "new two"]);
    fs::write(bed.path("src/one"), "the first, longer").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(named(&["-vv"]), ["modified one", "unchanged two"]);
    assert_eq!(named(&["-v", "-v"]), ["unchanged one", "unchanged two"]);
    assert!(named(&["-v"]).is_empty());
    let ran = bed.ok(["backup", "-vv", "src"]);
    assert!(ran.out().contains("unchanged /"), "{}", ran.out());
}

#[test]
fn any_number_of_files_is_read_at_a_time() {
    let bed = bed();
    for number in 0..300 {
        fs::write(bed.path(format!("src/{number}")), number.to_string()).unwrap();
    }
    fs::write(bed.path("src/large"), crate::bed::noise(9 << 20, 1)).unwrap();
    for count in ["1", "2", "64"] {
        let ran = bed.ok(["backup", "-f", "--json", "--read-concurrency", count, "src"]);
        assert_eq!(last(&ran)["total_files_processed"], 303);
    }
    bed.run(["backup", "--read-concurrency", "0", "src"]).expect(2);
    bed.assert_sound();
}

#[test]
fn ignore_files_leave_out_what_their_lines_say() {
    let bed = Bed::new();
    for folder in ["src/keep", "src/target/deep", "src/inner/out", "src/inner/sub"] {
        fs::create_dir_all(bed.path(folder)).unwrap();
    }
    let files = [
        ("src/.gitignore", "# comment\n*.o\n/target/\n!wanted.o\n[\n\n"),
        ("src/inner/.gitignore", "out\r\n!main.o\n/sub/*.txt\n"),
        ("src/.other", "keep/\n"),
        ("src/a.o", ""),
        ("src/wanted.o", ""),
        ("src/keep/b.o", ""),
        ("src/keep/target", ""),
        ("src/target/deep/c", ""),
        ("src/inner/main.o", ""),
        ("src/inner/out/d", ""),
        ("src/inner/sub/e.txt", ""),
        ("src/inner/sub/f", ""),
    ];
    for (name, text) in files {
        fs::write(bed.path(name), text).unwrap();
    }
    let listed = |args: &[&str]| -> Vec<String> {
        bed.ok(["backup", "src"].iter().chain(args));
        let ran = bed.ok(["ls", "latest", "--json"]);
        let under = bed.path("src").display().to_string();
        let path = |line: &serde_json::Value| {
            let path = line["path"].as_str()?.strip_prefix(&under)?;
            (line["type"] == "file").then(|| path.trim_start_matches('/').to_owned())
        };
        lines(&ran.out).iter().filter_map(path).collect()
    };
    assert_eq!(listed(&[]).len(), files.len());
    let kept = [
        ".gitignore",
        ".other",
        "inner/.gitignore",
        "inner/main.o",
        "inner/sub/f",
        "keep/target",
        "wanted.o",
    ];
    assert_eq!(listed(&["--ignore-file", ".gitignore"]), kept);
    let both = ["--ignore-file", ".gitignore", "--ignore-file", ".other"];
    let kept: Vec<_> = kept
        .into_iter()
        .filter(|path| !path.starts_with("keep"))
        .collect();
    assert_eq!(listed(&both), kept);
    // What was ignored before and is not now is backed up.
    assert_eq!(listed(&[]).len(), files.len());
    bed.run(["backup", "src", "--ignore-file", "a/b"]).expect(2);
}
