//! Ctrl-C, `kill -9` and a suspended process: what was stored before is not stored again, what is committed
//! restores, and nothing is committed twice.

use std::fs;
use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::bed::{Bed, Ran, last, noise, signal};
use crate::picture::{assert_same, picture};

const STREAM: [&str; 3] = ["backup", "--stdin", "--json"];

/// A backup of standard input under way, to which so much was given.
fn begin(bed: &Bed, bytes: &[u8]) -> (Child, ChildStdin) {
    let mut child = bed.command(STREAM).stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(bytes).unwrap();
    (child, input)
}

fn end(child: Child) -> Ran {
    child.wait_with_output().unwrap().into()
}

fn assert_restores(bed: &Bed, bytes: &[u8]) {
    bed.ok(["restore", "latest", "-t", "out"]);
    assert!(
        fs::read(bed.path("out/stdin")).unwrap() == bytes,
        "what came back differs"
    );
}

#[test]
fn ctrl_c_is_130_and_the_next_backup_goes_on() {
    for of_user in [Signal::INT, Signal::TERM] {
        let bed = Bed::new();
        let bytes = noise(40 << 20, 20);
        let (child, mut input) = begin(&bed, &bytes[..32 << 20]);
        bed.wait_for("data", "");
        signal(&child, of_user);
        // What it waits for may come or not.
        drop(input.write_all(&bytes[32 << 20..]));
        drop(input);
        let ran = end(child)
            .expect(130)
            .says(&["interrupted", "goes on from there"]);
        assert_eq!(ran.out.len(), 0, "{}", ran.out());
        assert!(bed.backups().is_empty());
        let next = bed.fed(STREAM, &bytes).expect(0);
        let summary = last(&next);
        assert_eq!(summary["adopted"].as_array().unwrap().len(), 1, "{summary}");
        assert!(summary["data_added"].as_u64().unwrap() < 30 << 20, "{summary}");
        assert_restores(&bed, &bytes);
        bed.assert_sound();
    }
}

#[test]
fn going_on_is_told() {
    let bed = Bed::new();
    let bytes = noise(20 << 20, 21);
    let (child, input) = begin(&bed, &bytes);
    bed.wait_for("data", "");
    signal(&child, Signal::INT);
    drop(input);
    end(child).expect(130);
    let text = bed.fed(["backup", "--stdin"], &bytes).expect(0).out();
    assert!(text.contains("went on from 1 backup"), "{text}");
    let text = bed.fed(["backup", "--stdin"], &bytes).expect(0).out();
    assert!(!text.contains("went on from"), "{text}");
}

#[test]
fn a_backup_killed_after_a_checkpoint_is_taken_up() {
    let bed = Bed::new();
    let bytes = noise(300 << 20, 22);
    let (mut child, input) = begin(&bed, &bytes);
    bed.wait_for("sessions", "checkpoint");
    signal(&child, Signal::KILL);
    drop(input);
    child.wait().unwrap();
    assert!(bed.backups().is_empty());
    let next = last(&bed.fed(STREAM, &bytes).expect(0));
    assert_eq!(next["adopted"].as_array().unwrap().len(), 1, "{next}");
    let added = next["data_added"].as_u64().unwrap();
    assert!(added < bytes.len() as u64 / 2, "stored again: {added}");
    assert_restores(&bed, &bytes);
    bed.ok(["check"]);
}

#[test]
fn a_backup_killed_at_any_moment_harms_nothing() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    for number in 0..8 {
        fs::write(
            bed.path("src").join(format!("{number}")),
            noise(6 << 20, 23 + number),
        )
        .unwrap();
    }
    bed.ok(["backup", "src"]);
    let before = picture(&bed.path("src"));
    for number in 0..8 {
        fs::write(
            bed.path("src").join(format!("{number}")),
            noise(6 << 20, 33 + number),
        )
        .unwrap();
    }
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    for round in 0..3 {
        let mut child = bed.command(["backup", "src"]).spawn().unwrap();
        let delay = Duration::from_millis(u64::from(clock.subsec_micros()) * (round + 7) % 600);
        std::thread::sleep(delay);
        // It may be through already.
        child.kill().unwrap();
        child.wait().unwrap();
        println!("killed after {delay:?}");
        bed.ok(["check"]);
        bed.ok(["restore", "1", "-t", "before"]);
        assert_same(&before, &picture(&bed.restored("before", "src")));
    }
    bed.ok(["backup", "src"]);
    bed.ok(["restore", "latest", "-t", "after"]);
    assert_same(
        &picture(&bed.path("src")),
        &picture(&bed.restored("after", "src")),
    );
    bed.assert_sound();
}

#[test]
fn a_suspended_backup_goes_on_and_commits_once() {
    let bed = Bed::new();
    let bytes = noise(24 << 20, 43);
    let (child, mut input) = begin(&bed, &bytes[..16 << 20]);
    bed.wait_for("data", "");
    signal(&child, Signal::STOP);
    // Of the same series: the sleeper is alive, and is not taken over.
    let other = last(&bed.fed(STREAM, &bytes).expect(0));
    assert_eq!(other["adopted"].as_array().unwrap().len(), 0, "{other}");
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, Signal::CONT);
    input.write_all(&bytes[16 << 20..]).unwrap();
    drop(input);
    let slept = last(&end(child).expect(0));
    assert_eq!(slept["snapshot_id"], 1);
    assert_eq!(bed.backups(), [1, 2]);
    for id in ["1", "2"] {
        bed.ok(["restore", id, "-t", id]);
        assert!(fs::read(bed.path(id).join("stdin")).unwrap() == bytes);
    }
    bed.assert_sound();
}
