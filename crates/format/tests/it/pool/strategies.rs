//! Arbitrary values of every structure of a pool that follow its rules.

use std::collections::BTreeMap;

use format::pool::entry::BIRTH_MAX;
use format::pool::header::{LogPosition, VOLUME_NAME_BYTES_MAX, VolumeHeader, VolumeSettings};
use format::pool::log::LogBlockHead;
use format::pool::record::{DecidedOutcome, FoundOutcome, IntentBlock, Record};
use format::pool::state::{FreeBits, VolumeState};
use format::pool::superblock::{INDEX_PATH_BYTES_MAX, POOL_EXTENTS_MAX, Superblock};
use format::pool::table::{
    ExtentOwner, GRANTS_MAX, TABLE_EXTENT_ENTRIES, TABLE_PAGE_ENTRIES, TableEntry, TablePage,
};
use format::pool::{EXTENT_BLOCKS, VOLUME_BLOCK_MIN, VOLUME_BLOCKS_MAX, VOLUME_EXTENT_MIN};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use types::{BatchSequence, BlockNumber, ExtentNumber, Lba, VolumeId};

use super::samples::{self, bits};
use crate::strategies::{fingerprint, number, number32};

fn block() -> impl Strategy<Value = BlockNumber> {
    number(BlockNumber::MAX.get()).prop_map(|n| samples::block(n.max(VOLUME_BLOCK_MIN)))
}

fn lba() -> impl Strategy<Value = Lba> {
    number(VOLUME_BLOCKS_MAX - 1).prop_map(samples::lba)
}

fn extent() -> impl Strategy<Value = ExtentNumber> {
    number32(ExtentNumber::MAX.get()).prop_map(|n| samples::extent(n.max(VOLUME_EXTENT_MIN)))
}

fn volume() -> impl Strategy<Value = VolumeId> {
    number32(VolumeId::MAX.get()).prop_map(|n| samples::volume(n.max(1)))
}

fn batch() -> impl Strategy<Value = BatchSequence> {
    number(BatchSequence::MAX.get()).prop_map(|n| samples::batch(n.max(1)))
}

fn positive() -> impl Strategy<Value = u32> {
    number32(u32::MAX).prop_map(|n| n.max(1))
}

pub(crate) fn superblock() -> impl Strategy<Value = Superblock> {
    let numbers = (
        any::<u64>(),
        number32(POOL_EXTENTS_MAX),
        any::<prop::sample::Index>(),
    );
    let keys = (any::<[u8; 16]>(), any::<[u8; 32]>());
    let index = "[a-z/]{0,30}|[a-z]{1024}".prop_filter("it fits", |path| path.len() <= INDEX_PATH_BYTES_MAX);
    (numbers, keys, volume(), index).prop_map(
        |((counter, extents, at), (pool, domain_key), next_volume, index)| {
            // One extent of the table needs another extent behind extent 0.
            let extents = extents.max(2);
            let needed = (extents as usize).div_ceil(TABLE_EXTENT_ENTRIES);
            let first = 1 + at.index(extents as usize - needed) as u32;
            Superblock {
                counter,
                pool,
                domain_key,
                extents,
                table: (first..).take(needed).map(samples::extent).collect(),
                next_volume,
                index,
            }
        },
    )
}

pub(crate) fn table_entry() -> impl Strategy<Value = TableEntry> {
    (0..5u8, volume(), number32(GRANTS_MAX)).prop_map(|(kind, volume, grants)| {
        let owner = match kind {
            0 => ExtentOwner::Free,
            1 => ExtentOwner::Granted(volume),
            2 => ExtentOwner::Owned(volume),
            3 => ExtentOwner::Header(volume),
            _ => ExtentOwner::Pool,
        };
        let grants = if owner == ExtentOwner::Pool { 0 } else { grants };
        TableEntry { owner, grants }
    })
}

pub(crate) fn table_page() -> impl Strategy<Value = TablePage> {
    let entries = vec(table_entry(), TABLE_PAGE_ENTRIES);
    (any::<u64>(), number32(2_000_000), entries).prop_map(|(counter, page, entries)| TablePage {
        counter,
        first: samples::extent(page * TABLE_PAGE_ENTRIES as u32),
        entries,
    })
}

pub(crate) fn header() -> impl Strategy<Value = VolumeHeader> {
    let log =
        (extent(), 0..EXTENT_BLOCKS as u32, any::<u64>()).prop_map(|(extent, index, sequence)| LogPosition {
            extent,
            index,
            sequence,
        });
    let checkpoint = option::of((option::of((block(), any::<u128>())), block(), log));
    let name =
        "[a-z.]{0,20}|[a-z]{255}|é{0,127}".prop_filter("it fits", |name| name.len() <= VOLUME_NAME_BYTES_MAX);
    let who = (volume(), any::<u64>(), name, number(VOLUME_BLOCKS_MAX));
    let settings = (
        any::<bool>(),
        any::<bool>(),
        number32(u32::MAX),
        any::<u8>(),
        number(u64::MAX),
    );
    (who, number32(BIRTH_MAX), number32(u32::MAX), checkpoint, settings).prop_map(
        |((volume, counter, name, blocks), birth, epoch, checkpoint, settings)| {
            let (deduplicate, compare_bytes, interval_s, quiet_intervals, finder_bytes_per_s) = settings;
            VolumeHeader {
                volume,
                counter,
                name,
                blocks: blocks.max(1),
                birth,
                epoch,
                root: checkpoint.and_then(|(root, _, _)| root),
                state: checkpoint.map(|(_, state, _)| state),
                log: checkpoint.map(|(_, _, log)| log),
                settings: VolumeSettings {
                    deduplicate,
                    compare_bytes,
                    interval_s,
                    quiet_intervals,
                    finder_bytes_per_s,
                },
            }
        },
    )
}

