//! Printing: text for people, JSON lines for programs. The only place that writes to standard
//! output.

use std::io::{self, IsTerminal, Write};

use clap::Args;
use onefold::{ByteLen, FileTime, Warning};
use serde::Serialize;

use crate::TARGET;
use crate::screen::{shown, shown_bytes, shown_json, shown_lines};

/// Options of every command that say how it prints.
#[derive(Debug, Args)]
pub struct OutputOptions {
    /// Print JSON lines instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Leave out progress, notes, headings and summaries. Print what a command was asked to show:
    /// lists, changes, figures, the plan of a dry run
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// The destination and form of results.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// Print JSON lines, not text.
    pub json: bool,
    /// Leave out lines that nobody asked for.
    pub quiet: bool,
    /// Every line was asked for, as in a dry run, which does nothing but print.
    pub is_asked: bool,
    /// Print more.
    pub verbose: bool,
    /// Whether standard output is a terminal.
    pub on_screen: bool,
    /// Whether standard error is a terminal.
    pub errors_on_screen: bool,
}

impl Output {
    /// The output that the options describe, on this process's streams.
    #[must_use]
    pub fn new(options: &OutputOptions) -> Self {
        Self {
            json: options.json,
            quiet: options.quiet,
            is_asked: false,
            verbose: false,
            on_screen: io::stdout().is_terminal(),
            errors_on_screen: io::stderr().is_terminal(),
        }
    }

    /// The same, which prints more if it is said to.
    #[must_use]
    pub fn verbose(self, verbose: bool) -> Self {
        Self { verbose, ..self }
    }

    /// The same. If the lines are what the command was asked for, it prints them even when quiet.
    #[must_use]
    pub fn asked(self, is_asked: bool) -> Self {
        Self { is_asked, ..self }
    }

    /// Prints one JSON line, or nothing in text mode.
    ///
    /// # Errors
    /// The stream cannot be written to. A reader that has closed the pipe is no error.
    pub fn object(&self, value: &impl Serialize) -> io::Result<()> {
        if !self.json {
            return Ok(());
        }
        let line = serde_json::to_string(value).map_err(io::Error::other)?;
        if self.on_screen {
            return print(&mut io::stdout().lock(), shown_json(&line).as_bytes());
        }
        print(&mut io::stdout().lock(), line.as_bytes())
    }

    /// Prints one line of text. In JSON mode, or when quiet unless the lines were asked for, prints
    /// nothing.
    ///
    /// # Errors
    /// The stream cannot be written to. A reader that has closed the pipe is no error.
    pub fn line(&self, text: impl AsRef<str>) -> io::Result<()> {
        if self.json || (self.quiet && !self.is_asked) {
            return Ok(());
        }
        self.result(text)
    }

    /// Prints one line of requested text, even when quiet.
    ///
    /// # Errors
    /// The stream cannot be written to. A reader that has closed the pipe is no error.
    pub fn result(&self, text: impl AsRef<str>) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        if self.on_screen {
            return print(&mut io::stdout().lock(), shown(text.as_ref()).as_bytes());
        }
        print(&mut io::stdout().lock(), text.as_ref().as_bytes())
    }

    /// Prints requested text of several lines, which ends with a line break, even when quiet.
    ///
    /// # Errors
    /// The stream cannot be written to. A reader that has closed the pipe is no error.
    pub fn page(&self, text: &str) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        if self.on_screen {
            return whole(&mut io::stdout().lock(), shown_lines(text).as_bytes());
        }
        whole(&mut io::stdout().lock(), text.as_bytes())
    }

    /// Prints a line of raw bytes: a path as the system has it, escaped on a terminal.
    ///
    /// # Errors
    /// The stream cannot be written to. A reader that has closed the pipe is no error.
    pub fn raw(&self, bytes: &[u8]) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        if self.on_screen {
            return print(&mut io::stdout().lock(), shown_bytes(bytes).as_bytes());
        }
        print(&mut io::stdout().lock(), bytes)
    }

    /// Prints an error that did not end the command.
    ///
    /// # Errors
    /// The stream cannot be written to. A reader that has closed the pipe is no error.
    pub fn warn(&self, text: impl AsRef<str>) -> io::Result<()> {
        self.warn_of(None, text.as_ref())
    }

    /// Prints a warning of the library as `text`. JSON includes its kind.
    ///
    /// # Errors
    /// The stream cannot be written to. A reader that has closed the pipe is no error.
    pub fn warning(&self, warning: &Warning, text: &str) -> io::Result<()> {
        self.warn_of(Some(warning.kind()), text)
    }

    fn warn_of(&self, kind: Option<&'static str>, message: &str) -> io::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            message_type: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            kind: Option<&'static str>,
            message: &'a str,
        }
        tracing::warn!(target: TARGET, kind, "{message}");
        if !self.json {
            return self.error_line(message);
        }
        let warning = Line {
            message_type: "error",
            kind,
            message,
        };
        let line = serde_json::to_string(&warning).map_err(io::Error::other)?;
        self.error_line(&line)
    }

    /// Prints a line on standard error: text, or JSON with `--json`.
    ///
    /// # Errors
    /// The stream cannot be written to. A reader that has closed the pipe is no error.
    pub fn error_line(&self, line: &str) -> io::Result<()> {
        let shown = match (self.errors_on_screen, self.json) {
            (true, true) => shown_json(line),
            (true, false) => shown(line),
            (false, _) => line.into(),
        };
        print(&mut io::stderr().lock(), shown.as_bytes())
    }
}

/// Writes a line in one piece, because other threads print too.
fn print(out: &mut impl Write, line: &[u8]) -> io::Result<()> {
    let mut whole_line = Vec::with_capacity(line.len() + 1);
    whole_line.extend_from_slice(line);
    whole_line.push(b'\n');
    whole(out, &whole_line)
}

