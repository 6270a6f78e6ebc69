//! Namespaces behind `ssh` and behind a socket of the server's own machine.

use std::fs;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::bed::{Bed, last, noise};
use crate::main_job::plant;
use crate::picture::{assert_same, picture};
use crate::served::{Served, listening, ran, start_with};

/// A server's folder, and a program in place of `ssh`: it runs its last argument here.
fn bed() -> Bed {
    let bed = Bed::bare();
    let mut init = bed.command(["server", "init", "srv"]);
    init.env_remove("ONEFOLD_REPOSITORY");
    ran(init).expect(0);
    let mut add = bed.plain();
    add.env_remove("ONEFOLD_REPOSITORY")
        .args(["server", "namespace", "add", "srv", "web"]);
    ran(add).expect(0);
    let program = env!("CARGO_BIN_EXE_onefold");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >> {log}\nfor last; do :; done\nonefold() {{ exec {program} \"$@\"; }}\n\
         unset ONEFOLD_REPOSITORY\neval \"$last --insecure-no-password $EXTRA\"\n",
        log = bed.path("log").display()
    );
    fs::write(bed.path("ssh"), script).unwrap();
    fs::set_permissions(bed.path("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
    bed
}

fn over_ssh(bed: &Bed, args: &[&str]) -> Command {
    let mut command = bed.plain();
    let repository = format!("ssh://me@far:23{}/web", bed.path("srv").display());
    command
        .env("ONEFOLD_REPOSITORY", repository)
        .env("ONEFOLD_SSH", bed.path("ssh"))
        .args(args);
    command
}

#[test]
fn a_tree_is_backed_up_over_ssh() {
    let bed = bed();
    plant(&bed.path("tree"));
    let made = last(&ran(over_ssh(&bed, &["backup", "tree", "--json"])).expect(0));
    assert!(made["bytes_sent"].as_u64().unwrap() > 3 << 20, "{made}");
    ran(over_ssh(&bed, &["check", "--read-data"])).expect(0);
    ran(over_ssh(&bed, &["restore", "latest", "-t", "out"])).expect(0);
    assert_same(
        &picture(&bed.path("tree")),
        &picture(&bed.restored("out", "tree")),
    );
    ran(over_ssh(&bed, &["forget", "1"])).expect(0);
    let log = fs::read_to_string(bed.path("log")).unwrap();
    let first = log.lines().next().unwrap();
    assert!(first.starts_with("-p 23 -- me@far onefold serve "), "{first}");
    assert!(first.ends_with(" --stdio --namespace web"), "{first}");
}

/// The keys of the host's user may force these options.
#[test]
fn what_the_host_grants_counts() {
    let bed = bed();
    fs::write(bed.path("file"), noise(5_000, 1)).unwrap();
    let mut limited = over_ssh(&bed, &["backup", "file"]);
    limited.env("EXTRA", "--rights write");
    ran(limited).expect(0);
    let mut limited = over_ssh(&bed, &["snapshots"]);
    limited.env("EXTRA", "--rights write");
    ran(limited).expect(1).says(&["has no right to list"]);
}

/// A tenant's store that is gone is nothing to a client of another one.
#[test]
fn a_client_over_ssh_opens_the_store_of_its_namespace_alone() {
    let bed = bed();
    let mut add = bed.plain();
    add.env_remove("ONEFOLD_REPOSITORY").args([
        "--insecure-no-password",
        "server",
        "tenant",
        "add",
        "srv",
        "other",
    ]);
    ran(add).expect(0);
    fs::remove_dir_all(bed.path("srv/stores/other")).unwrap();
    ran(over_ssh(&bed, &["snapshots"])).expect(0);
}

#[test]
fn an_ssh_that_fails_is_told() {
    let bed = bed();
    let mut command = over_ssh(&bed, &["snapshots"]);
    command.env("ONEFOLD_SSH", "false");
    ran(command).expect(1).says(&["connection"]);
    let mut command = over_ssh(&bed, &["snapshots"]);
    command.env("ONEFOLD_SSH", bed.path("nothing"));
    ran(command).expect(1).says(&["ssh://me@far:23/"]);
}

#[test]
fn a_socket_serves_the_users_of_its_machine() {
    let mut served = Served::new();
    served.kill();
    let socket = served.bed.path("sock");
    // A file that is no socket is not the server's to replace.
    fs::write(&socket, b"data").unwrap();
    let place = ["--listen", "127.0.0.1:0", "--socket", "sock"];
    let mut command = served.bed.command(["serve", "srv"]);
    command.env_remove("ONEFOLD_REPOSITORY").args(place);
    ran(command).expect(1).says(&["sock", "not a socket"]);
    assert_eq!(fs::read(&socket).unwrap(), b"data");
    fs::remove_file(&socket).unwrap();
    let (child, _) = start_with(&served.bed, "127.0.0.1:0", &["--socket", "sock"]);
    served.child = child;
    let mut add = served.bed.plain();
    add.env_remove("ONEFOLD_REPOSITORY")
        .args(["server", "namespace", "add", "srv", "web"]);
    ran(add).expect(0);
    let on_socket = |args: &[&str]| {
        let mut command = served.bed.plain();
        let repository = format!("unix://{}/web", socket.display());
        command.env("ONEFOLD_REPOSITORY", repository).args(args);
        ran(command)
    };
    fs::write(served.bed.path("file"), noise(5_000, 1)).unwrap();
    on_socket(&["backup", "file"]).expect(0);
    on_socket(&["restore", "latest", "-t", "out"]).expect(0);
    assert!(fs::read(served.bed.restored("out", "file")).unwrap() == noise(5_000, 1));
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    served.end();
    assert!(!socket.exists());
}

/// The command, in a process with these limits of descriptors: the soft one, and the hard one.
fn with_descriptors(command: &Command, soft: u32, hard: u32) -> Command {
    let mut shell = Command::new("sh");
    let limits = format!("ulimit -S -n {soft} && ulimit -H -n {hard} && exec \"$0\" \"$@\"");
    shell.arg("-c").arg(limits).arg(command.get_program());
    shell.args(command.get_args()).stdin(Stdio::null());
    shell.stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.current_dir(command.get_current_dir().unwrap());
    shell
}

/// A process may have few descriptors. The server takes all that it may have, and strangers leave
/// half of them to the stores. One address has half of the places for connections.
#[test]
fn strangers_leave_descriptors_to_the_stores() {
    let mut served = Served::new();
    served.kill();
    let bed = &served.bed;
    let mut add = bed.plain();
    add.env_remove("ONEFOLD_REPOSITORY")
        .args(["server", "namespace", "add", "srv", "web"]);
    ran(add).expect(0);
    let place = ["--listen", "127.0.0.1:0", "--socket", "sock", "--json"];
    let mut serve = bed.command(["serve", "srv"]);
    serve.env_remove("ONEFOLD_REPOSITORY").args(place);
    let child = with_descriptors(&serve, 64, 256).spawn().unwrap();
    let (child, place) = listening(child);
    served.child = child;
    let connect = || TcpStream::connect(&place).unwrap();
    let mut strangers: Vec<TcpStream> = (0..64).map(|_| connect()).collect();
    let mut refused = connect();
    refused.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert_eq!(refused.read(&mut [0]).unwrap(), 0, "the server has closed it");
    for stranger in &mut strangers {
        stranger.set_nonblocking(true).unwrap();
        let waits = stranger.read(&mut [0]).unwrap_err();
        assert_eq!(waits.kind(), ErrorKind::WouldBlock);
    }
    fs::write(served.bed.path("file"), noise(5_000_000, 1)).unwrap();
    let mut backup = served.bed.plain();
    let repository = format!("unix://{}/web", served.bed.path("sock").display());
    backup
        .env("ONEFOLD_REPOSITORY", repository)
        .args(["backup", "file"]);
    ran(backup).expect(0);
    drop(strangers);
    served.end();
}

#[test]
fn a_tunnel_without_a_folder_is_told() {
    let bed = Bed::bare();
    let mut command = bed.plain();
    command
        .env("ONEFOLD_REPOSITORY", "ssh://me@nas/backup")
        .arg("snapshots");
    ran(command)
        .expect(1)
        .says(&["the server's folder is missing", "ssh://HOST/FOLDER/NAMESPACE"]);
}
