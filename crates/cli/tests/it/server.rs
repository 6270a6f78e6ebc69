//! A server and its clients: real processes, real TLS over loopback.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::bed::{Bed, Ran, feed, last, noise, settle, signal, wait_until};
use crate::main_job::plant;
use crate::picture::{assert_same, picture};
use crate::served::{Machine, Served, files_below, ran};

/// A backup added nothing. Other tests change the folder of temporary files, so one chunk of the
/// listing may be new.
fn assert_known(summary: &serde_json::Value) {
    assert!(summary["chunks_new"].as_u64().unwrap() <= 1, "{summary}");
}

#[test]
fn a_tree_is_backed_up_to_a_server_and_restored() {
    let served = Served::new();
    let bed = &served.bed;
    plant(&bed.path("tree"));
    settle();
    let machine = served.machine("one", "web", "write,list,read");
    let first = last(&machine.ok(&["backup", "tree", "--json"]));
    assert!(first["data_added"].as_u64().unwrap() > 3 << 20, "{first}");
    let second = last(&machine.ok(&["backup", "tree", "--json"]));
    assert_eq!(second["parent"], first["snapshot_id"], "{second}");
    assert_eq!(second["bytes_read"], 0, "{second}");
    assert_known(&second);
    let ids = machine.backups();
    assert_eq!(ids.len(), 2);
    let listed = machine.ok(&["ls", "latest"]).out();
    assert!(listed.contains("tree/folder/large"), "{listed}");
    machine.ok(&["restore", "latest", "-t", "out"]);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    let large = bed.path("tree/folder/large");
    let dumped = machine.ok(&["dump", "latest", large.to_str().unwrap()]);
    assert!(dumped.out == fs::read(&large).unwrap());
    // A second machine with the same data stores nothing of it.
    let other = served.machine("two", "mail", "write,list,read");
    let same = last(&other.ok(&["backup", "tree", "--json"]));
    assert!(same["data_added"].as_u64().unwrap() < 100_000, "{same}");
    served.end();
}

/// An unchanged backup reads no listing over the network, if this machine has kept it whole.
#[test]
fn a_machine_keeps_the_listing_of_its_last_backup() {
    let served = Served::new();
    let bed = &served.bed;
    fs::create_dir(bed.path("tree")).unwrap();
    for number in 0..3000 {
        // Names that do not compress well.
        let bytes = noise(60, number);
        let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        fs::write(bed.path(format!("tree/{name}")), b"x").unwrap();
    }
    settle();
    let machine = served.machine("one", "web", "write,list,read");
    let back_up = || last(&machine.ok(&["backup", "tree", "--json"]));
    let received = |made: &serde_json::Value| {
        assert_eq!(made["bytes_read"], 0, "{made}");
        made["bytes_received"].as_u64().unwrap()
    };
    back_up();
    let kept = received(&back_up());
    fs::remove_dir_all(bed.path("cache")).unwrap();
    let without = received(&back_up());
    assert!(kept + 50_000 < without, "{kept} and {without}");
    assert!(received(&back_up()) < kept + 40_000);
    let mut pieces = Vec::new();
    let mut folders = vec![bed.path("cache/listings")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() == "0" {
                pieces.push(entry.path());
            }
        }
    }
    assert_eq!(pieces.len(), 1, "{pieces:?}");
    fs::write(&pieces[0], b"damaged").unwrap();
    assert!(received(&back_up()) > kept + 50_000);
    machine.ok(&["restore", "latest", "-t", "out"]);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    served.end();
}

#[test]
fn streams_and_images_are_backed_up_to_a_server() {
    let served = Served::new();
    let machine = served.machine("one", "web", "write,list,read");
    let mut bytes = noise(6 << 20, 3);
    let stream =
        |bytes: &[u8]| last(&feed(machine.command(&["backup", "--stdin", "--json"]), bytes).expect(0));
    stream(&bytes);
    bytes.extend_from_slice(&noise(100_000, 4));
    let again = stream(&bytes);
    assert!(again["data_added"].as_u64().unwrap() < 300_000, "{again}");
    assert!(machine.ok(&["dump", "latest"]).out == bytes);
    fs::write(served.bed.path("disk"), &bytes).unwrap();
    machine.ok(&["backup", "--image-kib", "64", "disk"]);
    assert!(machine.ok(&["dump", "latest"]).out == bytes);
    served.end();
}

