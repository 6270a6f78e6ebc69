//! Lillibridge, Eshghi, Bhagwat: Improving Restore Speed for Backup Systems that Use Inline
//! Chunk-Based Deduplication, FAST 2013, section 4 (L1-L10).
//!
//! The paper's MB are taken as MiB: containers of 4 MiB, memory in powers of two. Its first
//! snapshot of '2year' is taken as 10^10 bytes.
//!
//! Data may be smaller than the paper's. Where nothing is capped, memory is then scaled down in the
//! same proportion, but not below one container. So it holds the same share of a backup, and it has
//! the name of the paper's size. Containers and chunks are not scaled: the gain of a container read
//! depends on them. Where caps vary, memory is not scaled either, and nor are windows and caps:
//! their gain depends on how many of a window's containers fit into an LRU cache.

mod capping;
mod containers;
mod data;
mod memory;
mod over_time;
#[cfg(test)]
mod tests;

use simulate::Assembly;

use super::{Extent, Paper, Part, Progress, Run};
use crate::error::LabError;
use data::Data;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "fast13",
    title: "Lillibridge, Eshghi, Bhagwat: *Improving Restore Speed for Backup Systems that Use Inline Chunk-Based \
            Deduplication*, FAST 2013.",
    extents: [
        "The whole of '2year' and a quarter of Workgroup-like data; where caps vary, a twentieth of the \
         one and a fortieth of the other, with all caps of the paper's.",
        "A tenth of '2year' and of Workgroup-like data; where caps vary, a twentieth of the one and a \
         fortieth of the other, with a few of the caps.",
    ],
    parts: &[
        TWO_YEAR,
        TWO_YEAR_CAPPED,
        WORKGROUP,
        WORKGROUP_CONTAINERS,
        WORKGROUP_CAPPED,
    ],
    with_versions: &[],
    with_disk_options: false,
    with_hosts: &[],
    run,
};

/// The paper's cycle of 30 backups: the oldest is deleted before the next one is made.
const CYCLE: usize = 30;

/// The data sets of the figures.
struct Extents {
    /// Figures 1, 2 and 8.
    two_year: Data,
    /// Figures 4, 5, 6, 7 and 9: with the paper's whole memory.
    two_year_small: Data,
    /// Figures 2, 3, 8, 10, 11 and 12.
    workgroup: Data,
    /// Figures 4, 5, 6, 7 and 9: with the paper's whole memory.
    workgroup_small: Data,
    /// Caps to try.
    caps: &'static [u32],
    /// Windows of figure 7, in MB.
    windows_mb: &'static [u64],
    /// Caps to try with each of these windows.
    windows_caps: &'static [u32],
}

const CONTAINER_BYTES: u64 = 4 << 20;

impl Extents {
    fn of(extent: Extent, progress: &Progress) -> Result<Self, LabError> {
        let two_year = |bytes| Data::two_year(bytes, 96, CONTAINER_BYTES);
        let workgroup = |bytes| Data::workgroup(bytes, 18, CONTAINER_BYTES, progress);
        // The small data sets are the same for both extents.
        let two_year_small = two_year(500_000_000).with_whole_memory();
        let workgroup_small = workgroup(525_000_000)?.with_whole_memory();
        Ok(match extent {
            Extent::Quick => Self {
                two_year: two_year(1_000_000_000),
                two_year_small,
                workgroup: workgroup(2_100_000_000)?,
                workgroup_small,
                caps: &capping::SOME_CAPS,
                windows_mb: &[20, 80],
                windows_caps: &[90, 50],
            },
            Extent::Full => Self {
                two_year: two_year(10_000_000_000),
                two_year_small,
                workgroup: workgroup(5_250_000_000)?,
                workgroup_small,
                caps: &capping::CAPS,
                windows_mb: &[20, 80, 160],
                windows_caps: &[90, 50],
            },
        })
    }
}

