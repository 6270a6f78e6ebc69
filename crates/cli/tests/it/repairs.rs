//! `repair`: a damaged store heals from another one, and what cannot be healed is named.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::bed::{Bed, last, lines, noise};

/// A store with two backups of `src`, and a copy of it in `other`.
fn bed() -> Bed {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    for (name, seed) in [("one", 1), ("two", 2)] {
        fs::write(bed.path("src").join(name), noise(1 << 20, seed)).unwrap();
    }
    bed.ok(["backup", "src"]);
    fs::write(bed.path("src/three"), noise(1 << 20, 3)).unwrap();
    bed.ok(["backup", "src"]);
    bed.ok(["init", "-r", "other", "--reserve-mib", "0"]);
    let from = bed.store().display().to_string();
    bed.ok([
        "copy",
        "-r",
        "other",
        "--from-insecure-no-password",
        "--from-repo",
        &from,
    ]);
    bed
}

/// Cuts the objects of a folder in the store short, if they have at least so many bytes.
fn cut(bed: &Bed, folder: &str, at_least: usize) {
    for path in bed.objects(folder) {
        let bytes = fs::read(&path).unwrap();
        if bytes.len() < at_least {
            continue;
        }
        fs::remove_file(&path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 3]).unwrap();
    }
}

const FROM: [&str; 4] = ["repair", "--from-insecure-no-password", "--from-repo", "other"];

#[test]
fn a_sound_store_needs_no_repair() {
    let bed = bed();
    let ran = bed.ok(["repair"]);
    assert!(ran.out().contains("there is nothing to repair"), "{}", ran.out());
    assert_eq!(last(&bed.ok(["repair", "--json"]))["damage_before"], 0);
}

#[test]
fn lost_data_come_back_from_a_copy() {
    let bed = bed();
    // The source is gone, so no backup can heal.
    fs::rename(bed.path("src"), bed.path("was")).unwrap();
    // The small ones hold listings, which tell what is lost.
    cut(&bed, "data", 64 << 10);
    let ran = bed.run(["repair"]).expect(1);
    for said in ["cannot be restored whole", "src/one", "src/two", "--from-repo"] {
        assert!(ran.out().contains(said), "{}", ran.out());
    }
    let ids = bed.backups();
    let ran = bed.ok(FROM);
    assert!(ran.out().contains("repaired:"), "{}", ran.out());
    bed.assert_sound();
    assert_eq!(bed.backups(), ids, "each is whole again");
    bed.ok(["restore", "latest", "--target", "back"]);
    for name in ["one", "two", "three"] {
        let restored = fs::read(bed.restored("back", "src").join(name)).unwrap();
        assert_eq!(restored, fs::read(bed.path("was").join(name)).unwrap());
    }
}

#[test]
fn backups_without_nodes_are_replaced_by_copies() {
    let bed = bed();
    for folder in ["small", "recipe", "mirror", "data"] {
        cut(&bed, folder, 0);
    }
    let ids = bed.backups();
    let ran = bed.ok(FROM.iter().chain(&["--json"]));
    let summary = last(&ran);
    assert_eq!(
        (&summary["damage_left"], &summary["replaced"]),
        (&0.into(), &2.into())
    );
    bed.assert_sound();
    let now = bed.backups();
    assert!(now.len() == 2 && now[0] > ids[1], "{now:?}");
    bed.ok(["restore", "latest", "--target", "back"]);
    assert_eq!(
        fs::read(bed.restored("back", "src/three")).unwrap(),
        noise(1 << 20, 3)
    );
}

/// Nobody may take the last change of a backup, such as a hold, for something that never was.
#[test]
fn a_damaged_hold_is_not_lost_without_a_word() {
    for is_held_there in [false, true] {
        let bed = bed();
        let ids = bed.backups();
        bed.ok(["tag", "--add", "gold", "2"]);
        bed.ok(["hold", "2", "--until", "2200-01-31"]);
        if is_held_there {
            bed.ok(["hold", "-r", "other", "2", "--until", "2199-01-31"]);
        }
        let revisions = bed.objects("backups");
        let held = revisions
            .iter()
            .find(|path| path.to_string_lossy().ends_with("2.2"));
        let held = held.unwrap_or_else(|| panic!("{revisions:?}"));
        let mut bytes = fs::read(held).unwrap();
        bytes[70] ^= 1;
        fs::write(held, bytes).unwrap();
        // Without another store, the user decides.
        let ran = bed.run(["repair"]).expect(1);
        assert!(ran.out().contains("`onefold unhold 2`"), "{}", ran.out());
        bed.run(["forget", "2"]).expect(1);
        let ran = bed.ok(FROM);
        assert!(
            ran.err().contains("its tags or hold may be lost"),
            "{}",
            ran.err()
        );
        assert!(!ran.out().contains("copying"), "{}", ran.out());
        bed.assert_sound();
        assert_eq!(bed.backups(), ids, "none has another in its place");
        let all = lines(&bed.ok(["snapshots", "--json"]).out);
        let second = all.iter().find(|line| line["id"] == 2).unwrap();
        assert_eq!(second["tags"], serde_json::json!(["gold"]), "{all:?}");
        let until = second["hold_until"].as_str().unwrap_or_default();
        assert_eq!(until.starts_with("2199-01-31"), is_held_there, "{all:?}");
        let again = bed.ok(FROM);
        assert!(
            again.out().contains("there is nothing to repair"),
            "{}",
            again.out()
        );
    }
}

