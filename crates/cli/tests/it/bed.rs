//! A temporary folder with a store in it, and the binary run there.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

pub(crate) use crate::ran::{Ran, feed, last, lines, noise, signal, wait_until};

/// A folder whose parents no other test changes meanwhile. A backup of what is in it has the times
/// of the parents too, so two backups of the same are equal there.
pub(crate) struct Apart {
    folder: TempDir,
    /// Dropped after the folder, whose removal changes a time.
    _alone: MutexGuard<'static, ()>,
}

impl Apart {
    /// Waits until no other test has one.
    pub(crate) fn new() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            folder: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            _alone: alone,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

pub(crate) struct Bed {
    folder: TempDir,
    /// Of the environment of every command.
    variables: Vec<(&'static str, String)>,
}

impl Bed {
    /// A folder without a store.
    pub(crate) fn bare() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            variables: Vec::new(),
        }
    }

    /// A folder with a store that needs no password. Its containers are small, so that little data
    /// fills several.
    pub(crate) fn new() -> Self {
        let bed = Self::bare();
        bed.run(["init", "--container-mib", "1", "--reserve-mib", "0"])
            .expect(0);
        bed
    }

    /// Sets a variable for every command from now on.
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.variables.push((name, value.to_owned()));
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path("store")
    }

    /// The path of an entry after a restore to `target`.
    pub(crate) fn restored(&self, target: &str, path: impl AsRef<Path>) -> PathBuf {
        let path = self.path(path);
        self.path(target).join(path.strip_prefix("/").unwrap())
    }

    /// The binary, in the bed's folder, with the bed's store, and without variables of the caller's
    /// environment that affect it.
    pub(crate) fn plain(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_onefold"));
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("ONEFOLD_") || text.starts_with("AWS_") {
                command.env_remove(name);
            }
        }
        command
            .env("ONEFOLD_REPOSITORY", self.store())
            .env("ONEFOLD_CACHE_DIR", self.path("cache"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Like [`Self::plain`], with these arguments, and without a password if a store is opened.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.plain();
        let mut args = args.into_iter().peekable();
        if args.peek().is_none_or(|first| first.as_ref() != "analyze") {
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
        feed(self.command(args), bytes)
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

/// Waits until the written files are older than the clock's last tick. A backup reads newer files
/// again.
pub(crate) fn settle() {
    std::thread::sleep(Duration::from_millis(50));
}
