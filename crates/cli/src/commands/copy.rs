//! `onefold copy`

use std::path::Path;

use anyhow::{Context, Result};
use cli_support::output::{Output, bytes, count, local_time, lossy, utc_time};
use cli_support::progress::{self, Screen, Status};
use cli_support::{Code, code_of};
use onefold::{
    Copied, CopyReport, CopyRequest, CopyStep, IngestOptions, Monitor, NotCopied, Snapshot, operations,
    shell_words,
};
use serde::Serialize;

use super::backup::compression;
use super::place::{Opened, open_as, place_of};
use crate::args::{Copy, FromPassword, Global};
use crate::password;

#[derive(Serialize)]
struct CopiedLine {
    message_type: &'static str,
    from_snapshot_id: u64,
    snapshot_id: u64,
    time: String,
    hostname: String,
    paths: Vec<String>,
    within_domain: bool,
    upon: Option<u64>,
    total_bytes: u64,
    bytes_read: u64,
    data_added: u64,
    data_added_packed: u64,
    chunks_new: u64,
    segments: u64,
    segments_known: u64,
}

#[derive(Serialize)]
struct DueLine {
    message_type: &'static str,
    from_snapshot_id: u64,
    time: String,
    hostname: String,
    paths: Vec<String>,
    total_bytes: u64,
}

#[derive(Serialize)]
struct SkippedLine {
    message_type: &'static str,
    from_snapshot_id: u64,
    snapshot_id: u64,
}

#[derive(Serialize)]
struct FailedLine<'a> {
    message_type: &'static str,
    from_snapshot_id: u64,
    message: &'a str,
    files: Vec<String>,
}

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    dry_run: bool,
    copied: u64,
    skipped: u64,
    failed: u64,
    forgotten: u64,
    unread: u64,
    bytes_read: u64,
    data_added: u64,
    data_added_packed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_sent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_received: Option<u64>,
}

pub(crate) fn run(global: &Global, args: &Copy, output: Output) -> Result<Code> {
    let to = super::open_anywhere(global)?;
    let from = open_source(
        global,
        (&args.from.from_repo, &args.from.password),
        to.local().is_some(),
    )?;
    let request = CopyRequest::default()
        .ids(args.ids.clone())
        .filter(super::filter(&args.filter)?)
        .is_dry_run(args.dry_run)
        .assembling(args.assembling.options())
        .ingest(ingest(args));
    let monitor = Monitor::new(super::cancel_flag()?);
    let status = || Status {
        done: monitor.work_done() + monitor.counters.bytes_logical.get(),
        total: monitor.work_total(),
        ..Status::default()
    };
    let told = progress::around(output, "copy", &status, |screen| {
        let mut failed = Ok(());
        let printer = Printer {
            output,
            screen,
            is_dry_run: args.dry_run,
        };
        let report = operations::copy(
            from.repository(),
            to.repository(),
            &request,
            &monitor,
            &mut |step| {
                if failed.is_ok() {
                    failed = printer.print(&step);
                }
            },
        )?;
        failed?;
        Ok::<_, anyhow::Error>(report)
    });
    let report = told?;
    super::tell_notes(&monitor, output)?;
    for why in &report.unread {
        output.warn(format!(
            "warning: a manifest of the source cannot be read, and its backup is not copied: {why}"
        ))?;
    }
    for why in &report.unread_there {
        output.warn(format!(
            "warning: a manifest of the store to copy to cannot be read; if it is of a copy, that backup was copied \
             once more: {why}"
        ))?;
    }
    for (id, why) in &report.older {
        output.warn(format!(
            "warning: backup {id} has the tags and hold of an older revision in its copy, for a newer one cannot be \
             read: {why}"
        ))?;
    }
    let traffic = [&from, &to].map(Opened::traffic);
    let sum = |of: fn(&transport::Traffic) -> u64| {
        let mut each = traffic.iter().flatten().map(|traffic| of(traffic)).peekable();
        each.peek().is_some().then(|| each.sum())
    };
    summarize(
        output,
        &report,
        args.dry_run,
        (sum(transport::Traffic::sent), sum(transport::Traffic::received)),
    )?;
    // Who names a backup wants it; who copies all wants those that there are.
    let is_all = report.forgotten.is_empty() || args.ids.is_empty();
    let is_whole = is_all && report.failed.is_empty() && report.unread.is_empty();
    Ok(if is_whole { Code::Success } else { Code::Incomplete })
}

