//! Li, Xu, Ng and Lee, "Efficient Hybrid Inline and Out-of-Line Deduplication for Backup Storage"
//! (`RevDedup`), ACM TOS 11(1), 2014: the evaluation, section 4 (R1-R10).
//!
//! The engine makes all decisions: layout `hybrid`, optimize and prune are compared with the
//! engine's own conventional mode, layout `inline` in chunks of 4 KiB without a cap. As in the
//! paper, containers have 32 MiB, segments 4 MiB, the live window is one backup, and all backups
//! are kept. Null chunks are left out of all figures. Images are a part of the paper's.

mod baseline;
mod data;
mod expiry;
mod layout;
mod look_ups;
mod requests;
mod restores;
mod savings;
mod weeks;
mod windows;

use super::figures::{cores, median, megabytes, mib, number, percent, share};
use super::{Extent, Paper, Part, Run};
use crate::error::LabError;
use crate::generate::Images;

use layout::StoreLayout;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "tos14",
    title: "Y.-K. Li, M. Xu, C.-H. Ng, P. P. C. Lee, Efficient Hybrid Inline and Out-of-Line Deduplication for Backup Storage, ACM \
            Transactions on Storage 11(1), 2014",
    extents: [
        "`--full`: 78 weeks; images of 8 GB as in the paper for SG5 and GP in figure 4 and for table III, of 4 GB for figures 5 to 8 and 10, of 500 MB for the rest of \
         figure 4 and for figure 9; 16 series of GP, 20 machines; an hour and a half on two cores, within 12 GiB of memory and 50 of disk.",
        "Images of 500 MB and 26 weeks for figures 5 to 8 and 10 and table III, of 125 MB for figures 4 (52 weeks) and 9 (39): minutes on two \
         cores, within 3 GiB of memory and of disk. `--full` measures larger ones.",
    ],
    parts: &[SAVINGS, LOOK_UPS, BASELINE, WEEKS, WINDOWS, EXPIRY],
    with_versions: &[],
    with_disk_options: false,
    with_hosts: &[],
    run,
};

/// Figure 4.
const SAVINGS: Part = Part("figure-4");
/// Table III.
const LOOK_UPS: Part = Part("table-3");
/// Table II.
const BASELINE: Part = Part("table-2");
/// Figures 5 to 8.
const WEEKS: Part = Part("figures-5-8");
/// Figure 9.
const WINDOWS: Part = Part("figure-9");
/// Figure 10.
const EXPIRY: Part = Part("figure-10");

fn run(run: &mut Run<'_>) -> Result<(), LabError> {
    run_all(&Size::of(run.extent), run)
}

fn run_all(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    let of_weeks = [WEEKS, EXPIRY].into_iter().any(|part| run.wants(part));
    let bytes = [
        run.bytes_of(SAVINGS, savings::bytes(size)),
        run.bytes_of(LOOK_UPS, look_ups::bytes(size)),
        run.bytes_of(BASELINE, baseline::bytes(size)),
        if of_weeks {
            weeks::bytes(size, run.wants(WEEKS))
        } else {
            0
        },
        run.bytes_of(WEEKS, restores::bytes(size)),
        run.bytes_of(WINDOWS, windows::bytes(size)),
        run.bytes_of(EXPIRY, expiry::bytes(size)),
    ];
    run.progress.expect(bytes.iter().sum());
    let before = run.progress.done();
    if run.wants(SAVINGS) {
        savings::run(size, run)?;
    }
    if run.wants(LOOK_UPS) {
        look_ups::run(size, run)?;
    }
    if run.wants(BASELINE) {
        baseline::run(size, run)?;
    }
    if of_weeks {
        let stores = weeks::build(size, run.wants(WEEKS), run)?;
        if run.wants(WEEKS) {
            weeks::report(size, &stores, run)?;
            restores::run(size, &stores, run)?;
        }
        if run.wants(EXPIRY) {
            expiry::run(size, &stores, run)?;
        }
    }
    if run.wants(WINDOWS) {
        windows::run(size, run)?;
    }
    // The number of bytes was an estimate.
    run.progress
        .correct(bytes.iter().sum(), run.progress.done() - before);
    Ok(())
}

