//! The paper's data sets at a scale, and the paper's figures for each.

use ingest::{Capping, LookupMemory};
use simulate::{
    Assembly, BackupHead, Chunk, Finding, Memory, Outcome, Policy, Schedule, Settings, SimulateError, Sink,
};

use super::CYCLE;
use crate::error::LabError;
use crate::generate::{TwoYear, Workgroup, Workload as _};
use crate::reproduce::Progress;
use crate::reproduce::tee::{self, Trial};

/// Bytes of the paper's containers.
const PAPER_CONTAINER_BYTES: u64 = 4 << 20;
/// The least average bytes of a chunk.
const CHUNK_BYTES: u64 = 3000;
/// Bytes of look-ups for each chunk: 42 bytes in half of the memory.
const LOOKUP_BYTES: u64 = 96;
/// Bytes of the index for each chunk. A chunk that is stored again has another hook, and hooks of
/// deleted containers stay. The index keeps up to eight hooks of a chunk, of at most 8 bytes each.
const HOOK_BYTES: u64 = 64;
/// The least memory of look-ups.
const LOOKUPS_LEAST: u64 = 16 << 20;
/// Bytes of the paper's first snapshot of '2year'.
const TWO_YEAR_BYTES: u64 = 10_000_000_000;

/// Data with larger snapshots count as large.
const LARGE_BYTES: u64 = 2_000_000_000;
/// Mean bytes of the paper's full backups of a Workgroup machine.
const MACHINE_BYTES: u64 = 21_000_000_000;

/// The workload of a data set.
#[derive(Debug, Clone)]
enum Load {
    TwoYear(TwoYear),
    Workgroup(Workgroup),
}

impl Load {
    fn replay(&self, sink: &mut dyn Sink) -> Result<(), SimulateError> {
        match self {
            Self::TwoYear(load) => load.clone().replay(sink),
            Self::Workgroup(load) => load.clone().replay(sink),
        }
    }
}

/// A data set.
#[derive(Debug, Clone)]
pub(super) struct Data {
    pub(super) name: &'static str,
    load: Load,
    /// The size of the first backup, in words.
    size: String,
    pub(super) backups: u64,
    /// Bytes of all backups together.
    bytes: u64,
    /// The most bytes that are ever stored.
    unique_bytes: u64,
    /// Whether the data are too large to restore all backups with several memories.
    pub(super) is_large: bool,
    /// The most bytes of a container.
    pub(super) container_bytes: u64,
    /// Memory here divided by the paper's memory whose name it has.
    scale: (u64, u64),
    pub(super) says: &'static Says,
}

/// The paper's figures for a data set. Memory is in MiB.
#[derive(Debug)]
pub(super) struct Says {
    /// Its figure of fragmentation over time.
    pub(super) over_time: (&'static str, &'static str),
    /// The least R² of the lines through fragmentation over time.
    pub(super) r_squared: f64,
    /// How many times fragmentation grows, for a memory.
    pub(super) growth: &'static [(u64, f64)],
    /// Containers read for each MB at the end, for a memory.
    pub(super) at_end: &'static [(u64, f64)],
    /// How many times as fast 8 GB restore as 32 MB: the least and the most, for the first period
    /// and for the last.
    pub(super) most_memory: ((f64, f64), (f64, f64)),
    /// How many times as fast 1 GB restores as 128 MB, in the first period and in the last.
    pub(super) more_memory: (f64, f64),
    /// How many times as fast a rolling area restores as LRU, at 128 MB to 1 GB.
    pub(super) rolling: (f64, f64),
    /// The same with twice the memory for LRU.
    pub(super) rolling_half: (f64, f64),
    /// How many times as fast a cap restores that loses so much of the deduplication factor, with
    /// LRU: memory, percent, times.
    pub(super) gains: &'static [(u64, f64, f64)],
    /// How many times fragmentation grows with a cap, at 128 MB; 0 means no cap.
    pub(super) capped_growth: &'static [(u32, f64)],
    /// The gain of windows of 160 MB, at 1 GB.
    pub(super) longer_windows: f64,
    /// Why figures may differ: facts about the data that the paper does not give.
    pub(super) untold: &'static str,
}

