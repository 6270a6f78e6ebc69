//! How a user's own data would deduplicate and restore with other settings: chunk size, cap,
//! memory.
//!
//! Data is read once and cut for each chunk size. Each setting has a simulator in which the
//! engine's policy decides ([`crate::Simulator`]); nothing compresses there. Memory: some 100 MiB
//! for each GiB of distinct data, and some KiB for each segment that is new in a backup.

mod html;
mod names;
mod recommend;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ingest::{Cap, Capping};
use restore::AssembleOptions;

pub use html::html;
pub use names::{bytes_name, cap_name};
pub use recommend::Recommended;

use crate::cut::{Cutter, Cutting, walk};
use crate::error::SimulateError;
use crate::simulator::{Assembly, Averages, Finding, Memory, Outcome, Policy, Schedule, Settings, Simulator};
use crate::trace::{BackupHead, Extent, Sink};

/// The settings that are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// Chunk sizes, in bytes on average; ascending.
    pub chunk_bytes: Vec<u32>,
    /// Whether all chunks have that length, as in disk images.
    pub fixed: bool,
    /// Caps that are tried besides none, with a store's default chunk size and with the default
    /// number of remembered windows ([`Capping::of`]). The default cap is one of them.
    pub caps: Vec<Cap>,
    /// Memory of restores, in bytes; ascending.
    pub memories: Vec<u64>,
    /// A restore's default memory, one of `memories`. Caps are judged with it.
    pub memory: u64,
    /// Size of a container, in bytes.
    pub container_bytes: u64,
}

impl Tried {
    /// A store's default chunk size.
    pub const CHUNK_BYTES: u32 = 8 << 10;
    /// Only the last backups are restored, at most so many.
    const RESTORED: u64 = 3;

    /// Settings around the defaults.
    #[must_use]
    pub fn around_defaults(fixed: bool) -> Self {
        Self {
            chunk_bytes: [4, 8, 16, 32, 64].map(|kib| kib << 10).to_vec(),
            fixed,
            caps: vec![
                Cap::Least(32 << 10),
                Capping::default().cap,
                Cap::Least(96 << 10),
                Cap::Fixed(20),
                Cap::Fixed(10),
            ],
            memories: [32, 96, 256, 1024].map(|mib| mib << 20).to_vec(),
            memory: AssembleOptions::for_cores(1).budget_bytes,
            container_bytes: 16 << 20,
        }
    }

    /// The option that sets the chunk size, in KiB.
    #[must_use]
    pub const fn chunk_option(&self) -> &'static str {
        if self.fixed {
            "backup --image-kib"
        } else {
            "init --chunk-kib"
        }
    }

    fn check(&self) -> Result<(), SimulateError> {
        let missing = [
            (
                !self.chunk_bytes.contains(&Self::CHUNK_BYTES),
                "chunk size, with which caps are tried",
            ),
            (
                !self.caps.contains(&Capping::default().cap),
                "cap, which others are judged by",
            ),
            (
                !self.memories.contains(&self.memory),
                "memory of a restore, with which caps are judged",
            ),
        ];
        let missing = missing.into_iter().find(|(is_missing, _)| *is_missing);
        missing.map_or(Ok(()), |(_, what)| {
            Err(SimulateError::Settings(format!(
                "the default {what}, is not among those to try"
            )))
        })
    }
}

/// The results of one setting.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    /// Average chunk, in bytes.
    pub chunk_bytes: u32,
    /// The cap.
    pub cap: Cap,
    /// Chunks stored.
    pub chunks_stored: u64,
    /// Bytes of the stored chunks.
    pub bytes_stored: u64,
    /// The deduplication factor: bytes of all backups for each stored byte.
    pub factor: f64,
    /// For each total memory of a restore, in bytes: the mean speed factor of the restored backups,
    /// in MiB for each container read. Empty if no restore reads anything.
    pub speeds: Vec<(u64, f64)>,
}