const ASKED: &str = "password for the store to copy from: ";

/// Opens the store to copy from. `may_share`: the destination's password may be its own, too.
pub(super) fn open_source(
    global: &Global,
    (named, source): (&Path, &FromPassword),
    may_share: bool,
) -> Result<Opened> {
    let place = place_of(named)?;
    let shown = place.to_string();
    let is_said = password::source_is_said(source);
    let credential = || match password::of_source(source)? {
        Some(credential) => Ok(credential),
        None if may_share => password::existing(global),
        None => password::ask(ASKED),
    };
    let is_wrong =
        |opened: &Result<Opened>| opened.as_ref().map_err(code_of).err() == Some(Code::WrongPassword);
    let far = global.far.reading();
    let mut opened = open_as(global, &far, place, (&credential, false));
    if is_wrong(&opened) && !is_said && may_share && password::can_ask() {
        // The destination's password, which a person may have typed, is not its own.
        let ask = || password::ask(ASKED);
        opened = open_as(global, &far, place_of(named)?, (&ask, false));
    }
    if is_wrong(&opened) && !is_said {
        let why = "say its password with --from-password-file or --from-password-command";
        opened = opened.context(why);
    }
    opened.with_context(|| format!("the store to copy from, {shown}"))
}

fn ingest(args: &Copy) -> IngestOptions {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (compression, slow_line_level) = compression(args.compression, args.compression_level);
    IngestOptions::for_cores(cores)
        .compression(compression)
        .slow_line_level(slow_line_level)
}

struct Printer<'a> {
    output: Output,
    screen: &'a Screen,
    is_dry_run: bool,
}

fn paths(snapshot: &Snapshot) -> Vec<String> {
    snapshot
        .backup
        .series
        .paths
        .iter()
        .map(|path| lossy(path))
        .collect()
}

/// The backup in words: number, time, paths.
fn words(snapshot: &Snapshot) -> String {
    let backup = &snapshot.backup;
    format!(
        "backup {} of {}, {}",
        snapshot.id,
        local_time(backup.source_time.get()),
        shell_words(&backup.series.paths)
    )
}

