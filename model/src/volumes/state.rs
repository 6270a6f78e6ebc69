//! State of the model: the device, the index of duplicates, and for each volume what is durable,
//! what is in its log, and what its process knows.

use std::hash::{Hash, Hasher};

use super::device::Block;
use super::log::{Log, TAIL};
use super::properties::{Violation, Witness};
use super::root::{Dropped, LBAS, Record, Reply, Root, Slot};
use super::rules::{Rule, Rules};
use super::sets::{BLOCKS, Set, Tally};

/// Volumes.
pub const VOLUMES: usize = 2;
/// Contents that have a fingerprint of their own; 0 is zeros.
pub const HASHES: usize = 4;
/// Zeros.
pub const ZEROS: u8 = 0;
/// A block that a power cut has left with parts of several writes.
pub const TORN: u8 = 6;
/// What was in a block before the start.
pub const OLD: u8 = 7;

/// A row of the index of duplicates; without references it counts as absent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Row {
    /// The block.
    pub block: u8,
    /// References.
    pub references: u8,
    /// The content at registration: the model's own knowledge.
    pub content: u8,
}

/// What the index keeps of one volume, in the same transaction as its rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Client {
    /// The last sequence number.
    pub sequence: u8,
    /// The answer to it.
    pub reply: Option<Reply>,
}

/// A write under way. A guest sends one at a time to a logical block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Write {
    /// None.
    #[default]
    Idle,
    /// Into the block that the map names.
    InPlace {
        /// The block.
        block: u8,
        /// The data.
        content: u8,
    },
    /// Into a reserved block, where the data is; the log does not have it yet.
    Redirect {
        /// The block.
        block: u8,
        /// The data.
        content: u8,
    },
}

/// A read that has looked up the map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Read {
    /// The logical block.
    pub lba: u8,
    /// What the map had.
    pub block: Option<u8>,
    /// Contents that it may return.
    pub allowed: Set,
}

/// A flush under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flush {
    /// Records logged when it began.
    pub covers: u8,
}

/// The finder, until its batch is in the slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Finder {
    /// Has nothing in hand.
    #[default]
    Idle,
    /// Has frozen an entry.
    Frozen {
        /// The logical block.
        lba: u8,
        /// The block.
        block: u8,
        /// When the map got it.
        birth: u8,
    },
    /// Has read and hashed the block.
    Hashed {
        /// The logical block.
        lba: u8,
        /// The block.
        block: u8,
        /// When the map got it.
        birth: u8,
        /// What it read.
        content: u8,
    },
}

/// How far the batch in the slot has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Call {
    /// It is to be sent, or sent again.
    #[default]
    Ready,
    /// The answer is here.
    Answered(Reply),
}

/// Blocks that wait for a full flush.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Waiting {
    /// Dropped since the flush began, or since none runs.
    pub since: Set,
    /// Dropped before the running flush began.
    pub before: Set,
    /// Covered by a flush that has ended.
    pub covered: Set,
    /// References dropped since the flush began.
    pub references_since: Tally,
    /// References dropped before the running flush began.
    pub references_before: Tally,
}

impl Waiting {
    /// The flush has ended, and its mark is durable.
    pub fn cover(&mut self) {
        self.covered = self.covered.and(self.before);
        self.before = Set::NONE;
        self.references_before = Tally::default();
    }
}

/// What a volume's process knows, and loses when it ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Process {
    /// Map, owned blocks, unreferenced blocks, slot.
    pub root: Root,
    /// Blocks free for redirected writes.
    pub free: Set,
    /// Blocks and references that wait for a flush.
    pub waiting: Waiting,
    /// The write under way of each logical block.
    pub writes: [Write; LBAS],
    /// The read under way.
    pub read: Option<Read>,
    /// The flush under way.
    pub flush: Option<Flush>,
    /// The finder.
    pub finder: Finder,
    /// The batch in the slot.
    pub call: Call,
    /// A checkpoint under way: how many records are before it. It holds the slot.
    pub checkpoint: Option<u8>,
    /// Logical blocks whose bytes differed, not written since: the finder leaves them alone.
    pub unlike: Set,
    /// Blocks that a former process may still write.
    pub inherited: Set,
    /// Whether a comparison before the call found equal bytes: only with `ComparedAfter` off.
    pub compared: bool,
}

impl Process {
    /// Whether a batch or a checkpoint has the slot.
    #[must_use]
    pub fn is_slot_taken(&self) -> bool {
        self.root.slot != Slot::Empty || self.checkpoint.is_some()
    }
}

