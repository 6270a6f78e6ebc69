//! Batches for the duplicates index: sent once, answered once (rule 9).
//!
//! A volume has one batch under way, and holds its slot meanwhile. The batch's operations are in
//! the log before the index hears of them (rule 3). If no answer comes, the batch stays open: the
//! next user of the slot sends it again, under the same number.

use std::sync::Arc;
use std::time::Duration;

use ddi::{Bucket, DdiError, Operation, Outcome};
use env::AlignedBuffer;
use format::pool::entry::MapEntry;
use format::pool::record::{DecidedOutcome, FoundOutcome, IntentBlock, Record};
use types::{BatchSequence, BlockNumber, Fingerprint};

use crate::error::{Result, VolumeError};
use crate::leaf::{LEAF_BLOCKS, Leaf};
use crate::shared::Mismatch;
use crate::slot::{Batch, BatchContent, Slot};
use crate::volume::Volume;

/// Answers in one record.
const OUTCOMES_MAX: usize = 512;
/// Times that a batch is sent before its sender gives up for now.
const ATTEMPTS: u32 = 3;

impl Volume {
    /// Sends the open batch, and acts on the answers.
    ///
    /// # Errors
    /// Errors of the index, and of the device while bytes are compared: the batch stays open.
    /// If the index refused the batch, it is ended, and a recount must come before the next one.
    pub(crate) fn settle(&self, slot: &mut Slot) -> Result<()> {
        let Some(batch) = &slot.open else {
            return Ok(());
        };
        let sequence = BatchSequence::new(batch.sequence).map_err(|error| VolumeError::Invalid {
            what: "batch",
            why: error.to_string(),
        })?;
        let operations = operations(&batch.content);
        let outcomes = match self.send(sequence, &operations) {
            Ok(outcomes) => outcomes,
            Err(error) if error.is_refusal() && !matches!(error, DdiError::Rebuilding) => {
                let found = self.shared.index.client(Bucket::FIRST, self.id)?;
                self.shared.set_mismatch(Some(Mismatch {
                    volume: self.name(),
                    found: found.map_or(0, BatchSequence::get),
                    expected: batch.sequence - 1,
                }));
                if is_about_sequences(&error) {
                    self.count_open(slot)?;
                } else {
                    self.abandon(slot)?;
                }
                // The log has intents whose blocks are used again: no recovery may see them.
                self.checkpoint_in_slot(slot)?;
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        };
        // Bytes are compared while the batch is open: if the device fails, it stays open.
        let answers = match &batch.content {
            BatchContent::Intent(blocks) => {
                match self.answers(&blocks[batch.answered..], &outcomes[batch.answered..]) {
                    Err(error @ VolumeError::Device(_)) => return Err(error),
                    answers => self.or_stop(answers)?,
                }
            }
            BatchContent::DecIntent(_) => Vec::new(),
        };
        let batch = slot.open.take().expect("the batch was there");
        let result = match &batch.content {
            BatchContent::Intent(blocks) => self.act_on_found(&batch, blocks, &answers),
            BatchContent::DecIntent(blocks) => self.act_on_decided(&batch, blocks, &outcomes),
        };
        // What the index counted is in the log or nowhere.
        self.or_stop(result)?;
        let mut core = self.core();
        core.batch = batch.sequence;
        (core.in_batch, core.batch_pages) = (0, 0);
        Ok(())
    }

    fn send(&self, sequence: BatchSequence, operations: &[Operation]) -> Result<Vec<Outcome>, DdiError> {
        let mut attempt = 1;
        loop {
            let sent = self
                .shared
                .index
                .apply(Bucket::FIRST, self.id, sequence, operations);
            match sent {
                Err(error) if !error.is_refusal() && attempt < ATTEMPTS => {
                    tracing::warn!(volume = %self.id, %sequence, %error, "the batch is sent again");
                    self.shared.clock.sleep(Duration::from_millis(20 << attempt));
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Undoes the open batch, which the index has not applied.
    pub(crate) fn abandon(&self, slot: &mut Slot) -> Result<()> {
        let Some(batch) = slot.open.take() else {
            return Ok(());
        };
        match batch.content {
            BatchContent::Intent(blocks) => {
                for one in blocks.into_iter().skip(batch.answered) {
                    let (leaf, index) = self.leaf_of(&one)?;
                    let _gate = leaf.hold();
                    let mut core = self.core();
                    let at = core.log.last_record();
                    core.unfreeze(&leaf, index, one.block, at);
                    self.dirty.add_old(one.lba);
                }
                self.core().batch_pages = 0;
            }
            BatchContent::DecIntent(blocks) => {
                // Marks covered what dropped them before they were taken.
                let mut core = self.core();
                core.in_batch = 0;
                for (block, _, count) in blocks.into_iter().skip(batch.answered) {
                    core.give_back(block, count, 0);
                }
            }
        }
        Ok(())
    }

    /// Ends the open batch when nobody can ask the index whether it was applied: it lost batches.
    /// Another volume may refer to a block of the finder's batch by now. So all of them count as
    /// registered, or stay without a use, until a recount. Until then no index matches the volume.
    pub(crate) fn count_open(&self, slot: &mut Slot) -> Result<()> {
        let Some(Batch {
            content: BatchContent::Intent(blocks),
            sequence,
            answered,
            ..
        }) = &slot.open
        else {
            return self.abandon(slot);
        };
        let (last, sequence) = (self.last_in_index()?, *sequence);
        let open = blocks.iter().skip(*answered);
        let open: Result<Vec<_>> = open.map(|one| Ok((self.leaf_of(one)?, one.block))).collect();
        for ((leaf, index), block) in open? {
            let _gate = leaf.hold();
            self.core().count_frozen(&leaf, index, block);
        }
        slot.open = None;
        let mut core = self.core();
        core.batch = core.batch.max(sequence).max(last) + 1;
        (core.batch_pages, core.is_changed) = (0, true);
        Ok(())
    }

    fn leaf_of(&self, one: &IntentBlock) -> Result<(Arc<Leaf>, usize)> {
        let leaf = self.map.leaf_or_new(one.lba.get() / LEAF_BLOCKS)?;
        Ok((leaf, usize::try_from(one.lba.get() % LEAF_BLOCKS).unwrap_or(0)))
    }

    /// What the index's answers to the finder's batch mean. Bytes are compared here, with nothing
    /// held but the slot.
    fn answers(&self, blocks: &[IntentBlock], outcomes: &[Outcome]) -> Result<Vec<FoundOutcome>> {
        let compares = self.settings().compare_bytes;
        let answers = blocks.iter().zip(outcomes);
        answers
            .map(|(one, outcome)| self.answer(one.block, *outcome, compares))
            .collect()
    }

    /// The index answered the finder's batch: these are its answers that are not in the log yet.
    fn act_on_found(&self, sent: &Batch, blocks: &[IntentBlock], answers: &[FoundOutcome]) -> Result<()> {
        let batch = BatchSequence::new(sent.sequence).expect("the batch was sent");
        let mut from = sent.answered;
        while from < blocks.len() {
            let (leaf, _) = self.leaf_of(&blocks[from])?;
            let here = blocks[from..]
                .iter()
                .take(OUTCOMES_MAX)
                .take_while(|one| one.lba.get() / LEAF_BLOCKS == leaf.number)
                .count();
            let range = from..from + here;
            let of_page = &answers[from - sent.answered..][..here];
            let _gate = leaf.hold();
            let mut core = self.core();
            let at = core.append(&Record::Found {
                batch,
                from: u32::try_from(from).unwrap_or(u32::MAX),
                outcomes: of_page.to_vec(),
            })?;
            for (one, answer) in blocks[range].iter().zip(of_page) {
                let index = usize::try_from(one.lba.get() % LEAF_BLOCKS).unwrap_or(0);
                let was_frozen = leaf.get(index).block() == Some(one.block);
                let is_shared = core.found(&leaf, index, one.block, *answer, at);
                self.counters.shared(u64::from(is_shared));
                self.counters.orphaned(u64::from(!was_frozen));
            }
            from += here;
        }
        Ok(())
    }

    fn answer(&self, block: BlockNumber, outcome: Outcome, compares: bool) -> Result<FoundOutcome> {
        match outcome {
            Outcome::Registered => Ok(FoundOutcome::Registered),
            Outcome::Hit { block: known }
                if compares && known != block && !self.are_equal(block, known)? =>
            {
                Ok(FoundOutcome::Different(known))
            }
            Outcome::Hit { block: known } => Ok(FoundOutcome::Known(known)),
            Outcome::Remaining(_) | Outcome::Freed | Outcome::Unknown => Err(VolumeError::Contradiction {
                volume: self.name(),
                why: "the duplicates index answered an increment with a decrement".to_owned(),
            }),
        }
    }

    /// Whether two blocks have equal bytes (D7): not if one of them cannot be read. The caller has
    /// a reference to both.
    fn are_equal(&self, a: BlockNumber, b: BlockNumber) -> Result<bool> {
        const LEN: usize = format::pool::BLOCK_BYTES;
        let mut contents = AlignedBuffer::with_capacity(2 * LEN);
        contents.grow_to(2 * LEN);
        let (here, there) = contents.split_at_mut(LEN);
        for (block, content) in [(a, &mut *here), (b, &mut *there)] {
            if !self.shared.try_read(block, content)? {
                self.set_aside(&mut self.core(), block, None);
                return Ok(false);
            }
        }
        self.counters.different(u64::from(here != there));
        Ok(here == there)
    }

    /// The index answered the collector's batch.
    fn act_on_decided(
        &self,
        sent: &Batch,
        blocks: &[(BlockNumber, Fingerprint, u32)],
        outcomes: &[Outcome],
    ) -> Result<()> {
        let batch = BatchSequence::new(sent.sequence).expect("the batch was sent");
        let decided: Vec<DecidedOutcome> = outcomes
            .iter()
            .map(|outcome| match outcome {
                Outcome::Remaining(_) => DecidedOutcome::Remains,
                Outcome::Freed => DecidedOutcome::Freed,
                Outcome::Unknown | Outcome::Registered | Outcome::Hit { .. } => DecidedOutcome::Unknown,
            })
            .collect();
        let mut from = sent.answered;
        for part in decided[from..].chunks(OUTCOMES_MAX) {
            let mut core = self.core();
            let at = core.append(&Record::Decided {
                batch,
                from: u32::try_from(from).unwrap_or(u32::MAX),
                outcomes: part.to_vec(),
            })?;
            for ((block, _, count), outcome) in blocks[from..].iter().zip(part) {
                core.decided(*block, *outcome, at);
                self.counters.given_back(u64::from(*count));
                match outcome {
                    DecidedOutcome::Remains => {}
                    DecidedOutcome::Freed => self.counters.freed(1),
                    DecidedOutcome::Unknown => {
                        tracing::error!(
                            volume = %self.id, %block,
                            "the duplicates index does not know a shared block: it is damaged, and is never \
                             used again"
                        );
                    }
                }
            }
            from += part.len();
        }
        Ok(())
    }

    /// Whether the map still has the block that the finder took.
    pub(crate) fn is_frozen(leaf: &Leaf, index: usize, block: BlockNumber) -> bool {
        matches!(leaf.get(index), MapEntry::Frozen { block: here, .. } if here == block)
    }
}

/// Whether the index refused a batch because it has other batches of the volume than the log: then
/// it may have applied this one, and lost it.
const fn is_about_sequences(error: &DdiError) -> bool {
    matches!(
        error,
        DdiError::SequenceBehind { .. }
            | DdiError::SequenceAhead { .. }
            | DdiError::DifferentBatch { .. }
            | DdiError::ForgottenOutcomes { .. }
    )
}

fn operations(content: &BatchContent) -> Vec<Operation> {
    match content {
        BatchContent::Intent(blocks) => blocks
            .iter()
            .map(|one| Operation::Increment {
                fingerprint: one.fingerprint,
                block: one.block,
                count: 1,
            })
            .collect(),
        BatchContent::DecIntent(blocks) => blocks
            .iter()
            .map(|(block, fingerprint, count)| Operation::Decrement {
                fingerprint: *fingerprint,
                block: *block,
                count: *count,
            })
            .collect(),
    }
}
