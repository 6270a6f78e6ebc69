//! Verbs about backups, on a server: they tell and do the same as on a folder, within a namespace.

use std::fs;

use serde_json::Value;

use crate::bed::{Bed, Ran, last, lines, noise, settle};
use crate::checking::flip;
use crate::served::{Machine, Served, files_below, ran};

const ALL: &str = "write,list,read,forget,hold";

/// The objects that the command has printed, without what differs from store to store.
fn told(ran: &Ran) -> Vec<Value> {
    let mut rows = lines(&ran.out);
    for row in &mut rows {
        strip(row);
    }
    rows
}

fn strip(value: &mut Value) {
    match value {
        Value::Array(all) => all.iter_mut().for_each(strip),
        Value::Object(fields) => {
            for name in ["committed", "time", "hold_until", "paths", "stored_bytes"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(strip);
        }
        _ => {}
    }
}

fn back_up_thrice(run: impl Fn(&[&str]) -> Ran, bed: &Bed) {
    for round in 0..3 {
        fs::write(bed.path("file"), noise(50_000, round)).unwrap();
        run(&["backup", "--host", "h", "file", "--json"]).expect(0);
    }
}

#[test]
fn forgetting_holding_and_tagging_tell_the_same_as_on_a_folder() {
    let local = Bed::new();
    let served = Served::new();
    let machine = served.machine("one", "web", ALL);
    back_up_thrice(|args| local.run(args), &local);
    back_up_thrice(|args| machine.run(args), &served.bed);
    for args in [
        &["tag", "--add", "gold", "1"][..],
        &["tag", "--set", "silver", "--host", "h"],
        // Not for a span: its end is printed, and the two commands may run in different minutes.
        &["hold", "--until", "2200-01-31", "2"],
        &["forget", "2"],
        &["forget", "--keep-last", "1", "--host", "other"],
        &["snapshots"],
        &["forget", "--keep-last", "1"],
        &["unhold", "2"],
        &["forget", "2", "2", "02"],
        &["snapshots"],
        &["forget", "7"],
        &["check", "--read-data"],
    ] {
        let args = [args, &["--json"]].concat();
        let (here, there) = (local.run(&args), machine.run(&args));
        assert_eq!(here.code, there.code, "{args:?}: {}", there.err());
        if args[0] == "check" {
            let of_one = |ran: &Ran| last(ran)["backups"].clone();
            assert_eq!(of_one(&here), of_one(&there));
        } else {
            assert_eq!(told(&here), told(&there), "{args:?}");
        }
    }
    assert_eq!(machine.backups(), [3]);
    served.end();
}

#[test]
fn a_namespace_forgets_holds_and_checks_only_its_own() {
    let served = Served::new();
    fs::write(served.bed.path("file"), noise(50_000, 1)).unwrap();
    let one = served.machine("one", "web", ALL);
    let other = served.machine("two", "webs", ALL);
    for machine in [&one, &one, &other, &other] {
        machine.ok(&["backup", "--host", "h", "file"]);
    }
    for args in [
        &["forget", "1"][..],
        &["hold", "1", "--for", "1d"],
        &["tag", "--add", "x", "1"],
        &["stats", "1"],
        &["ls", "1"],
    ] {
        other.run(args).expect(1).says(&["backup 1"]);
    }
    // The policy would leave one of all four, and does leave one of the two.
    other.ok(&["forget", "--group-by", "", "--keep-last", "1"]);
    assert_eq!((one.backups(), other.backups()), (vec![1, 2], vec![4]));
    let checked = last(&other.ok(&["check", "--json"]));
    assert_eq!(checked["backups"], 1, "{checked}");
    let stats = lines(&other.ok(&["stats", "--json"]).out);
    assert_eq!(stats[0]["backups"], 1, "{stats:?}");
    assert_eq!(stats.last().unwrap()["snapshot_id"], 4, "{stats:?}");
    served.end();
}

#[test]
fn each_verb_needs_its_right() {
    let served = Served::new();
    fs::write(served.bed.path("file"), noise(5_000, 1)).unwrap();
    let machine = served.machine("one", "web", "write,list");
    machine.ok(&["backup", "file"]);
    for (args, right) in [
        (&["forget", "1"][..], "forget"),
        (&["tag", "--add", "x", "1"], "forget"),
        (&["hold", "1", "--for", "1d"], "hold"),
        (&["unhold", "1"], "hold"),
        (&["check"], "read"),
        (&["restore", "1", "-t", "out"], "read"),
    ] {
        let why = format!("has no right to {right}");
        machine.run(args).expect(1).says(&[&why]);
    }
    machine.ok(&["forget", "--dry-run", "--keep-last", "1"]);
    machine
        .run(&["forget", "--keep-last", "1", "--prune"])
        .expect(1)
        .says(&["only the server prunes"]);
    assert_eq!(machine.backups(), [1]);
}

/// Whatever rights a token has: a stolen machine cannot forget what is young, nor fill the store.
#[test]
fn limits_of_a_namespace_hold_against_every_right() {
    let served = Served::new();
    let machine = served.machine("one", "web", ALL);
    fs::write(served.bed.path("file"), noise(300_000, 1)).unwrap();
    machine.ok(&["backup", "file"]);
    machine.ok(&["backup", "file"]);
    let set = |args: &[&str]| {
        let all = [&["server", "namespace", "set", "srv", "web"], args].concat();
        served.operator(&all).expect(0)
    };
    set(&["--minimum-age", "1d", "--quota", "1M"]);
    machine
        .run(&["forget", "1"])
        .expect(1)
        .says(&["backup 1 is held until", "younger than the minimum age"]);
    machine.ok(&["forget", "--keep-last", "1"]);
    assert_eq!(machine.backups(), [1, 2]);
    fs::write(served.bed.path("file"), noise(3 << 20, 2)).unwrap();
    machine
        .run(&["backup", "file"])
        .expect(1)
        .says(&["quota", "used up"]);
    assert_eq!(machine.backups(), [1, 2]);
    let listed = last(
        &served
            .operator(&["server", "namespace", "list", "srv", "--json"])
            .expect(0),
    );
    assert_eq!(listed["minimum_age"], "1d", "{listed}");
    assert_eq!(listed["quota"], 1 << 20, "{listed}");
    set(&["--quota", "none"]);
    machine.ok(&["backup", "file"]);
    machine.run(&["forget", "1"]).expect(1);
    set(&["--minimum-age", "none"]);
    machine.ok(&["forget", "1"]);
    let left = machine.backups();
    assert!(left.len() == 2 && left[0] == 2, "{left:?}");
    served
        .operator(&["server", "namespace", "set", "srv", "none", "--quota", "1M"])
        .expect(1)
        .says(&["there is no namespace none"]);
    served.end();
}

/// A tenant that is made while the server runs is served. Its store shares nothing with another.
#[test]
fn tenants_share_nothing() {
    let served = Served::new();
    fs::write(served.bed.path("file"), noise(300_000, 1)).unwrap();
    let one = served.machine("one", "web", ALL);
    one.ok(&["backup", "file"]);
    served
        .operator(&[
            "--insecure-no-password",
            "server",
            "tenant",
            "add",
            "srv",
            "guest",
        ])
        .expect(0);
    served
        .operator(&["server", "namespace", "add", "srv", "lab", "--tenant", "guest"])
        .expect(0);
    served
        .operator(&["server", "namespace", "add", "srv", "web", "--tenant", "guest"])
        .expect(1)
        .says(&["belongs to the tenant main"]);
    let other = served.machine("two", "lab", ALL);
    let made = last(&other.ok(&["backup", "file", "--json"]));
    assert!(made["data_added"].as_u64().unwrap() > 290_000, "{made}");
    assert_eq!(other.backups(), [1]);
    let tenants = served.operator(&["server", "tenant", "list", "srv"]).expect(0);
    let tenants = tenants.out();
    let rows: Vec<Vec<&str>> = tenants
        .lines()
        .map(|row| row.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows,
        [
            ["tenant", "store"],
            ["guest", "stores/guest"],
            ["main", "stores/main"]
        ]
    );
    served.end();
}

/// A forgotten backup's data is freed by the server.
#[test]
fn the_server_prunes_what_machines_forget() {
    let served = Served::new();
    let machine: Machine<'_> = served.machine("one", "web", ALL);
    fs::write(served.bed.path("file"), noise(3 << 20, 1)).unwrap();
    machine.ok(&["backup", "file"]);
    fs::write(served.bed.path("file"), noise(1 << 20, 2)).unwrap();
    machine.ok(&["backup", "file"]);
    machine.ok(&["forget", "1"]);
    let mut prune = served.bed.command(["prune", "--json"]);
    prune.env("ONEFOLD_REPOSITORY", served.bed.path("srv/stores/main"));
    ran(prune).expect(0);
    machine.ok(&["restore", "latest", "-t", "out"]);
    let restored = served.bed.restored("out", "file");
    assert!(fs::read(restored).unwrap() == noise(1 << 20, 2));
    served.end();
}

fn back_up_six_files(served: &Served, machine: &Machine<'_>) {
    fs::create_dir(served.bed.path("src")).unwrap();
    for number in 0..6 {
        fs::write(served.bed.path(format!("src/{number}")), noise(700 << 10, number)).unwrap();
    }
    settle();
    machine.ok(&["backup", "src"]);
}

/// A check of one machine finds damage, and its next backup heals it.
#[test]
fn a_backup_heals_the_servers_store() {
    let served = Served::new();
    let machine = served.machine("one", "web", ALL);
    back_up_six_files(&served, &machine);
    let data = files_below(&served.bed, "data").into_iter();
    let victim = data.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&victim).unwrap();
    bytes[5000] ^= 1;
    fs::write(&victim, bytes).unwrap();
    let checked = machine.run(&["check", "--read-data"]).expect(1);
    assert!(checked.err().contains("damage") || checked.out().contains("damage"));
    machine.ok(&["backup", "src"]);
    machine.ok(&["check", "--read-data"]);
    machine.ok(&["restore", "1", "-t", "out"]);
    served.end();
}

/// A server has read a catalog. Then its first copy rots, and the next check finds that.
#[test]
fn a_server_finds_what_rots_while_it_runs() {
    let served = Served::new();
    let machine = served.machine("one", "web", ALL);
    back_up_six_files(&served, &machine);
    machine.ok(&["check"]);
    for recipe in files_below(&served.bed, "recipe") {
        let len = fs::metadata(&recipe).unwrap().len();
        flip(&recipe, usize::try_from(len).unwrap() - 100);
    }
    let checked = machine.run(&["check"]).expect(1);
    assert!(
        checked.out().contains("a second copy is good"),
        "{}",
        checked.out()
    );
}
