//! Merging runs: a pure plan chooses them, and a stream merges them within the memory of one part.
//!
//! The holder of the index lease merges. Losing the lease midway does no harm: runs are deleted
//! only after their replacement is durable. At worst two mergers leave a run twice. No process
//! waits for a merge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use env::StorageError;
use format::names;
use types::{ContainerId, ObjectName, SessionId};

use crate::error::IndexError;
use crate::hook::{Hook, HookOrder};
use crate::index::Index;
use crate::kind::HookKind;
use crate::part::Part;
use crate::rates::{self, Load};
use crate::run::{RUNS_MAX, Run};
use crate::sampling::SamplingRates;
use crate::scan::{Fault, Source};
use crate::session_ranges;
use crate::spans::Spans;
use crate::writer::{RunId, RunPlan, RunWriter, is_taken};

/// The right to merge, as the session crate's lease gives it.
pub trait MergeLease {
    /// Whether the lease is still held. The merge asks before it deletes anything.
    fn is_held(&self) -> bool;
}

impl<F: Fn() -> bool> MergeLease for F {
    fn is_held(&self) -> bool {
        self()
    }
}

/// The results of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Merged {
    /// Runs that were merged into one.
    pub runs: usize,
    /// Entries in the merged run.
    pub entries: u64,
    /// The rates at which it was written.
    pub rates: SamplingRates,
    /// Bad or replaced objects deleted.
    pub deleted: usize,
}

/// Chooses the runs to merge by their sizes. If there are at most `runs_max`, it chooses none. Else
/// it chooses the smallest ones, as many as reduce the count to half of that. It adds each further
/// run that is at most twice as large as all chosen ones together. So the number of times that a
/// run is rewritten is logarithmic in the size of the index.
pub(crate) fn plan(sizes: &[u64], runs_max: usize) -> Vec<usize> {
    if sizes.len() <= runs_max {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..sizes.len()).collect();
    order.sort_by_key(|at| sizes[*at]);
    let least = sizes.len() + 1 - (runs_max / 2).max(1);
    let mut total = 0u64;
    let mut chosen = Vec::new();
    for at in order {
        if chosen.len() >= least.max(2) && sizes[at] > total.saturating_mul(2) {
            break;
        }
        total = total.saturating_add(sizes[at]);
        chosen.push(at);
    }
    chosen
}

/// The hooks of all sources in order. Each source must be in order.
pub(crate) struct MergedHooks<'a> {
    sources: Vec<Source<'a>>,
    heads: BinaryHeap<Head>,
}

struct Head(Hook, usize);

