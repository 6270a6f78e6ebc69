//! The laboratory, from a workload to the reads of restores.

use std::fs;

use rustix::process::Signal;

use crate::bed::{Bed, Ran, last, lines, signal, wait_until};

pub(crate) fn generate<'a>(size: &'a str, weeks: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let small = ["generate", "2year", "--size", size, "--weeks", weeks];
    small.iter().chain(more).copied().collect()
}

#[test]
fn a_workload_is_made_and_simulated_without_a_store() {
    let bed = Bed::new();
    let with = |more| generate("8M", "2", more);
    let made = last(&bed.ok(with(&["--trace", "t", "--json"])));
    assert_eq!(
        (&made["message_type"], &made["backups"]),
        (&"lab_generated".into(), &10.into())
    );
    bed.ok(with(&["--trace", "again"]));
    assert!(fs::read(bed.path("t")).unwrap() == fs::read(bed.path("again")).unwrap());
    bed.ok(with(&["--trace", "other", "--seed", "2"]));
    assert!(fs::read(bed.path("t")).unwrap() != fs::read(bed.path("other")).unwrap());

    let files = last(&bed.ok(with(&["--files", "files", "--json"])));
    let len = |name: String| fs::metadata(bed.path(&name)).unwrap().len();
    let all: u64 = (1..=10).map(|day| len(format!("files/2year-{day:03}"))).sum();
    assert_eq!((&files["bytes"], &files["bytes"]), (&made["bytes"], &all.into()));

    let simulate = [
        "simulate",
        "t",
        "--keep",
        "3",
        "--memory",
        "1M,64M",
        "--assembly",
        "lru,rolling",
    ];
    let ran = bed.ok(simulate.into_iter().chain(["--json"]));
    let mut backups = lines(&ran.out);
    let averages = backups.pop().unwrap();
    assert_eq!(
        (&averages["message_type"], &averages["backups"]),
        (&"lab_averages".into(), &10.into())
    );
    assert_eq!(backups.len(), 10);
    let of_all: u64 = backups
        .iter()
        .map(|backup| backup["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(of_all, all);
    let reads = |backup: usize, n: usize| {
        backups[backup]["restored"][n]["containers_read"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(reads(0, 2), backups[0]["containers"], "all of the first, once");
    // The full backup a week later: more memory means fewer reads, in each mode.
    assert!(
        reads(5, 0) > reads(5, 2) && reads(5, 1) > reads(5, 3),
        "{:?}",
        backups[5]
    );
    // The same backups as traces of destor.
    bed.ok(with(&["--destor", "destor"]));
    let days: Vec<String> = (1..=10).map(|day| format!("destor/2year-{day:03}")).collect();
    let simulate_days = [
        "simulate",
        "--keep",
        "3",
        "--memory",
        "64M",
        "--assembly",
        "lru",
        "--json",
    ];
    let again = lines(
        &bed.ok(simulate_days.into_iter().chain(days.iter().map(String::as_str)))
            .out,
    );
    for (one, other) in backups.iter().zip(&again) {
        assert_eq!(
            (&one["bytes_stored"], &one["containers"]),
            (&other["bytes_stored"], &other["containers"])
        );
        assert_eq!(one["restored"][2], other["restored"][0]);
    }
    // With the engine's look-ups, a cap stores some chunks again, and only then do the options of
    // caps count.
    let new = |cap: &[&'static str]| {
        let with = simulate.iter().chain(&["--engine", "--json"]).chain(cap);
        let backups = lines(&bed.ok(with).out);
        let new = backups[..10]
            .iter()
            .map(|backup| backup["looked"]["chunks_new"].as_u64());
        new.sum::<Option<u64>>().unwrap()
    };
    let (none, one) = (new(&[]), new(&["--cap", "1", "--cap-window", "2M"]));
    assert!(one > none, "{one} and {none}");
    bed.run(["simulate", "t", "--cap", "5"])
        .expect(2)
        .says(&["--engine"]);
    bed.run(["simulate", "t", "--engine", "--sample", "3"])
        .expect(2)
        .says(&["no power of two"]);
    bed.run(["simulate", "t", "--keep-generations", "1,2"])
        .expect(2)
        .says(&["three numbers"]);
    let text = bed.ok(simulate).out();
    for words in ["backups                 10", "rolling", "MiB a container read"] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
}

#[test]
fn little_is_made_of_files_that_are_smaller() {
    let bed = Bed::new();
    bed.ok(generate("100K", "1", &["--trace", "t"]));
    bed.ok(generate("100K", "1", &["--trace", "u", "--file-bytes", "100K"]));
    assert!(fs::read(bed.path("t")).unwrap() == fs::read(bed.path("u")).unwrap());
    bed.run(generate("100K", "1", &["--trace", "v", "--file-bytes", "101K"]))
        .expect(1)
        .says(&["no more than the 102400 of the snapshot"]);
    bed.run(generate("1000", "1", &["--trace", "v"]))
        .expect(1)
        .says(&["a snapshot of 1000 bytes is too small: at least 1024"]);
}

#[test]
fn every_workload_is_made_in_each_way() {
    let bed = Bed::new();
    let each = [
        ("2year", "--weeks 1 --file-bytes 8K", 5),
        ("workgroup", "--machines 3 --weeks 2 --shared 50", 0),
        ("sg1", "--weeks 2", 2),
        ("sg2", "--weeks 2 --chunk-bytes 2048", 2),
        ("sg3", "--weeks 2 --files-changed 50", 2),
        ("sg4", "--weeks 2 --new 1M", 2),
        ("sg5", "--weeks 2 --bytes-changed 1.5", 2),
        ("gp", "--weeks 2 --series 2", 4),
        ("vm-series", "--weeks 2 --series 3", 6),
        (
            "lineages",
            "--lineages 2 --generations 1 --clusters uniform --update 1K",
            4,
        ),
        ("unique", "--streams 2 --rounds 3", 6),
        ("vm", "--versions 3", 3),
        (
            "edits",
            "--backups 2 --edit 4K --insert 3 --delete 0.5 --zero 0",
            2,
        ),
    ];
    for (workload, options, backups) in each {
        let size = if workload == "vm" { "300K" } else { "1M" };
        let common = ["generate", workload, "--json", "--size", size];
        let options: Vec<&str> = common.into_iter().chain(options.split(' ')).collect();
        let made = |to: &str| {
            let out = format!("{workload}.{to}");
            let to = format!("--{to}");
            last(&bed.ok(options.iter().copied().chain([to.as_str(), out.as_str()])))
        };
        let (trace, files, destor) = (made("trace"), made("files"), made("destor"));
        assert_eq!((&trace, &trace), (&files, &destor));
        if backups > 0 {
            assert_eq!(trace["backups"], backups, "{workload}");
        }
        let written = fs::read_dir(bed.path(format!("{workload}.files"))).unwrap();
        let lens: Vec<u64> = written
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .collect();
        assert_eq!(trace["backups"], lens.len());
        assert_eq!(trace["bytes"], lens.iter().sum::<u64>(), "{workload}");
    }
}

#[test]
fn options_are_those_of_the_workload() {
    let bed = Bed::new();
    let refused: [(&[&str], &str); 5] = [
        (&["unique", "--weeks", "3"], "--weeks"),
        (&["2year", "--series", "3"], "--series"),
        (&["vm", "--versions", "5"], "5 is not in 1..=4"),
        (&["edits", "--insert", "101"], "a percentage from 0 to 100"),
        (&["nothing"], "unrecognized subcommand"),
    ];
    for (args, words) in refused {
        let args = ["generate"].iter().chain(args).chain(&["--trace", "t"]);
        bed.run(args).expect(2).says(&[words]);
    }
    for (mean, code, words) in [
        ("0", 2, "at least 1"),
        (
            "1000",
            1,
            "files cannot have 1000 bytes on average: at least 1024",
        ),
        ("2M", 1, "no more than the 1048576 of the snapshot"),
    ] {
        bed.run(generate("1M", "1", &["--file-bytes", mean, "--trace", "t"]))
            .expect(code)
            .says(&[words]);
        assert!(!bed.path("t").exists());
    }
    let told = bed.ok(["generate", "--help"]).out();
    for workload in [
        "2year",
        "workgroup",
        "sg1",
        "sg5",
        "gp",
        "vm-series",
        "lineages",
        "unique",
        "vm",
        "edits",
    ] {
        assert!(told.contains(workload), "{workload}");
    }
    let told = bed.ok(["generate", "edits", "--help"]).out();
    assert!(told.contains("Bytes that move to another place") && !told.contains("--weeks"));
}

#[test]
fn a_stopped_command_leaves_no_partial_backup() {
    let bed = Bed::new();
    for (to, first) in [("--files", "files"), ("--destor", "destor"), ("--trace", "trace")] {
        let endless = generate("8M", "1000", &[to, first]);
        let child = bed.command(endless).spawn().unwrap();
        let second = bed.path(first).join("2year-002");
        wait_until(|| second.exists() || to == "--trace" && bed.path(first).exists());
        signal(&child, Signal::INT);
        let ran: Ran = child.wait_with_output().unwrap().into();
        let ran = ran.expect(130).says(&["interrupted"]);
        if to == "--trace" {
            assert!(!bed.path(first).exists(), "half a trace is none");
            continue;
        }
        let written = fs::read_dir(bed.path(first)).unwrap();
        let mut names: Vec<_> = written.map(|entry| entry.unwrap().file_name()).collect();
        names.sort_unstable();
        let kept = match names.len() {
            1 => "the folder has 1 complete backup".to_owned(),
            some => format!("the folder has {some} complete backups"),
        };
        ran.says(&[&kept]);
        // Each kept backup is complete.
        let whole = format!("{first}-whole");
        bed.ok(generate("8M", "1", &[to, &whole]));
        for entry in fs::read_dir(bed.path(&whole)).unwrap() {
            let name = entry.unwrap().file_name();
            let read = |folder: &str| fs::read(bed.path(folder).join(&name));
            if names.contains(&name) {
                assert!(read(first).unwrap() == read(&whole).unwrap(), "{name:?}");
            }
        }
    }
}

#[test]
fn a_backup_that_cannot_be_written_is_deleted_and_those_before_it_stay() {
    let bed = Bed::new();
    // The third backup exceeds the file size limit of the shell.
    let limited = |to: &str| {
        let mut shell = std::process::Command::new("sh");
        let binary = env!("CARGO_BIN_EXE_onefold-lab");
        let command = format!(
            "ulimit -f 8400; trap '' XFSZ; exec {binary} generate edits --size 3M --insert 25 --delete 0 --repeat 0 {to} out"
        );
        shell.args(["-c", &command]).current_dir(bed.path(""));
        Ran::from(shell.output().unwrap())
    };
    limited("--files")
        .expect(1)
        .says(&["File too large", "the folder has 2 complete backups"]);
    let mut names: Vec<_> = fs::read_dir(bed.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["edits-001", "edits-002"]);
}

#[test]
fn errors_of_generate_and_simulate_name_the_cause() {
    let bed = Bed::new();
    let with = |more| generate("1M", "1", more);
    bed.run(with(&[])).expect(2).says(&["--trace"]);
    bed.ok(with(&["--trace", "t"]));
    bed.run(with(&["--trace", "t"])).expect(1).says(&["File exists"]);
    fs::create_dir(bed.path("full")).unwrap();
    fs::write(bed.path("full/file"), "here").unwrap();
    bed.run(with(&["--files", "full"]))
        .expect(1)
        .says(&["is not empty"]);
    bed.run(["simulate", "full/file"])
        .expect(1)
        .says(&["full/file", "ends too early"]);
    let whole = fs::read(bed.path("t")).unwrap();
    fs::write(bed.path("cut"), &whole[..whole.len() - 1]).unwrap();
    bed.run(["simulate", "cut"])
        .expect(1)
        .says(&["cut, at byte", "ends too early", "make the trace again"]);
    bed.run(["simulate", "nothing"])
        .expect(1)
        .says(&["nothing", "No such file"]);
}

#[test]
fn papers_are_reproduced_into_an_empty_folder_and_no_other() {
    let bed = Bed::new();
    fs::create_dir(bed.path("full")).unwrap();
    fs::write(bed.path("full/file"), "here").unwrap();
    bed.run(["reproduce", "fast13", "--output", "full"])
        .expect(1)
        .says(&["full: the folder is not empty"]);
    bed.run(["reproduce", "nothing", "--output", "r"])
        .expect(2)
        .says(&["fast13"]);
    bed.run(["reproduce", "fast13"]).expect(2).says(&["--output"]);
    bed.run([
        "reproduce",
        "atc11",
        "--only",
        "index",
        "--only",
        "figure-9",
        "--output",
        "r",
    ])
    .expect(2)
    .says(&["no part 'figure-9'", "equation-2, runs, index"]);
    let of_versions = |paper, folder, code| {
        let versions = ["--versions", folder, "--output", "r"];
        bed.run([&["reproduce", paper][..], &versions].concat())
            .expect(code)
    };
    of_versions("fast13", "full", 2).says(&["fast13 measures no versions"]);
    of_versions("beyond", "gone", 1).says(&["gone: No such file"]);
    bed.run(["reproduce", "fast13", "--hosts", "2", "--output", "r"])
        .expect(2)
        .says(&["fast13 has no load on a disk: leave --hosts 2 out"]);
    let table = ["--only", "table-1", "--hosts", "5", "--output", "r"];
    bed.run([&["reproduce", "dais14"][..], &table].concat())
        .expect(2)
        .says(&["only these parts of dais14 run hosts: figure-3"]);
    for (option, value) in [("--minutes", "0"), ("--access", "random"), ("--hosts", "0")] {
        bed.run(["reproduce", "dais14", option, value, "--output", "r"])
            .expect(2)
            .says(&[option]);
    }
    bed.run(["reproduce", "dais14", "--distribution", "gone", "--output", "r2"])
        .expect(1)
        .says(&["gone: No such file"]);
    assert!(!bed.path("r").exists());
}

/// Hosts of figure 3 are processes of this program.
#[test]
fn hosts_of_an_experiment_are_processes() {
    let bed = Bed::new();
    fs::write(bed.path("contents"), "0 8\n1 2\n").unwrap();
    bed.run([
        "reproduce",
        "dais14",
        "--only",
        "figure-3",
        "--hosts",
        "2",
        "--minutes",
        "0.01",
        "--interval-s",
        "0",
        "--distribution",
        "contents",
        "--output",
        "r",
    ])
    .expect(0);
    let readme = fs::read_to_string(bed.path("r/README.md")).unwrap();
    for words in [
        "--distribution FILE --minutes 0.01 --interval-s 0 --hosts 2\n",
        "Each host is a process",
        "blocks/s of all finders while they examine, 2 hosts",
        "(figure-3-finder.svg)",
    ] {
        assert!(readme.contains(words), "{words} is not in {readme}");
    }
    assert!(!bed.path("r/hosts").exists());
    bed.run(["reproduce-host", "{}"])
        .expect(1)
        .says(&["the settings of a host"]);
}
