//! `forget`, `tag`, `hold` and `unhold`.

use std::fs;

use rustix::fs::{CWD, Timespec, Timestamps, utimensat};

use crate::bed::{Bed, last, lines, noise};

/// A store with backups 1 to `n`, each with new content.
fn bed(n: u64) -> Bed {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    for round in 0..n {
        fs::write(bed.path("src/file"), round.to_string()).unwrap();
        bed.ok(["backup", "src", "--host", "here"]);
    }
    bed
}

/// The one JSON line of this type.
#[track_caller]
fn line_of(out: &[u8], kind: &str) -> serde_json::Value {
    let mut found = lines(out).into_iter().filter(|line| line["message_type"] == kind);
    let one = found.next().unwrap();
    assert!(found.next().is_none(), "one line of {kind}");
    one
}

#[test]
fn rules_keep_and_say_why() {
    let bed = bed(4);
    let dry = bed.ok(["forget", "--keep-last", "2", "-n"]).out();
    assert!(dry.contains("would forget 2 backups"), "{dry}");
    assert_eq!(bed.backups(), [1, 2, 3, 4]);
    let text = bed.ok(["forget", "-l", "2"]).out();
    let line = |words: &[&str]| {
        text.lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(line(&["host here, paths /", "/src", "keeps 2 of 4"]), "{text}");
    assert!(line(&["keep ", " 4 ", "here", "last 1"]), "{text}");
    assert!(
        line(&["remove", " 1 ", "no rule keeps it"]) && line(&["forgot 2 backups"]),
        "{text}"
    );
    assert_eq!(bed.backups(), [3, 4]);
    bed.ok(["restore", "3", "-t", "out"]);
    assert_eq!(fs::read_to_string(bed.restored("out", "src/file")).unwrap(), "2");
    bed.run(["restore", "1", "-t", "out"])
        .expect(1)
        .says(&["backup 1 is forgotten"]);
    bed.assert_sound();
    let quiet = bed.ok(["forget", "-l", "1", "--quiet"]);
    assert_eq!((quiet.out(), quiet.err()), (String::new(), String::new()));
    assert_eq!(bed.backups(), [4]);
}

#[test]
fn nothing_is_forgotten_without_a_rule() {
    let bed = bed(2);
    for args in [&["forget"][..], &["forget", "--keep-last", "0"]] {
        bed.run(args).expect(1).says(&["no rule", "--keep-last"]);
    }
    bed.run(["forget", "--keep-tag", "x"])
        .expect(1)
        .says(&["none of the 2 backups of host here", "--unsafe-allow-remove-all"]);
    bed.run(["forget", "--unsafe-allow-remove-all"])
        .expect(1)
        .says(&["every backup"]);
    for args in [
        &["forget", "1", "--keep-last", "1"][..],
        &["forget", "--keep-within", "5"],
        &["forget", "--keep-last", "-2"],
        &["forget", "-l", "1", "--group-by", "moon"],
        &["forget", "-l", "1", "--force-unreadable"],
        &["hold", "1"],
        &["tag", "1"],
    ] {
        bed.run(args).expect(2);
    }
    assert_eq!(bed.backups(), [1, 2]);
    bed.ok(["forget", "--keep-last", "-1", "--keep-daily", "unlimited"]);
    assert_eq!(bed.backups(), [1, 2]);
    bed.ok(["forget", "--unsafe-allow-remove-all", "--host", "here"]);
    assert_eq!(bed.backups(), [0_u64; 0]);
}

#[test]
fn groups_and_filters_narrow_the_forgotten_backups() {
    let bed = bed(2);
    bed.ok(["backup", "src", "--host", "there"]);
    bed.ok(["backup", "src", "--host", "there", "--tag", "old"]);
    bed.ok(["forget", "-l", "1", "--host", "nowhere"]);
    bed.ok(["forget", "-l", "1", "--group-by", "host,tags"]);
    assert_eq!(bed.backups(), [2, 3, 4]);
    bed.ok(["forget", "-l", "1", "--host", "there"]);
    assert_eq!(bed.backups(), [2, 4]);
    bed.ok(["forget", "-l", "1", "--group-by", ""]);
    assert_eq!(bed.backups(), [4]);
}

#[test]
fn ids_are_forgotten_by_name() {
    let bed = bed(3);
    bed.run(["forget", "1", "77"]).expect(1).says(&["no backup 77"]);
    assert_eq!(bed.backups(), [1, 2, 3]);
    let dry = bed.ok(["forget", "1", "latest", "-n"]).out();
    for id in [" 1 ", " 3 "] {
        let line = dry
            .lines()
            .find(|line| line.contains("remove") && line.contains(id));
        let line = line.unwrap_or_else(|| panic!("{id} is not in:\n{dry}"));
        assert!(
            line.contains("here") && line.ends_with("named on the command line"),
            "{line}"
        );
    }
    assert_eq!(dry.matches("remove").count(), 2, "{dry}");
    assert!(dry.contains("would forget 2 backups"), "{dry}");
    assert_eq!(bed.backups(), [1, 2, 3]);
    let dry = bed.ok(["forget", "1", "latest", "-n", "--json"]).out;
    let named = line_of(&dry, "named");
    assert_eq!(named["remove"][0]["id"], 1);
    assert_eq!(named["remove"][1]["id"], 3);
    assert_eq!(named["remove"][1]["hostname"], "here");
    assert_eq!(
        named["remove"][1]["reasons"],
        serde_json::json!(["named on the command line"])
    );
    bed.ok(["forget", "1", "latest"]);
    let text = bed.ok(["forget", "1"]).out();
    assert!(
        text.contains("forgot 0 backups") && text.contains("forgotten before"),
        "{text}"
    );
    assert_eq!(bed.backups(), [2]);
}

#[test]
fn holds_are_shown_and_kept() {
    let bed = bed(3);
    bed.ok(["hold", "1", "--until", "2200-01-31"]);
    let text = bed.ok(["snapshots"]).out();
    assert!(text.contains("held until 2200-01-31 00:00:00"), "{text}");
    bed.run(["forget", "1"])
        .expect(1)
        .says(&["backup 1 is held until 2200-01-3", "onefold unhold 1"]);
    bed.run(["hold", "2", "--until", "2001-01-31"])
        .expect(1)
        .says(&["name a later time"]);
    bed.run(["hold", "2", "--until", "soon"]).expect(2);
    let dry = bed.ok(["forget", "-l", "1", "--dry-run"]).out();
    assert!(dry.contains("held until 2200-01-3"), "{dry}");
    bed.ok(["forget", "-l", "1"]);
    assert_eq!(bed.backups(), [1, 3]);
    bed.ok(["unhold", "1"]);
    bed.ok(["hold", "3", "--for", "1y"]);
    bed.ok(["forget", "1"]);
    assert_eq!(bed.backups(), [3]);
    bed.assert_sound();
}

#[test]
fn tags_change() {
    let bed = bed(2);
    bed.ok(["tag", "--add", "a,b", "1"]);
    bed.ok(["tag", "--remove", "a", "--add", "c", "--tag", "b"]);
    assert!(bed.ok(["snapshots"]).out().contains("[b, c]"));
    assert!(bed.ok(["snapshots", "--tag", "c,b"]).out().contains("[b, c]"));
    assert!(!bed.ok(["snapshots", "--tag", "b,x"]).out().contains("[b, c]"));
    bed.run(["tag", "--add", "x"]).expect(1).says(&["which backups"]);
    bed.run(["tag", "--add", "x", "--set", "y", "1"]).expect(2);
    bed.ok(["tag", "--set", "", "1"]);
    let out = bed.ok(["tag", "--set", "", "1"]).out();
    assert!(out.contains("changed the tags of 0 backups"), "{out}");
    bed.ok(["tag", "--set", "keep", "1"]);
    bed.ok(["forget", "--keep-tag", "keep"]);
    assert_eq!(bed.backups(), [1]);
}

#[test]
fn json_lines_have_every_field() {
    let bed = bed(3);
    let held = last(&bed.ok(["hold", "1", "--until", "2200-01-31T00:00:00Z", "--json"]));
    assert_eq!(held["message_type"], "hold");
    assert_eq!(held["hold_until"], "2200-01-31T00:00:00Z");
    let listed = lines(&bed.ok(["snapshots", "--json"]).out);
    assert_eq!(listed[0]["hold_until"], "2200-01-31T00:00:00Z");
    assert!(listed[1]["hold_until"].is_null());
    let said = bed.ok(["forget", "-l", "1", "--json", "--dry-run"]).out;
    let (group, summary) = (line_of(&said, "group"), line_of(&said, "summary"));
    assert_eq!(group["host"], "here");
    assert!(group["tags"].is_null());
    assert_eq!(group["keep"][0]["id"], 3);
    assert_eq!(group["keep"][0]["reasons"][0], "last 1");
    assert_eq!(group["keep"][1]["reasons"][0], "held until 2200-01-31 00:00 UTC");
    assert_eq!(group["remove"][0]["id"], 2);
    assert_eq!(
        group["remove"][0]["reasons"],
        serde_json::json!(["no rule keeps it"])
    );
    assert!(group["remove"][0]["bytes_alone"].is_u64() && group["keep"][0]["bytes_alone"].is_null());
    assert_eq!(summary["forgotten"], serde_json::json!([2]));
    assert_eq!(summary["dry_run"], true);
    let tagged = lines(&bed.ok(["tag", "--add", "x", "1", "2", "--json"]).out);
    assert_eq!(tagged[0]["message_type"], "changed");
    assert_eq!(tagged[0]["tags"], serde_json::json!(["x"]));
    assert_eq!(tagged[2]["changed_snapshots"], 2);
    let unheld = last(&bed.ok(["unhold", "1", "--json"]));
    assert!(unheld["hold_until"].is_null());
}

/// Backups 1 to 7, at these times by the storage's clock, which are the times of their manifests'
/// files.
const TIMES: [&str; 7] = [
    "2025-01-15T10:00:00Z",
    "2026-02-10T10:00:00Z",
    "2026-03-28T10:00:00Z",
    "2026-03-28T11:00:00Z",
    "2026-03-31T10:10:00Z",
    "2026-03-31T10:50:00Z",
    "2026-03-31T12:00:00Z",
];

#[test]
fn keep_within_keeps_recent_backups() {
    let bed = bed(7);
    let mut manifests = bed.objects("backups");
    manifests.sort();
    assert_eq!(manifests.len(), TIMES.len());
    for (path, time) in manifests.iter().zip(TIMES) {
        let time = Timespec {
            tv_sec: time.parse::<jiff::Timestamp>().unwrap().as_second(),
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        utimensat(CWD, path, &times, rustix::fs::AtFlags::empty()).unwrap();
    }
    for (rule, span, kept) in [
        ("--keep-within", "2h", &[7, 6, 5][..]),
        ("--keep-within", "3d2h", &[7, 6, 5, 4, 3]),
        ("--keep-within", "3d1h", &[7, 6, 5, 4]),
        ("--keep-within", "2y", &[7, 6, 5, 4, 3, 2, 1]),
        ("--keep-within-hourly", "1d", &[7, 6]),
        ("--keep-within-daily", "7d", &[7, 4]),
        ("--keep-within-weekly", "2m", &[7, 4, 2]),
        ("--keep-within-monthly", "3m", &[7, 2]),
        ("--keep-within-yearly", "1y6m", &[7, 1]),
    ] {
        let by_commit = ["forget", rule, span, "--times", "commit", "-n", "--json"];
        let group = line_of(&bed.ok(by_commit).out, "group");
        let ids = |name: &str| -> Vec<u64> {
            let backups = group[name].as_array().unwrap().iter();
            backups.map(|backup| backup["id"].as_u64().unwrap()).collect()
        };
        assert_eq!(ids("keep"), kept, "{rule} {span}");
        let gone: Vec<u64> = (1..=7).rev().filter(|id| !kept.contains(id)).collect();
        assert_eq!(ids("remove"), gone, "{rule} {span}");
        let reason = group["keep"][0]["reasons"][0].as_str().unwrap();
        assert!(reason.contains("within"), "{rule} {span}: {reason}");
    }
    // By their own times all were made today.
    let by = |times: &str| {
        let said = bed
            .ok(["forget", "--keep-daily", "4", "--times", times, "-n"])
            .out();
        let kept = said.lines().filter(|line| line.trim_start().starts_with("keep "));
        (kept.count(), said)
    };
    let (kept, said) = by("backup");
    assert!((2..=3).contains(&kept) && said.contains("made ("), "{said}");
    let (kept, said) = by("commit");
    assert!(kept == 4 && said.contains("committed ("), "{said}");
    bed.run(["forget", "1", "--times", "commit"]).expect(2);
    assert_eq!(bed.backups(), [1, 2, 3, 4, 5, 6, 7]);
    let rule = ["forget", "--keep-within", "2h", "--keep-within-yearly", "2y"];
    let said = bed.run(rule).expect(1).err();
    assert!(said.contains("--times commit"), "{said}");
    assert_eq!(bed.backups(), [1, 2, 3, 4, 5, 6, 7]);
    bed.ok(rule.into_iter().chain(["--times", "commit"]));
    assert_eq!(bed.backups(), [1, 5, 6, 7]);
    bed.assert_sound();
}

#[test]
fn exclusive_bytes_of_each_backup_are_printed_before_it_is_forgotten() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    let write = |name: &str, seed| fs::write(bed.path("src").join(name), noise(1 << 20, seed)).unwrap();
    let back_up = || bed.ok(["backup", "src", "--host", "here"]);
    // Backup 1 alone has one file. Backups 1 and 2 share another one. All share the third.
    write("all", 50);
    write("two", 51);
    write("own", 52);
    back_up();
    fs::remove_file(bed.path("src/own")).unwrap();
    back_up();
    fs::remove_file(bed.path("src/two")).unwrap();
    back_up();
    let dry = ["forget", "-l", "1", "-n", "--max-unused", "0"];
    for round in 0..2 {
        let said = bed.ok(dry.into_iter().chain(["--json"])).out;
        let group = line_of(&said, "group");
        let alone = |at: usize| group["remove"][at]["bytes_alone"].as_u64().unwrap();
        assert_eq!(group["remove"][0]["id"], 2);
        assert!(alone(0) < 100_000, "round {round}: {group}");
        assert!(
            (1_000_000..1_200_000).contains(&alone(1)),
            "round {round}: {group}"
        );
        let freed = line_of(&said, "prune_summary")["bytes_freed"].as_u64().unwrap();
        assert!((2_000_000..2_400_000).contains(&freed), "{freed}");
        let text = bed.ok(dry).out();
        let line = text
            .lines()
            .find(|line| line.contains("remove") && line.contains(" 1 "));
        assert!(line.unwrap().contains(" MiB  no rule keeps it"), "{text}");
        assert!(
            text.contains("  alone  why") && text.contains("would free "),
            "{text}"
        );
        // Once more when marks cover the manifests, which are then not read.
        bed.ok(["prune"]);
    }
}

#[test]
fn options_of_prune_are_refused_without_prune() {
    let bed = bed(2);
    for limit in [["--max-unused", "1%"], ["--max-repack", "1G"]] {
        for what in [["-l", "1"].as_slice(), &["1"]] {
            let args = || ["forget"].into_iter().chain(limit).chain(what.iter().copied());
            bed.run(args()).expect(2).says(&[
                "--max-unused and --max-repack",
                "add --prune, or -n",
                "onefold forget",
            ]);
            assert_eq!(bed.backups(), [1, 2], "nothing was done");
            bed.ok(args().chain(["-n"]));
        }
    }
    bed.ok(["forget", "-l", "1", "--max-repack", "0", "--prune"]);
    assert_eq!(bed.backups(), [2]);
    bed.ok(["prune", "--max-unused", "0"]);
}
