//! A vault: the server holds a store that only its machines can read. Real processes, real TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bed::{Bed, Ran, last, noise, settle, wait_until};
use crate::main_job::plant;
use crate::picture::{assert_same, picture};
use crate::served::{Machine, Served, ran, start_with};

const ALL: &str = "write,list,read,forget,hold,maintain";
/// A text that must not be in any file of the server.
const MARKER: &[u8] = b"the plain text of a machine";

/// A server with a vault.
fn served() -> Served {
    let served = Served::new();
    operator(&served, &["server", "namespace", "add", "srv", "safe", "--vault"]).expect(0);
    served
}

fn operator(served: &Served, args: &[&str]) -> Ran {
    let mut command = served.bed.plain();
    command.env_remove("ONEFOLD_REPOSITORY").args(args);
    ran(command)
}

/// Runs on a machine that knows the password of the store.
fn command(machine: &Machine<'_>, args: &[&str]) -> Command {
    let mut command = machine.command(args);
    command.env("ONEFOLD_PASSWORD", "known to machines alone");
    command
}

fn run(machine: &Machine<'_>, args: &[&str]) -> Ran {
    ran(command(machine, args))
}

#[track_caller]
fn ok(machine: &Machine<'_>, args: &[&str]) -> Ran {
    run(machine, args).expect(0)
}

/// A machine that has made a store in the vault. Its containers are small.
fn keeper(served: &Served) -> Machine<'_> {
    let machine = served.machine("keeper", "safe", ALL);
    ok(&machine, &["init", "--container-mib", "1"]);
    machine
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found
}

fn has_marker(bytes: &[u8]) -> bool {
    bytes.windows(MARKER.len()).any(|window| window == MARKER)
}

#[test]
fn a_vault_is_used_like_a_store_and_its_server_reads_nothing() {
    let served = served();
    let bed = &served.bed;
    let machine = keeper(&served);
    plant(&bed.path("tree"));
    fs::write(bed.path("tree/note"), MARKER.repeat(300)).unwrap();
    settle();
    let first = last(&ok(&machine, &["backup", "tree", "--json"]));
    assert!(first["bytes_sent"].as_u64().unwrap() > 3 << 20, "{first}");
    let second = last(&ok(&machine, &["backup", "tree", "--json"]));
    assert_eq!(second["parent"], first["snapshot_id"], "{second}");
    assert_eq!(second["bytes_read"], 0, "{second}");
    let listed = ok(&machine, &["snapshots", "--json"]);
    assert_eq!(listed.out().lines().count(), 2, "{}", listed.out());
    ok(&machine, &["restore", "latest", "-t", "out"]);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    let note = bed.path("tree/note");
    let dumped = ok(&machine, &["dump", "latest", note.to_str().unwrap()]);
    assert!(has_marker(&dumped.out));
    for args in [
        &["ls", "latest"][..],
        &["tag", "--add", "gold", "latest"],
        &["hold", "--for", "1d", "latest"],
        &["unhold", "latest"],
        &["stats"],
        &["key", "list"],
        &["series", "list"],
        &["check", "--read-data"],
    ] {
        ok(&machine, args);
    }
    // Prune gives back what only the forgotten backup had.
    fs::write(bed.path("extra"), noise(4 << 20, 77)).unwrap();
    let third = last(&ok(&machine, &["backup", "extra", "--json"]));
    let stored = || -> u64 {
        let all = files(&bed.path("srv/vaults/safe/data"));
        all.iter().map(|file| file.metadata().unwrap().len()).sum()
    };
    let before = stored();
    ok(&machine, &["forget", &third["snapshot_id"].to_string()]);
    ok(&machine, &["prune"]);
    assert!(stored() + (3 << 20) < before, "{} of {before}", stored());
    ok(&machine, &["restore", "latest", "-t", "again"]);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("again", "tree")),
    );
    let checked = ok(&machine, &["check", "--read-data"]);
    assert!(checked.out().contains("no damage found"), "{}", checked.out());
    // The server has never seen the text, and the wrong password opens nothing.
    let all = files(&bed.path("srv"));
    assert!(
        all.iter()
            .any(|file| file.starts_with(bed.path("srv/vaults/safe/data")))
    );
    for file in all {
        assert!(!has_marker(&fs::read(&file).unwrap()), "{}", file.display());
    }
    let mut wrong = machine.command(&["snapshots"]);
    wrong.env("ONEFOLD_PASSWORD", "known to nobody");
    ran(wrong).expect(12);
    served.end();
}

