//! Ctrl-C and SIGTERM: ask the command to stop at a good moment; a second one ends the process.
//! Where a command has something to put back at its end, SIGHUP asks, too.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// The process has one flag: what follows a signal must see it, too.
static ASKED: Mutex<Option<Arc<AtomicBool>>> = Mutex::new(None);

/// A flag that Ctrl-C or SIGTERM sets, the same one each time.
///
/// # Errors
/// The system refuses to tell of a signal.
pub fn watch() -> Result<Arc<AtomicBool>> {
    let mut known = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(asked) = &*known {
        return Ok(Arc::clone(asked));
    }
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))
            .context("watching for signals")?;
        flag::register(signal, Arc::clone(&asked)).context("watching for signals")?;
    }
    *known = Some(Arc::clone(&asked));
    Ok(asked)
}

/// Lets the end of the terminal or of its connection (SIGHUP) set the flag of [`watch`], too,
/// unless it is ignored, as `nohup` has it.
///
/// # Errors
/// The system refuses to tell of the signal.
pub fn watch_hangup() -> Result<()> {
    let asked = watch()?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if ignored.is_none_or(|mask| mask & 1 << (SIGHUP - 1) == 0) {
        flag::register(SIGHUP, asked).context("watching for signals")?;
    }
    Ok(())
}
