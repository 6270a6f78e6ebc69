//! Exit codes, and messages that tell what happened, to what, and what to do next.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::getuid;

use crate::bed::{Bed, Ran, last, lines, noise};

/// The user with the fewest rights.
pub(crate) const NOBODY: u32 = 65534;

#[test]
fn the_exit_code_without_a_store_is_10() {
    let bed = Bed::bare();
    let place = bed.store().display().to_string();
    for command in [
        vec!["snapshots"],
        vec!["backup", "."],
        vec!["check"],
        vec!["restore", "latest", "-t", "x"],
    ] {
        bed.run(&command)
            .expect(10)
            .says(&[&place, "no Onefold store", "init"]);
    }
    // A folder without a store: empty, or with other entries.
    fs::create_dir(bed.store()).unwrap();
    bed.run(["snapshots"])
        .expect(10)
        .says(&[&place, "no Onefold store", "init"]);
    fs::write(bed.store().join("letter"), "dear").unwrap();
    bed.run(["snapshots"])
        .expect(10)
        .says(&[&place, "no Onefold store"]);
    assert_eq!(
        fs::read_dir(bed.store()).unwrap().count(),
        1,
        "nothing was put there"
    );
    let mut nowhere = bed.command(["snapshots"]);
    nowhere.env_remove("ONEFOLD_REPOSITORY");
    let ran = Ran::from(nowhere.output().unwrap());
    ran.expect(1).says(&["--repo", "ONEFOLD_REPOSITORY"]);
    // A file in its place is an error of its own, reported once.
    fs::write(bed.path("file"), "").unwrap();
    let ran = bed.run(["--repo", "file", "snapshots"]).expect(1).says(&["file"]);
    assert_eq!(ran.err().matches("directory").count(), 1, "{}", ran.err());
}

#[test]
fn init_over_an_existing_store_changes_nothing() {
    let bed = Bed::new();
    fs::write(bed.path("file"), "text").unwrap();
    bed.ok(["backup", "file"]);
    bed.run(["init"]).expect(1).says(&["a store here already"]);
    assert_eq!(bed.backups(), [1]);
}

#[test]
fn a_store_without_its_config_does_not_count_as_missing() {
    let bed = Bed::new();
    fs::write(bed.path("file"), "text").unwrap();
    bed.ok(["backup", "file"]);
    fs::rename(bed.store().join("config"), bed.path("config")).unwrap();
    bed.run(["snapshots"]).expect(1).says(&["config", "restore"]);
    bed.run(["init"]).expect(1).says(&["config"]);
    fs::rename(bed.path("config"), bed.store().join("config")).unwrap();
    assert_eq!(bed.backups(), [1]);
}

/// Only a folder without a config, or a missing folder, may be no store. A store that lacks any
/// other object is damaged.
#[test]
fn a_missing_object_is_damage_and_not_10() {
    for folder in [
        "backups", "data", "recipe", "small", "mirror", "catalog", "index", "sessions",
    ] {
        let bed = Bed::new();
        fs::write(bed.path("file"), noise(3 << 20, 3)).unwrap();
        bed.ok(["backup", "file"]);
        let lost = bed.objects(folder);
        if folder == "data" || folder == "backups" {
            assert!(!lost.is_empty(), "{folder}");
        }
        for path in &lost {
            fs::remove_file(path).unwrap();
        }
        let damaged = ["backups", "data"].contains(&folder);
        let restored = bed.run(["restore", "1", "-t", "first"]).code;
        assert!(!damaged || restored == Some(1), "{folder}: {restored:?}");
        for args in [
            &["snapshots"][..],
            &["ls", "1"],
            &["restore", "1", "-t", "out"],
            &["dump", "1", "/nowhere"],
            &["check"],
            &["check", "--read-data"],
            &["stats"],
            &["prune"],
            &["index", "rebuild"],
            &["backup", "file", "--force"],
        ] {
            let ran = bed.run(args);
            assert!(
                matches!(ran.code, Some(0 | 1)),
                "{folder}, {args:?}: {:?}: {}",
                ran.code,
                ran.err()
            );
        }
    }
}

