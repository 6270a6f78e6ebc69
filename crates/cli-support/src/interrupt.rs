//! Ctrl-C and SIGTERM: ask the command to stop at a good moment; a second one ends the process.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A flag that Ctrl-C or SIGTERM sets.
pub fn watch() -> Result<Arc<AtomicBool>> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))
            .context("watching for signals")?;
        flag::register(signal, Arc::clone(&asked)).context("watching for signals")?;
    }
    Ok(asked)
}
