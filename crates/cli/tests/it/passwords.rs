//! Passwords: their sources, wrong ones, and their slots.

use std::fs;
use std::process::Command;

use crate::bed::{Bed, Ran, lines};
use crate::ran::feed;

fn run(command: &mut Command) -> Ran {
    command.output().unwrap().into()
}

fn with(bed: &Bed, name: &str, value: &str, args: &[&str]) -> Ran {
    run(bed.plain().env(name, value).args(args))
}

/// A store whose password is `eins`.
fn locked() -> Bed {
    let bed = Bed::bare();
    with(&bed, "ONEFOLD_PASSWORD", "eins", &["init"]).expect(0);
    bed
}

#[test]
fn a_password_comes_from_environment_file_or_command() {
    let bed = locked();
    fs::write(bed.path("password"), "eins\nmore lines do not matter\n").unwrap();
    let file = bed.path("password").display().to_string();
    with(&bed, "ONEFOLD_PASSWORD", "eins", &["snapshots"]).expect(0);
    with(&bed, "ONEFOLD_PASSWORD_FILE", &file, &["snapshots"]).expect(0);
    with(&bed, "ONEFOLD_PASSWORD_COMMAND", "echo eins", &["snapshots"]).expect(0);
    run(bed.plain().args(["-p", &file, "snapshots"])).expect(0);
    run(bed
        .plain()
        .args(["--password-command", "head -n1 password", "snapshots"]))
    .expect(0);
    // The command's standard input is not that of the backup.
    let command = ["--password-command", "cat > rest; echo eins"];
    let backup = ["backup", "--stdin", "--stdin-filename", "s"];
    let mut fed = bed.plain();
    fed.args(command).args(backup);
    feed(fed, b"of the backup").expect(0);
    assert_eq!(fs::read(bed.path("rest")).unwrap(), b"");
    let dumped = run(bed.plain().args(["-p", &file, "dump", "1"])).expect(0);
    assert_eq!(dumped.out, b"of the backup");
    // An option overrides the environment.
    with(&bed, "ONEFOLD_PASSWORD", "other", &["-p", &file, "snapshots"]).expect(0);
}

#[test]
fn a_password_that_does_not_open_is_12_and_says_where() {
    let bed = locked();
    let place = bed.store().display().to_string();
    with(&bed, "ONEFOLD_PASSWORD", "zwei", &["snapshots"])
        .expect(12)
        .says(&[&place, "wrong password"]);
    bed.run(["snapshots"])
        .expect(12)
        .says(&[&place, "needs a password"]);
    let open = Bed::new();
    with(&open, "ONEFOLD_PASSWORD", "eins", &["snapshots"])
        .expect(12)
        .says(&["has no password", "--insecure-no-password"]);
}

#[test]
fn no_password_at_all_is_asked_for_and_never_guessed() {
    let bed = locked();
    run(bed.plain().arg("snapshots"))
        .expect(1)
        .says(&["ONEFOLD_PASSWORD", "--insecure-no-password"]);
    with(&bed, "ONEFOLD_PASSWORD", "", &["snapshots"])
        .expect(1)
        .says(&["ONEFOLD_PASSWORD is empty"]);
    with(&bed, "ONEFOLD_PASSWORD_FILE", "/nonexistent", &["snapshots"])
        .expect(1)
        .says(&["/nonexistent"]);
    with(&bed, "ONEFOLD_PASSWORD_COMMAND", "exit 7", &["snapshots"])
        .expect(1)
        .says(&["password command", "7"]);
    with(&bed, "ONEFOLD_PASSWORD_COMMAND", "true", &["snapshots"])
        .expect(1)
        .says(&["no password"]);
    let bare = Bed::bare();
    run(bare.plain().arg("init"))
        .expect(1)
        .says(&["ONEFOLD_PASSWORD"]);
    assert!(!bare.store().exists(), "nothing was made without a password");
}