impl Given {
    /// Memory of an index with a hook for each stored chunk, under `--index-memory-mib`: 7 to 7.7
    /// bytes a hook, overhead included.
    #[must_use]
    pub fn index_bytes(&self) -> u64 {
        self.chunks_stored * 8
    }

    /// The speed of restores with this memory.
    #[must_use]
    pub fn speed(&self, bytes: u64) -> Option<f64> {
        let mut speeds = self.speeds.iter();
        speeds
            .find(|(memory, _)| *memory == bytes)
            .map(|(_, speed)| *speed)
    }
}

/// The results.
#[derive(Debug, Clone, PartialEq)]
pub struct Analysis {
    /// The paths that were read, in order. Each is a backup.
    pub backups: Vec<PathBuf>,
    /// Bytes of all backups, zeros not counted.
    pub bytes: u64,
    /// The settings that were tried.
    pub tried: Tried,
    /// The results of each chunk size, without a cap.
    pub by_size: Vec<Given>,
    /// The results of each cap, with the default chunk size; the first has no cap.
    pub by_cap: Vec<Given>,
    /// The settings that follow from the results.
    pub recommended: Recommended,
}

type Outcomes = Rc<RefCell<Vec<Outcome>>>;
type Told = Box<dyn FnMut(Outcome) -> Result<(), SimulateError>>;

/// One setting under trial.
struct Trial {
    cap: Cap,
    simulator: Simulator<Told>,
    outcomes: Outcomes,
}

/// One chunk size, and the settings that are tried with it.
struct Cut {
    chunk_bytes: u32,
    cutter: Cutter,
    trials: Trials,
}

struct Trials(Vec<Trial>);

impl Sink for Trials {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.0
            .iter_mut()
            .try_for_each(|trial| trial.simulator.begin(head))
    }
    fn chunks(&mut self, chunks: &[crate::trace::Chunk]) -> Result<(), SimulateError> {
        self.0
            .iter_mut()
            .try_for_each(|trial| trial.simulator.chunks(chunks))
    }
    fn end(&mut self) -> Result<(), SimulateError> {
        self.0.iter_mut().try_for_each(|trial| trial.simulator.end())
    }
}

/// Reads backups, one from each path, and tries settings on them. It passes the number of newly
/// read bytes to `read`.
///
/// # Errors
/// `Io` names what cannot be read. `Settings` if there is nothing to read, or if a default is not
/// among the settings to try. `Interrupted`.
pub fn analyze(
    paths: &[PathBuf],
    tried: &Tried,
    left_out: Option<(u64, u64)>,
    cancelled: &Arc<AtomicBool>,
    read: &dyn Fn(u64),
) -> Result<Analysis, SimulateError> {
    tried.check()?;
    let skip = (paths.len() as u64).saturating_sub(Tried::RESTORED);
    let sizes = tried.chunk_bytes.iter();
    let cuts: Result<Vec<Cut>, SimulateError> =
        sizes.map(|size| cut(*size, tried, skip, cancelled)).collect();
    let mut cuts = cuts?;
    for path in paths {
        back_up(path, left_out, &mut cuts, cancelled, read)?;
    }
    let given = cuts.iter().flat_map(|cut| {
        let trials = cut.trials.0.iter();
        trials.filter_map(|trial| given(cut.chunk_bytes, trial))
    });
    let (by_cap, mut by_size): (Vec<Given>, Vec<Given>) =
        given.partition(|given| given.chunk_bytes == Tried::CHUNK_BYTES);
    let uncapped = by_cap.first().cloned();
    let Some(uncapped) = uncapped.filter(|given| given.bytes_stored > 0) else {
        return Err(SimulateError::Settings(
            "there is no data to read, or nothing but zeros".to_owned(),
        ));
    };
    by_size.push(uncapped);
    by_size.sort_by_key(|given| given.chunk_bytes);
    let bytes = cuts[0].trials.0[0]
        .outcomes
        .borrow()
        .iter()
        .map(|one| one.bytes)
        .sum();
    Ok(Analysis {
        backups: paths.to_vec(),
        bytes,
        tried: tried.clone(),
        recommended: recommend::of(&by_size, &by_cap, paths.len(), tried),
        by_size,
        by_cap,
    })
}