#[test]
fn bad_second_copies_are_written_anew() {
    let bed = bed();
    cut(&bed, "mirror", 0);
    bed.run(["check", "--read-data"]).expect(1);
    let ran = bed.ok(["repair"]);
    assert!(ran.out().contains("which had a bad copy"), "{}", ran.out());
    bed.assert_sound();
}

/// Copies the store to a disk, where it is used from now on.
fn move_to(bed: &mut Bed, disk: &Path) {
    let store = disk.join("store");
    let copied = Command::new("cp").arg("-a").args([&bed.store(), &store]).status();
    assert!(copied.unwrap().success());
    bed.set("ONEFOLD_REPOSITORY", store.to_str().unwrap());
}

/// The storage does not give a manifest: nobody knows whether the backup is whole.
#[test]
fn backups_that_cannot_be_read_now_are_named() {
    let mut bed = bed();
    let Some(disk) = testfs::mount(testfs::Options {
        unreadable: Some(("0000000000002.0".to_owned(), 0)),
        ..testfs::Options::default()
    }) else {
        return;
    };
    move_to(&mut bed, disk.path());
    // The names of its objects have that text, too, and it can be made again.
    fs::remove_dir_all(disk.path().join("store/index")).unwrap();
    let ran = bed.run(["repair"]).expect(1);
    let text = ran.out();
    assert!(
        text.contains("backup 2 could not be read now, and may be whole"),
        "{text}{}",
        ran.err()
    );
    let told = lines(&bed.run(["repair", "--json"]).expect(1).out);
    let unread: Vec<_> = told
        .iter()
        .filter(|line| line["message_type"] == "unread_backup")
        .collect();
    assert_eq!(unread.len(), 1, "{told:?}");
    assert_eq!(unread[0]["snapshot_id"], 2);
}

/// Some file systems of FUSE map no files: the index is read then.
#[test]
fn a_file_system_that_maps_no_files_holds_a_store() {
    let mut bed = bed();
    // Files past the page cache. The offset makes none of them unreadable.
    let Some(disk) = testfs::mount(testfs::Options {
        unreadable: Some(("-000000000000".to_owned(), u64::MAX)),
        ..testfs::Options::default()
    }) else {
        return;
    };
    move_to(&mut bed, disk.path());
    bed.ok(["backup", "src"]);
    bed.ok(["check", "--read-data"]);
}

/// A copy whose manifest is damaged does not tell its origin. What the message advises mends it.
#[test]
fn a_copy_without_its_manifest_is_copied_again_and_forgotten() {
    let bed = bed();
    let manifest = bed.path("other/backups");
    let mut manifests = Vec::new();
    for series in fs::read_dir(manifest).unwrap() {
        let found = fs::read_dir(series.unwrap().path()).unwrap();
        manifests.extend(found.map(|entry| entry.unwrap().path()));
    }
    manifests.sort();
    let last_copy = manifests
        .iter()
        .rfind(|path| path.extension().is_some_and(|end| end == "0"));
    fs::write(last_copy.unwrap(), b"damaged").unwrap();
    let from = bed.store().display().to_string();
    let of_copies = ["-r", "other", "--from-insecure-no-password", "--from-repo", &from];
    let ran = bed.run([&["repair"], &of_copies[..]].concat());
    assert!(
        ran.out().contains("run `onefold copy` from its source again")
            && ran.out().contains("`onefold forget 2`"),
        "{}",
        ran.out()
    );
    bed.ok([&["copy"], &of_copies[..]].concat());
    bed.ok(["forget", "-r", "other", "2"]);
    bed.ok(["check", "-r", "other"]);
    let list = bed.ok(["snapshots", "-r", "other"]);
    assert!(list.out().contains("2 backups"), "{}", list.out());
}
