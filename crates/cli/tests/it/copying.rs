//! `onefold copy`: between folders with passwords of their own, to and from a server, and from a
//! damaged store.

use std::fs;

use crate::bed::{Bed, Ran, last, lines, noise, settle};
use crate::main_job::plant;
use crate::picture::{assert_same, picture};
use crate::served::Served;

/// The lines of a kind.
fn of_kind(ran: &Ran, kind: &str) -> Vec<serde_json::Value> {
    let mut all = lines(&ran.out);
    all.retain(|line| line["message_type"] == kind);
    all
}

/// A bed with two backups of a tree, one of a stream, and a second store.
fn with_a_second_store(init: &[&str]) -> Bed {
    let bed = Bed::new();
    plant(&bed.path("tree"));
    settle();
    bed.ok(["backup", "tree", "--tag", "one", "--host", "laptop"]);
    fs::write(bed.path("tree/folder/more"), noise(600 << 10, 77)).unwrap();
    settle();
    bed.ok(["backup", "tree", "--tag", "two", "--host", "laptop"]);
    bed.fed(
        ["backup", "--stdin", "--stdin-filename", "dump.sql"],
        &noise(300 << 10, 5),
    )
    .expect(0);
    let args = [&["init", "--repo", "second", "--container-mib", "1"], init].concat();
    bed.ok(args);
    bed
}

#[test]
fn a_second_store_gets_what_it_lacks() {
    for (init, is_one_domain) in [(&["--domain-of", "store"][..], true), (&[][..], false)] {
        let mut bed = with_a_second_store(init);
        let first_store = bed.store();
        bed.set("ONEFOLD_FROM_REPOSITORY", first_store.to_str().unwrap());
        bed.set("ONEFOLD_REPOSITORY", bed.path("second").to_str().unwrap());
        let due = bed.ok(["copy", "-n"]);
        assert!(due.out().contains("would copy 3 backups"), "{}", due.out());
        assert!(bed.backups().is_empty(), "a dry run copies none");
        // The first tree alone, and then the rest.
        let one = bed.ok(["copy", "--tag", "one", "--json"]);
        let copied = of_kind(&one, "copied");
        assert_eq!(copied.len(), 1, "{}", one.out());
        assert_eq!(copied[0]["within_domain"], is_one_domain);
        let rest = bed.ok(["copy", "--json"]);
        let skipped = of_kind(&rest, "skipped");
        assert_eq!(skipped[0]["from_snapshot_id"], copied[0]["from_snapshot_id"]);
        let copied = of_kind(&rest, "copied");
        assert_eq!((copied.len(), skipped.len()), (2, 1), "{}", rest.out());
        let read = copied[0]["bytes_read"].as_u64().unwrap();
        assert!((600 << 10..900 << 10).contains(&read), "{read}: what is new");
        let summary = last(&rest);
        assert_eq!((&summary["copied"], &summary["failed"]), (&2.into(), &0.into()));
        let again = bed.ok(["copy"]);
        assert_eq!(again.out().trim(), "copied 0 backups; 3 are there already");
        assert!(again.err().is_empty(), "quiet in a pipe: {}", again.err());
        let rows = lines(&bed.ok(["snapshots", "--json"]).out);
        assert_eq!(rows[1]["tags"], serde_json::json!(["two"]));
        assert_eq!(rows[1]["hostname"], "laptop");
        assert_eq!(rows[1]["origin"]["snapshot_id"], copied[0]["from_snapshot_id"]);
        bed.ok(["restore", &rows[1]["id"].to_string(), "-t", "out"]);
        assert_same(
            &picture(&bed.path("tree")),
            &picture(&bed.restored("out", "tree")),
        );
        let dumped = bed.ok(["dump", &rows[2]["id"].to_string()]);
        assert!(dumped.out == noise(300 << 10, 5));
        let check = bed.run(["check", "--read-data"]).expect(0);
        assert!(check.out().contains("no damage found"), "{}", check.out());
        // And back, after the first store has lost one.
        let there = first_store.to_str().unwrap();
        bed.ok(["forget", "--repo", there, "1"]);
        let back = bed.ok(["copy", "--repo", there, "--from-repo", "second", "--json"]);
        assert_eq!(of_kind(&back, "copied").len(), 1, "{}", back.out());
    }
}

