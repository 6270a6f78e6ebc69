//! What a volume's log changes: map, owned blocks, unreferenced blocks, the batch in the slot.
//!
//! The running volume and a replay apply records by the same function. So a replay of all records
//! gives what the running volume had, less freezes that no intent names.

use super::rules::{Rule, Rules};
use super::sets::{Set, Tally};
use super::snapshot::{Dead, DeadList, SNAPSHOTS, Snapshot};

/// Logical blocks of a volume.
pub const LBAS: usize = 2;

/// Where a logical block is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Entry {
    /// Reads as zeros.
    #[default]
    Unmapped,
    /// In a block of this volume alone.
    Private(u8),
    /// ... that the finder has in hand.
    Frozen(u8),
    /// In a block that the index of duplicates counts; this entry is one of its references.
    Counted(u8),
}

impl Entry {
    /// The block, if there is one.
    #[must_use]
    pub const fn block(self) -> Option<u8> {
        match self {
            Self::Unmapped => None,
            Self::Private(block) | Self::Frozen(block) | Self::Counted(block) => Some(block),
        }
    }
}

/// The batch of operations of which the index may know and the log has no result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Slot {
    /// None.
    #[default]
    Empty,
    /// The finder's: test and increment.
    Increment {
        /// Whose block it is.
        lba: u8,
        /// The block.
        block: u8,
        /// When the map got it.
        birth: u8,
        /// The fingerprint.
        hash: u8,
    },
    /// A full pool: take a block out of the index that nothing else refers to.
    Unshare {
        /// Whose block it is.
        lba: u8,
        /// The block.
        block: u8,
        /// The fingerprint.
        hash: u8,
    },
    /// The collector's: test and decrement.
    Decrement {
        /// The block.
        block: u8,
        /// The fingerprint.
        hash: u8,
    },
}

/// What the index answers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reply {
    /// Another block has the fingerprint; its count is one higher.
    Hit(u8),
    /// The block is registered with count 1.
    Miss,
    /// The count is lower, and not zero.
    Left,
    /// The count was 1, and the row is empty now.
    Zero,
    /// The count was 1, and the row is empty now: the block is the volume's.
    Alone,
    /// The count is higher, and stays.
    Shared,
    /// There is no such row.
    Missing,
    /// The sequence number is not the next one.
    OutOfOrder,
}

/// One record of a volume's log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[expect(missing_docs, reason = "the fields are named alike in every record")]
pub enum Record {
    /// A redirected write, with the checksum of its data.
    Map { lba: u8, block: u8, sum: u8 },
    /// A range reads as zeros from now on.
    Trim { lba: u8 },
    /// The finder is about to ask the index.
    Intent { lba: u8, block: u8, birth: u8, hash: u8 },
    /// What came of it. `aliased`: whether the entry was still frozen when it was written.
    /// `differs`: whether the bytes of the two blocks do.
    Found {
        reply: Reply,
        aliased: bool,
        differs: bool,
    },
    /// The collector is about to ask the index.
    DecIntent { block: u8, hash: u8 },
    /// What came of it.
    Decided { reply: Reply },
    /// The volume is about to ask for a block of its own.
    UnIntent { lba: u8, block: u8, hash: u8 },
    /// What came of it.
    Unshared { reply: Reply },
    /// A block is given to the pool.
    Give { block: u8 },
    /// A block of the pool is taken.
    Take { block: u8 },
    /// The map as it is becomes a snapshot.
    Snapshot { contents: [u8; LBAS] },
    /// A snapshot is removed.
    Unsnapshot { place: u8 },
    /// All data and the first `covers` records are durable.
    Mark { covers: u8 },
}

impl Record {
    /// Whether it says what a batch is about.
    #[must_use]
    pub const fn is_intent(self) -> bool {
        matches!(
            self,
            Self::Intent { .. } | Self::DecIntent { .. } | Self::UnIntent { .. }
        )
    }
}

