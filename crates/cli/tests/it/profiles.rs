//! Profiles: their tables, their order of precedence, their hooks, and what is wrong in them.

use std::fs;
use std::process::Command;

use crate::bed::{Bed, Ran, lines, noise};

/// A bed with the profile `home` in its folder of configurations, and two files.
fn bed(profile: &str) -> Bed {
    let mut bed = Bed::new();
    let folder = bed.path("conf");
    fs::create_dir(&folder).unwrap();
    let text = profile.replace("BED", bed.path("").to_str().unwrap());
    fs::write(folder.join("home.toml"), text).unwrap();
    bed.set("ONEFOLD_CONFIG_DIR", folder.to_str().unwrap());
    fs::create_dir(bed.path("docs")).unwrap();
    fs::write(bed.path("docs/letter"), noise(10_000, 1)).unwrap();
    fs::write(bed.path("docs/junk.tmp"), noise(10_000, 2)).unwrap();
    bed
}

/// The binary without a store in its environment.
fn bare(bed: &Bed) -> Command {
    let mut command = bed.plain();
    command.env_remove("ONEFOLD_REPOSITORY");
    command
}

fn run<const N: usize>(bed: &Bed, args: [&str; N]) -> Ran {
    bare(bed).args(args).output().unwrap().into()
}

const TWO: &str = r#"
[global]
repo = "BED/store"
insecure-no-password = true

[[backup]]
name = "docs"
paths = ["BED/docs"]
exclude = ["*.tmp"]
tag = ["letters", "own"]

[[backup]]
name = "list"
command = ["sh", "-c", "echo $GREETING"]
stdin-filename = "greeting"

[environment]
GREETING = "hello"

[forget]
keep-last = 1
"#;

#[test]
fn a_profile_has_a_store_and_several_backups() {
    let bed = bed(TWO);
    let ran = run(&bed, ["-P", "home", "backup"]).expect(0);
    assert!(
        ran.out().contains("docs:\n") && ran.out().contains("list:\n"),
        "{}",
        ran.out()
    );
    let ls = run(&bed, ["-P", "home", "ls", "1"]).expect(0).out();
    assert!(ls.contains("letter") && !ls.contains("junk.tmp"), "{ls}");
    let dumped = run(&bed, ["-P", "home", "dump", "2"]).expect(0).out();
    assert_eq!(dumped, "hello\n");
    let tags = run(&bed, ["-P", "home", "snapshots", "--json"]).expect(0);
    assert_eq!(lines(&tags.out)[0]["tags"], serde_json::json!(["letters", "own"]));

    // Only one of them, and a file that is in none of them.
    run(&bed, ["-P", "home", "backup", "--only", "docs"]).expect(0);
    let adhoc = bed.path("docs/junk.tmp");
    run(&bed, ["-P", "home", "backup", adhoc.to_str().unwrap()]).expect(0);
    assert_eq!(bed.backups().len(), 4);

    // The rules of its own table, unless backups are named.
    run(&bed, ["-P", "home", "forget"]).expect(0);
    assert_eq!(bed.backups().len(), 3);
    let newest = *bed.backups().last().unwrap();
    run(&bed, ["-P", "home", "forget", &newest.to_string()]).expect(0);
    assert_eq!(bed.backups().len(), 2);
}

#[test]
fn a_typed_option_wins_over_the_environment_and_that_over_the_profile() {
    let bed = bed(TWO);
    let other = bed.path("other");
    let other = other.to_str().unwrap();
    run(&bed, ["-P", "home", "init", "--repo", other]).expect(0);
    let in_environment = |args: &[&str]| -> Ran {
        let mut command = bare(&bed);
        command
            .env("ONEFOLD_REPOSITORY", other)
            .env("GREETING", "bonjour");
        command.args(args).output().unwrap().into()
    };
    in_environment(&["--profile=home", "backup", "--only", "list"]).expect(0);
    assert_eq!(bed.backups(), Vec::<u64>::new());
    let dumped = in_environment(&["-P", "home", "dump", "latest"]).expect(0).out();
    assert_eq!(dumped, "bonjour\n");
    let store = bed.store();
    in_environment(&[
        "-P",
        "home",
        "-r",
        store.to_str().unwrap(),
        "backup",
        "--tag",
        "typed",
    ])
    .expect(0);
    let tags = run(&bed, ["-P", "home", "snapshots", "--json"]).expect(0);
    assert_eq!(lines(&tags.out)[0]["tags"], serde_json::json!(["typed"]));

    // So do options of its backups, and typed lists name what to back up.
    fs::write(bed.path("list"), bed.path("docs").to_str().unwrap()).unwrap();
    let mut command = bare(&bed);
    command.env("ONEFOLD_CAP", "nonsense");
    let capped = fs::read_to_string(bed.path("conf/home.toml")).unwrap();
    let capped = capped.replace("name = \"docs\"", "name = \"docs\"\ncap = \"none\"");
    fs::write(bed.path("conf/capped.toml"), capped).unwrap();
    command.args(["-P", "capped", "backup", "--only", "docs"]);
    Ran::from(command.output().unwrap())
        .expect(2)
        .says(&["ONEFOLD_CAP"]);
    let before = bed.backups().len();
    run(
        &bed,
        [
            "-P",
            "home",
            "backup",
            "--files-from",
            bed.path("list").to_str().unwrap(),
        ],
    )
    .expect(0);
    run(&bed, ["-P", "home", "backup", "--only", "docs", "--"]).expect(0);
    assert_eq!(bed.backups().len(), before + 2);
    let ls = run(&bed, ["-P", "home", "ls", "latest"]).expect(0).out();
    assert!(!ls.contains("junk.tmp"), "{ls}");

    // The environment may name the profile, and typed options for the password replace its own.
    let mut command = bare(&bed);
    command.env("ONEFOLD_PROFILE", "home");
    let word = bed.path("word");
    fs::write(&word, "secret").unwrap();
    let ran = Ran::from(command.arg("-p").arg(word).arg("snapshots").output().unwrap());
    ran.expect(12);
}

