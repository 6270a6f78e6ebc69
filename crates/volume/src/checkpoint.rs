//! Checkpoints: the map and the state of a volume become durable at one moment, and the log before
//! it is free.
//!
//! Order: the checkpoint flushes the log and the data. Under the core's lock, it notes the log's
//! position and takes blocks for the pages. It copies the pages one by one; a write that changes a
//! page before copies that page first. It writes the copies to blocks that nothing refers to. It
//! tells the table about the extents that came from the pool. After a flush, it writes the header,
//! which refers to the new pages. Only then it frees the old pages and the old log. A crash before
//! leaves the last checkpoint and its log.
//!
//! A batch without an answer is carried over: its intents are the first records behind the log's
//! position, and are durable before the header. So a replay from there meets what a replay of the
//! former log would meet, and an index that is away does not keep the log from being cut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use format::pool::BLOCK_BYTES;
use format::pool::entry::PageReference;
use format::pool::frame::{self, BlockKind};
use format::pool::header::LogPosition;
use format::pool::state::{STATE_PAGE_BYTES, VolumeState, state_page};
use types::{BatchSequence, BlockNumber, ExtentNumber};

use crate::core::{Core, PageCopy};
use crate::error::{Result, VolumeError};
use crate::extents::Grant;
use crate::free::{each_block, place};
use crate::leaf::Leaf;
use crate::map::{Upper, UpperPages, split};
use crate::slot::{Batch, Slot};
use crate::volume::{Head, Volume, WholeBlock};

/// What a checkpoint is about, as of one moment.
struct Plan {
    log: LogPosition,
    log_extents: usize,
    log_blocks: u64,
    leaves: Vec<Arc<Leaf>>,
    /// Blocks for pages.
    blocks: Vec<BlockNumber>,
    /// Blocks for the pages of the state.
    state_blocks: Vec<BlockNumber>,
    state: VolumeState,
    /// Pages of the last checkpoint that this one replaces.
    replaced: Vec<BlockNumber>,
    /// The block of log with the last intent of the open batch.
    carried: Option<u64>,
    credited: Vec<Grant>,
    birth: u32,
    blocks_len: u64,
}

/// Room for longer numbers of entries in the state.
const STATE_SLACK_BYTES: usize = 2 * STATE_PAGE_BYTES;
/// Bytes of the entry of a partly free extent, at most: its number, that of its free blocks, bits.
const PART_BYTES_MAX: usize = 5 + 2 + 128;

impl Volume {
    /// Makes a checkpoint. Requests continue meanwhile.
    ///
    /// # Errors
    /// Errors of the device, after which the volume stops; [`VolumeError::NoSpace`] if there is no
    /// block for the pages.
    pub fn checkpoint(&self) -> Result<()> {
        let slot = self.slot();
        self.checkpoint_in_slot(&slot)
    }

    /// Makes a checkpoint. If a batch waits for an answer, its intents come into the new log.
    pub(crate) fn checkpoint_in_slot(&self, slot: &Slot) -> Result<()> {
        let open = slot.open.as_ref();
        if open.is_some_and(|batch| batch.answered > 0) {
            // The log still needs the answers that recovery met, and the intents before them.
            return Ok(());
        }
        self.flush_now()?;
        let mut head = self.head();
        // The plan is out of the core. If a panic loses it, no later checkpoint may be made.
        let _guard = StopOnPanic(self);
        let Some(mut plan) = self.plan(&head, open)? else {
            return Ok(());
        };
        let result = self.write_checkpoint(&mut head, &mut plan);
        self.or_stop(result)
    }