/// What a record takes out of the map.
#[derive(Clone, Copy, Default)]
pub struct Dropped {
    /// Blocks that nothing refers to, once the record is durable.
    pub limbo: Set,
    /// References to give back to the index.
    pub unreferenced: Tally,
}

/// State of a volume at one place of its log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Root {
    /// The map.
    pub map: [Entry; LBAS],
    /// The generation in which each entry got its block.
    pub births: [u8; LBAS],
    /// The generation: one more than snapshots that were taken.
    pub generation: u8,
    /// Snapshots, oldest first.
    pub snapshots: [Option<Snapshot>; SNAPSHOTS],
    /// Blocks that the newest snapshot has and the map has not.
    pub dead: DeadList,
    /// Blocks that are this volume's: mapped by it alone, free, or in limbo.
    pub owned: Set,
    /// References that the collector has to give back, by block.
    pub unreferenced: Tally,
    /// The open batch.
    pub slot: Slot,
    /// The sequence number of the last batch, modulo 4.
    pub sequence: u8,
}

impl Root {
    /// The entry of a logical block.
    #[must_use]
    pub fn entry(&self, lba: u8) -> Entry {
        self.map[usize::from(lba)]
    }

    /// Sets the entry of a logical block.
    pub fn set(&mut self, lba: u8, entry: Entry) {
        self.map[usize::from(lba)] = entry;
    }

    /// Applies one record.
    pub fn apply(&mut self, rules: Rules, record: Record) -> Dropped {
        let mut dropped = Dropped::default();
        if self.slot != Slot::Empty && record.is_intent() && rules.has(Rule::IntentMetOnce) {
            return dropped;
        }
        match record {
            Record::Map { lba, block, .. } => {
                self.drop_entry(rules, lba, &mut dropped);
                self.set(lba, Entry::Private(block));
                self.births[usize::from(lba)] = self.generation;
            }
            Record::Trim { lba } => {
                self.drop_entry(rules, lba, &mut dropped);
                self.set(lba, Entry::Unmapped);
                self.births[usize::from(lba)] = 0;
            }
            Record::Intent {
                lba,
                block,
                birth,
                hash,
            } => {
                self.slot = Slot::Increment {
                    lba,
                    block,
                    birth,
                    hash,
                };
                self.sequence = (self.sequence + 1) % 4;
                if self.entry(lba) == Entry::Private(block) {
                    self.set(lba, Entry::Frozen(block));
                }
            }
            Record::DecIntent { block, hash } => {
                self.slot = Slot::Decrement { block, hash };
                self.sequence = (self.sequence + 1) % 4;
            }
            Record::UnIntent { lba, block, hash } => {
                self.slot = Slot::Unshare { lba, block, hash };
                self.sequence = (self.sequence + 1) % 4;
            }
            Record::Unshared { reply } => self.unshared(reply, &mut dropped),
            Record::Found {
                reply,
                aliased,
                differs,
            } => self.found(rules, reply, aliased, differs, &mut dropped),
            Record::Decided { reply } => self.decided(reply, &mut dropped),
            Record::Snapshot { contents } => self.take_snapshot(contents),
            Record::Unsnapshot { place } => self.remove_snapshot(rules, place, &mut dropped),
            Record::Give { block } => self.owned.remove(block),
            Record::Take { block } => {
                self.owned.add(block);
                dropped.limbo.add(block);
            }
            Record::Mark { .. } => {}
        }
        dropped
    }

    fn drop_entry(&mut self, rules: Rules, lba: u8, dropped: &mut Dropped) {
        let birth = self.births[usize::from(lba)];
        match self.entry(lba) {
            Entry::Unmapped => {}
            Entry::Private(block) => {
                let counted = false;
                self.release(
                    rules,
                    Dead {
                        block,
                        birth,
                        counted,
                    },
                    dropped,
                );
            }
            Entry::Frozen(block) => {
                if !rules.has(Rule::OrphanStays) {
                    self.give_back(block, dropped);
                }
            }
            Entry::Counted(block) => {
                let counted = true;
                self.release(
                    rules,
                    Dead {
                        block,
                        birth,
                        counted,
                    },
                    dropped,
                );
            }
        }
    }

