//! `onefold restore`

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Result, bail};
use cli_support::Code;
use cli_support::output::{Output, bytes, count, duration, figures, rate_of};
use cli_support::progress::{self, Status};
use onefold::repository::Repository;
use onefold::{
    Fault, Monitor, Overwrite, Owners, RestoreFate, RestoreReport, RestoreRequest, Snapshot, Sparse,
};
use serde::Serialize;

use super::place::{Place, place};
use super::typed::wildcards;
use crate::args::{Global, OverwriteMode, OwnersMode, Restore, SparseMode};

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    snapshot_id: u64,
    files_restored: u64,
    others_restored: u64,
    files_kept: u64,
    files_older: u64,
    files_deleted: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    files_verified: Option<u64>,
    faults: u64,
    bytes_restored: u64,
    containers_read: u64,
    speed_factor: Option<f64>,
    memory_bytes_max: u64,
    total_duration: f64,
}

#[derive(Serialize)]
struct PreviewSummary {
    message_type: &'static str,
    dry_run: bool,
    snapshot_id: u64,
    files_restored: u64,
    others_restored: u64,
    files_kept: u64,
    files_deleted: u64,
    bytes_restored: u64,
}

#[derive(Serialize)]
struct Entry<'a> {
    message_type: &'static str,
    action: &'static str,
    item: &'a str,
}

pub(crate) fn run(global: &Global, args: &Restore, output: Output) -> Result<Code> {
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    super::typed::ensure_expanded(&args.target)?;
    let folder = match place(global)? {
        Place::Folder(folder) => Some(folder),
        _ => None,
    };
    if let Some(folder) = &folder {
        keep_out_of_store(folder, &args.target)?;
    }
    let snapshot = store.find(&args.id.id, &super::filter(&args.filter)?)?;
    if snapshot.single_stream().is_some() {
        refuse_of_trees(args, snapshot.id)?;
    }
    ensure_all_read(args, &snapshot)?;
    let request = request(args)?.spared(folder.into_iter().collect());
    let monitor = Monitor::new(super::cancel_flag()?);
    if global.verbosity() > 1 {
        tell_entries(&monitor, output);
    }
    if args.dry_run {
        return preview(store, &snapshot, (args, &request), &monitor, output);
    }
    let counters = &monitor.restore;
    let status = || Status {
        done: counters.bytes.load(Ordering::Relaxed),
        total: counters.bytes_total.load(Ordering::Relaxed),
        files_done: counters.files.load(Ordering::Relaxed),
        ..Status::of(&monitor)
    };
    let mut faults = |fault: &Fault| {
        // Standard error is closed: nobody can be told.
        drop(output.warn(format!("error: {fault}")));
    };
    let report = progress::beside(output, "restore", &status, || {
        let target = &args.target;
        onefold::operations::restore(store, &snapshot, target, &request, &monitor, &mut faults)
    })?;
    super::tell_notes(&monitor, output)?;
    super::tell_patterns(&request.excludes, output)?;
    let unmet = unmet(args, &request, &report.is_included);
    if !unmet.is_empty() && unmet.len() == args.include.len() {
        return Err(super::nothing_there(&unmet, snapshot.id));
    }
    if !unmet.is_empty() {
        output.warn(format!("error: {:#}", super::nothing_there(&unmet, snapshot.id)))?;
    }
    print(output, &snapshot, args, &report)?;
    Ok(if report.faults > 0 || !unmet.is_empty() {
        Code::Failure
    } else {
        Code::Success
    })
}

