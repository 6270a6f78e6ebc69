//! Backups of real file systems and restores to them: subvolumes of btrfs, more holes than a
//! listing notes, attributes that do not fit, disks that are full, mounts that are read-only.
//!
//! All of them are images on loop devices, or tmpfs, in a mount namespace of the test's own.

use std::fs;
use std::process::Command;

use rustix::fs::XattrFlags;

use crate::bed::{Bed, Ran, last, lines, noise};
use crate::sources::{listed, skip, with_mounts};

/// The beginning of every script.
const SHELL: &str = r#"
    onefold() { "$ONEFOLD" --insecure-no-password "$@"; }
    code() { want=$1; shift; got=0; onefold "$@" || got=$?; [ $got = $want ] || { echo "$* ended with $got"; exit 1; }; }
    ext4() { mkfs.ext4 -q -m 0 -O ^has_journal "$@"; }
    loop() { mkdir "$2"; mount -o loop "$1" "$2"; }
"#;

/// Whether this process may make loop devices.
pub(crate) fn has_loop_devices() -> bool {
    let mut options = fs::File::options();
    options.read(true).write(true).open("/dev/loop-control").is_ok()
}

/// Runs a script on file systems that this program makes. `None`: this machine lacks the means.
pub(crate) fn on_disks(bed: &Bed, program: &str, script: &str) -> Option<Ran> {
    let has = Command::new(program).arg("-V").output().is_ok() && has_loop_devices();
    if !has {
        skip(&format!("no {program} or no loop devices"));
        return None;
    }
    with_mounts(bed, &format!("{SHELL}{script}"))
}

#[test]
fn subvolumes_of_btrfs_are_left_out_as_other_file_systems_are() {
    let bed = Bed::new();
    // Files of different subvolumes have the same number and two names. Only the device
    // distinguishes them.
    let script = "
        truncate -s 128M image; mkfs.btrfs -q image > made
        mkdir src; mount -t btrfs -o loop image src || { echo no btrfs; exit 77; }
        mkdir src/plain
        for made in one one/nested two plain/deep; do btrfs -q subvolume create src/$made; done
        for made in one one/nested two plain plain/deep; do
            echo $made > src/$made/file; ln src/$made/file src/$made/twin
        done
        btrfs -q subvolume snapshot -r src/one src/snap
        mkdir src/plain/bound; mount --bind src/two src/plain/bound
        touch src/plain/one; mount --bind src/two/file src/plain/one
        code 0 backup -x src -q
        code 0 backup -x src/one -q
        code 0 backup -x src/plain/bound -q
        code 0 backup src --exclude bound -q
        code 0 backup -x src src/one/nested -q
        code 0 restore 4 -t out -q
    ";
    let Some(ran) = on_disks(&bed, "mkfs.btrfs", script) else {
        return;
    };
    if ran.code == Some(77) {
        skip("the kernel has no btrfs");
        return;
    }
    ran.expect(0);
    let below = |id: &str, folder: &str| listed(&bed.ok(["ls", id]).out(), folder);
    let inside = ["plain", "plain/bound", "plain/deep", "plain/file", "plain/twin"];
    let top = |nested: &[&'static str]| {
        let mut all = vec!["one"];
        all.extend(nested);
        all.extend(inside);
        all.extend(["snap", "two"]);
        all
    };
    assert_eq!(below("1", "src"), top(&[]), "empty folders stand for subvolumes");
    assert_eq!(below("2", "src/one"), ["file", "nested", "twin"]);
    assert_eq!(below("3", "src/plain/bound"), ["file", "twin"]);
    let nested = ["one/nested", "one/nested/file", "one/nested/twin"];
    assert_eq!(
        below("5", "src"),
        top(&nested),
        "a subvolume that was named itself"
    );
    let all = below("4", "src");
    for name in ["snap/file", "snap/nested", "one/nested/twin", "plain/deep/file"] {
        assert!(all.iter().any(|path| path == name), "no {name} in {all:?}");
    }
    for name in ["one", "one/nested", "two", "plain", "plain/deep", "snap"] {
        let back = bed.restored("out", "src").join(name);
        let text = if name == "snap" { "one" } else { name };
        for file in ["file", "twin"] {
            let is = fs::read_to_string(back.join(file)).unwrap();
            assert_eq!(is, format!("{text}\n"), "{name}/{file}");
        }
    }
}

