//! A host of figure 3: a pool with a volume, readers and writers with a pace, and a finder with a
//! limit.
//!
//! A host is a process that the experiment starts, or a thread of it. It prepares its volume, says
//! so, waits until all hosts are ready, runs, and returns what it did.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ddi::Bucket;
use env::{Clock, SystemClock};
use serde::{Deserialize, Serialize};
use volume::VolumeSettings;

use super::bed::{Bed, Folder};
use super::far_index::FarIndex;
use super::{DiskOptions, contents};
use crate::disk::{self, Access, BLOCK_BYTES, Kind, Measured, Process, Traffic, Until, Worker};
use crate::error::LabError;

/// What a ready host says.
pub(super) const READY: &str = "ready";

/// The largest volume of a host: its pool is three times as large.
const VOLUME_BYTES_MAX: u64 = 1 << 50;

/// The settings of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HostSettings {
    pub(super) number: u16,
    pub(super) folder: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) volume_bytes: u64,
    pub(super) load: Duration,
    pub(super) interval_s: u32,
    pub(super) finder_blocks_per_s: u64,
    pub(super) reads_per_s: f64,
    pub(super) writes_per_s: f64,
    pub(super) distribution: Option<PathBuf>,
    pub(super) access: Access,
}

impl HostSettings {
    /// Refuses numbers with which no host could run.
    fn check(&self) -> Result<(), LabError> {
        let too_large = |what: &str| Err(LabError::settings(format!("the settings of a host: {what}")));
        if Bucket::new(self.number).is_none() {
            return too_large("its number is too large");
        }
        if self.volume_bytes > VOLUME_BYTES_MAX {
            return too_large("its volume is too large");
        }
        Ok(())
    }
}

/// What a host did.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct HostResult {
    pub(super) reads: Operations,
    pub(super) writes: Operations,
    /// Blocks that the finder examined in a second of its part of the iterations, pauses included,
    /// beside the load and after it. The collector's part is left out.
    pub(super) finder_blocks_per_s: f64,
    /// Blocks that the finder had examined when the load ended.
    pub(super) examined_beside: u64,
    /// Blocks that the finder examined after the load.
    pub(super) examined_after: u64,
    /// Blocks that remained when the time was over.
    pub(super) backlog_blocks: u64,
}

/// Reads or writes of a host.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Operations {
    pub(super) per_s: f64,
    pub(super) mean_ms: f64,
    pub(super) p99_ms: f64,
}

impl From<&Measured> for Operations {
    fn from(measured: &Measured) -> Self {
        Self {
            per_s: measured.per_s(),
            mean_ms: measured.mean_ms(),
            p99_ms: measured.p99_ms(),
        }
    }
}

/// Runs a host of figure 3 as a process: prints `ready`, waits for a line of `input`, and prints
/// what it did as a line of JSON.
///
/// # Errors
/// `Settings` if `settings` are not those that the experiment gives; `Io`; errors of the volume.
pub fn serve_host(settings: &str, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<(), LabError> {
    let settings: HostSettings = serde_json::from_str(settings)
        .map_err(|error| LabError::settings(format!("the settings of a host: {error}")))?;
    settings.check()?;
    let failed = |source| LabError::io("the experiment", source);
    let mut write = |line: &str| -> Result<(), LabError> {
        writeln!(output, "{line}").map_err(failed)?;
        output.flush().map_err(failed)
    };
    let result = run(&settings, &mut || {
        write(READY)?;
        let mut line = String::new();
        match input.read_line(&mut line).map_err(failed)? {
            0 => Err(LabError::settings("the experiment has ended")),
            _ => Ok(()),
        }
    })?;
    write(&serde_json::to_string(&result).expect("numbers"))
}

/// Runs a host. `ready` returns when all are ready.
pub(super) fn run(
    settings: &HostSettings,
    ready: &mut dyn FnMut() -> Result<(), LabError>,
) -> Result<HostResult, LabError> {
    let step: super::bed::Step<'_> = &|_| Ok(());
    let traffic = Traffic {
        contents: Arc::new(contents(&DiskOptions {
            distribution: settings.distribution.as_deref(),
            ..DiskOptions::default()
        })?),
        access: settings.access,
        seed: 1 + u64::from(settings.number),
    };
    let bucket = Bucket::new(settings.number).expect("an experiment has few hosts");
    let index = Arc::new(FarIndex::new(&settings.socket, bucket));
    let folder = Folder::create(settings.folder.clone())?;
    let of_volume = VolumeSettings {
        interval_s: settings.interval_s,
        finder_bytes_per_s: settings.finder_blocks_per_s.saturating_mul(BLOCK_BYTES),
        ..VolumeSettings::default()
    };
    let mut bed = Bed::with_index(folder, index, settings.volume_bytes, of_volume)?;
    bed.fill(&traffic, step)?;
    // The load's blocks alone are left to the finder.
    bed.pool.drain(&bed.pool.volumes(), &mut |_, _| true)?;
    let blocks = settings.volume_bytes / BLOCK_BYTES;
    let worker = |number, kind, per_s| -> Result<Worker, LabError> {
        Ok(Worker {
            process: Process::new(traffic.clone(), number, 0..blocks)?,
            kind,
            per_s: Some(per_s),
        })
    };
    let mut workers = [
        worker(0, Kind::Reads, settings.reads_per_s)?,
        worker(1, Kind::FlushedWrites, settings.writes_per_s)?,
    ];
    ready()?;
    let before = bed.volume.counts();
    bed.start()?;
    let done = disk::run(&bed, &mut workers, Until::Time(settings.load), step)?;
    let examined_beside = bed.volume.counts().examined - before.examined;
    finish(&bed, settings);
    bed.stop();
    let after = bed.volume.counts();
    let seconds = Duration::from_nanos(after.finder_ns - before.finder_ns).as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let per_s = (after.examined - before.examined) as f64 / seconds.max(1e-9);
    Ok(HostResult {
        reads: (&done[0]).into(),
        writes: (&done[1]).into(),
        finder_blocks_per_s: per_s,
        examined_beside,
        examined_after: after.examined - before.examined - examined_beside,
        backlog_blocks: bed.volume.stats().backlog_bytes / BLOCK_BYTES,
    })
}

/// Waits until the finder has examined all that was written, and has ended its iteration with the
/// pause that its limit asks for. A finder that falls behind is left after four times the load.
fn finish(bed: &Bed, settings: &HostSettings) {
    let clock = SystemClock;
    let interval = Duration::from_secs(settings.interval_s.into());
    let pause = settings.load.saturating_add(interval).saturating_mul(4);
    let most = clock
        .monotonic()
        .saturating_add(pause)
        .saturating_add(Duration::from_secs(5));
    let wait_for = |is_met: &dyn Fn() -> bool| {
        while clock.monotonic() < most && !is_met() {
            clock.sleep(Duration::from_millis(50));
        }
    };
    wait_for(&|| bed.volume.stats().backlog_bytes == 0);
    let worked = bed.volume.counts().finder_ns;
    wait_for(&|| bed.volume.counts().finder_ns > worked);
}