const TWO_YEAR: Says = Says {
    over_time: ("figure-01", "figure 1"),
    r_squared: 0.96,
    growth: &[(128, 11.0), (1024, 18.0)],
    // The first follows from 3 MB/s with 24 ms for a container: it is between 12 and 17.
    at_end: &[(128, 13.9), (1024, 5.0)],
    most_memory: ((9.0, 10.0), (9.0, 10.0)),
    more_memory: (4.7, 2.2),
    rolling: (3.3, 4.3),
    rolling_half: (1.4, 3.4),
    gains: &[
        (128, 8.0, 1.7),
        (128, 15.0, 3.9),
        (128, 23.0, 8.8),
        (1024, 8.0, 3.1),
        (1024, 15.0, 4.2),
        (1024, 23.0, 5.0),
    ],
    capped_growth: &[(0, 11.0), (90, 6.0), (50, 3.0), (20, 1.8), (10, 1.4)],
    longer_windows: 1.5,
    untold: "the paper says neither how long files are nor in how many pieces they are overwritten; \
             here they have 256 KiB on average, and one piece",
};

const WORKGROUP: Says = Says {
    over_time: ("figure-03", "figure 3"),
    r_squared: 0.86,
    growth: &[],
    at_end: &[],
    most_memory: ((5.0, 16.0), (5.0, 16.0)),
    more_memory: (1.9, 3.5),
    rolling: (1.2, 2.7),
    rolling_half: (1.03, 1.56),
    gains: &[
        (128, 2.0, 4.0),
        (128, 8.0, 6.4),
        (1024, 2.0, 1.7),
        (1024, 8.0, 2.3),
    ],
    capped_growth: &[],
    longer_windows: 1.15,
    untold: "the paper's collection is not to be had; these data have its machines, days and sizes alone",
};

/// Counts backups and bytes.
#[derive(Debug)]
struct Count<'a> {
    backups: u64,
    bytes: u64,
    progress: &'a Progress,
}

impl Sink for Count<'_> {
    fn begin(&mut self, _: &BackupHead) -> Result<(), SimulateError> {
        self.backups += 1;
        Ok(())
    }
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        self.bytes += chunks.iter().map(|chunk| u64::from(chunk.len)).sum::<u64>();
        self.progress.advance(0)?;
        Ok(())
    }
    fn end(&mut self) -> Result<(), SimulateError> {
        Ok(())
    }
}

impl Data {
    /// '2year' with a first snapshot of so many bytes.
    pub(super) fn two_year(snapshot_bytes: u64, weeks: u32, container_bytes: u64) -> Self {
        let load = TwoYear {
            snapshot_bytes,
            weeks,
            ..TwoYear::default()
        };
        // Files grow by 2 % of the first snapshot each day. A fifth of the backups is full, and the
        // others hold 4 % of the current data.
        let backups = 5 * u64::from(weeks);
        let mean = snapshot_bytes + snapshot_bytes / 100 * backups;
        Self {
            name: "2year",
            load: Load::TwoYear(load),
            size: beside_paper(
                format!("{} at first", said_bytes(snapshot_bytes)),
                snapshot_bytes,
                TWO_YEAR_BYTES,
            ),
            backups,
            bytes: (mean / 5 + mean / 25) * backups,
            // New files, and overwritten stretches with the cut chunks beside them.
            unique_bytes: snapshot_bytes + snapshot_bytes / 25 * backups,
            is_large: snapshot_bytes > LARGE_BYTES,
            container_bytes,
            scale: (snapshot_bytes, TWO_YEAR_BYTES),
            says: &TWO_YEAR,
        }
    }

    /// Workgroup-like, with so many bytes for each machine. It is replayed once, to count its
    /// backups.
    ///
    /// # Errors
    /// `Interrupted`; `Settings`.
    pub(super) fn workgroup(
        machine_bytes: u64,
        weeks: u32,
        container_bytes: u64,
        progress: &Progress,
    ) -> Result<Self, LabError> {
        let load = Load::Workgroup(Workgroup {
            machine_bytes,
            weeks,
            ..Workgroup::default()
        });
        let mut count = Count {
            backups: 0,
            bytes: 0,
            progress,
        };
        load.replay(&mut count)?;
        Ok(Self {
            name: "workgroup",
            load,
            size: beside_paper(
                format!("machines of {} on average", said_bytes(machine_bytes)),
                machine_bytes,
                MACHINE_BYTES,
            ),
            backups: count.backups,
            bytes: count.bytes,
            // The group's files, as many as the largest machine has; a fifth of each machine; and
            // the changes.
            unique_bytes: machine_bytes * u64::from(20 + weeks),
            is_large: false,
            container_bytes,
            scale: (machine_bytes, MACHINE_BYTES),
            says: &WORKGROUP,
        })
    }

