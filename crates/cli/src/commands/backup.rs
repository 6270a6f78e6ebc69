//! `onefold backup`

mod changed;
mod expand;
mod files;
mod listed;
mod options;
mod stream;
mod tree;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once};

use anyhow::{Context, Result, bail};
use cli_support::Code;
use cli_support::output::{Output, bytes, count, duration, rate_of};
use cli_support::progress::{self, Status};
use onefold::errors::IngestError;
use onefold::operations;
use onefold::repository::Repository;
use onefold::{
    BackupOptions, BackupReport, ChangedBlocks, Error, Filter, ImageSource, Monitor, ParentStream, Store,
    StreamRole, TreeError,
};
use serde::Serialize;
use transport::Traffic;

pub(super) use options::compression;

use super::{optimize, pipeline, place, typed};
use crate::args::{Backup, Global};

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    /// None: no backup was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    same_as: Option<u64>,
    parent: Option<u64>,
    adopted: Vec<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resumed_at: Option<u64>,
    files_new: u64,
    files_changed: u64,
    files_unmodified: u64,
    files_failed: u64,
    files_kept: u64,
    dirs: u64,
    total_files_processed: u64,
    total_bytes_processed: u64,
    bytes_read: u64,
    data_added: u64,
    data_added_packed: u64,
    chunks: u64,
    chunks_new: u64,
    segments: u64,
    segments_known: u64,
    layout: &'static str,
    chunks_capped: u64,
    bytes_capped: u64,
    lookups: Lookups,
    verified: Verified,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_sent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_received: Option<u64>,
    total_duration: f64,
    queues: Vec<pipeline::Queue>,
    stages: Vec<pipeline::Stage>,
}

/// Containers of earlier backups that this one has read.
#[derive(Serialize)]
struct Verified {
    containers: u64,
    bytes: u64,
    /// Damaged ones among them, whose chunks this backup stored again.
    damaged: u64,
    /// Containers that got slots back, whichever command found their damage.
    healed: u64,
    healed_slots: u64,
}

#[derive(Serialize)]
struct Lookups {
    asked: u64,
    cached: u64,
    index_reads: u64,
    catalogs: u64,
    catalogs_false: u64,
    catalogs_failed: u64,
}

pub(crate) fn run(global: &Global, args: &Backup, output: Output) -> Result<Code> {
    let opened = if args.dry_run {
        place::open_for_dry_run(global)?
    } else {
        super::open_anywhere(global)?
    };
    let store = opened.repository();
    let options = options::of(args)?;
    let stop = super::cancel_flag()?;
    let monitor = Monitor::new(Arc::clone(&stop));
    if global.verbosity() > 1 {
        files::tell(&monitor, output);
    }
    let is_stream = args.stdin || args.stdin_from_command;
    let (tree, unread) = if is_stream || args.image_kib.is_some() {
        (None, 0)
    } else {
        let (tree, unread) = tree::options(global, args, output)?;
        (Some(tree), unread)
    };
    let counting = Once::new();
    let status = || {
        // Counting reads every file's metadata once more. So it starts late, and a backup that ends
        // before anybody could want progress does without it.
        if let Some(tree) = &tree {
            counting.call_once(|| tree::count_ahead(tree, &monitor));
        }
        Status {
            done: monitor.counters.bytes_logical.get(),
            total: monitor.work_total(),
            files_done: monitor.counters.files.get(),
            errors: monitor.counters.files_failed.get(),
            current: monitor.counters.current(),
            ..Status::default()
        }
    };
    let mut faults = |fault: &TreeError| {
        // Standard error is closed: nobody can be told.
        drop(output.warn(format!("warning: {fault}")));
    };
    let report = progress::beside(output, "backup", &status, || -> Result<BackupReport> {
        let Some(tree) = &tree else {
            if let Some(kib) = args.image_kib.filter(|_| !is_stream) {
                return image(store, args, kib, (&options, output), &monitor);
            }
            let name = PathBuf::from(typed::stream_name(&args.stdin_filename)?);
            let mut source = stream::Stream::open(args, &stop)?;
            let stream = onefold::StreamOptions::default().resumes(args.resume);
            return Ok(operations::back_up_stream(
                store,
                &options,
                &name,
                &stream,
                &mut source,
                &monitor,
            )?);
        };
        Ok(operations::back_up_tree(
            store,
            &options,
            tree,
            &monitor,
            &mut faults,
        )?)
    });
    let report = match report {
        // The signal ends the reading of a stream, and may have ended the command that writes it.
        Err(error) if is_stream && stop.load(Ordering::Relaxed) && stream::is_of_source(&error) => {
            return Err(Error::Ingest(IngestError::Interrupted).into());
        }
        report => report?,
    };
    print(output, &report, (opened.traffic(), args.dry_run))?;
    super::tell_notes(&monitor, output)?;
    if args.resume {
        tell_resumed(output, &report)?;
    }
    if let Some(tree) = &tree {
        super::tell_patterns(&tree.excludes, output)?;
    }
    if let Some(store) = opened
        .local()
        .filter(|_| !args.dry_run && report.same_as.is_none())
        && report.settings.optimize_after_backup
        && report.settings.is_optimized()
    {
        optimize_after(store, &report, output)?;
    }
    Ok(if report.totals.files_failed > 0 || unread > 0 {
        Code::Incomplete
    } else {
        Code::Success
    })
}

