//! `onefold lab simulate`

use std::fs::File;
use std::io::BufReader;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, Result};
use lab::simulate::{Memory, Outcome, Settings, Simulator};
use lab::{Extent, LabError, open_trace};
use serde::Serialize;

use super::{Counted, status};
use crate::args::{AssemblyMode, Simulate};
use crate::exit::Code;
use crate::output::{Output, bytes, count, thousands};
use crate::progress;

/// Averages are taken over so many backups, the last ones, as in the paper.
const AVERAGED: usize = 20;

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
    restored: Vec<RestoredLine>,
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
    let settings = Settings {
        container_bytes: u64::from(args.container_mib) << 20,
        seal: args.seal,
        keep: args.keep.map(|keep| keep as usize),
        memories: memories.collect(),
        skip: args.skip,
    };
    let mut outcomes = Vec::new();
    let simulator = Simulator::new(settings.clone(), |outcome| {
        // At once: a long simulation that is stopped has told what it knew.
        tell_one(&outcome, output).map_err(|source| LabError::Io {
            what: outcome.name.clone(),
            source,
        })?;
        outcomes.push(outcome);
        Ok(())
    })?;
    let (cancelled, done) = (crate::commands::cancel_flag()?, AtomicU64::new(0));
    let mut sink = Counted::new(simulator, &cancelled, &done);
    progress::beside(output, "simulate", &|| status(&done), || {
        args.traces.iter().try_for_each(|trace| -> Result<()> {
            let name = trace.display().to_string();
            let file = File::open(trace).with_context(|| name.clone())?;
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
        assembly: AssemblyMode::name(one.memory.assembly),
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
    let averaged = &outcomes[outcomes.len().saturating_sub(AVERAGED)..];
    let averaged: Vec<_> = averaged
        .iter()
        .filter(|outcome| !outcome.restored.is_empty())
        .collect();
    if averaged.is_empty() {
        return Ok(());
    }
    output.result(format!(
        "restoring each of the last {}, on average:",
        count(averaged.len() as u64, "backup", "backups")
    ))?;
    for (n, memory) in settings.memories.iter().enumerate() {
        let read = averaged
            .iter()
            .filter_map(|outcome| outcome.restored.get(n)?.containers_a_mib());
        let read: Vec<f64> = read.collect();
        if read.is_empty() {
            continue;
        }
        #[expect(clippy::cast_precision_loss, reason = "at most twenty")]
        let speed = read.len() as f64 / read.iter().sum::<f64>();
        output.result(format!(
            "  {:<8} {:>8}  {speed:.3} MiB a container read",
            AssemblyMode::name(memory.assembly),
            bytes(memory.bytes)
        ))?;
    }
    Ok(())
}
