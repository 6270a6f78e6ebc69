//! `onefold optimize`, and the optimization after a backup whose series requests it.

use anyhow::Result;
use cli_support::Code;
use cli_support::output::{Output, bytes, count, moment, utc_time};
use cli_support::progress::{self, Status};
use onefold::{Expired, HeldBackup, Monitor, OptimizeReport, OptimizeRequest, SeriesId, Store};
use serde::Serialize;

use super::{prune, series};
use crate::args::{Global, Optimize};

#[derive(Serialize)]
struct Row {
    message_type: &'static str,
    snapshot_id: u64,
    is_done: bool,
    onto: Option<u64>,
    total_bytes: u64,
    bytes_forward: u64,
    bytes_shared: u64,
    bytes_archived: u64,
    bytes_stored: u64,
    segments: u64,
}

#[derive(Serialize)]
struct Repaired {
    message_type: &'static str,
    snapshot_id: u64,
    is_done: bool,
    total_bytes: u64,
    bytes_budget: u64,
    bytes_copied: u64,
    bytes_stored: u64,
    containers_before: u64,
    containers_after: u64,
    containers_least: u64,
    backups: u64,
}

#[derive(Serialize)]
struct DueRepair {
    message_type: &'static str,
    snapshot_id: u64,
    total_bytes: u64,
    bytes_budget: u64,
}

#[derive(Serialize)]
struct Due {
    message_type: &'static str,
    snapshot_id: u64,
    onto: Option<u64>,
    total_bytes: u64,
}

#[derive(Serialize)]
struct ExpiredRow {
    message_type: &'static str,
    snapshot_id: u64,
    live_window: u16,
    archival_window: u16,
}

#[derive(Serialize)]
struct HeldRow {
    message_type: &'static str,
    snapshot_id: u64,
    hold_until: String,
    would_expire: bool,
    would_be_archival: bool,
    keeps: Option<u64>,
}

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    dry_run: bool,
    expired: Vec<u64>,
    held: Vec<u64>,
    backups: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failed: Vec<u64>,
    completed: u64,
    total_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    due_repairs: Option<u64>,
    repaired: u64,
    bytes_archived: u64,
    bytes_copied: u64,
    bytes_stored: u64,
}

pub(crate) fn run(global: &Global, args: &Optimize, output: Output) -> Result<Code> {
    let store = super::open(global)?;
    let mut wanted = None;
    if args.series.is_given() {
        let series = series::existing(&store, &args.series)?;
        if !series.settings.is_optimized() && args.repair.is_none() {
            output.line(
                "this series has layout inline and no repair, so there is nothing to rewrite; `onefold series set` changes \
                 that",
            )?;
        }
        wanted = Some(series.id);
    }
    if args.dry_run {
        return say_due(&store, wanted, args.repair, output);
    }
    let report = optimize(&store, wanted, args.repair, output)?;
    say(&report, output)?;
    let failed = !report.failed.is_empty();
    if args.prune {
        let code = prune::prune(&store, &prune::options(&args.limits), output)?;
        return Ok(if failed { Code::Failure } else { code });
    }
    say_unpruned(&report, output)?;
    Ok(if failed { Code::Failure } else { Code::Success })
}

/// Runs the due work of one series, or of all.
pub(crate) fn optimize(
    store: &Store,
    series: Option<SeriesId>,
    repair: Option<u16>,
    output: Output,
) -> Result<OptimizeReport> {
    let monitor = Monitor::new(super::cancel_flag()?);
    let status = || Status::of(&monitor);
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let request = OptimizeRequest::default()
        .series(series)
        .repair(repair)
        .workers(workers);
    let report = progress::beside(output, "optimize", &status, || {
        Ok::<_, anyhow::Error>(store.optimize(&request, &monitor)?)
    });
    // Print which backups were forgotten, even if a later step failed.
    super::tell_notes(&monitor, output)?;
    let report = report?;
    for warning in &report.warnings {
        output.warning(warning, &warning.to_string())?;
    }
    Ok(report)
}

