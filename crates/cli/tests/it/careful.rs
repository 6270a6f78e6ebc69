//! What a restore must not change, and how it may end: names, folders above, partial files, full
//! disks.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use testfs::{Names, Options, mount};

use crate::bed::{Bed, Ran, last, noise, signal, wait_until};

/// Mode, owner and time, for a path that must not change.
fn marks(path: &Path) -> (u32, u32, u32, i64, i64) {
    let meta = fs::symlink_metadata(path).unwrap();
    (
        meta.mode(),
        meta.uid(),
        meta.gid(),
        meta.mtime(),
        meta.mtime_nsec(),
    )
}

fn set_mtime(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    fs::File::open(path).unwrap().set_modified(time).unwrap();
}

fn restore(bed: &Bed, target: &Path, more: &[&str]) -> Ran {
    let target = target.to_str().unwrap();
    bed.run([&["restore", "latest", "-t", target][..], more].concat())
}

/// A bed with a backup of `home/u`, which contains a letter.
fn letter() -> Bed {
    let bed = Bed::new();
    fs::create_dir_all(bed.path("home/u")).unwrap();
    fs::write(bed.path("home/u/letter"), "dear").unwrap();
    fs::write(bed.path("home/u/other"), "other").unwrap();
    bed.ok(["backup", "home"]);
    bed
}

#[test]
fn the_users_link_to_a_moved_folder_is_followed() {
    let bed = letter();
    fs::rename(bed.path("home"), bed.path("moved")).unwrap();
    symlink("moved", bed.path("home")).unwrap();
    fs::remove_file(bed.path("moved/u/letter")).unwrap();
    fs::set_permissions(bed.path("moved"), fs::Permissions::from_mode(0o711)).unwrap();
    for path in ["moved", "moved/u"] {
        set_mtime(&bed.path(path), 1_600_000_000);
    }
    let paths = ["home", "moved", "moved/u", "moved/u/other"];
    let before = paths.map(|path| marks(&bed.path(path)));
    let ran = restore(&bed, Path::new("/"), &["--include", "home/u/letter", "--json"]).expect(0);
    assert_eq!(
        (&last(&ran)["files_restored"], &last(&ran)["others_restored"]),
        (&1.into(), &0.into())
    );
    assert_eq!(fs::read_to_string(bed.path("moved/u/letter")).unwrap(), "dear");
    assert_eq!(fs::read_link(bed.path("home")).unwrap(), Path::new("moved"));
    assert_eq!(paths.map(|path| marks(&bed.path(path))), before);
}

#[test]
fn a_link_that_others_made_or_that_leads_out_of_the_target_is_not_followed() {
    let bed = letter();
    fs::create_dir(bed.path("outside")).unwrap();
    let above = bed.restored("out", "");
    fs::create_dir_all(&above).unwrap();
    let link = above.join("home");
    symlink(bed.path("outside"), &link).unwrap();
    let refused = |why: &str| {
        restore(&bed, &bed.path("out"), &["--include", "home/u/letter"])
            .expect(1)
            .says(&["home/u/letter", why]);
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(bed.path("outside")).unwrap().count(), 0);
    };
    refused("leads out of the target");
    if rustix::process::geteuid().is_root() {
        fs::remove_file(&link).unwrap();
        fs::create_dir(above.join("inside")).unwrap();
        symlink("inside", &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(12_345), None).unwrap();
        refused("belongs to another user");
        // The way of the user's own link leads over another user's.
        fs::remove_file(&link).unwrap();
        let (theirs, next) = (above.join("theirs"), above.join("theirs/next"));
        fs::create_dir(&theirs).unwrap();
        symlink("../inside", &next).unwrap();
        for path in [&theirs, &next] {
            std::os::unix::fs::lchown(path, Some(12_345), None).unwrap();
        }
        symlink("theirs/next", &link).unwrap();
        refused("belongs to another user");
        std::os::unix::fs::lchown(&next, Some(0), None).unwrap();
        restore(&bed, &bed.path("out"), &["--include", "home/u/letter"]).expect(0);
        assert_eq!(fs::read_to_string(above.join("inside/u/letter")).unwrap(), "dear");
    }
    fs::remove_file(&link).unwrap();
    symlink(&link, &link).unwrap();
    refused("leads to no folder");
    fs::remove_file(&link).unwrap();
    fs::write(&link, "a file").unwrap();
    restore(&bed, &bed.path("out"), &["--include", "home/u/letter"]).expect(1);
    assert_eq!(fs::read_to_string(&link).unwrap(), "a file");
}

