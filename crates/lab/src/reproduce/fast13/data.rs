//! The paper's data sets at a scale, and what the paper says of each.

use ingest::{Capping, LookupMemory};
use simulate::{
    Assembly, BackupHead, Chunk, Finding, Memory, Outcome, Policy, Schedule, Settings, SimulateError, Sink,
};

use super::CYCLE;
use crate::error::LabError;
use crate::generate::{TwoYear, Workgroup, Workload as _};
use crate::reproduce::Progress;
use crate::reproduce::tee::{self, Trial};

/// Of the paper's containers.
const PAPER_CONTAINER_BYTES: u64 = 4 << 20;
/// Of a chunk on average, at least.
const CHUNK_BYTES: u64 = 3000;
/// Of look-ups for each chunk: 42 bytes in half of the memory.
const LOOKUP_BYTES: u64 = 96;
/// Of the index for each chunk: what is stored again has a hook more, those of containers that are
/// gone stay, and up to eight of a chunk are kept, each of at most 8 bytes.
const HOOK_BYTES: u64 = 64;
/// Memory of look-ups is at least so much.
const LOOKUPS_LEAST: u64 = 16 << 20;
/// Bytes of the paper's first snapshot of '2year'.
const TWO_YEAR_BYTES: u64 = 10_000_000_000;

/// Snapshots of more are large.
const LARGE_BYTES: u64 = 2_000_000_000;
/// Mean bytes of the paper's full backups of a Workgroup machine.
const MACHINE_BYTES: u64 = 21_000_000_000;

/// What is backed up.
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
    /// How large it is at first, in words.
    size: String,
    pub(super) backups: u64,
    /// Of all backups together.
    bytes: u64,
    /// Of what is ever stored, at most.
    unique_bytes: u64,
    /// Too large for all backups to be restored with several memories.
    pub(super) is_large: bool,
    /// Of a container at most.
    pub(super) container_bytes: u64,
    /// Bytes of memory here, to those of the paper's by whose size it is called.
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
    /// How many times faster 8 GB restore than 32 MB, at the first period and at the last: at
    /// least, at most.
    pub(super) most_memory: ((f64, f64), (f64, f64)),
    /// How many times faster 1 GB restores than 128 MB, at the first period and at the last.
    pub(super) more_memory: (f64, f64),
    /// How many times faster a rolling area restores than LRU, at 128 MB to 1 GB.
    pub(super) rolling: (f64, f64),
    /// The same with twice the memory for LRU.
    pub(super) rolling_half: (f64, f64),
    /// How many times faster a cap restores that loses so much of the deduplication factor: memory,
    /// percent, times; with LRU.
    pub(super) gains: &'static [(u64, f64, f64)],
    /// How many times fragmentation grows with a cap, at 128 MB; 0 stands for none.
    pub(super) capped_growth: &'static [(u32, f64)],
    /// What windows of 160 MB bring at 1 GB.
    pub(super) longer_windows: f64,
    /// Why figures may differ: what it does not say of the data.
    pub(super) untold: &'static str,
}

const TWO_YEAR: Says = Says {
    over_time: ("figure-01", "figure 1"),
    r_squared: 0.96,
    growth: &[(128, 11.0), (1024, 18.0)],
    // The first from 3 MB/s with 24 ms for a container, so between 12 and 17.
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
    /// '2year' with so many bytes at first.
    pub(super) fn two_year(snapshot_bytes: u64, weeks: u32, container_bytes: u64) -> Self {
        let load = TwoYear {
            snapshot_bytes,
            weeks,
            ..TwoYear::default()
        };
        // Files grow by 2 % of the first bytes a day. A fifth of the backups is full, the others
        // hold 4 % of what there is.
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
            // New files, and what is overwritten with what is cut anew beside it.
            unique_bytes: snapshot_bytes + snapshot_bytes / 25 * backups,
            is_large: snapshot_bytes > LARGE_BYTES,
            container_bytes,
            scale: (snapshot_bytes, TWO_YEAR_BYTES),
            says: &TWO_YEAR,
        }
    }

    /// Workgroup-like, with so many bytes a machine. It is gone through once, to count its backups.
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
            // The group's files, as many as the largest machine has, a fifth of each machine, and
            // what changes.
            unique_bytes: machine_bytes * u64::from(20 + weeks),
            is_large: false,
            container_bytes,
            scale: (machine_bytes, MACHINE_BYTES),
            says: &WORKGROUP,
        })
    }

    /// With the paper's whole memory, however small the data are.
    #[must_use]
    pub(super) fn with_whole_memory(self) -> Self {
        Self {
            scale: (1, 1),
            ..self
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

    /// Why a figure is more than a factor of 1.5 away.
    pub(super) fn far(&self) -> String {
        format!("more than a factor of 1.5 away: {}", self.says.untold)
    }

    /// The same of an LRU cache of so many MiB of the paper's, which may be of few containers here.
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

    /// A simulator of the paper's kind: all chunks are found, nothing is capped.
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

    /// A simulator of the engine's policy with a cap: every chunk has a hook, and no look-up
    /// forgets, from one backup to the next either.
    pub(super) fn capped(
        &self,
        capping: Capping,
        schedule: impl Fn(u64) -> Vec<Memory> + Send + 'static,
    ) -> Trial {
        // Nothing falls out of index or look-ups, nor have they much more: caches take what they
        // are given.
        let chunks = self.unique_bytes / CHUNK_BYTES;
        let memory = LookupMemory::within((LOOKUP_BYTES * chunks).max(LOOKUPS_LEAST));
        let policy = Policy {
            capping,
            memory,
            index_bytes: usize::try_from(HOOK_BYTES * chunks).unwrap_or(usize::MAX),
            // Else each backup would fetch the catalogs of the whole store anew, which is most of
            // its time.
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

    /// So many trials over it are to come.
    pub(super) fn expect(&self, trials: u64, progress: &Progress) {
        progress.expect(self.bytes * trials);
    }

    /// Runs trials over it, at once. They were [expected](Self::expect) before.
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

/// A size in words, with the paper's where that is another.
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
