//! Writing a run: hooks in order, in parts of bounded size.
//!
//! A storage takes an object's bytes at once, so a run of any size is written as parts of at most
//! [`PART_ENTRIES_MAX`] entries, each built in memory (INV-7). The last part says so; a run that ends
//! without it was cut short and covers nothing.

use std::collections::HashMap;

use env::{Storage, StorageError};
use format::names::{self, IndexRunName};
use format::wire::Writer;
use types::{ContainerId, ObjectName, SessionId, StoreId};

use crate::error::IndexError;
use crate::hook::{CANDIDATES_MAX, Hook};
use crate::layout::{
    BLOCK_BYTES, BLOCK_NUMBERS, LEAF_ENTRIES, Meta, Place, Section, close_block, put_numbers,
};

/// Entries of a part at most: some 24 MiB.
pub(crate) const PART_ENTRIES_MAX: usize = 2 << 20;

/// Bits of a run's number that count its parts.
const PART_BITS: u32 = 12;

/// A run: the sessions that it spans and a number among those that span the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId {
    pub(crate) first: SessionId,
    pub(crate) last: SessionId,
    pub(crate) number: u32,
}

impl RunId {
    /// Numbers of runs end here.
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

/// Writes one run.
pub(crate) struct RunWriter<'a> {
    storage: &'a dyn Storage,
    store: StoreId,
    id: RunId,
    covered: Vec<(SessionId, u64)>,
    part_entries_max: usize,
    part: u32,
    /// The open part.
    sections: [OpenSection; 2],
    entries: usize,
    ordinals: HashMap<ContainerId, u32>,
    containers: Vec<u64>,
    last: Option<Hook>,
    equal: usize,
    names: Vec<ObjectName>,
}

#[derive(Debug, Default)]
struct OpenSection {
    entries: u64,
    leaves: Vec<u8>,
    firsts: Vec<u64>,
    open_entries: usize,
    /// Entries at the end of the open leaf that have the same bits.
    group: Vec<(u64, Place)>,
}

impl OpenSection {
    fn push(&mut self, bits: u64, place: Place) {
        if self.group.first().is_some_and(|first| first.0 != bits) {
            self.flush_group();
        }
        self.group.push((bits, place));
        self.entries += 1;
    }

    fn flush_group(&mut self) {
        let Some(first) = self.group.first().copied() else {
            return;
        };
        if self.open_entries + self.group.len() > LEAF_ENTRIES {
            self.close_leaf();
        }
        if self.open_entries == 0 {
            self.firsts.push(first.0);
            self.leaves.extend_from_slice(&[0; 2]);
        }
        self.open_entries += self.group.len();
        let mut w = Writer::new(&mut self.leaves);
        for (bits, place) in self.group.drain(..) {
            w.u64(bits);
            w.u32(place.to_u32());
        }
    }

    fn close_leaf(&mut self) {
        if self.open_entries > 0 {
            let begin = (self.leaves.len() - 1) / BLOCK_BYTES * BLOCK_BYTES;
            let count = u16::try_from(self.open_entries).expect("at most 339");
            self.leaves[begin..begin + 2].copy_from_slice(&count.to_le_bytes());
            close_block(&mut self.leaves);
            self.open_entries = 0;
        }
    }

    fn section(&self) -> Section {
        let tops = self.firsts.chunks(BLOCK_NUMBERS).map(|block| block[0]).collect();
        let leaves = u32::try_from(self.firsts.len()).expect("no more than entries");
        Section {
            entries: self.entries,
            leaves,
            tops,
        }
    }
}

impl<'a> RunWriter<'a> {
    pub(crate) fn new(
        storage: &'a dyn Storage,
        store: StoreId,
        id: RunId,
        covered: Vec<(SessionId, u64)>,
        part_entries_max: usize,
    ) -> Self {
        Self {
            storage,
            store,
            id,
            covered,
            part_entries_max: part_entries_max.clamp(1, PART_ENTRIES_MAX),
            part: 0,
            sections: Default::default(),
            entries: 0,
            ordinals: HashMap::new(),
            containers: Vec::new(),
            last: None,
            equal: 0,
            names: Vec::new(),
        }
    }

    /// Adds a hook; they come in order. Of equal ones the first is kept, of one fingerprint the newest.
    pub(crate) fn push(&mut self, hook: Hook) -> Result<(), IndexError> {
        if let Some(last) = self.last {
            debug_assert!(last.order() <= hook.order(), "hooks come in order");
            if last.order() == hook.order() {
                return Ok(());
            }
            let is_equal = (last.kind, last.bits) == (hook.kind, hook.bits);
            self.equal = if is_equal { self.equal + 1 } else { 0 };
            if self.equal >= CANDIDATES_MAX {
                return Ok(());
            }
            if !is_equal && self.entries >= self.part_entries_max {
                self.put_part(false)?;
            }
        }
        self.last = Some(hook);
        let next = u32::try_from(self.containers.len()).expect("no more containers than entries of a part");
        let ordinal = *self.ordinals.entry(hook.container).or_insert(next);
        if ordinal == next {
            self.containers.push(hook.container.to_u64());
        }
        let place = Place {
            ordinal,
            standing: hook.standing,
        };
        self.sections[hook.kind.number()].push(hook.bits, place);
        self.entries += 1;
        Ok(())
    }

    fn put_part(&mut self, is_last: bool) -> Result<(), IndexError> {
        for section in &mut self.sections {
            section.flush_group();
            section.close_leaf();
        }
        let sections = std::mem::take(&mut self.sections);
        let containers = std::mem::take(&mut self.containers);
        self.ordinals.clear();
        self.entries = 0;
        let name = self.id.part(self.part);
        let meta = Meta {
            store: self.store,
            name,
            is_last,
            covered: self.covered.clone(),
            sections: [sections[0].section(), sections[1].section()],
            containers: u32::try_from(containers.len()).expect("no more containers than entries of a part"),
        };
        let mut rest = Vec::new();
        for section in &sections {
            put_numbers(&mut rest, &section.firsts);
        }
        put_numbers(&mut rest, &containers);
        let object = names::index_run(name);
        if self.part + 1 >= 1 << PART_BITS {
            return Err(IndexError::TooManyRuns { name: object });
        }
        self.storage.put(
            &object,
            &[&meta.encode(), &sections[0].leaves, &sections[1].leaves, &rest],
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

    /// Removes what was written of a run that will not be finished.
    pub(crate) fn abandon(self) {
        for name in &self.names {
            // What stays behind is a run without an end, which is ignored and merged away.
            drop(self.storage.delete(name));
        }
    }
}

/// Whether a put was refused because a rival was first.
pub(crate) fn is_taken(error: &IndexError) -> bool {
    matches!(error, IndexError::Storage(StorageError::AlreadyExists { .. }))
}
