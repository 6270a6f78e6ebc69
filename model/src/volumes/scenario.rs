//! What one exploration of the protocol of volumes is given.

use super::device::Block;
use super::properties::Witness;
use super::root::{Entry, LBAS};
use super::sets::{BLOCKS, Set};
use super::state::{Faults, Holder, OLD, Requests, Row, State, VOLUMES, Volume};

/// Bounds of one exploration.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name by which it is run.
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// Volumes in use.
    pub volumes: usize,
    /// Logical blocks of each in use.
    pub lbas: u8,
    /// Blocks of each volume at the start.
    pub owned: [Set; VOLUMES],
    /// Contents that each guest writes.
    pub writes: [Set; VOLUMES],
    /// Requests of each guest.
    pub requests: [Requests; VOLUMES],
    /// What is mapped at the start.
    pub mapped: [[Entry; LBAS]; VOLUMES],
    /// What is in the mapped blocks at the start.
    pub contents: [u8; BLOCKS],
    /// Volumes with a finder.
    pub finds: [bool; VOLUMES],
    /// Volumes with a collector.
    pub collects: [bool; VOLUMES],
    /// A flush takes two steps, so that others can come between them.
    pub slow_flushes: bool,
    /// Volumes take blocks out of the index to write them in place.
    pub unshares: bool,
    /// A flush is acknowledged before its mark is durable.
    pub lazy_marks: bool,
    /// Places of the extent in which each log turns round, with checkpoints as steps; 0: none.
    pub extent: u8,
    /// Volumes give free blocks to the pool, and take blocks from it.
    pub hands_over: bool,
    /// Blocks that are in the pool at the start; a takeover takes them.
    pub spare: Set,
    /// A power cut may leave parts of several writes in a block.
    pub torn: bool,
    /// Finders compare bytes.
    pub compares: bool,
    /// Contents 1 and 2 have the same fingerprint.
    pub collides: bool,
    /// Faults that may happen.
    pub faults: Faults,
    /// Events that must be seen.
    pub witnesses: Vec<Witness>,
}

impl Scenario {
    /// Two volumes of one logical block, nothing else: a base to vary.
    #[must_use]
    pub fn new(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            volumes: 2,
            lbas: 1,
            owned: [Set::new(0b00_0111), Set::new(0b01_1000)],
            writes: [Set::new(0b110), Set::new(0b010)],
            requests: [Requests::default(); VOLUMES],
            mapped: [[Entry::Unmapped; LBAS]; VOLUMES],
            contents: [OLD; BLOCKS],
            finds: [true; VOLUMES],
            collects: [true; VOLUMES],
            slow_flushes: false,
            unshares: false,
            lazy_marks: false,
            extent: 0,
            hands_over: false,
            spare: Set::NONE,
            torn: false,
            compares: false,
            collides: false,
            faults: Faults::default(),
            witnesses: Vec::new(),
        }
    }

    /// The fingerprint of a content.
    #[must_use]
    pub const fn hash(&self, content: u8) -> u8 {
        if self.collides && content == 2 || content as usize >= super::state::HASHES {
            1
        } else {
            content
        }
    }

    /// Blocks in use.
    pub fn blocks(&self) -> impl Iterator<Item = u8> {
        let mapped = self.mapped.iter().flatten().filter_map(|entry| entry.block());
        let all = mapped.fold(Set::NONE, |all, block| all.and(Set::one(block)));
        let owned = self.owned.iter().fold(all, |all, set| all.and(*set));
        owned.and(self.spare).each()
    }

    /// The state at the start.
    #[must_use]
    pub fn start(&self) -> State {
        let mut state = State {
            blocks: self.contents.map(Block::new),
            rows: Default::default(),
            clients: Default::default(),
            undo: None,
            confirmed: [true; VOLUMES],
            forgot: false,
            table: Default::default(),
            zombie: None,
            stray: None,
            volumes: [Volume::default(); VOLUMES],
            faults: self.faults,
            fault: None,
            events: Default::default(),
        };
        for block in self.spare.each() {
            state.table[usize::from(block)] = Holder::Pool;
        }
        for v in 0..VOLUMES {
            let volume = &mut state.volumes[v];
            volume.budget = self.requests[v];
            let root = &mut volume.process.root;
            root.map = self.mapped[v];
            root.owned = self.owned[v];
            root.generation = 1;
            root.births = root.map.map(|entry| u8::from(entry != Entry::Unmapped));
            volume.process.free = root.owned.less(root.in_use());
            volume.log.base = *root;
            volume.log.extent = self.extent;
            for (lba, entry) in self.mapped[v].iter().enumerate() {
                let content = state.content(entry.block());
                state.volumes[v].guest.acknowledged[lba] = content;
                state.volumes[v].guest.may_be[lba] = Set::one(content);
                if let Entry::Counted(block) = *entry {
                    let row = &mut state.rows[usize::from(self.hash(content))];
                    *row = Row {
                        block,
                        references: row.references + 1,
                        content,
                    };
                }
            }
        }
        state
    }
}
