//! What changed between backups, and where files are found in them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::bed::{Bed, Ran, last, lines, noise, settle};
use crate::served::Served;

/// A tree with an entry of each kind.
fn plant(bed: &Bed) {
    fs::create_dir_all(bed.path("tree/gone/inner")).unwrap();
    fs::create_dir_all(bed.path("tree/stays")).unwrap();
    for (name, bytes) in [
        ("gone/inner/one", &b"one"[..]),
        ("gone/two", b"two"),
        ("stays/same length", b"before"),
        ("stays/grows", b"short"),
        ("stays/touched", b"as it was"),
        ("stays/mode", b"as it was"),
        ("stays/becomes a link", b"12345"),
        ("first name", b"two names"),
        ("zzz last", b"last"),
    ] {
        fs::write(bed.path("tree").join(name), bytes).unwrap();
    }
    fs::write(bed.path("tree/large"), noise(3 << 20, 7)).unwrap();
    fs::hard_link(bed.path("tree/first name"), bed.path("tree/second name")).unwrap();
    symlink("there", bed.path("tree/stays/link")).unwrap();
}

/// Changes an entry of each kind.
fn change(bed: &Bed) {
    let tree = |name: &str| bed.path("tree").join(name);
    fs::remove_dir_all(tree("gone")).unwrap();
    fs::create_dir_all(tree("new/inner")).unwrap();
    fs::write(tree("new/inner/three"), b"three").unwrap();
    fs::write(tree("stays/same length"), b"AFTER!").unwrap();
    fs::write(tree("stays/grows"), b"longer than before").unwrap();
    let later = SystemTime::now() + Duration::from_secs(100);
    let touched = fs::File::options()
        .write(true)
        .open(tree("stays/touched"))
        .unwrap();
    touched.set_modified(later).unwrap();
    fs::set_permissions(tree("stays/mode"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(tree("stays/becomes a link")).unwrap();
    symlink("x", tree("stays/becomes a link")).unwrap();
    fs::remove_file(tree("stays/link")).unwrap();
    symlink("elsewhere", tree("stays/link")).unwrap();
    // The second name becomes the first one; its content stays.
    fs::remove_file(tree("first name")).unwrap();
    // In the middle of a large file, one byte is another one.
    let mut large = fs::read(tree("large")).unwrap();
    large[1_500_000] ^= 1;
    fs::write(tree("large"), large).unwrap();
}

fn two_backups() -> Bed {
    let bed = Bed::new();
    plant(&bed);
    settle();
    bed.ok(["backup", "tree"]);
    change(&bed);
    bed.ok(["backup", "tree"]);
    bed
}

/// The lines about entries, without the path of the bed.
fn changes(ran: &Ran, root: &Path) -> Vec<String> {
    let root = root.display().to_string();
    let root = format!("{}/", root.trim_end_matches('/'));
    let of_entry = |line: &&str| ["+ ", "- ", "M ", "T ", "TU", "U "].contains(&&line[..2.min(line.len())]);
    let out = ran.out();
    let found = out.lines().filter(of_entry);
    found.map(|line| line.replacen(&root, "", 1)).collect()
}

const CHANGES: [&str; 13] = [
    "-    tree/first name",
    "-    tree/gone/",
    "-    tree/gone/inner/",
    "-    tree/gone/inner/one",
    "-    tree/gone/two",
    "M    tree/large",
    "+    tree/new/",
    "+    tree/new/inner/",
    "+    tree/new/inner/three",
    "T    tree/stays/becomes a link",
    "M    tree/stays/grows",
    "M    tree/stays/link",
    "M    tree/stays/same length",
];

#[test]
fn a_comparison_names_what_changed_and_counts_it() {
    let bed = two_backups();
    let root = bed.path("");
    let ran = bed.ok(["diff", "1", "2"]);
    assert_eq!(changes(&ran, &root), CHANGES);
    let out = ran.out();
    for words in [
        "comparing backup 1 to 2",
        "1 new,          3 removed,          3 changed",
        "2 new,          2 removed",
        "0 new,          0 removed",
    ] {
        assert!(out.contains(words), "{words:?} in {out}");
    }

    let json = lines(&bed.ok(["diff", "1", "latest", "--json"]).out);
    let (statistics, of_entries) = json.split_last().unwrap();
    assert_eq!(of_entries.len(), 13);
    assert!(of_entries.iter().all(|line| line["message_type"] == "change"));
    assert_eq!(of_entries[5]["modifier"], "M");
    let large = (3 << 20) + 6;
    assert_eq!(
        *statistics,
        serde_json::json!({
            "message_type": "statistics",
            "source_snapshot": 1,
            "target_snapshot": 2,
            "changed_files": 3,
            "added": {"files": 1, "dirs": 2, "others": 0, "bytes": large + 5 + 18},
            "removed": {"files": 3, "dirs": 2, "others": 0, "bytes": large + 9 + 6 + 5 + 5},
        })
    );

    // The other way round.
    let back = bed.ok(["diff", "2", "1", "--json"]);
    let back = last(&back);
    assert_eq!(back["added"], statistics["removed"]);
    assert_eq!(back["removed"], statistics["added"]);
    let same = bed.ok(["diff", "2", "2", "--metadata"]);
    assert!(changes(&same, &root).is_empty(), "{}", same.out());
}

#[test]
fn changes_of_metadata_alone_are_shown_on_request() {
    let bed = two_backups();
    let all = changes(&bed.ok(["diff", "1", "2", "--metadata"]), &bed.path(""));
    // Folders above the tree are changed by other tests.
    let is_more = |line: &&String| line.contains("tree/") && !CHANGES.contains(&line.as_str());
    let more: Vec<_> = all.iter().filter(is_more).collect();
    assert_eq!(
        more,
        [
            "U    tree/",
            "U    tree/stays/",
            "TU   tree/stays/becomes a link",
            "U    tree/stays/mode",
            "U    tree/stays/touched",
        ]
    );
}

#[test]
fn folders_are_compared_alone_and_with_others() {
    let bed = two_backups();
    let stays = bed.ok(["diff", "1:tree/stays", "2:tree/stays"]);
    let paths = changes(&stays, Path::new("/none"));
    assert_eq!(
        paths,
        [
            "T    /becomes a link",
            "M    /grows",
            "M    /link",
            "M    /same length"
        ]
    );
    let other = bed.ok(["diff", "1:tree/gone", "2:tree/new"]);
    let paths = changes(&other, Path::new("/none"));
    assert_eq!(paths, ["-    /inner/one", "+    /inner/three", "-    /two"]);
    for (before, words) in [
        ("1:tree/none", "has no folder"),
        ("1:tree/large", "is no folder"),
        ("9", "there is no backup 9"),
    ] {
        bed.run(["diff", before, "2"]).expect(1).says(&[words]);
    }
    let idle = ["diff", "1", "2", "--host", "x"];
    bed.run(idle).expect(2).says(&["--host, --path and --tag"]);
}

#[test]
fn streams_are_compared_by_content() {
    let bed = Bed::new();
    let bytes = noise(2 << 20, 3);
    for stream in [&bytes[..], &bytes[..], &bytes[..1 << 20]] {
        bed.fed(["backup", "--stdin", "--stdin-filename", "s.img"], stream)
            .expect(0);
    }
    let unchanged = bed.ok(["diff", "1", "2", "--json"]);
    assert_eq!(last(&unchanged)["changed_files"], 0);
    let shorter = lines(&bed.ok(["diff", "2", "3", "--json"]).out);
    assert_eq!(
        (&shorter[0]["path"], &shorter[0]["modifier"]),
        (&"s.img".into(), &"M".into())
    );
    assert_eq!(shorter[1]["removed"]["bytes"], 2 << 20);
    plant(&bed);
    bed.ok(["backup", "tree"]);
    bed.run(["diff", "3", "latest"])
        .expect(1)
        .says(&["single stream"]);
}

/// The lines that `find` prints, as groups.
fn groups(ran: &Ran) -> Vec<Vec<String>> {
    let out = ran.out();
    let groups = out.split("\n\n").filter(|group| !group.is_empty());
    groups
        .map(|group| group.lines().map(str::to_owned).collect())
        .collect()
}

#[test]
fn a_search_groups_what_it_finds_by_backup() {
    let bed = two_backups();
    fs::write(bed.path("tree/NEW"), b"").unwrap();
    bed.ok(["backup", "tree"]);
    bed.fed(["backup", "--stdin", "--stdin-filename", "new.sql"], b"x")
        .expect(0);

    let ran = bed.ok(["find", "two", "three"]);
    let found = groups(&ran);
    let heads: Vec<_> = found.iter().map(|group| &group[0]).collect();
    assert!(
        heads[0].starts_with("Found matching entries in backup 3 from 2"),
        "{heads:?}"
    );
    let names = |group: &[String]| -> Vec<String> {
        let names = group[1..]
            .iter()
            .map(|path| path.rsplit("tree/").next().unwrap().to_owned());
        names.collect()
    };
    let all: Vec<_> = found.iter().map(|group| names(group)).collect();
    assert_eq!(
        all,
        [vec!["new/inner/three"], vec!["new/inner/three"], vec!["gone/two"]]
    );
    let reverse = groups(&bed.ok(["find", "two", "three", "--reverse"]));
    assert!(reverse[0][0].contains("backup 1 from"), "{reverse:?}");
    assert_eq!(names(&reverse[0]), ["gone/two"]);

    // Only matching entries, not all that is below them.
    assert_eq!(groups(&bed.ok(["find", "inner"])).len(), 3);
    assert_eq!(groups(&bed.ok(["find", "tree/*/inner/*"])).len(), 3);
    assert!(bed.ok(["find", "nothing of this name"]).out.is_empty());
    let json = |args: &[&str]| lines(&bed.ok(args.iter().chain(&["--json"])).out);
    let any_case = json(&["find", "-i", "New*"]);
    assert_eq!(any_case.len(), 5, "{any_case:?}");
    assert_eq!(any_case[0]["type"], "stream");
    assert_eq!(
        any_case[4],
        serde_json::json!({"message_type": "summary", "hits": 4, "snapshots": 4})
    );
    let of_one = json(&["find", "two", "-s", "1"]);
    assert_eq!(of_one.len(), 2);
    assert_eq!(
        (
            &of_one[0]["message_type"],
            &of_one[0]["snapshot_id"],
            &of_one[0]["size"]
        ),
        (&"match".into(), &1.into(), &3.into())
    );
    let path = bed.path("tree/gone/two").display().to_string();
    assert_eq!(of_one[0]["path"], path.as_str());
    assert_eq!(json(&["find", &path])[0], of_one[0]);
    assert_eq!(json(&["find", "two", "-s", "latest", "--path", "tree"]).len(), 1);
    assert_eq!(json(&["find", "touched", "--oldest", "2020-01-01"]).len(), 4);
    assert_eq!(json(&["find", "touched", "--newest", "2020-01-01"]).len(), 1);
    let long = bed.ok(["find", "three", "--long", "--snapshot", "2"]).out();
    assert!(long.lines().nth(1).unwrap().starts_with("-rw"), "{long}");
    bed.run(["find", "x", "--long", "--json"]).expect(2);
    bed.run(["find", "x", "-s", "1", "--tag", "a"]).expect(2);
    bed.run(["find"]).expect(2);
}

/// Many backups of a tree that changes a little: each finds exactly what it has.
#[test]
fn every_backup_finds_what_it_has() {
    let bed = Bed::new();
    fs::create_dir(bed.path("tree")).unwrap();
    for number in 0..3000 {
        fs::write(bed.path(format!("tree/{number:05}-{:0100}", 0)), b"x").unwrap();
    }
    let mut want: Vec<Vec<String>> = Vec::new();
    let mut names: std::collections::BTreeSet<String> = [].into();
    for round in 0..6 {
        let name = format!("{:05}-wanted", (round * 1777) % 3000);
        fs::write(bed.path("tree").join(&name), b"x").unwrap();
        names.insert(name);
        if round % 2 == 1 {
            let gone = names.pop_first().unwrap();
            fs::remove_file(bed.path("tree").join(gone)).unwrap();
        }
        settle();
        bed.ok(["backup", "tree"]);
        want.push(names.iter().cloned().collect());
    }
    for order in [&["--reverse"][..], &[]] {
        let found = groups(&bed.ok(["find", "*-wanted"].iter().chain(order)));
        let mut found: Vec<Vec<String>> = found
            .into_iter()
            .map(|group| {
                group[1..]
                    .iter()
                    .map(|path| path.rsplit('/').next().unwrap().to_owned())
                    .collect()
            })
            .collect();
        if order.is_empty() {
            found.reverse();
        }
        assert_eq!(found, want);
    }
}

#[test]
fn a_server_compares_and_searches_the_same() {
    let served = Served::new();
    let bed = &served.bed;
    plant(bed);
    settle();
    let machine = served.machine("one", "web", "write,list,read");
    machine.ok(&["backup", "tree"]);
    change(bed);
    machine.ok(&["backup", "tree"]);
    let ids: Vec<String> = machine.backups().iter().map(u64::to_string).collect();
    let ran = machine.ok(&["diff", &ids[0], &ids[1]]);
    assert_eq!(changes(&ran, &bed.path("")), CHANGES);
    let found = groups(&machine.ok(&["find", "two", "three"]));
    assert_eq!(found.len(), 2, "{found:?}");
    served.end();
}

/// A further name becomes a link. The bytes of the file are still there, under its first name.
#[test]
fn bytes_of_a_further_name_are_not_removed_with_it() {
    let bed = Bed::new();
    fs::create_dir(bed.path("tree")).unwrap();
    fs::write(bed.path("tree/first"), "twelve bytes").unwrap();
    fs::hard_link(bed.path("tree/first"), bed.path("tree/second")).unwrap();
    settle();
    bed.ok(["backup", "tree"]);
    fs::remove_file(bed.path("tree/second")).unwrap();
    symlink("first", bed.path("tree/second")).unwrap();
    settle();
    bed.ok(["backup", "tree"]);
    let statistics = last(&bed.ok(["diff", "1", "2", "--json"]));
    assert_eq!(statistics["removed"]["bytes"], 0, "{statistics}");
    assert_eq!(statistics["added"]["bytes"], 0, "{statistics}");
}