#[test]
fn a_newer_store_asks_for_a_newer_program() {
    let bed = Bed::new();
    for path in bed.objects("config") {
        let mut bytes = fs::read(&path).unwrap();
        assert_eq!(bytes[8..10], format::config::FORMAT_VERSION.to_le_bytes());
        bytes[8..10].copy_from_slice(&(format::config::FORMAT_VERSION + 1).to_le_bytes());
        let before = bytes.len() - format::frame::DIGEST_BYTES;
        let digest = twox_hash::XxHash3_128::oneshot(&bytes[..before]);
        bytes[before..].copy_from_slice(&digest.to_le_bytes());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    bed.run(["snapshots"])
        .expect(1)
        .says(&["format version 2", "newer program"]);
}

#[test]
fn unknown_backups_paths_and_arguments_are_1_or_2() {
    let bed = Bed::new();
    bed.run(["restore", "latest", "-t", "out"])
        .expect(1)
        .says(&["no backup"]);
    fs::write(bed.path("file"), "text").unwrap();
    bed.ok(["backup", "file"]);
    for id in ["2", "0", "-1", "zebra", "99999999999999999999"] {
        bed.run(["restore", "-t", "out", "--", id])
            .expect(1)
            .says(&["no backup", id]);
        bed.run(["ls", "--", id]).expect(1).says(&["no backup", id]);
    }
    bed.run(["restore", "latest", "--host", "elsewhere", "-t", "out"])
        .expect(1)
        .says(&["no backup", "elsewhere"]);
    assert!(
        !bed.path("out").exists(),
        "nothing was made for a backup that there is not"
    );
    bed.run(["restore", "latest", "-t", "out", "--include", "elsewhere"])
        .expect(1)
        .says(&["elsewhere", "ls 1"]);
    bed.run(["ls", "latest", "elsewhere"])
        .expect(1)
        .says(&["elsewhere", "ls 1"]);
    bed.run(["backup", "file", "missing"])
        .expect(1)
        .says(&["missing", "No such file"]);
    assert_eq!(bed.backups(), [1], "a mistyped path makes no backup");
    bed.run(["backup"]).expect(2);
    bed.run(["shred"]).expect(2).says(&["shred"]);
    bed.run(["prune", "--max-unused", "150%"])
        .expect(2)
        .says(&["0% to 100%"]);
    bed.run(["prune", "--max-repack", "some"])
        .expect(2)
        .says(&["a size"]);
    for wrong in ["banana", "0%", "5", "31/30"] {
        bed.run(["check", &format!("--read-data={wrong}")])
            .expect(2)
            .says(&["5%", "3/30", "day/30"]);
    }
    bed.run(["init", "--repo", "other", "--chunk-kib", "3"])
        .expect(1)
        .says(&["power of two"]);
    assert!(!bed.path("other").exists(), "nothing was made");
}

/// The command, run by a user who may not read everything.
pub(crate) fn by_nobody(bed: &Bed, args: &[&str]) -> Ran {
    let mut command = bed.command(args);
    if getuid().is_root() {
        // The binary may be in a folder that other users cannot enter.
        let program = bed.path("onefold");
        if !program.exists() {
            // By another process: a child that another thread starts meanwhile would hold the copy
            // open for writing, and what is written to cannot be started.
            let copied = Command::new("install")
                .args(["-m", "755"])
                .args([command.get_program(), program.as_os_str()])
                .status();
            assert!(copied.unwrap().success());
        }
        let mut other = Command::new(program);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => other.env(name, value),
                None => other.env_remove(name),
            };
        }
        other
            .args(command.get_args())
            .current_dir(bed.path(""))
            .uid(NOBODY)
            .gid(NOBODY);
        command = other;
    }
    command.output().unwrap().into()
}

#[test]
fn unreadable_files_are_named_and_the_rest_is_saved_with_3() {
    let bed = Bed::bare();
    if getuid().is_root() {
        std::os::unix::fs::chown(bed.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    by_nobody(&bed, &["init"]).expect(0);
    fs::create_dir_all(bed.path("src/locked")).unwrap();
    for name in ["first", "secret", "third"] {
        fs::write(bed.path("src").join(name), noise(10_000, 7)).unwrap();
    }
    for name in ["src/secret", "src/locked"] {
        fs::set_permissions(bed.path(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let ran =
        by_nobody(&bed, &["backup", "src"])
            .expect(3)
            .says(&["src/secret", "src/locked", "ermission denied"]);
    assert!(
        ran.out().contains("2 new") && ran.out().contains("not read"),
        "{}",
        ran.out()
    );
    by_nobody(&bed, &["restore", "latest", "-t", "out"])
        .expect(1)
        .says(&["src/locked"]);
    by_nobody(&bed, &["dump", "latest", "-a", "tar", "-t", "all.tar"])
        .expect(1)
        .says(&["src/locked: not all that was in it could be read"]);
    for name in ["first", "third"] {
        let back = fs::read(bed.restored("out", "src").join(name)).unwrap();
        assert_eq!(back, noise(10_000, 7));
    }
    assert!(!bed.restored("out", "src/secret").exists());
    bed.assert_sound();
    for locked in [bed.path("src/locked"), bed.restored("out", "src/locked")] {
        fs::set_permissions(locked, fs::Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn a_file_that_vanishes_is_named_and_the_rest_is_kept_with_3() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/a large one"), noise(96 << 20, 8)).unwrap();
    // Small files are read ahead of their turn.
    fs::write(bed.path("src/vanishes"), noise(2 << 20, 9)).unwrap();
    fs::write(bed.path("src/zebra"), b"still here").unwrap();
    let child = bed.command(["backup", "src", "--json"]).spawn().unwrap();
    // The folder is walked, and most of the large file is not read yet.
    bed.wait_for("data", "");
    fs::remove_file(bed.path("src/vanishes")).unwrap();
    let ran = Ran::from(child.wait_with_output().unwrap())
        .expect(3)
        .says(&["src/vanishes", "vanished"]);
    lines(&ran.err);
    assert_eq!(last(&ran)["files_failed"], 1);
    let ls = bed.ok(["ls", "latest"]).out();
    assert!(ls.contains("zebra") && !ls.contains("vanishes"), "{ls}");
}

#[test]
fn output_that_nobody_reads_is_no_error_and_a_full_disk_is() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    for number in 0..2000 {
        fs::write(bed.path("src").join(format!("{number:0>90}")), b"").unwrap();
    }
    bed.ok(["backup", "src"]);
    for args in [["ls", "latest"].as_slice(), &["ls", "latest", "--json"]] {
        let mut child = bed.command(args).spawn().unwrap();
        drop(child.stdout.take());
        Ran::from(child.wait_with_output().unwrap()).expect(0).says(&[""]);
    }
    let mut full = bed.command(["ls", "latest"]);
    full.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
    Ran::from(full.output().unwrap())
        .expect(1)
        .says(&["No space left", "output"]);
}
