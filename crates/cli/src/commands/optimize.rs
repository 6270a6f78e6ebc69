//! `onefold optimize`, and what `backup` does after a backup where its series says so.

use anyhow::Result;
use onefold::{Layout, Monitor, OptimizeReport, OptimizeRequest, SeriesId, Store};
use serde::Serialize;

use super::{prune, series};
use crate::args::{Global, Optimize};
use crate::exit::Code;
use crate::output::{Output, bytes, count};
use crate::progress::{self, Status};

#[derive(Serialize)]
struct Row {
    message_type: &'static str,
    snapshot_id: u64,
    is_done: bool,
    total_bytes: u64,
    bytes_forward: u64,
    bytes_shared: u64,
    bytes_archived: u64,
    bytes_stored: u64,
    segments: u64,
}

#[derive(Serialize)]
struct Due {
    message_type: &'static str,
    snapshot_id: u64,
    onto: Option<u64>,
    total_bytes: u64,
}

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    dry_run: bool,
    backups: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<u64>,
    completed: u64,
    total_bytes: u64,
    bytes_archived: u64,
    bytes_stored: u64,
}

pub(crate) fn run(global: &Global, args: &Optimize, output: Output) -> Result<Code> {
    let store = super::open(global)?;
    let wanted = match &args.series {
        Some(text) => {
            let list = store.series()?;
            let series = series::by_id(&list, text)?;
            if series.settings.layout == Layout::Inline {
                output.line("the layout of this series is inline: no backup leaves a live window there")?;
            }
            Some(series.id)
        }
        None => None,
    };
    if args.dry_run {
        return say_due(&store, wanted, output);
    }
    let report = optimize(&store, wanted, output)?;
    say(&report, output)?;
    let failed = !report.failed.is_empty();
    if args.prune {
        let code = prune::prune(&store, &prune::options(&args.limits), output)?;
        return Ok(if failed { Code::Failure } else { code });
    }
    Ok(if failed { Code::Failure } else { Code::Success })
}

/// Makes archival what is due of a series, or of all.
pub(crate) fn optimize(store: &Store, series: Option<SeriesId>, output: Output) -> Result<OptimizeReport> {
    let monitor = Monitor::new(super::cancel_flag()?);
    let status = || Status::of(&monitor);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let request = OptimizeRequest {
        series,
        workers,
        ..OptimizeRequest::default()
    };
    let report = progress::beside(output, "optimize", &status, || {
        Ok::<_, anyhow::Error>(store.optimize(&request, &monitor)?)
    })?;
    super::tell_notes(&monitor, output)?;
    for warning in &report.warnings {
        output.warn(warning)?;
    }
    Ok(report)
}

/// Says what came of it.
pub(crate) fn say(report: &OptimizeReport, output: Output) -> Result<()> {
    let (mut total, mut archived, mut stored, mut backups) = (0, 0, 0, 0);
    for (id, done) in &report.backups {
        output.object(&Row {
            message_type: "optimized",
            snapshot_id: id.get(),
            is_done: done.is_done,
            total_bytes: done.bytes,
            bytes_forward: done.bytes_forward,
            bytes_shared: done.bytes_shared,
            bytes_archived: done.bytes_archived,
            bytes_stored: done.bytes_stored,
            segments: done.segments,
        })?;
        if !done.is_done {
            output.line(format!(
                "backup {id} stays as it is: it was forgotten, held or rewritten meanwhile, or its manifest cannot be read now"
            ))?;
            continue;
        }
        output.line(format!(
            "backup {id} is archival: of {}, {} are the next backup's, {} are shared with others, {} are kept apart",
            bytes(done.bytes),
            bytes(done.bytes_forward),
            bytes(done.bytes_shared),
            bytes(done.bytes_archived),
        ))?;
        total += done.bytes;
        archived += done.bytes_archived;
        stored += done.bytes_stored;
        backups += 1;
    }
    if report.completed > 0 {
        output.line(format!(
            "completed what {} had begun",
            count(report.completed, "earlier run", "earlier runs")
        ))?;
    }
    for (id, why) in &report.failed {
        output.warn(format!("backup {id} stays as it is: {why}"))?;
    }
    if report.backups.is_empty() && report.failed.is_empty() {
        output.line("nothing is due")?;
    }
    output.object(&Summary {
        message_type: "optimize_summary",
        dry_run: false,
        backups,
        failed: report.failed.iter().map(|(id, _)| id.get()).collect(),
        completed: report.completed,
        total_bytes: total,
        bytes_archived: archived,
        bytes_stored: stored,
    })?;
    Ok(())
}

fn say_due(store: &Store, series: Option<SeriesId>, output: Output) -> Result<Code> {
    let due = store.due(&OptimizeRequest {
        series,
        ..OptimizeRequest::default()
    })?;
    for due in &due {
        let onto = match due.onto {
            Some(onto) => format!("backup {onto}"),
            None => "no other".to_owned(),
        };
        output.result(format!(
            "backup {} would refer forward to {onto}: {}",
            due.id,
            bytes(due.bytes)
        ))?;
        output.object(&Due {
            message_type: "due",
            snapshot_id: due.id.get(),
            onto: due.onto.map(|onto| onto.get()),
            total_bytes: due.bytes,
        })?;
    }
    if due.is_empty() {
        output.line("nothing is due")?;
    }
    output.object(&Summary {
        message_type: "optimize_summary",
        dry_run: true,
        backups: due.len() as u64,
        failed: Vec::new(),
        completed: 0,
        total_bytes: due.iter().map(|due| due.bytes).sum(),
        bytes_archived: 0,
        bytes_stored: 0,
    })?;
    Ok(Code::Success)
}
