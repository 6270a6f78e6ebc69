//! The tables of both kinds, their containers, and their common budget. It decides which table
//! shrinks, and when.

use types::ContainerId;

use crate::hook::Hook;
use crate::kind::HookKind;
use crate::sampling::{SamplingRate, SamplingRates};
use crate::table::hook_table::HookTable;
use crate::table::ordinals::Ordinals;
use crate::table::pages::{Full, PAGE_BYTES, Pages};
use crate::table::slots::{Entry, Rank, SlotLayout};

/// The approximate number of chunks for each hook to a node: it gives the share of nodes among
/// entries.
const CHUNKS_PER_NODE: u64 = 256;
/// Bytes that a segment and a page may cost beside the page itself. Fingerprints are spread evenly,
/// and so are segments' lengths: then less than half of it is needed. Images rely on the number of
/// pages in a budget.
const SEGMENT_BYTES_BESIDE: usize = 24;
const PAGE_BYTES_BESIDE: usize = 40;
/// The part of it for the pool of pages: the number of a free page, and a share of its slab's
/// pointer.
const POOL_BYTES_BESIDE: usize = 8;
/// The share of the budget for containers that come out of order.
const LATE_SHARE: usize = 128;
/// The share of the oldest containers that are dropped if even the anchors are too many.
const FORGET_SHARE: u32 = 8;

/// The whole index in memory.
#[derive(Debug)]
pub(crate) struct Tables {
    budget_bytes: usize,
    pub(super) pages: Pages,
    pub(super) ordinals: Ordinals,
    pub(super) kinds: [HookTable; 2],
    pub(super) rates: SamplingRates,
    pub(super) forgotten: u64,
    /// The container of the last added hook. The next hook usually has the same.
    last: Option<(ContainerId, u32)>,
}

impl Tables {
    pub(crate) fn new(budget_bytes: usize) -> Self {
        let entries_max = (budget_bytes / SlotLayout::FIRST.bytes) as u64;
        let kinds = [
            HookTable::new(entries_max),
            HookTable::new(entries_max / CHUNKS_PER_NODE),
        ];
        let segments: usize = kinds.iter().map(|table| table.segments().segments()).sum();
        let beside = segments * SEGMENT_BYTES_BESIDE;
        let late = budget_bytes / LATE_SHARE;
        let pages_max = budget_bytes.saturating_sub(beside + late) / (PAGE_BYTES + PAGE_BYTES_BESIDE);
        let beside_max = beside + pages_max * (PAGE_BYTES_BESIDE - POOL_BYTES_BESIDE);
        let lens = kinds.iter().map(HookTable::bytes_beside).sum();
        let mut pages = Pages::new(pages_max, beside_max);
        pages.take_beside(lens).expect("lengths take two bytes a segment");
        Self {
            budget_bytes,
            pages,
            ordinals: Ordinals::new(late),
            kinds,
            rates: SamplingRates::default(),
            forgotten: 0,
            last: None,
        }
    }

    pub(crate) fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    pub(crate) fn bytes(&self) -> usize {
        let tables: usize = self.kinds.iter().map(HookTable::bytes_beside).sum();
        self.pages.bytes() + self.ordinals.bytes_beside() + tables
    }

    pub(crate) fn rates(&self) -> SamplingRates {
        self.rates
    }

    pub(crate) fn table(&self, kind: HookKind) -> &HookTable {
        &self.kinds[kind.number()]
    }

