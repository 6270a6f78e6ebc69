//! `onefold-lab simulate`

use std::fs::File;
use std::io::{BufReader, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result, bail};
use cli_support::Code;
use cli_support::output::{Output, bytes, count, thousands};
use cli_support::progress;
use cli_support::values::capping_of;
use lab::open_trace;
use onefold::{Capping, LookupMemory};
use serde::Serialize;
use simulate::{
    Averages, Extent, Finding, Looked, Memory, Outcome, Policy, Schedule, Settings, SimulateError, Simulator,
    over_time,
};

use super::{Counted, status};

use crate::args::Simulate;

/// Standard input, as an argument names it.
const STDIN: &str = "-";
/// The most lines of the table over time.
const STEPS: usize = 20;

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

/// Counts of the engine's look-ups.
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
    speed_factor: f64,
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
    if args
        .traces
        .iter()
        .filter(|trace| *trace == Path::new(STDIN))
        .count()
        > 1
    {
        bail!("standard input has one trace: name it only once");
    }
    let mut memories = Vec::new();
    for bytes in &args.memory {
        let each = args.assembly.iter().map(|assembly| Memory {
            bytes: *bytes,
            assembly: assembly.assembly(),
        });
        for memory in each {
            if !memories.contains(&memory) {
                memories.push(memory);
            }
        }
    }
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
        memories,
        skip: args.skip,
    };
    let (cancelled, done) = (cli_support::watch()?, AtomicU64::new(0));
    let mut outcomes = Vec::new();
    let simulator = Simulator::new(settings.clone(), |outcome| {
        // Printed at once: with `--json`, a long simulation that is stopped has printed its results
        // so far.
        tell_one(&outcome, output).map_err(|source| SimulateError::Io {
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
            let (name, file) = opened(trace)?;
            open_trace(name, BufReader::with_capacity(1 << 20, file))?.replay(&mut sink)?;
            Ok(())
        })
    })?;
    tell(&outcomes, &settings, output)?;
    Ok(Code::Success)
}

/// Opens a trace. Returns its name, too.
fn opened(trace: &Path) -> Result<(String, File)> {
    let (name, file) = if trace == Path::new(STDIN) {
        if std::io::stdin().is_terminal() {
            bail!(
                "standard input is a terminal; pipe a trace to it, for example from `onefold-lab generate ... --trace -`"
            );
        }
        let file = std::io::stdin().as_fd().try_clone_to_owned().map(File::from);
        ("standard input".to_owned(), file)
    } else {
        (trace.display().to_string(), File::open(trace))
    };
    let file = file.with_context(|| name.clone())?;
    Ok((name, file))
}

fn tell_one(outcome: &Outcome, output: Output) -> std::io::Result<()> {
    let restored = outcome.restored.iter().map(|one| RestoredLine {
        memory_bytes: one.memory.bytes,
        assembly: one.memory.assembly.name(),
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
        "restores of the last {}: mean of speed factors, and mean of containers read",
        count(averages.backups as u64, "backup", "backups")
    ))?;
    let speeds = averages.restored.iter().map(|one| SpeedLine {
        memory_bytes: one.memory.bytes,
        assembly: one.memory.assembly.name(),
        speed_factor: one.speed_factor,
        containers_a_mib: one.containers_a_mib,
    });
    let speeds: Vec<SpeedLine> = speeds.collect();
    for line in &speeds {
        output.result(format!(
            "  {:<10} {:>8}  {:>6.3} MiB a container read  {:>7.3} containers a MiB",
            line.assembly,
            bytes(line.memory_bytes),
            line.speed_factor,
            line.containers_a_mib
        ))?;
    }
    tell_over_time(outcomes, &settings.memories, output)?;
    output.object(&AveragesLine {
        message_type: "lab_averages",
        backups: averages.backups,
        deduplication_factor: averages.factor,
        speeds,
    })?;
    Ok(())
}

/// The table over time, for all memories that are used like the first requested one.
fn tell_over_time(outcomes: &[Outcome], asked: &[Memory], output: Output) -> Result<()> {
    let Some(Memory { assembly, .. }) = asked.first() else {
        return Ok(());
    };
    let (memories, steps) = over_time(outcomes, *assembly, STEPS);
    output.result(format!(
        "over time: deduplication factor (1 :), and containers read for each MiB with {}:",
        assembly.name()
    ))?;
    let head = format!("{:>11} {:>8}", "backups", "1 :");
    output.result(
        memories
            .iter()
            .fold(head, |line, memory| format!("{line} {:>9}", bytes(memory.bytes))),
    )?;
    for step in &steps {
        let name = if step.first == step.last {
            step.first.to_string()
        } else {
            format!("{}-{}", step.first, step.last)
        };
        let line = format!("{name:>11} {:>8.2}", step.factor);
        output.result(step.containers_a_mib.iter().fold(line, |line, read| match read {
            Some(read) => format!("{line} {read:>9.3}"),
            None => format!("{line} {:>9}", "-"),
        }))?;
    }
    Ok(())
}

fn tell_looked(outcomes: &[Outcome], last: &Looked, output: Output) -> Result<()> {
    let all = || outcomes.iter().filter_map(|outcome| outcome.looked.as_ref());
    let capped: u64 = all().map(|looked| looked.bytes_capped).sum();
    let lookups: u64 = all().map(|looked| looked.lookups.lookups).sum();
    let index_reads: u64 = all().map(|looked| looked.lookups.index_reads).sum();
    let loads: u64 = all().map(|looked| looked.lookups.catalog_loads).sum();
    output.result(format!("stored again  {:>12}  because of the cap", bytes(capped)))?;
    output.result(format!(
        "look-ups      {:>12}  {} of them in the index; {} catalogs loaded",
        thousands(lookups),
        thousands(index_reads),
        thousands(loads)
    ))?;
    output.result(format!(
        "index         {:>12}  {} hooks, of one chunk in {}",
        bytes(last.index.bytes),
        thousands(last.index.entries.iter().sum()),
        thousands(last.period)
    ))?;
    Ok(())
}