/// The backup is safe. So a failure here is only reported, and the next backup or `onefold
/// optimize` does the rest.
fn optimize_after(store: &Store, report: &BackupReport, output: Output) -> Result<()> {
    let Some(name) = &report.settings.name else {
        return Ok(());
    };
    match optimize::optimize(store, Some(store.series_id(name)), None, output) {
        Ok(done) => {
            optimize::say(&done, output)?;
            optimize::say_unpruned(&done, output)
        }
        Err(error) => Ok(output.warn(format!(
            "backup {} is safe, but the optimize after it failed: {error:#}. Run `onefold optimize` to try again",
            report.id
        ))?),
    }
}

fn image(
    store: &dyn Repository,
    args: &Backup,
    kib: u32,
    (options, output): (&BackupOptions, Output),
    monitor: &Monitor,
) -> Result<BackupReport> {
    let [path] = args.paths.as_slice() else {
        bail!("--image-kib takes one path, the image; name exactly one")
    };
    typed::ensure_expanded(path)?;
    let found = path.metadata().with_context(|| path.display().to_string())?;
    let path = onefold::TypedPath::new(&typed::here(std::slice::from_ref(path))?, path);
    let (path, is_folder) = (path.as_path(), found.is_dir());
    if is_folder {
        bail!("{} is a folder: back it up without --image-kib", path.display());
    }
    let chunk = kib.checked_mul(1024).context("--image-kib is too large")?;
    let stream = onefold::StreamOptions::fixed(chunk).resumes(args.resume);
    let mut source = ImageSource::open(path)?;
    let len = source.len();
    monitor.set_total(len);
    if let Some(list) = &args.changed_blocks {
        let changed = changed::read(list)?;
        if let Some((parent, parent_len)) = changed_since(store, args, options, path)? {
            let file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
            let mut source = ChangedBlocks::new(file, len, parent_len, &changed, chunk);
            let stream = stream.clone().parents(vec![parent]);
            let made = operations::back_up_stream(store, options, path, &stream, &mut source, monitor);
            match made {
                Err(Error::Ingest(IngestError::UnsoundCopy { .. })) => monitor.counters.clear(),
                made => return Ok(made?),
            }
            output.warn(format!(
                "warning: blocks of backup {} are damaged, so the whole image is read",
                parent.backup
            ))?;
        } else {
            output.warn(format!(
                "warning: there is no earlier backup of {}, so the whole image is read",
                path.display()
            ))?;
        }
    }
    let made = operations::back_up_stream(store, options, path, &stream, &mut source, monitor);
    Ok(made?)
}