#[test]
fn a_write_only_machine_reads_nothing() {
    let served = Served::new();
    let bed = &served.bed;
    plant(&bed.path("tree"));
    settle();
    let machine = served.machine("one", "web", "write");
    machine.ok(&["backup", "tree"]);
    let second = last(&machine.ok(&["backup", "tree", "--json"]));
    assert_known(&second);
    for args in [
        &["snapshots"][..],
        &["ls", "1"],
        &["restore", "1", "-t", "out"],
        &["dump", "1", "/x"],
    ] {
        machine
            .run(args)
            .expect(1)
            .says(&["has no right to list; it has: write"]);
    }
    // Another machine of the namespace may read what it wrote.
    let reader = served.machine("two", "web", "list,read");
    reader.ok(&["restore", "latest", "-t", "out"]);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    reader
        .run(&["backup", "tree"])
        .expect(1)
        .says(&["has no right to write; it has: list,read"]);
    served.end();
}

#[test]
fn namespaces_do_not_see_each_other() {
    let served = Served::new();
    fs::write(served.bed.path("file"), noise(50_000, 1)).unwrap();
    let one = served.machine("one", "web", "write,list,read");
    let other = served.machine("two", "mail", "write,list,read");
    one.ok(&["backup", "file"]);
    assert_eq!(other.backups(), Vec::<u64>::new());
    other
        .run(&["restore", "1", "-t", "out"])
        .expect(1)
        .says(&["there is no backup 1"]);
    // A namespace whose name begins with another's is another one.
    let longer = served.machine("three", "webs", "list,read");
    assert_eq!(longer.backups(), Vec::<u64>::new());
    // A token is for one namespace.
    let mut stranger = one.command(&["snapshots"]);
    stranger.env("ONEFOLD_REPOSITORY", format!("onefold://{}/mail", served.place));
    ran(stranger).expect(1).says(&["has not joined", "onefold join"]);
}

#[test]
fn invitations_work_once_and_tokens_until_they_are_revoked() {
    let served = Served::new();
    let invitation = served.invitation("web", "write,list");
    let machine = Machine {
        served: &served,
        folder: served.bed.path("conf"),
        repository: format!("onefold://{}/web", served.place),
    };
    machine.run(&["snapshots"]).expect(1).says(&["has not joined"]);
    let wrong = [&invitation[..invitation.len() - 1], "_"].concat();
    machine
        .run(&["join", &wrong])
        .expect(1)
        .says(&["unknown, used, or too old"]);
    machine.ok(&["join", &invitation]);
    machine
        .run(&["join", &invitation])
        .expect(1)
        .says(&["unknown, used, or too old"]);
    assert!(machine.backups().is_empty());
    let list = served.operator(&["server", "token", "list", "srv", "--json"]);
    let token = last(&list.expect(0));
    assert_eq!(token["rights"], "write,list", "{token}");
    let id = token["id"].as_str().unwrap();
    served
        .operator(&["server", "token", "revoke", "srv", id])
        .expect(0);
    machine.run(&["snapshots"]).expect(1).says(&["join again"]);
}

#[test]
fn another_server_at_the_same_place_is_not_trusted() {
    let mut served = Served::new();
    served.machine("one", "web", "write,list,read");
    let repository = format!("onefold://{}/web", served.place);
    served.kill();
    fs::rename(served.bed.path("srv"), served.bed.path("old")).unwrap();
    let mut init = served.bed.command(["server", "init", "srv"]);
    init.env_remove("ONEFOLD_REPOSITORY");
    ran(init).expect(0);
    served.restart();
    let mut command = served.bed.plain();
    command
        .env("ONEFOLD_REPOSITORY", repository)
        .env("ONEFOLD_CONFIG_DIR", served.bed.path("conf-one"))
        .arg("snapshots");
    ran(command).expect(1).says(&["not the expected one"]);
}

