//! What `check` says of damage, and its exit code.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::bed::{Bed, Ran, last, lines, noise, settle};

/// Flips a byte at this offset.
pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn damages(ran: &Ran) -> Vec<Value> {
    let lines = lines(&ran.out).into_iter();
    lines.filter(|line| line["message_type"] == "damage").collect()
}

/// The first copy of a recipe rots, and nothing is lost yet.
#[test]
fn damage_with_a_good_second_copy_is_told_at_every_depth() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    for n in 0..6 {
        fs::write(bed.path(format!("src/{n}")), noise(700 << 10, 80 + n)).unwrap();
    }
    settle();
    bed.ok(["backup", "src"]);
    bed.assert_sound();
    for recipe in bed.objects("recipe") {
        flip(&recipe, 200);
    }
    let shallow = bed.run(["check", "--json"]).expect(1);
    let found = damages(&shallow);
    assert!(!found.is_empty(), "{}", shallow.out());
    assert!(found.iter().all(|line| line["covered"] == true), "{found:?}");
    assert_eq!(
        found,
        damages(&bed.run(["check", "--read-data", "--json"]).expect(1))
    );
    assert_eq!(last(&shallow)["broken_backups"], json!([]));
    let text = bed.run(["check"]).expect(1);
    for words in ["a second copy is good", "every backup can be restored whole"] {
        assert!(text.out().contains(words), "{}", text.out());
    }
}

/// More files are lost than a check names, and one backup has lost its manifest.
#[test]
fn damaged_files_and_backups_add_up() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    for n in 0..2000 {
        fs::write(bed.path(format!("src/file {n:04}")), noise(3000, n)).unwrap();
    }
    // Among those that are named.
    let odd = OsStr::from_bytes(b"a\xff");
    fs::write(bed.path("src").join(odd), noise(3000, 5000)).unwrap();
    fs::hard_link(bed.path("src/file 0100"), bed.path("src/second name")).unwrap();
    settle();
    bed.ok(["backup", "src"]);
    // Everything is lost but the listing.
    for data in bed.objects("data") {
        let bytes = fs::read(&data).unwrap();
        fs::remove_file(&data).unwrap();
        if bed.run(["ls", "1"]).code != Some(0) {
            fs::write(data, bytes).unwrap();
        }
    }
    bed.run(["restore", "1", "-t", "out"]).expect(1);
    let restored = bed.restored("out", "src");
    let is_lost = |name: &OsString| fs::read(restored.join(name)).is_err();
    let names = fs::read_dir(bed.path("src")).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name());
    let lost = names.filter(is_lost).count();
    let ran = bed.run(["check", "--json"]).expect(1);
    let all = lines(&ran.out);
    let of_backup = all.iter().find(|line| line["message_type"] == "damaged_backup");
    let of_backup = of_backup.unwrap();
    assert_eq!(of_backup["files"].as_array().unwrap().len(), 1000);
    assert_eq!(of_backup["files_more"], lost - 1000);
    assert_eq!(of_backup["listing_unread"], false);
    let bytes = of_backup["path_bytes"].as_array().unwrap();
    assert_eq!(bytes.len(), 1000);
    assert!(
        bytes[0]
            .as_array()
            .unwrap()
            .ends_with(&[json!(b'a'), json!(0xff)])
    );
    assert_eq!(bytes[1], Value::Null);
    let ran = bed.run(["check"]).expect(1);
    let more = format!("  and {} more files", lost - 1000);
    assert!(ran.out().replace(',', "").contains(&more), "{}", ran.out());
    assert!(ran.out().contains("1 of 1 backup cannot"), "{}", ran.out());

    bed.ok(["backup", "src/file 0001"]);
    for manifest in bed.objects("backups") {
        let bytes = fs::read(&manifest).unwrap();
        fs::remove_file(&manifest).unwrap();
        if bed.backups() != [1] {
            fs::write(manifest, bytes).unwrap();
        }
    }
    let ran = bed.run(["check"]).expect(1);
    assert!(ran.out().contains("2 of 2 backups cannot"), "{}", ran.out());
    let summary = last(&bed.run(["check", "--json"]).expect(1));
    assert_eq!(
        (&summary["backups"], &summary["backups_known"]),
        (&json!(1), &json!(2))
    );
}
