//! Typed words with blanks, empty ones, and words meant for another program.

use std::fs;

use crate::bed::{Bed, Ran, lines};

fn bed() -> Bed {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/file"), "text").unwrap();
    bed
}

/// The tags of this backup.
fn tags(bed: &Bed, id: u64) -> Vec<String> {
    let all = lines(&bed.ok(["snapshots", "--json"]).out);
    let one = all.iter().find(|line| line["id"] == id).unwrap();
    let tags = one["tags"].as_array().unwrap().iter();
    tags.map(|tag| tag.as_str().unwrap().to_owned()).collect()
}

#[test]
fn blanks_around_tags_and_hosts_are_no_part_of_them() {
    let bed = bed();
    bed.ok(["backup", "src", "--tag", "weekly, monthly", "--host", " red "]);
    assert_eq!(tags(&bed, 1), ["monthly", "weekly"]);
    bed.ok(["backup", "src", "--host", "red"]);
    let kept = bed
        .ok(["forget", "--keep-tag", "monthly", "--host", " red"])
        .out();
    assert!(kept.contains("forgot 1 backup"), "{kept}");
    assert_eq!(bed.backups(), [1]);
    bed.ok(["tag", "1", "--add", " a ,b ", "--remove", " weekly"]);
    assert_eq!(tags(&bed, 1), ["a", "b", "monthly"]);
    bed.ok(["tag", "1", "--set", " c , d"]);
    assert_eq!(tags(&bed, 1), ["c", "d"]);
    let chosen = bed.ok(["snapshots", "--tag", "d , c", "--json"]).out;
    assert_eq!(lines(&chosen).len(), 1);
    bed.ok(["forget", "-l", "1", "--group-by", " host , tags ", "-n"]);
    bed.ok(["tag", "1", "--set", " "]);
    assert!(tags(&bed, 1).is_empty());
}

#[test]
fn empty_list_items_and_paths_with_outer_blanks_are_refused() {
    let bed = bed();
    let refused: [&[&str]; 14] = [
        &["backup", "src", "--tag", "a,,b"],
        &["backup", "src", "--tag", "a, "],
        &["backup", "src", "--host", " "],
        &["backup", "--stdin", "--stdin-filename", ""],
        &["forget", "--keep-tag", "a,"],
        &["forget", "-l", "1", "--path", "/src "],
        &["forget", "-l", "1", "--host", ""],
        &["snapshots", "--path", " /src"],
        &["snapshots", "--tag", ",a"],
        &["tag", "1", "--add", "a,"],
        &["tag", "1", "--remove", ",a"],
        &["tag", "1", "--set", "a,,"],
        &["series", "show", "--path", "src "],
        &["series", "show", "--path", "src", "--host", ""],
    ];
    for args in refused {
        bed.run(args).expect(2);
    }
    assert!(bed.backups().is_empty());
    // The user may mean a folder of that name.
    fs::create_dir(bed.path("a ")).unwrap();
    bed.ok(["backup", "a "]);
    let chosen = bed.ok(["snapshots", "--path", "a /", "--json"]).out;
    assert_eq!(lines(&chosen).len(), 1);
}

#[test]
fn a_place_on_another_machine_is_refused_and_no_folder_is_made() {
    let bed = Bed::bare();
    for place in [
        "sftp:me@nas:/backup",
        "rest:http://host:8000/",
        "rclone:remote:path",
        "b2:bucket",
        "swift:box:/",
        "http://nas/backup",
        "https://nas/backup",
        "onefold:nas/backup",
        "me@nas:/backup",
    ] {
        let words = ["local folder", "mounted", &format!("./{place}")];
        for args in [
            &["init", "-r", place][..],
            &["snapshots", "--repo", place],
            &["init", "--domain-of", place],
        ] {
            bed.run(args).expect(2).says(&words);
        }
        let mut by_variable = bed.command(["snapshots"]);
        by_variable.env("ONEFOLD_REPOSITORY", place);
        let ran = Ran::from(by_variable.output().unwrap());
        ran.expect(2).says(&words).says(&["ONEFOLD_REPOSITORY"]);
    }
    assert_eq!(fs::read_dir(bed.path("")).unwrap().count(), 0, "nothing was made");
    bed.ok(["init", "-r", "./sftp:x"]);
    assert!(bed.path("sftp:x/config").exists());
}

#[test]
fn a_variable_that_is_empty_says_nothing_and_one_that_is_wrong_is_named() {
    let bed = bed();
    let with = |name: &str, value: &str, args: &[&str]| {
        let mut command = bed.command(args);
        command.env(name, value);
        Ran::from(command.output().unwrap())
    };
    with("ONEFOLD_REPOSITORY", "", &["snapshots"])
        .expect(1)
        .says(&["which store", "ONEFOLD_REPOSITORY"]);
    for name in [
        "ONEFOLD_PASSWORD_FILE",
        "ONEFOLD_PASSWORD_COMMAND",
        "ONEFOLD_INDEX_MIB",
        "ONEFOLD_INDEX_MEMORY_MIB",
        "ONEFOLD_COMPRESSION",
        "ONEFOLD_CAP",
    ] {
        with(name, "", &["backup", "src"]).expect(0);
    }
    for (name, value) in [
        ("ONEFOLD_INDEX_MIB", "many"),
        ("ONEFOLD_INDEX_MEMORY_MIB", "0"),
        ("ONEFOLD_COMPRESSION", "maybe"),
        ("ONEFOLD_CAP", "hat"),
    ] {
        let ran = with(name, value, &["backup", "src"]).expect(2);
        ran.says(&[name, value]);
    }
    // An error about a typed option names the option, not the variable.
    let ran = with("ONEFOLD_CAP", "20", &["backup", "src", "--cap", "hat"]).expect(2);
    assert!(!ran.err().contains("ONEFOLD_CAP"), "{}", ran.err());
    // A variable about another store than the one that `init` makes.
    with("ONEFOLD_FROM_PASSWORD_FILE", "gone", &["init", "-r", "other"]).expect(0);
}

#[test]
fn options_take_precedence_over_the_environment() {
    let bed = Bed::bare();
    fs::write(bed.path("right"), "secret\n").unwrap();
    fs::write(bed.path("wrong"), "guess\n").unwrap();
    let run = |args: &[&str]| {
        let mut command = bed.plain();
        command.args(args).env("ONEFOLD_PASSWORD_FILE", "wrong");
        Ran::from(command.output().unwrap())
    };
    run(&["init", "--password-file", "right"]).expect(0);
    run(&["snapshots", "--password-command", "cat right"]).expect(0);
    run(&["snapshots"]).expect(12);
    for two in [
        &[
            "snapshots",
            "--password-command",
            "cat right",
            "--password-file",
            "right",
        ][..],
        &["snapshots", "--insecure-no-password", "--password-file", "right"],
    ] {
        run(two).expect(2).says(&["--password-file", "leave one"]);
    }
}
