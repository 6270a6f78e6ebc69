//! The bound for re-reading known data: reads a file, cuts it into chunks and takes their
//! fingerprints, on as many threads as the machine has cores, and does nothing else. `bound FILE`;
//! the caller takes the time.
//!
//! Each thread has one equal section of the file and one buffer. The code that cuts and
//! fingerprints is the engine's. A section's first and last chunk are cut at its ends. Any error
//! ends the program.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;

use anyhow::{Context, Result, anyhow};
use chunking::{CHUNK_BYTES_MAX, Cdc, CdcSizes, Chunker};
use crypto::{DomainKey, Fingerprinter};

/// Bytes asked for by one read.
const READ_BYTES: usize = 1 << 20;

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).context("usage: bound FILE")?;
    let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
    let bytes = file.metadata()?.len();
    let fingerprinter = Fingerprinter::new(&DomainKey::from_bytes([7; 32]));
    let cdc = Cdc::new(CdcSizes::default(), &fingerprinter.gear_table()).context("default sizes")?;
    let threads = thread::available_parallelism()?.get() as u64;
    let section = |n: u64| bytes * n / threads;
    let chunks: Result<u64> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|n| {
                scope.spawn({
                    let (file, cdc, fingerprinter) = (&file, &cdc, &fingerprinter);
                    move || walk(file, section(n), section(n + 1), cdc, fingerprinter)
                })
            })
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
            .sum()
    });
    println!("{bytes} bytes, {} chunks, {threads} threads", chunks?);
    Ok(())
}

/// Reads `from..to`, cuts and fingerprints it; the number of chunks.
fn walk(file: &File, from: u64, to: u64, cdc: &Cdc, fingerprinter: &Fingerprinter) -> Result<u64> {
    let mut buffer = vec![0; READ_BYTES + CHUNK_BYTES_MAX as usize];
    let mut lens = Vec::new();
    let (mut at, mut held, mut chunks) = (from, 0, 0);
    loop {
        let want = READ_BYTES.min(usize::try_from(to - at)?);
        file.read_exact_at(&mut buffer[held..held + want], at)?;
        at += want as u64;
        held += want;
        lens.clear();
        let cut = cdc.cut_all(&buffer[..held], at == to, &mut lens);
        let mut start = 0;
        for len in &lens {
            let end = start + *len as usize;
            std::hint::black_box(fingerprinter.chunk(&buffer[start..end]));
            start = end;
        }
        chunks += lens.len() as u64;
        buffer.copy_within(cut..held, 0);
        held -= cut;
        if at == to {
            return Ok(chunks);
        }
    }
}