/// The backup fails. What was committed is whole, and the next backup is made.
/// The client keeps what is not durable, and the backup of a pipe goes on (B6).
#[test]
fn a_backup_of_standard_input_outlives_a_killed_server() {
    let mut served = Served::new();
    let bytes = noise(150 << 20, 20);
    let (folder, repository) = {
        let machine = served.machine("one", "web", "write,list,read");
        feed(machine.command(&["backup", "--stdin"]), &bytes[..1 << 20]).expect(0);
        (machine.folder.clone(), machine.repository.clone())
    };
    let mut command = served.bed.plain();
    command
        .env("ONEFOLD_REPOSITORY", &repository)
        .env("ONEFOLD_CONFIG_DIR", &folder)
        .args(["backup", "--stdin", "--json"])
        .stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // Twice: before the first durable position, and after it.
    for (from, to) in [(0, 40), (40, 130)] {
        input.write_all(&bytes[from << 20..to << 20]).unwrap();
        wait_until(|| stored_bytes(&served.bed) > 16 << 20);
        wait_until(|| from == 0 || has_checkpoint(&served.bed));
        served.kill();
        served.restart();
    }
    input.write_all(&bytes[130 << 20..]).unwrap();
    drop(input);
    let made = Ran::from(child.wait_with_output().unwrap()).expect(0);
    assert!(
        made.err().contains("went on over another connection"),
        "{}",
        made.err()
    );
    let summary = last(&made);
    assert!(
        summary["resumed_at"].as_u64().is_some_and(|at| at >= 32 << 20),
        "{summary}"
    );
    let machine = Machine {
        served: &served,
        folder,
        repository,
    };
    assert_eq!(machine.backups().len(), 2);
    assert!(machine.ok(&["dump", "latest"]).out == bytes);
    served.end();
}

#[test]
fn a_restore_outlives_a_killed_server() {
    let mut served = Served::new();
    let bytes = noise(60 << 20, 22);
    let mut command = {
        let machine = served.machine("one", "web", "write,list,read");
        feed(machine.command(&["backup", "--stdin"]), &bytes).expect(0);
        machine.command(&["dump", "latest"])
    };
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut got = vec![0; 1 << 20];
    out.read_exact(&mut got).unwrap();
    served.kill();
    served.restart();
    out.read_to_end(&mut got).unwrap();
    let ended = Ran::from(child.wait_with_output().unwrap()).expect(0);
    assert!(got == bytes);
    assert!(
        ended.err().contains("went on over another connection"),
        "{}",
        ended.err()
    );
    served.end();
}

/// The client waits for the server, and the backup goes on.
#[test]
fn a_backup_of_files_outlives_a_killed_server() {
    let mut served = Served::new();
    fs::create_dir(served.bed.path("tree")).unwrap();
    for number in 0..64 {
        let file = served.bed.path(format!("tree/{number}"));
        fs::write(file, noise(2 << 20, number)).unwrap();
    }
    settle();
    let (folder, repository) = {
        let machine = served.machine("one", "web", "write,list,read");
        (machine.folder.clone(), machine.repository.clone())
    };
    let mut command = served.bed.plain();
    command
        .env("ONEFOLD_REPOSITORY", &repository)
        .env("ONEFOLD_CONFIG_DIR", &folder)
        .args(["backup", "tree", "--json"]);
    let child = command.spawn().unwrap();
    wait_until(|| stored_bytes(&served.bed) > 16 << 20);
    served.kill();
    served.restart();
    let made = Ran::from(child.wait_with_output().unwrap()).expect(0);
    assert!(
        made.err().contains("went on over another connection"),
        "{}",
        made.err()
    );
    let machine = Machine {
        served: &served,
        folder,
        repository,
    };
    assert_eq!(machine.backups().len(), 1);
    machine.ok(&["restore", "latest", "-t", "out"]);
    assert_same(
        &picture(&served.bed.path("tree")),
        &picture(&served.bed.restored("out", "tree")),
    );
    served.end();
}

