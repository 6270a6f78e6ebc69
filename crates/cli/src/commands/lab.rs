//! `onefold lab`

use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use lab::generate::TwoYear;
use lab::simulate::{Memory, Outcome, Settings, Simulator};
use lab::{
    BackupHead, Chunk, Cutter, Cutting, DestorWriter, Extent, LabError, Sink, Source, TraceWriter, open_trace,
};
use onefold::WorkUnit;
use serde::Serialize;

use crate::args::{Generate, Lab, Simulate, Trace, Workload};
use crate::exit::Code;
use crate::output::{Output, bytes, count, thousands};
use crate::progress::{self, Status};

/// Averages are taken over so many backups, the last ones, as in the paper.
const AVERAGED: usize = 20;

#[derive(Serialize)]
struct Generated {
    message_type: &'static str,
    backups: u64,
    chunks: u64,
    bytes: u64,
}

impl Generated {
    fn tell(&self, output: Output) -> Result<Code> {
        output.line(format!(
            "wrote {}: {} in {}",
            count(self.backups, "backup", "backups"),
            bytes(self.bytes),
            count(self.chunks, "chunk", "chunks")
        ))?;
        output.object(self)?;
        Ok(Code::Success)
    }
}

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

pub(crate) fn run(args: &Lab, output: Output) -> Result<Code> {
    match args {
        Lab::Generate(args) => generate(args, output),
        Lab::Trace(args) => trace(args, output),
        Lab::Simulate(args) => simulate(args, output),
    }
}

/// Counts what passes, and lets nothing more pass once someone has asked to stop.
struct Counted<'a, S> {
    sink: S,
    cancelled: &'a AtomicBool,
    backups: u64,
    chunks: u64,
    bytes: &'a AtomicU64,
}

impl<S: Sink> Sink for Counted<'_, S> {
    fn begin(&mut self, head: &BackupHead) -> Result<(), LabError> {
        self.sink.begin(head)
    }
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), LabError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        self.chunks += chunks.len() as u64;
        let len: u64 = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        self.bytes.fetch_add(len, Ordering::Relaxed);
        self.sink.chunks(chunks)
    }
    fn end(&mut self) -> Result<(), LabError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        self.backups += 1;
        self.sink.end()
    }
}

fn status(bytes: &AtomicU64) -> Status {
    Status {
        unit: WorkUnit::Bytes,
        done: bytes.load(Ordering::Relaxed),
        ..Status::default()
    }
}

fn generate(args: &Generate, output: Output) -> Result<Code> {
    let Workload::TwoYear = args.workload;
    let mut workload = TwoYear {
        seed: args.seed,
        snapshot_bytes: args.size,
        weeks: args.weeks,
        ..TwoYear::default()
    };
    let (cancelled, done) = (super::cancel_flag()?, AtomicU64::new(0));
    let made = progress::beside(output, "generate", &|| status(&done), || {
        match (&args.trace, &args.destor, &args.files) {
            (Some(file), ..) => to_trace(file, &cancelled, &done, |sink| workload.replay(sink)),
            (None, Some(folder), _) => to_destor(&mut workload, folder, &cancelled, &done),
            (None, None, Some(folder)) => to_files(&workload, folder, &cancelled, &done),
            (None, None, None) => bail!("nothing says where to write to: --trace, --destor or --files"),
        }
    })?;
    made.tell(output)
}

fn trace(args: &Trace, output: Output) -> Result<Code> {
    let mut cutter = Cutter::new(match args.image_kib {
        Some(kib) => Cutting::Fixed(kib << 10),
        None => Cutting::Content(args.chunk_kib << 10),
    })?;
    let (cancelled, done) = (super::cancel_flag()?, AtomicU64::new(0));
    let made = progress::beside(output, "trace", &|| status(&done), || {
        to_trace(&args.output, &cancelled, &done, |sink| {
            args.paths.iter().try_for_each(|path| cutter.backup(path, sink))
        })
    })?;
    made.tell(output)
}

impl<'a, S: Sink> Counted<'a, S> {
    fn new(sink: S, cancelled: &'a AtomicBool, bytes: &'a AtomicU64) -> Self {
        Self {
            sink,
            cancelled,
            backups: 0,
            chunks: 0,
            bytes,
        }
    }

    fn generated(&self) -> Generated {
        Generated {
            message_type: "lab_generated",
            backups: self.backups,
            chunks: self.chunks,
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

fn to_trace(
    file: &Path,
    cancelled: &AtomicBool,
    done: &AtomicU64,
    replay: impl FnOnce(&mut dyn Sink) -> Result<(), LabError>,
) -> Result<Generated> {
    let name = file.display().to_string();
    let created = File::create_new(file).with_context(|| name.clone())?;
    let write = || {
        let writer = TraceWriter::new(name, BufWriter::with_capacity(1 << 20, created))?;
        let mut sink = Counted::new(writer, cancelled, done);
        replay(&mut sink)?;
        let made = sink.generated();
        sink.sink.finish()?;
        Ok(made)
    };
    let made = write();
    if made.is_err() {
        // Half a trace is none, and its name is to be free for the next.
        drop(fs::remove_file(file));
    }
    made
}

fn to_destor(
    workload: &mut TwoYear,
    folder: &Path,
    cancelled: &AtomicBool,
    done: &AtomicU64,
) -> Result<Generated> {
    ensure_empty(folder)?;
    let mut sink = Counted::new(DestorWriter::new(|head| create(folder, head)), cancelled, done);
    workload.replay(&mut sink)?;
    Ok(sink.generated())
}

/// Makes the folder, or takes an empty one.
fn ensure_empty(folder: &Path) -> Result<()> {
    let place = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(place)?;
    if fs::read_dir(folder).with_context(place)?.next().is_some() {
        bail!("{}: is not empty; name a folder that is", place());
    }
    Ok(())
}

fn create(folder: &Path, head: &BackupHead) -> Result<BufWriter<File>, LabError> {
    let path = folder.join(&head.name);
    let file = File::create_new(&path).map_err(|source| LabError::Io {
        what: path.display().to_string(),
        source,
    })?;
    Ok(BufWriter::with_capacity(1 << 20, file))
}

fn to_files(
    workload: &TwoYear,
    folder: &Path,
    cancelled: &AtomicBool,
    done: &AtomicU64,
) -> Result<Generated> {
    ensure_empty(folder)?;
    let mut made = Generated {
        message_type: "lab_generated",
        backups: 0,
        chunks: 0,
        bytes: 0,
    };
    workload.write(
        |head| {
            made.backups += 1;
            create(folder, head)
        },
        |len| {
            made.chunks += 1;
            done.fetch_add(len, Ordering::Relaxed);
            if cancelled.load(Ordering::Relaxed) {
                Err(LabError::Interrupted)
            } else {
                Ok(())
            }
        },
    )?;
    made.bytes = done.load(Ordering::Relaxed);
    Ok(made)
}

fn simulate(args: &Simulate, output: Output) -> Result<Code> {
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
    let (cancelled, done) = (super::cancel_flag()?, AtomicU64::new(0));
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
        assembly: crate::args::AssemblyMode::name(one.memory.assembly),
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
            crate::args::AssemblyMode::name(memory.assembly),
            bytes(memory.bytes)
        ))?;
    }
    Ok(())
}