impl Printer<'_> {
    fn print(&self, step: &CopyStep<'_>) -> Result<()> {
        self.screen.print(|| match step {
            CopyStep::Skipped { from, has } => self.skipped(from, *has),
            CopyStep::Begins(snapshot) if self.is_dry_run => self.due(snapshot),
            CopyStep::Copied(copied) => self.copied(copied),
            CopyStep::Failed(failed) => self.failed(failed),
            CopyStep::Forgotten(snapshot) => self.forgotten(snapshot),
            _ => Ok(()),
        })
    }

    fn skipped(&self, from: &Snapshot, has: onefold::SessionId) -> Result<()> {
        if self.output.verbose {
            self.output
                .line(format!("skipped {}: it is backup {has} there", words(from)))?;
        }
        self.output.object(&SkippedLine {
            message_type: "skipped",
            from_snapshot_id: from.id.get(),
            snapshot_id: has.get(),
        })?;
        Ok(())
    }

    fn due(&self, snapshot: &Snapshot) -> Result<()> {
        let backup = &snapshot.backup;
        self.output.result(format!(
            "would copy {} ({})",
            words(snapshot),
            bytes(backup.totals.bytes_logical)
        ))?;
        self.output.object(&DueLine {
            message_type: "due",
            from_snapshot_id: snapshot.id.get(),
            time: utc_time(backup.source_time.get()),
            hostname: lossy(&backup.series.host),
            paths: paths(snapshot),
            total_bytes: backup.totals.bytes_logical,
        })?;
        Ok(())
    }

    fn copied(&self, copied: &Copied) -> Result<()> {
        let (backup, totals) = (&copied.from.backup, &copied.made.totals);
        self.output.line(format!(
            "copied {} as backup {}: {}, of which {} read and {} stored",
            words(&copied.from),
            copied.made.id,
            bytes(backup.totals.bytes_logical),
            bytes(copied.bytes_read),
            bytes(totals.bytes_stored)
        ))?;
        self.output.object(&CopiedLine {
            message_type: "copied",
            from_snapshot_id: copied.from.id.get(),
            snapshot_id: copied.made.id.get(),
            time: utc_time(backup.source_time.get()),
            hostname: lossy(&backup.series.host),
            paths: paths(&copied.from),
            within_domain: copied.is_within_domain,
            upon: copied.upon.map(onefold::SessionId::get),
            total_bytes: backup.totals.bytes_logical,
            bytes_read: copied.bytes_read,
            data_added: totals.bytes_new,
            data_added_packed: totals.bytes_stored,
            chunks_new: totals.chunks_new,
            segments: totals.segments,
            segments_known: totals.segments_known,
        })?;
        Ok(())
    }

    fn forgotten(&self, snapshot: &Snapshot) -> Result<()> {
        self.output.warn(format!(
            "warning: backup {} was forgotten in the store to copy from since this run began, so it is not copied",
            snapshot.id
        ))?;
        Ok(())
    }

    fn failed(&self, failed: &NotCopied) -> Result<()> {
        let id = failed.from.id;
        self.output.warn(format!(
            "error: backup {id} was not copied, because the store to copy from has damaged data: {}",
            failed.why
        ))?;
        for file in &failed.files {
            self.output.warn(format!("error: backup {id}: {}", lossy(file)))?;
        }
        self.output.object(&FailedLine {
            message_type: "not_copied",
            from_snapshot_id: id.get(),
            message: &failed.why,
            files: failed.files.iter().map(|file| lossy(file)).collect(),
        })?;
        Ok(())
    }
}

fn summarize(
    output: Output,
    report: &CopyReport,
    is_dry_run: bool,
    (sent, received): (Option<u64>, Option<u64>),
) -> Result<()> {
    let sum = |of: fn(&Copied) -> u64| -> u64 { report.copied.iter().map(of).sum() };
    let number = |len: usize| count(len as u64, "backup", "backups");
    let done = if is_dry_run {
        format!("would copy {}", number(report.due.len()))
    } else {
        format!("copied {}", number(report.copied.len()))
    };
    let skipped = match report.skipped.len() {
        0 => String::new(),
        len => format!(
            "; {} there already",
            if len == 1 {
                "1 is".into()
            } else {
                format!("{len} are")
            }
        ),
    };
    let failed = match report.failed.len() {
        0 => String::new(),
        len => format!("; {} not copied", number(len)),
    };
    output.line(format!("{done}{skipped}{failed}"))?;
    output.object(&Summary {
        message_type: "summary",
        dry_run: is_dry_run,
        copied: report.copied.len().max(report.due.len()) as u64,
        skipped: report.skipped.len() as u64,
        failed: report.failed.len() as u64,
        forgotten: report.forgotten.len() as u64,
        unread: report.unread.len() as u64,
        bytes_read: sum(|copied| copied.bytes_read),
        data_added: sum(|copied| copied.made.totals.bytes_new),
        data_added_packed: sum(|copied| copied.made.totals.bytes_stored),
        bytes_sent: sent,
        bytes_received: received,
    })?;
    Ok(())
}
