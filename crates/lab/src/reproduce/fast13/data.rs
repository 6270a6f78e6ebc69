//! The paper's data sets at a scale, and what the paper says of each.

use restore::plan::Assembly;

use super::CYCLE;
use crate::error::LabError;
use crate::generate::TwoYear;
use crate::reproduce::Progress;
use crate::reproduce::tee::{self, Trial};
use crate::simulate::{Finding, Memory, Outcome, Schedule, Settings};
use crate::trace::Source;

/// Bytes of the paper's first snapshot of '2year'.
const TWO_YEAR_BYTES: u64 = 10_000_000_000;

/// A data set.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) name: &'static str,
    workload: TwoYear,
    pub(super) backups: u64,
    /// Of a container at most.
    pub(super) container_bytes: u64,
    /// Bytes here, to those of the paper's.
    scale: (u64, u64),
    pub(super) says: &'static Says,
}

/// What the paper says of a data set. Memory is in MiB.
#[derive(Debug)]
pub(super) struct Says {
    /// Its figure of fragmentation over time.
    pub(super) over_time: (&'static str, &'static str),
    /// R² of the lines through fragmentation over time, at least.
    pub(super) r_squared: f64,
    /// How many times fragmentation grows, for a memory.
    pub(super) growth: &'static [(u64, f64)],
    /// Containers read for each MB at the end, for a memory.
    pub(super) at_end: &'static [(u64, f64)],
    /// How many times faster 8 GB restore than 32 MB.
    pub(super) most_memory: (f64, f64),
    /// How many times faster 1 GB restores than 128 MB, at the first period and at the last.
    pub(super) more_memory: (f64, f64),
    /// How many times faster a rolling area restores than LRU, at 128 MB to 1 GB.
    pub(super) rolling: (f64, f64),
    /// The same with twice the memory for LRU.
    pub(super) rolling_half: (f64, f64),
}

const TWO_YEAR: Says = Says {
    over_time: ("figure-01", "figure 1"),
    r_squared: 0.96,
    growth: &[(128, 11.0), (1024, 18.0)],
    at_end: &[(128, 13.9), (1024, 5.0)],
    most_memory: (9.0, 10.0),
    more_memory: (4.7, 2.2),
    rolling: (3.3, 4.3),
    rolling_half: (1.4, 3.4),
};

impl Data {
    /// '2year' with so many bytes at first.
    pub(super) fn two_year(snapshot_bytes: u64, weeks: u32, container_bytes: u64) -> Self {
        Self {
            name: "2year",
            workload: TwoYear {
                snapshot_bytes,
                weeks,
                ..TwoYear::default()
            },
            backups: 5 * u64::from(weeks),
            container_bytes,
            scale: (snapshot_bytes, TWO_YEAR_BYTES),
            says: &TWO_YEAR,
        }
    }

    /// What stands for so many MiB of the paper's memory.
    pub(super) fn memory(&self, mib: u64, assembly: Assembly) -> Memory {
        let (here, paper) = self.scale;
        let scaled = (u128::from(mib) << 20) * u128::from(here) / u128::from(paper);
        Memory {
            bytes: u64::try_from(scaled)
                .unwrap_or(u64::MAX)
                .max(self.container_bytes),
            assembly,
        }
    }

    /// Data, schedule, container size and memory, in words.
    pub(super) fn setup(&self) -> String {
        let memory = if self.scale.0 == self.scale.1 {
            "memory as in the paper".to_owned()
        } else {
            format!(
                "memory {} of the paper's by whose size it is called: 1 GiB is {}",
                said_share(self.scale),
                said_bytes(self.memory(1024, Assembly::Rolling).bytes)
            )
        };
        format!(
            "'{}'-cycle{CYCLE}, {} at first, {} backups; containers of {}; {memory}.",
            self.name,
            said_bytes(self.workload.snapshot_bytes),
            self.backups,
            said_bytes(self.container_bytes),
        )
    }

    /// A simulator with these containers that caps nothing.
    pub(super) fn trial(
        &self,
        container_bytes: u64,
        schedule: impl Fn(u64) -> Vec<Memory> + Send + 'static,
    ) -> Trial {
        Trial {
            settings: Settings {
                container_bytes,
                finding: Finding::Exact { seal: false },
                schedule: Schedule::Cycle(CYCLE),
                memories: Vec::new(),
                skip: 0,
            },
            schedule: Box::new(schedule),
        }
    }

    /// Runs trials over it, at once.
    pub(super) fn replay(
        &self,
        trials: Vec<Trial>,
        progress: &Progress,
    ) -> Result<Vec<Vec<Outcome>>, LabError> {
        let bytes = self.bytes() * trials.len() as u64;
        let before = progress.done();
        progress.expect(bytes);
        let outcomes = tee::run(&mut self.workload.clone() as &mut dyn Source, trials, progress)?;
        progress.correct(bytes, progress.done() - before);
        Ok(outcomes)
    }

    /// Of all backups, about.
    fn bytes(&self) -> u64 {
        // Files grow by 2 % of the first a day. Each week a fifth of the backups is full, the others hold 4 to 6 %.
        let first = self.workload.snapshot_bytes;
        let mean = first + first / 100 * self.backups;
        (mean / 5 + mean / 25) * self.backups
    }
}

fn said_share((here, paper): (u64, u64)) -> String {
    if here > 0 && paper.is_multiple_of(here) {
        format!("1/{}", paper / here)
    } else {
        format!("{here}/{paper}")
    }
}

/// Bytes in words: binary where they are round so, else decimal.
pub(super) fn said_bytes(bytes: u64) -> String {
    let units = [
        (1 << 30, "GiB"),
        (1 << 20, "MiB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1 << 10, "KiB"),
        (1000, "kB"),
    ];
    let round = units
        .iter()
        .find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    match round {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None if bytes >= 1_000_000 => {
            #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
            let mb = bytes as f64 / 1e6;
            format!("{mb:.1} MB")
        }
        None => format!("{bytes} bytes"),
    }
}

/// A size of memory as the paper calls it.
pub(super) fn said_mib(mib: u64) -> String {
    said_bytes(mib << 20)
}