/// What a guest may rely on, for each logical block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Guest {
    /// The last acknowledged content.
    pub acknowledged: [u8; LBAS],
    /// Contents that a power cut may leave.
    pub may_be: [Set; LBAS],
    /// Contents that a power cut may leave once the running flush has ended.
    pub may_be_then: [Set; LBAS],
}

/// One volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Volume {
    /// Its log.
    pub log: Log,
    /// Its process.
    pub process: Process,
    /// Its guest.
    pub guest: Guest,
    /// Requests that the guest may still make.
    pub budget: Requests,
}

/// Requests of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Requests {
    /// Writes.
    pub writes: u8,
    /// Reads.
    pub reads: u8,
    /// Trims.
    pub trims: u8,
    /// Snapshots.
    pub snapshots: u8,
}

/// Faults that may still happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Faults {
    /// Ends of a volume's process.
    pub kills: u8,
    /// Power cuts.
    pub cuts: u8,
    /// Answers of the index that do not arrive.
    pub losses: u8,
    /// Batches that arrive late.
    pub delays: u8,
    /// Ends of the index that lose its newest batch.
    pub forgets: u8,
    /// Takeovers of volume 0 by another host.
    pub takeovers: u8,
}

/// What the last step showed. It is no part of the state.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Events(u32);

impl Events {
    /// Notes an event.
    pub const fn note(&mut self, event: Witness) {
        self.0 |= 1 << event as u32;
    }

    /// Whether it was noted.
    #[must_use]
    pub const fn has(self, event: Witness) -> bool {
        self.0 & (1 << event as u32) != 0
    }
}

impl Hash for Events {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

/// What the coordination store says of a block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Holder {
    /// Volumes and the index know.
    #[default]
    InUse,
    /// The pool.
    Pool,
    /// A volume is giving it to the pool.
    Giving(u8),
    /// A volume is taking it from the pool.
    Taking(u8),
}

/// A former process of volume 0 that another host has replaced, and what it may still do.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Zombie {
    /// Blocks that it takes for private or free.
    pub writable: Set,
    /// Those of them that its map has.
    pub private: Set,
    /// Its sequence number.
    pub sequence: u8,
    /// Writes that may still arrive.
    pub writes: u8,
}

/// A batch that the network delivers late; the volume has sent it again meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Stray {
    /// Whose it is.
    pub volume: u8,
    /// The batch.
    pub batch: Slot,
    /// Its sequence number.
    pub sequence: u8,
}

/// What an index that loses its newest batch goes back to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Undo {
    /// Rows.
    pub rows: [Row; HASHES],
    /// What it kept of each volume.
    pub clients: [Client; VOLUMES],
}

/// One state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    /// The device.
    pub blocks: [Block; BLOCKS],
    /// Rows of the index, by fingerprint.
    pub rows: [Row; HASHES],
    /// What the index keeps of each volume.
    pub clients: [Client; VOLUMES],
    /// Before the newest batch: kept where the index may lose one.
    pub undo: Option<Undo>,
    /// Volumes that have compared their logs with the index since it last began.
    pub confirmed: [bool; VOLUMES],
    /// A batch is lost, and nobody has counted again.
    pub forgot: bool,
    /// What the coordination store says of each block.
    pub table: [Holder; BLOCKS],
    /// A former process of volume 0.
    pub zombie: Option<Zombie>,
    /// A batch under way.
    pub stray: Option<Stray>,
    /// The volumes.
    pub volumes: [Volume; VOLUMES],
    /// Faults still to come.
    pub faults: Faults,
    /// What the last step violated by itself.
    pub fault: Option<Violation>,
    /// What the last step showed.
    pub events: Events,
}

