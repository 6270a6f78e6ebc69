//! Exit codes, and the message of a failed command.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use onefold::ErrorKind;
use serde::Serialize;

use crate::TARGET;
use crate::output::Output;
use crate::screen::{shown, shown_json, shown_lines};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The command succeeded.
    Success,
    /// The command failed, or found damage.
    Failure,
    /// A backup was made, but some entries could not be read.
    Incomplete,
    /// There is no store.
    NoStore,
    /// Wrong password.
    WrongPassword,
    /// The user asked to stop.
    Interrupted,
}

impl Code {
    /// As the system gets it.
    #[must_use]
    pub const fn number(self) -> u8 {
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

/// The error and its causes, each once: the text of many errors includes that of their source.
#[must_use]
pub fn message_of(error: &anyhow::Error) -> String {
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

/// The exit code of a failed command, by the library's errors.
#[must_use]
pub fn code_of(error: &anyhow::Error) -> Code {
    let kind = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<onefold::Error>())
        .map(onefold::Error::kind);
    match kind {
        Some(ErrorKind::NoStore) => Code::NoStore,
        Some(ErrorKind::WrongPassword) => Code::WrongPassword,
        Some(ErrorKind::Interrupted) => Code::Interrupted,
        _ => Code::Failure,
    }
}

#[derive(Serialize)]
struct Line<'a> {
    message_type: &'static str,
    code: u8,
    message: &'a str,
}

/// Prints why a command of `program` failed.
pub fn report(output: Output, program: &str, code: Code, message: &str) {
    tracing::error!(target: TARGET, code = code.number(), "{message}");
    let text = || format!("{program}: {message}");
    let line = if output.json {
        let line = Line {
            message_type: "exit_error",
            code: code.number(),
            message,
        };
        serde_json::to_string(&line).unwrap_or_else(|_| text())
    } else {
        text()
    };
    // A failure of this cannot be reported.
    drop(output.error_line(&line));
}

/// Prints clap's message, an error or the requested help, and returns its exit code. An error is a
/// JSON line if one of the words is `--json`.
pub fn not_understood(error: &clap::Error) -> ExitCode {
    let code = u8::try_from(error.exit_code()).unwrap_or(2);
    let options = || std::env::args_os().take_while(|word| word != "--");
    if error.use_stderr() && options().any(|word| word == "--json") {
        let message = error.render().to_string();
        let line = Line {
            message_type: "exit_error",
            code,
            message: message.trim_end(),
        };
        if let Ok(line) = serde_json::to_string(&line) {
            drop(writeln!(std::io::stderr().lock(), "{}", shown_json(&line)));
            return code.into();
        }
    }
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
    code.into()
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn repeated_texts_of_causes_are_printed_once() {
        let inner = std::io::Error::other("disk on fire");
        let error = Err::<(), _>(inner)
            .context("reading x: disk on fire")
            .context("a backup")
            .expect_err("it is one");
        assert_eq!(message_of(&error), "a backup: reading x: disk on fire");
    }
}
