//! Older backups of hybrid series are made archival, and all restore.

use std::fs;

use serde_json::json;

use crate::bed::{Bed, last, lines, noise, settle};

/// Three backups of a series, of which the file changes a little each time.
fn backups(bed: &Bed) -> Vec<Vec<u8>> {
    fs::create_dir(bed.path("src")).unwrap();
    let mut bytes = noise(3 << 20, 1);
    let mut contents = Vec::new();
    for n in 0..3u8 {
        bytes.splice(
            usize::from(n) * 900_000..usize::from(n) * 900_000 + 40_000,
            noise(50_000, 10 + u64::from(n)),
        );
        fs::write(bed.path("src/file"), &bytes).unwrap();
        settle();
        bed.ok(["backup", "src"]);
        contents.push(bytes.clone());
    }
    contents
}

fn assert_restore(bed: &Bed, contents: &[Vec<u8>]) {
    let listed = lines(&bed.ok(["snapshots", "--json"]).out);
    let ids: Vec<String> = listed
        .iter()
        .filter_map(|one| one["id"].as_u64())
        .map(|id| id.to_string())
        .collect();
    assert_eq!(ids.len(), contents.len(), "{listed:?}");
    for (id, expected) in ids.iter().zip(contents) {
        let target = format!("out-{id}");
        drop(fs::remove_dir_all(bed.path(&target)));
        bed.ok(["restore", id, "-t", &target]);
        let restored = fs::read(bed.restored(&target, "src/file")).unwrap();
        assert!(restored == *expected, "backup {id}");
    }
}

#[test]
fn what_has_left_the_live_window_becomes_archival() {
    let bed = Bed::new();
    bed.ok([
        "series",
        "set",
        "--default",
        "--layout",
        "hybrid",
        "--segment",
        "64K",
    ]);
    let contents = backups(&bed);
    let due = lines(&bed.ok(["optimize", "-n", "--json"]).out);
    assert_eq!(due[0]["message_type"], "due");
    assert_eq!(due.last().unwrap()["backups"], 2);
    let before = last(&bed.ok(["stats", "--json", "latest"]));
    assert_eq!(before["chain"], 0);

    let done = lines(
        &bed.ok(["optimize", "--prune", "--max-unused", "0%", "--json"])
            .out,
    );
    let of_one = |n: usize, name: &str| done[n][name].as_u64().unwrap();
    for n in 0..2 {
        assert_eq!(
            (&done[n]["message_type"], &done[n]["is_done"]),
            (&json!("optimized"), &json!(true))
        );
        let (total, archived) = (of_one(n, "total_bytes"), of_one(n, "bytes_archived"));
        assert!(of_one(n, "bytes_forward") * 10 > total * 9, "{done:?}");
        // What was spliced out, and the chunks that its ends are in.
        assert!((40_000..200_000).contains(&archived), "{done:?}");
    }
    assert_eq!(done[2]["backups"], 2);
    assert!(done[3]["bytes_freed"].as_u64() > Some(0), "{done:?}");
    let chains: Vec<_> = lines(&bed.ok(["stats", "all", "--json"]).out)
        .iter()
        .filter_map(|one| one["chain"].as_u64())
        .collect();
    assert_eq!(chains, [2, 1, 0]);
    assert_restore(&bed, &contents);
    bed.assert_sound();
    let text = bed.ok(["optimize"]).out();
    assert!(text.contains("nothing is due"), "{text}");

    let oldest = lines(&bed.ok(["snapshots", "--json"]).out)[0]["id"].to_string();
    let freed = lines(
        &bed.ok(["forget", &oldest, "--prune", "--max-unused", "0%", "--json"])
            .out,
    );
    let freed = freed.last().unwrap();
    assert_eq!(
        (&freed["bytes_copied"], &freed["containers_compacted"]),
        (&json!(0), &json!(0))
    );
    assert!(freed["containers_removed"].as_u64() > Some(0), "{freed}");
    assert_restore(&bed, &contents[1..]);
    bed.assert_sound();
}

#[test]
fn a_series_may_ask_for_it_after_each_backup() {
    let bed = Bed::new();
    let set = [
        "series",
        "set",
        "--default",
        "--layout",
        "hybrid",
        "--segment",
        "64K",
        "--live",
        "2",
        "--optimize-after-backup",
        "yes",
    ];
    bed.ok(set);
    let text = bed.ok(["series", "show", "--default"]).out();
    assert!(text.contains("2 live") && text.contains("optimized"), "{text}");
    let contents = backups(&bed);
    let chains: Vec<_> = lines(&bed.ok(["stats", "all", "--json"]).out)
        .iter()
        .filter_map(|one| one["chain"].as_u64())
        .collect();
    assert_eq!(chains, [1, 0, 0]);
    assert_restore(&bed, &contents);
    bed.assert_sound();
}

#[test]
fn what_could_have_no_effect_is_refused() {
    let bed = Bed::new();
    bed.run(["optimize", "--max-unused", "1%"])
        .expect(2)
        .says(&["--prune"]);
    bed.run(["optimize", "-n", "--prune"]).expect(2);
    bed.run(["optimize", "abc"])
        .expect(1)
        .says(&["no series has an id"]);
    bed.run(["series", "set", "--default", "--optimize-after-backup", "yes"])
        .expect(1)
        .says(&["says nothing for layout inline"]);
}
