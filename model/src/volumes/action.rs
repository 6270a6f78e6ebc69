//! The steps of the model of volumes. `volume` is a number of a volume.

use super::root::Record;
use super::sets::{BLOCKS, Set};
use super::state::VOLUMES;

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are named alike in every step")]
#[rustfmt::skip]
pub enum Action {
    /// The interceptor begins a write into the block that the map names.
    BeginInPlace { volume: usize, lba: u8, content: u8 },
    /// The data is in the block; the write is acknowledged.
    EndInPlace { volume: usize, lba: u8 },
    /// The interceptor reserves a block, and writes the data there.
    BeginRedirect { volume: usize, lba: u8, block: u8, content: u8 },
    /// The log block with `Map` is written; the map changes; the write is acknowledged.
    EndRedirect { volume: usize, lba: u8, block: u8 },
    /// The interceptor logs a trim and acknowledges it.
    Trim { volume: usize, lba: u8 },
    /// A read looks up the map.
    LookUp { volume: usize, lba: u8 },
    /// A read of the newest snapshot looks up its map.
    LookUpSnapshot { volume: usize, lba: u8 },
    /// It reads the block that it found.
    EndRead { volume: usize, lba: u8, content: u8 },
    /// A snapshot is logged.
    Snapshot { volume: usize },
    /// A snapshot is removed; of what it alone has, blocks are dropped and references given back.
    RemoveSnapshot { volume: usize, place: u8 },
    /// Both steps of a flush at once.
    Flush { volume: usize },
    /// A flush: the data and the log so far become durable. It has not ended.
    BeginFlush { volume: usize },
    /// Its mark is durable: it is acknowledged, and what it covers may be reused or decremented.
    EndFlush { volume: usize },
    /// The finder freezes an entry.
    Freeze { volume: usize, lba: u8 },
    /// It reads the block and hashes it.
    Hash { volume: usize, lba: u8, content: u8 },
    /// A write has replaced the entry before the index was asked: the block is dropped.
    Abandon { volume: usize, lba: u8 },
    /// The block has zeros: its entry goes.
    Zero { volume: usize, lba: u8 },
    /// It flushes data, logs the intent, flushes the log.
    Register { volume: usize, lba: u8, block: u8 },
    /// The index applies the batch in the slot, or has done so.
    Ask { volume: usize },
    /// The answer is lost: the batch is to be sent again.
    LoseAnswer { volume: usize },
    /// The batch is delayed, and is to be sent again meanwhile.
    Delay { volume: usize },
    /// The delayed one arrives; its answer reaches nobody.
    Arrive { volume: usize },
    /// The finder logs what came of it, and changes the map.
    Found { volume: usize },
    /// The collector reads and hashes an unreferenced block, logs its intent, flushes the log.
    Collect { volume: usize, block: u8 },
    /// The collector logs what came of it.
    Decide { volume: usize },
    /// The pool is full: a volume logs that it wants a counted block for itself, flushes the log.
    Unshare { volume: usize, lba: u8 },
    /// It logs what came of it.
    EndUnshare { volume: usize, lba: u8 },
    /// A volume logs that it gives a free block to the pool.
    Give { volume: usize, block: u8 },
    /// The record is marked: the block is in the pool.
    EndGive { volume: usize, block: u8 },
    /// The record is lost: the block stays with the volume.
    TakeBack { volume: usize, block: u8 },
    /// A volume takes a block from the pool, and logs it.
    Take { volume: usize, block: u8 },
    /// The record is marked: the block may be used.
    EndTake { volume: usize, block: u8 },
    /// Another host takes over volume 0.
    TakeOver,
    /// A write of the former process arrives.
    LateWrite { block: u8, content: u8 },
    /// A batch of the former process arrives: only with `ClientFenced` off.
    LateBatch { block: u8 },
    /// The former process cannot write any more.
    Fence,
    /// The index ends, and begins again without its newest batch.
    Forget,
    /// A volume compares its log with its row of the index.
    Confirm { volume: usize },
    /// All maps are counted again.
    Recount,
    /// A checkpoint of the records so far begins: the intent of an open batch is logged again.
    BeginCheckpoint { volume: usize },
    /// Its root is durable, and the log begins behind those records.
    EndCheckpoint { volume: usize },
    /// The map as it is becomes the root, and the log begins there.
    Checkpoint { volume: usize },
    /// A volume's process ends, and another takes its place on the same host.
    Kill { volume: usize },
    /// Every process ends. Of each log the first `records` are there, and each block has what
    /// `contents` says. `ghosts`: records behind a gap.
    PowerCut { records: [u8; VOLUMES], contents: [u8; BLOCKS], lost: Set, ghosts: [Option<Record>; VOLUMES] },
}
