//! A temporary folder with a store in it, and the binary run there.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// No single step of a test takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Bed {
    folder: TempDir,
}

/// How a run ended, and what it said.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

impl Ran {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.out).into_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.err).into_owned()
    }

    /// Fails unless the run ended with this code; shows what it said.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout:\n{}\nstderr:\n{}",
            self.out(),
            self.err()
        );
        self
    }

    /// Fails unless standard error has all of these words.
    #[track_caller]
    pub(crate) fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err().contains(word), "not {word:?} in:\n{}", self.err());
        }
        self
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: output.stdout,
            err: output.stderr,
        }
    }
}

impl Bed {
    /// A folder without a store.
    pub(crate) fn bare() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    /// A folder with a store that needs no password; small containers, so that little data fills several.
    pub(crate) fn new() -> Self {
        let bed = Self::bare();
        bed.run(["init", "--container-mib", "1", "--reserve-mib", "0"])
            .expect(0);
        bed
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("store")
    }

    /// Where `path` comes to lie when it is restored to `target`.
    pub(crate) fn restored(&self, target: &str, path: impl AsRef<Path>) -> PathBuf {
        let path = self.path(path);
        self.path(target).join(path.strip_prefix("/").unwrap())
    }

    /// The binary, in the bed's folder, with the bed's store and nothing of the caller's environment that
    /// concerns it.
    pub(crate) fn plain(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onefold"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ONEFOLD_") {
                command.env_remove(name);
            }
        }
        command
            .env("ONEFOLD_REPOSITORY", self.store())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// As [`Self::plain`], with these arguments; without a password where a store is opened.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.plain();
        let mut args = args.into_iter().peekable();
        let opens_none = |first: &S| ["analyze", "lab"].contains(&first.as_ref().to_str().unwrap_or(""));
        if !args.peek().is_some_and(opens_none) {
            command.arg("--insecure-no-password");
        }
        command.args(args);
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        self.command(args).output().unwrap().into()
    }

    pub(crate) fn ok<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Ran {
        self.run(args).expect(0)
    }

    /// Runs with these bytes as standard input.
    pub(crate) fn fed<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>, bytes: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        match child.stdin.take().unwrap().write_all(bytes) {
            // It may end without having read all, or anything.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written.unwrap(),
        }
        child.wait_with_output().unwrap().into()
    }

    /// The ids of the backups, oldest first.
    pub(crate) fn backups(&self) -> Vec<u64> {
        let ran = self.ok(["snapshots", "--json"]);
        lines(&ran.out)
            .iter()
            .map(|line| line["id"].as_u64().unwrap())
            .collect()
    }

    /// Fails unless `check --read-data` finds nothing wrong.
    #[track_caller]
    pub(crate) fn assert_sound(&self) {
        let ran = self.run(["check", "--read-data"]).expect(0);
        assert!(ran.out().contains("no damage found"), "{}", ran.out());
    }

    /// Files below a folder of the store.
    pub(crate) fn objects(&self, folder: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.store().join(folder)];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push(path);
                }
            }
        }
        found
    }

    /// Waits until the store has an object in `folder` whose name has `word` in it.
    pub(crate) fn wait_for(&self, folder: &str, word: &str) {
        let named = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().contains(word);
        wait_until(|| self.objects(folder).iter().any(named));
    }
}

#[track_caller]
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until what was written is older than the clock's last tick: a backup reads what is not again.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(50));
}

/// Sends a signal.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
}

/// Standard output as JSON lines. Anything else in it fails.
#[track_caller]
pub(crate) fn lines(out: &[u8]) -> Vec<serde_json::Value> {
    let text = std::str::from_utf8(out).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text}");
    let parse = |line: &str| match serde_json::from_str::<serde_json::Value>(line) {
        Ok(value) if value["message_type"].is_string() => value,
        other => panic!("not a JSON line: {line:?}: {other:?}"),
    };
    text.lines().map(parse).collect()
}

/// The last JSON line: the summary.
#[track_caller]
pub(crate) fn last(ran: &Ran) -> serde_json::Value {
    lines(&ran.out).pop().unwrap()
}

/// Bytes that neither compress nor repeat; the same for the same seed.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