/// The same holds for the file of a stream.
#[test]
fn a_stream_is_not_restored_over_others_links() {
    let bed = Bed::new();
    bed.fed(
        ["backup", "--stdin", "--stdin-filename", "/home/u/dump"],
        b"stream",
    )
    .expect(0);
    let out = bed.path("out");
    for folder in ["outside", "out/inside/u"] {
        fs::create_dir_all(bed.path(folder)).unwrap();
    }
    symlink("../outside", out.join("home")).unwrap();
    restore(&bed, &out, &[])
        .expect(1)
        .says(&["home/u/dump", "leads out of the target"]);
    assert_eq!(fs::read_dir(bed.path("outside")).unwrap().count(), 0);
    fs::remove_file(out.join("home")).unwrap();
    symlink("inside", out.join("home")).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::lchown(out.join("home"), Some(12_345), None).unwrap();
        restore(&bed, &out, &[])
            .expect(1)
            .says(&["belongs to another user"]);
        std::os::unix::fs::lchown(out.join("home"), Some(0), None).unwrap();
    }
    assert_eq!(fs::read_dir(out.join("inside/u")).unwrap().count(), 0);
    restore(&bed, &out, &["--verify"]).expect(0);
    assert_eq!(fs::read(out.join("inside/u/dump")).unwrap(), b"stream");
    fs::remove_dir_all(out.join("inside/u")).unwrap();
    fs::write(out.join("inside/u"), "a file").unwrap();
    restore(&bed, &out, &[]).expect(1).says(&["is not all folders"]);
}

/// The restore replaces the link, so what is behind it does not stay.
#[test]
fn files_in_a_requested_folder_that_became_a_link_are_restored() {
    for overwrite in ["if-changed", "always"] {
        let bed = letter();
        fs::rename(bed.path("home/u"), bed.path("home/moved")).unwrap();
        symlink("moved", bed.path("home/u")).unwrap();
        let more = ["--overwrite", overwrite];
        let would = restore(&bed, Path::new("/"), &[&more[..], &["--dry-run"]].concat()).expect(0);
        assert!(would.out().contains("would restore 2 files"), "{}", would.out());
        restore(&bed, Path::new("/"), &more).expect(0);
        assert!(bed.path("home/u").symlink_metadata().unwrap().is_dir());
        for (file, text) in [("letter", "dear"), ("other", "other")] {
            assert_eq!(fs::read_to_string(bed.path("home/u").join(file)).unwrap(), text);
            assert_eq!(
                fs::read_to_string(bed.path("home/moved").join(file)).unwrap(),
                text
            );
        }
    }
}

