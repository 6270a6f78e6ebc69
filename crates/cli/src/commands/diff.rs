//! `onefold diff`

use anyhow::Result;
use cli_support::Code;
use cli_support::output::{Output, bytes, lossy, thousands};
use cli_support::progress::{self, Status};
use onefold::{Change, DiffCounts, DiffKind, DiffReport, DiffRequest, Monitor};
use serde::Serialize;

use crate::args::{BackupPath, Diff, Global};

#[derive(Serialize)]
struct ChangeLine<'a> {
    message_type: &'static str,
    path: String,
    modifier: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<&'a [u8]>,
}

#[derive(Serialize)]
struct Statistics {
    message_type: &'static str,
    source_snapshot: u64,
    target_snapshot: u64,
    changed_files: u64,
    added: Counts,
    removed: Counts,
}

#[derive(Serialize)]
struct Counts {
    files: u64,
    dirs: u64,
    others: u64,
    bytes: u64,
}

impl Counts {
    fn of(counts: &DiffCounts) -> Self {
        Self {
            files: counts.files,
            dirs: counts.folders,
            others: counts.others,
            bytes: counts.bytes,
        }
    }
}

pub(crate) fn run(global: &Global, args: &Diff, output: Output) -> Result<Code> {
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    let filter = super::filter(&args.filter)?;
    let list = store.snapshots()?;
    let one = |id| super::one_of(&list, store, id, &filter);
    let (before, after) = (one(&args.before.id)?, one(&args.after.id)?);
    let request = DiffRequest::default()
        .before(folder(&args.before)?)
        .after(folder(&args.after)?)
        .metadata(args.metadata);
    output.line(format!("comparing backup {} to {}:", before.id, after.id))?;
    output.line("")?;
    let monitor = Monitor::new(super::cancel_flag()?);
    let status = || Status::of(&monitor);
    let report = progress::around(output, "diff", &status, |screen| {
        let each = |change: &Change| screen.print(|| print(change, output));
        onefold::operations::diff(store, &before, &after, &request, &monitor, each)
    })?;
    super::tell_notes(&monitor, output)?;
    tell(&report, output)?;
    output.object(&Statistics {
        message_type: "statistics",
        source_snapshot: before.id.get(),
        target_snapshot: after.id.get(),
        changed_files: report.files_changed,
        added: Counts::of(&report.added),
        removed: Counts::of(&report.removed),
    })?;
    Ok(Code::Success)
}

/// The folder to compare; empty for all of a backup.
fn folder(typed: &BackupPath) -> Result<Vec<u8>> {
    let path = super::absolute(typed.path.as_slice())?.pop().unwrap_or_default();
    Ok(if path == b"/" { Vec::new() } else { path })
}

fn print(change: &Change, output: Output) -> Result<()> {
    let is_folder = change.after.or(change.before) == Some(DiffKind::Folder);
    let mut path = change.path.clone();
    // The root ends in it already.
    if is_folder && !path.ends_with(b"/") {
        path.push(b'/');
    }
    if output.json {
        output.object(&ChangeLine {
            message_type: "change",
            path: lossy(&path),
            modifier: change.modifier(),
            path_bytes: std::str::from_utf8(&path).is_err().then_some(&path[..]),
        })?;
        return Ok(());
    }
    let mut line = format!("{:5}", change.modifier()).into_bytes();
    line.append(&mut path);
    Ok(output.raw(&line)?)
}

fn tell(report: &DiffReport, output: Output) -> Result<()> {
    let DiffReport { added, removed, .. } = report;
    let counts = |name: &str, new: u64, gone: u64| {
        format!(
            "{name:8}{:>10} new, {:>10} removed",
            thousands(new),
            thousands(gone)
        )
    };
    output.line("")?;
    let changed = thousands(report.files_changed);
    let files = counts("Files:", added.files, removed.files);
    output.line(format!("{files}, {changed:>10} changed"))?;
    output.line(counts("Dirs:", added.folders, removed.folders))?;
    output.line(counts("Others:", added.others, removed.others))?;
    output.line(format!("  Added:   {}", bytes(added.bytes)))?;
    output.line(format!("  Removed: {}", bytes(removed.bytes)))?;
    Ok(())
}