#[test]
fn a_file_with_more_holes_than_are_noted_comes_back_as_sparse() {
    let bed = Bed::new();
    // Blocks of data and holes alternate. Then comes a hole of 24 MiB that the listing has no room
    // for.
    let script = r#"
        truncate -s 200M image; ext4 -b 1024 image; loop image disk
        line=$(head -c 1024 /dev/zero | tr '\0' d)$(head -c 1023 /dev/zero | tr '\0' z)
        yes "$line" | tr 'z\n' '\0\0' | head -c $((65600 * 2048)) |
            dd of=disk/holes bs=1k iflag=fullblock conv=sparse status=none
        truncate -s +24M disk/holes; echo end >> disk/holes
        code 0 backup disk --exclude lost+found -q
        code 0 restore 1 -t disk/out -q
        cmp disk/holes "disk/out$(pwd)/disk/holes"
        stat -c %b disk/holes "disk/out$(pwd)/disk/holes" > blocks
    "#;
    let Some(ran) = on_disks(&bed, "mkfs.ext4", script) else {
        return;
    };
    ran.expect(0);
    let blocks: Vec<u64> = fs::read_to_string(bed.path("blocks"))
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    let (was, is) = (blocks[0], blocks[1]);
    assert!(
        was > 2 * (1 << 16),
        "the file system kept the holes: {was} sectors"
    );
    let more_kib = is.saturating_sub(was) / 2;
    assert!(more_kib < 4 << 10, "{more_kib} KiB more than the source has");
}

#[test]
fn attributes_that_do_not_fit_are_a_fault_of_their_entry_and_no_full_disk() {
    let bed = Bed::new();
    fs::create_dir_all(bed.path("src/folder")).unwrap();
    for name in ["a", "b", "folder/c"] {
        fs::write(bed.path("src").join(name), name).unwrap();
    }
    fs::write(bed.path("src/noise"), noise(3_000_000, 5)).unwrap();
    // Beyond the reach of 32-bit block numbers with blocks of 1 KiB.
    let huge = fs::File::create(bed.path("src/huge")).unwrap();
    if huge.set_len(5 << 40).is_err() {
        skip("temporary files cannot be so long");
        return;
    }
    // A block of 1 KiB has no room for these attributes, and a block of 4 KiB has.
    for name in ["src/b", "src/folder"] {
        let value = [b'x'; 2500];
        if rustix::fs::setxattr(bed.path(name), "user.big", &value, XattrFlags::empty()).is_err() {
            skip("temporary files have no attributes here");
            return;
        }
    }
    let script = "
        code 0 backup src -q
        truncate -s 16M image; ext4 -b 1024 image; loop image roomy
        code 1 restore 1 -t roomy --json > summary 2> told
        truncate -s 1M small; ext4 -b 1024 small; loop small narrow
        code 1 restore 1 -t narrow -q 2> full
        cp -r roomy back
    ";
    let Some(ran) = on_disks(&bed, "mkfs.ext4", script) else {
        return;
    };
    let ran = Ran {
        out: fs::read(bed.path("summary")).unwrap(),
        ..ran.expect(0)
    };
    let summary = last(&ran);
    assert_eq!(summary["files_restored"], 4, "{summary}");
    assert_eq!(summary["others_restored"], 2, "{summary}");
    let text = |name: &str| fs::read_to_string(bed.path(name)).unwrap();
    let told = text("told");
    assert_eq!(told.lines().count(), 3, "{told}");
    for name in ["src/b", "src/folder", "src/huge"] {
        assert!(told.contains(name), "no {name} in {told}");
    }
    // "a", "b" and "folder/c", and no entry that failed.
    assert_eq!(summary["bytes_restored"], 3_000_000 + 10, "{summary}");
    assert!(
        told.contains("extended attributes") && !told.contains("make room"),
        "{told}"
    );
    let back = bed.path("back").join(bed.path("src").strip_prefix("/").unwrap());
    for name in ["a", "b", "folder/c"] {
        assert_eq!(fs::read_to_string(back.join(name)).unwrap(), name);
    }
    assert!(fs::read(back.join("noise")).unwrap() == noise(3_000_000, 5));
    let full = text("full");
    let ends = full.lines().filter(|line| line.contains("make room")).count();
    assert_eq!(ends, 1, "a disk that is full is another matter: {full}");
}

