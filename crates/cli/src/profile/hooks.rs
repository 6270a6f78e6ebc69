//! Hooks: commands of the shell around backups.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow};
use serde::Deserialize;

use super::{Profile, VARIABLE};

/// When a command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the backup. If the command fails, there is no backup.
    Before,
    /// After a backup that was made, even if it could not read everything.
    After,
    /// After a backup that was not made, or a command of `before` or `after` that failed.
    Failed,
    /// At the very end in any case, for example to remove a snapshot.
    Finally,
}

impl Moment {
    const fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
            Self::Failed => "failed",
            Self::Finally => "finally",
        }
    }
}

/// The commands of a profile, or of one of its backups.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Hooks {
    before: Commands,
    after: Commands,
    failed: Commands,
    finally: Commands,
}

/// One command, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Commands {
    One(String),
    Several(Vec<String>),
}

impl Default for Commands {
    fn default() -> Self {
        Self::Several(Vec::new())
    }
}

impl Hooks {
    /// Runs the commands of this moment, one after another. If one fails, those behind it run only
    /// if they tell of a failure or clean up (`failed`, `finally`). They see the profile's
    /// name as `ONEFOLD_PROFILE`, that of the backup as `ONEFOLD_BACKUP`, and, unless they run
    /// before it, the exit code so far as `ONEFOLD_EXIT_CODE`. Their output becomes standard error:
    /// standard output belongs to JSON lines.
    ///
    /// # Errors
    /// A command that the shell cannot run, or that fails.
    pub(crate) fn run(
        &self,
        moment: Moment,
        profile: &Profile,
        backup: Option<&str>,
        code: Option<u8>,
    ) -> Result<()> {
        let commands = match moment {
            Moment::Before => &self.before,
            Moment::After => &self.after,
            Moment::Failed => &self.failed,
            Moment::Finally => &self.finally,
        };
        let commands = match commands {
            Commands::One(one) => std::slice::from_ref(one),
            Commands::Several(several) => several,
        };
        let mut first = Ok(());
        for (at, command) in (1..).zip(commands) {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", command])
                .stdin(Stdio::null())
                .stdout(std::io::stderr());
            shell.env(VARIABLE, &profile.name);
            if let Some(backup) = backup {
                shell.env("ONEFOLD_BACKUP", backup);
            }
            if let Some(code) = code {
                shell.env("ONEFOLD_EXIT_CODE", code.to_string());
            }
            // Its text may have secrets.
            let what = || {
                let (name, profile) = (moment.name(), &profile.name);
                match commands {
                    [_] => format!("the hook `{name}` of profile {profile}"),
                    _ => format!("command {at} of the hook `{name}` of profile {profile}"),
                }
            };
            let ran = match shell.status().with_context(what) {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(anyhow!("{} failed ({status})", what())),
                Err(error) => Err(error),
            };
            if ran.is_err() && matches!(moment, Moment::Before | Moment::After) {
                return ran;
            }
            first = first.and(ran);
        }
        first
    }
}
