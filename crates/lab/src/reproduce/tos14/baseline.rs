//! Rates of writing and reading unique data, compared with the same bytes through the storage
//! alone: table II.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use env::{AlignedBuffer, Env};
use onefold::AssembleOptions;
use types::{ByteRange, ObjectName};

use super::{Size, cores, median, megabytes, megabytes_a_second, number, setup};
use crate::error::LabError;
use crate::reproduce::stores::cold::{self, Folder};
use crate::reproduce::stores::content::Content;
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};
use crate::rng::noise;

/// The least write rate, relative to the raw rate.
const WRITE_MIN: f64 = 0.75;
const READ_MIN: f64 = 0.85;
/// Threads that put containers in a backup.
const WRITERS: usize = 2;
/// The seed of unique data.
const UNIQUE: u64 = 47;

/// Rates in MB (10^6) a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) write: f64,
    pub(super) read: f64,
}

/// Bytes that are written and read.
pub(super) fn bytes(size: &Size) -> u64 {
    let (bytes, runs) = size.unique;
    4 * bytes * runs as u64
}

/// Data without duplicates.
pub(super) fn unique(bytes: u64) -> Result<Vec<u8>, LabError> {
    let too_large = |_| LabError::settings(format!("{bytes} bytes of unique data are too many for memory"));
    let mut data = vec![0; usize::try_from(bytes).map_err(too_large)?];
    noise(UNIQUE, 0, &mut data);
    Ok(data)
}

/// Measures raw rates and the engine's alternately.
pub(super) fn run(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("table II");
    let folder = Folder::new(run.folder.join("stores"))?;
    let (bytes, runs) = size.unique;
    let content = Content::of("unique", unique(bytes)?);
    let (mut ours, mut raws) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        raws.push(raw(size, &folder.join("raw"), content.bytes())?);
        run.progress.advance(2 * bytes)?;
        ours.push(engine(size, &folder.join("store"), &content)?);
        run.progress.advance(2 * bytes)?;
    }
    run.report(experiment(size, &raws, &ours))
}

fn failed(error: env::StorageError) -> LabError {
    LabError::from(onefold::Error::from(error))
}

/// Writes and reads objects of the size of containers, with as many threads as the engine and a
/// cold page cache.
pub(super) fn raw(size: &Size, folder: &Path, bytes: &[u8]) -> Result<Rates, LabError> {
    let env = Env::create_local(folder).map_err(failed)?;
    let clock = &env.clock;
    let objects: Vec<(ObjectName, &[u8])> = bytes
        .chunks(size.container_bytes as usize)
        .enumerate()
        .map(|(n, part)| {
            let name = ObjectName::new(format!("raw/{n:06}"));
            name.map(|name| (name, part))
        })
        .collect::<Result<_, _>>()
        .map_err(|error| LabError::settings(error.to_string()))?;
    let began = clock.monotonic();
    in_threads(WRITERS, objects.len(), |n, _| {
        let (name, part) = &objects[n];
        env.storage.put(name, &[part])
    })?;
    env.storage.barrier().map_err(failed)?;
    let write = clock.monotonic().saturating_sub(began);
    cold::drop_cached(folder)?;
    let began = clock.monotonic();
    in_threads(
        AssembleOptions::for_cores(cores()).workers,
        objects.len(),
        |n, buffer| {
            let (name, part) = &objects[n];
            let range = ByteRange {
                offset: 0,
                len: part.len() as u64,
            };
            env.storage.get_range_into(name, range, buffer).map(drop)
        },
    )?;
    let read = clock.monotonic().saturating_sub(began);
    drop(env);
    cold::remove(folder)?;
    Ok(Rates {
        write: megabytes_a_second(bytes.len() as u64, write),
        read: megabytes_a_second(bytes.len() as u64, read),
    })
}

fn in_threads(
    threads: usize,
    count: usize,
    work: impl Fn(usize, &mut AlignedBuffer) -> Result<(), env::StorageError> + Sync,
) -> Result<(), LabError> {
    let next = AtomicUsize::new(0);
    let all = || {
        let mut buffer = AlignedBuffer::with_capacity(0);
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return Ok(());
            }
            work(n, &mut buffer)?;
        }
    };
    let done: Result<(), env::StorageError> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(all)).collect();
        let ended = running.into_iter().map(|one| match one.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect()
    });
    done.map_err(failed)
}

fn engine(size: &Size, folder: &Path, content: &Content) -> Result<Rates, LabError> {
    let engine = size.hybrid().store(Some(folder), size.container_bytes)?;
    let bytes = content.data_bytes();
    let (write, report) = engine.back_up(content, false)?;
    let (read, _) = engine.restore(report.id, AssembleOptions::for_cores(cores()))?;
    drop(engine);
    cold::remove(folder)?;
    Ok(Rates {
        write: megabytes_a_second(bytes, write),
        read: megabytes_a_second(bytes, read),
    })
}

/// The medians.
pub(super) fn medians(of: &[Rates]) -> Rates {
    let median = |value: fn(&Rates) -> f64| median(&mut of.iter().map(value).collect::<Vec<_>>());
    Rates {
        write: median(|one| one.write),
        read: median(|one| one.read),
    }
}

fn experiment(size: &Size, raws: &[Rates], ours: &[Rates]) -> Experiment {
    let (raw, our) = (medians(raws), medians(ours));
    let row = |what: &str, paper: &str, (ours, raw): (f64, f64), least: f64| {
        let share = ours / raw;
        Row::new(
            format!("{what}, to raw"),
            format!("{paper}; target {least}"),
            format!("{share:.2}: {ours:.0} to {raw:.0} MB/s"),
        )
        .value(share)
        .met(
            share >= least,
            format!(
                "the time has chunking, fingerprints and checks in it, which the paper leaves out, on {} cores; the disk is faster than these",
                cores()
            ),
        )
    };
    let points = |of: &[Rates], value: fn(&Rates) -> f64| -> Vec<(f64, f64)> {
        let each = of.iter().enumerate();
        each.map(|(n, one)| (number(n as u64 + 1), value(one))).collect()
    };
    let (bytes, runs) = size.unique;
    Experiment {
        name: "table-2".to_owned(),
        title: "table II: unique data".to_owned(),
        seeds: vec!["R1", "R7"],
        setup: format!(
            "{} {} of unique data, on disk, with a cold page cache before each read. Raw is the same bytes as objects of a container's length, \
             through the same storage, with as many threads ({WRITERS} that write, {} that read) and a barrier at the end. Figures are medians of {runs} runs \
             by turns. Restores have 96 MiB of memory.",
            setup(size),
            megabytes(bytes),
            AssembleOptions::for_cores(cores()).workers,
        ),
        rows: vec![
            row("write", "0.96 (RAID-0)", (our.write, raw.write), WRITE_MIN),
            row("read", "0.89 (RAID-0)", (our.read, raw.read), READ_MIN),
        ],
        plots: vec![Plot {
            name: "table-2".to_owned(),
            title: "Unique data, written and read".to_owned(),
            subtitle: format!("{}, containers of 32 MiB, on disk, cold", megabytes(bytes)),
            x: Axis::linear("run"),
            y: Axis::linear("MB/s"),
            series: vec![
                Series::new("raw write", points(raws, |one| one.write)),
                Series::new("write", points(ours, |one| one.write)),
                Series::new("raw read", points(raws, |one| one.read)),
                Series::new("read", points(ours, |one| one.read)),
            ],
        }],
    }
}