    /// Takes what the checkpoint is about out of the core. `None` if there is nothing to do.
    fn plan(&self, head: &Head, open: Option<&Batch>) -> Result<Option<Plan>> {
        let mut core = self.core();
        let core = &mut *core;
        core.log.seal(&mut core.free)?;
        // After a start the header has to say the new epoch, whatever else there is.
        let is_new = head.stored_epoch != head.header.epoch || core.is_changed;
        if core.dirty.is_empty() && core.log.blocks() == 0 && core.credited.is_empty() && !is_new {
            return Ok(None);
        }
        // If the log can have a spare extent, the pages must not break the last whole one.
        core.has_log_room();
        if open.is_some() && !core.log.has_room_for_batch() {
            return Ok(None);
        }
        let numbers: BTreeSet<u64> = core.dirty.iter().map(|leaf| leaf.number).collect();
        let seconds: BTreeSet<u64> = numbers.iter().map(|number| split(*number).0).collect();
        let thirds: BTreeSet<u64> = seconds.iter().map(|number| split(*number).0).collect();
        let pages = numbers.len() + seconds.len() + thirds.len() + usize::from(!thirds.is_empty());
        let replaced = self.replaced(head, &numbers, &seconds, &thirds);
        let free_extents: Vec<ExtentNumber> = core.log.extents_before_open().to_vec();
        let spare: Vec<ExtentNumber> = free_extents.iter().copied().chain(core.log.spare()).collect();
        let state = |core: &Core| {
            let mut state = core.state(&replaced, &spare);
            // The intents take them out again.
            let references = open.into_iter().flat_map(|batch| batch.content.references());
            state.unreferenced.extend(references);
            state
        };
        let before = state(core);
        let (taken, state_blocks) = take_blocks(core, pages, &before)?;
        let (state, log, log_blocks) = (state(core), core.log.position(), core.log.blocks());
        let carried = self.or_stop(open.map(|batch| carry(core, batch)).transpose())?;
        let plan = Plan {
            log,
            log_extents: free_extents.len(),
            log_blocks,
            leaves: std::mem::take(&mut core.dirty),
            blocks: taken,
            state_blocks,
            state,
            replaced,
            carried,
            credited: std::mem::take(&mut core.credited),
            birth: core.birth,
            blocks_len: self.blocks(),
        };
        core.is_changed = false;
        for leaf in &plan.leaves {
            leaf.begin_checkpoint();
        }
        Ok(Some(plan))
    }

    /// The stored pages that the checkpoint writes again.
    fn replaced(
        &self,
        head: &Head,
        numbers: &BTreeSet<u64>,
        seconds: &BTreeSet<u64>,
        thirds: &BTreeSet<u64>,
    ) -> Vec<BlockNumber> {
        let upper = self.map.upper();
        let mut replaced = head.state_pages.clone();
        replaced.extend(numbers.iter().filter_map(|number| {
            let (second, index) = split(*number);
            Some(upper.second.get(&second)?.get(index)?.block)
        }));
        replaced.extend(
            seconds
                .iter()
                .filter_map(|number| upper.second.get(number)?.stored),
        );
        replaced.extend(thirds.iter().filter_map(|number| upper.third.get(number)?.stored));
        if !thirds.is_empty() {
            replaced.extend(upper.root.stored);
        }
        replaced
    }

    fn write_checkpoint(&self, head: &mut Head, plan: &mut Plan) -> Result<()> {
        // Blocks of log before the position are written before their extents are free, and durable
        // before the table says that the volume has the extents that they name.
        self.commit(plan.carried.unwrap_or(plan.log.sequence - 1))?;
        if !plan.credited.is_empty() {
            self.shared.device.flush()?;
        }
        let mut spare = std::mem::take(&mut plan.blocks).into_iter();
        let mut unused = Vec::new();
        let leaves = self.write_leaves(plan, &mut spare, &mut unused)?;
        let root = if plan.leaves.is_empty() {
            head.header.root
        } else {
            self.write_upper(&leaves, &mut spare, &mut unused)?
        };
        unused.extend(spare);
        // Blocks that no page needed are free, and the state says so.
        plan.state = with_free(&plan.state, &unused);
        self.write_state(plan)?;
        self.shared
            .table()
            .own(&*self.shared.device, self.id, &plan.credited)?;
        self.shared.device.flush()?;
        let mut header = head.header.clone();
        header.root = root;
        header.state = plan.state_blocks.first().copied();
        header.log = Some(plan.log);
        header.birth = plan.birth;
        header.blocks = plan.blocks_len;
        header.settings = self.settings();
        self.write_header(head, header)?;
        head.state_pages.clone_from(&plan.state_blocks);
        let mut core = self.core();
        for leaf in &plan.leaves {
            leaf.end_checkpoint();
        }
        for block in plan.replaced.iter().chain(&unused) {
            core.free.add(*block);
        }
        for extent in core.log.release(plan.log, plan.log_extents, plan.log_blocks) {
            core.free.add_extent(extent);
        }
        core.has_log_room();
        self.counters.checkpoints(1);
        Ok(())
    }