#[test]
fn each_store_has_its_password() {
    let bed = Bed::bare();
    let run = |password: &str, args: &[&str]| -> Ran {
        let mut command = bed.plain();
        command.env("ONEFOLD_PASSWORD", password).args(args);
        command.output().unwrap().into()
    };
    run("eins", &["init"]).expect(0);
    fs::write(bed.path("file"), "text").unwrap();
    run("eins", &["backup", "file"]).expect(0);
    fs::write(bed.path("eins"), "eins\n").unwrap();
    let second = [
        "init",
        "--repo",
        "second",
        "--domain-of",
        "store",
        "--from-password-file",
        "eins",
    ];
    run("zwei", &second).expect(0);
    let copy = ["copy", "--repo", "second", "--from-repo", "store"];
    let with = |more: &[&'static str]| run("zwei", &[&copy[..], more].concat());
    with(&[]).expect(12).says(&["store", "--from-password-file"]);
    with(&[
        "--from-password-file",
        "eins",
        "--from-password-command",
        "echo eins",
    ])
    .expect(2)
    .says(&["--from-password-command", "leave one of them out"]);
    with(&["--from-password-file", "eins"]).expect(0);
    with(&["--from-password-command", "echo eins"]).expect(0);
    let mut command = bed.plain();
    command
        .env("ONEFOLD_PASSWORD", "zwei")
        .env("ONEFOLD_FROM_PASSWORD", "eins")
        .args(copy);
    let ran = Ran::from(command.output().unwrap()).expect(0);
    assert!(ran.out().contains("1 is there already"), "{}", ran.out());
    run("zwei", &["copy", "--repo", "second"])
        .expect(2)
        .says(&["--from-repo"]);
}

#[test]
fn a_server_is_copied_to_and_from() {
    let served = Served::new();
    let bed = &served.bed;
    plant(&bed.path("tree"));
    settle();
    let machine = served.machine("one", "web", "write,list,read,hold");
    let local = ["--repo", "store", "--insecure-no-password"];
    machine.ok(&[&["init"], &local[..]].concat());
    machine.ok(&[&["backup", "tree"], &local[..]].concat());
    machine.ok(&[&["hold", "1", "--for", "7d"], &local[..]].concat());
    fs::write(bed.path("tree/folder/more"), noise(600 << 10, 77)).unwrap();
    settle();
    machine.ok(&[&["backup", "tree"], &local[..]].concat());
    let to_server = [
        "copy",
        "--from-repo",
        "store",
        "--from-insecure-no-password",
        "--json",
    ];
    let copied = machine.ok(&to_server);
    assert_eq!(of_kind(&copied, "copied").len(), 2, "{}", copied.out());
    let again = last(&machine.ok(&to_server));
    assert_eq!((&again["copied"], &again["skipped"]), (&0.into(), &2.into()));
    let rows = lines(&machine.ok(&["snapshots", "--json"]).out);
    assert!(rows[0]["hold_until"].is_string() && rows[1]["hold_until"].is_null());
    machine.ok(&["restore", "latest", "-t", "out"]);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    // Without the right to hold backups: the copy is not held, and a warning says so.
    let mail = served.machine("two", "mail", "write,list,read");
    mail.run(&to_server).expect(0).says(&["may not hold"]);
    let rows = lines(&mail.ok(&["snapshots", "--json"]).out);
    assert!(rows.len() == 2 && rows[0]["hold_until"].is_null());
    // From the server into another store.
    let other = ["--repo", "other", "--insecure-no-password"];
    machine.ok(&[&["init"], &other[..]].concat());
    let from_server = [
        &["copy", "--from-repo", &machine.repository, "--json"],
        &other[..],
    ]
    .concat();
    let copied = machine.ok(&from_server);
    assert_eq!(of_kind(&copied, "copied").len(), 2, "{}", copied.out());
    machine.ok(&[&["restore", "latest", "-t", "back"], &other[..]].concat());
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("back", "tree")),
    );
    served.end();
}

#[test]
fn a_damaged_backup_is_named_and_the_others_are_copied() {
    for init in [&["--domain-of", "store"][..], &[][..]] {
        let bed = Bed::new();
        for (name, seed) in [("good", 1), ("bad", 2)] {
            fs::create_dir(bed.path(name)).unwrap();
            fs::write(bed.path(name).join("file"), noise(3 << 20, seed)).unwrap();
        }
        settle();
        bed.ok(["backup", "bad"]);
        let mut data = bed.objects("data");
        data.sort();
        let mut bytes = fs::read(&data[1]).unwrap();
        bytes[5000] ^= 1;
        fs::write(&data[1], bytes).unwrap();
        bed.ok(["backup", "good"]);
        bed.ok([&["init", "--repo", "second"], init].concat());
        let args = ["copy", "--repo", "second", "--from-repo", "store"];
        let ran = bed
            .run(args)
            .expect(3)
            .says(&["backup 1 was not copied", "bad/file"]);
        assert!(
            ran.out().contains("copied 1 backup; 1 backup not copied"),
            "{}",
            ran.out()
        );
        let json = bed.run([&args[..], &["--json"]].concat()).expect(3);
        let told = of_kind(&json, "not_copied");
        assert!(
            told[0]["files"][0].as_str().unwrap().ends_with("bad/file"),
            "{}",
            json.out()
        );
        bed.ok(["check", "--repo", "second", "--read-data"]);
    }
}

/// Flips a bit of a manifest revision in the first store.
fn garble(bed: &Bed, revision: &str) {
    let all = bed.objects("backups");
    let path = all.iter().find(|path| path.to_string_lossy().ends_with(revision));
    let path = path.unwrap_or_else(|| panic!("{revision} in {all:?}"));
    let mut bytes = fs::read(path).unwrap();
    bytes[70] ^= 1;
    fs::write(path, bytes).unwrap();
}

#[test]
fn only_a_backup_that_is_not_copied_is_said_to_be_left_out() {
    let bed = with_a_second_store(&[]);
    bed.ok(["hold", "1", "--until", "2200-01-31"]);
    garble(&bed, "1.1");
    let args = |more: &[&'static str]| [&["copy", "--repo", "second", "--from-repo", "store"], more].concat();
    // The lost revision may have any tags.
    bed.run(args(&["--tag", "two"]))
        .expect(3)
        .says(&["is not copied"]);
    let elsewhere = bed.ok(args(&["--host", "elsewhere"]));
    assert!(elsewhere.err().is_empty(), "{}", elsewhere.err());
    let ran = bed
        .ok(args(&[]))
        .says(&["backup 1 has the tags and hold of an older revision"]);
    assert!(!ran.err().contains("is not copied"), "{}", ran.err());
    let again = bed.ok(args(&[]));
    assert!(again.err().is_empty(), "{}", again.err());
    garble(&bed, "3.0");
    bed.run(args(&[])).expect(3).says(&["is not copied"]);
    let named = bed.ok(args(&["2"]));
    assert!(named.err().is_empty(), "{}", named.err());
}
