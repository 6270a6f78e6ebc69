//! Progress on a terminal: share, rate, time left. Silent in a pipe; with `--json`, a status line a second.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::output::{Output, lossy};

/// What a running command says of itself when asked.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Status {
    /// Bytes done.
    pub(crate) bytes_done: u64,
    /// Bytes in all; 0 while unknown.
    pub(crate) bytes_total: u64,
    /// Files done.
    pub(crate) files_done: u64,
    /// Entries that could not be dealt with.
    pub(crate) errors: u64,
    /// What is at hand.
    #[serde(skip)]
    pub(crate) current: Vec<u8>,
}

#[derive(Serialize)]
struct StatusLine<'a> {
    message_type: &'static str,
    #[serde(flatten)]
    status: &'a Status,
    current: String,
}

/// Runs `work`, showing `status` beside it.
pub(crate) fn beside<T>(
    output: Output,
    verb: &'static str,
    status: &(dyn Fn() -> Status + Sync),
    work: impl FnOnce() -> T,
) -> T {
    let on_terminal = std::io::stderr().is_terminal() && !output.quiet && !output.json;
    if !on_terminal && !output.json {
        return work();
    }
    let done = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let watcher = {
            let done = Arc::clone(&done);
            scope.spawn(move || {
                if output.json {
                    lines(output, &done, status)
                } else {
                    bar(verb, &done, status)
                }
            })
        };
        // Also when the work panics: the scope waits for the watcher.
        let _stop = Stop {
            done: &done,
            watcher: watcher.thread().clone(),
        };
        work()
    })
}

/// Ends the watcher.
struct Stop<'a> {
    done: &'a AtomicBool,
    watcher: thread::Thread,
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        self.watcher.unpark();
    }
}

fn lines(output: Output, done: &AtomicBool, status: &(dyn Fn() -> Status + Sync)) {
    loop {
        thread::park_timeout(Duration::from_secs(1));
        if done.load(Ordering::Acquire) {
            return;
        }
        let status = status();
        let line = StatusLine {
            message_type: "status",
            current: lossy(&status.current),
            status: &status,
        };
        if output.object(&line).is_err() {
            return;
        }
    }
}

fn bar(verb: &'static str, done: &AtomicBool, status: &(dyn Fn() -> Status + Sync)) {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(8));
    let unknown =
        ProgressStyle::with_template("{prefix} {spinner} {bytes}, {binary_bytes_per_sec}, {wide_msg}");
    let known = ProgressStyle::with_template(
        "{prefix} {percent:>3}% [{bar:10}] {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left, {wide_msg}",
    );
    let (Ok(unknown), Ok(known)) = (unknown, known) else {
        return;
    };
    bar.set_prefix(verb);
    bar.set_style(unknown);
    let mut total = 0;
    loop {
        thread::park_timeout(Duration::from_millis(125));
        if done.load(Ordering::Acquire) {
            bar.finish_and_clear();
            return;
        }
        let status = status();
        if status.bytes_total != total {
            total = status.bytes_total;
            bar.set_length(total);
            bar.set_style(known.clone());
        }
        bar.set_position(status.bytes_done);
        let errors = if status.errors > 0 {
            format!(", {} errors", status.errors)
        } else {
            String::new()
        };
        bar.set_message(format!(
            "{} files{errors}  {}",
            status.files_done,
            lossy(&status.current)
        ));
    }
}
