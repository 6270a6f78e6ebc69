//! A running server, and machines that have joined it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::process::Signal;

use crate::bed::{Bed, Ran, last, lines, signal};

/// A server's folder, and the running server.
pub(crate) struct Served {
    pub(crate) bed: Bed,
    pub(crate) child: Child,
    pub(crate) place: String,
}

pub(crate) fn ran(mut command: Command) -> Ran {
    command.output().unwrap().into()
}

/// The files below a folder of the server's store.
pub(crate) fn files_below(bed: &Bed, folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![bed.path("srv/stores/main").join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files
}

/// Starts a server in the folder `srv`, at this place.
pub(crate) fn start(bed: &Bed, place: &str) -> (Child, String) {
    start_with(bed, place, &[])
}

/// Starts a server with more arguments.
pub(crate) fn start_with(bed: &Bed, place: &str, more: &[&str]) -> (Child, String) {
    let mut command = bed.command(["serve", "srv", "--listen", place, "--json"]);
    command.env_remove("ONEFOLD_REPOSITORY").args(more);
    listening(command.spawn().unwrap())
}

/// A server that was started with `--json`, and the place where it listens.
pub(crate) fn listening(mut child: Child) -> (Child, String) {
    let mut first = String::new();
    let out = child.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut first).unwrap();
    let told = lines(first.as_bytes());
    let place = told[0]["address"].as_str().unwrap().to_owned();
    (child, place)
}

impl Served {
    pub(crate) fn new() -> Self {
        let bed = Bed::bare();
        let mut command = bed.command(["server", "init", "srv"]);
        command.env_remove("ONEFOLD_REPOSITORY");
        ran(command).expect(0);
        let (child, place) = start(&bed, "127.0.0.1:0");
        Self { bed, child, place }
    }

    /// A machine that has joined a namespace.
    pub(crate) fn machine(&self, name: &str, namespace: &str, rights: &str) -> Machine<'_> {
        let invitation = self.invitation(namespace, rights);
        let machine = Machine {
            served: self,
            folder: self.bed.path(format!("conf-{name}")),
            repository: format!("onefold://{}/{namespace}", self.place),
        };
        machine.run(&["join", &invitation]).expect(0);
        machine
    }

    /// A command on the server's own machine.
    pub(crate) fn operator(&self, args: &[&str]) -> Ran {
        let mut command = self.bed.plain();
        command.env_remove("ONEFOLD_REPOSITORY").args(args);
        ran(command)
    }

    pub(crate) fn invitation(&self, namespace: &str, rights: &str) -> String {
        let invite = ["server", "invite", "srv", "--namespace", namespace];
        let more = ["--rights", rights, "--address", &self.place, "--json"];
        let ran = self.operator(&[&invite[..], &more].concat()).expect(0);
        last(&ran)["invitation"].as_str().unwrap().to_owned()
    }

    pub(crate) fn kill(&mut self) {
        signal(&self.child, Signal::KILL);
        self.child.wait().unwrap();
    }

    /// Starts the server again, at the same place.
    pub(crate) fn restart(&mut self) {
        (self.child, self.place) = start(&self.bed, &self.place.clone());
    }

    /// Ends the server, and checks its store.
    pub(crate) fn end(mut self) {
        signal(&self.child, Signal::TERM);
        assert!(self.child.wait().unwrap().success());
        let store = self.bed.path("srv/stores/main");
        let mut command = self.bed.command(["check", "--read-data"]);
        command.env("ONEFOLD_REPOSITORY", store);
        let checked = ran(command).expect(0);
        assert!(checked.out().contains("no damage found"), "{}", checked.out());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A machine that backs up to the server.
pub(crate) struct Machine<'a> {
    pub(crate) served: &'a Served,
    pub(crate) folder: PathBuf,
    pub(crate) repository: String,
}

impl Machine<'_> {
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.served.bed.plain();
        command
            .env("ONEFOLD_REPOSITORY", &self.repository)
            .env("ONEFOLD_CONFIG_DIR", &self.folder)
            .args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args))
    }

    pub(crate) fn ok(&self, args: &[&str]) -> Ran {
        self.run(args).expect(0)
    }

    pub(crate) fn backups(&self) -> Vec<u64> {
        let ran = self.ok(&["snapshots", "--json"]);
        let rows = lines(&ran.out);
        rows.iter().map(|row| row["id"].as_u64().unwrap()).collect()
    }
}