#[test]
fn a_machine_that_may_only_write_backs_up_and_does_nothing_else() {
    let served = served();
    let bed = &served.bed;
    let keeper = keeper(&served);
    plant(&bed.path("tree"));
    settle();
    let machine = served.machine("writer", "safe", "write");
    let mut made = Vec::new();
    for _ in 0..3 {
        let ran = ok(&machine, &["backup", "tree", "--json"]);
        assert_eq!(ran.err(), "", "a backup needs no more rights");
        made.push(last(&ran));
        // The session of a reader leaves objects that another machine must not remove.
        ok(&keeper, &["ls", "latest"]);
    }
    assert!(made[0]["data_added"].as_u64().unwrap() > 3 << 20, "{}", made[0]);
    // It finds what is stored, without reading content.
    for later in &made[1..] {
        assert!(later["chunks_new"].as_u64().unwrap() <= 1, "{later}");
        assert!(later["parent"].is_null(), "{later}");
    }
    let id = made[0]["snapshot_id"].to_string();
    for args in [
        &["restore", "latest", "-t", "none"][..],
        &["dump", "latest", "/x"],
        &["check", "--read-data"],
    ] {
        let refused = run(&machine, args);
        assert_ne!(refused.code, Some(0), "{args:?}");
        assert!(
            refused.err().contains("the right to read"),
            "{args:?}: {}",
            refused.err()
        );
    }
    run(&machine, &["forget", &id])
        .expect(1)
        .says(&["needs the right to forget or to hold", "it has: write"]);
    run(&machine, &["prune"])
        .expect(1)
        .says(&["needs the right to maintain"]);
    run(&machine, &["key", "add", "--new-insecure-no-password"])
        .expect(1)
        .says(&["needs the right to maintain"]);
    // All that it stored is whole, and the keeper may prune beside it.
    let listed = ok(&keeper, &["snapshots", "--json"]);
    assert_eq!(listed.out().lines().count(), 3, "{}", listed.out());
    ok(&keeper, &["restore", &id, "-t", "out"]);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    ok(&keeper, &["forget", &id]);
    ok(&keeper, &["prune"]);
    ok(&machine, &["backup", "tree"]);
    ok(&keeper, &["check", "--read-data"]);
    served.end();
}

/// What an invitation gives by default is enough to back up from the last backup, and to restore.
#[test]
fn a_machine_with_the_usual_rights_uses_the_last_backup() {
    let served = served();
    let bed = &served.bed;
    keeper(&served);
    plant(&bed.path("tree"));
    settle();
    let machine = served.machine("usual", "safe", "write,list,read");
    ok(&machine, &["backup", "tree"]);
    let second = ok(&machine, &["backup", "tree", "--json"]);
    assert_eq!(second.err(), "");
    assert_eq!(last(&second)["bytes_read"], 0);
    let restored = ok(&machine, &["restore", "latest", "-t", "out"]);
    assert!(!restored.err().contains("warning"), "{}", restored.err());
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    // Many sessions of readers and writers later, nothing warns.
    for round in 0..12 {
        fs::write(bed.path("tree/changing"), noise(10_000, round)).unwrap();
        let made = ok(&machine, &["backup", "tree"]);
        assert!(!made.err().contains("warning"), "{}", made.err());
        ok(
            &machine,
            &["dump", "latest", bed.path("tree/changing").to_str().unwrap()],
        );
    }
    served.end();
}

