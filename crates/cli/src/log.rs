//! Logs, for whoever looks for the cause of something: what the library does, one event a line.
//!
//! `ONEFOLD_LOG` says which events, and `--log` where they go. Without both nothing is logged, and
//! the library's events cost next to nothing. Each line begins with the system's time in UTC. A
//! line that cannot be written is left out, and the command continues.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// The variable that says which events are logged.
const VARIABLE: &str = "ONEFOLD_LOG";
/// What is logged to a file where the variable says nothing.
const DEFAULT: &str = "debug";

/// Which events are logged, as the environment says; `None`: it says nothing.
///
/// # Errors
/// A message about a value that is not understood.
pub(crate) fn filter() -> Result<Option<EnvFilter>, String> {
    let Some(value) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let text = value.to_string_lossy();
    let why = |error| {
        format!(
            "{VARIABLE}, in the environment, is {text:?}: {error}; it takes a level (error, warn, info, debug, trace), or \
             TARGET=LEVEL with commas between several"
        )
    };
    EnvFilter::try_new(&*text).map(Some).map_err(why)
}

/// Logs from now on to this file, which is created for its owner alone where there is none, or to
/// standard error; nothing where neither a file nor a filter is given.
///
/// # Errors
/// When the file cannot be opened.
pub(crate) fn start(file: Option<&Path>, filter: Option<EnvFilter>) -> Result<()> {
    let writer = match (file, &filter) {
        (None, None) => return Ok(()),
        (None, Some(_)) => BoxMakeWriter::new(std::io::stderr),
        (Some(path), _) => {
            let opened = File::options().create(true).append(true).mode(0o600).open(path);
            let file = opened.with_context(|| format!("opening the log {}", path.display()))?;
            BoxMakeWriter::new(Arc::new(file))
        }
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter.unwrap_or_else(|| EnvFilter::new(DEFAULT)))
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(writer)
        .finish();
    tracing::subscriber::set_global_default(subscriber).context("starting the log")
}
