//! `--host`, `--path` and `--tag`, and which backup is `latest` among those that they choose.

use std::fs;

use crate::bed::{Bed, last, lines};

/// Backups 1 to 6, of two hosts and two paths, with tags a, b; a; b; none; c; none. Each `file` has
/// its number.
fn bed() -> Bed {
    let bed = Bed::new();
    for folder in ["one", "two"] {
        fs::create_dir(bed.path(folder)).unwrap();
    }
    let backups: [(&str, &[&str], &[&str]); 6] = [
        ("red", &["one"], &["--tag", "a,b"]),
        ("red", &["one"], &["--tag", "a"]),
        ("blue", &["one"], &["--tag", "b"]),
        ("blue", &["one", "two"], &[]),
        ("green", &["two"], &["--tag", "c"]),
        ("green", &["two"], &[]),
    ];
    for (number, (host, paths, tags)) in (1..).zip(backups) {
        for path in paths {
            fs::write(bed.path(path).join("file"), number.to_string()).unwrap();
        }
        bed.ok(["backup", "--host", host].iter().chain(paths).chain(tags));
    }
    bed
}

/// The ids of the backups that these options choose.
fn chosen(bed: &Bed, options: &[&str]) -> Vec<u64> {
    let ran = bed.ok(["snapshots", "--json"].iter().chain(options));
    lines(&ran.out)
        .iter()
        .map(|line| line["id"].as_u64().unwrap())
        .collect()
}

/// As in restic: of hosts any, of paths all, of lists of tags any, and within a list all.
const CHOICES: [(&[&str], &[u64]); 14] = [
    (&["--host", "red"], &[1, 2]),
    (&["-H", "red", "--host", "green"], &[1, 2, 5, 6]),
    (&["--host", "nobody"], &[]),
    (&["--path", "one"], &[1, 2, 3, 4]),
    (&["--path", "one", "--path", "two"], &[4]),
    (&["--tag", "a"], &[1, 2]),
    (&["--tag", "a,b"], &[1]),
    (&["--tag", "a", "--tag", "b"], &[1, 2, 3]),
    (&["--tag", "a,b", "--tag", "c"], &[1, 5]),
    (&["--tag", "a,c"], &[]),
    (&["--tag", ""], &[4, 6]),
    (&["--tag", "", "--tag", "c"], &[4, 5, 6]),
    (&["--tag", "b", "--host", "blue"], &[3]),
    (&["--tag", "b", "--host", "blue", "--path", "two"], &[]),
];

/// The name of a stream chooses its backups, by each command that takes `--path`.
#[test]
fn a_stream_is_chosen_by_its_name() {
    let bed = Bed::new();
    let streams = [
        ("web.raw", "1"),
        ("web.raw", "2"),
        ("/abs.raw", "3"),
        ("other.raw", "4"),
    ];
    for (name, bytes) in streams {
        bed.fed(["backup", "--stdin", "--stdin-filename", name], bytes.as_bytes())
            .expect(0);
    }
    fs::create_dir(bed.path("web.raw")).unwrap();
    bed.ok(["backup", "web.raw"]);
    let one = bed.path("web.raw");
    for (options, expected) in [
        (["--path", "web.raw"].as_slice(), [1, 2, 5].as_slice()),
        (&["--path", ".//web.raw"], &[5]),
        (&["--path", one.to_str().unwrap()], &[5]),
        (&["--path", "/web.raw"], &[]),
        (&["--path", "/abs.raw"], &[3]),
        (&["--path", "abs.raw"], &[]),
        (&["--path", "other.raw"], &[4]),
        (&["--path", "other.raw/"], &[]),
        (&["--path", "other.raw", "--path", "other.raw"], &[4]),
        (&["--path", "other.raw", "--path", "web.raw"], &[]),
        (&["--path", "other.raw", "--host", "nobody"], &[]),
    ] {
        assert_eq!(chosen(&bed, options), expected, "{options:?}");
    }
    let dumped = |name: &str| bed.ok(["dump", "latest", "--path", name]).out();
    assert_eq!(
        (dumped("other.raw"), dumped("/abs.raw")),
        ("4".to_owned(), "3".to_owned())
    );
    bed.ok(["restore", "latest", "--path", "other.raw", "-t", "out"]);
    assert_eq!(fs::read_to_string(bed.path("out/other.raw")).unwrap(), "4");
    assert!(
        bed.ok(["ls", "latest", "--path", "other.raw"])
            .out()
            .contains("other.raw")
    );
    bed.ok(["tag", "--path", "other.raw", "--add", "chosen"]);
    assert_eq!(chosen(&bed, &["--tag", "chosen"]), [4]);
    bed.run(["dump", "latest", "--path", "nothing.raw"])
        .expect(1)
        .says(&["or of the stream nothing.raw"]);
    bed.ok(["forget", "--path", "web.raw", "-l", "1"]);
    assert_eq!(bed.backups(), [2, 3, 4, 5]);
    bed.ok(["forget", "--path", "other.raw", "--unsafe-allow-remove-all"]);
    assert_eq!(bed.backups(), [2, 3, 5]);
}