const HOOKED: &str = r#"
[global]
repo = "BED/store"
insecure-no-password = true

[hooks]
before = "echo all before >> BED/told"
after = "echo all after >> BED/told"
failed = "echo all failed $ONEFOLD_EXIT_CODE >> BED/told"
finally = "echo all finally >> BED/told"

[[backup]]
name = "bad"
paths = ["BED/docs"]
before = ["echo $ONEFOLD_PROFILE $ONEFOLD_BACKUP before >> BED/told", "exit 7", "echo never >> BED/told"]
after = "echo never >> BED/told"
failed = ["exit 9", "echo bad failed $ONEFOLD_EXIT_CODE >> BED/told"]
finally = ["exit 9", "echo bad finally >> BED/told"]

[[backup]]
name = "good"
paths = ["BED/docs"]
before = "echo to standard output"
after = "echo good after $ONEFOLD_EXIT_CODE >> BED/told"
failed = "echo never >> BED/told"
"#;

#[test]
fn hooks_run_around_each_backup_and_around_all() {
    let bed = bed(HOOKED);
    let ran = run(&bed, ["-P", "home", "--json", "backup"]).expect(1);
    // Standard output has JSON lines alone.
    assert_eq!(lines(&ran.out).len(), 1, "{}", ran.out());
    let ran = ran.says(&[
        "command 2 of the hook `before` of profile home failed (exit status: 7)",
        "to standard output",
    ]);
    drop(ran);
    let told = fs::read_to_string(bed.path("told")).unwrap();
    let expected =
        "all before\nhome bad before\nbad failed 1\nbad finally\ngood after 0\nall failed 1\nall finally\n";
    assert_eq!(told, expected);
    assert_eq!(bed.backups().len(), 1);
}

/// Nothing is made, and nobody is told that there is a backup.
#[test]
fn hooks_do_not_run_in_a_dry_run() {
    let bed = bed(HOOKED);
    run(&bed, ["-P", "home", "backup", "--dry-run"]).expect(0);
    assert!(!bed.path("told").exists());
    assert!(bed.backups().is_empty());
}

#[test]
fn what_is_wrong_in_a_profile_is_told_before_anything_runs() {
    let wrong: [(&str, &[&str]); 8] = [
        ("nonsense = 1\n", &["home.toml, line 1", "nonsense"]),
        (
            "[global]\nexclude = \"x\"\n",
            &["`exclude` in [global] is no option of every command"],
        ),
        ("[global]\nrepo = true\n", &["`repo` in [global] takes one value"]),
        (
            "[[backup]]\npaths = [\"/x\"]\nexlude = \"y\"\n",
            &["`exlude` in backup `/x` is no option of `backup`"],
        ),
        (
            "[[backup]]\npaths = [\"/x\"]\ncompression = \"bzip2\"\n",
            &["backup `/x`", "bzip2", "--compression"],
        ),
        (
            "[[backup]]\npaths = [\"/x\"]\nrepo = \"y\"\n",
            &["`repo` in backup `/x` is no option"],
        ),
        ("[[backup]]\nname = \"x\"\n", &["either `paths` or `command`"]),
        ("[global]\nrepo = \"BED/store\"\n", &["no [[backup]]"]),
    ];
    for (profile, words) in wrong {
        let bed = bed(profile);
        run(&bed, ["-P", "home", "backup"]).expect(2).says(words);
    }
    let bed = bed(TWO);
    run(&bed, ["-P", "away", "snapshots"])
        .expect(2)
        .says(&["no profile `away`", "/etc/onefold/away.toml"]);
    run(&bed, ["-P", "home", "backup", "--only", "x"])
        .expect(2)
        .says(&["no backup of the name `x`"]);
    run(&bed, ["-P", "home", "backup", "--only", "docs", "/x"])
        .expect(2)
        .says(&["--only"]);
    run(&bed, ["backup", "--only", "docs", "/x"])
        .expect(2)
        .says(&["add -P"]);
    run(&bed, ["-P", "home", "backup", "--exlude", "x"])
        .expect(2)
        .says(&["--exlude"]);
    assert_eq!(bed.backups(), Vec::<u64>::new());
}

#[test]
fn a_unit_of_systemd_may_pass_the_password() {
    let bed = bed("[global]\nrepo = \"BED/locked\"\n");
    let folder = bed.path("credentials");
    fs::create_dir(&folder).unwrap();
    let with_credentials = |args: &[&str]| -> Ran {
        let mut command = bare(&bed);
        command.env("CREDENTIALS_DIRECTORY", &folder);
        command.args(args).output().unwrap().into()
    };
    with_credentials(&["-P", "home", "init"])
        .expect(1)
        .says(&["no password was given"]);
    for empty in ["", "\n"] {
        fs::write(folder.join("onefold.password"), empty).unwrap();
        with_credentials(&["-P", "home", "init"])
            .expect(1)
            .says(&["no password was given"]);
    }
    fs::write(folder.join("onefold.password"), "secret\n").unwrap();
    with_credentials(&["-P", "home", "init"]).expect(0);
    with_credentials(&["-P", "home", "snapshots"]).expect(0);
    fs::write(folder.join("onefold.password"), "another").unwrap();
    with_credentials(&["-P", "home", "snapshots"]).expect(12);
}