/// Prints the result.
pub(crate) fn say(report: &OptimizeReport, output: Output) -> Result<()> {
    for expired in &report.expired {
        output.line(format!(
            "backup {} is forgotten: {}",
            expired.id,
            windows(expired)
        ))?;
        output.object(&expired_row("expired", expired))?;
    }
    let (mut total, mut archived, mut stored, mut backups) = (0, 0, 0, 0);
    for (id, done) in &report.backups {
        output.object(&Row {
            message_type: "optimized",
            snapshot_id: id.get(),
            is_done: done.is_done,
            onto: done.onto.map(onefold::SessionId::get),
            total_bytes: done.bytes,
            bytes_forward: done.bytes_forward,
            bytes_shared: done.bytes_shared,
            bytes_archived: done.bytes_archived,
            bytes_stored: done.bytes_stored,
            segments: done.segments,
        })?;
        if !done.is_done {
            output.line(format!(
                "backup {id} stays as it is, because it was forgotten, held or rewritten meanwhile, or its manifest cannot \
                 be read now"
            ))?;
            continue;
        }
        let (shared, apart) = (bytes(done.bytes_shared), bytes(done.bytes_archived));
        output.line(match done.onto {
            Some(onto) => format!(
                "backup {id} is archival now. Of its {}, {} refer to backup {onto}, {shared} are shared with other backups, \
                 and {apart} are stored for it alone",
                bytes(done.bytes),
                bytes(done.bytes_forward),
            ),
            None => format!(
                "backup {id} refers to no later backup any more. Of its {}, {shared} are shared with other backups, and \
                 {apart} are stored for it alone",
                bytes(done.bytes),
            ),
        })?;
        total += done.bytes;
        archived += done.bytes_archived;
        stored += done.bytes_stored;
        backups += 1;
    }
    let (repaired, copied) = say_repaired(report, output)?;
    if report.completed > 0 {
        output.line(format!(
            "completed {}",
            count(report.completed, "interrupted run", "interrupted runs")
        ))?;
    }
    for (id, why) in &report.failed {
        output.warn(format!("backup {id} stays as it is: {why}"))?;
    }
    say_held(&report.held, output)?;
    let has_done = !report.expired.is_empty() || !report.backups.is_empty() || !report.repaired.is_empty();
    if !has_done && report.failed.is_empty() && report.held.is_empty() {
        output.line("nothing is due")?;
    }
    output.object(&Summary {
        message_type: "optimize_summary",
        dry_run: false,
        expired: ids(&report.expired),
        held: report.held.iter().map(|held| held.id.get()).collect(),
        backups,
        failed: report.failed.iter().map(|(id, _)| id.get()).collect(),
        completed: report.completed,
        total_bytes: total,
        due_repairs: None,
        repaired,
        bytes_archived: archived,
        bytes_copied: copied,
        bytes_stored: stored
            + report
                .repaired
                .iter()
                .map(|(_, done)| done.bytes_stored)
                .sum::<u64>(),
    })?;
    Ok(())
}

/// Prints how to free the unused space, if there is any.
pub(crate) fn say_unpruned(report: &OptimizeReport, output: Output) -> Result<()> {
    let is_rewritten = report.backups.iter().any(|(_, done)| done.is_done)
        || report.repaired.iter().any(|(_, done)| done.is_done);
    if is_rewritten || !report.expired.is_empty() || report.completed > 0 {
        output.line("run `onefold prune` to free the space that no backup needs any more")?;
    }
    Ok(())
}

/// Prints the results of repairs. Returns how many were done, and the bytes that they copied.
fn say_repaired(report: &OptimizeReport, output: Output) -> Result<(u64, u64)> {
    let (mut repaired, mut copied) = (0, 0);
    for (id, done) in &report.repaired {
        output.object(&Repaired {
            message_type: "repaired",
            snapshot_id: id.get(),
            is_done: done.is_done,
            total_bytes: done.bytes,
            bytes_budget: done.bytes_budget,
            bytes_copied: done.bytes_copied,
            bytes_stored: done.bytes_stored,
            containers_before: done.containers_before,
            containers_after: done.containers_after,
            containers_least: done.containers_least,
            backups: done.backups,
        })?;
        // It was not examined, or its rewrite came too late.
        if !done.is_done && (done.bytes_budget == 0 || done.bytes_copied > 0) {
            output.line(format!(
                "backup {id} stays as it is, because a newer one was made, or it was forgotten, held or rewritten meanwhile"
            ))?;
            continue;
        }
        if !done.is_done && done.containers_before == 0 {
            output.line(format!(
                "backup {id} stays as it is: all containers that it needs hold enough of it"
            ))?;
            continue;
        }
        if !done.is_done {
            output.line(format!(
                "backup {id} stays as it is: it needs {}, and cannot need fewer than {}. Copying {} would gain little",
                count(done.containers_before, "container", "containers"),
                done.containers_least,
                bytes(done.bytes_budget)
            ))?;
            continue;
        }
        output.line(format!(
            "backup {id} now needs {} instead of {}; it cannot need fewer than {}. `optimize` copied {} of at most {}, and \
             {} refer to the copies too",
            count(done.containers_after, "container", "containers"),
            done.containers_before,
            done.containers_least,
            bytes(done.bytes_copied),
            bytes(done.bytes_budget),
            count(done.backups, "other backup", "other backups"),
        ))?;
        repaired += 1;
        copied += done.bytes_copied;
    }
    Ok((repaired, copied))
}

