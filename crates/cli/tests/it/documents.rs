//! The command line describes itself: completions of shells, and manual pages. And what people see
//! who look into a store.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::bed::{Bed, Ran, feed, lines, noise};

/// A run without options about stores, which these commands refuse.
fn plain(bed: &Bed, args: &[&str]) -> Ran {
    let mut command = bed.plain();
    command.env_remove("ONEFOLD_REPOSITORY").args(args);
    command.output().unwrap().into()
}

#[test]
fn bash_accepts_the_completions_and_completes_words() {
    let bed = Bed::bare();
    let script = plain(&bed, &["completions", "bash"]).expect(0);
    fs::write(bed.path("completions"), &script.out).unwrap();
    let bash = |text: &str| -> Ran {
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc"]).current_dir(bed.path(""));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        feed(command, text.as_bytes()).expect(0)
    };
    assert_eq!(bash("bash -n completions").err(), "");
    // What bash does when somebody presses the tabulator.
    let completed = |words: &[&str]| {
        let last = words.len() - 1;
        let line = words.join(" ");
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let ran = bash(&format!(
            "source completions\nCOMP_WORDS=({})\nCOMP_CWORD={last}\nCOMP_LINE='{line}'\n\
             COMP_POINT={}\n_onefold onefold '{}' '{}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            quoted.join(" "),
            line.len(),
            words[last],
            words[last - 1],
        ));
        ran.out().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(completed(&["onefold", "snap"]), ["snapshots"]);
    assert_eq!(completed(&["onefold", "key", "pass"]), ["passwd"]);
    assert_eq!(completed(&["onefold", "diff", "--meta"]), ["--metadata"]);
}

#[test]
fn every_shell_has_a_script() {
    let bed = Bed::bare();
    for (shell, words) in [
        ("zsh", "#compdef onefold"),
        ("fish", "complete -c onefold"),
        ("elvish", "edit:completion:arg-completer[onefold]"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        let script = plain(&bed, &["completions", shell]).expect(0).out();
        assert!(script.contains(words) && script.contains("snapshots"), "{shell}");
        assert!(script.ends_with('\n'), "{shell}");
    }
    plain(&bed, &["completions", "ksh"]).expect(2);
    plain(&bed, &["completions", "bash", "--json"])
        .expect(2)
        .says(&["--json"]);
    plain(&bed, &["man", "-r", "store"]).expect(2).says(&["--repo"]);
}

#[test]
fn every_command_has_a_manual_page_with_its_options() {
    let bed = Bed::bare();
    let wrote = plain(&bed, &["man", "pages", "--json"]).expect(0);
    let count = lines(&wrote.out)[0]["pages"].as_u64().unwrap();
    let mut pages: Vec<_> = fs::read_dir(bed.path("pages"))
        .unwrap()
        .map(|page| page.unwrap().path())
        .collect();
    pages.sort();
    assert_eq!(pages.len() as u64, count);
    assert!(count > 50, "{count}");
    for name in [
        "onefold.1",
        "onefold-backup.1",
        "onefold-key-add.1",
        "onefold-diff.1",
    ] {
        assert!(bed.path("pages").join(name).exists(), "{name}");
    }
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        assert!(
            text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"),
            "{}",
            page.display()
        );
    }
    // Options that `--help` shows are in the page.
    let help = plain(&bed, &["backup", "--help"]).expect(0).out();
    let page = fs::read_to_string(bed.path("pages/onefold-backup.1")).unwrap();
    let page = page.replace('\\', "");
    let options = help
        .split_whitespace()
        .filter(|word| word.starts_with("--") && word.len() > 3);
    let mut seen = 0;
    for option in options {
        let name = option.trim_end_matches(|c: char| !c.is_alphanumeric());
        let name = name.split(['=', '[']).next().unwrap();
        assert!(page.contains(name), "{name} is not in the page");
        seen += 1;
    }
    assert!(seen > 20, "{seen}");
    assert!(plain(&bed, &["man"]).expect(0).out == fs::read(bed.path("pages/onefold.1")).unwrap());

    // The formatter has nothing to say, where there is one.
    for page in &pages {
        let groff = Command::new("groff")
            .args(["-man", "-ww", "-Tutf8", "-z"])
            .arg(page)
            .output();
        let Ok(groff) = groff else { return };
        assert_eq!(String::from_utf8_lossy(&groff.stderr), "", "{}", page.display());
    }
}

#[test]
fn objects_of_a_store_are_printed_as_json() {
    let bed = Bed::new();
    fs::create_dir(bed.path("tree")).unwrap();
    fs::write(bed.path("tree/file"), noise(2 << 20, 5)).unwrap();
    bed.run(["cat", "node", "recipe/1/0:0"])
        .expect(1)
        .says(&["no backup"]);
    bed.ok(["backup", "tree", "--tag", "a"]);
    let show = |args: &[&str]| -> Value {
        let text = bed.ok(["cat"].iter().chain(args)).out();
        let mut value: Value = serde_json::from_str(&text).unwrap();
        let line = lines(&bed.ok(["cat", "--json"].iter().chain(args)).out);
        value["message_type"] = args[0].into();
        assert_eq!(line, [value.clone()], "{args:?}");
        value
    };
    let config = show(&["config"]);
    assert_eq!(config["container_bytes"], 1 << 20);
    assert_eq!(config["keys"][0]["password"], false);
    let manifest = show(&["manifest", "1"]);
    assert_eq!(manifest["tags"], serde_json::json!(["a"]));
    assert_eq!(manifest["totals"]["files"], 1);
    assert_eq!(show(&["manifest", "latest"]), manifest);
    let content = &manifest["streams"][0];
    assert_eq!(
        (&content["role"], &content["len"]),
        (&"content".into(), &(2 << 20).into())
    );

    let place = content["node"].as_str().unwrap();
    let node = show(&["node", place]);
    assert_eq!(
        (&node["level"], &node["logical_len"]),
        (&content["level"], &content["len"])
    );
    let (container, slot) = place.split_once(':').unwrap();
    let catalog = show(&["catalog", container]);
    let entry = catalog["entries"].as_array().unwrap();
    let entry = entry
        .iter()
        .find(|entry| entry["slot"] == slot.parse::<u64>().unwrap())
        .unwrap();
    assert_eq!(entry["fingerprint"], content["fingerprint"]);
    // The keys of a store decide whether one node lists all chunks: follow the first down to data.
    let mut lowest = node;
    while lowest["level"] != 1 {
        let below = format!(
            "{}:{}",
            lowest["entries"][0]["container"].as_str().unwrap(),
            lowest["entries"][0]["first"]
        );
        lowest = show(&["node", &below]);
    }
    let of_data = lowest["entries"][0]["container"].as_str().unwrap();
    assert_eq!(show(&["catalog", of_data])["entries"][0]["level"], 0);
    // As its object is named.
    let object = bed.objects("data").pop().unwrap();
    let name = object.strip_prefix(bed.store()).unwrap().to_str().unwrap();
    show(&["catalog", name]);

    bed.run(["cat", "node", &format!("{container}:99999")]).expect(1);
    bed.run(["cat", "catalog", "data/99/0"]).expect(1);
    bed.run(["cat", "catalog", "nothing"])
        .expect(2)
        .says(&["is no container"]);
    bed.run(["cat", "manifest", "7"]).expect(1).says(&["no backup 7"]);
    bed.run(["cat", "config", "--no-pin"]).expect(2);
}