#[test]
fn slots_are_listed_added_removed_and_replaced() {
    let bed = locked();
    let keys = |password: &str| {
        lines(
            &with(&bed, "ONEFOLD_PASSWORD", password, &["key", "list", "--json"])
                .expect(0)
                .out,
        )
    };
    let opens = |password: &str| with(&bed, "ONEFOLD_PASSWORD", password, &["snapshots"]).code == Some(0);
    assert_eq!(keys("eins").len(), 1);
    fs::write(bed.path("new"), "zwei\n").unwrap();
    let added = with(
        &bed,
        "ONEFOLD_PASSWORD",
        "eins",
        &["key", "add", "--new-password-file", "new", "--json"],
    )
    .expect(0);
    let added = lines(&added.out)[0]["id"].as_str().unwrap().to_owned();
    assert!(opens("eins") && opens("zwei"));
    let of_zwei = keys("zwei");
    assert_eq!(of_zwei.len(), 2);
    let current: Vec<_> = of_zwei.iter().filter(|key| key["current"] == true).collect();
    assert_eq!(current.len(), 1);
    assert_eq!(current[0]["id"], added.as_str());

    fs::write(bed.path("new"), "drei\n").unwrap();
    with(
        &bed,
        "ONEFOLD_PASSWORD",
        "zwei",
        &["key", "passwd", "--new-password-file", "new"],
    )
    .expect(0);
    assert!(opens("eins") && !opens("zwei") && opens("drei"));

    let of_eins = keys("drei")
        .into_iter()
        .find(|key| key["current"] == false)
        .unwrap();
    let of_eins = of_eins["id"].as_str().unwrap();
    with(&bed, "ONEFOLD_PASSWORD", "eins", &["key", "remove", of_eins])
        .expect(1)
        .says(&[of_eins, "not removed", "give another password", "key passwd"]);
    assert!(opens("eins") && opens("drei"));
    with(&bed, "ONEFOLD_PASSWORD", "drei", &["key", "remove", of_eins]).expect(0);
    assert!(!opens("eins") && opens("drei"));
    with(&bed, "ONEFOLD_PASSWORD", "drei", &["key", "remove", of_eins])
        .expect(1)
        .says(&[of_eins, "key list"]);
    let last = keys("drei")[0]["id"].as_str().unwrap().to_owned();
    with(&bed, "ONEFOLD_PASSWORD", "drei", &["key", "remove", &last])
        .expect(1)
        .says(&["only one", "add another"]);

    let text = with(&bed, "ONEFOLD_PASSWORD", "drei", &["key", "list"])
        .expect(0)
        .out();
    assert!(text.contains(&last) && !text.contains("drei"), "{text}");
}

#[test]
fn a_domain_is_shared_between_stores_of_two_passwords() {
    let bed = locked();
    fs::write(bed.path("eins"), "eins\n").unwrap();
    let args = [
        "--repo",
        "other",
        "init",
        "--domain-of",
        "store",
        "--from-password-file",
        "eins",
    ];
    with(&bed, "ONEFOLD_PASSWORD", "zwei", &args).expect(0);
    with(
        &bed,
        "ONEFOLD_PASSWORD",
        "zwei",
        &["--repo", "other", "snapshots"],
    )
    .expect(0);
    let wrong = ["--repo", "third", "init", "--domain-of", "store"];
    with(&bed, "ONEFOLD_PASSWORD", "zwei", &wrong)
        .expect(12)
        .says(&["store", "wrong password"]);
    assert!(!bed.path("third").exists(), "nothing was made");
}

#[test]
fn a_password_that_is_no_text_is_not_printed() {
    let bed = Bed::new();
    let password = std::os::unix::ffi::OsStrExt::from_bytes(b"secret\xff");
    let mut command = bed.plain();
    command
        .args(["snapshots"])
        .env::<_, &std::ffi::OsStr>("ONEFOLD_PASSWORD", password);
    let ran = Ran::from(command.output().unwrap())
        .expect(1)
        .says(&["ONEFOLD_PASSWORD", "UTF-8"]);
    assert!(!ran.err().contains("secret"), "{}", ran.err());
}
