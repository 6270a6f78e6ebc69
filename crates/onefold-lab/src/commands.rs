//! `onefold-lab`

mod folder;
mod generate;
mod plot;
mod reproduce;
mod simulate;
mod streams;
mod synthesize;
mod trace;

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ::simulate::{BackupHead, Chunk, SimulateError, Sink};
use anyhow::{Context, Result, bail};
use cli_support::Code;
use cli_support::output::{Output, bytes, count};
use cli_support::private;
use cli_support::progress::Status;
use lab::TraceWriter;
use onefold::WorkUnit;
use serde::Serialize;

use crate::args::Command;

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

pub(crate) fn run(args: &Command, output: Output) -> Result<Code> {
    match args {
        Command::Generate(args) => generate::run(args, output),
        Command::Trace(args) => trace::run(args, output),
        Command::Simulate(args) => simulate::run(args, output),
        Command::Reproduce(args) => reproduce::run(args, output),
        Command::ReproduceHost(args) => reproduce::host(args),
        Command::Plot(args) => plot::run(args, output),
        Command::Record(args) => streams::record(args, output),
        Command::Replay(args) => streams::replay(args, output),
        Command::Synthesize(args) => synthesize::run(args, output),
    }
}

/// Counts what passes through, and stops once the user asked to stop.
struct Counted<'a, S> {
    sink: S,
    cancelled: &'a AtomicBool,
    backups: u64,
    chunks: u64,
    bytes: &'a AtomicU64,
}

impl<S: Sink> Sink for Counted<'_, S> {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.sink.begin(head)
    }
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(SimulateError::Interrupted);
        }
        self.chunks += chunks.len() as u64;
        let len: u64 = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        self.bytes.fetch_add(len, Ordering::Relaxed);
        self.sink.chunks(chunks)
    }
    fn end(&mut self) -> Result<(), SimulateError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(SimulateError::Interrupted);
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

/// The destination of a trace.
enum To {
    /// A new file.
    New,
    /// A named pipe.
    Pipe,
    /// Standard output under any name. It carries only the trace.
    Stdout,
}

impl To {
    fn of(file: &Path) -> Self {
        let Ok(named) = fs::metadata(file) else {
            return if file == Path::new("-") {
                Self::Stdout
            } else {
                Self::New
            };
        };
        let stdout = stdout().and_then(|stdout| stdout.metadata());
        let is_stdout = stdout.is_ok_and(|stdout| (stdout.dev(), stdout.ino()) == (named.dev(), named.ino()));
        if is_stdout || file == Path::new("-") {
            Self::Stdout
        } else if named.file_type().is_fifo() {
            Self::Pipe
        } else {
            Self::New
        }
    }
}

fn stdout() -> io::Result<File> {
    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

/// The output of a command that writes its trace to this file.
fn beside_trace(file: Option<&Path>, output: Output) -> Result<Output> {
    if !file.is_some_and(|file| matches!(To::of(file), To::Stdout)) {
        return Ok(output);
    }
    if output.json {
        bail!(
            "the trace and the lines of --json would mix on standard output: leave --json out, or write the trace to a file"
        );
    }
    // The program that reads the trace shows its own progress.
    Ok(Output {
        quiet: true,
        ..output
    })
}

/// Writes replayed backups to a trace: a new file, an existing pipe, or standard output. `replay`
/// receives the metadata of the output.
fn to_trace(
    file: &Path,
    cancelled: &AtomicBool,
    done: &AtomicU64,
    replay: impl FnOnce(&fs::Metadata, &mut dyn Sink) -> Result<(), SimulateError>,
) -> Result<Generated> {
    let to = To::of(file);
    let name = match to {
        To::Stdout => "standard output".to_owned(),
        To::New | To::Pipe => file.display().to_string(),
    };
    let opened = match to {
        To::New => private::create_new(file),
        To::Pipe => File::options().write(true).open(file),
        To::Stdout if io::stdout().is_terminal() => {
            bail!("standard output is a terminal; send the trace to a file or a program")
        }
        To::Stdout => stdout(),
    };
    let out = opened.with_context(|| name.clone())?;
    let written = out.metadata().with_context(|| name.clone())?;
    let write = || {
        let writer = TraceWriter::new(name, BufWriter::with_capacity(1 << 20, out))?;
        let mut sink = Counted::new(writer, cancelled, done);
        replay(&written, &mut sink)?;
        let made = sink.generated();
        sink.sink.finish()?;
        Ok(made)
    };
    let made = write();
    if made.is_err() && matches!(to, To::New) {
        // Half a trace is useless, and must not block its name.
        drop(fs::remove_file(file));
    }
    made
}
