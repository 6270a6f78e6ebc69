//! `onefold-lab record` and `onefold-lab replay`

use std::fs::{self, File};
use std::io::BufWriter;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::{Context, Result};
use cli_support::output::{bytes, count};
use cli_support::{Code, Output, private, progress};
use lab::recording::{self, RecordingWriter};
use serde::Serialize;

use super::status;
use crate::args::{Record, Replay};

#[derive(Serialize)]
struct Recorded {
    message_type: &'static str,
    connections: u32,
    cut: usize,
    frames: u64,
}

#[derive(Serialize)]
struct Replayed {
    message_type: &'static str,
    recordings: u64,
    streams: usize,
    seconds: f64,
    bytes: u64,
    bytes_sent: u64,
    bytes_received: u64,
}

/// Records until the user asks to stop: that is this command's normal end.
pub(super) fn record(args: &Record, output: Output) -> Result<Code> {
    let is_over = cli_support::watch()?;
    let name = args.file.display().to_string();
    let file: File = private::create_new(&args.file).with_context(|| name.clone())?;
    let writer = RecordingWriter::new(name, BufWriter::with_capacity(1 << 20, file))?;
    let recorded = recording::record(&args.listen, &args.to, writer, &is_over);
    if recorded.is_err() {
        // Half a recording is useless, and must not block its name.
        drop(fs::remove_file(&args.file));
    }
    let recorded = recorded?;
    output.line(format!(
        "recorded {} with {}",
        count(recorded.connections.into(), "connection", "connections"),
        count(recorded.frames, "frame", "frames"),
    ))?;
    output.object(&Recorded {
        message_type: "lab_recorded",
        connections: recorded.connections,
        cut: recorded.cut,
        frames: recorded.frames,
    })?;
    if recorded.cut > 0 {
        output.warn(format!(
            "warning: {} still open at the end; the recording has only their beginning",
            count(recorded.cut as u64, "connection was", "connections were")
        ))?;
    }
    Ok(Code::Success)
}

pub(super) fn replay(args: &Replay, output: Output) -> Result<Code> {
    let (cancelled, done) = (cli_support::watch()?, AtomicU64::new(0));
    let replay = recording::Replay {
        files: args.files.clone(),
        to: args.to.clone(),
        streams: args.streams.map_or(args.files.len(), usize::from),
        namespace: args.namespace.clone(),
        patience: Duration::from_secs(args.patience),
    };
    let made = progress::beside(output, "replay", &|| status(&done), || {
        recording::replay(&replay, &cancelled, &done)
    })?;
    let seconds = made.elapsed.as_secs_f64();
    output.line(format!(
        "replayed {}, {} at a time: {} in {seconds:.3} s, {} sent, {} received",
        count(made.recordings, "recording", "recordings"),
        replay.streams,
        bytes(made.bytes_logical),
        bytes(made.bytes_sent),
        bytes(made.bytes_received),
    ))?;
    output.object(&Replayed {
        message_type: "lab_replayed",
        recordings: made.recordings,
        streams: replay.streams,
        seconds,
        bytes: made.bytes_logical,
        bytes_sent: made.bytes_sent,
        bytes_received: made.bytes_received,
    })?;
    Ok(Code::Success)
}