/// The windows that a backup has left.
fn windows(expired: &Expired) -> String {
    let (live, archival) = (expired.live_window, expired.archival_window);
    format!("its series keeps {live} live and {archival} archival")
}

fn ids(expired: &[Expired]) -> Vec<u64> {
    expired.iter().map(|one| one.id.get()).collect()
}

const fn expired_row(message_type: &'static str, expired: &Expired) -> ExpiredRow {
    ExpiredRow {
        message_type,
        snapshot_id: expired.id.get(),
        live_window: expired.live_window,
        archival_window: expired.archival_window,
    }
}

/// Prints the backups that stay because they are held, and what would happen to them otherwise.
fn say_held(all: &[HeldBackup], output: Output) -> Result<()> {
    for held in all {
        let expires = held
            .is_expired
            .then(|| "it has left the windows of its series and would be forgotten".to_owned());
        let due = (held.is_due && !held.is_expired).then(|| "it would be made archival".to_owned());
        let keeps = held.keeps.map(|next| {
            format!("it refers forward to backup {next}, which is forgotten and stays stored for it")
        });
        let what: Vec<String> = expires.into_iter().chain(due).chain(keeps).collect();
        output.line(format!(
            "backup {} is held until {} and stays as it is: {}",
            held.id,
            moment(held.until.get()),
            what.join(", and ")
        ))?;
        output.object(&HeldRow {
            message_type: "held",
            snapshot_id: held.id.get(),
            hold_until: utc_time(held.until.get()),
            would_expire: held.is_expired,
            would_be_archival: held.is_due,
            keeps: held.keeps.map(onefold::SessionId::get),
        })?;
    }
    Ok(())
}

fn say_due(store: &Store, series: Option<SeriesId>, repair: Option<u16>, output: Output) -> Result<Code> {
    let request = OptimizeRequest::default().series(series).repair(repair);
    let preview = store.preview_optimize(&request)?;
    let (due, repairs) = (&preview.backups, &preview.repairs);
    for expiring in &preview.expiring {
        output.result(format!(
            "backup {} would be forgotten: {}",
            expiring.id,
            windows(expiring)
        ))?;
        output.object(&expired_row("expiring", expiring))?;
    }
    for due in due {
        let onto = match due.onto {
            Some(onto) => format!("backup {onto}"),
            None => "no later backup".to_owned(),
        };
        output.result(format!(
            "backup {} would be rewritten to refer to {onto}: {}",
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
    for repair in repairs {
        output.result(format!(
            "backup {} would be repaired: {}, of which at most {} would be copied",
            repair.id,
            bytes(repair.bytes),
            bytes(repair.budget)
        ))?;
        output.object(&DueRepair {
            message_type: "due_repair",
            snapshot_id: repair.id.get(),
            total_bytes: repair.bytes,
            bytes_budget: repair.budget,
        })?;
    }
    say_held(&preview.held, output)?;
    for warning in &preview.warnings {
        output.warning(warning, &warning.to_string())?;
    }
    let is_any_due = !preview.expiring.is_empty() || !due.is_empty() || !repairs.is_empty();
    if !is_any_due && preview.held.is_empty() {
        output.line("nothing is due")?;
    }
    output.object(&Summary {
        message_type: "optimize_summary",
        dry_run: true,
        expired: ids(&preview.expiring),
        held: preview.held.iter().map(|held| held.id.get()).collect(),
        backups: due.len() as u64,
        failed: Vec::new(),
        completed: 0,
        total_bytes: due.iter().map(|due| due.bytes).sum(),
        due_repairs: Some(repairs.len() as u64),
        repaired: 0,
        bytes_archived: 0,
        bytes_copied: 0,
        bytes_stored: 0,
    })?;
    Ok(Code::Success)
}