/// The stream from which the image's unchanged blocks are taken, and its length. `None`: the image
/// has no earlier backup.
fn changed_since(
    store: &dyn Repository,
    args: &Backup,
    options: &BackupOptions,
    path: &Path,
) -> Result<Option<(ParentStream, u64)>> {
    let own = Filter::default()
        .hosts(vec![options.host.clone()])
        .paths(vec![path.as_os_str().as_bytes().to_vec()]);
    let since = match &args.changed_since {
        Some(id) => store.find(id, &Filter::default())?,
        None => {
            let list = store.snapshots()?.snapshots;
            let newest = list.into_iter().rev().find(|one| own.lets_through(&one.backup));
            let Some(newest) = newest else { return Ok(None) };
            newest
        }
    };
    let role = StreamRole::Whole;
    let stream = since.backup.streams.iter().find(|stream| stream.role == role);
    let stream = stream.with_context(|| format!("backup {} is of files, and has no image", since.id))?;
    Ok(Some((ParentStream::new(since.id, role), stream.len)))
}

/// Reports damage that this backup has found in earlier ones, and the containers that it healed.
fn tell_damage(output: Output, report: &BackupReport) -> Result<()> {
    for (container, _) in &report.verified.bad {
        output.warn(format!(
            "warning: {container}, which earlier backups refer to, is damaged. This backup stored again what it needs of it"
        ))?;
    }
    for healed in &report.healed {
        let rest = match healed.left {
            0 => String::new(),
            left => format!(
                ". {} still damaged; `onefold check --read-data` names the files",
                count(left, "chunk is", "chunks are")
            ),
        };
        output.line(format!(
            "healed {} of {} for the earlier backups{rest}",
            count(healed.slots, "damaged chunk", "damaged chunks"),
            healed.container
        ))?;
    }
    Ok(())
}

fn print(output: Output, report: &BackupReport, (traffic, is_dry): (Option<&Traffic>, bool)) -> Result<()> {
    #[expect(clippy::cast_precision_loss, reason = "three figures are shown")]
    let seconds = report.elapsed_nanos as f64 / 1e9;
    let totals = &report.totals;
    for untidy in &report.warnings {
        output.warning(untidy, &format!("warning: the backup is safe, but: {untidy}"))?;
    }
    if !report.adopted.is_empty() {
        output.line(format!(
            "continued {} that had been interrupted",
            count(report.adopted.len() as u64, "backup", "backups")
        ))?;
    }
    output.line(format!(
        "files:  {} new, {} changed, {} unchanged{}",
        totals.files_new,
        totals.files_changed,
        totals.files_unchanged,
        if totals.files_failed > 0 {
            format!(", {} not read as they were", totals.files_failed)
        } else {
            String::new()
        }
    ))?;
    if report.files_kept > 0 {
        output.line(format!(
            "        {} could not be read and {} as the backup before has {}",
            count(report.files_kept, "file", "files"),
            if report.files_kept == 1 { "stays" } else { "stay" },
            if report.files_kept == 1 { "it" } else { "them" },
        ))?;
    }
    let resumed = report.resumed_at.unwrap_or(0);
    output.line(format!(
        "data:   {} = {} read + {} unchanged or empty{}",
        bytes(totals.bytes_logical),
        bytes(totals.bytes_read.min(totals.bytes_logical)),
        bytes(
            totals
                .bytes_logical
                .saturating_sub(totals.bytes_read.saturating_add(resumed))
        ),
        match resumed {
            0 => String::new(),
            before => format!(" + {} stored before", bytes(before)),
        }
    ))?;
    output.line(if totals.bytes_new == 0 && totals.bytes_stored == 0 {
        "new:    nothing; the store had all of it".to_owned()
    } else {
        format!(
            "new:    {} of {}, stored in {}",
            bytes(totals.bytes_new),
            if totals.folders > 0 {
                "data and file lists"
            } else {
                "data"
            },
            bytes(totals.bytes_stored)
        )
    })?;
    if let Some(traffic) = traffic {
        output.line(format!(
            "network: {} sent, {} received",
            bytes(traffic.sent()),
            bytes(traffic.received())
        ))?;
    }
    tell_damage(output, report)?;
    if output.verbose {
        print_details(output, report)?;
    }
    let took = format!(
        "{}{}",
        duration(seconds),
        rate_of(totals.bytes_read, seconds, true)
    );
    output.line(match report.same_as {
        Some(same) => format!("all is as in backup {same}, so no backup was made, in {took}"),
        None if is_dry => format!("a dry run: no backup was made, in {took}"),
        None => format!("backup {} saved in {took}", report.id),
    })?;
    output.object(&Summary {
        dry_run: is_dry,
        snapshot_id: (report.same_as.is_none() && !is_dry).then_some(report.id.get()),
        ..summary(report, seconds, traffic)
    })?;
    Ok(())
}

