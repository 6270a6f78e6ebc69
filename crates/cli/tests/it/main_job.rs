//! The main job, from `init` to `index rebuild`: backs up and restores a tree with an entry of
//! every kind.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, utimensat};

use crate::bed::{Bed, last, noise, settle};
use crate::picture::{assert_same, picture};

/// Makes an entry of every kind that a test may make.
pub(crate) fn plant(root: &Path) {
    fs::create_dir_all(root.join("folder/deep/er")).unwrap();
    fs::create_dir(root.join("empty folder")).unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("small"), b"a few words\n").unwrap();
    fs::write(root.join("folder/large"), noise(3 << 20, 1)).unwrap();
    fs::write(root.join("folder/same"), noise(3 << 20, 1)).unwrap();
    for number in 0..200 {
        fs::write(
            root.join(format!("folder/deep/{number}")),
            noise(number * 50, number as u64),
        )
        .unwrap();
    }
    fs::write(root.join("folder/deep/er/x"), "x".repeat(100_000)).unwrap();
    fs::hard_link(root.join("small"), root.join("folder/second name")).unwrap();
    symlink("folder/large", root.join("link")).unwrap();
    symlink("nowhere/at/all", root.join("dangling")).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"not \xff utf-8 \xc3")), b"bytes").unwrap();
    fs::write(root.join("line\nbreak"), b"odd").unwrap();
    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, &noise(5000, 2), 5 << 20).unwrap();
    rustix::fs::mknodat(
        CWD,
        root.join("pipe"),
        FileType::Fifo,
        Mode::from_raw_mode(0o640),
        0,
    )
    .unwrap();
    drop(std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap());
    for (name, mode) in [
        ("small", 0o604),
        ("folder/large", 0o4755),
        ("folder/deep", 0o1770),
        ("empty", 0o400),
    ] {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    // If the file system supports none, there is nothing to compare.
    rustix::fs::lsetxattr(
        root.join("small"),
        "user.colour",
        b"green\0blue",
        XattrFlags::empty(),
    )
    .ok();
    let time = |sec, nsec| Timespec {
        tv_sec: sec,
        tv_nsec: nsec,
    };
    for (name, sec, nsec) in [
        ("link", 1_000_000_007, 1),
        ("small", 1_234_567_890, 123_456_789),
        ("sparse", -86_400, 5),
        ("empty folder", 4_000_000_000, 999_999_999),
        ("folder", 1, 0),
    ] {
        let times = Timestamps {
            last_access: time(sec, nsec),
            last_modification: time(sec, nsec),
        };
        utimensat(
            CWD,
            root.join(name),
            &times,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
    }
}

#[test]
fn a_tree_is_backed_up_twice_and_restored_unchanged() {
    let bed = Bed::bare();
    let init = bed.ok(["init"]);
    assert!(init.out().contains("created store"), "{}", init.out());
    plant(&bed.path("src"));
    let was = picture(&bed.path("src"));
    settle();

    let first = last(&bed.ok(["backup", "src", "--tag", "one,two", "--json"]));
    let files = was.values().filter(|entry| entry.kind == "file").count() as u64;
    // The second name of a file is a link.
    assert_eq!(first["files_new"].as_u64(), Some(files - 1));
    assert!(first["data_added"].as_u64() < first["total_bytes_processed"].as_u64());
    let second = last(&bed.ok(["backup", "src", "--json"]));
    assert_eq!(second["parent"], first["snapshot_id"]);
    assert_eq!(second["files_unmodified"].as_u64(), Some(files - 1));
    assert_eq!(second["bytes_read"].as_u64(), Some(0));
    // Except for the listing, which has the folders above, where other tests make entries.
    assert!(second["data_added"].as_u64().unwrap() < 20_000, "{second}");
    assert_eq!(second["total_bytes_processed"], first["total_bytes_processed"]);

    let snapshots = bed.ok(["snapshots"]);
    assert!(snapshots.out().contains("[one, two]") && snapshots.out().contains("2 backups"));
    assert_eq!(bed.backups(), [1, 2]);
    let ls = bed.ok(["ls", "latest"]);
    let listed = ls.out.split(|byte| *byte == b'\n');
    let raw = [bed.path("src").as_os_str().as_bytes(), b"/not \xff utf-8 \xc3"].concat();
    assert!(
        listed.into_iter().any(|line| line == raw),
        "names are printed as they are"
    );
    let part = bed.ok(["ls", "1", "src/folder/deep/er", "--long"]);
    assert!(
        part.out().contains("100000") && part.out().contains("/deep/er/x"),
        "{}",
        part.out()
    );
    assert!(!part.out().contains("large"), "{}", part.out());

    for id in ["1", "latest"] {
        let restore = bed.ok(["restore", id, "--target", id]);
        assert!(restore.out().contains("restored"), "{}", restore.out());
        assert_same(&was, &picture(&bed.restored(id, "src")));
    }

    let check = bed.ok(["check"]);
    assert!(check.out().contains("no damage found"), "{}", check.out());
    bed.assert_sound();
    bed.ok(["check", "--read-data=5%"]);
    bed.ok(["check", "--read-data=day/30"]);
    let read = |part: &str| {
        let ran = bed.ok(["check", "--json", &format!("--read-data={part}")]);
        last(&ran)["containers_read"].as_u64().unwrap()
    };
    assert_eq!(read("1/3") + read("2/3") + read("3/3"), read("100%"));
    for wrong in ["0/3", "4/3", "1/0", "x/3", "day/"] {
        bed.run(["check", &format!("--read-data={wrong}")]).expect(2);
    }
    let stats = bed.ok(["stats", "all"]);
    assert!(stats.out().contains("reserve      1.00 MiB"), "{}", stats.out());
    assert!(stats.out().contains("backup      1:") && stats.out().contains("backup      2:"));
    for path in bed.objects("index") {
        fs::remove_file(path).unwrap();
    }
    bed.ok(["index", "rebuild"]);
    let third = last(&bed.ok(["backup", "src", "--force", "--json"]));
    assert!(
        third["data_added"].as_u64().unwrap() < 20_000,
        "the index knows all again: {third}"
    );
    let third = third["snapshot_id"].to_string();
    bed.ok(["restore", &third, "--target", "after"]);
    assert_same(&was, &picture(&bed.restored("after", "src")));
}

#[test]
fn changed_files_are_read_and_only_new_data_is_stored() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/stays"), noise(4 << 20, 3)).unwrap();
    fs::write(bed.path("src/grows"), noise(2 << 20, 4)).unwrap();
    fs::write(bed.path("src/goes"), b"soon gone").unwrap();
    settle();
    bed.ok(["backup", "src"]);
    let mut grown = noise(2 << 20, 4);
    grown.splice(1_000_000..1_000_000, noise(10_000, 5));
    fs::write(bed.path("src/grows"), grown).unwrap();
    fs::remove_file(bed.path("src/goes")).unwrap();
    fs::write(bed.path("src/comes"), noise(20_000, 6)).unwrap();
    let second = last(&bed.ok(["backup", "src", "--json"]));
    assert_eq!(second["files_new"].as_u64(), Some(1));
    assert_eq!(second["files_changed"].as_u64(), Some(1));
    assert_eq!(second["files_unmodified"].as_u64(), Some(1));
    assert!(second["bytes_read"].as_u64().unwrap() < 3 << 20, "{second}");
    assert!(second["data_added"].as_u64().unwrap() < 300_000, "{second}");
    bed.ok(["restore", "latest", "--target", "out"]);
    assert_same(&picture(&bed.path("src")), &picture(&bed.restored("out", "src")));
}