impl Head {
    /// Of equal hooks an anchor comes first, and so it is the one that is kept: after a rewrite, a
    /// container may have another anchor than in its older runs.
    fn key(&self) -> Reverse<(HookOrder, bool, usize)> {
        Reverse((self.0.order(), !self.0.standing.is_anchor, self.1))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl Eq for Head {}
impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<'a> MergedHooks<'a> {
    pub(crate) fn new(mut sources: Vec<Source<'a>>) -> Result<Self, Fault<'a>> {
        let mut heads = BinaryHeap::with_capacity(sources.len());
        for (at, source) in sources.iter_mut().enumerate() {
            heads.extend(source.next()?.map(|hook| Head(hook, at)));
        }
        Ok(Self { sources, heads })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Hook>, Fault<'a>> {
        let Some(Head(hook, at)) = self.heads.pop() else {
            return Ok(None);
        };
        self.heads
            .extend(self.sources[at].next()?.map(|hook| Head(hook, at)));
        Ok(Some(hook))
    }
}

/// The result of writing a run.
pub(crate) enum Written<'a> {
    Run(RunId, Vec<ObjectName>),
    /// A source is damaged, so nothing was written.
    Damaged(&'a Part),
}

/// The description of a run to write.
pub(crate) struct Wanted<'w> {
    /// The sessions in the run's name.
    pub(crate) span: (SessionId, SessionId),
    /// The sessions whose hooks are all in the run.
    pub(crate) covered: &'w [(SessionId, u64)],
    pub(crate) rates: SamplingRates,
    /// Hooks of containers for which this is false are dropped.
    pub(crate) keep: &'w dyn Fn(ContainerId) -> bool,
}

impl Index {
    /// Writes the hooks of all sources as one run, under the first free number. Calls `sources`
    /// again for each number that it tries.
    pub(crate) fn write_run<'a>(
        &self,
        wanted: &Wanted<'_>,
        sources: impl Fn() -> Vec<Source<'a>>,
    ) -> Result<Written<'a>, IndexError> {
        let (first, last) = wanted.span;
        let tables = match tables_of(&sources(), wanted.keep) {
            Ok(tables) => tables,
            Err(Fault::Damaged(part)) => return Ok(Written::Damaged(part)),
            Err(Fault::Storage(error)) => return Err(error.into()),
        };
        // A number that was taken since is found when its object is put.
        let taken = self
            .storage()
            .list_since(names::INDEX_FOLDER, self.listed_since())?;
        let taken = taken
            .iter()
            .filter_map(|object| names::parse_index_run(&object.name))
            .map(RunId::of);
        let taken = taken
            .filter(|(id, _)| (id.first, id.last) == (first, last))
            .map(|(id, _)| id.number + 1);
        for number in taken.max().unwrap_or(0)..RunId::NUMBERS {
            let id = RunId { first, last, number };
            let plan = RunPlan {
                store: self.store(),
                id,
                covered: wanted.covered.to_vec(),
                rates: wanted.rates,
                tables: tables.clone(),
                part_entries_max: self.options().part_entries_max,
            };
            let mut writer = RunWriter::new(self.storage(), plan);
            match fill(&mut writer, sources()) {
                Ok(None) => {}
                Ok(Some(damaged)) => {
                    writer.abandon();
                    return Ok(Written::Damaged(damaged));
                }
                Err(e) if is_taken(&e) => {
                    writer.abandon();
                    continue;
                }
                Err(e) => return Err(e),
            }
            match writer.finish() {
                Ok(names) => return Ok(Written::Run(id, names)),
                Err(e) if is_taken(&e) => {}
                Err(e) => return Err(e),
            }
        }
        let name = names::index_run(
            RunId {
                first,
                last,
                number: 0,
            }
            .part(0),
        );
        Err(IndexError::TooManyRuns { name })
    }

    /// Merges runs while there are more than [`RUNS_MAX`]. If all runs together exceed the budget,
    /// it rewrites those that were written at higher rates. It deletes bad runs. It drops hooks
    /// that do not stay at the rates in force, and hooks of containers for which `keep` is false.
    /// Runs that another process is writing now are ignored.
    ///
    /// # Errors
    /// Errors of the storage. What is left behind is whole: at worst a run is there twice.
    pub fn merge(
        &self,
        lease: &dyn MergeLease,
        keep: &dyn Fn(ContainerId) -> bool,
    ) -> Result<Merged, IndexError> {
        let mut out = Merged::default();
        self.reload()?;
        loop {
            let runs = self.settled_runs();
            let loads: Vec<Load> = runs.iter().map(|run| run.load()).collect();
            let budget = self.options().bytes_max;
            let rates = rates::in_force(&loads, budget);
            let mut chosen = rates::too_large(&loads, rates, budget);
            if chosen.is_empty() {
                let sizes: Vec<u64> = runs.iter().map(|run| run.bytes()).collect();
                chosen = plan(&sizes, RUNS_MAX);
            }
            let chosen: Vec<Arc<Run>> = chosen.into_iter().map(|at| Arc::clone(&runs[at])).collect();
            if chosen.is_empty() || !lease.is_held() {
                break;
            }
            self.merge_runs(&chosen, lease, keep, rates, &mut out)?;
        }
        if lease.is_held() {
            let bad = std::mem::take(&mut *self.bad());
            out.deleted += self.delete(&bad)?;
        }
        Ok(out)
    }

