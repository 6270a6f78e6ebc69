//! Writing a run: hooks in order, in parts of bounded size.
//!
//! A storage gets an object's bytes at once. So a run of any size is written as parts of at most
//! [`PART_ENTRIES_MAX`] entries, each built in memory (INV-7). The last part says that it is the
//! last. A run without such a part was cut short, and covers nothing.

use env::{Storage, StorageError};
use format::names::{self, IndexRunName};
use types::{ObjectName, SessionId, StoreId};

use crate::candidates::CANDIDATES_MAX;
use crate::error::IndexError;
use crate::hook::Hook;
use crate::part_header::{Meta, Section};
use crate::records::{Entry, rank_of};
use crate::sampling::SamplingRates;
use crate::spans::Spans;
use crate::summary::{REMAINDER_BITS, SummaryBuilder, key_of, shift_for};

/// The most entries of a part: some 7 MiB, and 16 MiB while it is built.
pub(crate) const PART_ENTRIES_MAX: usize = 1 << 20;

/// Bits of a run's number that count its parts.
const PART_BITS: u32 = 12;

/// The id of a run: the sessions in its name, and a number that distinguishes runs with the same
/// sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId {
    pub(crate) first: SessionId,
    pub(crate) last: SessionId,
    pub(crate) number: u32,
}

impl RunId {
    /// The end of the numbers of runs.
    pub(crate) const NUMBERS: u32 = 1 << (32 - PART_BITS);

    pub(crate) fn part(self, part: u32) -> IndexRunName {
        let number = (self.number << PART_BITS) | (part & ((1 << PART_BITS) - 1));
        IndexRunName {
            first: self.first,
            last: self.last,
            number,
        }
    }

    pub(crate) fn of(name: IndexRunName) -> (Self, u32) {
        let IndexRunName { first, last, number } = name;
        (
            Self {
                first,
                last,
                number: number >> PART_BITS,
            },
            number & ((1 << PART_BITS) - 1),
        )
    }
}

/// The plan of a run.
#[derive(Debug, Clone)]
pub(crate) struct RunPlan {
    pub(crate) store: StoreId,
    pub(crate) id: RunId,
    /// Sessions whose hooks are all in it: first and count, ascending.
    pub(crate) covered: Vec<(SessionId, u64)>,
    /// The sampling rates. Hooks that do not stay at these are left out.
    pub(crate) rates: SamplingRates,
    /// The containers of all hooks, by kind.
    pub(crate) tables: [Spans; 2],
    pub(crate) part_entries_max: usize,
}

/// Writes one run.
pub(crate) struct RunWriter<'a> {
    storage: &'a dyn Storage,
    plan: RunPlan,
    part: u32,
    /// Entries of the open part.
    entries: [Vec<Entry>; 2],
    last: Option<Hook>,
    equal: usize,
    names: Vec<ObjectName>,
}

impl<'a> RunWriter<'a> {
    pub(crate) fn new(storage: &'a dyn Storage, mut plan: RunPlan) -> Self {
        plan.part_entries_max = plan.part_entries_max.clamp(1, PART_ENTRIES_MAX);
        Self {
            storage,
            plan,
            part: 0,
            entries: Default::default(),
            last: None,
            equal: 0,
            names: Vec::new(),
        }
    }

    /// Adds a hook, if it stays. Hooks must come in order of kind and key, the newer container
    /// first. Of equal hooks the first is kept, and of one key the newest ones. A hook whose
    /// container is in no table is left out.
    pub(crate) fn push(&mut self, hook: Hook) -> Result<(), IndexError> {
        let kind = hook.kind.number();
        if !hook.standing.stays_at(self.plan.rates.of(hook.kind)) {
            return Ok(());
        }
        let Some(ordinal) = self.plan.tables[kind].ordinal(hook.container) else {
            return Ok(());
        };
        let key = key_of(hook.bits);
        if let Some(last) = self.last {
            debug_assert!(last.order() <= hook.order(), "hooks come in order");
            let is_equal = (last.kind, key_of(last.bits)) == (hook.kind, key);
            if is_equal && last.container == hook.container {
                return Ok(());
            }
            self.equal = if is_equal { self.equal + 1 } else { 0 };
            if self.equal >= CANDIDATES_MAX {
                return Ok(());
            }
            let held: usize = self.entries.iter().map(Vec::len).sum();
            if !is_equal && held >= self.plan.part_entries_max {
                self.put_part(false)?;
            }
        }
        self.last = Some(hook);
        self.entries[kind].push(Entry {
            key,
            rank: rank_of(hook.standing),
            ordinal,
        });
        Ok(())
    }

    fn put_part(&mut self, is_last: bool) -> Result<(), IndexError> {
        let name = self.plan.id.part(self.part);
        let object = names::index_run(name);
        if self.part + 1 >= 1 << PART_BITS {
            return Err(IndexError::TooManyRuns { name: object });
        }
        let [data, node] = [0, 1].map(|kind| Encoded::of(&self.entries[kind], &self.plan.tables[kind]));
        self.entries.iter_mut().for_each(Vec::clear);
        let meta = Meta {
            store: self.plan.store,
            name,
            is_last,
            covered: self.plan.covered.clone(),
            rates: self.plan.rates,
            sections: [data.section, node.section],
        };
        self.storage.put(
            &object,
            &[
                &meta.encode(),
                &data.summary,
                &node.summary,
                &data.leaves,
                &node.leaves,
                &data.table,
                &node.table,
            ],
        )?;
        self.names.push(object);
        self.part += 1;
        Ok(())
    }

    /// Writes the last part (an empty run has one too: it covers its sessions).
    pub(crate) fn finish(mut self) -> Result<Vec<ObjectName>, IndexError> {
        self.put_part(true)?;
        Ok(self.names)
    }

    /// Deletes the written parts of a run that will not be finished.
    pub(crate) fn abandon(self) {
        for name in &self.names {
            // Parts that stay are a run without an end, which is ignored and merged away.
            drop(self.storage.delete(name));
        }
    }
}

/// The encoded bytes of a section.
struct Encoded {
    section: Section,
    summary: Vec<u8>,
    leaves: Vec<u8>,
    table: Vec<u8>,
}

impl Encoded {
    fn of(entries: &[Entry], table: &Spans) -> Self {
        let key_at = |entry: Option<&Entry>| entry.map_or(0, |entry| entry.key);
        let shift = shift_for(entries.len(), key_at(entries.first()), key_at(entries.last()));
        let mut summary = SummaryBuilder::new(shift);
        for equal in entries.chunk_by(|a, b| a.key == b.key) {
            summary.push(equal[0].key, equal.len());
        }
        let (summary, tops) = summary.finish();
        let mut table_blocks = Vec::new();
        table.write(&mut table_blocks);
        let section = Section {
            entries: u32::try_from(entries.len()).expect("no more than a part has"),
            shift,
            ordinal_bits: table.ordinal_bits(),
            containers: table.len(),
            rows: u32::try_from(table.rows()).expect("no more than containers"),
            tops,
        };
        debug_assert_eq!(section.shape().low_bits, shift - REMAINDER_BITS);
        let leaves = section.shape().write(entries);
        Self {
            section,
            summary,
            leaves,
            table: table_blocks,
        }
    }
}

/// Whether a put failed because a rival was first.
pub(crate) fn is_taken(error: &IndexError) -> bool {
    matches!(error, IndexError::Storage(StorageError::AlreadyExists { .. }))
}
