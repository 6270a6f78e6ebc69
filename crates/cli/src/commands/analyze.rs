//! `onefold analyze`

use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use cli_support::Code;
use cli_support::output::{Output, bytes, count};
use cli_support::private;
use cli_support::progress::{self, Status};
use onefold::{Cap, WorkUnit};
use serde::Serialize;
use simulate::analyze::{Analysis, Given, Tried, analyze, bytes_name, cap_name, html};

use crate::args::Analyze;

#[derive(Serialize)]
struct GivenLine {
    message_type: &'static str,
    chunk_bytes: u32,
    /// The cap, in the form that `backup --cap` accepts.
    cap: String,
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
    cap: String,
    memory_bytes: Option<u64>,
    output: &'a str,
}

pub(super) fn run(args: &Analyze, output: Output) -> Result<Code> {
    let place = || args.output.display().to_string();
    let mut file = private::create_new(&args.output).with_context(place)?;
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
        // A partial file is useless, and the next run needs its name.
        drop(fs::remove_file(&args.output));
    }
    tell(args, &made?, output)?;
    Ok(Code::Success)
}

fn tell(args: &Analyze, analysis: &Analysis, output: Output) -> Result<()> {
    let uncapped = analysis.by_size.iter();
    let all = uncapped.chain(analysis.by_cap.iter().filter(|given| given.cap != Cap::None));
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
    let cap = cap_name(chosen.cap);
    output.result(format!("  backup --cap {cap}: {}", chosen.cap_why))?;
    if let Some(memory) = chosen.memory {
        output.result(format!(
            "  restore --memory {}: {}",
            bytes_name(memory),
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
        cap,
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
        cap: cap_name(given.cap),
        chunks_stored: given.chunks_stored,
        bytes_stored: given.bytes_stored,
        deduplication_factor: given.factor,
        index_bytes: given.index_bytes(),
        speeds: speeds.collect(),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use onefold::Capping;

    use super::*;
    use crate::args::{Backup, Cli, Command, Restore};

    fn backup(cap: Cap) -> Backup {
        let name = cap_name(cap);
        let cli = Cli::try_parse_from(["onefold", "-r", "store", "backup", "--cap", &name, "folder"]);
        let Command::Backup(args) = cli.expect(&name).command else {
            panic!("another command")
        };
        args
    }

    fn restore(option: &str, value: &str) -> Restore {
        let cli = Cli::try_parse_from([
            "onefold", "-r", "store", "restore", "-t", "to", option, value, "1",
        ]);
        let Command::Restore(args) = cli.expect(value).command else {
            panic!("another command")
        };
        args
    }

    /// The recommended options can be pasted, and have the effect that was measured.
    #[test]
    fn caps_are_called_as_backups_take_them() {
        let mut caps = Tried::around_defaults(false).caps;
        caps.extend([Cap::None, Cap::Adaptive(7), Cap::Least(1000), Cap::Least(3 << 20)]);
        for cap in caps {
            let args = backup(cap);
            assert_eq!((args.cap, args.capping()), (Some(cap), Some(Capping::of(cap))));
        }
    }

    #[test]
    fn memory_is_called_as_restores_take_it() {
        for memory in Tried::around_defaults(false).memories {
            let args = restore("--memory", &bytes_name(memory));
            assert_eq!(args.assembling.memory, memory);
        }
    }

    /// The measured defaults are those of a restore and a backup without options.
    #[test]
    fn defaults_are_the_command_line_s() {
        let tried = Tried::around_defaults(false);
        let cli = Cli::try_parse_from(["onefold", "-r", "store", "restore", "-t", "to", "1"]);
        let Command::Restore(args) = cli.expect("a command line").command else {
            panic!("another command")
        };
        assert_eq!(args.assembling.memory, tried.memory);
        let cli = Cli::try_parse_from(["onefold", "-r", "store", "backup", "folder"]);
        let Command::Backup(args) = cli.expect("a command line").command else {
            panic!("another command")
        };
        assert_eq!(args.capping(), None);
        assert!(tried.caps.contains(&Capping::default().cap));
    }
}
