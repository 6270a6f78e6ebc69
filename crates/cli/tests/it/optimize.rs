//! Makes older backups of hybrid series archival. All restore.

use std::fs;

use serde_json::json;

use crate::bed::{Bed, last, lines, noise, settle};

/// Three backups of a series, of which the file changes a little each time.
fn backups(bed: &Bed) -> Vec<Vec<u8>> {
    some_backups(bed, 3)
}

fn some_backups(bed: &Bed, count: u8) -> Vec<Vec<u8>> {
    fs::create_dir(bed.path("src")).unwrap();
    let mut bytes = noise(3 << 20, 1);
    let mut contents = Vec::new();
    for n in 0..count {
        bytes.splice(
            usize::from(n) * 600_000..usize::from(n) * 600_000 + 40_000,
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
fn backups_outside_the_live_window_become_archival() {
    let bed = Bed::new();
    bed.ok(HYBRID);
    let contents = backups(&bed);
    let due = lines(&bed.ok(["optimize", "-n", "--json"]).out);
    assert_eq!(due[0]["message_type"], "due");
    assert_eq!(due.last().unwrap()["backups"], 2);
    let before = last(&bed.ok(["stats", "--json", "latest"]));
    assert_eq!(before["chain"], 0);
    assert!(!bed.ok(["snapshots"]).out().contains("next"), "none is archival");

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
        // The removed bytes, and the chunks at their ends.
        assert!((40_000..200_000).contains(&archived), "{done:?}");
    }
    assert_eq!(done[2]["backups"], 2);
    assert!(done[3]["bytes_freed"].as_u64() > Some(0), "{done:?}");
    let chains: Vec<_> = lines(&bed.ok(["stats", "all", "--json"]).out)
        .iter()
        .filter_map(|one| one["chain"].as_u64())
        .collect();
    assert_eq!(chains, [2, 1, 0]);
    let ids = bed.backups();
    let next = field(&bed.ok(["snapshots", "--json"]).out, "snapshot", "next");
    assert_eq!(next, [json!(ids[1]), json!(ids[2]), json!(null)]);
    let text = bed.ok(["snapshots"]).out();
    let second = text.lines().nth(2).unwrap();
    assert!(text.contains("stored    next  paths"), "{text}");
    assert!(second.contains(&format!("B  {:>6}  ", ids[2])), "{text}");
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

const HYBRID: [&str; 7] = [
    "series",
    "set",
    "--default",
    "--layout",
    "hybrid",
    "--segment",
    "64K",
];

/// The values of one field, in all lines of this type.
fn field(out: &[u8], message_type: &str, name: &str) -> Vec<serde_json::Value> {
    let lines = lines(out).into_iter();
    let of_type = lines.filter(|line| line["message_type"] == message_type);
    of_type.map(|line| line[name].clone()).collect()
}

#[test]
fn backups_beyond_the_archival_window_are_forgotten() {
    let bed = Bed::new();
    bed.ok(HYBRID);
    let contents = some_backups(&bed, 4);
    let id = field(&bed.ok(["series", "list", "--json"]).out, "series", "id")[0].clone();
    let id = id.as_str().unwrap();
    let text = bed.ok(["series", "set", id, "--archival", "1"]).out();
    assert!(
        text.contains("hybrid, 1 live, 1 archival, ")
            && text.contains("`onefold optimize` will forget 2 backups of it, but for held ones"),
        "{text}"
    );
    let ids = bed.backups();
    let text = bed.ok(["optimize", "-n"]).out();
    let says = format!(
        "backup {} would be forgotten: its series keeps 1 live and 1 archival",
        ids[1]
    );
    assert!(text.contains(&says), "{text}");
    let would = bed.ok(["optimize", "-n", "--json"]).out;
    assert_eq!(field(&would, "expiring", "snapshot_id"), ids[..2]);
    assert_eq!(field(&would, "due", "snapshot_id"), ids[2..3]);
    assert_eq!(field(&would, "optimize_summary", "expired"), [json!(ids[..2])]);
    assert_eq!(bed.backups(), ids);

    bed.ok(["hold", &ids[0].to_string(), "--for", "1y"]);
    let done = bed
        .ok(["optimize", "--prune", "--max-unused", "0%", "--json"])
        .out;
    assert_eq!(field(&done, "expired", "snapshot_id"), ids[1..2]);
    assert_eq!(field(&done, "expired", "archival_window"), [1]);
    assert_eq!(field(&done, "optimized", "snapshot_id"), ids[2..3]);
    assert_eq!(field(&done, "held", "would_expire"), [true]);
    assert_eq!(field(&done, "optimize_summary", "held"), [json!(ids[..1])]);
    assert!(field(&done, "prune_summary", "bytes_freed")[0].as_u64() > Some(0));
    assert_restore(&bed, &[&contents[..1], &contents[2..]].concat());
    let text = bed.ok(["optimize"]).out();
    assert!(
        text.contains(&format!("backup {} is held until ", ids[0]))
            && text.contains("it has left the windows of its series and would be forgotten")
            && !text.contains("nothing is due"),
        "{text}"
    );
    bed.ok(["unhold", &ids[0].to_string()]);
    let text = bed.ok(["optimize"]).out();
    assert!(
        text.contains(&format!("backup {} is forgotten: ", ids[0])),
        "{text}"
    );
    assert_eq!(bed.backups(), ids[2..]);
    bed.assert_sound();
}

#[test]
fn a_window_may_slide_with_each_backup() {
    let bed = Bed::new();
    bed.ok(HYBRID);
    bed.ok([
        "series",
        "set",
        "--default",
        "--archival",
        "1",
        "--optimize-after-backup",
        "yes",
    ]);
    let contents = some_backups(&bed, 4);
    assert_restore(&bed, &contents[2..]);
    fs::write(bed.path("src/more"), noise(300_000, 9)).unwrap();
    settle();
    let hint = "run `onefold prune` to free the space that no backup needs any more";
    let text = bed.ok(["backup", "src"]).out();
    assert!(text.contains(" is forgotten: ") && text.contains(hint), "{text}");
    assert!(last(&bed.ok(["prune", "--json"]))["bytes_freed"].as_u64() > Some(0));
    let text = bed.ok(["optimize", "--prune"]).out();
    assert!(!text.contains(hint), "{text}");
    bed.assert_sound();
}

#[test]
fn optimize_selects_a_series_by_the_options_of_backup() {
    let bed = Bed::new();
    bed.ok(HYBRID);
    some_backups(&bed, 2);
    for n in 0..2 {
        let bytes = noise(200_000, 50 + n);
        let dump = ["backup", "--stdin", "--stdin-filename", "dump", "--host", "h"];
        bed.fed(dump, &bytes).expect(0);
    }
    let due = |more: &[&str]| {
        let args = [&["optimize", "-n", "--json"], more].concat();
        field(&bed.ok(args).out, "due", "snapshot_id")
    };
    let ids = bed.backups();
    assert_eq!(due(&[]), [ids[0], ids[2]]);
    assert_eq!(due(&["--path", "src"]), ids[..1]);
    let by_name = ["--stdin-filename", "dump", "--host", "h"];
    assert_eq!(due(&by_name), ids[2..3]);
    bed.ok([&["optimize"], &by_name[..]].concat());
    assert_eq!(due(&[]), ids[..1]);
}

/// Backups that each change a little in many places of the one before.
fn scattered(bed: &Bed, count: u64) -> Vec<Vec<u8>> {
    fs::create_dir(bed.path("src")).unwrap();
    let mut bytes = noise(4 << 20, 1);
    let mut contents = Vec::new();
    for n in 0..count {
        for at in 0..24usize {
            let at = at * 160_000 + usize::try_from(n).unwrap() * 20_000;
            bytes.splice(at..at + 12_000, noise(12_000, 100 * n + at as u64));
        }
        fs::write(bed.path("src/file"), &bytes).unwrap();
        settle();
        bed.ok(["backup", "src", "--cap", "none"]);
        contents.push(bytes.clone());
    }
    contents
}

#[test]
fn the_newest_backup_of_an_inline_series_is_put_in_order() {
    let bed = Bed::bare();
    bed.ok(["init", "--container-mib", "1", "--repair", "100"]);
    let text = bed.ok(["series", "show", "--default"]).out();
    assert!(text.contains("inline, repair 100 %"), "{text}");
    let contents = scattered(&bed, 6);
    let due = lines(&bed.ok(["optimize", "-n", "--json"]).out);
    assert_eq!(due[0]["message_type"], "due_repair");
    assert_eq!(
        (&due[1]["due_repairs"], &due[1]["repaired"]),
        (&json!(1), &json!(0))
    );
    let before = last(&bed.ok(["stats", "--json", "latest"]));
    let done = lines(
        &bed.ok(["optimize", "--prune", "--max-unused", "0%", "--json"])
            .out,
    );
    let of = |name: &str| done[0][name].as_u64().unwrap();
    assert_eq!(
        (&done[0]["message_type"], &done[0]["is_done"]),
        (&json!("repaired"), &json!(true))
    );
    assert_eq!(done[0]["bytes_budget"], due[0]["bytes_budget"]);
    assert!(
        of("bytes_copied") <= of("bytes_budget") && of("backups") > 0,
        "{done:?}"
    );
    assert!(of("containers_after") < of("containers_before"), "{done:?}");
    assert_eq!(
        (&done[1]["repaired"], &done[1]["bytes_copied"]),
        (&json!(1), &done[0]["bytes_copied"])
    );
    let after = last(&bed.ok(["stats", "--json", "latest"]));
    assert!(
        after["containers_read"].as_u64() < before["containers_read"].as_u64(),
        "{before} {after}"
    );
    assert_restore(&bed, &contents);
    bed.assert_sound();
    assert!(bed.ok(["optimize"]).out().contains("nothing is due"));
}

#[test]
fn repair_may_follow_each_backup() {
    let bed = Bed::bare();
    bed.ok([
        "init",
        "--container-mib",
        "1",
        "--repair",
        "100",
        "--optimize-after-backup",
        "yes",
    ]);
    let contents = scattered(&bed, 5);
    assert!(bed.ok(["optimize"]).out().contains("nothing is due"));
    assert_restore(&bed, &contents);
    bed.assert_sound();
    // Whatever the settings are.
    bed.ok(["series", "set", "--default", "--repair", "0"]);
    fs::write(bed.path("src/file"), noise(4 << 20, 9)).unwrap();
    settle();
    let text = bed.ok(["backup", "src"]).out();
    assert!(!text.contains("stays as it is"), "{text}");
    let text = bed.ok(["optimize", "--repair", "100"]).out();
    assert!(
        text.contains("containers, ") || text.contains("containers instead of"),
        "{text}"
    );
}

#[test]
fn optimize_refuses_options_without_effect() {
    let bed = Bed::new();
    bed.run(["optimize", "--max-unused", "1%"])
        .expect(2)
        .says(&["--prune"]);
    bed.run(["optimize", "-n", "--prune"]).expect(2);
    bed.run(["optimize", "abc"])
        .expect(1)
        .says(&["no series has an id"]);
    bed.run(["optimize", "--path", "src", "--host", "h"])
        .expect(1)
        .says(&[
            "there is no series of h: ",
            "src; `onefold series list` shows them",
        ]);
    bed.run(["optimize", "abc", "--path", "src"]).expect(2);
    bed.run(["optimize", "abc", "--host", "h"]).expect(2);
    bed.run(["optimize", "--host", "h"]).expect(2);
    bed.run(["optimize", "--default"]).expect(2);
    bed.run(["series", "set", "--default", "--optimize-after-backup", "yes"])
        .expect(1)
        .says(&["says nothing for layout inline without repair"]);
    bed.run(["optimize", "--repair", "0"]).expect(2);
    // A series of layout hybrid may be repaired, too.
    let set = [
        "series",
        "set",
        "--default",
        "--layout",
        "hybrid",
        "--repair",
        "50",
    ];
    let text = bed.ok(set).out();
    assert!(text.contains("4.00 MiB, repair 50 %"), "{text}");
}

#[test]
fn forgetting_a_backup_says_which_older_one_refers_forward_to_it() {
    let bed = Bed::new();
    bed.ok(HYBRID);
    let contents = some_backups(&bed, 4);
    let ids = bed.backups();
    bed.ok(["optimize", "--prune", "--max-unused", "0%"]);
    let [second, third] = [ids[1].to_string(), ids[2].to_string()];
    let says = |id: &str, what: &str| {
        format!(
            "forgotten backup {id} {what} stored, because backup {} refers to its data",
            ids[0]
        )
    };
    let text = bed.ok(["forget", &second, "-n"]).out();
    assert!(text.contains(&says(&second, "would stay")), "{text}");
    let text = bed.ok(["forget", &second, "--prune", "--max-unused", "0%"]).out();
    assert_eq!(text.matches(&says(&second, "stays")).count(), 1, "{text}");
    // Along a chain whose first link was forgotten before.
    let told = last(&bed.ok(["forget", &third, "--json"]));
    assert_eq!(told["kept"], json!([{"id": ids[2], "by": ids[0]}]));
    let kept = json!([{"id": ids[1], "by": ids[0]}, {"id": ids[2], "by": ids[0]}]);
    for args in [["prune", "-n", "--json"].as_slice(), &["prune", "--json"]] {
        assert_eq!(last(&bed.ok(args))["kept"], kept, "{args:?}");
    }
    let text = bed.ok(["prune"]).out();
    assert!(
        text.contains(&says(&second, "stays")) && text.contains(&says(&third, "stays")),
        "{text}"
    );
    let text = bed.ok(["optimize"]).out();
    assert!(
        text.contains(&format!(" refer to backup {}, ", ids[3])),
        "onto the next that is left: {text}"
    );
    let told = last(&bed.ok(["prune", "--max-unused", "0%", "--json"]));
    assert!(
        told["kept"].is_null() && told["bytes_freed"].as_u64() > Some(0),
        "{told}"
    );
    assert_restore(&bed, &[&contents[..1], &contents[3..]].concat());

    bed.ok(["forget", &ids[3].to_string()]);
    let text = bed.ok(["optimize"]).out();
    assert!(
        text.contains(&format!("backup {} refers to no later backup any more", ids[0])),
        "{text}"
    );
    // All its data is in containers of its own, so there is nothing to repair. No backup, tombstone
    // or hold came meanwhile.
    let text = bed.ok(["optimize", "--repair", "100"]).out();
    assert!(!text.contains("meanwhile"), "{text}");
    assert_restore(&bed, &contents[..1]);
    bed.assert_sound();
}
