//! Unusual sources: a deleted current folder, mounts.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use crate::bed::{Bed, Ran, last};

#[expect(
    clippy::print_stdout,
    reason = "who runs the test is told why it tried nothing"
)]
pub(crate) fn skip(why: &str) {
    println!("skipped: {why}");
}

/// Runs the program in a shell whose current folder was deleted.
fn from_nowhere(bed: &Bed, args: &[&str]) -> Ran {
    let gone = bed.path("gone");
    fs::create_dir(&gone).unwrap();
    let plain = bed.command(args);
    let mut command = Command::new("sh");
    command
        .args(["-c", "rmdir \"$PWD\" && exec \"$0\" \"$@\""])
        .arg(plain.get_program())
        .args(plain.get_args())
        .current_dir(&gone);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().unwrap().into()
}

#[test]
fn absolute_paths_do_not_need_the_current_folder() {
    let bed = Bed::bare();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/file"), "content").unwrap();
    let absolute = |name: &str| bed.path(name).display().to_string();
    let (src, file, out) = (absolute("src"), absolute("src/file"), absolute("out"));
    let nowhere = |args: &[&str]| from_nowhere(&bed, args);
    nowhere(&["init"]).expect(0);
    let made = last(&nowhere(&["backup", &src, "--json"]).expect(0));
    assert_eq!(made["files_new"].as_u64(), Some(1));
    nowhere(&["backup", "--image-kib", "64", &file]).expect(0);
    nowhere(&["snapshots", "--path", &src]).expect(0);
    assert!(
        nowhere(&["ls", "latest", "--path", &src, &file])
            .expect(0)
            .out()
            .contains("/src/file")
    );
    nowhere(&[
        "restore",
        "latest",
        "--path",
        &src,
        "-t",
        &out,
        "--include",
        &file,
    ])
    .expect(0);
    assert_eq!(fs::read(bed.restored("out", "src/file")).unwrap(), b"content");
    assert_eq!(
        nowhere(&["dump", "latest", "--path", &src, &file]).expect(0).out,
        b"content"
    );
    nowhere(&[
        "series", "set", "--path", &src, "--layout", "hybrid", "--live", "3",
    ])
    .expect(0);
    nowhere(&["series", "show", "--path", &src]).expect(0);
    nowhere(&["tag", "--path", &src, "--add", "kept"]).expect(0);
    nowhere(&["forget", "--path", &src, "--keep-last", "1"]).expect(0);
    for args in [
        &["prune"][..],
        &["check"],
        &["stats"],
        &["optimize"],
        &["index", "rebuild"],
        &["series", "list"],
        &["analyze", &src, "--output", &absolute("report.html")],
    ] {
        nowhere(args).expect(0);
    }
    for args in [
        &["backup", "src"][..],
        &["ls", "latest", "src"],
        &["backup", &src, "."],
    ] {
        nowhere(args).expect(1).says(&["is relative", "absolute path"]);
    }
}

/// Runs a shell script in a mount namespace that ends with it; `$ONEFOLD` is the binary. `None` if
/// this user may not mount.
pub(crate) fn with_mounts(bed: &Bed, script: &str) -> Option<Ran> {
    let may = Command::new("unshare")
        .args(["--mount", "mount", "-t", "tmpfs", "none", "/mnt"])
        .output();
    if !may.is_ok_and(|ran| ran.status.success()) {
        skip("mounting needs the superuser");
        return None;
    }
    let plain = bed.command(["version"]);
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-ec", script])
        .env("ONEFOLD", plain.get_program())
        .env("ONEFOLD_REPOSITORY", bed.store())
        .current_dir(bed.path(""));
    Some(command.output().unwrap().into())
}

/// The paths that a backup has below a folder, relative to it.
pub(crate) fn listed(ls: &str, folder: &str) -> Vec<String> {
    let below = format!("/{folder}/");
    ls.lines()
        .filter_map(|line| Some(line.split_once(&below)?.1.to_owned()))
        .collect()
}

/// An overlay of two file systems, with all kinds of mounts in it. Its files show the devices of
/// their layers.
const OVERLAY: &str = "
    mkdir lower upper merged else
    mount -t tmpfs lower lower
    mount -t tmpfs upper upper
    mkdir -p lower/dir lower/mnt lower/bound upper/up upper/work
    echo lower > lower/dir/low; ln lower/dir/low lower/dir/twin; touch lower/one
    mount -t overlay overlay -o lowerdir=lower,upperdir=upper/up,workdir=upper/work merged
    echo upper > merged/dir/up
    mount -t tmpfs inner merged/mnt; echo inner > merged/mnt/inner
    echo else > else/thing
    mount --bind else merged/bound; mount --bind else/thing merged/one
";

#[test]
fn a_file_of_an_overlay_belongs_to_the_mount_that_it_is_in() {
    let bed = Bed::new();
    let script = format!(
        "{OVERLAY}
        onefold() {{ \"$ONEFOLD\" --insecure-no-password \"$@\"; }}
        sleep 0.1 # a file as young as the backup before is read again
        onefold backup -x merged --json > first
        onefold backup -x merged --json > second
        onefold backup merged --exclude merged/mnt --exclude '/**/bound' -q
        onefold restore 1 -t out -q"
    );
    let Some(ran) = with_mounts(&bed, &script) else {
        return;
    };
    ran.expect(0);
    let paths = |id: &str| listed(&bed.ok(["ls", id]).out(), "merged");
    assert_eq!(
        paths("1"),
        ["bound", "dir", "dir/low", "dir/twin", "dir/up", "mnt"],
        "what is mounted in it is left out, and folders that it is mounted on are there"
    );
    // The summary; on a slow machine status lines come before it.
    let second = fs::read_to_string(bed.path("second")).unwrap();
    let second: serde_json::Value = serde_json::from_str(second.lines().last().unwrap()).unwrap();
    assert_eq!(second["files_unmodified"].as_u64(), Some(2), "{second}");
    assert_eq!(paths("3"), ["dir", "dir/low", "dir/twin", "dir/up", "one"]);
    let back = bed.restored("out", "merged/dir");
    assert_eq!(fs::read(back.join("up")).unwrap(), b"upper\n");
    let inode = |name: &str| fs::metadata(back.join(name)).unwrap().ino();
    assert_eq!(inode("low"), inode("twin"), "two names of one file");
}

/// A FUSE file system of another user, without a server. No other user may look at it, not even
/// root.
const OF_ANOTHER_USER: &str = "
    mkdir -p src/theirs src/own; echo own > src/own/file
    exec 3<>/dev/fuse
    mount -i -t fuse none src/theirs -o fd=3,rootmode=40000,user_id=12345,group_id=12345
    ! stat src/theirs 2> refused
";

#[test]
fn excluded_files_need_not_be_readable() {
    let bed = Bed::new();
    if !Path::new("/dev/fuse").exists() {
        skip("there is no /dev/fuse");
        return;
    }
    let script = format!(
        "{OF_ANOTHER_USER}
        onefold() {{ \"$ONEFOLD\" --insecure-no-password \"$@\"; }}
        onefold backup -x src -q
        onefold backup src --exclude theirs -q
        ! onefold backup src -q"
    );
    let Some(ran) = with_mounts(&bed, &script) else {
        return;
    };
    let ran = ran.expect(0);
    assert_eq!(
        ran.err().lines().count(),
        1,
        "only who asks for it is told: {}",
        ran.err()
    );
    for id in ["1", "2", "3"] {
        assert_eq!(
            listed(&bed.ok(["ls", id]).out(), "src"),
            ["own", "own/file"],
            "backup {id}"
        );
    }
}
