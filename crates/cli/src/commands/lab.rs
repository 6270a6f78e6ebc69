//! `onefold lab`

mod folder;
mod generate;
mod reproduce;
mod simulate;
mod trace;

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::{Context, Result, bail};
use lab::{BackupHead, Chunk, LabError, Sink, TraceWriter};
use onefold::WorkUnit;
use serde::Serialize;

use crate::args::Lab;
use crate::exit::Code;
use crate::output::{Output, bytes, count};
use crate::progress::Status;

#[derive(Serialize)]
struct Generated {
    message_type: &'static str,
    backups: u64,
    chunks: u64,
    bytes: u64,
}

impl Generated {
    /// On standard output, unless that is the trace.
    fn tell(&self, trace: Option<&Path>, output: Output) -> Result<Code> {
        if trace.is_some_and(is_stdout) {
            return Ok(Code::Success);
        }
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

pub(crate) fn run(args: &Lab, output: Output) -> Result<Code> {
    match args {
        Lab::Generate(args) => generate::run(args, output),
        Lab::Trace(args) => trace::run(args, output),
        Lab::Simulate(args) => simulate::run(args, output),
        Lab::Reproduce(args) => reproduce::run(args, output),
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

fn status(bytes: &AtomicU64) -> Status {
    Status {
        unit: WorkUnit::Bytes,
        done: bytes.load(Ordering::Relaxed),
        ..Status::default()
    }
}

/// Standard output, as an argument may name it.
const STDOUT: [&str; 2] = ["-", "/dev/stdout"];

fn is_stdout(file: &Path) -> bool {
    STDOUT.iter().any(|name| file == Path::new(name))
}

/// How a command may speak whose trace goes to this file: standard output is the trace's alone.
fn beside_trace(file: Option<&Path>, output: Output) -> Output {
    let json = output.json && !file.is_some_and(is_stdout);
    Output { json, ..output }
}

/// Writes what is replayed to a trace: a new file, a pipe that is there, or standard output.
fn to_trace(
    file: &Path,
    cancelled: &AtomicBool,
    done: &AtomicU64,
    replay: impl FnOnce(&mut dyn Sink) -> Result<(), LabError>,
) -> Result<Generated> {
    let name = file.display().to_string();
    let is_made =
        !is_stdout(file) && !fs::metadata(file).is_ok_and(|metadata| metadata.file_type().is_fifo());
    let opened = if is_made {
        File::create_new(file)
    } else if is_stdout(file) {
        if io::stdout().is_terminal() {
            bail!("standard output is a terminal; send the trace to a file or a program");
        }
        io::stdout().as_fd().try_clone_to_owned().map(File::from)
    } else {
        File::options().write(true).open(file)
    };
    let out = opened.with_context(|| name.clone())?;
    let write = || {
        let writer = TraceWriter::new(name, BufWriter::with_capacity(1 << 20, out))?;
        let mut sink = Counted::new(writer, cancelled, done);
        replay(&mut sink)?;
        let made = sink.generated();
        sink.sink.finish()?;
        Ok(made)
    };
    let made = write();
    if made.is_err() && is_made {
        // Half a trace is none, and its name is to be free for the next.
        drop(fs::remove_file(file));
    }
    made
}