/// Prints the result of a restore.
fn print(output: Output, snapshot: &Snapshot, args: &Restore, report: &RestoreReport) -> Result<()> {
    #[expect(clippy::cast_precision_loss, reason = "three figures are shown")]
    let (seconds, mib) = (
        report.elapsed_nanos as f64 / 1e9,
        report.assemble.bytes as f64 / f64::from(1 << 20),
    );
    let containers = report.assemble.containers_read;
    // If nothing was read there is no rate to print.
    #[expect(clippy::cast_precision_loss, reason = "three figures are shown")]
    let speed_factor = (containers > 0 && report.assemble.bytes > 0).then(|| mib / containers as f64);
    let shown_factor = speed_factor.filter(|_| containers > 1);
    output.line(format!(
        "restored {} and {} of backup {} to {}",
        count(report.files, "file", "files"),
        count(report.others, "other entry", "other entries"),
        snapshot.id,
        args.target.display()
    ))?;
    if report.kept > 0 {
        output.line(format!(
            "left {}",
            count(report.kept, "file as it was", "files as they were")
        ))?;
    }
    if args.delete {
        output.line(format!("deleted {}", surplus(report.deleted)))?;
    }
    output.line(format!(
        "{} in {}{}, from {}{}",
        bytes(report.bytes),
        duration(seconds),
        rate_of(report.bytes, seconds, containers > 0),
        count(containers, "container", "containers"),
        shown_factor
            .map(|factor| format!(" ({} MiB from each)", figures(factor)))
            .unwrap_or_default()
    ))?;
    if let Some(verified) = &report.verified {
        output.line(match (verified.files, verified.unlike) {
            (0, 0) => "read no file again: there was none to compare".to_owned(),
            (files, unlike) => format!(
                "read {} again, {}: {}",
                count(files + unlike, "file", "files"),
                bytes(verified.bytes),
                match unlike {
                    0 => "all are as in the backup".to_owned(),
                    unlike => count(unlike, "is not as in the backup", "are not as in the backup"),
                }
            ),
        })?;
    }
    if report.faults > 0 {
        output.line(count(
            report.faults,
            "entry was not restored as it was; the errors above say why",
            "entries were not restored as they were; the errors above say why",
        ))?;
    }
    output.object(&Summary {
        message_type: "summary",
        snapshot_id: snapshot.id.get(),
        files_restored: report.files,
        others_restored: report.others,
        files_kept: report.kept,
        files_older: report.older,
        files_deleted: report.deleted,
        files_verified: report.verified.map(|verified| verified.files),
        faults: report.faults,
        bytes_restored: report.bytes,
        containers_read: containers,
        speed_factor,
        memory_bytes_max: report.assemble.memory_bytes_max,
        total_duration: seconds,
    })?;
    Ok(())
}

/// Prints what a restore would do.
fn preview(
    store: &dyn Repository,
    snapshot: &Snapshot,
    (args, request): (&Restore, &RestoreRequest),
    monitor: &Monitor,
    output: Output,
) -> Result<Code> {
    let mut failed = false;
    let mut faults = |fault: &Fault| {
        failed = true;
        // Standard error is closed: nobody can be told.
        drop(output.warn(format!("error: {fault}")));
    };
    let operation = onefold::operations::preview_restore;
    let seen = operation(store, snapshot, &args.target, request, monitor, &mut faults)?;
    super::tell_notes(monitor, output)?;
    super::tell_patterns(&request.excludes, output)?;
    let unmet = unmet(args, request, &seen.is_included);
    if !unmet.is_empty() {
        return Err(super::nothing_there(&unmet, snapshot.id));
    }
    output.line(format!(
        "would restore {}, {}, and {} of backup {} to {}",
        count(seen.files, "file", "files"),
        bytes(seen.bytes),
        count(seen.others, "other entry", "other entries"),
        snapshot.id,
        args.target.display()
    ))?;
    if seen.kept > 0 {
        output.line(format!(
            "would leave {}",
            count(seen.kept, "entry as it is", "entries as they are")
        ))?;
    }
    if args.delete {
        output.line(format!("would delete {}", surplus(seen.deleted)))?;
    }
    output.object(&PreviewSummary {
        message_type: "summary",
        dry_run: true,
        snapshot_id: snapshot.id.get(),
        files_restored: seen.files,
        others_restored: seen.others,
        files_kept: seen.kept,
        files_deleted: seen.deleted,
        bytes_restored: seen.bytes,
    })?;
    Ok(if failed { Code::Failure } else { Code::Success })
}

