//! `onefold check`

use anyhow::{Context, Result};
use cli_support::Code;
use cli_support::output::{Output, bytes, count, lossy};
use cli_support::progress::{self, Status};
use onefold::{CheckReport, Clock as _, Finding, Monitor, ReadData, SystemClock, operations};
use serde::Serialize;

use crate::args::{Check, Global, Reading};

const DAY_NANOS: i64 = 86_400_000_000_000;

#[derive(Serialize)]
struct FoundLine<'a> {
    message_type: &'static str,
    kind: &'static str,
    object: &'a str,
    what: String,
    covered: bool,
}

impl<'a> FoundLine<'a> {
    fn of(message_type: &'static str, finding: &'a Finding) -> Self {
        Self {
            message_type,
            kind: finding.what.kind(),
            object: &finding.object,
            what: finding.what.to_string(),
            covered: finding.is_covered,
        }
    }
}

#[derive(Serialize)]
struct UnreadBackup {
    message_type: &'static str,
    snapshot_id: u64,
}

#[derive(Serialize)]
struct DamagedBackup<'a> {
    message_type: &'static str,
    snapshot_id: u64,
    files: Vec<String>,
    /// Of each file, where its path is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<Vec<Option<&'a [u8]>>>,
    files_more: u64,
    listing_unread: bool,
}

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    backups: u64,
    backups_known: u64,
    nodes: u64,
    containers: u64,
    containers_read: u64,
    bytes_read: u64,
    num_errors: usize,
    broken_backups: Vec<u64>,
}

pub(crate) fn run(global: &Global, args: &Check, output: Output) -> Result<Code> {
    let read_data = match args.read_data {
        None => ReadData::None,
        Some(reading) => read_data_of(reading)?,
    };
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    let monitor = Monitor::new(super::cancel_flag()?);
    let status = || Status::of(&monitor);
    let report = progress::beside(output, "check", &status, || {
        operations::check(store, read_data, &monitor)
    })?;
    super::tell_notes(&monitor, output)?;
    tell_findings(&report.findings, output)?;
    for leftover in &report.leftovers {
        output.result(format!(
            "{}: {} (no backup needs it)",
            leftover.object, leftover.what
        ))?;
        output.object(&FoundLine::of("leftover", leftover))?;
    }
    tell_backups(&report, output)?;
    output.line(format!(
        "checked {}, {} and {}",
        count(report.backups, "backup", "backups"),
        count(report.nodes, "node", "nodes"),
        count(report.containers, "container", "containers")
    ))?;
    if read_data != ReadData::None {
        output.line(format!(
            "read {} of {}",
            bytes(report.bytes_read),
            count(report.containers_read, "container", "containers")
        ))?;
    }
    output.object(&Summary {
        message_type: "summary",
        backups: report.backups,
        backups_known: report.backups_known(),
        nodes: report.nodes,
        containers: report.containers,
        containers_read: report.containers_read,
        bytes_read: report.bytes_read,
        num_errors: report.findings.len(),
        broken_backups: report.damaged_backups.iter().map(|backup| backup.get()).collect(),
    })?;
    say_in_words(&report, read_data, output)?;
    Ok(if report.is_sound() {
        Code::Success
    } else {
        Code::Failure
    })
}

/// Prints each finding.
pub(super) fn tell_findings(findings: &[Finding], output: Output) -> Result<()> {
    for finding in findings {
        let covered = if finding.is_covered {
            " (a second copy is good)"
        } else {
            ""
        };
        output.result(format!("{}: {}{covered}", finding.object, finding.what))?;
        output.object(&FoundLine::of("damage", finding))?;
    }
    Ok(())
}

/// Names the backups that could not be read now, those that cannot be restored whole, and their
/// files.
pub(super) fn tell_backups(report: &CheckReport, output: Output) -> Result<()> {
    for backup in &report.unread_backups {
        output.result(format!("backup {backup} could not be read now, and may be whole"))?;
        output.object(&UnreadBackup {
            message_type: "unread_backup",
            snapshot_id: backup.get(),
        })?;
    }
    for backup in &report.damaged_backups {
        output.result(format!("backup {backup} cannot be restored whole"))?;
        let paths = report.damaged_files.get(backup).map_or(&[][..], Vec::as_slice);
        let files: Vec<String> = paths.iter().map(|path| lossy(path)).collect();
        for path in &files {
            output.result(format!("  {path}"))?;
        }
        let files_more = report.damaged_files_more.get(backup).copied().unwrap_or(0);
        if files_more > 0 {
            output.result(format!("  and {}", count(files_more, "more file", "more files")))?;
        }
        let listing_unread = report.unread_listings.contains(backup);
        if listing_unread {
            output.result("  its listing cannot be read to the end, so more files may be damaged")?;
        }
        let is_other = |path: &Vec<u8>| std::str::from_utf8(path).is_err();
        let path_bytes = paths.iter().any(is_other).then(|| {
            let bytes = paths.iter().map(|path| is_other(path).then_some(&path[..]));
            bytes.collect()
        });
        output.object(&DamagedBackup {
            message_type: "damaged_backup",
            snapshot_id: backup.get(),
            files,
            path_bytes,
            files_more,
            listing_unread,
        })?;
    }
    Ok(())
}

/// Prints the result in words.
fn say_in_words(report: &CheckReport, read_data: ReadData, output: Output) -> Result<()> {
    let looked_at = match read_data {
        ReadData::None => {
            "everything that backups refer to exists; the bytes of their files were not read, which --read-data does".to_owned()
        }
        ReadData::Share(share) if share < 1.0 => format!(
            "everything that backups refer to exists, and {:.3} % of the containers were read and are as they were stored",
            share * 100.0
        ),
        ReadData::Part { part, of } if of > 1 => format!(
            "everything that backups refer to exists, and part {} of {of} of the containers was read and is as it was stored",
            part + 1
        ),
        ReadData::Share(_) | ReadData::Part { .. } => "every stored byte was read, and is as it was stored".to_owned(),
    };
    if report.is_sound() {
        return Ok(output.line(format!("no damage found: {looked_at}"))?);
    }
    let covered = report
        .findings
        .iter()
        .filter(|finding| finding.is_covered)
        .count();
    let broken = report.damaged_backups.len() as u64;
    let unread = report.unread_backups.len() as u64;
    let hurt = if broken == 0 {
        "every backup can be restored whole".to_owned()
    } else {
        let backups = count(report.backups_known(), "backup", "backups");
        format!("{broken} of {backups} cannot be restored whole")
    };
    let findings = count(report.findings.len() as u64, "finding", "findings");
    let mut words =
        format!("Damage was found: {findings} ({covered} of them with a good second copy); {hurt}");
    if unread > 0 {
        words = format!("{words}, and {unread} could not be read now");
    }
    output.line(format!(
        "{words}. If the files still exist on their source, back them up again: that heals the older backups too. \
         Otherwise `onefold repair --from-repo` takes them from a copy in another store."
    ))?;
    Ok(())
}

/// What is read now.
fn read_data_of(reading: Reading) -> Result<ReadData> {
    match reading {
        Reading::Now(read_data) => Ok(read_data),
        Reading::Daily(of) => {
            let days = SystemClock.wall().get() / DAY_NANOS;
            let part = u32::try_from(days.rem_euclid(i64::from(of))).context("the day of the check")?;
            Ok(ReadData::Part { part, of })
        }
    }
}