impl State {
    /// Whether the index may apply batches.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.confirmed == [true; VOLUMES]
    }

    /// A block of the device.
    #[must_use]
    pub fn block(&self, block: u8) -> &Block {
        &self.blocks[usize::from(block)]
    }

    /// What a reader of `entry` finds.
    #[must_use]
    pub fn content(&self, block: Option<u8>) -> u8 {
        block.map_or(ZEROS, |block| self.block(block).volatile)
    }

    /// Appends to the log of volume `v`, and applies the record to its process.
    pub fn append(&mut self, rules: Rules, v: usize, record: Record) -> Dropped {
        let volume = &mut self.volumes[v];
        volume.log.push(record);
        let dropped = volume.process.root.apply(rules, record);
        let waiting = &mut volume.process.waiting;
        waiting.since = waiting.since.and(dropped.limbo);
        waiting.references_since.add_all(dropped.unreferenced);
        dropped
    }

    /// Makes durable all blocks that volume `v` has written.
    pub fn flush_data(&mut self, v: usize) {
        for block in &mut self.blocks {
            if !block.pending.is_empty() && usize::from(block.writer) == v {
                block.flush();
            }
        }
    }

    /// Makes durable what is in the log of volume `v`.
    pub fn flush_log(&mut self, rules: Rules, v: usize) {
        let log = &mut self.volumes[v].log;
        log.flushed = log.len;
        self.settle_marks(rules, v);
    }

    /// Folds what a durable mark covers.
    pub fn settle_marks(&mut self, rules: Rules, v: usize) {
        let volume = &mut self.volumes[v];
        let log = &mut volume.log;
        let last = (0..log.flushed)
            .rev()
            .find_map(|place| match log.tail[usize::from(place)] {
                Some(Record::Mark { covers }) => Some((place, covers)),
                _ => None,
            });
        let Some((place, covers)) = last else {
            return;
        };
        // The mark itself has done its work.
        let mut without = Log {
            len: 0,
            tail: [None; TAIL],
            flushed: log.flushed - 1,
            ..*log
        };
        for (_, record) in (0..).zip(log.records()).filter(|(at, _)| *at != place) {
            without.tail[usize::from(without.len)] = Some(record);
            without.len += 1;
        }
        *log = without;
        log.fold(rules, covers);
        if let Some(flush) = &mut volume.process.flush {
            flush.covers = flush.covers.saturating_sub(covers + 1);
        }
    }

    /// The block frees that nothing holds up any more, and forgotten writers of durable blocks.
    pub fn normalise(&mut self, rules: Rules) {
        if self.zombie.is_none() {
            self.volumes[0].process.inherited = Set::NONE;
        }
        for v in 0..VOLUMES {
            let process = &mut self.volumes[v].process;
            let mut ready = process.waiting.covered;
            if !rules.has(Rule::ReuseAfterFlush) {
                ready = ready.and(process.waiting.since).and(process.waiting.before);
            }
            let reading = process.read.and_then(|read| read.block);
            for block in ready.each() {
                let is_read = reading == Some(block) && rules.has(Rule::ReadersBeforeReuse);
                let waits = v == 0
                    && self.zombie.is_some()
                    && process.inherited.has(block)
                    && rules.has(Rule::InheritedWait);
                if is_read || waits || self.table[usize::from(block)] != Holder::InUse {
                    continue;
                }
                process.waiting.since.remove(block);
                process.waiting.before.remove(block);
                process.waiting.covered.remove(block);
                process.free.add(block);
                // What is in a free block is nobody's business, and no state differs by it.
                self.blocks[usize::from(block)] = Block::new(OLD);
            }
            if process.root.slot == Slot::Empty {
                process.call = Call::Ready;
            }
            self.count_from_client(v);
        }
    }

    /// Sequence numbers count from the index's own, and an answer that nobody can ask for again is
    /// forgotten.
    fn count_from_client(&mut self, v: usize) {
        let volume = &mut self.volumes[v];
        let client = &mut self.clients[v];
        for sequence in [&mut volume.process.root.sequence, &mut volume.log.base.sequence] {
            *sequence = (*sequence + 4 - client.sequence) % 4;
        }
        if let Some(undo) = &mut self.undo {
            let before = &mut undo.clients[v];
            before.sequence = (before.sequence + 4 - client.sequence) % 4;
        }
        if let Some(stray) = &mut self.stray
            && usize::from(stray.volume) == v
        {
            stray.sequence = (stray.sequence + 4 - client.sequence) % 4;
            if stray.sequence == 2 {
                // Two behind. Numbers are whole in the code: it is never the next one again.
                self.stray = None;
            }
        }
        if let Some(zombie) = &mut self.zombie
            && v == 0
        {
            zombie.sequence = (zombie.sequence + 4 - client.sequence) % 4;
        }
        client.sequence = 0;
        if volume.process.root.sequence == 0
            && volume.log.base.sequence == 0
            && volume.log.base.slot == Slot::Empty
            && self.faults.forgets == 0
            && self.stray.is_none()
        {
            client.reply = None;
        }
    }
}
