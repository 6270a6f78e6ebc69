//! `onefold stats`

mod history;

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use cli_support::Code;
use cli_support::output::{Output, bytes, count, lossy, thousands};
use cli_support::progress::{self, Status};
use onefold::repository::Repository;
use onefold::{BackupLayout, IndexStats, Monitor, Snapshot, SnapshotList, Store, StoreStats, operations};
use serde::Serialize;

use crate::args::{ALL, Global, LATEST, Stats};

#[derive(Serialize)]
struct Totals {
    message_type: &'static str,
    backups: u64,
    total_size: u64,
    stored_size: u64,
    hole_size: u64,
    objects: BTreeMap<&'static str, Kind>,
}

#[derive(Serialize)]
struct Namespace {
    message_type: &'static str,
    backups: u64,
    total_size: u64,
    added_size: u64,
}

#[derive(Serialize)]
struct Kind {
    count: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Index {
    message_type: &'static str,
    held: &'static str,
    sampling_period: u64,
    node_sampling_period: u64,
    hooks: u64,
    node_hooks: u64,
    bytes: u64,
    bytes_per_hook: f64,
    load: Option<f64>,
    false_loads_per_gib: f64,
    predicted_efficiency: f64,
}

#[derive(Serialize)]
struct Layout {
    message_type: &'static str,
    snapshot_id: u64,
    bytes: u64,
    containers_read: u64,
    speed_factor: Option<f64>,
    share_of_perfect: f64,
    chain: usize,
}

#[derive(Serialize)]
struct SeriesLine {
    message_type: &'static str,
    series: String,
    hostname: String,
    paths: Vec<String>,
    backups: u64,
    total_size: u64,
    added_size: u64,
    /// None: a backup of it cannot be read whole.
    exclusive_size: Option<u64>,
}

#[derive(Serialize)]
struct BackupLine {
    message_type: &'static str,
    snapshot_id: u64,
    exclusive_size: Option<u64>,
}

pub(crate) fn run(global: &Global, args: &Stats, output: Output) -> Result<Code> {
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    if args.exclusive && opened.local().is_none() {
        bail!("--exclusive needs the store itself, and this one is on a server: run it on the server");
    }
    if let Some(file) = args.svg.as_deref().filter(|file| file.symlink_metadata().is_ok()) {
        bail!("{} exists; name a new file", file.display());
    }
    let backups = match opened.local() {
        Some(store) => {
            let stats = store.stats()?;
            show_totals(&stats, output)?;
            show_index(&stats.index, output)?;
            stats.backups
        }
        None => show_namespace(&store.snapshots()?, output)?,
    };
    let chosen = chosen(store, args, backups)?;
    let monitor = Monitor::new(super::cancel_flag()?);
    monitor.set_total(
        chosen
            .iter()
            .flat_map(|snapshot| &snapshot.backup.streams)
            .map(|stream| stream.len)
            .sum(),
    );
    let status = || Status::of(&monitor);
    let layouts = progress::beside(output, "stats", &status, || {
        operations::layouts(store, &chosen, &monitor)
    })?;
    super::tell_notes(&monitor, output)?;
    show_layouts(&layouts, output)?;
    history::show(&chosen, &layouts, output)?;
    if let Some(file) = &args.svg {
        history::draw(&chosen, &layouts, file)?;
    }
    if let Some(store) = opened.local().filter(|_| args.exclusive) {
        show_shares(store, &chosen, output)?;
    }
    Ok(Code::Success)
}

/// The backups whose layout is shown: the latest, all, or the named ones.
fn chosen(store: &dyn Repository, args: &Stats, backups: u64) -> Result<Vec<Snapshot>> {
    let filter = super::filter(&args.filter)?;
    match args.ids.as_slice() {
        [] if backups == 0 => Ok(Vec::new()),
        [] => Ok(vec![store.find(LATEST, &filter)?]),
        [all] if all == ALL => {
            let mut all = store.snapshots()?.snapshots;
            all.retain(|snapshot| filter.lets_through(&snapshot.backup));
            Ok(all)
        }
        ids => ids.iter().map(|id| Ok(store.find(id, &filter)?)).collect(),
    }
}

/// Prints the bytes of a namespace's backups. The store is shared with other namespaces, so its
/// space says nothing about one. Returns the number of backups.
fn show_namespace(list: &SnapshotList, output: Output) -> Result<u64> {
    let totals = list.snapshots.iter().map(|snapshot| &snapshot.backup.totals);
    let (backups, total_size, added_size) = totals.fold((0, 0, 0), |(backups, total, added), of_one| {
        (
            backups + 1,
            total + of_one.bytes_logical,
            added + of_one.bytes_stored,
        )
    });
    output.result(format!("backups  {:>12}", thousands(backups)))?;
    output.result(format!(
        "data     {:>12}  as all backups restored would take",
        bytes(total_size)
    ))?;
    output.result(format!(
        "added    {:>12}  to the server's store, where other namespaces may use it too{}",
        bytes(added_size),
        share(total_size, added_size)
    ))?;
    output.object(&Namespace {
        message_type: "stats",
        backups,
        total_size,
        added_size,
    })?;
    Ok(backups)
}

/// Prints the bytes of the backups, and the space of the store.
fn show_totals(stats: &StoreStats, output: Output) -> Result<()> {
    let stored = stats.stored_bytes();
    output.result(format!("backups  {:>12}", thousands(stats.backups)))?;
    output.result(format!(
        "data     {:>12}  as all backups restored would take",
        bytes(stats.logical_bytes)
    ))?;
    output.result(format!(
        "store    {:>12}{}",
        bytes(stored),
        share(stats.logical_bytes, stored)
    ))?;
    let holding = stats.kinds.iter().filter(|(kind, _)| **kind != "reserve");
    for (kind, of_kind) in holding {
        output.result(format!(
            "  {kind:8} {:>10}  {:>8} {:7}  {}",
            bytes(of_kind.bytes),
            thousands(of_kind.objects),
            if of_kind.objects == 1 { "object" } else { "objects" },
            meaning(kind)
        ))?;
    }
    if stats.holes.bytes > 0 {
        output.result(format!(
            "holes    {:>12}  of that given back to the disk, in {}; a copy that keeps no holes takes this space again",
            bytes(stats.holes.bytes),
            count(stats.holes.objects, "object", "objects"),
        ))?;
    }
    if stats.reserve_bytes() > 0 {
        output.result(format!(
            "reserve  {:>12}  on top; prune uses it when the disk is full",
            bytes(stats.reserve_bytes())
        ))?;
    }
    let kind = |(name, kind): (&&'static str, &onefold::KindStats)| {
        (
            *name,
            Kind {
                count: kind.objects,
                bytes: kind.bytes,
            },
        )
    };
    output.object(&Totals {
        message_type: "stats",
        backups: stats.backups,
        total_size: stats.logical_bytes,
        stored_size: stored,
        hole_size: stats.holes.bytes,
        objects: stats.kinds.iter().map(kind).collect(),
    })?;
    Ok(())
}

/// Prints the layout of each backup.
fn show_layouts(layouts: &[BackupLayout], output: Output) -> Result<()> {
    if !layouts.is_empty() {
        output.line(
            "\nA restore reads containers. It is fastest when it needs every byte of each container that it reads (100 %).",
        )?;
    }
    for layout in layouts {
        let is_finite = layout.speed_factor.is_finite();
        let factor = if is_finite {
            format!("{:.2} MiB from each", layout.speed_factor)
        } else {
            "nothing from any".to_owned()
        };
        output.result(format!(
            "backup {:>6}: reads {}, {factor} ({:.0} %){}",
            layout.id,
            count(layout.containers_read, "container", "containers"),
            layout.share_of_perfect * 100.0,
            match layout.chain {
                0 => String::new(),
                chain => format!(
                    "; archival, refers to data of up to {}",
                    count(chain as u64, "later backup", "later backups")
                ),
            }
        ))?;
        output.object(&Layout {
            message_type: "layout",
            snapshot_id: layout.id.get(),
            bytes: layout.bytes,
            containers_read: layout.containers_read,
            speed_factor: is_finite.then_some(layout.speed_factor),
            share_of_perfect: layout.share_of_perfect,
            chain: layout.chain,
        })?;
    }
    Ok(())
}

/// Prints what only one series has, and only one of the chosen backups.
fn show_shares(store: &Store, chosen: &[Snapshot], output: Output) -> Result<()> {
    let monitor = Monitor::new(super::cancel_flag()?);
    let status = || Status::of(&monitor);
    let (shares, warnings) = progress::beside(output, "stats", &status, || store.shares(&monitor))?;
    for warning in &warnings {
        output.warning(warning, &format!("warning: {warning}"))?;
    }
    output.line("\nWhat only one series has comes back if all of its backups are forgotten and pruned.")?;
    let shown = |bytes_alone: Option<u64>| bytes_alone.map_or_else(|| "?".to_owned(), bytes);
    for share in &shares.series {
        let paths: Vec<String> = share.name.paths.iter().map(|path| lossy(path)).collect();
        output.result(format!(
            "{:>10} of {:>10} added, {:>10} of data, {}: {}:{}",
            shown(share.exclusive_bytes),
            bytes(share.added_bytes),
            bytes(share.logical_bytes),
            count(share.backups, "backup", "backups"),
            lossy(&share.name.host),
            paths.join(",")
        ))?;
        output.object(&SeriesLine {
            message_type: "series_share",
            series: share.id.to_string(),
            hostname: lossy(&share.name.host),
            paths,
            backups: share.backups,
            total_size: share.logical_bytes,
            added_size: share.added_bytes,
            exclusive_size: share.exclusive_bytes,
        })?;
    }
    for snapshot in chosen {
        let alone = shares.backups.get(&snapshot.id).copied();
        output.result(format!("{:>10} only backup {} has", shown(alone), snapshot.id))?;
        output.object(&BackupLine {
            message_type: "backup_share",
            snapshot_id: snapshot.id.get(),
            exclusive_size: alone,
        })?;
    }
    Ok(())
}

/// The size of the store as a share of the data's, and why it is smaller.
fn share(logical: u64, stored: u64) -> String {
    if logical == 0 || stored == 0 {
        return "  no data is stored yet".to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "two figures are shown")]
    let (logical, stored) = (logical as f64, stored as f64);
    format!(
        "  {:.1} % of the data (1 : {:.2}): equal data is stored once, and compressed",
        stored / logical * 100.0,
        logical / stored
    )
}

