//! Measures a duplicates index on disk: rows a second of increments, hits and decrements by the
//! size of a batch, bytes a row, and memory.
//!
//! `apply_rates FOLDER ROWS CACHE_MIB THREADS OPERATIONS`: in a new folder of that name, it
//! registers ROWS contents in batches of 65,536. Then it measures OPERATIONS operations of each
//! kind in batches of 4,096 and 65,536, and a sixteenth of them in batches of 256. The folder is
//! deleted in the end.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use ddi::{Bucket, DuplicatesIndex, FjallIndex, FjallOptions, Operation};
use env::{Clock, SystemClock};
use types::{BatchSequence, BlockNumber, Fingerprint, VolumeId};

/// How long batches took.
#[derive(Clone, Copy, Default)]
struct Times {
    /// In `apply`.
    wall: Duration,
    /// Of all threads of the process, those that write and merge tables included.
    cpu: Duration,
}

/// What is measured.
#[derive(Clone, Copy)]
enum Kind {
    /// New contents.
    Register,
    /// Every second content is known.
    HalfHits,
    /// Known contents, most of which keep references.
    Decrement,
}

struct Bench {
    index: FjallIndex,
    sequence: u64,
    contents: u64,
    draws: u64,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, rows, cache_mib, threads, operations] = &arguments[..] else {
        anyhow::bail!("usage: apply_rates FOLDER ROWS CACHE_MIB THREADS OPERATIONS");
    };
    let folder = Path::new(folder);
    let options = FjallOptions {
        cache_bytes: cache_mib.parse::<u64>().context("CACHE_MIB")? << 20,
        threads_max: threads.parse().context("THREADS")?,
    };
    let (rows, operations) = (
        rows.parse::<u64>().context("ROWS")?,
        operations.parse::<u64>().context("OPERATIONS")?,
    );
    let mut bench = Bench {
        index: FjallIndex::create(folder, [0; 16], options)?,
        sequence: 0,
        contents: 0,
        draws: 0,
    };
    let time = bench.run(Kind::Register, rows, 65_536)?;
    report("load", 65_536, rows, time);
    for size in [256, 4_096, 65_536] {
        // Small batches wait for the disk each time, so fewer of them suffice.
        let count = if size == 256 { operations / 16 } else { operations };
        for (name, kind) in [
            ("register", Kind::Register),
            ("half hits", Kind::HalfHits),
            ("decrement", Kind::Decrement),
        ] {
            let time = bench.run(kind, count, size)?;
            report(name, size, count, time);
        }
    }
    let statistics = bench.index.statistics()?;
    show(&format!(
        "rows {}, references {}",
        statistics.rows(),
        statistics.references()
    ));
    show(&format!("memory: {}", memory()?));
    drop(bench);
    // Opening writes what is in journals to tables.
    let start = SystemClock.monotonic();
    let index = FjallIndex::open(folder, options)?;
    show(&format!(
        "reopened in {:.2} s",
        (SystemClock.monotonic() - start).as_secs_f64()
    ));
    SystemClock.sleep(Duration::from_secs(10));
    let tables = tables_bytes(&folder.join("keyspaces"))?;
    let journals = index.statistics()?.disk_bytes;
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    let bytes_each = tables as f64 / statistics.rows() as f64;
    show(&format!(
        "tables {tables} bytes, {bytes_each:.1} a row; with journals {journals} bytes"
    ));
    let start = SystemClock.monotonic();
    let mut scanned = 0u64;
    index.scan(Bucket::FIRST, &mut |_| {
        scanned += 1;
        std::ops::ControlFlow::Continue(())
    })?;
    show(&format!(
        "{scanned} rows scanned in {:.2} s",
        (SystemClock.monotonic() - start).as_secs_f64()
    ));
    drop(index);
    std::fs::remove_dir_all(folder)?;
    Ok(())
}

