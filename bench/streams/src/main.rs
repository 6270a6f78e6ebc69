//! Backs up several streams at once in one process (G10; Guo, figure 4 and table 3): `streams
//! FOLDER STREAMS MIB`. All streams together have MIB of unique data. They are backed up into a new
//! store in FOLDER, and once more into the same store, where all of it is known. Prints one line of
//! JSON: MB/s of each, and the peak of resident memory in MiB.
//!
//! Sources cost next to nothing: each repeats one block of noise, changed in every 4 KiB. Any error
//! ends the program.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use onefold::{
    BackupOptions, Credential, Env, InitOptions, Monitor, OpenOptions, ReaderSource, Store, StreamOptions,
};

/// Bytes of noise that a source repeats.
const BLOCK_BYTES: usize = 1 << 20;
/// A source changes eight bytes in every so many.
const CHANGED_EVERY: usize = 4 << 10;

/// Unique bytes: no two streams share a chunk, and no stream has one twice.
struct Unique {
    block: Vec<u8>,
    stream: u64,
    at: u64,
    len: u64,
}

impl Unique {
    fn new(stream: u64, len: u64) -> Self {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        while block.len() < BLOCK_BYTES {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            block.extend_from_slice(&state.to_le_bytes());
        }
        let at = 0;
        Self { block, stream, at, len }
    }
}

impl Read for Unique {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let begin = (self.at % BLOCK_BYTES as u64) as usize;
        if begin == 0 {
            let number = self.at / BLOCK_BYTES as u64;
            for (place, part) in (0..).zip(self.block.chunks_mut(CHANGED_EVERY)) {
                let mark = (self.stream << 48) ^ (number << 16) ^ place;
                part[..8].copy_from_slice(&mark.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            }
        }
        let left = usize::try_from(self.len - self.at).unwrap_or(usize::MAX);
        let len = buffer.len().min(BLOCK_BYTES - begin).min(left);
        buffer[..len].copy_from_slice(&self.block[begin..begin + len]);
        self.at += len as u64;
        Ok(len)
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, streams, mib] = args.as_slice() else {
        return Err(anyhow!("usage: streams FOLDER STREAMS MIB"));
    };
    let (streams, bytes) = (streams.parse::<u64>()?, mib.parse::<u64>()? << 20);
    fs::create_dir_all(folder).with_context(|| format!("making {folder}"))?;
    let env = Env::local(Path::new(folder))?;
    Store::init(&env, &Credential::None, &InitOptions::default(), None)?;
    let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;
    let mut rates = Vec::new();
    for _ in 0..2 {
        let took = back_up(&store, streams, bytes / streams)?;
        rates.push(bytes as f64 / 1e6 / took.as_secs_f64());
    }
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak: u64 = peak.and_then(|kb| kb.trim().strip_suffix(" kB")?.parse().ok()).context("VmHWM")?;
    println!(
        "{{\"streams\": {streams}, \"unique_mb_s\": {:.0}, \"known_mb_s\": {:.0}, \"peak_mib\": {}}}",
        rates[0],
        rates[1],
        peak >> 10
    );
    Ok(())
}

/// Backs up all streams at once; the time until the last has ended.
fn back_up(store: &Store, streams: u64, bytes: u64) -> Result<Duration> {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..streams)
            .map(|number| {
                scope.spawn(move || {
                    let mut source = ReaderSource(Unique::new(number, bytes));
                    let name = format!("stream-{number}");
                    let (options, how) = (BackupOptions::default(), StreamOptions::default());
                    store.backup_stream(&options, name.as_ref(), &how, &mut source, &Monitor::default())
                })
            })
            .collect();
        for one in running {
            let report = one.join().map_err(|_| anyhow!("a backup panicked"))??;
            anyhow::ensure!(report.totals.bytes_logical == bytes, "a stream of another length");
        }
        Ok(began.elapsed())
    })
}
