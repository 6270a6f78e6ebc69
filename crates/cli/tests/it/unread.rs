//! Backups of files that cannot be read to their end, and of times and flags that few file systems
//! have. No entry may look like more than it is.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::bed::{Bed, lines, noise};
use crate::disks::has_loop_devices;
use crate::sources::{listed, skip, with_mounts};

/// An ext4 file system in a file. After `break_it`, `bad` cannot be read from 200 KiB on, because
/// its backing file ends there. `mend_it` restores it.
const FAILING_DISK: &str = r#"
    truncate -s 8M image; mkfs.ext4 -q -m 0 -O ^has_journal image; mkdir -p src/disk
    mount -o loop image src/disk
    echo good > src/disk/good; sync -f src/disk/good
    cp noise src/disk/bad; ln src/disk/bad src/disk/twin; sync -f src/disk/bad
    cp image whole
    forget_cached() { sync -f src/disk/good; echo 3 > /proc/sys/vm/drop_caches; }
    break_it() { forget_cached; truncate -s "$at" image; ! cat src/disk/bad > /dev/null 2> refused; }
    mend_it() { tail -c +$((at + 1)) whole >> image; forget_cached; cat src/disk/bad > /dev/null; }
    onefold() { "$ONEFOLD" --insecure-no-password "$@"; }
    code() { want=$1; shift; got=0; onefold "$@" || got=$?; [ $got = $want ] || { echo "$* ended with $got"; exit 1; }; }
    at=$(LC_ALL=C grep -obUaF -m 1 "$(cat mark)" image | head -n 1 | cut -d : -f 1)
    [ -n "$at" ]
"#;

/// 300 KiB with a line of text in a block at 200 KiB, by which the test finds its place on the
/// disk.
fn noise_with_mark(bed: &Bed) -> Vec<u8> {
    const MARK: &[u8] = b"here the disk fails";
    let mut bytes = noise(300 << 10, 71);
    bytes[200 << 10..][..MARK.len()].copy_from_slice(MARK);
    fs::write(bed.path("noise"), &bytes).unwrap();
    fs::write(bed.path("mark"), MARK).unwrap();
    bytes
}

fn can_make_disks() -> bool {
    let has = Command::new("mkfs.ext4").arg("-V").output().is_ok() && has_loop_devices();
    if !has {
        skip("no mkfs.ext4 or no loop devices");
    }
    has
}