/// The purpose of a kind of objects, in a phrase.
fn meaning(kind: &str) -> &'static str {
    match kind {
        "data" => "what files and streams hold",
        "archive" => "data of archival backups alone",
        "small" => "small backups, each whole",
        "recipe" => "where the data of each backup lies",
        "catalog" => "copies of what containers list",
        "index" => "to find data that is stored already",
        "mirror" => "second copies of small and recipe containers",
        _ => "settings, keys, and records of backups and commands",
    }
}

/// Prints the index that look-ups use: the one on disk, or the one in memory.
fn show_index(stats: &IndexStats, output: Output) -> Result<()> {
    #[expect(clippy::cast_precision_loss, reason = "two figures are shown")]
    let bytes_per_hook = stats.bytes as f64 / stats.entries.max(1) as f64;
    let on_disk = Index {
        message_type: "index",
        held: "disk",
        sampling_period: stats.rates.data.period(),
        node_sampling_period: stats.rates.node.period(),
        hooks: stats.entries,
        node_hooks: stats.node_entries,
        bytes: stats.bytes,
        bytes_per_hook,
        load: None,
        false_loads_per_gib: stats.false_loads_per_gib,
        predicted_efficiency: stats.predicted_efficiency,
    };
    let shown = match stats.memory {
        None => on_disk,
        Some(memory) => Index {
            held: "memory",
            sampling_period: memory.rates.data.period().max(on_disk.sampling_period),
            node_sampling_period: memory.rates.node.period().max(on_disk.node_sampling_period),
            hooks: memory.entries.iter().sum(),
            node_hooks: memory.entries[1],
            bytes: memory.bytes,
            bytes_per_hook: memory.bytes_per_entry,
            load: Some(memory.load),
            ..on_disk
        },
    };
    output.result(format!("index: {}", index_in_words(&shown)))?;
    output.object(&shown)?;
    Ok(())
}

