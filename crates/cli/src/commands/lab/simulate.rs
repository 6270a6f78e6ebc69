//! `onefold lab simulate`

use std::fs::File;
use std::io::BufReader;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use lab::analyze::assembly_name;
use lab::simulate::{Averages, Finding, Looked, Memory, Outcome, Policy, Schedule, Settings, Simulator};
use lab::{Extent, LabError, open_trace};
use onefold::{Capping, LookupMemory};
use serde::Serialize;

use super::{Counted, status};
use crate::args::{Simulate, capping_of};
use crate::exit::Code;
use crate::output::{Output, bytes, count, thousands};
use crate::progress;

/// So many lines are shown of what was over time, at most.
const ROWS: usize = 20;

#[derive(Serialize)]
struct Simulated<'a> {
    message_type: &'static str,
    name: &'a str,
    full: bool,
    chunks: u64,
    bytes: u64,
    bytes_new: u64,
    bytes_kept: u64,
    bytes_stored: u64,
    containers: u64,
    deduplication_factor: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    looked: Option<LookedLine>,
    restored: Vec<RestoredLine>,
}

/// What the engine's look-ups did.
#[derive(Serialize)]
struct LookedLine {
    segments: u64,
    segments_known: u64,
    chunks_new: u64,
    chunks_capped: u64,
    bytes_capped: u64,
    lookups: u64,
    lookups_cached: u64,
    lookups_index: u64,
    catalogs_loaded: u64,
    index_bytes: u64,
    index_hooks: u64,
    /// One chunk in so many has a hook.
    index_period: u64,
}

impl LookedLine {
    fn of(looked: &Looked) -> Self {
        Self {
            segments: looked.segments,
            segments_known: looked.segments_known,
            chunks_new: looked.chunks_new,
            chunks_capped: looked.chunks_capped,
            bytes_capped: looked.bytes_capped,
            lookups: looked.lookups.lookups,
            lookups_cached: looked.lookups.hits_cached,
            lookups_index: looked.lookups.index_reads,
            catalogs_loaded: looked.lookups.catalog_loads,
            index_bytes: looked.index.bytes,
            index_hooks: looked.index.entries.iter().sum(),
            index_period: looked.period,
        }
    }
}

/// Averages of the last backups.
#[derive(Serialize)]
struct AveragesLine {
    message_type: &'static str,
    backups: usize,
    deduplication_factor: f64,
    speeds: Vec<SpeedLine>,
}

#[derive(Serialize)]
struct SpeedLine {
    memory_bytes: u64,
    assembly: &'static str,
    /// Their mean.
    speed_factor: f64,
    /// The mean; the inverse of the other only where all backups are equally fast.
    containers_a_mib: f64,
}

#[derive(Serialize)]
struct RestoredLine {
    memory_bytes: u64,
    assembly: &'static str,
    containers_read: u64,
    speed_factor: Option<f64>,
}

pub(super) fn run(args: &Simulate, output: Output) -> Result<Code> {
    let each = args.memory.iter();
    let memories = each.flat_map(|bytes| {
        args.assembly.iter().map(|assembly| Memory {
            bytes: *bytes,
            assembly: assembly.assembly(),
        })
    });
    let finding = if args.engine {
        Finding::Engine(Policy {
            capping: Capping {
                window_bytes: args.cap_window,
                ..capping_of(args.cap, args.cap_remember)
            },
            memory: LookupMemory::within(args.lookup_mib << 20),
            index_bytes: (args.index_mib as usize) << 20,
            sampling: args.sample,
            warm: args.warm,
            ..Policy::default()
        })
    } else {
        Finding::Exact { seal: args.seal }
    };
    let schedule = match (args.keep, args.keep_generations) {
        (Some(keep), _) => Schedule::Cycle(keep as usize),
        (None, Some([sons, fathers, grandfathers])) => Schedule::Generations {
            sons,
            fathers,
            grandfathers,
        },
        (None, None) => Schedule::All,
    };
    let settings = Settings {
        container_bytes: u64::from(args.container_mib) << 20,
        finding,
        schedule,
        memories: memories.collect(),
        skip: args.skip,
    };
    let (cancelled, done) = (crate::commands::cancel_flag()?, AtomicU64::new(0));
    let mut outcomes = Vec::new();
    let simulator = Simulator::new(settings.clone(), |outcome| {
        // At once: with `--json` a long simulation that is stopped has told what it knew.
        tell_one(&outcome, output).map_err(|source| LabError::Io {
            what: "standard output".to_owned(),
            source,
        })?;
        outcomes.push(outcome);
        Ok(())
    })?;
    let simulator = simulator.until(Arc::clone(&cancelled));
    let mut sink = Counted::new(simulator, &cancelled, &done);
    progress::beside(output, "simulate", &|| status(&done), || {
        args.traces.iter().try_for_each(|trace| -> Result<()> {
            let name = trace.display().to_string();
            let file = if trace == Path::new("-") {
                std::io::stdin().as_fd().try_clone_to_owned().map(File::from)
            } else {
                File::open(trace)
            };
            let file = file.with_context(|| name.clone())?;
            open_trace(name, BufReader::with_capacity(1 << 20, file))?.replay(&mut sink)?;
            Ok(())
        })
    })?;
    tell(&outcomes, &settings, output)?;
    Ok(Code::Success)
}