#[test]
fn filters_choose_the_expected_backups() {
    let bed = bed();
    for (options, expected) in CHOICES {
        assert_eq!(chosen(&bed, options), expected, "{options:?}");
        // Without a rule, exactly the chosen ones are forgotten.
        let forget = ["forget", "-n", "--json", "--unsafe-allow-remove-all"];
        let options = options
            .iter()
            .map(|option| if *option == "-H" { "--host" } else { option });
        let ran = bed.ok(forget.into_iter().chain(options.clone()));
        let forgotten = lines(&ran.out)
            .into_iter()
            .find(|line| line["message_type"] == "summary");
        let options: Vec<_> = options.collect();
        assert_eq!(
            forgotten.unwrap()["forgotten"],
            serde_json::json!(expected),
            "{options:?}"
        );
    }
}

#[test]
fn a_list_that_has_lost_a_tag_is_refused() {
    let bed = bed();
    for list in ["a,", ",a", ",", "a,,b"] {
        for args in [&["snapshots"][..], &["forget", "--keep-last", "1"]] {
            let ran = bed.run(args.iter().chain(&["--tag", list]));
            ran.expect(2).says(&["a tag in this list is empty"]);
        }
    }
    assert_eq!(chosen(&bed, &[]), [1, 2, 3, 4, 5, 6], "nothing was forgotten");
}

#[test]
fn the_latest_is_that_of_those_that_are_chosen() {
    let bed = bed();
    for (options, expected) in CHOICES {
        let with = |args: &[&str]| bed.run(args.iter().chain(options));
        let Some(latest) = expected.last() else {
            for args in [
                &["ls", "latest"][..],
                &["stats"],
                &["unhold", "latest"],
                &["restore", "latest", "-t", "out"],
            ] {
                with(args).expect(1).says(&["no backup latest"]);
            }
            continue;
        };
        let json = |args: &[&str]| lines(&with(args).expect(0).out);
        let path = if *latest < 4 { "one/file" } else { "two/file" };
        let file = bed.path(path);
        let dumped = with(&["dump", "latest", file.to_str().unwrap()]).expect(0);
        assert_eq!(dumped.out(), latest.to_string(), "{options:?}");
        let listed = with(&["ls", "latest"]).expect(0).out();
        assert!(
            listed.lines().any(|line| line == file.to_str().unwrap()),
            "{options:?}: {listed}"
        );
        assert_eq!(
            json(&["unhold", "latest", "--json"])[0]["snapshot_id"],
            *latest,
            "{options:?}"
        );
        let layouts = |args: &[&str]| -> Vec<u64> {
            let layouts = json(args)
                .into_iter()
                .filter(|line| line["message_type"] == "layout");
            layouts
                .map(|line| line["snapshot_id"].as_u64().unwrap())
                .collect()
        };
        assert_eq!(layouts(&["stats", "--json"]), [*latest], "{options:?}");
        assert_eq!(layouts(&["stats", "all", "--json"]), expected, "{options:?}");
        let restored = json(&["restore", "latest", "-t", "out", "--json"]);
        assert_eq!(restored.last().unwrap()["snapshot_id"], *latest, "{options:?}");
    }
}

#[test]
fn the_latest_of_some_is_tagged_held_and_forgotten() {
    let bed = bed();
    let tagged = lines(
        &bed.ok(["tag", "latest", "--tag", "a", "--add", "x", "--json"])
            .out,
    );
    assert_eq!(tagged[0]["snapshot_id"], 2);
    assert_eq!(
        last(&bed.ok(["hold", "latest", "--host", "blue", "--for", "1y", "--json"]))["snapshot_id"],
        4
    );
    bed.run(["forget", "latest", "--host", "blue"])
        .expect(1)
        .says(&["backup 4 is held"]);
    bed.ok(["unhold", "latest", "--tag", "", "--host", "blue"]);
    bed.ok([
        "forget", "latest", "5", "--host", "red", "--tag", "a,b", "--tag", "c",
    ]);
    assert_eq!(bed.backups(), [2, 3, 4, 6]);
    bed.ok(["forget", "latest", "--tag", "b"]);
    assert_eq!(bed.backups(), [2, 4, 6]);
}

/// A number names one backup, whatever the filter.
#[test]
fn a_filter_that_could_have_no_effect_is_refused() {
    let bed = bed();
    for args in [
        &["ls", "1"][..],
        &["restore", "1", "-t", "out"],
        &["dump", "1"],
        &["stats", "1", "2"],
        &["tag", "1", "--add", "x"],
        &["hold", "1", "--for", "1y"],
        &["unhold", "1"],
        &["forget", "1", "2"],
    ] {
        for filter in [["--host", "red"], ["--path", "one"], ["--tag", "a"]] {
            let ran = bed.run(args.iter().chain(&filter)).expect(2);
            ran.says(&["none is asked for", &format!("onefold {}", args[0])]);
        }
    }
    assert_eq!(bed.backups(), [1, 2, 3, 4, 5, 6]);
}

/// A backup stays if it has all tags of any `--keep-tag` list; `''` keeps backups without tags.
#[test]
fn keep_tag_keeps_backups_that_match_any_of_its_lists() {
    for (lists, kept) in [
        (&["a"][..], &[1, 2][..]),
        (&["a,b"], &[1]),
        (&["a", "b"], &[1, 2, 3]),
        (&["a,b", "c"], &[1, 5]),
        (&["", "a,b"], &[1, 4, 6]),
    ] {
        let bed = bed();
        let mut args = vec!["forget", "--group-by", ""];
        lists.iter().for_each(|list| args.extend(["--keep-tag", list]));
        bed.ok(args);
        assert_eq!(bed.backups(), kept, "{lists:?}");
    }
}