/// 2year, not capped: figures 1, 2, 3 and 8.
const TWO_YEAR: Part = Part("2year");
/// 2year, capped: figures 4, 5, 6, 7 and 9.
const TWO_YEAR_CAPPED: Part = Part("2year-capped");
/// Workgroup, not capped: figures 1, 2, 3 and 8.
const WORKGROUP: Part = Part("workgroup");
/// Workgroup: figures 10, 11 and 12.
const WORKGROUP_CONTAINERS: Part = Part("workgroup-containers");
/// Workgroup, capped: figures 4, 5, 6, 7 and 9.
const WORKGROUP_CAPPED: Part = Part("workgroup-capped");

fn run(run: &mut Run<'_>) -> Result<(), LabError> {
    let extents = Extents::of(run.extent, run.progress)?;
    reproduce(run, &extents)
}

fn reproduce(run: &mut Run<'_>, extents: &Extents) -> Result<(), LabError> {
    let tries =
        capping::caps(extents.caps).len() + capping::windows(extents.windows_mb, extents.windows_caps).len();
    let tries = tries as u64;
    for (part, data, trials) in [
        (TWO_YEAR, &extents.two_year, 1),
        (TWO_YEAR_CAPPED, &extents.two_year_small, tries),
        (WORKGROUP, &extents.workgroup, 1),
        (WORKGROUP_CONTAINERS, &extents.workgroup, containers::TRIALS),
        (WORKGROUP_CAPPED, &extents.workgroup_small, tries),
    ] {
        if run.wants(part) {
            data.expect(trials, run.progress);
        }
    }
    if run.wants(TWO_YEAR) {
        uncapped(run, &extents.two_year)?;
    }
    if run.wants(TWO_YEAR_CAPPED) {
        capped(run, &extents.two_year_small, extents)?;
    }
    if run.wants(WORKGROUP) {
        uncapped(run, &extents.workgroup)?;
    }
    if run.wants(WORKGROUP_CONTAINERS) {
        container_sizes(run, &extents.workgroup)?;
    }
    if run.wants(WORKGROUP_CAPPED) {
        capped(run, &extents.workgroup_small, extents)?;
    }
    Ok(())
}

/// Figures 1, 2, 3 and 8.
fn uncapped(run: &mut Run<'_>, data: &Data) -> Result<(), LabError> {
    let memories = data.clone();
    let schedule = move |backup| {
        let mut all = over_time::memories(&memories, backup);
        all.extend(memory::memories(&memories, backup));
        all.sort_unstable_by_key(|one| (one.bytes, one.assembly as u8));
        all.dedup();
        all
    };
    run.progress.begin(format!("{}, not capped", data.name));
    let outcomes = data.replay(vec![data.exact(data.container_bytes, schedule)], run.progress)?;
    let outcomes = &outcomes[0];
    run.report(over_time::experiment(data, outcomes))?;
    run.report(memory::lru(data, outcomes))?;
    run.report(memory::assembly(data, outcomes))
}

/// Figures 4, 5, 6, 7 and 9.
fn capped(run: &mut Run<'_>, data: &Data, extents: &Extents) -> Result<(), LabError> {
    let mut tried = capping::measure(data, &capping::caps(extents.caps), run.progress)?;
    run.report(capping::trade_off(data, &tried))?;
    run.report(capping::relative(data, &tried))?;
    run.report(capping::over_time(data, &tried))?;
    run.report(capping::with_assembly(data, &tried))?;
    let longer = capping::windows(extents.windows_mb, extents.windows_caps);
    tried.extend(capping::measure(data, &longer, run.progress)?);
    run.report(capping::longer_windows(data, &tried, extents.windows_mb))
}

/// Figures 10, 11 and 12.
fn container_sizes(run: &mut Run<'_>, data: &Data) -> Result<(), LabError> {
    let sized = containers::measure(data, run.progress)?;
    run.report(containers::experiment(data, &sized, Assembly::Lru))?;
    run.report(containers::experiment(data, &sized, Assembly::Rolling))?;
    run.report(containers::speed(data, &sized))
}