#[test]
fn a_read_only_mount_is_reported_as_one_and_not_as_a_missing_right() {
    let bed = Bed::bare();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/file"), "content").unwrap();
    let script = format!(
        "{SHELL}
        export ONEFOLD_REPOSITORY=$(pwd)/disk/store
        mkdir disk plain real; mount -t tmpfs none disk; mount --bind real plain
        code 0 init -q > made; code 0 backup src -q
        ONEFOLD_REPOSITORY=$(pwd)/plain/store code 0 init -q >> made
        ONEFOLD_REPOSITORY=$(pwd)/plain/store code 0 backup src -q
        mount -o remount,ro disk; mount -o remount,ro,bind plain
        for store in disk/store plain/store; do
            export ONEFOLD_REPOSITORY=$(pwd)/$store
            try() {{ : > told; code 1 \"$@\" > said 2> told; sed \"s|^|$1 $store: |\" told >> refused; }}
            try backup src; try prune; try forget 1; try tag 1 --add x; try hold 1 --for 1d
            try optimize; try index rebuild; try series set --default --layout hybrid
            for reads in 'check' 'check --read-data' 'snapshots' 'ls latest' 'restore latest -t out'; do
                code 0 $reads > said 2> told; sed \"s|^|$reads: |\" told >> warned
            done
            ONEFOLD_REPOSITORY=$(pwd)/$(dirname $store)/new try init
            ONEFOLD_REPOSITORY=$(pwd)/$(dirname $store) try init
        done"
    );
    let Some(ran) = with_mounts(&bed, &script) else {
        return;
    };
    ran.expect(0);
    let text = |name: &str| fs::read_to_string(bed.path(name)).unwrap();
    let refused = text("refused");
    let lines = refused.lines();
    assert_eq!(lines.clone().count(), 20, "a line a command: {refused}");
    for line in lines {
        // Only `init` can report that a folder has a store already.
        let is_there = line.starts_with("init") && line.contains("a store here already");
        assert!(is_there || line.contains("mounted read-only"), "{line}");
    }
    let warned = text("warned");
    assert!(warned.contains("mounted read-only"), "{warned}");
    for words in ["ermission", "rights", "not permitted", "os error"] {
        assert!(
            !refused.contains(words) && !warned.contains(words),
            "{refused}{warned}"
        );
    }
}

/// The inode and the time of modification of each of these, as `stat` prints them.
fn stats(text: &str) -> Vec<(&str, &str)> {
    text.lines().map(|line| line.split_once(' ').unwrap()).collect()
}

#[test]
fn times_that_a_file_system_rounds_count_as_equal() {
    let bed = Bed::new();
    // Inodes of 128 bytes store only whole seconds.
    let script = r#"
        mkdir src; echo one > src/a; ln src/a src/b; ln -s a src/c; ln src/c src/d
        touch -h -d '2021-01-01 00:00:07.987654321 UTC' src/a src/c
        code 0 backup src -q
        truncate -s 8M image; ext4 -I 128 image; loop image disk; there=disk$(pwd)/src
        code 0 restore 1 -t disk --overwrite never -q
        stat -c '%i %Y' "$there/a" "$there/c" > first
        for way in never if-newer if-changed; do
            rm "$there/b" "$there/d"
            code 0 restore 1 -t disk --overwrite $way --json > $way
            stat -c '%i %Y' "$there/a" "$there/c" > after-$way
            stat -c '%i %Y' "$there/b" "$there/d" > twins-$way
        done
        touch -d '2021-01-01 00:00:06 UTC' "$there/a"
        code 0 restore 1 -t disk --overwrite if-changed --json > changed
        # Where there are nanoseconds, a whole second is another time.
        mkdir fine; mount -t tmpfs none fine; mkdir -p "fine$(pwd)/src"
        echo two > "fine$(pwd)/src/a"; touch -d '2021-01-01 00:00:07 UTC' "fine$(pwd)/src/a"
        code 0 restore 1 -t fine --overwrite if-newer --json > newer
        cat "fine$(pwd)/src/a" > now
    "#;
    let Some(ran) = on_disks(&bed, "mkfs.ext4", script) else {
        return;
    };
    ran.expect(0);
    let text = |name: &str| fs::read_to_string(bed.path(name)).unwrap();
    let summary = |name: &str| lines(text(name).as_bytes()).pop().unwrap();
    let first = text("first");
    for way in ["never", "if-newer", "if-changed"] {
        let ran = summary(way);
        assert_eq!(ran["files_restored"], 0, "{way}: {ran}");
        assert_eq!(text(&format!("after-{way}")), first, "{way}");
        let twins = text(&format!("twins-{way}"));
        assert_eq!(stats(&twins), stats(&first), "links, and no copies: {way}");
    }
    assert_eq!(summary("changed")["files_restored"], 1);
    assert_eq!(summary("newer")["files_restored"], 1);
    assert_eq!(text("now"), "one\n");
}