/// Runs these steps in a folder with a disk on which `bad` fails after `break_it`. Returns the
/// store, and the whole content of `bad`. `None`: this machine cannot make such a disk.
fn on_failing_disk(steps: &str) -> Option<(Bed, Vec<u8>)> {
    let bed = Bed::new();
    if !can_make_disks() {
        return None;
    }
    let whole = noise_with_mark(&bed);
    with_mounts(&bed, &format!("{FAILING_DISK}{steps}"))?.expect(0);
    Some((bed, whole))
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_stays_as_it_was() {
    let Some((bed, whole)) = on_failing_disk(
        "
        touch -d '2020-02-02 02:02:02' src/disk/bad
        code 0 backup src -q
        break_it
        touch src/disk/bad
        code 3 backup src --json > second 2> warned
        code 3 backup src --force -q 2>> warned
        for id in 1 2 3; do
            code 0 restore $id -t out$id -q 2>> noted
            code 0 dump $id src/disk/bad > dumped$id 2>> noted
        done
        mend_it
        code 0 backup src -q
        code 0 restore latest -t outlatest -q
        cat src/disk/bad > now
        for way in always if-changed if-newer never; do
            restore() { code 0 restore 2 -t $way --overwrite $way -q 2>> ways; }
            restore
            rm $way$(pwd)/src/disk/good
            restore
        done",
    ) else {
        return;
    };
    let second = lines(&fs::read(bed.path("second")).unwrap()).pop().unwrap();
    assert_eq!(second["files_kept"].as_u64(), Some(1), "{second}");
    let node = |id: &str, name: &str| {
        let ls = bed.ok(["ls", id, "--json"]);
        let found = lines(&ls.out)
            .into_iter()
            .find(|node| node["path"].as_str().is_some_and(|path| path.ends_with(name)));
        found.unwrap()
    };
    for id in ["1", "2", "3", "latest"] {
        let older = ["2", "3"].contains(&id);
        for name in ["disk/bad", "disk/twin"] {
            let content = node(id, name)["content"].as_str() == Some("older");
            assert_eq!(content, older, "{name} of {id}");
        }
        let node = node(id, "disk/bad");
        assert_eq!(node["size"].as_u64(), Some(whole.len() as u64));
        assert_eq!(
            node["mtime"].as_str().unwrap().starts_with("2020-02-02"),
            id != "latest",
            "the time is that of the content: {node}"
        );
        let back = bed.restored(&format!("out{id}"), "src/disk");
        assert!(fs::read(back.join("bad")).unwrap() == whole, "of {id}");
        let inode = |name: &str| fs::metadata(back.join(name)).unwrap().ino();
        assert_eq!(inode("bad"), inode("twin"));
        if id != "latest" {
            assert!(fs::read(bed.path(format!("dumped{id}"))).unwrap() == whole);
        }
    }
    assert!(fs::read(bed.path("now")).unwrap() == whole);
    // In the content of backup 2, the bytes that it read in vain come before the file's own.
    for out in ["always", "if-changed", "if-newer", "never"] {
        let back = bed.restored(out, "src/disk");
        assert!(fs::read(back.join("bad")).unwrap() == whole, "{out}");
        assert_eq!(fs::read(back.join("good")).unwrap(), b"good\n", "{out}");
    }
    let noted = fs::read_to_string(bed.path("noted")).unwrap();
    assert_eq!(noted.matches("of an earlier backup").count(), 4, "{noted}");
    let ls = bed.ok(["ls", "2", "--long"]).out();
    assert_eq!(ls.matches("older: could not be read").count(), 2, "{ls}");
    assert!(bed.ok(["snapshots"]).out().contains("(1 not read as they were)"));
    for (id, prune) in [("1", "0"), ("latest", "unlimited")] {
        bed.ok(["forget", id]);
        bed.ok(["prune", "--max-unused", prune]);
    }
    bed.ok(["restore", "2", "-t", "late"]);
    let back = bed.restored("late", "src/disk/bad");
    assert!(
        fs::read(back).unwrap() == whole,
        "the backup that read the file is gone"
    );
    bed.assert_sound();
}

#[test]
fn a_part_of_a_file_never_passes_for_the_file() {
    let Some((bed, whole)) = on_failing_disk(
        "
        ln src/disk/bad src/disk/zero
        break_it
        code 3 backup src -q 2> warned
        code 3 backup src -q 2> warned
        code 1 dump latest:src/disk -a tar > parts.tar 2> archived
        mkdir parts; tar -xf parts.tar -C parts
        dir=out$(pwd)/src/disk; mkdir -p $dir; echo mine > $dir/bad
        code 1 restore latest -t out -q 2> told
        code 1 dump latest src/disk/bad > dumped 2>> told
        code 0 ls latest > listed 2> marked
        mend_it
        code 0 backup src -q
        code 0 restore latest -t whole-again -q",
    ) else {
        return;
    };
    let back = bed.restored("out", "src/disk");
    assert_eq!(
        fs::read(back.join("bad")).unwrap(),
        b"mine\n",
        "a good copy stays"
    );
    let part = fs::read(back.join("bad.onefold-incomplete")).unwrap();
    assert!(!part.is_empty() && part.len() <= 200 << 10 && part == whole[..part.len()]);
    assert!(!back.join("twin").exists(), "nor has another name of it the part");
    assert_eq!(fs::read(back.join("good")).unwrap(), b"good\n");
    assert!(fs::read(bed.path("dumped")).unwrap().is_empty());
    let archived = fs::read_to_string(bed.path("archived")).unwrap();
    for name in ["bad", "twin", "zero"] {
        let kept = bed.path("parts").join(format!("{name}.onefold-incomplete"));
        assert!(fs::read(kept).unwrap() == part, "{name}");
        assert!(!bed.path("parts").join(name).exists());
        assert!(
            archived.contains(&format!("disk/{name}: incomplete")),
            "{archived}"
        );
    }
    let told = fs::read_to_string(bed.path("told")).unwrap();
    for words in [
        "bad.onefold-incomplete",
        "307200 bytes",
        "twin",
        "could not be read whole when backup",
    ] {
        assert!(told.contains(words), "no {words} in {told}");
    }
    let marked = fs::read_to_string(bed.path("marked")).unwrap();
    assert!(marked.contains("of 307200 bytes could be read"), "{marked}");
    assert_eq!(marked.lines().count(), 3, "{marked}");
    let again = bed.restored("whole-again", "src/disk");
    assert!(fs::read(again.join("bad")).unwrap() == whole);
    assert!(fs::read(again.join("twin")).unwrap() == whole);
    assert!(!bed.ok(["ls", "latest", "--long"]).out().contains("incomplete"));
    bed.assert_sound();
}

#[test]
fn a_new_name_of_a_file_does_not_push_out_its_good_version() {
    let Some((bed, whole)) = on_failing_disk(
        "
        code 0 backup src -q
        ln src/disk/bad src/disk/also
        break_it
        code 3 backup src -q 2> warned
        code 1 restore latest -t out -q 2> told
        code 1 dump latest:src/disk -a tar 2> archived > /dev/null
        code 0 dump latest src/disk/twin > dumped 2> noted",
    ) else {
        return;
    };
    let archived = fs::read_to_string(bed.path("archived")).unwrap();
    assert!(
        archived.contains("1 of the files are of an earlier backup"),
        "{archived}"
    );
    let back = bed.restored("out", "src/disk");
    assert!(back.join("also.onefold-incomplete").exists() && !back.join("also").exists());
    assert!(fs::read(back.join("bad")).unwrap() == whole);
    let inode = |name: &str| fs::metadata(back.join(name)).unwrap().ino();
    assert_eq!(inode("bad"), inode("twin"));
    assert!(fs::read(bed.path("dumped")).unwrap() == whole);
    bed.assert_sound();
}

#[test]
fn entries_that_cannot_be_examined_stay_as_in_the_backup_before() {
    let bed = Bed::new();
    if !Path::new("/dev/fuse").exists() {
        skip("there is no /dev/fuse");
        return;
    }
    let script = "
        onefold() { \"$ONEFOLD\" --insecure-no-password \"$@\"; }
        code() { want=$1; shift; got=0; onefold \"$@\" || got=$?; [ $got = $want ] || { echo \"$* ended with $got\"; exit 1; }; }
        mkdir -p src/a src/theirs/deep src/z
        echo one > src/a/first; ln src/a/first src/theirs/first
        echo two > src/theirs/deep/two; ln src/theirs/deep/two src/theirs/deep/zwei
        mkfifo src/theirs/deep/pipe; ln src/theirs/deep/pipe src/theirs/deep/tube
        ln -s nowhere src/a/link; ln src/a/link src/theirs/deep/link
        echo gone > src/a/gone; echo left > src/theirs/left-out; echo z > src/z/last
        code 0 backup src -q
        exec 3<>/dev/fuse
        mount -i -t fuse none src/theirs -o fd=3,rootmode=40000,user_id=12345,group_id=12345
        rm src/a/gone
        code 3 backup src --exclude left-out --json > second 2> told
        code 3 backup src --exclude left-out -q 2> told
        umount src/theirs
        code 0 restore 3 -t out -q
        code 0 backup src -q
    ";
    let Some(ran) = with_mounts(&bed, script) else {
        return;
    };
    ran.expect(0);
    let paths = |id: &str| listed(&bed.ok(["ls", id]).out(), "src");
    let all = [
        "a",
        "a/first",
        "a/link",
        "theirs",
        "theirs/deep",
        "theirs/deep/link",
        "theirs/deep/pipe",
        "theirs/deep/tube",
        "theirs/deep/two",
        "theirs/deep/zwei",
        "theirs/first",
        "z",
        "z/last",
    ];
    assert_eq!(paths("2"), all);
    assert_eq!(paths("3"), all, "and stays so");
    let back = bed.restored("out", "src");
    let read = |name: &str| fs::read_to_string(back.join(name)).unwrap();
    assert_eq!(
        [read("theirs/first"), read("theirs/deep/two"), read("z/last")],
        ["one\n", "two\n", "z\n"]
    );
    let inode = |name: &str| fs::metadata(back.join(name)).unwrap().ino();
    assert_eq!(inode("theirs/deep/two"), inode("theirs/deep/zwei"));
    assert_eq!(inode("theirs/deep/pipe"), inode("theirs/deep/tube"));
    let link = fs::read_link(back.join("theirs/deep/link")).unwrap();
    assert_eq!(link, Path::new("nowhere"));
    assert!(!bed.ok(["ls", "latest", "--long"]).out().contains("older"));
    bed.assert_sound();
}

#[test]
fn times_that_no_64_bits_of_nanoseconds_reach_are_kept() {
    let bed = Bed::new();
    let script = "
        onefold() { \"$ONEFOLD\" --insecure-no-password \"$@\"; }
        mkdir src; mount -t tmpfs none src; mkdir out; mount -t tmpfs none out
        mkdir src/folder; ln -s folder src/link
        touch -d '1600-01-01 00:00:00.000000007 UTC' src/old; touch -d '2400-12-31 23:59:59.999999999 UTC' src/new
        touch -h -d '1500-01-01 UTC' src/link; touch -d '3000-01-01 UTC' src/folder
        onefold backup src -q
        onefold restore 1 -t out -q
        (cd src; stat -c '%n %y' old new link folder) > before
        (cd out$(pwd)/src; stat -c '%n %y' old new link folder) > after
        onefold ls 1 --long > listed
        truncate -s 8M image; mkfs.ext4 -q image; mkdir disk; mount -o loop image disk
        got=0; onefold restore 1 -t disk -q 2> told || got=$?; [ $got = 1 ]
    ";
    if !can_make_disks() {
        return;
    }
    let Some(ran) = with_mounts(&bed, script) else {
        return;
    };
    ran.expect(0);
    let text = |name: &str| fs::read_to_string(bed.path(name)).unwrap();
    assert_eq!(text("before"), text("after"));
    assert!(text("after").contains("1600-01-01"), "{}", text("after"));
    for year in ["1600-01-01", "2400-12-31", "1500-01-01", "3000-01-01"] {
        assert!(text("listed").contains(year), "no {year} in {}", text("listed"));
    }
    let told = text("told");
    for name in ["old", "link", "folder"] {
        assert!(
            told.contains(&format!("src/{name}: its time is beyond")),
            "{told}"
        );
    }
    assert!(!told.contains("src/new"), "2400 is a year that ext4 has: {told}");
}

#[test]
fn flags_are_restored_and_block_no_other_write() {
    let bed = Bed::new();
    if !can_make_disks() || Command::new("chattr").arg("-V").output().is_err() {
        skip("no chattr");
        return;
    }
    let script = "
        onefold() { \"$ONEFOLD\" --insecure-no-password \"$@\"; }
        disk() { truncate -s 8M $1.image; mkfs.ext4 -q $1.image; mkdir $1; mount -o loop $1.image $1; }
        disk src; disk out
        mkdir src/folder src/still; echo fixed > src/folder/fixed; ln src/folder/fixed src/twin
        echo log > src/log; echo plain > src/plain; : > src/still/inside
        chattr +i src/folder/fixed; chattr +a src/log; chattr +dA src/plain; chattr +i src/still
        onefold backup src -q
        onefold backup src --json > second
        onefold restore latest -t out -q
        onefold restore latest -t out --overwrite if-changed -q
        see() { (cd $1; lsattr -d folder/fixed log plain still | sed 's/[e-]//g'); }
        see src > before; see out$(pwd)/src > after
    ";
    let Some(ran) = with_mounts(&bed, script) else {
        return;
    };
    ran.expect(0);
    let text = |name: &str| fs::read_to_string(bed.path(name)).unwrap();
    assert_eq!(text("before"), text("after"));
    assert!(text("after").starts_with("i "), "{}", text("after"));
    let second: serde_json::Value = serde_json::from_str(&text("second")).unwrap();
    assert_eq!(second["files_failed"].as_u64(), Some(0));
    let ls = bed.ok(["ls", "latest", "--long"]).out();
    assert!(ls.contains("plain  +dA") && ls.contains("still  +i"), "{ls}");
}

/// Some file systems of programs show no length of files that they do not have yet. Some of these
/// show it after the file was read.
#[test]
fn a_file_that_shows_no_length_is_stored_with_its_content() {
    let large = noise(3_000_000, 81);
    let medium = noise(70_000, 83);
    let files = [
        ("a-hidden", &b"few"[..]),
        ("b-hidden", &large),
        ("c-hidden", b""),
        ("d", b""),
        ("e-hidden", &medium),
        ("f-hidden", b"some"),
    ];
    for length_once_read in [false, true] {
        let Some(disk) = testfs::mount(testfs::Options {
            without_length: Some("hidden".to_owned()),
            length_once_read,
            ..testfs::Options::default()
        }) else {
            return;
        };
        let bed = Bed::new();
        for (name, bytes) in files {
            fs::write(disk.backing().join(name), bytes).unwrap();
        }
        assert_eq!(fs::metadata(disk.path().join("b-hidden")).unwrap().len(), 0);
        let src = disk.path().to_str().unwrap();
        for target in ["first", "second"] {
            // If the length is shown only at the end, the file has not changed.
            bed.ok(["backup", src]);
            bed.ok(["restore", "latest", "-t", target]);
            let back = bed.path(target).join(disk.path().strip_prefix("/").unwrap());
            for (name, bytes) in files {
                assert!(fs::read(back.join(name)).unwrap() == bytes, "{name} in {target}");
            }
            let nodes = lines(&bed.ok(["ls", "latest", "--json"]).out);
            for (name, bytes) in files {
                let is_it = |node: &&serde_json::Value| node["path"].as_str().unwrap().ends_with(name);
                let node = nodes.iter().find(is_it).unwrap();
                assert_eq!(node["size"].as_u64(), Some(bytes.len() as u64), "{node}");
                assert!(node["content"].is_null(), "{node}");
            }
        }
        bed.assert_sound();
    }
}

/// A file that may have hidden content must not be stored as an empty one.
#[test]
fn a_file_that_shows_no_length_and_cannot_be_read_stays_as_it_was() {
    let disk = |unreadable| {
        testfs::mount(testfs::Options {
            without_length: Some("hidden".to_owned()),
            unreadable,
            ..testfs::Options::default()
        })
    };
    let whole = noise(3_000_000, 82);
    for from in [0, 100_000] {
        let (Some(good), Some(bad)) = (disk(None), disk(Some(("hidden".to_owned(), from)))) else {
            return;
        };
        fs::write(good.backing().join("old-hidden"), &whole).unwrap();
        for name in ["old-hidden", "new-hidden"] {
            fs::write(bad.backing().join(name), &whole).unwrap();
        }
        let bed = Bed::new();
        // The same path leads to one file system after the other.
        let (link, src) = (bed.path("src"), format!("{}/", bed.path("src").display()));
        symlink(good.path(), &link).unwrap();
        bed.ok(["backup", &src]);
        fs::remove_file(&link).unwrap();
        symlink(bad.path(), &link).unwrap();
        for target in ["first", "second"] {
            let ran = bed.run(["backup", &src]).expect(3);
            for name in ["old-hidden", "new-hidden"] {
                assert!(ran.err().contains(name), "no {name} in {}", ran.err());
            }
            let ran = bed.run(["restore", "latest", "-t", target]).expect(1);
            assert!(
                ran.err().contains("of a length that is not known"),
                "{}",
                ran.err()
            );
            let ls = bed.ok(["ls", "latest", "--long"]).out();
            assert!(
                ls.contains("could be read, of a length that is not known"),
                "{ls}"
            );
            assert!(!bed.ok(["ls", "latest", "--json"]).out().contains("source_size"));
            let back = bed.restored(target, "src");
            assert!(fs::read(back.join("old-hidden")).unwrap() == whole, "{from}");
            let part = fs::read(back.join("new-hidden.onefold-incomplete")).unwrap();
            assert!(part == whole[..part.len()] && part.len() as u64 <= from, "{from}");
            assert!(!back.join("new-hidden").exists());
        }
        bed.assert_sound();
    }
}
