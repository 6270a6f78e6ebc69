//! Options that could have no effect are refused.

use std::fs;

use crate::bed::{Bed, Ran};

#[test]
fn options_of_stores_are_refused_where_none_is_opened() {
    let bed = Bed::bare();
    fs::write(bed.path("data"), crate::bed::noise(100_000, 1)).unwrap();
    fs::write(bed.path("word"), "secret").unwrap();
    let command: &[&str] = &["analyze", "data", "--output", "out"];
    let options: [&[&str]; 7] = [
        &["--repo", "store"],
        &["--password-file", "word"],
        &["--password-command", "cat word"],
        &["--insecure-no-password"],
        &["--index-mib", "5"],
        &["--index-memory-mib", "5"],
        &["--no-lock"],
    ];
    let run = |args: &[&[&str]]| Ran::from(bed.plain().args(args.concat()).output().unwrap());
    for option in options {
        let name = if option[0] == "--no-lock" {
            "--no-pin"
        } else {
            option[0]
        };
        let words = [
            name,
            "concerns a store, and none is opened here",
            "Usage: onefold",
        ];
        run(&[option, command]).expect(2).says(&words);
        run(&[command, option]).expect(2).says(&words);
    }
    assert!(!bed.path("out").exists());
    let help = run(&[command, &["--help"]]).expect(0).out();
    assert!(help.contains("--json") && !help.contains("--repo"), "{help}");
    let help = run(&[&["backup", "--help"]]).expect(0).out();
    assert!(help.contains("--repo") && help.contains("--json"), "{help}");
}

#[test]
fn the_help_of_backup_hides_the_options_of_experiments() {
    let bed = Bed::new();
    fs::write(bed.path("data"), crate::bed::noise(100_000, 1)).unwrap();
    bed.ok([
        "backup",
        "data",
        "--cap-remember=2",
        "--lookup-eviction=threshold",
    ]);
    let help = bed.ok(["backup", "--help"]).out();
    assert!(
        help.contains("--cap <") && help.contains("--lookup-mib <"),
        "{help}"
    );
    assert!(
        !help.contains("--cap-remember") && !help.contains("--lookup-eviction"),
        "{help}"
    );
}

#[test]
fn how_a_cap_counts_is_refused_where_there_is_none() {
    let bed = Bed::new();
    fs::write(bed.path("data"), crate::bed::noise(100_000, 1)).unwrap();
    let words = "says how a cap counts, and there is none";
    for args in [
        ["backup", "data", "--cap", "none", "--cap-remember", "2"],
        ["backup", "data", "--cap-remember", "0", "--cap", "none"],
    ] {
        bed.run(args).expect(2).says(&["--cap-remember", words]);
    }
    let by_environment = |cap: &str| {
        let mut command = bed.command(["backup", "data", "--cap-remember", "2"]);
        Ran::from(command.env("ONEFOLD_CAP", cap).output().unwrap())
    };
    by_environment("none").expect(2).says(&["--cap-remember", words]);
    assert!(bed.backups().is_empty());
    by_environment("20").expect(0);
    bed.ok(["backup", "data", "--cap-remember", "0"]);
    bed.ok(["backup", "data", "--cap", "none"]);
}

/// Commands that open a store, with the global options that each can use: whether it uses the
/// index, and whether it reads backups.
const COMMANDS: [(&[&str], bool, bool); 17] = [
    (&["init", "--repo", "other"], false, false),
    (&["backup", "data"], true, false),
    (&["restore", "latest", "-t", "out"], false, true),
    (&["dump", "latest", "data"], false, true),
    (&["snapshots"], false, false),
    (&["ls", "latest"], false, true),
    (&["forget", "--keep-last", "9"], true, false),
    (&["prune"], true, false),
    (&["tag", "latest", "--add", "x"], false, false),
    (&["hold", "latest", "--for", "1h"], false, false),
    (&["unhold", "latest"], false, false),
    (&["check"], false, true),
    (&["stats"], true, true),
    (&["series", "list"], false, false),
    (&["optimize"], true, false),
    (&["index", "rebuild"], true, false),
    (&["key", "list"], false, false),
];

#[test]
fn options_without_effect_are_refused_before_and_after_the_command() {
    let bed = Bed::new();
    fs::write(bed.path("data"), crate::bed::noise(100_000, 1)).unwrap();
    bed.ok(["backup", "data"]);
    for (command, uses_index, reads) in COMMANDS {
        let options: [(&[&str], bool, &str); 3] = [
            (&["--index-mib", "7"], uses_index, "concerns the index"),
            (&["--index-memory-mib", "7"], uses_index, "concerns the index"),
            (&["--no-pin"], reads, "reads none"),
        ];
        for (option, is_used, why) in options {
            for args in [[option, command].concat(), [command, option].concat()] {
                if is_used {
                    // A terminal makes no difference here.
                    bed.run(&args).expect(0);
                } else {
                    bed.run(&args).expect(2).says(&[option[0], why]);
                }
            }
        }
        // A variable counts only for commands that use it.
        let mut set = bed.command(command);
        set.env("ONEFOLD_INDEX_MIB", "7");
        Ran::from(set.output().unwrap()).expect(0);
    }
}

#[test]
fn options_of_a_command_that_another_option_makes_idle_are_refused() {
    let bed = Bed::new();
    fs::write(bed.path("data"), crate::bed::noise(100_000, 1)).unwrap();
    let stream = ["backup", "--stdin"];
    let command = ["backup", "--stdin-from-command"];
    let image = ["backup", "--image-kib", "64", "data"];
    let of_trees: [&[&str]; 9] = [
        &["--exclude", "x"],
        &["--iexclude", "x"],
        &["--exclude-file", "x"],
        &["--exclude-caches"],
        &["--one-file-system"],
        &["--ignore-file", "x"],
        &["--force"],
        &["--ignore-ctime"],
        &["--ignore-inode"],
    ];
    for option in of_trees {
        for args in [
            [&stream[..], option].concat(),
            [&image[..], option].concat(),
            [&command[..], option, &["--", "true"]].concat(),
        ] {
            bed.run(args)
                .expect(2)
                .says(&[option[0], "concerns files and folders"]);
        }
    }
    let refused: [(&[&str], &str); 11] = [
        (&["backup", "data", "--stdin-filename", "x"], "--stdin-filename"),
        (&["backup", "data", "--stdin-allow-empty"], "--stdin-allow-empty"),
        (&["backup", "data", "--force", "--ignore-ctime"], "--ignore-ctime"),
        (&["backup", "data", "--force", "--ignore-inode"], "--ignore-inode"),
        (
            &[
                "backup",
                "data",
                "--compression",
                "off",
                "--compression-level",
                "3",
            ],
            "--compression-level",
        ),
        (&["init", "--from-password-file", "x"], "--domain-of"),
        (&["ls", "latest", "--long", "--json"], "--long"),
        (
            &[
                "key",
                "add",
                "--new-password-file",
                "x",
                "--new-insecure-no-password",
            ],
            "--new-password-file",
        ),
        (&["forget", "1", "--times", "commit"], "--times"),
        (&["optimize", "-n", "--prune"], "--prune"),
        (&["prune", "--no-lock"], "--no-pin"),
    ];
    for (args, option) in refused {
        bed.run(args).expect(2).says(&[option]);
    }
    assert!(bed.backups().is_empty());
}