#[test]
fn a_server_that_dies_loses_nothing_of_a_vault() {
    let mut served = served();
    let bytes = noise(24 << 20, 5);
    fs::write(served.bed.path("file"), &bytes).unwrap();
    settle();
    let (folder, repository) = {
        let machine = keeper(&served);
        (machine.folder.clone(), machine.repository.clone())
    };
    let child = {
        let machine = Machine {
            served: &served,
            folder: folder.clone(),
            repository: repository.clone(),
        };
        command(&machine, &["backup", "file"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    };
    let data = served.bed.path("srv/vaults/safe/data");
    wait_until(|| files(&data).len() > 6);
    served.kill();
    served.restart();
    let cut = Ran::from(child.wait_with_output().unwrap());
    let machine = Machine {
        served: &served,
        folder,
        repository,
    };
    if cut.code != Some(0) {
        assert!(cut.err().contains("was started again"), "{}", cut.err());
    }
    ok(&machine, &["backup", "file"]);
    let path = served.bed.path("file");
    let dumped = ok(&machine, &["dump", "latest", path.to_str().unwrap()]);
    assert!(dumped.out == bytes);
    ok(&machine, &["check", "--read-data"]);
    served.end();
}

#[test]
fn vaults_are_listed_and_other_namespaces_take_no_store() {
    let served = served();
    let listed = operator(&served, &["server", "namespace", "list", "srv", "--json"]).expect(0);
    let row = last(&listed);
    assert_eq!(
        (&row["namespace"], &row["vault"]),
        (&"safe".into(), &true.into()),
        "{row}"
    );
    assert!(row["tenant"].is_null(), "{row}");
    let listed = operator(&served, &["server", "namespace", "list", "srv"]).expect(0);
    assert!(listed.out().contains("(vault)"), "{}", listed.out());
    operator(
        &served,
        &["server", "namespace", "set", "srv", "safe", "--quota", "1G"],
    )
    .expect(1)
    .says(&["is a vault"]);
    operator(&served, &["server", "namespace", "add", "srv", "safe"])
        .expect(1)
        .says(&["is a vault"]);
    let invite = [
        "server",
        "invite",
        "srv",
        "--namespace",
        "web",
        "--rights",
        "maintain",
    ];
    operator(&served, &invite).expect(1).says(&["is for vaults"]);
    let machine = served.machine("one", "web", "write,list,read");
    run(&machine, &["init"])
        .expect(1)
        .says(&["only a vault takes another one"]);
    run(&machine, &["prune"])
        .expect(1)
        .says(&["run it on the server"]);
    run(&machine, &["snapshots", "--insecure-no-password"])
        .expect(2)
        .says(&["on a server"]);
    let machine = served.machine("two", "safe", "write,list,read");
    run(&machine, &["init"])
        .expect(1)
        .says(&["the right to maintain"]);
    run(&machine, &["snapshots"]).expect(10);
    let keeper = keeper(&served);
    run(&keeper, &["init"]).expect(1).says(&["already"]);
    run(&keeper, &["init", "--group-access"])
        .expect(1)
        .says(&["for a folder"]);
}

/// A client of the socket needs no token.
#[test]
fn a_vault_is_used_through_a_socket() {
    let bed = Bed::bare();
    for args in [
        &["--insecure-no-password", "server", "init", "srv"][..],
        &["server", "namespace", "add", "srv", "safe", "--vault"],
    ] {
        let mut command = bed.plain();
        command.env_remove("ONEFOLD_REPOSITORY").args(args);
        ran(command).expect(0);
    }
    let (mut child, _) = start_with(&bed, "127.0.0.1:0", &["--socket", "socket"]);
    plant(&bed.path("tree"));
    settle();
    let run = |args: &[&str]| {
        let mut command = bed.plain();
        let repository = format!("unix://{}/safe", bed.path("socket").display());
        command
            .env("ONEFOLD_REPOSITORY", repository)
            .env("ONEFOLD_PASSWORD", "known to machines alone")
            .args(args);
        ran(command)
    };
    for args in [
        &["init"][..],
        &["backup", "tree"],
        &["backup", "tree"],
        &["restore", "latest", "-t", "out"],
        &["forget", "--keep-last", "1", "--prune"],
        &["check", "--read-data"],
    ] {
        run(args).expect(0);
    }
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    child.kill().unwrap();
    child.wait().unwrap();
}
