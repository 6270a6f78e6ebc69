//! `--json` prints JSON lines and nothing else; without it, a pipe sees no progress.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::bed::{Bed, last, lines, noise};

#[test]
fn every_command_prints_json_lines_alone() {
    let bed = Bed::bare();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/file"), noise(200_000, 9)).unwrap();
    fs::write(bed.path("new"), "eins\n").unwrap();
    // The program warns of a password that everybody can read.
    fs::set_permissions(
        bed.path("new"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let json = |args: &[&str]| bed.ok(args.iter().copied().chain(["--json"]));
    for (args, kind) in [
        (["init"].as_slice(), "initialized"),
        (&["backup", "src"], "summary"),
        (&["backup", "src", "--verbose"], "summary"),
        (&["snapshots"], "snapshot"),
        (&["ls", "latest"], "node"),
        (&["ls", "latest"], "node"),
        (&["restore", "latest", "-t", "out"], "summary"),
        (
            &["restore", "latest", "-t", "out", "--overwrite", "never"],
            "summary",
        ),
        (&["check"], "summary"),
        (&["check", "--read-data"], "summary"),
        (&["stats"], "layout"),
        (&["optimize"], "optimize_summary"),
        (&["series", "list"], "series_default"),
        (&["series", "show", "--path", "src"], "series"),
        (
            &["series", "set", "--default", "--layout", "hybrid"],
            "series_default",
        ),
        (&["index", "rebuild"], "index_rebuilt"),
        (&["key", "add", "--new-password-file", "new"], "key_added"),
        (&["key", "list"], "key"),
    ] {
        let ran = json(args);
        assert_eq!(last(&ran)["message_type"], kind, "{args:?}");
        assert_eq!(ran.err(), "", "{args:?}");
    }
    let summary = last(&json(&["backup", "src"]));
    let stages = summary["stages"].as_array().unwrap();
    let names: Vec<_> = stages
        .iter()
        .map(|stage| stage["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "walk", "source", "read", "chunk", "work", "segment", "gather", "look up", "pack", "write",
            "close"
        ]
    );
    for stage in stages {
        assert!(stage["threads"].as_u64().unwrap() > 0, "{stage}");
        assert!(stage["input_wait_seconds"].as_f64().unwrap() >= 0.0, "{stage}");
    }
    let looked_up = &summary["queues"][1];
    assert!(looked_up["depth_average"].as_f64().unwrap() <= looked_up["depth"].as_f64().unwrap());
    let nodes = lines(&json(&["ls", "latest", "src"]).out);
    let file = nodes.iter().find(|node| node["type"] == "file").unwrap();
    assert_eq!(file["size"], 200_000);
    assert!(file["path"].as_str().unwrap().ends_with("/src/file"), "{file}");
    assert!(file["mtime"].as_str().unwrap().ends_with('Z'), "{file}");
}

#[test]
fn failures_are_json_lines_on_standard_error() {
    let bed = Bed::bare();
    let ran = bed.run(["snapshots", "--json"]).expect(10);
    assert_eq!(ran.out(), "");
    let error = lines(&ran.err).pop().unwrap();
    assert_eq!(error["message_type"], "exit_error");
    assert_eq!(error["code"], 10);
    // Also where the words were not understood, or contradict each other.
    for words in [
        &["snapshots", "--json", "--nonsense"][..],
        &["backup", "--json", "--stdin", "--force"],
    ] {
        let ran = bed.run(words).expect(2);
        assert_eq!(ran.out(), "");
        let errors = lines(&ran.err);
        assert_eq!(errors.len(), 1, "{}", ran.err());
        assert_eq!(
            (&errors[0]["message_type"], &errors[0]["code"]),
            (&"exit_error".into(), &2.into())
        );
        let message = errors[0]["message"].as_str().unwrap();
        assert!(message.contains(words[words.len() - 1]), "{message}");
    }
}

#[test]
fn names_that_are_not_utf_8_come_with_their_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src").join(std::ffi::OsStr::from_bytes(b"a\xffb")), "").unwrap();
    bed.ok(["backup", "src"]);
    let node = last(&bed.ok(["ls", "latest", "--json"]));
    let bytes: Vec<u8> = serde_json::from_value(node["path_bytes"].clone()).unwrap();
    assert!(bytes.ends_with(b"/src/a\xffb"), "{node}");
}

#[test]
fn damage_is_a_json_line_and_1() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/file"), noise(2 << 20, 10)).unwrap();
    bed.ok(["backup", "src"]);
    let containers = bed.objects("data").into_iter();
    let container = containers
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&container).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::set_permissions(&container, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fs::write(&container, bytes).unwrap();
    bed.ok(["check"]);
    let ran = bed.run(["check", "--read-data", "--json"]).expect(1);
    let found = lines(&ran.out);
    let kinds: Vec<_> = found
        .iter()
        .map(|line| line["message_type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["damage", "damaged_backup", "summary"], "{found:?}");
    assert!(
        found[1]["files"][0].as_str().unwrap().ends_with("/src/file"),
        "{found:?}"
    );
    assert_eq!(found[2]["broken_backups"][0], 1);
    let text = bed.run(["check", "--read-data"]).expect(1).out();
    assert!(text.contains("backup 1") && text.contains("/src/file"), "{text}");
    // The rest is restored. The lost file is named, and no wrong byte is written.
    bed.run(["restore", "latest", "-t", "out"])
        .expect(1)
        .says(&["/src/file", "not restored"]);
    assert!(!bed.restored("out", "src/file").exists());
    // The source still has the file, so the next backup heals the store for all later ones.
    bed.ok(["backup", "src", "--force"]);
    bed.ok(["restore", "latest", "-t", "healed"]);
    assert_eq!(
        fs::read(bed.restored("healed", "src/file")).unwrap(),
        noise(2 << 20, 10)
    );
}

#[test]
fn a_pipe_sees_results_and_no_progress() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    fs::write(bed.path("src/file"), noise(30 << 20, 11)).unwrap();
    for args in [
        ["backup", "src"].as_slice(),
        &["restore", "latest", "-t", "out"],
        &["check", "--read-data"],
        &["stats"],
        &["index", "rebuild"],
    ] {
        let ran = bed.ok(args);
        assert_eq!(ran.err(), "", "{args:?}");
        assert!(
            !ran.out().is_empty() && !ran.out.contains(&b'\r') && !ran.out.contains(&0x1b),
            "{args:?}"
        );
    }
    for args in [
        ["backup", "src"].as_slice(),
        &["restore", "latest", "-t", "out"],
        &["check"],
    ] {
        let ran = bed.ok(args.iter().copied().chain(["--quiet"]));
        assert_eq!((ran.out(), ran.err()), (String::new(), String::new()), "{args:?}");
    }
}

/// A quiet command leaves out what nobody asked for, and prints what it was asked to show.
#[test]
fn quiet_commands_print_what_they_were_asked_to_show() {
    let bed = Bed::new();
    fs::create_dir(bed.path("src")).unwrap();
    for text in ["one", "two"] {
        fs::write(bed.path("src/file"), text).unwrap();
        bed.ok(["backup", "src"]);
    }
    let quiet = |args: &[&str]| bed.ok(args.iter().copied().chain(["-q"])).out();
    // Of these, the headings and the closing summary are left out.
    for (args, shown, left_out) in [
        (["snapshots"].as_slice(), "/src", "backups"),
        (&["ls", "latest"], "/src/file", "entries"),
        (&["find", "file"], "/src/file", "Found"),
        (&["diff", "1", "2"], "/src/file", "Files:"),
        (&["key", "list"], "none", "made by"),
        (&["stats"], "backups", "A restore reads"),
        (&["series", "list"], "/src", "host and paths"),
    ] {
        let out = quiet(args);
        assert!(out.contains(shown) && !out.contains(left_out), "{args:?}: {out}");
    }
    // A dry run has no other purpose than its plan.
    fs::write(bed.path("src/file"), "three").unwrap();
    for (args, shown) in [
        (["forget", "-l", "1", "-n"].as_slice(), "keeps 1 of 2"),
        (&["forget", "1", "-n"], "named on the command line"),
        (&["restore", "1", "-t", "out", "-n", "-vv"], "src/file"),
        (&["restore", "1", "-t", "out", "-n"], "would restore 1 file"),
        (&["prune", "-n"], "would free"),
        (&["optimize", "-n"], "nothing is due"),
        (&["backup", "src", "-n"], "a dry run"),
    ] {
        let (out, loud) = (quiet(args), bed.ok(args).out());
        assert!(out.contains(shown), "{args:?}: {out}");
        assert_eq!(out.lines().count(), loud.lines().count(), "{args:?}: {out}");
    }
    fs::create_dir(bed.path("other")).unwrap();
    let other = bed.path("other/store");
    bed.ok(["-r", other.to_str().unwrap(), "init"]);
    let from = bed.store();
    let copy = [
        "-r",
        other.to_str().unwrap(),
        "copy",
        "-n",
        "--from-repo",
        from.to_str().unwrap(),
    ];
    assert!(quiet(&copy).contains("would copy"), "{}", quiet(&copy));
    assert_eq!(quiet(&["forget", "-l", "1"]), "");
}

/// The words that `kind` functions return, read from the source.
fn kinds(source: &str) -> Vec<&str> {
    let words = source.lines().filter_map(|line| {
        let word = line.trim().split_once("=> \"")?.1.strip_suffix("\",")?;
        word.chars()
            .all(|c| c.is_ascii_lowercase() || c == '_')
            .then_some(word)
    });
    words.collect()
}

#[test]
fn the_page_has_every_kind() {
    let page = include_str!("../../../../docs/cli.md");
    let mut all = Vec::new();
    for source in [
        include_str!("../../../onefold/src/warning.rs"),
        include_str!("../../../onefold/src/check/finding.rs"),
        include_str!("../../../reclaim/src/warning.rs"),
        include_str!("../../../index/src/error.rs"),
    ] {
        let words = kinds(source);
        assert!(words.len() > 3, "{words:?}");
        all.extend(words);
    }
    let lacking: Vec<_> = all
        .iter()
        .filter(|word| !page.contains(&format!("`{word}`")))
        .collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}

/// The types of messages that the sources of the program name.
fn message_types(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            message_types(&path, found);
            continue;
        }
        let source = fs::read_to_string(&path).unwrap();
        let product = source.split("#[cfg(test)]").next().unwrap();
        for beginning in ["message_type: \"", "message_type\": \"", "FoundLine::of(\""] {
            let words = product.split(beginning).skip(1);
            found.extend(words.map(|rest| rest.split('"').next().unwrap().to_owned()));
        }
    }
}

#[test]
fn the_page_has_every_type_of_message() {
    let page = include_str!("../../../../docs/cli.md");
    let (_, table) = page.split_once("\n## JSON lines").unwrap();
    let (table, _) = table.split_once("\n### Lines with many fields").unwrap();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut types = BTreeSet::new();
    for folder in ["cli/src", "cli-support/src"] {
        message_types(&crates.join(folder), &mut types);
    }
    assert!(types.len() > 50, "{types:?}");
    let lacking: Vec<_> = types
        .iter()
        .filter(|word| !table.contains(&format!("`{word}`")))
        .collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}
