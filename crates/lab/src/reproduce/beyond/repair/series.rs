//! A series in three stores: the cost of each backup, and the number of containers that a restore
//! of it reads.

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

/// The share of a store that may stay unused after each backup.
pub(super) const UNUSED_MAX: f64 = 0.01;
/// The seed of all stores' keys.
const SEED: u64 = 1;

/// The common settings of all stores of a series.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) container_bytes: u32,
    /// The number of last backups that are kept.
    pub(super) kept: usize,
    /// Backups in all.
    pub(super) backups: usize,
    /// The number of last backups that are restored.
    pub(super) restored: usize,
    /// Bytes that a repair may rewrite, in percent of newly stored bytes.
    pub(super) percent: u16,
}

/// What a store does against scattered backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing: it stores every chunk once.
    Nothing,
    /// It repairs the newest backup's layout.
    Repair,
    /// It uses the default cap: scattered chunks are stored again.
    Cap,
}

impl Way {
    const ALL: [Self; 3] = [Self::Nothing, Self::Repair, Self::Cap];
}

/// Containers that a restore reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reads {
    /// As `onefold stats` counts them, with an area of 128 MiB.
    pub(super) laid_out: u64,
    /// Read by a default restore with that memory, if the backup was restored.
    pub(super) restored: Option<u64>,
}

/// The cost of a backup in a store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) reads: Reads,
    /// Plain bytes newly stored.
    pub(super) bytes_new: u64,
    /// Bytes that the following prune copied.
    pub(super) swept: u64,
    /// The results of a repair, if one was due.
    pub(super) repaired: Option<Repaired>,
}

/// A backup, and the reads of its restore from a store that has nothing else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Backup {
    pub(super) bytes: u64,
    pub(super) is_full: bool,
    pub(super) perfect: Reads,
}

/// The results of a store.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) way: Way,
    /// The cost of each backup.
    pub(super) steps: Vec<Step>,
    /// Sizes after the last backup and its prune.
    pub(super) stored: Stored,
    /// Sizes after a prune that leaves nothing unused.
    pub(super) pruned: Stored,
}

/// All results of a series.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) setting: Setting,
    pub(super) backups: Vec<Backup>,
    pub(super) lines: Vec<Line>,
    /// Sizes of a store that only ever had the kept backups, and its plain bytes of chunks.
    pub(super) exact: Stored,
    pub(super) exact_plain: u64,
}

impl Measured {
    /// Bytes of all backups.
    pub(super) fn bytes(&self) -> u64 {
        self.backups.iter().map(|backup| backup.bytes).sum()
    }

    /// Bytes of the kept backups.
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
    /// Gives all other stores their domain, so that all cut data alike.
    domain: Engine,
    backups: Vec<Backup>,
}

impl Stores {
    /// Empty stores in memory.
    ///
    /// # Errors
    /// Errors of the engine.
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

    /// Backs up the next content into each store. Then each store forgets the backup that is no
    /// longer kept, repairs, and prunes.
    ///
    /// # Errors
    /// Errors of the engine; `Interrupted`.
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

    /// The final sizes of the stores.
    ///
    /// # Errors
    /// Errors of the engine.
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
        // Prunes this store like the others, so that leftovers of backups do not count.
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
