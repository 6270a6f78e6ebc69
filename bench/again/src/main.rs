//! Makes backups one after the other in one process: `again FOLDER BACKUPS`. The store in FOLDER,
//! without a password, has an index already (`hollow_store` makes one of any size). Each backup is
//! a new stream of 1 MiB. Prints a line of JSON for opening the store and for each backup:
//! milliseconds, how many objects of the index were read, and their bytes. Any error ends the
//! program.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow};
use env::LoggedStorage;
use onefold::{
    BackupOptions, Credential, Env, Monitor, OpenOptions, ReaderSource, Store, StreamOptions,
};

/// Reads of objects of the index, and their bytes.
static READS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts log lines of the storage that name objects of the index.
struct Counting;

impl Write for Counting {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let is_read = ["get", "map"].iter().any(|word| text.contains(&format!("{word} ")));
        if is_read && text.contains("object=index/") {
            let bytes = text.split("bytes=").nth(1).and_then(|rest| rest.split_whitespace().next());
            let bytes = bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(0);
            READS.fetch_add(1, Ordering::Relaxed);
            BYTES.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, backups] = args.as_slice() else {
        return Err(anyhow!("usage: again FOLDER BACKUPS"));
    };
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(|| Counting)
        .init();
    let mut env = Env::local(Path::new(folder))?;
    env.storage = Arc::new(LoggedStorage::new(env.storage, env.clock.clone()));
    let began = Instant::now();
    let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;
    report("open", began);
    for number in 0..backups.parse::<u64>()? {
        let began = Instant::now();
        let mut bytes = Vec::new();
        let mut state = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        while bytes.len() < 1 << 20 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_le_bytes());
        }
        let mut source = ReaderSource(&bytes[..]);
        let (options, how) = (BackupOptions::default(), StreamOptions::default());
        store.backup_stream(&options, "again".as_ref(), &how, &mut source, &Monitor::default())?;
        report("backup", began);
    }
    Ok(())
}

fn report(what: &str, began: Instant) {
    println!(
        "{{\"step\": \"{what}\", \"ms\": {:.1}, \"index_reads\": {}, \"index_bytes\": {}}}",
        began.elapsed().as_secs_f64() * 1e3,
        READS.swap(0, Ordering::Relaxed),
        BYTES.swap(0, Ordering::Relaxed)
    );
}