fn cut(
    chunk_bytes: u32,
    tried: &Tried,
    skip: u64,
    cancelled: &Arc<AtomicBool>,
) -> Result<Cut, SimulateError> {
    let cutting = if tried.fixed {
        Cutting::Fixed(chunk_bytes)
    } else {
        Cutting::Content(chunk_bytes)
    };
    let caps = tried.caps.iter().filter(|_| chunk_bytes == Tried::CHUNK_BYTES);
    let caps = std::iter::once(Cap::None).chain(caps.copied());
    let trials: Result<Vec<Trial>, SimulateError> =
        caps.map(|cap| trial(cap, tried, skip, cancelled)).collect();
    Ok(Cut {
        chunk_bytes,
        cutter: Cutter::new(cutting)?,
        trials: Trials(trials?),
    })
}

fn trial(cap: Cap, tried: &Tried, skip: u64, cancelled: &Arc<AtomicBool>) -> Result<Trial, SimulateError> {
    let outcomes = Outcomes::default();
    let kept = Rc::clone(&outcomes);
    let told: Told = Box::new(move |outcome| {
        kept.borrow_mut().push(outcome);
        Ok(())
    });
    Ok(Trial {
        cap,
        simulator: Simulator::new(settings(cap, tried, skip), told)?.until(Arc::clone(cancelled)),
        outcomes,
    })
}

/// The settings of a backup with that cap, restored with each memory.
fn settings(cap: Cap, tried: &Tried, skip: u64) -> Settings {
    let memories = tried.memories.iter().map(|bytes| Memory {
        // The other half of a restore's memory is for reading ahead.
        bytes: bytes / 2,
        assembly: Assembly::LookAhead,
    });
    Settings {
        container_bytes: tried.container_bytes,
        finding: Finding::Engine(Policy {
            capping: Capping::of(cap),
            ..Policy::default()
        }),
        schedule: Schedule::All,
        memories: memories.collect(),
        skip,
    }
}

fn back_up(
    path: &Path,
    left_out: Option<(u64, u64)>,
    cuts: &mut [Cut],
    cancelled: &AtomicBool,
    read: &dyn Fn(u64),
) -> Result<(), SimulateError> {
    let head = BackupHead {
        name: path.display().to_string(),
        extent: Extent::Full,
    };
    cuts.iter_mut().try_for_each(|cut| cut.trials.begin(&head))?;
    walk(path, left_out, &mut |bytes, is_last| {
        if cancelled.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(SimulateError::Interrupted);
        }
        read(bytes.len() as u64);
        cuts.iter_mut()
            .try_for_each(|cut| cut.cutter.feed(bytes, is_last, &mut cut.trials))
    })?;
    cuts.iter_mut().try_for_each(|cut| cut.trials.end())
}

fn given(chunk_bytes: u32, trial: &Trial) -> Option<Given> {
    let outcomes = trial.outcomes.borrow();
    let last = outcomes.last()?;
    let averages = Averages::of(&outcomes);
    let speeds = averages.iter().flat_map(|averages| &averages.restored);
    // The planner had half of the restore's memory.
    let speeds = speeds.map(|one| (one.memory.bytes * 2, one.speed_factor));
    Some(Given {
        chunk_bytes,
        cap: trial.cap,
        chunks_stored: outcomes
            .iter()
            .filter_map(|one| Some(one.looked.as_ref()?.chunks_new))
            .sum(),
        bytes_stored: last.bytes_stored,
        factor: last.factor(),
        speeds: speeds.collect(),
    })
}

#[cfg(test)]
mod tests;
