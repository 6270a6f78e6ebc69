//! Table 1: how much space deduplication saves, and how fast the finder is, with hash and with byte
//! comparison (D2, D7, D9, D11).
//!
//! A load writes for some time beside the finder. Then the finder works alone for a third of that
//! time, and at least for as long as a block needs to become quiet.

use std::time::Duration;

use env::{Clock, SystemClock};
use volume::VolumeSettings;

use super::bed::{Bed, Step, writers};
use super::{PROCESSES, Setting};
use crate::disk::{self, BLOCK_BYTES, Measured, Until};
use crate::error::LabError;
use crate::reproduce::figures::{mib, number, percent, share};
use crate::reproduce::{Experiment, Row, Run};

/// The paper's volume: 17 % of 4 GB.
const SAVED_PAPER: &str = "17 %";

/// What one kind of comparison did.
struct Gain {
    /// Of the volume, by the pool's statistics.
    saved: f64,
    /// Blocks that the pool shares, and blocks that a scan of the volume finds redundant.
    shared_blocks: u64,
    redundant_blocks: u64,
    backlog_blocks: u64,
    /// MB/s of the finder while it worked beside the load, and alone.
    beside_mb_s: f64,
    alone_mb_s: f64,
    /// MB/s that the load needs.
    needed_mb_s: f64,
    written_bytes: u64,
    examined_blocks: u64,
    index_bytes: u64,
    load: Measured,
}

pub(super) fn run(run: &mut Run<'_>, setting: &Setting<'_>) -> Result<(), LabError> {
    let mut rows = Vec::new();
    for (name, compare_bytes, paper) in [("hash", false, 4.78), ("byte", true, 4.55)] {
        run.progress.begin(format!("table 1, {name} comparison"));
        let settings = VolumeSettings {
            compare_bytes,
            interval_s: setting.scale.interval_s,
            ..VolumeSettings::default()
        };
        let mut bed = Bed::create(&run.folder.join("pools"), setting.scale.volume_bytes, settings)?;
        let progress = run.progress;
        let gain = measure(&mut bed, setting, &|bytes| progress.advance(bytes))?;
        rows.extend(gain.rows(name, paper));
    }
    let scale = &setting.scale;
    run.report(Experiment {
        name: "table-1".to_owned(),
        title: "table 1: space saved, and the finder's throughput".to_owned(),
        seeds: vec!["D2", "D7", "D9", "D10", "D11"],
        setup: format!(
            "A volume of {} MiB, not filled before; {PROCESSES} writers for {} s, then the finder alone. {}",
            mib(scale.volume_bytes),
            scale.load_1.as_secs_f64(),
            setting.load_words(scale.interval_s)
        ),
        rows,
        plots: Vec::new(),
    })
}

fn measure(bed: &mut Bed, setting: &Setting<'_>, step: Step<'_>) -> Result<Gain, LabError> {
    let scale = &setting.scale;
    let mut workers = writers(&setting.traffic, PROCESSES, scale.volume_bytes)?;
    bed.start()?;
    let done = disk::run(bed, &mut workers, Until::Time(scale.load_1), step)?;
    let load = done.iter().fold(Measured::default(), |all, one| all.beside(one));
    let (beside, backlog) = (bed.volume.counts(), bed.volume.stats().backlog_bytes);
    alone(bed, scale.load_1 / 3, scale.interval_s, step)?;
    bed.stop();
    let (all, stats) = (bed.volume.counts(), bed.pool.stats()?);
    let rate = |blocks: u64, ns: u64| 1000.0 * share(blocks * BLOCK_BYTES, ns.max(1));
    let seconds = load.time.as_secs_f64().max(1e-9);
    Ok(Gain {
        saved: share(stats.shared_bytes, scale.volume_bytes),
        shared_blocks: stats.shared_bytes / BLOCK_BYTES,
        redundant_blocks: bed.scan(step)?,
        backlog_blocks: stats.backlog_bytes / BLOCK_BYTES,
        beside_mb_s: rate(beside.examined, beside.finder_ns),
        alone_mb_s: rate(all.examined - beside.examined, all.finder_ns - beside.finder_ns),
        needed_mb_s: number(beside.examined * BLOCK_BYTES + backlog) / 1e6 / seconds,
        written_bytes: all.written_bytes,
        examined_blocks: all.examined,
        index_bytes: stats.index_bytes,
        load,
    })
}

/// Leaves the finder alone for this time, and longer while blocks become quiet. A finder that is
/// too slow is left behind after four times that.
fn alone(bed: &Bed, time: Duration, interval_s: u32, step: Step<'_>) -> Result<(), LabError> {
    let (clock, look) = (SystemClock, Duration::from_millis(50));
    let begun = clock.monotonic();
    let least = time.max(Duration::from_secs(3 * u64::from(interval_s)));
    let most = 4 * least + Duration::from_secs(5);
    loop {
        let passed = clock.monotonic() - begun;
        let is_done = passed >= least && bed.volume.stats().backlog_bytes == 0;
        if is_done || passed >= most {
            return Ok(());
        }
        clock.sleep(look);
        step(0)?;
    }
}

impl Gain {
    fn rows(&self, name: &str, paper_mb_s: f64) -> Vec<Row> {
        let (shared, redundant) = (self.shared_blocks, self.redundant_blocks);
        vec![
            Row::new(
                format!("space saved, of the volume, {name}"),
                SAVED_PAPER,
                percent(self.saved),
            )
            .value(self.saved)
            .met(
                (0.10..0.25).contains(&self.saved),
                "the load has not written enough of the volume",
            ),
            Row::new(
                format!("duplicates that the finder shares are those of an exact scan, {name}"),
                "exact",
                format!(
                    "{shared} of {redundant} blocks, {} not examined",
                    self.backlog_blocks
                ),
            )
            .value(share(shared, redundant))
            .met(shared == redundant, "blocks are not examined yet"),
            Row::new(
                format!("finder beside the load, {name}: at least the paper's"),
                format!("{paper_mb_s} MB/s"),
                format!("{:.1} MB/s", self.beside_mb_s),
            )
            .value(self.beside_mb_s)
            .met(self.beside_mb_s >= paper_mb_s, "the machine is slower"),
            Row::new(
                format!("finder alone, {name}: at least the paper's"),
                format!("{paper_mb_s} MB/s"),
                format!("{:.1} MB/s", self.alone_mb_s),
            )
            .value(self.alone_mb_s)
            .met(self.alone_mb_s >= paper_mb_s, "the machine is slower"),
            Row::new(
                format!("throughput that this load needs, {name}: less than the finder's beside it"),
                "0.76 MB/s",
                format!("{:.2} MB/s", self.needed_mb_s),
            )
            .value(self.needed_mb_s)
            .met(
                self.needed_mb_s < self.beside_mb_s,
                "duplicates accumulate under this load",
            ),
            Row::new(
                format!("written by the load, and examined by the finder, {name}"),
                "13 GB, 1 million blocks",
                format!(
                    "{:.1} MiB at {:.0} writes/s, {} blocks",
                    mib(self.written_bytes),
                    self.load.per_s(),
                    self.examined_blocks
                ),
            ),
            Row::new(
                format!("duplicates index on disk, {name}"),
                "80 MB",
                format!("{:.1} MB", number(self.index_bytes) / 1e6),
            ),
        ]
    }
}
