//! `onefold stats`

use std::collections::BTreeMap;

use anyhow::Result;
use onefold::{IndexStats, Monitor};
use serde::Serialize;

use crate::args::{ALL, Global, LATEST, Stats};
use crate::exit::Code;
use crate::output::{Output, bytes, count, thousands};
use crate::progress::{self, Status};

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

pub(crate) fn run(global: &Global, args: &Stats, output: Output) -> Result<Code> {
    let store = super::open(global)?;
    let stats = store.stats()?;
    let stored = stats.stored_bytes();
    output.result(format!("backups  {:>12}", thousands(stats.backups)))?;
    output.result(format!("in all   {:>12}", bytes(stats.logical_bytes)))?;
    #[expect(clippy::cast_precision_loss, reason = "two figures are shown")]
    let ratio = if stored > 0 {
        stats.logical_bytes as f64 / stored as f64
    } else {
        0.0
    };
    output.result(format!("stored   {:>12}  (1 : {ratio:.2})", bytes(stored)))?;
    let holding = stats.kinds.iter().filter(|(kind, _)| **kind != "reserve");
    for (kind, of_kind) in holding {
        output.result(format!(
            "  {kind:8} {:>10}  {:>10} objects",
            bytes(of_kind.bytes),
            thousands(of_kind.objects)
        ))?;
    }
    if stats.holes.bytes > 0 {
        output.result(format!(
            "holes    {:>12}  given back to the disk within {}: a copy of the store that keeps no holes takes them again",
            bytes(stats.holes.bytes),
            count(stats.holes.objects, "object", "objects"),
        ))?;
    }
    if stats.reserve_bytes() > 0 {
        output.result(format!(
            "reserve  {:>12}  given up when the disk is full",
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
    output.line(in_words(stats.backups, stats.logical_bytes, stored))?;
    output.object(&Totals {
        message_type: "stats",
        backups: stats.backups,
        total_size: stats.logical_bytes,
        stored_size: stored,
        hole_size: stats.holes.bytes,
        objects: stats.kinds.iter().map(kind).collect(),
    })?;
    show_index(&stats.index, output)?;
    let filter = super::filter(&args.filter)?;
    let chosen = match args.ids.as_slice() {
        [] if stats.backups == 0 => Vec::new(),
        [] => vec![store.find(LATEST, &filter)?],
        [all] if all == ALL => {
            let mut all = store.snapshots()?.snapshots;
            all.retain(|snapshot| filter.lets_through(&snapshot.backup));
            all
        }
        ids => {
            let mut chosen = Vec::new();
            for id in ids {
                chosen.push(store.find(id, &filter)?);
            }
            chosen
        }
    };
    let monitor = Monitor::new(super::cancel_flag()?);
    monitor.set_total(
        chosen
            .iter()
            .flat_map(|snapshot| &snapshot.backup.streams)
            .map(|stream| stream.len)
            .sum(),
    );
    let status = || Status::of(&monitor);
    let layouts = progress::beside(output, "stats", &status, || store.layouts(&chosen, &monitor))?;
    super::tell_notes(&monitor, output)?;
    if !layouts.is_empty() {
        output.line(
            "\nTo restore a backup, containers are read. The more of each it needs, the faster it is; at best it needs all of \
             each, which is 1.00 of perfect:",
        )?;
    }
    for layout in layouts {
        let is_finite = layout.speed_factor.is_finite();
        let factor = if is_finite {
            format!("{:.2} MiB", layout.speed_factor)
        } else {
            "-".to_owned()
        };
        output.result(format!(
            "backup {:>6}: {} read a container, {:.2} of perfect, {} containers{}",
            layout.id,
            factor,
            layout.share_of_perfect,
            thousands(layout.containers_read),
            match layout.chain {
                0 => String::new(),
                chain => format!(", archival: {} forward", count(chain as u64, "backup", "backups")),
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
    Ok(Code::Success)
}

/// The figures in a sentence.
fn in_words(backups: u64, logical: u64, stored: u64) -> String {
    if backups == 0 {
        return "there is no backup in this store".to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "two figures are shown")]
    let share = stored as f64 / logical.max(1) as f64;
    format!(
        "{} of {} in all {} {} in the store: what is equal is stored once, and what can be is compressed{}",
        count(backups, "backup", "backups"),
        bytes(logical),
        if backups == 1 { "takes" } else { "take" },
        bytes(stored),
        if logical > 0 {
            format!(" ({:.1} % of it)", share * 100.0)
        } else {
            String::new()
        }
    )
}

/// What look-ups go to: the index on disk, or where it is held in memory, that.
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
    let rate = |period: u64| {
        if period == 1 {
            "1".to_owned()
        } else {
            format!("1/{period}")
        }
    };
    output.result(format!(
        "hooks    {:>12}  {}: R {} for chunks, {} for nodes; {:.2} bytes each{}",
        thousands(shown.hooks),
        if stats.memory.is_some() {
            "in memory"
        } else {
            "on disk"
        },
        rate(shown.sampling_period),
        rate(shown.node_sampling_period),
        shown.bytes_per_hook,
        shown
            .load
            .map_or_else(String::new, |load| format!(", {:.0} % full", load * 100.0)),
    ))?;
    output.result(format!(
        "         {:>10.1} %  of duplicates found by R (predicted), {:.3} catalogs a GiB loaded for nothing (expected)",
        shown.predicted_efficiency * 100.0,
        shown.false_loads_per_gib,
    ))?;
    output.object(&shown)?;
    Ok(())
}