/// Bytes of the containers with data.
fn stored_bytes(bed: &Bed) -> u64 {
    let len = |path: &PathBuf| path.metadata().map_or(0, |meta| meta.len());
    files_below(bed, "data").iter().map(len).sum()
}

/// Whether a running backup has written a checkpoint.
fn has_checkpoint(bed: &Bed) -> bool {
    let is_checkpoint = |path: &PathBuf| path.to_string_lossy().contains("/checkpoint.");
    files_below(bed, "sessions").iter().any(is_checkpoint)
}

#[test]
fn a_client_that_dies_loses_nothing() {
    let served = Served::new();
    let machine = served.machine("one", "web", "write,list,read");
    let bytes = noise(20 << 20, 21);
    let mut command = machine.command(&["backup", "--stdin"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(&bytes[..16 << 20]).unwrap();
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(machine.backups().is_empty());
    feed(machine.command(&["backup", "--stdin"]), &bytes).expect(0);
    assert!(machine.ok(&["dump", "latest"]).out == bytes);
    served.end();
}

#[test]
fn verbs_and_options_of_folders_are_refused_for_a_store_on_a_server() {
    let served = Served::new();
    let machine = served.machine("one", "web", "write,list,read");
    machine.run(&["prune"]).expect(1).says(&["is on a server"]);
    machine.run(&["init"]).expect(1).says(&["is on a server"]);
    machine
        .run(&["backup", "--cap", "4", "srv"])
        .expect(2)
        .says(&["--cap concerns a store that this command opens"]);
    machine
        .run(&["--insecure-no-password", "snapshots"])
        .expect(2)
        .says(&["--insecure-no-password", "on a server"]);
    let mut unknown = machine.command(&["snapshots"]);
    unknown.env("ONEFOLD_REPOSITORY", "onefold://nowhere");
    ran(unknown).expect(1).says(&["the namespace is missing"]);
}

/// The README's lines about a server work as they are printed there, besides names and numbers.
#[test]
fn the_readme_is_right_about_the_server() {
    let readme = include_str!("../../../../README.md");
    let bed = Bed::bare();
    fs::create_dir(bed.path("home")).unwrap();
    fs::write(bed.path("home/file"), b"a letter").unwrap();
    let folder = bed.path("srv").display().to_string();
    let (mut place, mut invitation) = (String::new(), String::new());
    let mut serving = None;
    let block = readme.split("Many machines back up").nth(1).unwrap();
    let block = block.split("Disks of virtual machines").next().unwrap();
    let mut printed = String::new();
    let mut done = 0;
    for line in block.lines().filter_map(|line| line.strip_prefix("    ")) {
        let Some(words) = line.strip_prefix("$ onefold ") else {
            let expected = line
                .replace("/srv/onefold", &folder)
                .replace("0.0.0.0:8440", &place)
                .replace("backup.example.org:8440", &place);
            // `...` is output that the README leaves out.
            for part in expected.split("#c646").next().unwrap().split("...") {
                assert!(printed.contains(part.trim()), "{part:?} in {printed:?}");
            }
            continue;
        };
        let words = words
            .replace("backup.example.org:8440", &place)
            .replace("backup.example.org", &place)
            .replace("/srv/onefold", &folder)
            .replace("~/", "home");
        let mut command = bed.plain();
        command
            .env_remove("ONEFOLD_REPOSITORY")
            .env("ONEFOLD_PASSWORD", "of the server")
            .env("ONEFOLD_CONFIG_DIR", bed.path("conf"));
        if let Some(words) = words.strip_suffix(" &") {
            command.args(words.split(' ')).args(["--listen", "127.0.0.1:0"]);
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            printed.clear();
            let out = child.stdout.take().unwrap();
            std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut printed).unwrap();
            place = printed.trim().strip_prefix("listening on ").unwrap().to_owned();
            serving = Some(child);
        } else {
            let words = words.split(' ').map(|word| match word.strip_prefix('\'') {
                Some(_) => invitation.clone(),
                None => word.to_owned(),
            });
            printed = ran({
                command.args(words);
                command
            })
            .expect(0)
            .out();
            if let Some(made) = printed.split('\'').nth(1) {
                invitation = made.to_owned();
            }
        }
        done += 1;
    }
    assert_eq!(done, 5);
    let mut serving = serving.unwrap();
    signal(&serving, Signal::TERM);
    serving.wait().unwrap();
}

/// The unchanged blocks of an image are neither read nor sent (B3).
#[test]
fn an_image_is_backed_up_by_its_changed_blocks() {
    let served = Served::new();
    let machine = served.machine("one", "web", "write,list,read");
    let mut image = noise(32 << 20, 30);
    fs::write(served.bed.path("disk"), &image).unwrap();
    let list = served.bed.path("changed");
    fs::write(&list, "Offset Length Type\n").unwrap();
    let args = [
        "backup",
        "--image-kib",
        "64",
        "--changed-blocks",
        "changed",
        "disk",
    ];
    let back_up = |more: &[&str]| last(&machine.ok(&[&args[..], &["--json"], more].concat()));
    let first = machine.ok(&args);
    assert!(first.err().contains("the whole image is read"), "{}", first.err());
    for round in 0..2_u8 {
        // Not on the grid of chunks, and one block twice.
        image[5_000_000..5_010_000].fill(round);
        image[20 << 20..21 << 20].copy_from_slice(&noise(1 << 20, 40 + u64::from(round)));
        fs::write(served.bed.path("disk"), &image).unwrap();
        fs::write(
            &list,
            "5000000 10000 1 dirty\n0 65536 0 clean\n20971520 1048576\n20971520 512\n",
        )
        .unwrap();
        let made = back_up(&[]);
        assert!(machine.ok(&["dump", "latest"]).out == image, "round {round}");
        assert!(made["bytes_read"].as_u64().unwrap() < 2 << 20, "{made}");
        assert!(made["bytes_sent"].as_u64().unwrap() < 2 << 20, "{made}");
    }
    let since_first = back_up(&["--changed-since", "1"]);
    assert_eq!(since_first["chunks_new"], 0, "{since_first}");
    assert!(machine.ok(&["dump", "latest"]).out == image);
    fs::write(&list, "").unwrap();
    machine.run(&args).expect(1).says(&["is empty"]);
    fs::write(&list, "from here to there").unwrap();
    machine
        .run(&args)
        .expect(1)
        .says(&["changed", "line 1 is no offset and length"]);
    served.end();
}

/// The service manager starts the server by the unit's command, and hears when it is ready and when
/// it ends.
#[test]
fn the_unit_of_the_server_starts_one_that_says_when_it_is_ready() {
    let mut bed = Bed::bare();
    let mut init = bed.command(["server", "init", "srv"]);
    init.env_remove("ONEFOLD_REPOSITORY");
    ran(init).expect(0);
    let unit = include_str!("../../../../dist/onefold-serve@.service");
    assert!(unit.contains("\nType=notify\n"));
    let command = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=onefold "));
    let words = command.unwrap().split(' ').flat_map(|word| match word {
        "${FOLDER}" => vec!["srv"],
        "$OPTIONS" => vec!["--listen", "127.0.0.1:0", "--patience", "1"],
        word => vec![word],
    });
    let manager = UnixDatagram::bind(bed.path("manager")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let path = bed.path("manager").display().to_string();
    bed.set("NOTIFY_SOCKET", &path);
    let mut serve = bed.command(words);
    let mut child = serve.env_remove("ONEFOLD_REPOSITORY").spawn().unwrap();
    let heard = || {
        let mut bytes = [0; 100];
        let len = manager.recv(&mut bytes);
        len.map(|len| String::from_utf8_lossy(&bytes[..len]).into_owned())
    };
    let ready = heard();
    signal(&child, Signal::TERM);
    let stopping = heard();
    let ended = child.wait().unwrap();
    assert_eq!(
        (ready.unwrap(), stopping.unwrap()),
        ("READY=1".to_owned(), "STOPPING=1".to_owned())
    );
    assert!(ended.success());
}
