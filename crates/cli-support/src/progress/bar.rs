//! The progress line at the bottom of the terminal. It shows bytes as bytes, and other units by
//! name. While a command waits for other sessions, it names them instead.

use std::fmt;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use onefold::{Waiting, WaitingRole, WorkUnit};

use super::{Status, plural};
use crate::output::{local_clock, lossy};
use crate::screen::{shown, shown_bytes};

/// The line.
pub(super) struct Bar {
    bar: ProgressBar,
    look: Option<Look>,
}

/// The form of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// The total is unknown.
    Endless(WorkUnit),
    /// The total is known.
    Share(WorkUnit),
    Waiting,
}

impl Look {
    fn of(status: &Status) -> Self {
        if !status.waiting.is_empty() {
            Self::Waiting
        } else if status.total > 0 {
            Self::Share(status.unit)
        } else {
            Self::Endless(status.unit)
        }
    }

    fn style(self) -> Option<ProgressStyle> {
        let counted = |unit: WorkUnit, template: &str| {
            let words = plural(unit);
            let style = ProgressStyle::with_template(&template.replace("{words}", words)).ok()?;
            let rate = move |state: &ProgressState, out: &mut dyn fmt::Write| {
                // The drawing thread detects the error.
                write!(out, "{:.0} {words}/s", state.per_sec()).ok();
            };
            Some(style.with_key("rate", rate))
        };
        match self {
            Self::Endless(WorkUnit::Bytes) => {
                ProgressStyle::with_template("{prefix} {spinner} {bytes}, {binary_bytes_per_sec}{wide_msg}").ok()
            }
            Self::Share(WorkUnit::Bytes) => ProgressStyle::with_template(
                "{prefix} {percent:>3}% [{bar:10}] {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left{wide_msg}",
            )
            .ok(),
            Self::Endless(unit) => counted(unit, "{prefix} {spinner} {human_pos} {words}, {rate}{wide_msg}"),
            Self::Share(unit) => counted(
                unit,
                "{prefix} {percent:>3}% [{bar:10}] {human_pos} of {human_len} {words}, {rate}, {eta} left{wide_msg}",
            ),
            Self::Waiting => ProgressStyle::with_template("{prefix} {spinner} {wide_msg}").ok(),
        }
    }
}

impl Bar {
    pub(super) fn new(verb: &'static str, target: ProgressDrawTarget) -> Self {
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_prefix(verb);
        Self { bar, look: None }
    }

    /// The same bar, for code that prints lines above it.
    pub(super) fn handle(&self) -> ProgressBar {
        self.bar.clone()
    }

    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }

    pub(super) fn show(&mut self, status: &Status) {
        let look = Look::of(status);
        if self.look != Some(look) {
            self.look = Some(look);
            if let Some(style) = look.style() {
                self.bar.set_style(style);
            }
            // The unit changed, so the rate begins again.
            self.bar.reset_eta();
        }
        if look == Look::Waiting {
            return self.bar.set_message(waits(&status.waiting));
        }
        if status.total > 0 {
            self.bar.set_length(status.total);
        }
        self.bar.set_position(status.done);
        self.bar.set_message(beside(status));
    }
}

/// Further facts about running work.
fn beside(status: &Status) -> String {
    let mut said = String::new();
    if status.files_done > 0 {
        said = format!(", {} files", status.files_done);
    }
    if status.errors > 0 {
        said = format!("{said}, {} errors", status.errors);
    }
    if !status.current.is_empty() {
        said = format!("{said}  {}", shown_bytes(&status.current));
    }
    said
}

/// The sessions that the command waits for, since when, and until when at the latest.
fn waits(sessions: &[Waiting]) -> String {
    let Some(first) = sessions.first() else {
        return String::new();
    };
    let others = match sessions.len() - 1 {
        0 => String::new(),
        1 => " and another".to_owned(),
        n => format!(" and {n} others"),
    };
    let since = sessions.iter().map(|one| one.since.get()).min();
    let until = sessions.iter().map(|one| one.until.get()).max();
    format!(
        "waits for {}{others} since {}, until {} at the latest",
        whom(first),
        local_clock(since.unwrap_or_default()),
        local_clock(until.unwrap_or_default()),
    )
}

fn whom(one: &Waiting) -> String {
    let what = match one.role {
        WaitingRole::Backup => "backup",
        WaitingRole::Reader => "reader",
        WaitingRole::Optimize => "the optimize of session",
        WaitingRole::Prune => "the prune of session",
    };
    let place = match &one.host {
        Some(host) => format!("of host {}, ", shown(&lossy(host))),
        None if one.is_here => "on this host, ".to_owned(),
        None => String::new(),
    };
    format!("{what} {} ({place}process {})", one.session, one.process)
}

#[cfg(test)]
mod tests;
