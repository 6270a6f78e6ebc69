//! Lillibridge, Eshghi, Bhagwat: Improving Restore Speed for Backup Systems that Use Inline Chunk-Based Deduplication,
//! FAST 2013, section 4 (L1-L10).
//!
//! The paper's MB are taken as MiB: containers of 4 MiB, memory in powers of two; its first snapshot of '2year' as 10^10 bytes.
//! Where the data are smaller than the paper's, memory is smaller in the same proportion (never below one container), so that it
//! holds the same share of a backup; it is called by the paper's size. Containers and chunks stay as they are: what a
//! container read brings depends on them.

mod data;
mod memory;
mod over_time;
#[cfg(test)]
mod tests;

use super::{Extent, Paper, Run};
use crate::error::LabError;
use data::Data;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "fast13",
    title: "Lillibridge, Eshghi, Bhagwat: *Improving Restore Speed for Backup Systems that Use Inline Chunk-Based \
            Deduplication*, FAST 2013.",
    extents: [
        "The whole of '2year': 10 GB at first, 480 backups, 5.7 TB in all.",
        "A tenth of '2year': 1 GB at first, 480 backups, 570 GB in all; memory a tenth of the paper's.",
    ],
    run,
};

/// The paper's cycle: the 30th backup before goes before the next comes.
const CYCLE: usize = 30;

/// Of what the figures are measured.
struct Extents {
    two_year: Data,
}

fn run(run: &mut Run<'_>) -> Result<(), LabError> {
    let snapshot_bytes = match run.extent {
        Extent::Quick => 1_000_000_000,
        Extent::Full => 10_000_000_000,
    };
    reproduce(
        run,
        &Extents {
            two_year: Data::two_year(snapshot_bytes, 96, 4 << 20),
        },
    )
}

fn reproduce(run: &mut Run<'_>, extents: &Extents) -> Result<(), LabError> {
    uncapped(run, &extents.two_year)
}

/// Figures 1, 2, 3 and 8.
fn uncapped(run: &mut Run<'_>, data: &Data) -> Result<(), LabError> {
    let memories = data.clone();
    let schedule = move |backup| {
        let mut all = over_time::memories(&memories);
        all.extend(memory::memories(&memories, backup));
        all.sort_unstable_by_key(|one| (one.bytes, one.assembly as u8));
        all.dedup();
        all
    };
    run.progress.begin(format!("{}, not capped", data.name));
    let outcomes = data.replay(vec![data.trial(data.container_bytes, schedule)], run.progress)?;
    let outcomes = &outcomes[0];
    run.report(over_time::experiment(data, outcomes))?;
    run.report(memory::lru(data, outcomes))?;
    run.report(memory::assembly(data, outcomes))
}
