//! A pool in a temporary folder, the binary run on it, and its server.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::JoinHandle;

use rustix::process::Signal;
use serde_json::Value;
use volume_server::client::{Client, Wish};

use crate::bed::{Bed, Ran, last, lines, signal, wait_until};

pub(crate) const MIB: u64 = 1 << 20;

/// A pool named `pool`.
pub(crate) struct Pooled {
    pub(crate) bed: Bed,
    pub(crate) serving: Option<Serving>,
}

/// A running server.
pub(crate) struct Serving {
    pub(crate) child: Child,
    /// What it printed when it listened.
    pub(crate) told: Vec<Value>,
    /// Reads the rest of its output.
    rest: JoinHandle<String>,
}

impl Pooled {
    /// A new pool of 256 MiB.
    pub(crate) fn new() -> Self {
        let pooled = Self {
            bed: Bed::bare(),
            serving: None,
        };
        pooled.ok(&["pool", "init", "pool", "--size", "256MiB"]);
        pooled
    }

    /// The program with these arguments.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bed.plain();
        command.env_remove("ONEFOLD_REPOSITORY").args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().unwrap().into()
    }

    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str]) -> Ran {
        self.run(args).expect(0)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.bed.path("s")
    }

    /// The URI of a volume.
    pub(crate) fn uri(&self, volume: &str) -> String {
        format!("nbd+unix:///{volume}?socket={}", self.socket().display())
    }

    /// Serves the pool at the Unix socket `s`.
    pub(crate) fn serve(&mut self) {
        self.serve_with(&["--listen", "unix:s"], 1);
    }

    /// Serves the pool at so many places.
    pub(crate) fn serve_with(&mut self, more: &[&str], places: usize) {
        let mut command = self.command(&["volume", "serve", "pool", "--json"]);
        let mut child = command.args(more).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        for _ in 0..places {
            out.read_line(&mut first).unwrap();
        }
        if first.is_empty() {
            let mut why = String::new();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            panic!("the server ended: {why}");
        }
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            out.read_to_string(&mut rest).unwrap();
            rest
        });
        self.serving = Some(Serving {
            child,
            told: lines(first.as_bytes()),
            rest,
        });
    }

    /// Ends the server in order.
    pub(crate) fn end(&mut self) {
        self.end_alone().expect(0);
        assert!(!self.socket().exists() && !self.bed.path("pool.index/control").exists());
    }

    /// Ends the server, whatever it leaves.
    pub(crate) fn end_alone(&mut self) -> Ran {
        let serving = self.serving.take().unwrap();
        signal(&serving.child, Signal::TERM);
        let ran = Ran::from(serving.child.wait_with_output().unwrap());
        serving.rest.join().unwrap();
        ran
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        let mut serving = self.serving.take().unwrap();
        signal(&serving.child, Signal::KILL);
        serving.child.wait().unwrap();
    }

    /// A client that has the volume open.
    pub(crate) fn client(&self, volume: &str) -> Client<UnixStream> {
        let wish = Wish {
            export: volume.to_owned(),
            ..Wish::default()
        };
        Client::open(UnixStream::connect(self.socket()).unwrap(), &wish).unwrap()
    }

    /// The figures of the pool.
    pub(crate) fn stats(&self) -> Value {
        last(&self.ok(&["pool", "stats", "pool", "--json"]))
    }

    /// Waits until the server knows that a client has gone.
    pub(crate) fn wait_for_no_client(&self) {
        let is_open = |volume: &Value| volume["connections"].as_u64().unwrap() > 0;
        wait_until(|| !self.stats()["volumes"].as_array().unwrap().iter().any(is_open));
    }

    /// Fails unless a check of the pool that reads all blocks finds nothing wrong.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        let checked = self.ok(&["pool", "check", "pool", "--read-data"]);
        assert!(checked.out().contains("no damage found"), "{}", checked.out());
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        if let Some(serving) = &mut self.serving {
            // It may have ended.
            drop(serving.child.kill());
            drop(serving.child.wait());
        }
    }
}

/// A number of a JSON line.
#[track_caller]
pub(crate) fn number(line: &Value, field: &str) -> u64 {
    let value = line[field].as_u64();
    value.unwrap_or_else(|| panic!("no number {field} in {line}"))
}
