//! `onefold self-test`: it passes here, cleans up, and says what is wrong with a place.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use testfs::S3Server;

use crate::bed::{Bed, Ran, last, lines, signal, wait_until};
use crate::object_stores::bed_at;

/// A bed whose temporary folder is its own, and the command there.
fn bed() -> Bed {
    let mut bed = Bed::bare();
    prepare(&mut bed);
    bed
}

fn prepare(bed: &mut Bed) {
    fs::create_dir(bed.path("tmp")).unwrap();
    bed.set("TMPDIR", bed.path("tmp").to_str().unwrap());
}

fn command(bed: &Bed, args: &[&str]) -> Command {
    let mut command = bed.plain();
    command.args(["self-test", "--memory", "4M"]).args(args);
    command
}

fn run(bed: &Bed, args: &[&str]) -> Ran {
    command(bed, args).output().unwrap().into()
}

fn is_empty(bed: &Bed, folder: &str) -> bool {
    fs::read_dir(bed.path(folder)).unwrap().count() == 0
}

#[test]
fn this_machine_passes_and_nothing_is_left() {
    let bed = bed();
    let ran = run(&bed, &[]).expect(0);
    let text = ran.out();
    assert_eq!(ran.err(), "");
    assert_eq!(text.lines().count(), 17, "{text}");
    for line in text.lines().take(16) {
        assert!(line.starts_with("ok      "), "{line}");
    }
    assert!(text.contains("chunker: a known answer; ") && text.contains("over 8 MiB"));
    assert!(text.contains("all 16 checks passed"), "{text}");
    assert!(is_empty(&bed, "tmp"));
    let quiet = run(&bed, &["--quiet"]).expect(0);
    assert_eq!((quiet.out(), quiet.err()), (String::new(), String::new()));
}

#[test]
fn a_folder_is_tested_as_a_place() {
    let bed = bed();
    fs::create_dir(bed.path("disk")).unwrap();
    fs::write(bed.path("disk/mine"), "mine").unwrap();
    let told = lines(&run(&bed, &["--place", "disk", "--json"]).expect(0).out);
    let of = |kind: &str| told.iter().filter(|line| line["message_type"] == kind).count();
    assert_eq!(
        (of("self_test_check"), of("self_test_speed")),
        (25, 8),
        "{told:#?}"
    );
    let checks = told
        .iter()
        .filter(|line| line["message_type"] == "self_test_check");
    for check in checks {
        assert_eq!(check["outcome"], "ok", "{check}");
    }
    let summary = told.last().unwrap();
    assert_eq!((&summary["passed"], &summary["failed"]), (&25.into(), &0.into()));
    assert!(summary["deleted"].as_u64().unwrap() > 50, "{summary}");
    assert!(is_empty(&bed, "tmp"));
    let left: Vec<_> = fs::read_dir(bed.path("disk")).unwrap().collect();
    assert_eq!(left.len(), 1);
    let text = run(&bed, &["--place", "disk"]).expect(0).out();
    for words in ["creates once", "create ", "ms", "write ", "are deleted again"] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn an_object_store_is_tested_and_cleaned() {
    let Some(server) = S3Server::start() else { return };
    let place = server.location("tested");
    let mut bed = bed_at(&server, &place);
    prepare(&mut bed);
    let ran = run(&bed, &["--place", &place]).expect(0);
    assert!(ran.out().contains(&format!("with {place}")), "{}", ran.out());
    assert!(ran.out().contains("locks: this place has none"), "{}", ran.out());
    let summary = last(&run(&bed, &["--place", &place, "--json"]).expect(0));
    assert_eq!(summary["left"], serde_json::json!([]), "{summary}");
    assert!(summary["deleted"].as_u64().unwrap() > 50, "{summary}");
    bed.set("AWS_SECRET_ACCESS_KEY", "wrong");
    run(&bed, &["--place", &place]).expect(1);
    assert!(is_empty(&bed, "tmp"));
}

#[test]
fn a_place_that_is_not_there_and_options_without_effect_are_refused() {
    let bed = bed();
    run(&bed, &["--place", "nowhere"]).expect(10).says(&["nowhere"]);
    run(&bed, &["--place", "onefold://host:1/web"])
        .expect(2)
        .says(&["on the server"]);
    run(&bed, &["--place", "sftp:me@nas:/b"]).expect(2);
    run(&bed, &["--repo", "store"]).expect(2).says(&["--repo"]);
    run(&bed, &["--limit-upload", "9"])
        .expect(2)
        .says(&["object store"]);
    let far = ["--place", "s3:http://127.0.0.1:1/b", "--no-cache"];
    run(&bed, &far).expect(2).says(&["uses none"]);
    run(&bed, &["--memory", "much"]).expect(2);
    assert!(is_empty(&bed, "tmp"));
}

/// A disk that gets full: the check of the first object for which there is no room fails.
#[test]
fn a_place_without_room_fails() {
    let bed = bed();
    let Some(disk) = testfs::mount(testfs::Options {
        room_bytes: Some(100 << 10),
        ..testfs::Options::default()
    }) else {
        return;
    };
    let place = disk.path().to_str().unwrap().to_owned();
    let ran = run(&bed, &["--place", &place]).expect(1);
    let text = ran.out();
    assert!(
        text.contains("FAILED  reads what was written") && text.contains("What to do: "),
        "{text}"
    );
    assert!(text.contains("skipped damage: it needs what"), "{text}");
    assert!(text.contains("checks failed"), "{text}");
    assert!(is_empty(&bed, "tmp"));
    assert_eq!(fs::read_dir(disk.path()).unwrap().count(), 0);
}

#[test]
fn an_interruption_cleans_up() {
    let bed = bed();
    fs::create_dir(bed.path("disk")).unwrap();
    let child = command(&bed, &["--place", "disk"]).spawn().unwrap();
    wait_until(|| !is_empty(&bed, "disk"));
    signal(&child, Signal::INT);
    let ran = Ran::from(child.wait_with_output().unwrap()).expect(130);
    assert!(
        ran.err().contains("it deleted what it had written"),
        "{}",
        ran.err()
    );
    assert!(is_empty(&bed, "tmp") && is_empty(&bed, "disk"));
}
