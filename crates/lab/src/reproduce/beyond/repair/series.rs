//! A series in three stores: what each of its backups costs, and how many containers a restore of
//! it reads.

use std::collections::VecDeque;

use ingest::Capping;
use onefold::{
    AssembleOptions, InitOptions, MEASURED_ASSEMBLY_BYTES, PruneLimits, PruneUnused, Repaired, SessionId,
};
use simulate::Extent;

use crate::error::LabError;
use crate::reproduce::Progress;
use crate::reproduce::figures::cores;
use crate::reproduce::stores::content::Content;
use crate::reproduce::stores::engine::{Engine, Stored};

/// What of a store may stay unused after each backup.
pub(super) const UNUSED_MAX: f64 = 0.01;
/// What all stores' keys follow from.
const SEED: u64 = 1;

/// What all stores of a series have in common.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) container_bytes: u32,
    /// So many of the last backups are kept.
    pub(super) kept: usize,
    /// Backups in all.
    pub(super) backups: usize,
    /// So many of the last ones are restored.
    pub(super) restored: usize,
    /// Bytes that a repair may rewrite, in percent of those stored anew.
    pub(super) percent: u16,
}

/// What a store does against its backups being scattered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing: every chunk is stored once.
    Nothing,
    /// The newest backup's layout is repaired.
    Repair,
    /// The default cap: chunks that lie scattered are stored again.
    Cap,
}

impl Way {
    const ALL: [Self; 3] = [Self::Nothing, Self::Repair, Self::Cap];
}

/// Containers that a restore reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reads {
    /// As `onefold stats` counts them, for an area of 128 MiB.
    pub(super) laid_out: u64,
    /// By a restore with that memory, as by default, where it was restored.
    pub(super) restored: Option<u64>,
}

/// What a backup cost a store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) reads: Reads,
    /// Plain bytes stored anew.
    pub(super) bytes_new: u64,
    /// Bytes that the prune after it copied.
    pub(super) swept: u64,
    /// What a repair did, where one was due.
    pub(super) repaired: Option<Repaired>,
}

/// A backup, and what a store reads that has nothing else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backup {
    pub(super) bytes: u64,
    pub(super) is_full: bool,
    pub(super) perfect: Reads,
}

/// What became of a store.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) way: Way,
    /// What each backup cost.
    pub(super) steps: Vec<Step>,
    /// After the last backup and its prune.
    pub(super) stored: Stored,
    /// And when nothing is left unused.
    pub(super) pruned: Stored,
}

/// All that was measured.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) setting: Setting,
    pub(super) backups: Vec<Backup>,
    pub(super) lines: Vec<Line>,
    /// A store that never had any but the backups that are kept, and its plain bytes of chunks.
    pub(super) exact: Stored,
    pub(super) exact_plain: u64,
}

impl Measured {
    /// Bytes of all backups.
    pub(super) fn bytes(&self) -> u64 {
        self.backups.iter().map(|backup| backup.bytes).sum()
    }

    /// Bytes of those that are kept.
    pub(super) fn kept_bytes(&self) -> u64 {
        let gone = self.backups.len().saturating_sub(self.setting.kept);
        self.backups[gone..].iter().map(|backup| backup.bytes).sum()
    }

    pub(super) fn line(&self, way: Way) -> Option<&Line> {
        self.lines.iter().find(|line| line.way == way)
    }
}

#[derive(Debug)]
struct Open {
    way: Way,
    engine: Engine,
    kept: VecDeque<SessionId>,
    steps: Vec<Step>,
}

/// The stores of a series.
#[derive(Debug)]
pub(super) struct Stores {
    setting: Setting,
    init: InitOptions,
    open: Vec<Open>,
    exact: Engine,
    exact_plain: u64,
    /// Whose domain all others are of, so that data is cut alike in all.
    domain: Engine,
    backups: Vec<Backup>,
}