    /// Writes the leaves. Returns the references to those that are not zeros.
    fn write_leaves(
        &self,
        plan: &Plan,
        spare: &mut impl Iterator<Item = BlockNumber>,
        unused: &mut Vec<BlockNumber>,
    ) -> Result<BTreeMap<u64, Option<PageReference>>> {
        let mut written = BTreeMap::new();
        let mut pages: Vec<PageCopy> = Vec::new();
        for leaf in &plan.leaves {
            let mut core = self.core();
            if leaf.is_to_copy() {
                let mut page = Box::new([0; BLOCK_BYTES]);
                let has_entry = leaf.to_page(&mut page);
                leaf.set_copied();
                pages.push((leaf.number, page, has_entry));
            }
            pages.append(&mut core.copies);
        }
        let mut blocks = Vec::new();
        for (number, page, has_entry) in pages {
            let block = spare.next().expect("a block was taken for each page");
            if has_entry {
                written.insert(number, Some(reference(block, &page)?));
                blocks.push((block, page));
            } else {
                unused.push(block);
                written.insert(number, None);
            }
        }
        self.write_whole(&blocks)?;
        Ok(written)
    }

    /// Writes the pages above changed leaves. Returns the root.
    fn write_upper(
        &self,
        leaves: &BTreeMap<u64, Option<PageReference>>,
        spare: &mut impl Iterator<Item = BlockNumber>,
        unused: &mut Vec<BlockNumber>,
    ) -> Result<Option<(BlockNumber, u128)>> {
        let mut blocks = Vec::new();
        let root = {
            let mut upper = self.map.upper_mut();
            let mut above = BTreeSet::new();
            for (number, reference) in leaves {
                let (page, index) = split(*number);
                upper.second.entry(page).or_default().set(index, *reference);
                above.insert(page);
            }
            let UpperPages { second, third, root } = &mut *upper;
            let references = renew(second, &above, spare, unused, &mut blocks)?;
            let mut above = BTreeSet::new();
            for (number, reference) in references {
                let (page, index) = split(number);
                third.entry(page).or_default().set(index, reference);
                above.insert(page);
            }
            for (number, reference) in renew(third, &above, spare, unused, &mut blocks)? {
                root.set(split(number).1, reference);
            }
            renew_page(root, spare, unused, &mut blocks)?
        };
        self.write_whole(&blocks)?;
        let digest = blocks.last().map(|(_, page)| format::wire::digest(&page[..]));
        Ok(root.zip(digest).map(|(root, digest)| (root.block, digest)))
    }

    fn write_state(&self, plan: &Plan) -> Result<()> {
        let bytes = plan.state.to_bytes();
        let mut parts = bytes.chunks(STATE_PAGE_BYTES);
        assert!(
            parts.len() <= plan.state_blocks.len(),
            "room was taken for the state"
        );
        let mut blocks = Vec::with_capacity(plan.state_blocks.len());
        for (number, block) in plan.state_blocks.iter().enumerate() {
            let next = plan.state_blocks.get(number + 1).copied();
            let payload = state_page(next, parts.next().unwrap_or_default());
            let mut page = Box::new([0; BLOCK_BYTES]);
            frame::seal_in(self.shared.pool, BlockKind::State, &payload, &mut page[..]);
            blocks.push((*block, page));
        }
        self.write_whole(&blocks)
    }
}