/// Bytes of the paper's images.
const PAPERS_IMAGE: u64 = 8_000_000_000;

/// How much is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Size {
    container_bytes: u32,
    /// Bytes of the compared segments. The second is the default.
    segments: [u32; 3],
    /// For figure 4: bytes of an image of SG1 to SG4, bytes of one of SG5, and weeks.
    savings: ([u64; 2], u32),
    /// For GP and for the virtual machines: bytes of an image, series, and weeks.
    groups: [(u64, u32, u32); 2],
    /// Bytes of an image for table III.
    look_ups_bytes: u64,
    /// For SG1 on disk: bytes of an image, and weeks.
    weeks: (u64, u32),
    /// Every n-th backup is restored, and the newest.
    restored_every: usize,
    /// The number of batch sizes in the experiment with expiry.
    batches: usize,
    /// For live windows of these lengths: bytes of an image of SG1, and weeks.
    windows: (u64, u32),
    live: [u16; 3],
    /// Bytes of unique data, and how often they are written and read.
    unique: (u64, usize),
}

impl Size {
    fn of(extent: Extent) -> Self {
        let quick = Self {
            container_bytes: 32 << 20,
            segments: [1 << 20, 4 << 20, 8 << 20],
            savings: ([125_000_000; 2], 52),
            groups: [(125_000_000, 8, 20), (125_000_000, 4, 12)],
            look_ups_bytes: 500_000_000,
            weeks: (500_000_000, 26),
            restored_every: 5,
            batches: 4,
            windows: (125_000_000, 39),
            live: [1, 5, 17],
            unique: (512 << 20, 3),
        };
        match extent {
            Extent::Quick => quick,
            Extent::Full => Self {
                savings: ([500_000_000, PAPERS_IMAGE], 78),
                groups: [(PAPERS_IMAGE, 16, 20), (500_000_000, 20, 12)],
                look_ups_bytes: PAPERS_IMAGE,
                weeks: (4_000_000_000, 78),
                restored_every: 11,
                batches: 7,
                windows: (500_000_000, 78),
                unique: (2 << 30, 5),
                ..quick
            },
        }
    }

    /// The paper's default layout.
    fn hybrid(&self) -> StoreLayout {
        self.hybrid_with(1, 0)
    }

    /// The same with another live window, or with layout repair.
    fn hybrid_with(&self, live: u16, repair: u16) -> StoreLayout {
        StoreLayout::Hybrid {
            segment_bytes: self.segments[1],
            live,
            repair,
        }
    }

    /// Whether the backup with this number is restored, of so many.
    fn is_restored(&self, backup: usize, of: usize) -> bool {
        backup.is_multiple_of(self.restored_every) || backup + 1 == of
    }
}

/// SG1 with so many bytes and weeks.
fn sg1((image_bytes, weeks): (u64, u32)) -> Images {
    let images = Images::sg(1).expect("there is a first").scaled(image_bytes);
    Images { weeks, ..images }
}

/// The common settings of all stores.
fn setup(size: &Size) -> String {
    format!(
        "The engine, chunks of 4 KiB, containers of {} MiB, segments of {} MiB where nothing else is said, live window of 1 backup, all backups \
         kept, nothing compressed; conventional: layout inline without a cap. After each backup of layout hybrid the one before is made archival, and a prune \
         follows that may leave a twentieth unused, as by default.",
        mib(size.container_bytes.into()),
        mib(size.segments[1].into())
    )
}

/// A rate in MB (10^6 bytes) a second.
fn megabytes_a_second(bytes: u64, took: std::time::Duration) -> f64 {
    share(bytes, 1_000_000) / took.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests;
