//! Exit codes, and how a failed command says why.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use onefold::ErrorKind;
use serde::Serialize;

use crate::args::Command;
use crate::output::Output;
use crate::screen::{shown, shown_lines};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// All went well.
    Success,
    /// The command failed, or found damage.
    Failure,
    /// A backup was made, but something could not be read.
    Incomplete,
    /// There is no store.
    NoStore,
    /// Wrong password.
    WrongPassword,
    /// Someone asked to stop.
    Interrupted,
}

impl Code {
    const fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Incomplete => 3,
            Self::NoStore => 10,
            Self::WrongPassword => 12,
            Self::Interrupted => 130,
        }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.number())
    }
}

/// The error and what led to it, each once: many an error's words include those of its source.
fn told(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain() {
        let words = cause.to_string();
        if message.is_empty() {
            message = words;
        } else if !message.contains(&words) {
            message = format!("{message}: {words}");
        }
    }
    message
}

/// The message after an interruption: what was interrupted, and what state that leaves.
fn interrupted(command: &Command, error: &anyhow::Error) -> Option<String> {
    const UNCHANGED: &str = "the store is as it was";
    const PRUNING: &str =
        "nothing that a backup needs is gone, and the next `onefold prune` finishes what was begun";
    let is_pruning = error
        .chain()
        .any(|cause| matches!(cause.downcast_ref(), Some(onefold::Error::Reclaim(_))));
    let (what, left) = match command {
        Command::Backup(_) => (
            "the backup",
            "there is none of it yet; what was stored so far is kept, and the next backup of the same host and paths goes on \
             from there",
        ),
        Command::Restore(_) => (
            "the restore",
            "what it had restored by then is whole, and the rest is missing; run it again to have all",
        ),
        Command::Dump(_) => ("the dump", "its output ends in the middle"),
        Command::Check(_) => (
            "the check",
            "it did not look at everything, and so says nothing of the store; the store is as it was, and may have new lists of damage",
        ),
        Command::Stats(_) => ("the count", UNCHANGED),
        Command::Forget(forget) if forget.dry_run => ("the dry run", UNCHANGED),
        Command::Prune(prune) if prune.dry_run => ("the dry run", UNCHANGED),
        Command::Optimize(optimize) if optimize.dry_run => ("the dry run", UNCHANGED),
        Command::Forget(_) if !is_pruning => (
            "forgetting",
            "some of the backups may be forgotten and the others are not, which `onefold snapshots` shows; run it again for the \
             rest",
        ),
        Command::Forget(_) => ("the prune after forgetting", PRUNING),
        Command::Prune(_) => ("the prune", PRUNING),
        Command::Optimize(_) => (
            "optimize",
            "each backup is as it was or as it was to be, and the next `onefold optimize` or `onefold prune` finishes what was \
             begun",
        ),
        Command::Analyze(_) => ("the analysis", "nothing was written"),
        _ => return None,
    };
    Some(format!("{what} was interrupted: {left}"))
}

/// Prints why a command failed and says with which code to end.
pub(crate) fn report(output: Output, command: &Command, error: &anyhow::Error) -> Code {
    #[derive(Serialize)]
    struct Line<'a> {
        message_type: &'static str,
        code: u8,
        message: &'a str,
    }
    let kind = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<onefold::Error>())
        .map(onefold::Error::kind);
    let is_stopped = |cause: &(dyn std::error::Error + 'static)| {
        matches!(cause.downcast_ref(), Some(lab::LabError::Interrupted))
    };
    let code = match kind {
        _ if error.chain().any(is_stopped) => Code::Interrupted,
        Some(ErrorKind::NoStore) => Code::NoStore,
        Some(ErrorKind::WrongPassword) => Code::WrongPassword,
        Some(ErrorKind::Interrupted) => Code::Interrupted,
        _ => Code::Failure,
    };
    let message = match code {
        Code::Interrupted => interrupted(command, error).unwrap_or_else(|| told(error)),
        _ => told(error),
    };
    let text = if output.json {
        let line = Line {
            message_type: "exit_error",
            code: code.number(),
            message: &message,
        };
        serde_json::to_string(&line).unwrap_or(message)
    } else {
        format!("onefold: {message}")
    };
    // There is nowhere left to report to when even this fails.
    drop(output.error_line(&text));
    code
}

/// Prints clap's message, an error or the requested help, and returns its exit code.
pub(crate) fn not_understood(error: &clap::Error) -> ExitCode {
    let is_typed = |word: std::ffi::OsString| {
        let text = word.to_string_lossy();
        matches!(shown(&text), std::borrow::Cow::Owned(_))
    };
    // A typed word may come from a list of files. So it is escaped like any foreign name, and the
    // message loses its colours.
    if error.use_stderr() && std::io::stderr().is_terminal() && std::env::args_os().any(is_typed) {
        let text = shown_lines(&error.render().to_string());
        drop(std::io::stderr().lock().write_all(text.as_bytes()));
    } else {
        drop(error.print());
    }
    u8::try_from(error.exit_code()).unwrap_or(2).into()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn nothing_is_told_twice() {
        let inner = std::io::Error::other("disk on fire");
        let error = Err::<(), _>(inner)
            .context("reading x: disk on fire")
            .context("a backup")
            .expect_err("it is one");
        assert_eq!(told(&error), "a backup: reading x: disk on fire");
    }
}