/// Prints the details of `--verbose`: chunks, look-ups and stages.
fn print_details(output: Output, report: &BackupReport) -> Result<()> {
    let totals = &report.totals;
    output.line(format!(
        "verified: {} in {} of earlier backups that this one refers to",
        bytes(report.verified.bytes),
        count(report.verified.containers, "container", "containers")
    ))?;
    output.line(format!(
        "chunks: {} of {} new; segments: {} of {} known whole",
        totals.chunks_new, totals.chunks, totals.segments_known, totals.segments
    ))?;
    let lookups = &report.lookups;
    output.line(format!(
        "look-ups: {}, {} answered by prefetched catalogs, {} answered by the index; {} prefetched, {} of them in vain",
        lookups.lookups,
        lookups.hits_cached,
        lookups.index_reads,
        count(lookups.catalog_loads, "catalog", "catalogs"),
        lookups.false_loads
    ))?;
    if report.chunks_capped > 0 {
        output.line(format!(
            "stored again by --cap, to keep restores fast: {}, {}",
            count(report.chunks_capped, "chunk", "chunks"),
            bytes(report.bytes_capped)
        ))?;
    }
    pipeline::print(output, report)
}

/// Reports whether `--resume` found a backup to continue.
fn tell_resumed(output: Output, report: &BackupReport) -> Result<()> {
    match report.resumed_at {
        Some(position) => output.line(format!(
            "resumed: the first {} were stored by the interrupted backup",
            bytes(position)
        ))?,
        None => output.warn(
            "warning: no interrupted backup of this name could be resumed, so this one began anew. Either there is none \
             since the last prune, or it had stored little, or its chunks have other lengths, or it is damaged",
        )?,
    }
    Ok(())
}

/// The report as an object for JSON.
fn summary(report: &BackupReport, seconds: f64, traffic: Option<&Traffic>) -> Summary {
    let totals = &report.totals;
    Summary {
        message_type: "summary",
        dry_run: false,
        snapshot_id: Some(report.id.get()),
        same_as: report.same_as.map(onefold::SessionId::get),
        parent: report.parent.map(onefold::SessionId::get),
        adopted: report.adopted.iter().map(|session| session.get()).collect(),
        resumed_at: report.resumed_at,
        files_new: totals.files_new,
        files_changed: totals.files_changed,
        files_unmodified: totals.files_unchanged,
        files_failed: totals.files_failed,
        files_kept: report.files_kept,
        dirs: totals.folders,
        total_files_processed: totals.files,
        total_bytes_processed: totals.bytes_logical,
        bytes_read: totals.bytes_read,
        data_added: totals.bytes_new,
        data_added_packed: totals.bytes_stored,
        chunks: totals.chunks,
        chunks_new: totals.chunks_new,
        segments: totals.segments,
        segments_known: totals.segments_known,
        layout: report.settings.layout.word(),
        chunks_capped: report.chunks_capped,
        bytes_capped: report.bytes_capped,
        lookups: Lookups {
            asked: report.lookups.lookups,
            cached: report.lookups.hits_cached,
            index_reads: report.lookups.index_reads,
            catalogs: report.lookups.catalog_loads,
            catalogs_false: report.lookups.false_loads,
            catalogs_failed: report.lookups.failed_loads,
        },
        verified: Verified {
            containers: report.verified.containers,
            bytes: report.verified.bytes,
            damaged: report.verified.bad.len() as u64,
            healed: report.healed.len() as u64,
            healed_slots: report.healed.iter().map(|healed| healed.slots).sum(),
        },
        bytes_sent: traffic.map(Traffic::sent),
        bytes_received: traffic.map(Traffic::received),
        total_duration: seconds,
        queues: pipeline::queues(report),
        stages: pipeline::stages(report),
    }
}
