//! Records of a volume's log. Replaying them in order over the state of the checkpoint gives the
//! volume's state again.
//!
//! A record is a kind and its fields, without a length: the next one follows at once. The rules of
//! each are in `rules`.

mod rules;

use types::{BatchSequence, BlockNumber, ExtentNumber, Fingerprint, Lba, VolumeId};

use crate::error::{FormatError, Result};
use crate::wire::{Reader, Writer};

/// A change of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Successive blocks of the volume were written to successive new blocks. After a power cut,
    /// each counts only if the block has its digest, unless a `FlushMark` follows.
    Map {
        /// The first block of the volume.
        lba: Lba,
        /// The first new block.
        block: BlockNumber,
        /// XXH3-64 of each block's content.
        digests: Vec<u64>,
    },
    /// Blocks of the volume, all of one page of the map, are zeros: they were cut, or the finder
    /// found zeros in them.
    Cut {
        /// The first.
        lba: Lba,
        /// How many.
        count: u64,
    },
    /// The finder is about to send these increments to the duplicates index.
    Intent {
        /// The batch.
        batch: BatchSequence,
        /// Whether this record is the batch's last.
        is_last: bool,
        /// The blocks.
        blocks: Vec<IntentBlock>,
    },
    /// The answers to an intent, in its order.
    Found {
        /// The batch.
        batch: BatchSequence,
        /// The number of the first answer in the batch.
        from: u32,
        /// The answers.
        outcomes: Vec<FoundOutcome>,
    },
    /// The collector is about to send these decrements to the duplicates index.
    DecIntent {
        /// The batch.
        batch: BatchSequence,
        /// Whether this record is the batch's last.
        is_last: bool,
        /// Each block, the fingerprint of its content, and the references to give back.
        blocks: Vec<(BlockNumber, Fingerprint, u32)>,
    },
    /// The answers to a `DecIntent`, in its order.
    Decided {
        /// The batch.
        batch: BatchSequence,
        /// The number of the first answer in the batch.
        from: u32,
        /// The answers.
        outcomes: Vec<DecidedOutcome>,
    },
    /// Extents came from the pool, each with its number of grants.
    Extents {
        /// The extents.
        extents: Vec<(ExtentNumber, u32)>,
    },
    /// Extents go back to the pool, each with its number of grants.
    Returned {
        /// The extents.
        extents: Vec<(ExtentNumber, u32)>,
    },
    /// Free blocks go to another volume.
    Give {
        /// The other volume.
        to: VolumeId,
        /// Counts the gifts of this volume to that one.
        gift: u64,
        /// Runs of blocks: the first, and how many.
        runs: Vec<(BlockNumber, u32)>,
    },
    /// Free blocks came from another volume.
    Take {
        /// The other volume.
        from: VolumeId,
        /// The gift's number.
        gift: u64,
        /// Runs of blocks: the first, and how many.
        runs: Vec<(BlockNumber, u32)>,
    },
    /// The records of the blocks of log before this one, and the data that they name, were flushed.
    FlushMark {
        /// The sequence number of the first block that is not covered.
        covers: u64,
    },
    /// The volume has another length, in blocks.
    Resized {
        /// The length.
        blocks: u64,
    },
}

/// A block that the finder registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntentBlock {
    /// The volume's block.
    pub lba: Lba,
    /// The block.
    pub block: BlockNumber,
    /// The fingerprint of its content.
    pub fingerprint: Fingerprint,
}

/// The index's answer about a block of an intent.
///
/// What follows from it depends on the map: if the volume's block was written meanwhile, the
/// reference goes to the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundOutcome {
    /// The content is new: the block is registered.
    Registered,
    /// The content is known: this block has it.
    Known(BlockNumber),
    /// The fingerprint is known, but that block has another content (D7).
    Different(BlockNumber),
}

/// What became of a block of the collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecidedOutcome {
    /// Others refer to it.
    Remains,
    /// Nobody refers to it: it is free.
    Freed,
    /// The index does not know it like this. That is damage; the block is never used again.
    Unknown,
}

/// The digest of a block's content in a `Map` record: the lower half of its XXH3-128.
#[must_use]
pub fn block_digest(content: &[u8]) -> u64 {
    u64::try_from(crate::wire::digest(content) & u128::from(u64::MAX)).expect("64 bits")
}

const WHAT: &str = "record of a log";

impl Record {
    /// Whether the record follows the rules of its encoding (docs/format-pool.md).
    ///
    /// # Errors
    /// `Invalid` names the broken rule.
    pub fn check(&self) -> Result<()> {
        self.rules()
            .map_err(|why| FormatError::Invalid { what: WHAT, why })
    }

