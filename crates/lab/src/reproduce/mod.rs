//! The papers' experiments: each figure is measured again, and shown with the paper's figure and a
//! plot.
//!
//! A [`Paper`] runs its experiments one after another, and hands over each [`Experiment`] as soon
//! as it is complete: rows (the paper's figure, ours, a [`Verdict`]) and plots. A [`Report`] writes
//! them to a folder. To add a paper, write a module with a `Paper` that calls `Run::report` for
//! each experiment, and add it to [`PAPERS`]. The command line offers the papers in that list.
//!
//! The targets are shapes, ratios and growth, not the rates of other machines. The results follow
//! from scale and seed alone, unless an experiment's setup says that it measures times.

pub mod atc11;
mod beyond;
mod dais14;
mod experiment;
mod fast13;
mod figures;
mod options;
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

pub use crate::disk::Access;
pub use dais14::serve_host;
pub use experiment::{Experiment, Row, Verdict};
pub use options::DiskOptions;
pub use report::Report;
use simulate::SimulateError;
pub use simulate::plot::{Axis, Plot, Series};

use crate::error::LabError;

/// The papers whose experiments can be run.
pub const PAPERS: &[Paper] = &[
    fast13::PAPER,
    atc11::PAPER,
    tos14::PAPER,
    dais14::PAPER,
    beyond::PAPER,
];

/// A paper.
#[derive(Clone, Copy)]
pub struct Paper {
    /// Its name on the command line: `fast13`.
    pub name: &'static str,
    /// Authors, title, where it appeared.
    pub title: &'static str,
    /// What `--full` measures, and what is measured without it: data, scale, memory, and running
    /// time.
    pub extents: [&'static str; 2],
    /// The parts that can be run by themselves.
    pub parts: &'static [Part],
    /// The parts that also measure versions of real data, if some are given.
    pub with_versions: &'static [Part],
    /// Whether it takes [`DiskOptions`].
    pub with_disk_options: bool,
    /// The parts that run several hosts at once.
    pub with_hosts: &'static [Part],
    run: fn(&mut Run<'_>) -> Result<(), LabError>,
}

/// The name of a few experiments that are made together: `equation-2`.
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
    /// The parts with these names; all parts if there are no names.
    ///
    /// # Errors
    /// `Settings` if a name is unknown.
    pub fn parts_named(&self, names: &[String]) -> Result<Vec<Part>, LabError> {
        if names.is_empty() {
            return Ok(self.parts.to_vec());
        }
        let named = names.iter().map(|name| {
            let part = self.parts.iter().find(|part| part.0 == name);
            part.copied().ok_or_else(|| {
                let there_are: Vec<&str> = self.parts.iter().map(|part| part.0).collect();
                LabError::settings(format!(
                    "{} has no part '{name}'; its parts are {}",
                    self.name,
                    there_are.join(", ")
                ))
            })
        });
        named.collect()
    }

    /// Checks that everything in the request has an effect.
    ///
    /// # Errors
    /// Errors of [`Self::check_options`]; `Settings` if the folder has no versions; `Io`.
    pub fn check(&self, request: &Request<'_>) -> Result<(), LabError> {
        self.check_options(request.parts, request.versions.is_some(), &request.disk)?;
        request
            .versions
            .map_or(Ok(()), |folder| versions::paths(folder).map(drop))
    }

    /// Checks that every option has an effect. Reads nothing.
    ///
    /// # Errors
    /// `Settings` if versions are given and no part measures them, if numbers of hosts are given
    /// and no part runs hosts, or if the paper takes no options of loads on disks and some are
    /// given.
    pub fn check_options(
        &self,
        parts: &[Part],
        with_versions: bool,
        disk: &DiskOptions<'_>,
    ) -> Result<(), LabError> {
        let refused = |why: String| Err(LabError::settings(why));
        if let Some(option) = disk.words().first().filter(|_| !self.with_disk_options) {
            return refused(format!("{} has no load on a disk: leave {option} out", self.name));
        }
        let lacks = |those: &[Part]| !those.iter().any(|part| parts.contains(part));
        let names = |those: &[Part]| those.iter().map(|part| part.0).collect::<Vec<_>>().join(", ");
        if !disk.hosts.is_empty() && lacks(self.with_hosts) {
            let those = names(self.with_hosts);
            return refused(format!(
                "only these parts of {} run hosts: {those}; leave --hosts out",
                self.name
            ));
        }
        if !with_versions || !lacks(self.with_versions) {
            return Ok(());
        }
        refused(if self.with_versions.is_empty() {
            format!(
                "{} measures no versions of real data: leave --versions out",
                self.name
            )
        } else {
            format!(
                "only these parts of {} measure versions of real data: {}",
                self.name,
                names(self.with_versions)
            )
        })
    }

    /// Runs the requested experiments, and passes each to `report` when it is complete. Stores on
    /// disk are in a folder of their own inside `folder`, which must exist. They are removed at the
    /// end.
    ///
    /// # Errors
    /// `Interrupted`; errors of [`Self::check`], of an experiment or of `report`.
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
            disk: request.disk,
            folder,
            progress,
            report,
        })
    }
}