/// Writes pages of references again: to `blocks`, with the references to them as the result.
fn renew(
    pages: &mut BTreeMap<u64, Upper>,
    numbers: &BTreeSet<u64>,
    spare: &mut impl Iterator<Item = BlockNumber>,
    unused: &mut Vec<BlockNumber>,
    blocks: &mut Vec<WholeBlock>,
) -> Result<Vec<(u64, Option<PageReference>)>> {
    let mut references = Vec::with_capacity(numbers.len());
    for number in numbers {
        let page = pages.entry(*number).or_default();
        references.push((*number, renew_page(page, spare, unused, blocks)?));
    }
    Ok(references)
}

fn renew_page(
    this: &mut Upper,
    spare: &mut impl Iterator<Item = BlockNumber>,
    unused: &mut Vec<BlockNumber>,
    blocks: &mut Vec<WholeBlock>,
) -> Result<Option<PageReference>> {
    let block = spare.next().expect("a block was taken for each page");
    let mut page = Box::new([0; BLOCK_BYTES]);
    if !this.to_page(&mut page) {
        unused.push(block);
        this.stored = None;
        return Ok(None);
    }
    this.stored = Some(block);
    let reference = reference(block, &page)?;
    blocks.push((block, page));
    Ok(Some(reference))
}

fn reference(block: BlockNumber, page: &[u8; BLOCK_BYTES]) -> Result<PageReference> {
    PageReference::to_page(block, &page[..]).map_err(|error| VolumeError::Invalid {
        what: "block of a page",
        why: error.to_string(),
    })
}

/// Appends the intents of an open batch again. Returns the block of log with the last one.
fn carry(core: &mut Core, batch: &Batch) -> Result<u64> {
    let sequence = BatchSequence::new(batch.sequence).expect("the batch was sent");
    let mut logged = core.log.position().sequence;
    for record in batch.content.records(sequence) {
        logged = core.append(&record)?;
    }
    Ok(logged)
}

/// Takes blocks for pages of the map, and as many for the state as it needs at most. `before` is
/// the state without what is taken.
///
/// A whole free extent of which blocks are taken becomes a partly free one, whose entry in the
/// state is longer. No other entry becomes longer: pages that need no block give back some of what
/// was taken, and no more.
fn take_blocks(
    core: &mut Core,
    pages: usize,
    before: &VolumeState,
) -> Result<(Vec<BlockNumber>, Vec<BlockNumber>)> {
    let len = before.to_bytes().len() + STATE_SLACK_BYTES;
    let (mut taken, mut opened) = (Vec::new(), BTreeSet::new());
    loop {
        let wanted = pages + (len + PART_BYTES_MAX * opened.len()).div_ceil(STATE_PAGE_BYTES);
        if taken.len() >= wanted {
            let state_blocks = taken.split_off(pages);
            return Ok((taken, state_blocks));
        }
        let wanted = u32::try_from(wanted - taken.len()).unwrap_or(u32::MAX);
        let run = match core.free.take_run(wanted) {
            Some(run) if core.free.len() + u64::from(run.1) >= u64::from(wanted) => run,
            run => {
                for block in taken.into_iter().chain(each_block(run.as_slice())) {
                    core.free.add(block);
                }
                return Err(VolumeError::NoSpace);
            }
        };
        let (extent, _) = place(run.0);
        if before.free_extents.binary_search(&extent).is_ok() {
            opened.insert(extent);
        }
        taken.extend(each_block(&[run]));
    }
}

/// Stops the volume if the thread panics while it makes a checkpoint. Extents that the lost
/// checkpoint was to tell the table of would otherwise be used by the next one, and the next start
/// would take them for free.
struct StopOnPanic<'a>(&'a Volume);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop("a thread panicked while it made a checkpoint");
        }
    }
}

/// The state with more free blocks.
fn with_free(state: &VolumeState, more: &[BlockNumber]) -> VolumeState {
    let mut free = crate::free::FreeBlocks::from_lists(&state.free_extents, &state.free_blocks);
    for block in more {
        free.add(*block);
    }
    let (free_extents, free_blocks) = free.to_lists();
    VolumeState {
        free_extents,
        free_blocks,
        ..state.clone()
    }
}

#[cfg(test)]
mod tests;
