//! A temporary folder, and runs of the laboratory's binary in it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

pub(crate) use crate::ran::{Ran, feed, last, lines, noise, signal, wait_until};

pub(crate) struct Bed {
    folder: TempDir,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The binary with these arguments, to run in the bed's folder.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onefold-lab"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
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
        feed(self.command(args), bytes)
    }
}
