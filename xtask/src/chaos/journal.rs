//! The record of a run, line by line, in a file that stays if the run fails.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use anyhow::Result;

use super::program::{Call, Ended, Shot, When};

#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// The current step.
    pub(super) step: u64,
}

impl Journal {
    /// Creates a journal in this folder.
    pub(super) fn new(folder: &Path) -> Result<Self> {
        Ok(Self {
            file: File::create(folder.join("journal"))?,
            step: 0,
        })
    }

    pub(super) fn note(&mut self, text: &str) -> Result<()> {
        Ok(writeln!(self.file, "# {text}")?)
    }

    pub(super) fn step(&mut self, number: u64) -> Result<()> {
        self.step = number;
        self.note(&format!("step {number}"))
    }

    /// Writes a command, as a shell reads it, with its disturbances.
    pub(super) fn command(&mut self, call: &Call) -> Result<()> {
        let mut line = String::new();
        if let Some(clock) = &call.clock {
            line.push_str(&format!("FAKETIME={clock} "));
        }
        line.push_str("onefold");
        for arg in &call.args {
            line.push(' ');
            line.push_str(&quoted(&arg.to_string_lossy()));
        }
        if let Some(stdin) = &call.stdin {
            line.push_str(&format!(" <{}", stdin.display()));
        }
        if call.start_ms > 0 {
            line.push_str(&format!("   # after {} ms", call.start_ms));
        }
        for Shot { when, signal } in &call.shots {
            let when = match when {
                When::After { ms } => format!("{ms} ms"),
                When::Mark { folder, changes } => format!("{changes} changes of {folder:?}"),
            };
            line.push_str(&format!("   # {signal:?} after {when}"));
        }
        Ok(writeln!(self.file, "{line}")?)
    }

    /// Writes how a command ended.
    pub(super) fn ended(&mut self, ended: &Ended) -> Result<()> {
        let shots: Vec<String> = ended
            .shots
            .iter()
            .map(|(ms, signal)| format!("{signal:?} at {ms} ms"))
            .collect();
        let how = match (ended.code, ended.signal) {
            (Some(code), _) => format!("code {code}"),
            (None, signal) => format!("signal {signal:?}"),
        };
        self.note(&format!(
            "  {how} after {:.2} s {}",
            ended.seconds,
            shots.join(", ")
        ))?;
        for line in ended.err.lines().take(12) {
            self.note(&format!("  | {line}"))?;
        }
        Ok(())
    }
}

fn quoted(arg: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:%+".contains(c);
    if !arg.is_empty() && arg.chars().all(plain) {
        return arg.to_owned();
    }
    format!("'{}'", arg.replace('\'', "'\\''"))
}