/// Prints the fate of each entry, with the words of restic in JSON.
fn tell_entries(monitor: &Monitor, output: Output) {
    monitor.observe_restore(move |fate, path| {
        let (shown, action) = match fate {
            RestoreFate::Make => ("restore ", "restored"),
            RestoreFate::Replace => ("replace ", "updated"),
            RestoreFate::Leave => ("leave   ", "unchanged"),
            RestoreFate::Delete => ("delete  ", "deleted"),
            _ => return,
        };
        let item = String::from_utf8_lossy(path);
        let line = format!("{shown}{item}");
        // Standard output is closed: nobody can be told.
        drop(output.object(&Entry {
            message_type: "verbose_status",
            action,
            item: &item,
        }));
        drop(output.line(line));
    });
}

/// The paths to include for which the backup has nothing, neither as paths nor as patterns.
fn unmet<'a>(args: &'a Restore, request: &RestoreRequest, is_included: &[bool]) -> Vec<&'a PathBuf> {
    let patterns = request.patterns.unmet();
    let is_met = |path: &PathBuf| wildcards(path).is_some_and(|pattern| !patterns.contains(&pattern));
    let met = args.include.iter().zip(is_included);
    let unmet = met.filter(|(path, is_included)| !**is_included && !is_met(path));
    unmet.map(|(path, _)| path).collect()
}

/// Refuses to delete what the backup may lack only because it could not be read.
fn ensure_all_read(args: &Restore, snapshot: &Snapshot) -> Result<()> {
    let failed = snapshot.backup.totals.files_failed;
    if args.delete && !args.delete_unread && failed > 0 {
        bail!(
            "{} could not be read when backup {} was made, so --delete could delete good files that the backup lacks; nothing was restored: leave out --delete, or add --delete-unread",
            count(failed, "entry", "entries"),
            snapshot.id
        );
    }
    Ok(())
}

/// Refuses options that have no meaning for a stream.
fn refuse_of_trees(args: &Restore, id: onefold::SessionId) -> Result<()> {
    let typed = [
        ("--exclude", !args.exclude.is_empty()),
        ("--iexclude", !args.iexclude.is_empty()),
        ("--sparse", args.sparse != SparseMode::Source),
        ("--owners", args.owners != OwnersMode::Numbers),
        ("--delete", args.delete),
    ];
    match typed.iter().find(|(_, is_typed)| *is_typed) {
        Some((option, _)) => bail!(
            "{option} concerns files and folders, but backup {id} is of one stream; leave the option out"
        ),
        None => Ok(()),
    }
}

/// The library's request for these arguments.
fn request(args: &Restore) -> Result<RestoreRequest> {
    let base = super::absolute(args.id.path.as_slice())?.pop();
    Ok(RestoreRequest::new(args.assembling.options())
        .include(super::absolute(&args.include)?)
        .patterns(super::typed::includes(&args.include)?)
        .excludes(super::typed::excludes(
            [&args.exclude, &args.iexclude],
            [&[], &[]],
        )?)
        .base(base.unwrap_or_default())
        .delete(args.delete)
        .verify(args.verify)
        .overwrite(match args.overwrite {
            OverwriteMode::Always => Overwrite::Always,
            OverwriteMode::IfChanged => Overwrite::IfChanged,
            OverwriteMode::IfNewer => Overwrite::IfNewer,
            OverwriteMode::Never => Overwrite::Never,
        })
        .sparse(match args.sparse {
            SparseMode::Source => Sparse::AsSource,
            SparseMode::Zeros => Sparse::Zeros,
            SparseMode::Never => Sparse::Never,
        })
        .owners(match args.owners {
            OwnersMode::Numbers => Owners::Numbers,
            OwnersMode::Names => Owners::Names,
        }))
}

/// Refuses a target in the store's own folder, because restored files would be among its objects.
fn keep_out_of_store(store: &Path, target: &Path) -> Result<()> {
    let store = store.canonicalize()?;
    let mut existing = std::path::absolute(target)?;
    while !existing.exists() && existing.pop() {}
    if existing.canonicalize()?.starts_with(&store) {
        bail!(
            "{} is in the store's own folder; restore to a folder outside of it",
            target.display()
        );
    }
    Ok(())
}

/// So many entries to delete.
fn surplus(entries: u64) -> String {
    count(
        entries,
        "entry that the backup does not have",
        "entries that the backup does not have",
    )
}
