//! The work of a backup's stages and queues, as text and as JSON.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use onefold::{BackupReport, QueueStats, StageStats};
use serde::Serialize;

use cli_support::output::Output;

#[derive(Serialize)]
pub(crate) struct Queue {
    name: &'static str,
    depth: Option<usize>,
    depth_average: f64,
    depth_max: u64,
    items: u64,
    full_seconds: f64,
    empty_seconds: f64,
}

#[derive(Serialize)]
pub(crate) struct Stage {
    name: &'static str,
    threads: u64,
    busy_seconds: f64,
    input_wait_seconds: f64,
    output_wait_seconds: f64,
}

impl Queue {
    fn of(stats: &QueueStats) -> Self {
        let items = number(&stats.items);
        Self {
            name: stats.name,
            depth: stats.depth,
            depth_average: share(number(&stats.stood), items),
            depth_max: number(&stats.stood_max),
            items,
            full_seconds: seconds(&stats.full_nanos),
            empty_seconds: seconds(&stats.empty_nanos),
        }
    }
}

impl Stage {
    fn of(stats: &StageStats) -> Self {
        Self {
            name: stats.name,
            threads: number(&stats.threads),
            busy_seconds: seconds(&stats.busy_nanos),
            input_wait_seconds: seconds(&stats.input_nanos),
            output_wait_seconds: seconds(&stats.output_nanos),
        }
    }
}

pub(crate) fn queues(report: &BackupReport) -> Vec<Queue> {
    report.queues.iter().map(|stats| Queue::of(stats)).collect()
}

pub(crate) fn stages(report: &BackupReport) -> Vec<Stage> {
    report.stages.iter().map(|stats| Stage::of(stats)).collect()
}

/// Prints one line for each stage, and one for each queue.
pub(crate) fn print(output: Output, report: &BackupReport) -> Result<()> {
    for stage in stages(report) {
        let Stage {
            name,
            threads,
            busy_seconds: busy,
            input_wait_seconds: input,
            output_wait_seconds: out,
        } = stage;
        output.line(format!(
            "stage {name:8} x{threads}: {busy:>8.3} s busy, {input:>8.3} s waiting for input, {out:>8.3} s for output"
        ))?;
    }
    for queue in queues(report) {
        let most = match queue.depth {
            None => "any number".to_owned(),
            Some(depth) => depth.to_string(),
        };
        output.line(format!(
            "queue {:8} {:>8} items, {:>6.1} on average, {} at most, of {most}; {:>8.3} s full, {:>8.3} s empty",
            queue.name, queue.items, queue.depth_average, queue.depth_max, queue.full_seconds, queue.empty_seconds
        ))?;
    }
    Ok(())
}

fn number(value: &AtomicU64) -> u64 {
    value.load(Ordering::Relaxed)
}

#[expect(clippy::cast_precision_loss, reason = "milliseconds are shown")]
fn seconds(nanos: &AtomicU64) -> f64 {
    number(nanos) as f64 / 1e9
}

#[expect(clippy::cast_precision_loss, reason = "two figures are shown")]
fn share(sum: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { sum as f64 / of as f64 }
}
