//! The papers' experiments: each figure measured again, beside what the paper has, with its plot.
//!
//! A [`Paper`] runs its experiments one after another, and hands over each [`Experiment`] as soon
//! as it is complete: rows (the paper's figure, ours, a [`Verdict`]) and plots. A [`Report`] writes
//! them to a folder. To add a paper: a module with a `Paper` that calls `Run::report` for each
//! experiment, and its name in [`PAPERS`]; the command line offers what stands there.
//!
//! Rates of other machines are not the target: shapes, ratios and growth are. What an experiment
//! measures follows from its scale and seed alone, unless its setup says that it takes times.

pub mod atc11;
mod beyond;
mod experiment;
mod fast13;
mod figures;
mod report;
mod statistics;
mod stores;
mod tee;
#[cfg(test)]
mod tests;
mod tos14;
mod versions;

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use experiment::{Experiment, Row, Verdict};
pub use report::Report;
use simulate::SimulateError;
pub use simulate::plot::{Axis, Plot, Series};

use crate::error::LabError;

/// The papers whose experiments can be run.
pub const PAPERS: &[Paper] = &[fast13::PAPER, atc11::PAPER, tos14::PAPER, beyond::PAPER];

/// A paper.
#[derive(Clone, Copy)]
pub struct Paper {
    /// What it is called by: `fast13`.
    pub name: &'static str,
    /// Authors, title, where it appeared.
    pub title: &'static str,
    /// What `--full` measures, and what is measured without it: data, scale, memory and time that
    /// it takes.
    pub extents: [&'static str; 2],
    /// What can be run by itself.
    pub parts: &'static [Part],
    /// Those of them that measure versions of real data too, where some are given.
    pub with_versions: &'static [Part],
    run: fn(&mut Run<'_>) -> Result<(), LabError>,
}

/// A few experiments of a paper that are made together, by what they are called: `equation-2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part(pub &'static str);

impl fmt::Debug for Paper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paper")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Paper {
    /// The parts of these names; of none, all of them.
    ///
    /// # Errors
    /// `Settings` where there is none of a name.
    pub fn parts_named(&self, names: &[String]) -> Result<Vec<Part>, LabError> {
        if names.is_empty() {
            return Ok(self.parts.to_vec());
        }
        let named = names.iter().map(|name| {
            let part = self.parts.iter().find(|part| part.0 == name);
            part.copied().ok_or_else(|| {
                let there_are: Vec<&str> = self.parts.iter().map(|part| part.0).collect();
                LabError::settings(format!(
                    "{} has no part '{name}': there are {}",
                    self.name,
                    there_are.join(", ")
                ))
            })
        });
        named.collect()
    }

    /// Whether all that is asked for can have an effect.
    ///
    /// # Errors
    /// `Settings` where versions are given to parts that measure none, or there are none; `Io`.
    pub fn check(&self, request: &Request<'_>) -> Result<(), LabError> {
        let Some(folder) = request.versions else {
            return Ok(());
        };
        if !self.with_versions.iter().any(|part| request.parts.contains(part)) {
            let there_are: Vec<&str> = self.with_versions.iter().map(|part| part.0).collect();
            return Err(LabError::settings(if there_are.is_empty() {
                format!("{} measures no versions of real data: leave them out", self.name)
            } else {
                format!(
                    "versions of real data are measured by these parts of {} alone: {}",
                    self.name,
                    there_are.join(", ")
                )
            }));
        }
        versions::paths(folder).map(drop)
    }

    /// Runs the experiments that are asked for; `report` is handed each when it is complete. Stores
    /// on disk are made in a folder of their own in `folder`, which is there, and are gone at the
    /// end.
    ///
    /// # Errors
    /// `Interrupted`; of [`Self::check`], an experiment or `report`.
    pub fn run(
        &self,
        request: &Request<'_>,
        folder: &Path,
        progress: &Progress,
        report: &mut dyn FnMut(Experiment) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        self.check(request)?;
        (self.run)(&mut Run {
            extent: request.extent,
            parts: request.parts,
            versions: request.versions,
            folder,
            progress,
            report,
        })
    }
}

/// What is asked of a paper.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// How much is measured.
    pub extent: Extent,
    /// What.
    pub parts: &'a [Part],
    /// A folder with versions of real data, a file or a folder each, oldest first by name.
    pub versions: Option<&'a Path>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Minutes on two cores.
    Quick,
    /// At most an hour on two cores, within 16 GiB.
    Full,
}

/// What a paper's experiments run in.
pub(crate) struct Run<'a> {
    pub(crate) extent: Extent,
    parts: &'a [Part],
    /// Where versions of real data are, if any are given.
    pub(crate) versions: Option<&'a Path>,
    /// Where stores on disk may be made.
    pub(crate) folder: &'a Path,
    pub(crate) progress: &'a Progress,
    report: &'a mut dyn FnMut(Experiment) -> Result<(), LabError>,
}

impl Run<'_> {
    /// Whether the experiments of a part are wanted.
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// So many bytes if a part is wanted, else none.
    pub(crate) fn bytes_of(&self, part: Part, bytes: u64) -> u64 {
        if self.wants(part) { bytes } else { 0 }
    }

    /// Hands over an experiment that is complete.
    pub(crate) fn report(&mut self, experiment: Experiment) -> Result<(), LabError> {
        (self.report)(experiment)
    }
}

/// How far a run is, told from any thread.
///
/// Work is counted in bytes of backups, each time they are replayed or looked up.
#[derive(Debug)]
pub struct Progress {
    cancelled: Arc<AtomicBool>,
    done: AtomicU64,
    total: AtomicU64,
    current: Mutex<String>,
}

impl Progress {
    /// Nothing is done; `cancelled` asks to stop.
    #[must_use]
    pub fn new(cancelled: Arc<AtomicBool>) -> Self {
        Self {
            cancelled,
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            current: Mutex::new(String::new()),
        }
    }

    /// So much more is to be done, in bytes.
    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What was expected to be so many bytes turned out to be others.
    pub fn correct(&self, expected: u64, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.total.fetch_sub(expected, Ordering::Relaxed);
    }

    /// So many bytes are done.
    ///
    /// # Errors
    /// `Interrupted` where someone has asked to stop.
    pub fn advance(&self, bytes: u64) -> Result<(), LabError> {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(SimulateError::Interrupted.into());
        }
        Ok(())
    }

    /// What asks to stop.
    pub(crate) fn cancelled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancelled)
    }

    /// What is at hand.
    pub fn begin(&self, what: impl Into<String>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }

    /// Bytes that are done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Bytes in all, as far as it is known; 0 while it is not.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// What is at hand.
    #[must_use]
    pub fn current(&self) -> String {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