/// Of every density: some free blocks, or all but some; never none or all.
pub(crate) fn free_bits() -> impl Strategy<Value = FreeBits> {
    let numbers = btree_set(0..1024usize, 1..130);
    (numbers, any::<bool>()).prop_map(|(numbers, is_inverse)| {
        let bits = bits(numbers);
        if is_inverse { bits.map(|word| !word) } else { bits }
    })
}

pub(crate) fn state() -> impl Strategy<Value = VolumeState> {
    let counts = (
        option::of(batch()),
        number(VOLUME_BLOCKS_MAX),
        number(VOLUME_BLOCKS_MAX),
    );
    let free = btree_map(extent(), option::of(free_bits()), 0..6);
    let unreferenced = vec((block(), positive()), 0..5);
    let blocks = || btree_set(block(), 0..5).prop_map(|set| set.into_iter().collect());
    let gifts = || {
        let gift = number(u64::MAX).prop_map(|n| n.max(1));
        btree_map(volume(), gift, 0..4).prop_map(|map| map.into_iter().collect())
    };
    (
        counts,
        free,
        unreferenced,
        (blocks(), blocks()),
        (gifts(), gifts()),
    )
        .prop_map(
            |((batch, mapped, counted), free, unreferenced, (suspects, different), (taken, given))| {
                let (some, whole): (BTreeMap<_, _>, BTreeMap<_, _>) =
                    free.into_iter().partition(|(_, bits)| bits.is_some());
                VolumeState {
                    batch,
                    mapped,
                    counted: counted.min(mapped),
                    free_extents: whole.into_keys().collect(),
                    free_blocks: some
                        .into_iter()
                        .map(|(extent, bits)| (extent, bits.unwrap()))
                        .collect(),
                    unreferenced,
                    suspects,
                    taken,
                    given,
                    different,
                }
            },
        )
}

/// A block of a volume, and how many from it on are in one page of the map.
fn in_page() -> impl Strategy<Value = (Lba, u64)> {
    (lba(), any::<prop::sample::Index>()).prop_map(|(lba, count)| {
        let room = 512 - lba.get() % 512;
        (lba, 1 + count.index(room as usize) as u64)
    })
}

fn runs() -> impl Strategy<Value = Vec<(BlockNumber, u32)>> {
    let run = (block(), any::<prop::sample::Index>()).prop_map(|(first, count)| {
        let room = EXTENT_BLOCKS - first.get() % EXTENT_BLOCKS;
        (first, 1 + count.index(room as usize) as u32)
    });
    vec(run, 1..5)
}

fn found() -> impl Strategy<Value = FoundOutcome> {
    prop_oneof![
        Just(FoundOutcome::Registered),
        block().prop_map(FoundOutcome::Known),
        block().prop_map(FoundOutcome::Different),
    ]
}

/// A record of any kind, short enough that several fit a block.
pub(crate) fn record() -> impl Strategy<Value = Record> {
    let from = || number32(u32::MAX - 100);
    let map = (in_page(), block(), any::<u64>()).prop_map(|((lba, count), block, digest)| Record::Map {
        lba,
        block: block.min(samples::block(BlockNumber::MAX.get() - 512)),
        digests: (0..count.min(50)).map(|n| digest.wrapping_mul(n + 1)).collect(),
    });
    let intent = (lba(), block(), fingerprint()).prop_map(|(lba, block, fingerprint)| IntentBlock {
        lba,
        block,
        fingerprint,
    });
    let decrement = (block(), fingerprint(), positive());
    let decided = prop::sample::select(DecidedOutcome::ALL.to_vec());
    let extents = || vec((extent(), number32(GRANTS_MAX)), 1..5);
    let gift = || (volume(), number(u64::MAX).prop_map(|n| n.max(1)), runs());
    prop_oneof![
        map,
        in_page().prop_map(|(lba, count)| Record::Cut { lba, count }),
        (batch(), any::<bool>(), vec(intent, 1..5)).prop_map(|(batch, is_last, blocks)| Record::Intent {
            batch,
            is_last,
            blocks
        }),
        (batch(), from(), vec(found(), 1..20)).prop_map(|(batch, from, outcomes)| Record::Found {
            batch,
            from,
            outcomes
        }),
        (batch(), any::<bool>(), vec(decrement, 1..5)).prop_map(|(batch, is_last, blocks)| {
            Record::DecIntent {
                batch,
                is_last,
                blocks,
            }
        }),
        (batch(), from(), vec(decided, 1..20)).prop_map(|(batch, from, outcomes)| Record::Decided {
            batch,
            from,
            outcomes
        }),
        extents().prop_map(|extents| Record::Extents { extents }),
        extents().prop_map(|extents| Record::Returned { extents }),
        gift().prop_map(|(to, gift, runs)| Record::Give { to, gift, runs }),
        gift().prop_map(|(from, gift, runs)| Record::Take { from, gift, runs }),
        number(u64::MAX).prop_map(|covers| Record::FlushMark { covers }),
        number(VOLUME_BLOCKS_MAX).prop_map(|n| Record::Resized { blocks: n.max(1) }),
    ]
}

pub(crate) fn log_head() -> impl Strategy<Value = LogBlockHead> {
    (volume(), any::<u32>(), any::<u64>(), option::of(extent())).prop_map(
        |(volume, epoch, sequence, next)| LogBlockHead {
            volume,
            epoch,
            sequence,
            next,
        },
    )
}
