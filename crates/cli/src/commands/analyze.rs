//! `onefold analyze`

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use lab::analyze::{Analysis, Given, Tried, analyze, html};
use onefold::WorkUnit;
use serde::Serialize;

use crate::args::Analyze;
use crate::exit::Code;
use crate::output::{Output, bytes, count};
use crate::progress::{self, Status};

#[derive(Serialize)]
struct GivenLine {
    message_type: &'static str,
    chunk_bytes: u32,
    cap: Option<u32>,
    chunks_stored: u64,
    bytes_stored: u64,
    deduplication_factor: f64,
    index_bytes: u64,
    speeds: Vec<SpeedLine>,
}

#[derive(Serialize)]
struct SpeedLine {
    memory_bytes: u64,
    speed_factor: f64,
}

#[derive(Serialize)]
struct AnalyzedLine<'a> {
    message_type: &'static str,
    backups: usize,
    bytes: u64,
    chunk_bytes: u32,
    cap: Option<u32>,
    memory_bytes: Option<u64>,
    output: &'a str,
}

pub(super) fn run(args: &Analyze, output: Output) -> Result<Code> {
    let place = || args.output.display().to_string();
    let mut file = File::create_new(&args.output).with_context(place)?;
    let metadata = file.metadata().with_context(place)?;
    let written = Some((metadata.dev(), metadata.ino()));
    let (cancelled, done) = (super::cancel_flag()?, AtomicU64::new(0));
    let status = || Status {
        unit: WorkUnit::Bytes,
        done: done.load(Ordering::Relaxed),
        ..Status::default()
    };
    let read = |bytes| {
        done.fetch_add(bytes, Ordering::Relaxed);
    };
    let made = progress::beside(output, "analyze", &status, || -> Result<Analysis> {
        let tried = Tried::around_defaults(args.images);
        let analysis = analyze(&args.paths, &tried, written, &cancelled, &read)?;
        file.write_all(html(&analysis)?.as_bytes()).with_context(place)?;
        file.sync_all().with_context(place)?;
        Ok(analysis)
    });
    if made.is_err() {
        // Half of it is none, and its name is to be free for the next.
        drop(fs::remove_file(&args.output));
    }
    tell(args, &made?, output)?;
    Ok(Code::Success)
}

fn tell(args: &Analyze, analysis: &Analysis, output: Output) -> Result<()> {
    let uncapped = analysis.by_size.iter();
    let all = uncapped.chain(analysis.by_cap.iter().filter(|given| given.cap.is_some()));
    for given in all {
        tell_one(given, output)?;
    }
    let chosen = &analysis.recommended;
    output.result(format!(
        "{} in {}; recommended:",
        bytes(analysis.bytes),
        count(analysis.backups.len() as u64, "backup", "backups")
    ))?;
    output.result(format!(
        "  {} {}: {}",
        chosen.chunk_option,
        chosen.chunk_bytes >> 10,
        chosen.chunk_why
    ))?;
    let cap = chosen
        .cap
        .map_or_else(|| "none".to_owned(), |cap| cap.to_string());
    output.result(format!("  backup --cap {cap}: {}", chosen.cap_why))?;
    if let Some(memory) = chosen.memory {
        output.result(format!(
            "  restore --memory {}M: {}",
            memory >> 20,
            chosen.memory_why
        ))?;
    }
    let shown = args.output.display().to_string();
    output.line(format!("tables and plots are in {shown}"))?;
    output.object(&AnalyzedLine {
        message_type: "analyzed",
        backups: analysis.backups.len(),
        bytes: analysis.bytes,
        chunk_bytes: chosen.chunk_bytes,
        cap: chosen.cap,
        memory_bytes: chosen.memory,
        output: &shown,
    })?;
    Ok(())
}

fn tell_one(given: &Given, output: Output) -> Result<()> {
    let speeds = given.speeds.iter().map(|(memory, speed)| SpeedLine {
        memory_bytes: *memory,
        speed_factor: *speed,
    });
    output.object(&GivenLine {
        message_type: "analyzed_setting",
        chunk_bytes: given.chunk_bytes,
        cap: given.cap,
        chunks_stored: given.chunks_stored,
        bytes_stored: given.bytes_stored,
        deduplication_factor: given.factor,
        index_bytes: given.index_bytes(),
        speeds: speeds.collect(),
    })?;
    Ok(())
}
