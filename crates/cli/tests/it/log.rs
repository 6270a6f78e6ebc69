//! `--log` and `ONEFOLD_LOG`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::bed::{Bed, Ran, noise};

const PASSWORD: &str = "correct horse battery staple";
/// The content of a file, which no log may contain.
const CONTENT: &str = "the content of a file that nobody else may read";

/// All but the time of each line. Checks that the time is valid.
fn events(text: &str) -> Vec<&str> {
    let event = |line| {
        let (time, rest) = str::split_once(line, ' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
        rest.trim_start()
    };
    text.lines().map(event).collect()
}

/// A store with a password, and a backup that is forgotten.
fn bed() -> Bed {
    let bed = Bed::bare();
    fs::write(bed.path("file"), CONTENT).unwrap();
    fs::write(bed.path("noise"), noise(3 << 20, 1)).unwrap();
    run(&bed, &["init", "--container-mib", "1"], &[]);
    run(&bed, &["backup", "file", "noise"], &[]);
    bed
}

fn with_password(bed: &Bed, args: &[&str]) -> Command {
    let mut command = bed.plain();
    command.env("ONEFOLD_PASSWORD", PASSWORD).args(args);
    command
}

#[track_caller]
fn run(bed: &Bed, args: &[&str], directives: &[&str]) -> Ran {
    let mut command = with_password(bed, args);
    if let [directives] = directives {
        command.env("ONEFOLD_LOG", directives);
    }
    Ran::from(command.output().unwrap()).expect(0)
}

/// The log, which only its owner may read, and which has no secrets.
fn log(bed: &Bed) -> String {
    let path: PathBuf = bed.path("log");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(path).unwrap();
    assert!(!text.contains(PASSWORD) && !text.contains(CONTENT));
    text
}

#[test]
fn without_both_nothing_is_logged() {
    let bed = bed();
    fs::write(bed.path("file"), "other").unwrap();
    for args in [&["backup", "file", "noise"][..], &["forget", "1", "--prune"]] {
        assert_eq!(run(&bed, args, &[]).err(), "");
        // An empty variable counts as unset.
        assert_eq!(run(&bed, args, &[""]).err(), "");
    }
    assert!(!bed.path("log").exists());
}

#[test]
fn a_backup_and_a_prune_are_logged_to_a_file() {
    let bed = bed();
    let logged = ["--log", "log"];
    fs::write(bed.path("noise"), noise(3 << 20, 2)).unwrap();
    let ran = run(&bed, &[&["backup", "file", "noise"], &logged[..]].concat(), &[]);
    assert_eq!(ran.err(), "");
    let text = log(&bed);
    let lines = events(&text);
    let has = |words: &[&str]| {
        lines
            .iter()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    for words in [
        &["INFO onefold::command: begins", "command=\"backup\""][..],
        &["DEBUG onefold::storage: put", "object=data/", "bytes=", "took="],
        &["DEBUG onefold::storage: barrier"],
        &["INFO onefold::session: begins", "session=2", "kind=\"backup\""],
        &["DEBUG onefold::session: heartbeat", "session=2"],
        &[
            "INFO onefold::session: is committed",
            "session=2",
            "manifest=backups/",
        ],
        &["INFO onefold::command: ends", "code=0"],
    ] {
        assert!(has(words), "{words:?} in:\n{text}");
    }
    assert!(!has(&["TRACE"]), "{text}");
    run(&bed, &["forget", "1"], &[]);
    run(
        &bed,
        &[&["prune"], &logged[..]].concat(),
        &["onefold::prune=debug"],
    );
    let all = log(&bed);
    let added = events(all.strip_prefix(&text).expect("the log is continued"));
    assert!(
        added.iter().all(|line| line.contains(" onefold::prune: ")),
        "{added:?}"
    );
    let mut steps = added.iter();
    for step in [
        "begins",
        "marked and swept",
        "announced",
        "final list stands",
        "executed",
        "closed",
        "is done",
    ] {
        assert!(
            steps.any(|line| line.contains(step)),
            "{step} in order in:\n{added:#?}"
        );
    }
}

#[test]
fn rewrites_and_merges_are_logged() {
    let bed = bed();
    run(
        &bed,
        &["series", "set", "--default", "--layout", "hybrid", "--live", "1"],
        &[],
    );
    let logged = ["--log", "log"];
    for version in 0..9 {
        fs::write(bed.path("noise"), noise(300_000, version)).unwrap();
        run(
            &bed,
            &[&["backup", "noise"], &logged[..]].concat(),
            &["onefold::index=info"],
        );
    }
    let text = log(&bed);
    assert!(
        text.contains("INFO onefold::index: index runs merged into one"),
        "{text}"
    );
    run(
        &bed,
        &[&["optimize"], &logged[..]].concat(),
        &["onefold::optimize=debug"],
    );
    let all = log(&bed);
    let lines = events(all.strip_prefix(&text).unwrap());
    for step in [
        "begins",
        "compared with the next",
        "read back",
        "committed",
        "published",
        "reverse deduplication",
    ] {
        assert!(
            lines.iter().any(|line| line.contains(step)),
            "{step} in:\n{lines:#?}"
        );
    }
}

#[test]
fn the_variable_alone_logs_to_standard_error() {
    let bed = bed();
    let text = run(&bed, &["snapshots"], &["onefold::storage=trace"]).err();
    let lines = events(&text);
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("TRACE onefold::storage: get object=backups/"))
    );
    assert!(
        lines.iter().all(|line| line.contains(" onefold::storage: ")),
        "{text}"
    );
    assert_eq!(run(&bed, &["snapshots"], &["error"]).err(), "");
}

