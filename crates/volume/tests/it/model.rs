//! The plain model of a volume: what each of its sectors may read as.
//!
//! Contents are numbers: every sector of a block that is written with number `n` says `n`. Number 0
//! is zeros. A sector may have any value since the last flush over it, because a power cut may keep
//! or lose it; after a kill, only the last one, or that of the operation under way.

use std::collections::BTreeMap;

pub(crate) const BLOCK: usize = 4096;
pub(crate) const SECTOR: usize = 512;
static ZEROS: [u8; BLOCK] = [0; BLOCK];

/// The content of a block with this number.
pub(crate) fn content(number: u64) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    if number != 0 {
        for sector in block.chunks_exact_mut(SECTOR) {
            sector[..8].copy_from_slice(&number.to_le_bytes());
            sector[8..16].copy_from_slice(&(!number).to_le_bytes());
        }
    }
    block
}

/// The number that a sector says; `None` if it is no sector of a block.
pub(crate) fn number_of(sector: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(sector[..8].try_into().unwrap());
    let check = u64::from_le_bytes(sector[8..16].try_into().unwrap());
    (check == !number || sector == &ZEROS[..SECTOR]).then_some(number)
}

/// Values of a block: the last is the present one, the first the flushed one.
type Values = Vec<u64>;

/// A volume as its user knows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) blocks: u64,
    values: BTreeMap<u64, Values>,
    /// Blocks of the operation under way, and what it writes.
    underway: Vec<(u64, u64)>,
    /// What failed operations may have written.
    maybe: BTreeMap<u64, Vec<u64>>,
}

/// What a crash leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    Kill,
    PowerCut,
}

impl Model {
    pub(crate) fn new(blocks: u64) -> Self {
        Self {
            blocks,
            ..Self::default()
        }
    }

    pub(crate) fn begin(&mut self, writes: Vec<(u64, u64)>) {
        self.underway = writes;
    }

    /// The operation was acknowledged.
    pub(crate) fn end(&mut self) {
        for (lba, number) in std::mem::take(&mut self.underway) {
            self.maybe.remove(&lba);
            self.values.entry(lba).or_insert_with(|| vec![0]).push(number);
        }
    }

    /// The operation under way failed: its blocks have their old or their new values.
    pub(crate) fn failed(&mut self) {
        for (lba, number) in std::mem::take(&mut self.underway) {
            self.maybe.entry(lba).or_default().push(number);
        }
    }

    pub(crate) fn flushed(&mut self) {
        for values in self.values.values_mut() {
            let last = *values.last().unwrap();
            *values = vec![last];
        }
    }

    /// The block behind the last one that was written.
    pub(crate) fn len(&self) -> u64 {
        self.values.last_key_value().map_or(0, |(lba, _)| lba + 1)
    }

    /// Distinct contents, without zeros.
    pub(crate) fn contents(models: &[Self]) -> std::collections::BTreeSet<u64> {
        let all = models.iter().flat_map(|model| model.values.values());
        all.map(|values| *values.last().unwrap())
            .filter(|number| *number != 0)
            .collect()
    }

    /// Compares what was read after a crash, and takes it over.
    pub(crate) fn survived(&mut self, crash: Crash, read: &[u8], what: &str) {
        assert_eq!(read.len() as u64, self.blocks * BLOCK as u64);
        let underway: BTreeMap<u64, u64> = std::mem::take(&mut self.underway).into_iter().collect();
        let maybe = std::mem::take(&mut self.maybe);
        for (lba, block) in read.chunks_exact(BLOCK).enumerate() {
            let lba = lba as u64;
            let values = self.values.get(&lba);
            // Most blocks were never written, and each crash reads all.
            if values.is_none() && block == ZEROS {
                continue;
            }
            let values = values.cloned().unwrap_or_else(|| vec![0]);
            let mut allowed = match crash {
                Crash::Kill => vec![*values.last().unwrap()],
                Crash::PowerCut => values.clone(),
            };
            allowed.extend(underway.get(&lba));
            allowed.extend(maybe.get(&lba).into_iter().flatten());
            let mut found = Vec::new();
            for sector in block.chunks_exact(SECTOR) {
                let number = number_of(sector);
                let is_allowed = number.is_some_and(|number| allowed.contains(&number));
                assert!(
                    is_allowed,
                    "{what}: block {lba} reads {number:?}, allowed are {allowed:?} (values {values:?})"
                );
                found.extend(number);
            }
            // A torn block is one that the user has to write again: the model does so.
            let is_torn = found.iter().any(|number| *number != found[0]);
            let now = if is_torn { u64::MAX } else { found[0] };
            if now != 0 || self.values.contains_key(&lba) {
                self.values.insert(lba, vec![now]);
            }
        }
    }

    /// Compares some blocks with what they may read as, without a change.
    pub(crate) fn reads_as(&self, first: u64, read: &[u8], crash: Crash, what: &str) {
        for (lba, block) in (first..).zip(read.chunks_exact(BLOCK)) {
            let values = self.values.get(&lba).cloned().unwrap_or_else(|| vec![0]);
            let mut allowed = match crash {
                Crash::Kill => vec![*values.last().unwrap()],
                Crash::PowerCut => values,
            };
            allowed.extend(self.maybe.get(&lba).into_iter().flatten());
            let underway = self.underway.iter().filter(|(at, _)| *at == lba);
            allowed.extend(underway.map(|(_, number)| *number));
            for sector in block.chunks_exact(SECTOR) {
                let number = number_of(sector);
                let is_allowed = number.is_some_and(|number| allowed.contains(&number));
                assert!(
                    is_allowed,
                    "{what}: block {lba} reads {number:?}, allowed are {allowed:?}"
                );
            }
        }
    }

    /// Compares every block that was ever written.
    pub(crate) fn read_all(&self, volume: &volume::Volume, crash: Crash) {
        let underway = self.underway.iter().map(|(lba, _)| lba);
        let mut read = vec![0; BLOCK];
        for lba in self.values.keys().chain(self.maybe.keys()).chain(underway) {
            volume.read(lba * BLOCK as u64, &mut read).unwrap();
            self.reads_as(*lba, &read, crash, "all");
        }
    }

    /// Blocks that a power cut tore.
    pub(crate) fn torn(&self) -> Vec<u64> {
        let torn = self.values.iter().filter(|(_, values)| values[0] == u64::MAX);
        torn.map(|(lba, _)| *lba).collect()
    }
}