fn tell_one(outcome: &Outcome, output: Output) -> std::io::Result<()> {
    let restored = outcome.restored.iter().map(|one| RestoredLine {
        memory_bytes: one.memory.bytes,
        assembly: assembly_name(one.memory.assembly),
        containers_read: one.containers_read,
        speed_factor: one.speed_factor(),
    });
    output.object(&Simulated {
        message_type: "lab_backup",
        name: &outcome.name,
        full: outcome.extent == Extent::Full,
        chunks: outcome.chunks,
        bytes: outcome.bytes,
        bytes_new: outcome.bytes_new,
        bytes_kept: outcome.bytes_kept,
        bytes_stored: outcome.bytes_stored,
        containers: outcome.containers,
        deduplication_factor: outcome.factor(),
        looked: outcome.looked.as_ref().map(LookedLine::of),
        restored: restored.collect(),
    })
}

fn tell(outcomes: &[Outcome], settings: &Settings, output: Output) -> Result<()> {
    let Some(last) = outcomes.last() else {
        output.line("the trace has no backups")?;
        return Ok(());
    };
    let of_all: u64 = outcomes.iter().map(|outcome| outcome.bytes).sum();
    output.result(format!(
        "backups       {:>12}  ({} in all)",
        thousands(outcomes.len() as u64),
        bytes(of_all)
    ))?;
    output.result(format!("kept          {:>12}", bytes(last.bytes_kept)))?;
    output.result(format!(
        "stored        {:>12}  (1 : {:.2}) in {} of {}",
        bytes(last.bytes_stored),
        last.factor(),
        count(last.containers, "container", "containers"),
        bytes(settings.container_bytes)
    ))?;
    if let Some(looked) = &last.looked {
        tell_looked(outcomes, looked, output)?;
    }
    let Some(averages) = Averages::of(outcomes) else {
        return Ok(());
    };
    output.result(format!(
        "restoring each of the last {}, on average:",
        count(averages.backups as u64, "backup", "backups")
    ))?;
    let both = averages.speeds.iter().filter_map(|(memory, speed)| {
        let (_, read) = averages.reads.iter().find(|(with, _)| with == memory)?;
        Some(SpeedLine {
            memory_bytes: memory.bytes,
            assembly: assembly_name(memory.assembly),
            speed_factor: *speed,
            containers_a_mib: *read,
        })
    });
    let speeds: Vec<SpeedLine> = both.collect();
    for line in &speeds {
        output.result(format!(
            "  {:<10} {:>8}  {:>6.3} MiB a container read  {:>7.3} containers a MiB",
            line.assembly,
            bytes(line.memory_bytes),
            line.speed_factor,
            line.containers_a_mib
        ))?;
    }
    tell_over_time(outcomes, output)?;
    output.object(&AveragesLine {
        message_type: "lab_averages",
        backups: averages.backups,
        deduplication_factor: averages.factor,
        speeds,
    })?;
    Ok(())
}

/// Containers read for each MiB as backups come, with each memory, used as the first that was asked for.
fn tell_over_time(outcomes: &[Outcome], output: Output) -> Result<()> {
    let restored = outcomes
        .iter()
        .enumerate()
        .filter(|(_, one)| !one.restored.is_empty());
    let restored: Vec<(usize, &Outcome)> = restored.collect();
    let Some((_, first)) = restored.first() else {
        return Ok(());
    };
    let assembly = first.restored[0].memory.assembly;
    let shown: Vec<usize> = (0..first.restored.len())
        .filter(|n| first.restored[*n].memory.assembly == assembly)
        .collect();
    let head = shown
        .iter()
        .fold(format!("{:>11} {:>8}", "backups", "1 :"), |line, n| {
            format!("{line} {:>9}", bytes(first.restored[*n].memory.bytes))
        });
    output.result(format!(
        "containers read for each MiB, {}:",
        assembly_name(assembly)
    ))?;
    output.result(head)?;
    for part in restored.chunks(restored.len().div_ceil(ROWS)) {
        let (begin, end) = (part[0].0 + 1, part[part.len() - 1].0 + 1);
        let name = if begin == end {
            begin.to_string()
        } else {
            format!("{begin}-{end}")
        };
        let factor = mean(part.iter().map(|(_, one)| one.factor()));
        let read = shown.iter().map(|n| {
            let read = part
                .iter()
                .filter_map(|(_, one)| one.restored[*n].containers_a_mib());
            mean(read).map_or_else(|| "-".to_owned(), |read| format!("{read:.3}"))
        });
        let line = format!("{name:>11} {:>8.2}", factor.unwrap_or_default());
        output.result(read.fold(line, |line, read| format!("{line} {read:>9}")))?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "some thousands at most")]
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn tell_looked(outcomes: &[Outcome], last: &Looked, output: Output) -> Result<()> {
    let all = || outcomes.iter().filter_map(|outcome| outcome.looked.as_ref());
    let capped: u64 = all().map(|looked| looked.bytes_capped).sum();
    let lookups: u64 = all().map(|looked| looked.lookups.lookups).sum();
    let index_reads: u64 = all().map(|looked| looked.lookups.index_reads).sum();
    let loads: u64 = all().map(|looked| looked.lookups.catalog_loads).sum();
    output.result(format!("stored again  {:>12}  for the cap", bytes(capped)))?;
    output.result(format!(
        "look-ups      {:>12}  of which {} in the index, {} catalogs loaded",
        thousands(lookups),
        thousands(index_reads),
        thousands(loads)
    ))?;
    output.result(format!(
        "index         {:>12}  of {} hooks, one chunk in {}",
        bytes(last.index.bytes),
        thousands(last.index.entries.iter().sum()),
        thousands(last.period)
    ))?;
    Ok(())
}