/// A request to a paper.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// How much is measured.
    pub extent: Extent,
    /// The parts to run.
    pub parts: &'a [Part],
    /// A folder with versions of real data. Each version is a file or a folder. Their names sort by
    /// age, the oldest first.
    pub versions: Option<&'a Path>,
    /// Options of loads on disks.
    pub disk: DiskOptions<'a>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// The smaller one of [`Paper::extents`].
    Quick,
    /// The larger one of [`Paper::extents`]: the paper's, as far as 16 GiB of memory allow.
    Full,
}

/// The environment of a paper's experiments.
pub(crate) struct Run<'a> {
    pub(crate) extent: Extent,
    parts: &'a [Part],
    /// The folder with versions of real data, if it is given.
    pub(crate) versions: Option<&'a Path>,
    /// Options of loads on disks.
    pub(crate) disk: DiskOptions<'a>,
    /// The folder for stores on disk.
    pub(crate) folder: &'a Path,
    pub(crate) progress: &'a Progress,
    report: &'a mut dyn FnMut(Experiment) -> Result<(), LabError>,
}

impl Run<'_> {
    /// Whether the experiments of a part are wanted.
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// `bytes` if the part is wanted, else 0.
    pub(crate) fn bytes_of(&self, part: Part, bytes: u64) -> u64 {
        if self.wants(part) { bytes } else { 0 }
    }

    /// Passes on a complete experiment.
    pub(crate) fn report(&mut self, experiment: Experiment) -> Result<(), LabError> {
        (self.report)(experiment)
    }
}

/// Progress of a run. Any thread may report it.
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
    /// No progress so far. `cancelled` becomes true when the user asks to stop.
    #[must_use]
    pub fn new(cancelled: Arc<AtomicBool>) -> Self {
        Self {
            cancelled,
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            current: Mutex::new(String::new()),
        }
    }

    /// Adds so many bytes to the expected work.
    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Replaces an expectation by the actual number of bytes.
    pub fn correct(&self, expected: u64, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.total.fetch_sub(expected, Ordering::Relaxed);
    }

    /// Adds so many bytes to the work done.
    ///
    /// # Errors
    /// `Interrupted` if the user asked to stop.
    pub fn advance(&self, bytes: u64) -> Result<(), LabError> {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(SimulateError::Interrupted.into());
        }
        Ok(())
    }

    /// The flag that asks to stop.
    pub(crate) fn cancelled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancelled)
    }

    /// Sets the current task.
    pub fn begin(&self, what: impl Into<String>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }

    /// Bytes that are done.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Expected bytes in all, as far as they are known; 0 if they are not.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// The current task.
    #[must_use]
    pub fn current(&self) -> String {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