    /// A reference for the collector.
    pub(crate) fn give_back(&mut self, block: u8, dropped: &mut Dropped) {
        self.unreferenced.add(block);
        dropped.unreferenced.add(block);
    }

    fn found(&mut self, rules: Rules, reply: Reply, aliased: bool, differs: bool, dropped: &mut Dropped) {
        let Slot::Increment {
            lba, block, birth, ..
        } = self.slot
        else {
            return;
        };
        self.slot = Slot::Empty;
        let still = if rules.has(Rule::FoundReevaluated) {
            self.entry(lba) == Entry::Frozen(block)
        } else {
            aliased
        };
        let maps = still || !rules.has(Rule::AskedAgain);
        let own = |counted| Dead {
            block,
            birth,
            counted,
        };
        match reply {
            Reply::Hit(other) if differs => {
                if still {
                    self.set(lba, Entry::Private(block));
                } else {
                    self.release(rules, own(false), dropped);
                }
                if rules.has(Rule::DifferentGivenBack) {
                    self.give_back(other, dropped);
                }
            }
            Reply::Hit(other) => {
                self.release(rules, own(false), dropped);
                if maps {
                    self.set(lba, Entry::Counted(other));
                    self.births[usize::from(lba)] = self.generation;
                } else if rules.has(Rule::GivenBack) {
                    self.give_back(other, dropped);
                }
            }
            Reply::Miss => {
                self.owned.remove(block);
                if maps {
                    self.set(lba, Entry::Counted(block));
                } else if rules.has(Rule::GivenBack) {
                    self.release(rules, own(true), dropped);
                }
            }
            _ => {}
        }
    }

    /// The root without the open batch, as a checkpoint stores it, and the intent of the batch.
    #[must_use]
    pub fn without_batch(mut self) -> (Self, Option<Record>) {
        let intent = match self.slot {
            Slot::Empty => return (self, None),
            Slot::Increment {
                lba,
                block,
                birth,
                hash,
            } => Record::Intent {
                lba,
                block,
                birth,
                hash,
            },
            Slot::Decrement { block, hash } => Record::DecIntent { block, hash },
            Slot::Unshare { lba, block, hash } => Record::UnIntent { lba, block, hash },
        };
        self.slot = Slot::Empty;
        self.sequence = (self.sequence + 3) % 4;
        for entry in &mut self.map {
            if let Entry::Frozen(block) = *entry {
                *entry = Entry::Private(block);
            }
        }
        (self, Some(intent))
    }

    fn unshared(&mut self, reply: Reply, dropped: &mut Dropped) {
        let Slot::Unshare { lba, block, .. } = self.slot else {
            return;
        };
        self.slot = Slot::Empty;
        if reply != Reply::Alone {
            return;
        }
        self.owned.add(block);
        if self.entry(lba) == Entry::Counted(block) {
            self.set(lba, Entry::Private(block));
        } else {
            // Dropped meanwhile: the reference needs no giving back.
            self.unreferenced.remove(block);
            dropped.limbo.add(block);
        }
    }

    fn decided(&mut self, reply: Reply, dropped: &mut Dropped) {
        let Slot::Decrement { block, .. } = self.slot else {
            return;
        };
        self.slot = Slot::Empty;
        self.unreferenced.remove(block);
        if reply == Reply::Zero {
            self.owned.add(block);
            dropped.limbo.add(block);
        }
    }

    /// Blocks that the map, or the open batch, keeps from being free.
    #[must_use]
    pub fn in_use(&self) -> Set {
        let mut used = Set::NONE;
        for entry in self.map {
            if let Entry::Private(block) | Entry::Frozen(block) = entry {
                used.add(block);
            }
        }
        if let Slot::Increment { block, .. } = self.slot {
            used.add(block);
        }
        for dead in self.dead_items().filter(|dead| !dead.counted) {
            used.add(dead.block);
        }
        used
    }
}
