//! The log, for finding the cause of a fault: what the library does, one event a line.
//!
//! `ONEFOLD_LOG` says which events, and `--log` where they go. Without both nothing is logged, and
//! the library's events cost next to nothing. Each line begins with the system's time in UTC. Text
//! that comes from elsewhere, such as a file's name, cannot begin a line of its own. A line that
//! cannot be written is left out, and the command continues.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result};
use cli_support::screen;
use tracing::field::Field;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::prelude::*;

/// The variable that chooses the logged events.
const VARIABLE: &str = "ONEFOLD_LOG";

/// What is logged to a file where the variable says nothing.
const DEFAULT: LevelFilter = LevelFilter::DEBUG;

/// The parts of the program that log. docs/cli.md says what.
const TARGETS: [&str; 11] = [
    "onefold::command",
    "onefold::store",
    "onefold::storage",
    "onefold::session",
    "onefold::prune",
    "onefold::optimize",
    "onefold::index",
    "onefold::mirror",
    "onefold::server",
    "onefold::mount",
    "onefold::cache",
];

/// The filter of events from the environment. `None`: the variable is not set.
///
/// # Errors
/// A message about a value that is not understood.
pub(crate) fn filter() -> Result<Option<Targets>, String> {
    match std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
        Some(value) => parse(&value.to_string_lossy()).map(Some),
        None => Ok(None),
    }
}

fn parse(text: &str) -> Result<Targets, String> {
    let mut filter = Targets::new();
    for part in text.split(',') {
        let understood = match part.split_once('=') {
            None => level(part).map(|level| filter = filter.clone().with_default(level)),
            Some((target, said)) => level(said)
                .filter(|_| TARGETS.contains(&target))
                .map(|level| filter = filter.clone().with_target(target, level)),
        };
        understood.ok_or_else(|| {
            format!(
                "{VARIABLE}, in the environment, is {text:?}, and {part:?} is not understood: it takes a level (off, \
                 error, warn, info, debug, trace), or TARGET=LEVEL, with commas between several; targets are {}",
                TARGETS.join(", ")
            )
        })?;
    }
    Ok(filter)
}

/// Numbers are levels too, for the library that reads them; not for people.
fn level(text: &str) -> Option<LevelFilter> {
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    LevelFilter::from_str(text)
        .ok()
        .filter(|_| is_word && !text.is_empty())
}

/// Starts the log. It appends to this file, or else writes to standard error. A new file is
/// readable only for its owner. Without a file and a filter, nothing is logged.
///
/// # Errors
/// When the file cannot be opened.
pub(crate) fn start(file: Option<&Path>, filter: Option<Targets>) -> Result<()> {
    let writer = match (file, &filter) {
        (None, None) => return Ok(()),
        (None, Some(_)) => BoxMakeWriter::new(std::io::stderr),
        (Some(path), _) => {
            let opened = File::options().create(true).append(true).mode(0o600).open(path);
            let file = opened.with_context(|| format!("opening the log {}", path.display()))?;
            BoxMakeWriter::new(Arc::new(file))
        }
    };
    let fields = tracing_subscriber::fmt::format::debug_fn(write_field).delimited(" ");
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .fmt_fields(fields)
        .with_writer(writer)
        .with_filter(filter.unwrap_or_else(|| Targets::new().with_default(DEFAULT)));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines))
        .context("starting the log")
}

/// Active characters are escaped, as on a terminal: a name with a line feed makes no line.
fn write_field(to: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    let value = format!("{value:?}");
    match field.name() {
        "message" => to.write_str(&screen::shown(&value)),
        name => write!(to, "{name}={}", screen::shown(&value)),
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn each_target_that_is_documented_is_understood() {
        let page = include_str!("../../../docs/cli.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `onefold::"));
        let targets: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
        for target in &targets {
            assert!(parse(&format!("onefold::{target}=debug")).is_ok(), "{target}");
        }
        assert_eq!(targets.len(), TARGETS.len(), "{targets:?}");
    }

    #[test]
    fn only_levels_and_targets_that_exist_are_understood() {
        for (text, storage, prune) in [
            ("info", Some(Level::INFO), Some(Level::INFO)),
            ("onefold::storage=trace", Some(Level::TRACE), None),
            (
                "onefold::storage=debug,warn",
                Some(Level::DEBUG),
                Some(Level::WARN),
            ),
            ("off,onefold::prune=Error", None, Some(Level::ERROR)),
        ] {
            let filter = parse(text).unwrap();
            for (target, most) in [("onefold::storage", storage), ("onefold::prune", prune)] {
                for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
                    let is_logged = most.is_some_and(|most| level <= most);
                    assert_eq!(
                        filter.would_enable(target, &level),
                        is_logged,
                        "{text}: {target} {level}"
                    );
                }
            }
        }
        for text in [
            "debgu",
            "storage",
            "onefold::storage",
            "storage=debug",
            "onefold::storage=",
            "info,,warn",
            "3",
            ",",
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(VARIABLE) && why.contains("onefold::mirror"), "{why}");
        }
    }
}