#[test]
fn folders_above_the_paths_that_were_backed_up_stay_as_they_are() {
    let bed = Bed::new();
    fs::create_dir_all(bed.path("a/b")).unwrap();
    fs::write(bed.path("a/b/file"), "x").unwrap();
    bed.ok(["backup", "a/b"]);
    fs::set_permissions(bed.path("a"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::remove_dir_all(bed.path("a/b")).unwrap();
    set_mtime(&bed.path("a"), 1_500_000_000);
    let before = marks(&bed.path("a"));
    restore(&bed, Path::new("/"), &[]).expect(0);
    assert_eq!(marks(&bed.path("a")), before);
    assert_eq!(fs::read_to_string(bed.path("a/b/file")).unwrap(), "x");
}

#[test]
fn a_name_that_was_restored_already_is_an_error_that_names_both() {
    for (names, first, second) in [
        (Names::CaseInsensitive, "README", "readme"),
        (Names::Normalizing, "a\u{308}", "\u{e4}"),
    ] {
        let bed = Bed::new();
        for (name, text) in [(first, "first"), (second, "the second")] {
            let folder = format!("folder-{name}/sub");
            fs::create_dir_all(bed.path("src").join(&folder)).unwrap();
            fs::write(bed.path("src").join(folder).join("deep"), text).unwrap();
            fs::write(bed.path("src").join(name), text).unwrap();
            fs::write(bed.path("src").join(format!("folder-{name}/same")), text).unwrap();
            symlink(text, bed.path("src").join(format!("link-{name}"))).unwrap();
        }
        fs::write(bed.path("src/last"), noise(2_000_000, 1)).unwrap();
        bed.ok(["backup", "src"]);
        for overwrite in ["always", "if-changed", "if-newer", "never"] {
            let Some(disk) = mount(Options {
                names,
                ..Options::default()
            }) else {
                return;
            };
            let there = disk.path().join(bed.path("src").strip_prefix("/").unwrap());
            for is_again in [false, true] {
                let ran = restore(&bed, disk.path(), &["--overwrite", overwrite, "--json"])
                    .expect(1)
                    .says(&[&format!("/src/{first}"), &format!("/src/{second}"), "the same"]);
                let summary = last(&ran);
                if !is_again || overwrite == "always" {
                    assert_eq!(summary["files_kept"], 0, "{overwrite}: {summary}");
                    let bytes = 2_000_000 + 3 * "first".len();
                    assert_eq!(
                        summary["bytes_restored"], bytes,
                        "of what got its name: {summary}"
                    );
                }
                assert!(ran.err().contains(&format!("link-{first}")), "{}", ran.err());
                let text = |name: &str| fs::read_to_string(there.join(name)).unwrap();
                assert_eq!(text(first), "first", "{overwrite}");
                for name in ["same", "sub/deep"] {
                    assert_eq!(text(&format!("folder-{first}/{name}")), "first", "{overwrite}");
                }
                let link = fs::read_link(there.join(format!("link-{first}"))).unwrap();
                assert_eq!(link, Path::new("first"), "{overwrite}");
                assert_eq!(fs::read(there.join("last")).unwrap(), noise(2_000_000, 1));
            }
        }
    }
}

#[test]
fn a_file_gets_its_name_only_when_it_is_whole() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    let len = 40_000_000;
    fs::write(bed.path("src/large"), noise(len, 3)).unwrap();
    bed.ok(["backup", "src"]);
    let disks = [None, mount(Options::default())];
    for disk in &disks {
        let target = disk
            .as_ref()
            .map_or_else(|| bed.path("out"), |disk| disk.path().to_owned());
        let there = target.join(bed.path("src").strip_prefix("/").unwrap());
        for (end, old) in [
            (rustix::process::Signal::KILL, None),
            (rustix::process::Signal::TERM, None),
            (rustix::process::Signal::KILL, Some("old")),
        ] {
            drop(fs::remove_dir_all(&there));
            if let Some(text) = old {
                fs::create_dir_all(&there).unwrap();
                fs::write(there.join("large"), text).unwrap();
            }
            let args = ["restore", "latest", "-t", target.to_str().unwrap()];
            let mut child = bed.command(args).stderr(Stdio::null()).spawn().unwrap();
            // While the restore writes, or after it if it was too fast.
            let process = child.id();
            wait_until(|| {
                let counted = fs::read_to_string(format!("/proc/{process}/io")).unwrap_or_default();
                let written = counted.lines().find_map(|line| line.strip_prefix("wchar: "));
                written.is_none_or(|written| written.parse::<usize>().is_ok_and(|n| n > len / 4))
            });
            signal(&child, end);
            child.wait().unwrap();
            match fs::read(there.join("large")) {
                Ok(bytes) => {
                    assert!(bytes == noise(len, 3) || old.is_some_and(|old| bytes == old.as_bytes()))
                }
                Err(_) => assert!(old.is_none()),
            }
            let mode = if old.is_some() { "always" } else { "never" };
            restore(&bed, &target, &["--overwrite", mode]).expect(0);
            assert!(fs::read(there.join("large")).unwrap() == noise(len, 3));
            let left = fs::read_dir(&there).unwrap().count();
            assert_eq!(left, 1, "what was left is removed");
            let modes = (marks(&there).0, marks(&bed.path("src")).0);
            assert_eq!(modes.0, modes.1, "folders too get what is theirs");
        }
    }
}

#[test]
fn files_that_a_restore_keeps_are_neither_read_nor_counted() {
    let bed = Bed::new();
    fs::create_dir_all(bed.path("src/sub")).unwrap();
    for (name, seed) in [("src/a", 1), ("src/sub/b", 2), ("src/z", 3)] {
        fs::write(bed.path(name), noise(1_500_000, seed)).unwrap();
    }
    bed.ok(["backup", "src"]);
    let out = bed.path("out");
    restore(&bed, &out, &[]).expect(0);
    for overwrite in ["if-changed", "if-newer", "never"] {
        let more = ["--overwrite", overwrite];
        let ran = last(&restore(&bed, &out, &[&more[..], &["--json"]].concat()).expect(0));
        assert_eq!(
            (&ran["files_kept"], &ran["files_restored"]),
            (&3.into(), &0.into())
        );
        assert_eq!(
            (&ran["bytes_restored"], &ran["containers_read"]),
            (&0.into(), &0.into())
        );
        assert!(ran["speed_factor"].is_null());
        let text = restore(&bed, &out, &more).expect(0).out();
        assert!(!text.contains("/s)") && !text.contains("from each"), "{text}");
        fs::remove_file(bed.restored("out", "src/sub/b")).unwrap();
        let ran = last(&restore(&bed, &out, &[&more[..], &["--json"]].concat()).expect(0));
        assert_eq!(
            (&ran["files_kept"], &ran["files_restored"]),
            (&2.into(), &1.into())
        );
        assert_eq!(ran["bytes_restored"], 1_500_000);
        assert_eq!(
            fs::read(bed.restored("out", "src/sub/b")).unwrap(),
            noise(1_500_000, 2)
        );
    }
}

#[test]
fn a_restore_ends_on_a_full_target_and_can_be_continued() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    for n in 0..60 {
        fs::write(bed.path(format!("src/{n:02}")), noise(50_000, n)).unwrap();
    }
    set_mtime(&bed.path("src"), 86_400);
    bed.ok(["backup", "src"]);
    let room_bytes = Some(1_000_000);
    let Some(disk) = mount(Options {
        room_bytes,
        ..Options::default()
    }) else {
        return;
    };
    let ran = restore(&bed, disk.path(), &[])
        .expect(1)
        .says(&["--overwrite if-changed"]);
    assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
    let there = disk.path().join(bed.path("src").strip_prefix("/").unwrap());
    let facts = || fs::metadata(&there).unwrap();
    assert_eq!(facts().mode() & 0o7777, 0o1700, "the folder is not complete");
    disk.set_room_bytes(u64::MAX);
    let ran = restore(&bed, disk.path(), &["--overwrite", "never", "--json"]).expect(0);
    assert_eq!((facts().mode() & 0o7777, facts().mtime()), (0o755, 86_400));
    assert!(last(&ran)["bytes_restored"].as_u64().unwrap() <= 41 * 50_000);
    for n in 0..60 {
        assert_eq!(fs::read(there.join(format!("{n:02}"))).unwrap(), noise(50_000, n));
    }
}