    /// Appends the encoding.
    ///
    /// # Panics
    /// If [`Self::check`] fails: the log would end at a record that cannot be read back.
    pub fn write(&self, out: &mut Vec<u8>) {
        if let Err(error) = self.check() {
            panic!("about to write what could not be read back: {error}");
        }
        let mut w = Writer::new(out);
        match self {
            Self::Map { lba, block, digests } => {
                w.u8(1);
                w.lba(*lba);
                w.block(*block);
                w.list(digests, |w, digest| w.u64(*digest));
            }
            Self::Cut { lba, count } => {
                w.u8(2);
                w.lba(*lba);
                w.varint(*count);
            }
            Self::Intent {
                batch,
                is_last,
                blocks,
            } => {
                w.u8(3);
                w.batch(*batch);
                w.flag(*is_last);
                w.list(blocks, |w, one| {
                    w.lba(one.lba);
                    w.block(one.block);
                    w.fingerprint(one.fingerprint);
                });
            }
            Self::Found {
                batch,
                from,
                outcomes,
            } => {
                w.u8(4);
                w.batch(*batch);
                w.varint32(*from);
                w.list(outcomes, |w, outcome| outcome.write(w));
            }
            Self::DecIntent {
                batch,
                is_last,
                blocks,
            } => {
                w.u8(5);
                w.batch(*batch);
                w.flag(*is_last);
                w.list(blocks, |w, (block, fingerprint, count)| {
                    w.block(*block);
                    w.fingerprint(*fingerprint);
                    w.varint32(*count);
                });
            }
            Self::Decided {
                batch,
                from,
                outcomes,
            } => {
                w.u8(6);
                w.batch(*batch);
                w.varint32(*from);
                w.list(outcomes, |w, outcome| w.u8(outcome.number()));
            }
            Self::Extents { extents } => write_extents(&mut w, 7, extents),
            Self::Returned { extents } => write_extents(&mut w, 8, extents),
            Self::Give { to, gift, runs } => write_runs(&mut w, 9, *to, *gift, runs),
            Self::Take { from, gift, runs } => write_runs(&mut w, 10, *from, *gift, runs),
            Self::FlushMark { covers } => {
                w.u8(11);
                w.varint(*covers);
            }
            Self::Resized { blocks } => {
                w.u8(12);
                w.varint(*blocks);
            }
        }
    }

    /// The next record.
    ///
    /// # Errors
    /// `Malformed` if it is none; `Invalid` if it breaks a rule.
    pub fn read(r: &mut Reader<'_>) -> Result<Self> {
        let record = Self::read_fields(r)?;
        record.check()?;
        Ok(record)
    }

    fn read_fields(r: &mut Reader<'_>) -> Result<Self> {
        let here = r.fault("a record has no such kind");
        Ok(match r.u8()? {
            1 => Self::Map {
                lba: r.lba()?,
                block: r.block()?,
                digests: r.list(8, Reader::u64)?,
            },
            2 => Self::Cut {
                lba: r.lba()?,
                count: r.varint()?,
            },
            3 => Self::Intent {
                batch: r.batch()?,
                is_last: r.flag()?,
                blocks: r.list(34, |r| {
                    Ok(IntentBlock {
                        lba: r.lba()?,
                        block: r.block()?,
                        fingerprint: r.fingerprint()?,
                    })
                })?,
            },
            4 => Self::Found {
                batch: r.batch()?,
                from: r.varint32()?,
                outcomes: r.list(1, FoundOutcome::read)?,
            },
            5 => Self::DecIntent {
                batch: r.batch()?,
                is_last: r.flag()?,
                blocks: r.list(34, |r| Ok((r.block()?, r.fingerprint()?, r.varint32()?)))?,
            },
            6 => Self::Decided {
                batch: r.batch()?,
                from: r.varint32()?,
                outcomes: r.list(1, DecidedOutcome::read)?,
            },
            7 => Self::Extents {
                extents: read_extents(r)?,
            },
            8 => Self::Returned {
                extents: read_extents(r)?,
            },
            9 => Self::Give {
                to: r.volume()?,
                gift: r.varint()?,
                runs: read_runs(r)?,
            },
            10 => Self::Take {
                from: r.volume()?,
                gift: r.varint()?,
                runs: read_runs(r)?,
            },
            11 => Self::FlushMark { covers: r.varint()? },
            12 => Self::Resized { blocks: r.varint()? },
            _ => return Err(here),
        })
    }
}

fn write_extents(w: &mut Writer<'_>, kind: u8, extents: &[(ExtentNumber, u32)]) {
    w.u8(kind);
    w.list(extents, |w, (extent, grants)| {
        w.extent(*extent);
        w.varint32(*grants);
    });
}

fn read_extents(r: &mut Reader<'_>) -> Result<Vec<(ExtentNumber, u32)>> {
    r.list(2, |r| Ok((r.extent()?, r.varint32()?)))
}

fn write_runs(w: &mut Writer<'_>, kind: u8, volume: VolumeId, gift: u64, runs: &[(BlockNumber, u32)]) {
    w.u8(kind);
    w.volume(volume);
    w.varint(gift);
    w.list(runs, |w, (first, count)| {
        w.block(*first);
        w.varint32(*count);
    });
}

fn read_runs(r: &mut Reader<'_>) -> Result<Vec<(BlockNumber, u32)>> {
    r.list(2, |r| Ok((r.block()?, r.varint32()?)))
}

impl FoundOutcome {
    fn write(self, w: &mut Writer<'_>) {
        let (number, block) = match self {
            Self::Registered => (0, None),
            Self::Known(block) => (1, Some(block)),
            Self::Different(block) => (2, Some(block)),
        };
        w.u8(number);
        if let Some(block) = block {
            w.block(block);
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let here = r.fault("an answer has no such kind");
        Ok(match r.u8()? {
            0 => Self::Registered,
            1 => Self::Known(r.block()?),
            2 => Self::Different(r.block()?),
            _ => return Err(here),
        })
    }
}

impl DecidedOutcome {
    /// Every outcome, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Remains, Self::Freed, Self::Unknown];

    const fn number(self) -> u8 {
        match self {
            Self::Remains => 0,
            Self::Freed => 1,
            Self::Unknown => 2,
        }
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let here = r.fault("a decision has no such kind");
        let number = r.u8()?;
        let known = Self::ALL.into_iter().find(|outcome| outcome.number() == number);
        known.ok_or(here)
    }
}