    pub(crate) fn containers(&self) -> u64 {
        self.ordinals.len().into()
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(crate) fn holds(&self, container: ContainerId) -> bool {
        self.ordinals.find(&self.pages, container).is_some()
    }

    pub(crate) fn find(&self, kind: HookKind, bits: u64, rank: Rank, out: &mut Vec<ContainerId>) {
        self.table(kind).find(&self.pages, bits, rank, |ordinal| {
            out.extend(self.ordinals.container(&self.pages, ordinal));
        });
    }

    /// Adds results, in the order of look-ups: the number of a look-up, from 0 to `count`, and a
    /// container that it finds.
    pub(crate) fn find_together(
        &self,
        kind: HookKind,
        count: usize,
        wanted: impl Fn(usize) -> (u64, Rank),
        out: &mut Vec<(usize, ContainerId)>,
    ) {
        let mut found = Vec::new();
        self.table(kind)
            .find_together((&self.pages, &self.ordinals), count, wanted, &mut found);
        let containers = found.into_iter().map(|(n, ordinal)| {
            let container = self.ordinals.container(&self.pages, ordinal)?;
            Some((n, container))
        });
        out.extend(containers.flatten());
    }

    pub(crate) fn add(&mut self, hook: &Hook) {
        // Each round makes room, until the hook fits or no longer stays.
        let rank = Rank::of(hook.standing);
        while rank.stays_at(self.rates.of(hook.kind)) {
            if self.try_add(hook).is_ok() || !self.shrink() {
                return;
            }
        }
    }

    fn try_add(&mut self, hook: &Hook) -> Result<(), Full> {
        let ordinal = self.ordinal(hook.container)?;
        let Self {
            pages,
            ordinals,
            kinds,
            ..
        } = self;
        let rank = Rank::of(hook.standing);
        kinds[hook.kind.number()].insert(pages, hook.bits, rank, ordinal, ordinals)
    }

    fn ordinal(&mut self, container: ContainerId) -> Result<u32, Full> {
        if let Some((_, ordinal)) = self.last.filter(|last| last.0 == container) {
            return Ok(ordinal);
        }
        let ordinal = match self.ordinals.find(&self.pages, container) {
            Some(ordinal) => ordinal,
            None => {
                if self.ordinals.is_out_of_order() {
                    self.renumber(&|_, _| true);
                }
                self.fit_ordinals()?;
                self.ordinals.push(&mut self.pages, container)?
            }
        };
        self.last = Some((container, ordinal));
        Ok(ordinal)
    }

    /// Ensures that the next ordinal fits into every table's slots.
    fn fit_ordinals(&mut self) -> Result<(), Full> {
        let next = u64::from(self.ordinals.len()) + 1;
        for kind in HookKind::ALL {
            if next > self.table(kind).layout().ordinals() {
                let layout = self.layout(kind, next * 2).ok_or(Full)?;
                self.kinds[kind.number()].rewrite(&mut self.pages, layout, Some)?;
            }
        }
        Ok(())
    }

    /// The smallest slots for so many containers, and for as many entries of a kind as the budget
    /// allows.
    fn layout(&self, kind: HookKind, containers: u64) -> Option<SlotLayout> {
        let table = self.table(kind);
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let growth = self.pages.pages_max() as f64 / self.pages.in_use().max(1) as f64;
        SlotLayout::fitting(table.tag_bits_for(growth), table.layout().tag_bits, containers)
    }

    /// Makes room: halves R of a kind, or drops the oldest containers if only anchors are left.
    /// Returns false if nothing is left to drop.
    fn shrink(&mut self) -> bool {
        let spare = |kind: HookKind| self.table(kind).spare();
        if let Some((rates, kind)) = self.rates.halved(spare(HookKind::Data), spare(HookKind::Node)) {
            self.rates = rates;
            self.drop_unsampled(kind, rates.of(kind));
            return true;
        }
        let oldest = self.ordinals.len().div_ceil(FORGET_SHARE);
        if oldest == 0 {
            return false;
        }
        // Only containers in order are known to be the oldest. Renumbering puts all in order.
        self.renumber(&|_, _| true);
        self.renumber(&|ordinal, _| ordinal >= oldest);
        self.forgotten += u64::from(oldest);
        true
    }

    fn drop_unsampled(&mut self, kind: HookKind, rate: SamplingRate) {
        let keep = |entry: Entry| entry.rank.stays_at(rate).then_some(entry);
        let now = self.table(kind).layout();
        let table = &mut self.kinds[kind.number()];
        table
            .rewrite(&mut self.pages, now, keep)
            .expect("fewer entries need no more pages");
        // Half the entries and half the look-ups need a bit of tag less, and possibly a byte of the
        // slot.
        let containers = u64::from(self.ordinals.len()) * 2;
        if let Some(layout) = self
            .layout(kind, containers)
            .filter(|layout| layout.bytes < now.bytes)
        {
            self.kinds[kind.number()]
                .rewrite(&mut self.pages, layout, Some)
                .expect("smaller slots need no more pages");
        }
    }

    pub(crate) fn retain(&mut self, keep: &dyn Fn(ContainerId) -> bool) {
        let mut containers = (0..self.ordinals.len()).filter_map(|n| self.ordinals.container(&self.pages, n));
        if containers.all(keep) {
            return;
        }
        self.renumber(&|_, container| keep(container));
    }

    /// Gives new ordinals to the containers to keep, and drops the entries of others.
    fn renumber(&mut self, keep: &dyn Fn(u32, ContainerId) -> bool) {
        self.last = None;
        let new = self.ordinals.renumber(&mut self.pages, keep);
        for table in &mut self.kinds {
            let layout = table.layout();
            let change = |entry: Entry| {
                let ordinal = new.get(entry.ordinal as usize).copied().flatten()?;
                Some(Entry { ordinal, ..entry })
            };
            table
                .rewrite(&mut self.pages, layout, change)
                .expect("no more entries need no more pages");
        }
    }
}