/// How many fingerprints the index keeps, and what that means for the next backup.
fn index_in_words(shown: &Index) -> String {
    let one_in = |period: u64, what: &str| match period {
        1 => format!("all {what}"),
        _ => format!("one in {} {what}", thousands(period)),
    };
    let sampling = if shown.sampling_period == 1 && shown.node_sampling_period == 1 {
        "all kept (sampling 1/1)".to_owned()
    } else {
        format!(
            "of {} and {}",
            one_in(shown.sampling_period, "chunks"),
            one_in(shown.node_sampling_period, "segments")
        )
    };
    let load = shown
        .load
        .map_or_else(String::new, |load| format!(", {:.0} % full", load * 100.0));
    let vain = if shown.false_loads_per_gib < 0.000_5 {
        String::new()
    } else {
        format!(
            ", and to read {:.3} catalogs in vain for each GiB of new data",
            shown.false_loads_per_gib
        )
    };
    format!(
        "{}, {sampling}, {:.1} bytes each {}{load}; predicted to find {:.1} % of duplicates{vain}",
        count(shown.hooks, "fingerprint", "fingerprints"),
        shown.bytes_per_hook,
        if shown.held == "memory" {
            "in memory"
        } else {
            "on disk"
        },
        shown.predicted_efficiency * 100.0,
    )
}