    /// Writes the runs as one, or sets a damaged one aside. The caller plans again in either case.
    fn merge_runs(
        &self,
        chosen: &[Arc<Run>],
        lease: &dyn MergeLease,
        keep: &dyn Fn(ContainerId) -> bool,
        rates: SamplingRates,
        out: &mut Merged,
    ) -> Result<(), IndexError> {
        let (Some(first), Some(last)) = (
            chosen.iter().map(|run| run.id.first).min(),
            chosen.iter().map(|run| run.id.last).max(),
        ) else {
            return Ok(());
        };
        let covered = session_ranges::join(chosen.iter().flat_map(|run| run.covered().iter().copied()));
        let sources = || chosen.iter().map(|run| Source::run(run)).collect();
        let wanted = Wanted {
            span: (first, last),
            covered: &covered,
            rates,
            keep,
        };
        let (id, names) = match self.write_run(&wanted, sources)? {
            Written::Run(id, names) => (id, names),
            Written::Damaged(part) => {
                part.set_damaged();
                tracing::warn!(
                    target: "onefold::index",
                    part = %names::index_run(part.meta().name),
                    "a part of the index is damaged, and is left out"
                );
                self.note_damaged(part);
                let (id, _) = RunId::of(part.meta().name);
                let whole = chosen.iter().filter(|run| run.id == id);
                let rest: Vec<ObjectName> = whole.flat_map(|run| names_of(run)).collect();
                self.replace(None, &[id]);
                self.bad().extend(rest);
                return Ok(());
            }
        };
        let run = self.open_run(id, &names)?;
        if let Some(held) = self.held() {
            held.take_over(chosen, &run);
            held.memory().retain(keep);
        }
        out.runs += chosen.len();
        (out.entries, out.rates) = (run.load().hooks.iter().sum(), rates);
        tracing::info!(
            target: "onefold::index",
            runs = chosen.len(), hooks = out.entries, ?rates, run = ?run.id,
            "index runs merged into one"
        );
        let replaced: Vec<RunId> = chosen.iter().map(|run| run.id).collect();
        self.replace(Some(run), &replaced);
        // The new run must be durable first: after a crash, the index must not need a rebuild.
        self.storage().barrier()?;
        if lease.is_held() {
            let old: Vec<ObjectName> = chosen.iter().flat_map(|run| names_of(run)).collect();
            out.deleted += self.delete(&old)?;
        }
        Ok(())
    }

    pub(crate) fn delete(&self, objects: &[ObjectName]) -> Result<usize, IndexError> {
        let mut deleted = 0;
        for name in objects {
            match self.storage().delete(name) {
                Ok(()) => deleted += 1,
                // What this client may not delete, another client merges.
                Err(StorageError::NotFound { .. } | StorageError::NoRight { .. }) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(deleted)
    }
}

fn tables_of<'a>(
    sources: &[Source<'a>],
    keep: &dyn Fn(ContainerId) -> bool,
) -> Result<[Spans; 2], Fault<'a>> {
    let of_kind = |kind: HookKind| {
        let tables: Result<Vec<Spans>, _> = sources.iter().map(|source| source.containers(kind)).collect();
        Ok(Spans::union(&tables?, keep))
    };
    Ok([of_kind(HookKind::Data)?, of_kind(HookKind::Node)?])
}

fn fill<'a>(writer: &mut RunWriter<'_>, sources: Vec<Source<'a>>) -> Result<Option<&'a Part>, IndexError> {
    let filled = MergedHooks::new(sources).and_then(|mut merged| {
        while let Some(hook) = merged.next()? {
            if let Err(error) = writer.push(hook) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    });
    match filled {
        Ok(pushed) => pushed.map(|()| None),
        Err(Fault::Damaged(part)) => Ok(Some(part)),
        Err(Fault::Storage(error)) => Err(error.into()),
    }
}

pub(crate) fn names_of(run: &Run) -> Vec<ObjectName> {
    run.parts
        .iter()
        .map(|part| names::index_run(part.meta().name))
        .collect()
}

#[cfg(test)]
mod tests;