#[test]
fn a_dump_that_cannot_be_written_names_its_output() {
    let bed = letter();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let ran: Ran = bed
        .command(["dump", "latest", "home/u/letter"])
        .stdout(full)
        .output()
        .unwrap()
        .into();
    ran.expect(1).says(&["standard output"]);
}

#[test]
fn a_second_copy_that_saved_a_read_is_reported() {
    let bed = letter();
    let mut damaged = 0;
    for folder in ["recipe", "small"] {
        for path in bed.objects(folder) {
            let mut bytes = fs::read(&path).unwrap();
            bytes.iter_mut().for_each(|byte| *byte ^= 0x55);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            fs::write(&path, bytes).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    let ran = restore(&bed, &bed.path("out"), &[])
        .expect(0)
        .says(&["the first copy of", "The second copy was read"]);
    assert_eq!(
        ran.err().matches("first copy").count(),
        damaged,
        "once each: {}",
        ran.err()
    );
    let ran = restore(&bed, &bed.path("again"), &["--json"]).expect(0);
    let line = ran
        .err()
        .lines()
        .next()
        .map(serde_json::from_str::<serde_json::Value>);
    let line = line.unwrap().unwrap();
    assert!(line["message"].as_str().unwrap().contains("first copy"));
    assert_eq!(line["kind"], "mirror_read");
}