impl Stores {
    /// Empty ones, in memory.
    ///
    /// # Errors
    /// Of the engine.
    pub(super) fn new(setting: Setting) -> Result<Self, LabError> {
        let init = InitOptions::default().container_bytes(setting.container_bytes);
        let domain = Engine::seeded(SEED, &init)?;
        let open = |way| {
            let engine = Engine::new(None, &init, Some(&domain))?.compressed();
            Ok(Open {
                way,
                engine: match way {
                    Way::Nothing | Way::Repair => engine,
                    Way::Cap => engine.capped(Capping::default()),
                },
                kept: VecDeque::new(),
                steps: Vec::new(),
            })
        };
        let all: Result<Vec<Open>, LabError> = Way::ALL.into_iter().map(open).collect();
        Ok(Self {
            setting,
            open: all?,
            exact: Engine::new(None, &init, Some(&domain))?.compressed(),
            exact_plain: 0,
            init,
            domain,
            backups: Vec::new(),
        })
    }

    /// Backs up the next one in each store, lets go of the one that is kept no longer, repairs, and
    /// prunes.
    ///
    /// # Errors
    /// Of the engine; `Interrupted`.
    pub(super) fn back_up(&mut self, content: &Content, progress: &Progress) -> Result<(), LabError> {
        let left = self.setting.backups.saturating_sub(self.backups.len());
        let is_restored = left <= self.setting.restored;
        let alone = Engine::new(None, &self.init, Some(&self.domain))?.compressed();
        let (_, report) = alone.back_up(content, false)?;
        let bytes = report.totals.bytes_logical;
        self.backups.push(Backup {
            bytes,
            is_full: content.extent != Some(Extent::Incremental),
            perfect: reads(&alone, report.id, is_restored)?,
        });
        drop(alone);
        progress.advance(bytes)?;
        if left <= self.setting.kept {
            let (_, report) = self.exact.back_up(content, false)?;
            self.exact_plain += report.totals.bytes_new;
        }
        for open in &mut self.open {
            open.back_up(self.setting, content, is_restored)?;
            progress.advance(bytes)?;
        }
        Ok(())
    }

    /// What they take in the end.
    ///
    /// # Errors
    /// Of the engine.
    pub(super) fn finish(self) -> Result<Measured, LabError> {
        let finish = |open: Open| {
            let stored = open.engine.stored()?;
            open.engine.prune_all()?;
            Ok(Line {
                way: open.way,
                steps: open.steps,
                stored,
                pruned: open.engine.stored()?,
            })
        };
        let lines: Result<Vec<Line>, LabError> = self.open.into_iter().map(finish).collect();
        // As the others: what backups leave behind for prunes to clear away is no chunk's.
        self.exact.prune_all()?;
        Ok(Measured {
            setting: self.setting,
            backups: self.backups,
            lines: lines?,
            exact: self.exact.stored()?,
            exact_plain: self.exact_plain,
        })
    }
}

impl Open {
    fn back_up(&mut self, setting: Setting, content: &Content, is_restored: bool) -> Result<(), LabError> {
        let (_, report) = self.engine.back_up(content, false)?;
        self.kept.push_back(report.id);
        if self.kept.len() > setting.kept
            && let Some(oldest) = self.kept.pop_front()
        {
            self.engine.forget(&[oldest])?;
        }
        let repaired = match self.way {
            Way::Repair => self.engine.repair(setting.percent)?,
            Way::Nothing | Way::Cap => None,
        };
        let (_, pruned) = self
            .engine
            .prune(PruneLimits::default().unused_max(PruneUnused::Share(UNUSED_MAX)))?;
        self.steps.push(Step {
            reads: reads(&self.engine, report.id, is_restored)?,
            bytes_new: report.totals.bytes_new,
            swept: pruned.bytes_copied,
            repaired,
        });
        Ok(())
    }
}

fn reads(engine: &Engine, backup: SessionId, is_restored: bool) -> Result<Reads, LabError> {
    let options = AssembleOptions::for_cores(cores()).budget_bytes(MEASURED_ASSEMBLY_BYTES);
    let restored = if is_restored {
        Some(engine.restore(backup, options)?.1.containers_read)
    } else {
        None
    };
    Ok(Reads {
        laid_out: engine.containers_read_of(backup)?,
        restored,
    })
}
