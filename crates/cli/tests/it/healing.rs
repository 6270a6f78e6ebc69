//! Damage that commands find during other work: they report it, list it, do not refer to it, and
//! heal it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::bed::{Bed, last, lines, noise, settle};
use crate::picture::{assert_same, picture};

/// A bed with a backup of some files, and one of its data containers.
fn backed_up(seed: u64) -> (Bed, PathBuf) {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    for n in 0..6 {
        fs::write(bed.path(format!("src/{n}")), noise(700 << 10, seed + n)).unwrap();
    }
    settle();
    bed.ok(["backup", "src", "--verify-known", "none"]);
    let mut data = bed.objects("data");
    data.sort();
    assert!(data.len() > 3, "{data:?}");
    let victim = data.swap_remove(1);
    (bed, victim)
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[5000] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[track_caller]
fn assert_all_restore(bed: &Bed) {
    for id in bed.backups() {
        let target = format!("out{id}");
        bed.ok(["restore", &id.to_string(), "-t", &target]);
        assert_same(
            &picture(&bed.path("src")),
            &picture(&bed.restored(&target, "src")),
        );
    }
    bed.assert_sound();
    assert_eq!(bed.objects("damaged"), Vec::<PathBuf>::new());
}

#[test]
fn a_backup_finds_rotten_data_and_heals_the_backup_before() {
    for is_lost in [false, true] {
        let (bed, victim) = backed_up(900);
        if is_lost {
            fs::remove_file(&victim).unwrap();
        } else {
            flip(&victim);
            // No command has found the damage so far, so a backup that verifies nothing refers to
            // it.
            let blind = bed.ok(["backup", "src", "--verify-known", "none", "--json"]);
            assert_eq!(last(&blind)["verified"]["containers"], 0);
            bed.run(["restore", "latest", "-t", "gone"])
                .expect(1)
                .says(&["not restored"]);
            fs::remove_dir_all(bed.store().join("damaged")).unwrap();
        }
        let ran = bed.ok(["backup", "src", "--verify-known", "100%"]);
        assert!(ran.out().contains("healed"), "{}", ran.out());
        assert_eq!(ran.err().contains("is damaged"), !is_lost, "{}", ran.err());
        assert_all_restore(&bed);
    }
}

#[test]
fn damage_found_by_a_restore_or_a_check_is_healed_by_the_next_backup() {
    for meets in [
        vec!["restore", "latest", "-t", "gone"],
        vec!["check", "--read-data"],
    ] {
        let (bed, victim) = backed_up(910);
        flip(&victim);
        bed.run(&meets).expect(1);
        let check = bed.run(["check", "--read-data", "--json"]).expect(1);
        let found = lines(&check.out);
        assert_eq!(found[0]["message_type"], "damage");
        assert_eq!(found[0]["kind"], "container_damaged");
        assert_eq!(bed.objects("damaged").len(), 1, "{meets:?}");
        let summary = last(&bed.ok(["backup", "src", "--verify-known", "none", "--json"]));
        assert_eq!(summary["verified"]["healed"], 1, "{summary}");
        assert!(summary["verified"]["healed_slots"].as_u64().unwrap() > 0);
        assert_all_restore(&bed);
    }
}

#[test]
fn a_prune_that_leaves_damage_says_so_and_fails() {
    let (bed, victim) = backed_up(920);
    flip(&victim);
    bed.run(["check", "--read-data"]).expect(1);
    let ran = bed
        .run(["prune", "--json"])
        .expect(1)
        .says(&["data/", "stays damaged", "onefold check"]);
    let summary = last(&ran);
    assert_eq!(summary["unhealed"].as_array().unwrap().len(), 1, "{summary}");
    let named = summary["unhealed"][0]["container"].as_str().unwrap();
    assert!(named.starts_with("data/"), "{summary}");
    fs::remove_dir_all(bed.path("src")).unwrap();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/other"), noise(700 << 10, 930)).unwrap();
    bed.ok(["backup", "src"]);
    bed.ok(["forget", "1"]);
    let clean = last(&bed.ok(["prune", "--json"]));
    assert!(clean.get("unhealed").is_none(), "{clean}");
    assert_eq!(bed.objects("damaged"), Vec::<PathBuf>::new());
    bed.assert_sound();
}

#[test]
fn a_share_is_a_share() {
    let bed = Bed::new();
    for share in ["5", "101%", "-1%", "x%", "all"] {
        bed.run(["backup", ".", &format!("--verify-known={share}")])
            .expect(2)
            .says(&["no share"]);
    }
}