/// Writes all bytes. Ignores a closed pipe, and returns any other error.
fn whole(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("writing the output: {error}"),
        )),
        Ok(()) => Ok(()),
    }
}

/// `n thing` or `n things`, with separators between thousands.
#[must_use]
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(n), if n == 1 { one } else { many })
}

/// 1234567 as `1,234,567`.
#[must_use]
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes with a unit.
#[must_use]
pub fn bytes(n: u64) -> String {
    ByteLen::new(n).to_string()
}

/// A rate with a unit.
#[must_use]
pub fn rate(n: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "-".to_owned();
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "three figures are shown"
    )]
    let per_second = (n as f64 / seconds) as u64;
    format!("{}/s", bytes(per_second))
}

/// ` (RATE)`, or an empty text if nothing was read.
#[must_use]
pub fn rate_of(n: u64, seconds: f64, was_read: bool) -> String {
    if was_read && n > 0 && seconds > 0.0 {
        format!(" ({})", rate(n, seconds))
    } else {
        String::new()
    }
}

/// A number with one decimal, or with enough decimals to show a small one as more than 0.
#[must_use]
pub fn figures(n: f64) -> String {
    if n >= 0.1 || n <= 0.0 {
        return format!("{n:.1}");
    }
    let mut decimals = 2;
    while decimals < 9 && n * 10_f64.powi(decimals) < 1.0 {
        decimals += 1;
    }
    format!("{n:.*}", usize::try_from(decimals).unwrap_or(9))
}

/// Seconds in words.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.2} s");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole seconds are shown"
    )]
    let whole = seconds.round() as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if hours > 0 {
        format!("{hours} h {minutes:02} min")
    } else {
        format!("{minutes} min {seconds:02} s")
    }
}

/// Text for JSON and messages, from bytes that may not be UTF-8: invalid bytes become the
/// replacement character.
#[must_use]
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The zone of local times, for the head of a column: `Europe/Berlin`, or the offset from UTC.
#[must_use]
pub fn zone() -> String {
    let zone = jiff::tz::TimeZone::system();
    match zone.iana_name() {
        Some("Etc/Unknown" | "Etc/UTC" | "UTC") => "UTC".to_owned(),
        Some(name) => name.to_owned(),
        None => {
            let offset = jiff::Timestamp::now().to_zoned(zone).strftime("%:z").to_string();
            format!("UTC{offset}")
        }
    }
}

/// Local time with its zone, as `2026-01-31 13:05:09 CET`.
#[must_use]
pub fn moment(nanos: i64) -> String {
    formatted(nanos, "%Y-%m-%d %H:%M:%S %Z")
}

/// Local time as `2026-01-31 13:05:09`.
#[must_use]
pub fn local_time(nanos: i64) -> String {
    formatted(nanos, "%Y-%m-%d %H:%M:%S")
}

/// Local time with its offset from UTC as RFC 3339 has it: `2026-01-31T13:05:09+01:00`. It sorts by
/// time.
#[must_use]
pub fn local_moment(nanos: i64) -> String {
    formatted(nanos, "%Y-%m-%dT%H:%M:%S%:z")
}

/// Local time in the format that `strftime` takes.
fn formatted(nanos: i64, format: &str) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(nanos)) {
        Ok(time) => time
            .to_zoned(jiff::tz::TimeZone::system())
            .strftime(format)
            .to_string(),
        Err(_) => "-".to_owned(),
    }
}

/// A file's time in the format of [`local_time`]. A time outside of the calendar is shown as
/// seconds since 1970.
#[must_use]
pub fn local_file_time(time: FileTime) -> String {
    match calendar_time(time) {
        Some(time) => time
            .to_zoned(jiff::tz::TimeZone::system())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        None => format!("{:>19}", time.seconds()),
    }
}

/// A file's time in the format of [`utc_time`]. A time outside of the calendar is shown as `@` and
/// seconds since 1970.
#[must_use]
pub fn utc_file_time(time: FileTime) -> String {
    match calendar_time(time) {
        Some(time) => time.to_string(),
        None => format!("@{}", time.seconds()),
    }
}

/// A time in the years -9999 to 9999; `None` outside of them.
fn calendar_time(time: FileTime) -> Option<jiff::Timestamp> {
    let nanos = i128::from(time.seconds()) * 1_000_000_000 + i128::from(time.nanos());
    jiff::Timestamp::from_nanosecond(nanos).ok()
}

/// Local time of day as `13:05:09`.
#[must_use]
pub fn local_clock(nanos: i64) -> String {
    match local_time(nanos).split_once(' ') {
        Some((_, time)) => time.to_owned(),
        None => "-".to_owned(),
    }
}

/// Time for JSON: RFC 3339 in UTC.
#[must_use]
pub fn utc_time(nanos: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(nanos))
        .map(|time| time.to_string())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1000), "1,000");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(count(1, "file", "files"), "1 file");
    }

    #[test]
    fn unread_bytes_have_no_rate_and_small_figures_are_not_zero() {
        assert_eq!(rate_of(1 << 40, 0.01, false), "");
        assert_eq!(rate_of(0, 0.01, true), "");
        assert_eq!(rate_of(1 << 20, 1.0, true), " (1.00 MiB/s)");
        assert_eq!(figures(12.34), "12.3");
        assert_eq!(figures(0.04), "0.04");
        assert_eq!(figures(0.000_018), "0.00002");
    }

    #[test]
    fn durations_read_well() {
        assert_eq!(duration(0.5), "0.50 s");
        assert_eq!(duration(61.0), "1 min 01 s");
        assert_eq!(duration(3700.0), "1 h 01 min");
    }
}