impl Bench {
    /// Applies `count` operations in batches of `size`, and returns the time in `apply`.
    fn run(&mut self, kind: Kind, count: u64, size: u64) -> Result<Times> {
        let client = VolumeId::new(1)?;
        let mut times = Times::default();
        let cpu_before = cpu()?;
        let mut own = Duration::ZERO;
        let mut left = count;
        while left > 0 {
            let made = cpu()?;
            let operations = self.batch(kind, left.min(size))?;
            own += cpu()? - made;
            left -= left.min(size);
            self.sequence += 1;
            let sequence = BatchSequence::new(self.sequence)?;
            let start = SystemClock.monotonic();
            self.index.apply(Bucket::FIRST, client, sequence, &operations)?;
            times.wall += SystemClock.monotonic() - start;
        }
        times.cpu = (cpu()? - cpu_before).saturating_sub(own);
        Ok(times)
    }

    fn batch(&mut self, kind: Kind, size: u64) -> Result<Vec<Operation>> {
        let known = self.contents;
        (0..size)
            .map(|n| {
                let is_new = match kind {
                    Kind::Register => true,
                    Kind::HalfHits => n % 2 == 0,
                    Kind::Decrement => false,
                };
                let number = if is_new {
                    self.contents += 1;
                    self.contents
                } else {
                    self.draws += 1;
                    mixed(self.draws ^ 0x5555_0000_0000) % known + 1
                };
                let (fingerprint, block, count) = (content(number), BlockNumber::new(number)?, 1);
                Ok(match kind {
                    Kind::Decrement => Operation::Decrement {
                        fingerprint,
                        block,
                        count,
                    },
                    Kind::Register | Kind::HalfHits => Operation::Increment {
                        fingerprint,
                        block,
                        count,
                    },
                })
            })
            .collect()
    }
}

fn content(number: u64) -> Fingerprint {
    let mut bytes = [0; 32];
    for (part, word) in bytes.chunks_exact_mut(8).zip(1u64..) {
        part.copy_from_slice(&mixed(number.wrapping_mul(4).wrapping_add(word)).to_be_bytes());
    }
    Fingerprint::from_bytes(bytes)
}

/// A one-to-one function of 64 bits without visible order.
fn mixed(mut word: u64) -> u64 {
    word ^= word >> 33;
    word = word.wrapping_mul(0xff51_afd7_ed55_8ccd);
    word ^= word >> 33;
    word = word.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

fn report(name: &str, size: u64, count: u64, times: Times) {
    let seconds = times.wall.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let (rate, cpu_each) = (
        count as f64 / seconds,
        times.cpu.as_secs_f64() * 1e6 / count as f64,
    );
    show(&format!(
        "{name:>9}, batches of {size:>6}: {count:>9} in {seconds:>7.2} s, {rate:>9.0} rows/s, {:>5.2} GB/s of \
         blocks, {cpu_each:>5.2} us of processor a row",
        rate * 4096.0 / 1e9
    ));
}

/// Processor time of the process, in user and system mode.
fn cpu() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(") ").context("/proc/self/stat")?;
    let ticks = fields.split(' ').skip(11).take(2).map(str::parse::<u64>);
    let ticks = ticks.sum::<Result<u64, _>>()?;
    // Linux shows a hundred ticks a second.
    Ok(Duration::from_millis(ticks * 10))
}

fn tables_bytes(folder: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in folder.read_dir()? {
        let entry = entry?;
        sum += if entry.file_type()?.is_dir() {
            tables_bytes(&entry.path())?
        } else {
            entry.metadata()?.len()
        };
    }
    Ok(sum)
}

/// The most memory that the process has had.
fn memory() -> Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let lines = status
        .lines()
        .filter(|line| line.starts_with("VmHWM") || line.starts_with("RssAnon"));
    Ok(lines.collect::<Vec<_>>().join(", "))
}

#[expect(clippy::print_stdout, reason = "its output is what the program is for")]
fn show(line: &str) {
    println!("{line}");
}
