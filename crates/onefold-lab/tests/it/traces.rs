//! Traces of real files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

use rustix::process::Signal;

use crate::bed::{Bed, Ran, last, lines, noise, signal, wait_until};

#[test]
fn a_trace_of_real_files_predicts_the_content_of_a_store() {
    let bed = Bed::new();
    fs::create_dir(bed.path("first")).unwrap();
    let noise = noise(300_000, 7);
    fs::write(bed.path("first/a"), &noise).unwrap();
    fs::write(bed.path("first/b"), [&noise[..150_000], &[7; 1000]].concat()).unwrap();
    fs::write(bed.path("second"), &noise).unwrap();
    let made = last(&bed.ok(["trace", "first", "second", "-o", "t", "--json"]));
    assert_eq!((&made["backups"], &made["bytes"]), (&2.into(), &751_000.into()));
    let backups = lines(&bed.ok(["simulate", "t", "--json"]).out);
    assert!(
        backups[0]["bytes_stored"].as_u64().unwrap() < 360_000,
        "{}",
        backups[0]
    );
    assert_eq!(backups[1]["bytes_new"], 0);
    // The trace leaves out its own output.
    let made = last(&bed.ok(["trace", ".", "-o", "./all", "--json"]));
    let t = fs::metadata(bed.path("t")).unwrap().len();
    assert_eq!(made["bytes"], 751_000 + t);
    bed.run(["trace", "new", "-o", "new"])
        .expect(1)
        .says(&["new: this is the output of the command"]);
    bed.run(["trace", "gone", "-o", "u"])
        .expect(1)
        .says(&["gone: No such file"]);
    assert!(!bed.path("u").exists(), "half a trace is none");
}

/// Names in a folder, sorted.
fn names(bed: &Bed, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(bed.path(folder)).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort_unstable();
    names
}

#[test]
fn a_trace_for_destor_is_of_the_same_data() {
    let bed = Bed::new();
    let strange = OsStr::from_bytes(b"strange \xff");
    fs::create_dir_all(bed.path("old/data")).unwrap();
    fs::create_dir(bed.path("data")).unwrap();
    let mut content = noise(700_000, 9);
    fs::write(bed.path("old/data/a"), &content).unwrap();
    content.splice(200_000..200_100, [0; 70_000]);
    fs::write(bed.path("data/a"), &content).unwrap();
    fs::write(bed.path(strange), &content[..300_000]).unwrap();
    let paths = ["old/data", "data", "./data/"].map(OsStr::new);
    let paths = [&paths[..], &[strange, OsStr::new("old/data/..")]].concat();
    let trace = |more: &[&'static str]| {
        let common = [OsStr::new("trace"), OsStr::new("--json")];
        let all = [&common[..], &paths].concat();
        let more = more.iter().map(|word| OsStr::new(*word));
        last(&bed.ok(all.into_iter().chain(more)))
    };
    let one = trace(&["--chunk-kib", "4", "--output", "t"]);
    let each = trace(&["--chunk-kib", "4", "--destor", "traces"]);
    assert_eq!((&one["backups"], &each), (&5.into(), &one));
    let named = names(&bed, "traces");
    let wanted = ["1-data", "2-data", "3-data", "4-strange \u{fffd}", "5"];
    assert_eq!(named, wanted);
    let simulated = |traces: &[String]| {
        let simulate = ["simulate", "--json", "--container-mib", "1", "--memory", "1M,4M"];
        let all = simulate.into_iter().chain(traces.iter().map(String::as_str));
        let mut told = lines(&bed.ok(all).out);
        for backup in &mut told {
            backup["name"] = serde_json::Value::Null;
        }
        told
    };
    let files: Vec<String> = named.iter().map(|name| format!("traces/{name}")).collect();
    let (of_one, of_each) = (simulated(&["t".to_owned()]), simulated(&files));
    assert_eq!((of_one.len(), &of_each), (6, &of_one));
    assert!(
        of_one[1]["bytes_new"].as_u64().unwrap() > 0,
        "what changed is new: {}",
        of_one[1]
    );
    assert_eq!(of_one[2]["bytes_new"], 0);
    // Images are cut into fixed chunks.
    trace(&["--image-kib", "4", "--destor", "even"]);
    let text = fs::read_to_string(bed.path("even/1-data")).unwrap();
    let full = text.lines().filter(|line| line.ends_with(" 4096")).count();
    assert_eq!(full, 700_000 / 4096, "{text}");
}

#[test]
fn traces_for_destor_leave_out_their_folder_and_partial_backups() {
    let bed = Bed::new();
    fs::create_dir_all(bed.path("data/deep")).unwrap();
    fs::write(bed.path("data/a"), noise(100_000, 3)).unwrap();
    let both = ["trace", "data", "data", "--destor", "data/deep/traces", "--json"];
    assert_eq!(last(&bed.ok(both))["bytes"], 200_000);
    assert_eq!(names(&bed, "data/deep/traces"), ["1-data", "2-data"]);
    bed.run(both).expect(1).says(&["is not empty"]);
    fs::create_dir(bed.path("empty")).unwrap();
    bed.run(["trace", "empty", "--destor", "empty"])
        .expect(1)
        .says(&["empty: this is the output of the command"]);
    // Exactly one of the two options is needed.
    bed.run(["trace", "data"])
        .expect(2)
        .says(&["--output", "--destor"]);
    bed.run(["trace", "data", "--output", "t", "--destor", "d"])
        .expect(2)
        .says(&["cannot be used with"]);
    // After a failure, the folder is deleted if it is empty, and complete backups stay.
    bed.run(["trace", "gone", "--destor", "none"])
        .expect(1)
        .says(&["gone: No such file", "no backup was complete"]);
    assert!(!bed.path("none").exists() && !bed.path("t").exists());
    bed.run(["trace", "data/a", "gone", "--destor", "some"])
        .expect(1)
        .says(&["gone: No such file", "the folder has 1 complete backup"]);
    assert_eq!(names(&bed, "some"), ["1-a"]);
    // Interrupted in the middle of an endless file.
    let endless = ["trace", "data/a", "/dev/zero", "--destor", "stopped"];
    let child = bed.command(endless).spawn().unwrap();
    wait_until(|| bed.path("stopped/2-zero").exists());
    signal(&child, Signal::INT);
    let ran: Ran = child.wait_with_output().unwrap().into();
    ran.expect(130)
        .says(&["interrupted", "the folder has 1 complete backup"]);
    assert_eq!(names(&bed, "stopped"), ["1-a"]);
}
