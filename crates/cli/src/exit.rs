//! Exit codes, and how a failed command says why.

use std::process::ExitCode;

use onefold::ErrorKind;
use serde::Serialize;

use crate::output::Output;

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

/// Prints why a command failed and says with which code to end.
pub(crate) fn report(output: Output, error: &anyhow::Error) -> Code {
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
    let message = told(error);
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
    drop(std::io::Write::write_all(
        &mut std::io::stderr().lock(),
        format!("{text}\n").as_bytes(),
    ));
    code
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
