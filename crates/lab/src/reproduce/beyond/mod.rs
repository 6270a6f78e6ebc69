//! Beyond the papers: what reads fewer containers than capping and a rolling assembly area, with
//! the same memory and the same loss of deduplication? (L9)
//!
//! On ten data sets, restores that look ahead with a cache of chunks are compared with assembly
//! areas, and other caps with fixed ones. On two data sets, stores whose newest backup is repaired
//! are compared with stores without repair.

mod caps;
mod defaults;
mod look_ahead;
mod repair;

use simulate::{BackupHead, Chunk, Schedule, SimulateError, Sink};

use super::{Extent, Paper, Part, Run};
use crate::error::LabError;
use crate::generate::{Clusters, Edits, Images, Lineages, TwoYear, Workgroup, Workload};

/// The experiments beyond the papers.
pub(super) const PAPER: Paper = Paper {
    name: "beyond",
    title: "Beyond the papers: restores that look ahead with a cache of chunks, other caps, and layout repair.",
    extents: [
        "Backups of 1 GB on every data set; for layout repair 150 of '2year', 256 MB at first, in some 8 GiB of memory.",
        "Backups of 256 MB on every data set; for layout repair 60 of '2year', 256 MB at first.",
    ],
    parts: &[LOOK_AHEAD, CAPS, DEFAULT, repair::REPAIR],
    with_versions: &[repair::REPAIR],
    with_disk_options: false,
    with_hosts: &[],
    run,
};

const CONTAINER_BYTES: u64 = 4 << 20;
/// A data set.
struct Data {
    name: &'static str,
    workload: Box<dyn Workload>,
    schedule: Schedule,
    /// Its number of backups, and their bytes, once counted.
    backups: u64,
    bytes: u64,
}

impl Data {
    /// Counts backups and bytes, without keeping any data.
    fn count(&mut self) -> Result<(), SimulateError> {
        struct Counts(u64, u64);
        impl Sink for Counts {
            fn begin(&mut self, _: &BackupHead) -> Result<(), SimulateError> {
                self.0 += 1;
                Ok(())
            }
            fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
                self.1 += chunks.iter().map(|chunk| u64::from(chunk.len)).sum::<u64>();
                Ok(())
            }
            fn end(&mut self) -> Result<(), SimulateError> {
                Ok(())
            }
        }
        let mut counts = Counts(0, 0);
        self.workload.replay(&mut counts)?;
        (self.backups, self.bytes) = (counts.0, counts.1);
        Ok(())
    }
}

fn data(bytes: u64, weeks: u32) -> Vec<Data> {
    let of = |name, workload: Box<dyn Workload>, schedule| Data {
        name,
        workload,
        schedule,
        backups: 0,
        bytes: 0,
    };
    let two_year = TwoYear {
        snapshot_bytes: bytes / 4,
        weeks,
        ..TwoYear::default()
    };
    let workgroup = Workgroup {
        machines: 4,
        machine_bytes: bytes / 4,
        weeks: 12,
        ..Workgroup::default()
    };
    let edits = Edits {
        stream_bytes: bytes,
        backups: 20,
        ..Edits::default()
    };
    let lineages = |clusters| Lineages {
        file_bytes: bytes,
        lineages: 1,
        generations: 20,
        clusters,
        ..Lineages::default()
    };
    let mut all = vec![
        of("2year", Box::new(two_year), Schedule::Cycle(30)),
        of("workgroup", Box::new(workgroup), Schedule::Cycle(30)),
        of("edits", Box::new(edits), Schedule::All),
        of(
            "lineage, normal",
            Box::new(lineages(Clusters::Normal)),
            Schedule::All,
        ),
        of(
            "lineage, uniform",
            Box::new(lineages(Clusters::Uniform)),
            Schedule::All,
        ),
    ];
    for (number, name) in [(1, "sg1"), (2, "sg2"), (3, "sg3"), (4, "sg4"), (5, "sg5")] {
        if let Some(images) = Images::sg(number) {
            let images = Images {
                weeks: 26,
                ..images.scaled(bytes)
            };
            all.push(of(name, Box::new(images), Schedule::All));
        }
    }
    all
}

/// Restores that look ahead, compared with assembly areas of the same memory.
const LOOK_AHEAD: Part = Part("look-ahead");
/// Kinds of cap, at the same loss and memory.
const CAPS: Part = Part("caps");
/// The default cap on '2year'.
const DEFAULT: Part = Part("default-cap");

fn run(run: &mut Run<'_>) -> Result<(), LabError> {
    let bytes = match run.extent {
        Extent::Full => 1_000_000_000,
        Extent::Quick => 256_000_000,
    };
    let replays = run.bytes_of(LOOK_AHEAD, look_ahead::REPLAYS) + run.bytes_of(CAPS, caps::REPLAYS);
    let mut all = if replays > 0 { data(bytes, 48) } else { Vec::new() };
    for data in &mut all {
        data.count()?;
        run.progress.expect(replays * data.bytes);
    }
    if run.wants(LOOK_AHEAD) {
        look_ahead::run(run, &mut all, bytes)?;
    }
    if run.wants(CAPS) {
        caps::run(run, &mut all, bytes)?;
    }
    if run.wants(DEFAULT) {
        let weeks = match run.extent {
            Extent::Full => 96,
            Extent::Quick => 24,
        };
        defaults::run(run, weeks)?;
    }
    if run.wants(repair::REPAIR) {
        repair::run(run)?;
    }
    Ok(())
}
