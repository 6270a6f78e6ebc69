//! Progress on a terminal: share, rate, time left, and the sessions that a command waits for. In a
//! pipe nothing is printed. With `--json`, one line is printed a second.

mod bar;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget};
use onefold::{Monitor, Waiting, WaitingRole, WorkUnit};
use serde::Serialize;

use crate::output::{Output, lossy, utc_time};
use bar::Bar;

/// The status of a running command.
#[derive(Debug, Clone, Default)]
pub struct Status {
    /// The unit of work.
    pub unit: WorkUnit,
    /// Units done.
    pub done: u64,
    /// Units in all; 0 while unknown.
    pub total: u64,
    /// Files done.
    pub files_done: u64,
    /// Entries that failed.
    pub errors: u64,
    /// The current task.
    pub current: Vec<u8>,
    /// The sessions that the command waits for.
    pub waiting: Vec<Waiting>,
}

impl Status {
    /// The status of a monitor's counters.
    pub fn of(monitor: &Monitor) -> Self {
        Self {
            unit: monitor.work_unit(),
            done: monitor.work_done(),
            total: monitor.work_total(),
            errors: monitor.errors(),
            waiting: monitor.waiting(),
            ..Self::default()
        }
    }
}

/// The plural of a unit's name.
const fn plural(unit: WorkUnit) -> &'static str {
    match unit {
        WorkUnit::Bytes => "bytes",
        WorkUnit::Nodes => "nodes",
        WorkUnit::Containers => "containers",
        WorkUnit::Backups => "backups",
        WorkUnit::Checks => "checks",
        _ => "parts",
    }
}

#[derive(Serialize)]
struct StatusLine {
    message_type: &'static str,
    #[serde(flatten)]
    work: Work,
    files_done: u64,
    errors: u64,
    current: String,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Work {
    Bytes {
        bytes_done: u64,
        bytes_total: u64,
    },
    Counted {
        unit: &'static str,
        done: u64,
        total: u64,
    },
}

impl StatusLine {
    fn of(status: &Status) -> Self {
        let (done, total) = (status.done, status.total);
        Self {
            message_type: "status",
            work: match status.unit {
                WorkUnit::Bytes => Work::Bytes {
                    bytes_done: done,
                    bytes_total: total,
                },
                unit => Work::Counted {
                    unit: plural(unit),
                    done,
                    total,
                },
            },
            files_done: status.files_done,
            errors: status.errors,
            current: lossy(&status.current),
        }
    }
}

#[derive(Serialize)]
struct WaitingLine {
    message_type: &'static str,
    sessions: Vec<WaitingFor>,
}

#[derive(Serialize)]
struct WaitingFor {
    session_id: u64,
    role: &'static str,
    hostname: Option<String>,
    process: u32,
    on_this_host: bool,
    since: String,
    until: String,
}

impl WaitingFor {
    fn of(waiting: &Waiting) -> Self {
        Self {
            session_id: waiting.session.get(),
            role: match waiting.role {
                WaitingRole::Backup => "backup",
                WaitingRole::Reader => "reader",
                WaitingRole::Optimize => "optimize",
                WaitingRole::Prune => "prune",
            },
            hostname: waiting.host.as_deref().map(lossy),
            process: waiting.process,
            on_this_host: waiting.is_here,
            since: utc_time(waiting.since.get()),
            until: utc_time(waiting.until.get()),
        }
    }
}

/// The line with the progress, which gives way while other lines are printed.
pub struct Screen(Option<ProgressBar>);

impl Screen {
    /// Prints while the line with the progress is away.
    pub fn print<R>(&self, print: impl FnOnce() -> R) -> R {
        match &self.0 {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// Runs `work`, and shows `status` meanwhile.
pub fn beside<T>(
    output: Output,
    verb: &'static str,
    status: &(dyn Fn() -> Status + Sync),
    work: impl FnOnce() -> T,
) -> T {
    around(output, verb, status, |_| work())
}

/// Runs `work`, which prints through the screen, and shows `status` meanwhile.
pub fn around<T>(
    output: Output,
    verb: &'static str,
    status: &(dyn Fn() -> Status + Sync),
    work: impl FnOnce(&Screen) -> T,
) -> T {
    let on_terminal = std::io::stderr().is_terminal() && !output.json;
    if output.quiet || !(on_terminal || output.json) {
        return work(&Screen(None));
    }
    let bar = Bar::new(verb, ProgressDrawTarget::stderr_with_hz(8));
    let screen = Screen((on_terminal && output.on_screen).then(|| bar.handle()));
    let done = Arc::new(AtomicBool::new(false));
    thread::scope(|scope| {
        let watcher = {
            let done = Arc::clone(&done);
            scope.spawn(move || {
                if output.json {
                    lines(output, &done, status)
                } else {
                    watch(bar, &done, status)
                }
            })
        };
        // The watcher must end even if the work panics: the scope waits for it.
        let _stop = Stop {
            done: &done,
            watcher: watcher.thread().clone(),
        };
        work(&screen)
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
        let said = if status.waiting.is_empty() {
            output.object(&StatusLine::of(&status))
        } else {
            output.object(&WaitingLine {
                message_type: "waiting",
                sessions: status.waiting.iter().map(WaitingFor::of).collect(),
            })
        };
        if said.is_err() {
            return;
        }
    }
}

fn watch(mut bar: Bar, done: &AtomicBool, status: &(dyn Fn() -> Status + Sync)) {
    loop {
        thread::park_timeout(Duration::from_millis(125));
        if done.load(Ordering::Acquire) {
            return bar.clear();
        }
        bar.show(&status());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_names_the_counted_unit() {
        let said = |unit| {
            serde_json::to_string(&StatusLine::of(&Status {
                unit,
                done: 3,
                total: 12,
                ..Status::default()
            }))
            .unwrap()
        };
        let rest = r#""files_done":0,"errors":0,"current":""}"#;
        assert_eq!(
            said(WorkUnit::Bytes),
            format!(r#"{{"message_type":"status","bytes_done":3,"bytes_total":12,{rest}"#)
        );
        assert_eq!(
            said(WorkUnit::Nodes),
            format!(r#"{{"message_type":"status","unit":"nodes","done":3,"total":12,{rest}"#)
        );
    }
}