#[test]
fn a_read_that_a_second_copy_served_is_logged_and_reported() {
    let bed = bed();
    for path in bed.objects("recipe") {
        let mut bytes = fs::read(&path).unwrap();
        let len = bytes.len();
        bytes[..len / 2].fill(0);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    let ran = run(&bed, &["restore", "latest", "-t", "out", "--log", "log"], &[]);
    assert!(ran.err().contains("the first copy of container"), "{}", ran.err());
    let text = log(&bed);
    assert!(
        text.contains("WARN onefold::mirror: the first copy could not be read"),
        "{text}"
    );
    let told = text.lines().filter(|line| line.contains("onefold::command"));
    assert_eq!(
        told.filter(|line| line.contains("kind=\"mirror_read\"")).count(),
        ran.err().matches("first copy").count(),
        "what is told is logged, too: {text}"
    );
}

#[test]
fn a_name_cannot_forge_a_line() {
    let bed = bed();
    // Warnings about files name them.
    let evil = "x\nERROR onefold::command: forged\r\u{202e}";
    std::os::unix::fs::symlink("nowhere", bed.path(evil)).unwrap();
    let ran = with_password(&bed, &["backup", &format!("{evil}/"), "--log", "log"]).output();
    Ran::from(ran.unwrap()).expect(1);
    let text = log(&bed);
    let told: Vec<_> = events(&text)
        .into_iter()
        .filter(|line| line.contains("forged"))
        .collect();
    assert!(!told.is_empty(), "{text}");
    for line in told {
        assert!(!line.starts_with("ERROR onefold::command: forged"), "{line}");
        assert!(
            line.contains("x\\n") && !line.contains(['\r', '\u{202e}']),
            "{line:?}"
        );
    }
}

/// Each target that logs is one that can be asked for.
#[test]
fn every_target_can_be_named() {
    let bed = bed();
    let mut seen = std::collections::BTreeSet::new();
    for args in [
        &["backup", "file"][..],
        &["forget", "1", "--prune"],
        &["optimize"],
        &["check"],
    ] {
        let text = run(&bed, args, &["trace"]).err();
        for line in text.lines().filter(|line| line.starts_with("20")) {
            let mut words = line.split_whitespace().skip(2);
            seen.insert(words.next().unwrap().trim_end_matches(':').to_owned());
        }
    }
    assert!(seen.len() >= 5, "{seen:?}");
    for target in seen {
        run(&bed, &["snapshots"], &[&format!("{target}=info")]);
    }
}

#[test]
fn wrong_log_settings_are_errors() {
    let bed = bed();
    let wrong = with_password(&bed, &["snapshots"])
        .env("ONEFOLD_LOG", "storage=loud")
        .output();
    Ran::from(wrong.unwrap())
        .expect(2)
        .says(&["ONEFOLD_LOG", "storage=loud", "debug", "onefold::storage"]);
    let nowhere = with_password(&bed, &["snapshots", "--log", "missing/log"]).output();
    Ran::from(nowhere.unwrap())
        .expect(1)
        .says(&["missing/log", "No such file"]);
}
