//! The log, for finding the cause of a fault: what the library does, one event a line.
//!
//! `ONEFOLD_LOG` chooses the events, and `--log` the file. Without both nothing is logged, and the
//! library's events cost almost nothing. Each line begins with the system's time in UTC. A line
//! that cannot be written is left out, and the command continues.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// The variable that chooses the logged events.
const VARIABLE: &str = "ONEFOLD_LOG";
/// The events logged to a file if the variable is not set.
const DEFAULT: &str = "debug";

/// The filter of events from the environment. `None`: the variable is not set.
///
/// # Errors
/// A message about an invalid value.
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

/// Starts the log. It appends to this file, or else writes to standard error. A new file is
/// readable only for its owner. Without a file and a filter, nothing is logged.
///
/// # Errors
/// If the file cannot be opened.
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
