//! Ctrl-C, `kill -9` and a suspended process: stored data is not stored again, committed backups
//! restore, and nothing is committed twice. A prune continues a killed one, and names the sessions
//! that it waits for.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bed::{Bed, Ran, last, lines, noise, signal, wait_until};
use crate::picture::{assert_same, picture};

const STREAM: [&str; 3] = ["backup", "--stdin", "--json"];

/// A running backup of standard input that has received so many bytes.
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
fn ctrl_c_exits_with_130_and_the_next_backup_continues() {
    for of_user in [Signal::INT, Signal::TERM] {
        let bed = Bed::new();
        let bytes = noise(40 << 20, 20);
        let (child, mut input) = begin(&bed, &bytes[..32 << 20]);
        bed.wait_for("data", "");
        signal(&child, of_user);
        // The process may have ended before it reads these bytes.
        drop(input.write_all(&bytes[32 << 20..]));
        drop(input);
        let ran = end(child)
            .expect(130)
            .says(&["interrupted", "goes on from there"]);
        assert!(lines(&ran.out).is_empty(), "{}", ran.out());
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
fn continuing_an_interrupted_backup_is_reported() {
    let bed = Bed::new();
    let bytes = noise(20 << 20, 21);
    let (child, input) = begin(&bed, &bytes);
    bed.wait_for("data", "");
    signal(&child, Signal::INT);
    drop(input);
    end(child).expect(130);
    let text = bed.fed(["backup", "--stdin"], &bytes).expect(0).out();
    assert!(text.contains("continued 1 backup"), "{text}");
    let text = bed.fed(["backup", "--stdin"], &bytes).expect(0).out();
    assert!(!text.contains("continued"), "{text}");
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
        // It may have ended already.
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

/// A command may be silent for hours. The signal ends it, too.
#[test]
fn a_silent_source_keeps_no_signal_waiting() {
    let bed = Bed::new();
    let words = [
        "sh",
        "-c",
        "echo x; echo $$ > pid.new; mv pid.new pid; exec sleep 600",
    ];
    let args = ["backup", "--stdin-from-command", "--"].into_iter().chain(words);
    let child = bed.command(args).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| bed.path("pid").exists());
    signal(&child, Signal::TERM);
    end(child).expect(130).says(&["the backup was interrupted"]);
    let pid = fs::read_to_string(bed.path("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
    assert!(bed.backups().is_empty());
}

#[test]
fn a_suspended_backup_continues_and_commits_once() {
    let bed = Bed::new();
    let bytes = noise(24 << 20, 43);
    let (child, mut input) = begin(&bed, &bytes[..16 << 20]);
    bed.wait_for("data", "");
    signal(&child, Signal::STOP);
    // A backup of the same series: the sleeper is alive, and its data is not taken over.
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

/// Six backups of a file with changing parts, of which the odd ones are forgotten. Returns the
/// others, with their contents.
fn with_dead_parts(bed: &Bed) -> Vec<(String, Vec<u8>)> {
    let part = |n: u64| noise(700 << 10, 70 + n);
    let mut kept = Vec::new();
    for n in 0..6 {
        let bytes = [part(n), part(n + 1), part(20 + n / 2), part(30 + n)].concat();
        bed.fed(STREAM, &bytes).expect(0);
        if n % 2 == 1 {
            kept.push(((n + 1).to_string(), bytes));
        }
    }
    bed.ok(["forget", "1", "3", "5"]);
    kept
}

/// Bytes of all data containers.
fn stored(bed: &Bed) -> u64 {
    let blocks = |path| fs::metadata(path).unwrap().blocks();
    bed.objects("data").into_iter().map(blocks).sum::<u64>() * 512
}

const PRUNE: [&str; 3] = ["prune", "--max-unused", "0"];

/// The heartbeats in a store.
fn heartbeats(bed: &Bed) -> BTreeSet<PathBuf> {
    let mut all: BTreeSet<_> = bed.objects("sessions").into_iter().collect();
    all.retain(|path| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with("heartbeat")
    });
    all
}

/// A prune that has begun. A session that was killed before its first heartbeat counts as dead only
/// after a minute.
fn begun_prune(bed: &Bed, args: &[&str]) -> Child {
    let before = heartbeats(bed);
    let child = bed.command(args).spawn().unwrap();
    wait_until(|| !heartbeats(bed).is_subset(&before));
    child
}

#[test]
fn a_prune_killed_at_any_moment_is_finished_by_the_next() {
    let bed = Bed::new();
    let kept = with_dead_parts(&bed);
    let copy = || {
        let copy = Bed::bare();
        let mut copying = Command::new("cp");
        copying.arg("-a").arg(bed.store()).arg(copy.store());
        assert!(copying.status().unwrap().success());
        copy
    };
    // The duration of a run that is not killed.
    let whole = copy();
    let child = begun_prune(&whole, &PRUNE);
    let began = Instant::now();
    let text = end(child).expect(0).out();
    let takes = began.elapsed();
    assert!(text.starts_with("freed "), "{text}");
    let mut interrupted = 0;
    for moment in 0..8 {
        let bed = copy();
        let mut child = begun_prune(&bed, &PRUNE);
        std::thread::sleep(takes * moment / 8);
        // It may have ended already.
        child.kill().unwrap();
        interrupted += u32::from(!child.wait().unwrap().success());
        println!("killed after {moment} eighths of {takes:?}");
        bed.ok(["check"]);
        bed.ok(PRUNE);
        assert!(bed.ok(PRUNE).out().starts_with("nothing to reclaim"));
        for (id, bytes) in &kept {
            bed.ok(["restore", id, "-t", id]);
            assert!(
                fs::read(bed.path(id).join("stdin")).unwrap() == *bytes,
                "{id} differs"
            );
        }
        assert_eq!(bed.backups(), [2, 4, 6]);
        bed.assert_sound();
        let (left, expected) = (stored(&bed), stored(&whole));
        assert!(
            left < expected + (1 << 20),
            "{left} bytes are left, not {expected}"
        );
    }
    assert!(interrupted > 0, "each was through before it was killed");
}

/// Runs a command, interrupts it, and returns its output.
fn stopped(bed: &Bed, args: &[&str]) -> Ran {
    for _ in 0..20 {
        let child = begun_prune(bed, args);
        signal(&child, Signal::TERM);
        let ran = end(child);
        // It may have ended already.
        if ran.code == Some(130) {
            return ran;
        }
    }
    panic!("{args:?} was through each time");
}

#[test]
fn an_interrupted_command_reports_its_progress_and_its_leftovers() {
    let bed = Bed::new();
    let bytes = noise(48 << 20, 60);
    bed.fed(["backup", "--stdin"], &bytes).expect(0);
    let other = ["backup", "--stdin", "--stdin-filename", "other"];
    bed.fed(other, &noise(1 << 20, 61)).expect(0);
    stopped(&bed, &["check", "--read-data"]).says(&["the check was interrupted", "the store is as it was"]);
    stopped(&bed, &["restore", "1", "-t", "out"]).says(&["the restore was interrupted", "is whole"]);
    // A prune waits for the answer of a running backup.
    let before = heartbeats(&bed);
    let (child, input) = begin(&bed, &bytes[..1 << 20]);
    wait_until(|| !heartbeats(&bed).is_subset(&before));
    let ran = stopped(&bed, &["forget", "1", "--prune"]).says(&[
        "the prune after forgetting was interrupted",
        "nothing that a backup needs is gone",
        "next `onefold prune`",
    ]);
    assert!(ran.out().contains("forgot 1 backup"), "{}", ran.out());
    assert!(!ran.err().contains("restore"), "{}", ran.err());
    drop(input);
    end(child).expect(0);
    bed.ok(["prune"]);
    bed.assert_sound();
}

#[test]
fn a_prune_names_the_sessions_that_it_waits_for() {
    let bed = Bed::new();
    with_dead_parts(&bed);
    let bytes = noise(24 << 20, 44);
    let mut backup = bed.command(["backup", "--stdin", "--host", "web", "--json"]);
    let mut backup = backup.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = backup.stdin.take().unwrap();
    let before = bed.objects("data").len();
    input.write_all(&bytes[..16 << 20]).unwrap();
    wait_until(|| bed.objects("data").len() > before);
    signal(&backup, Signal::STOP);

    // Nobody watches a pipe.
    let mut quiet = begun_prune(&bed, &PRUNE);
    bed.wait_for("condemned", "");
    std::thread::sleep(Duration::from_millis(1500));
    assert!(quiet.try_wait().unwrap().is_none(), "it waits");
    quiet.kill().unwrap();
    let ran = Ran::from(quiet.wait_with_output().unwrap());
    assert_eq!((ran.out(), ran.err()), (String::new(), String::new()));

    let mut prune = bed
        .command(PRUNE.iter().copied().chain(["--json"]))
        .spawn()
        .unwrap();
    let (tell, told) = mpsc::channel();
    let out = BufReader::new(prune.stdout.take().unwrap());
    let reader = std::thread::spawn(move || {
        for line in out.lines() {
            tell.send(line.unwrap()).ok();
        }
    });
    // One line each second.
    let next = |_| {
        let line = told.recv_timeout(Duration::from_secs(30)).ok()?;
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        (line["message_type"] == "waiting").then_some(line)
    };
    let waiting = (0..10).find_map(next).unwrap_or_else(|| {
        prune.kill().unwrap();
        backup.kill().unwrap();
        panic!("nobody was named")
    });
    let [session] = waiting["sessions"].as_array().unwrap().as_slice() else {
        panic!("{waiting}");
    };
    assert_eq!(session["role"], "backup");
    assert_eq!(session["hostname"], "web");
    assert_eq!(session["process"], backup.id());
    assert_eq!(session["on_this_host"], true);
    let time = |name: &str| {
        session[name]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    let left = time("until").duration_since(time("since")).as_secs();
    assert!((29 * 60..=30 * 60 + 1).contains(&left), "{session}");

    signal(&backup, Signal::CONT);
    input.write_all(&bytes[16 << 20..]).unwrap();
    drop(input);
    let made = last(&end(backup).expect(0));
    assert_eq!(made["snapshot_id"], session["session_id"]);
    reader.join().unwrap();
    let summary = told.into_iter().last().unwrap();
    assert!(summary.contains("prune_summary"), "{summary}");
    let mut errors = String::new();
    prune.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert!(prune.wait().unwrap().success(), "{errors}");
    bed.ok(["restore", "latest", "-t", "out"]);
    assert!(fs::read(bed.path("out/stdin")).unwrap() == bytes);
    bed.assert_sound();
}