    /// Uses the paper's whole memory, however small the data are.
    #[must_use]
    pub(super) fn with_whole_memory(self) -> Self {
        Self {
            scale: (1, 1),
            ..self
        }
    }

    /// Memory that corresponds to so many MiB of the paper's memory.
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

    /// The reason for a figure that is off by more than a factor of 1.5.
    pub(super) fn far(&self) -> String {
        format!("more than a factor of 1.5 away: {}", self.says.untold)
    }

    /// The same for an LRU cache of so many MiB in the paper. Here it may hold only a few
    /// containers.
    pub(super) fn far_with_lru(&self, mib: u64) -> String {
        let here = self.memory(mib, Assembly::Lru).bytes / self.container_bytes;
        let paper = (mib << 20) / PAPER_CONTAINER_BYTES;
        if here == paper {
            return self.far();
        }
        format!(
            "{}; an LRU cache of {} has room for {here} containers here, for {paper} in the paper",
            self.far(),
            said_mib(mib)
        )
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
            "{}-cycle{CYCLE}, {}, {} backups; containers of {}; {memory}.",
            self.name,
            self.size,
            self.backups,
            said_bytes(self.container_bytes),
        )
    }

    /// A simulator like the paper's: all chunks are found, and nothing is capped.
    pub(super) fn exact(
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

    /// A simulator of the engine's policy with a cap. Every chunk has a hook, and look-ups drop no
    /// entry, not even between backups.
    pub(super) fn capped(
        &self,
        capping: Capping,
        schedule: impl Fn(u64) -> Vec<Memory> + Send + 'static,
    ) -> Trial {
        // The index and look-ups never drop an entry, but have little more memory than that: caches
        // fill the memory that they get.
        let chunks = self.unique_bytes / CHUNK_BYTES;
        let memory = LookupMemory::within((LOOKUP_BYTES * chunks).max(LOOKUPS_LEAST));
        let policy = Policy {
            capping,
            memory,
            index_bytes: usize::try_from(HOOK_BYTES * chunks).unwrap_or(usize::MAX),
            // Otherwise each backup would load the catalogs of the whole store again, which would
            // take most of the time.
            warm: true,
            ..Policy::default()
        };
        Trial {
            settings: Settings {
                container_bytes: self.container_bytes,
                finding: Finding::Engine(policy),
                schedule: Schedule::Cycle(CYCLE),
                memories: Vec::new(),
                skip: 0,
            },
            schedule: Box::new(schedule),
        }
    }

    /// Announces so many trials of this data set.
    pub(super) fn expect(&self, trials: u64, progress: &Progress) {
        progress.expect(self.bytes * trials);
    }

    /// Runs trials of this data set concurrently. They were [announced](Self::expect) before.
    pub(super) fn replay(
        &self,
        trials: Vec<Trial>,
        progress: &Progress,
    ) -> Result<Vec<Vec<Outcome>>, LabError> {
        let bytes = self.bytes * trials.len() as u64;
        let before = progress.done();
        let outcomes = tee::run(|sink| self.load.replay(sink), trials, progress)?;
        progress.correct(bytes, progress.done() - before);
        Ok(outcomes)
    }
}

/// A size in words, with the paper's size if that differs.
fn beside_paper(said: String, here: u64, paper: u64) -> String {
    if here == paper {
        said
    } else {
        format!("{said} (the paper: {})", said_bytes(paper))
    }
}

fn said_share((here, paper): (u64, u64)) -> String {
    if here > 0 && paper.is_multiple_of(here) {
        format!("1/{}", paper / here)
    } else {
        format!("{here}/{paper}")
    }
}

/// Bytes in words: with binary units if they are round in these, else with decimal ones.
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

/// A size of memory under the paper's name.
pub(super) fn said_mib(mib: u64) -> String {
    said_bytes(mib << 20)
}
