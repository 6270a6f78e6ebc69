//! Ids of a pool as varints, within the ranges that a volume can have.

use std::ops::RangeBounds;

use types::{BatchSequence, BlockNumber, ExtentNumber, Lba, VolumeId};

use super::{VOLUME_BLOCK_MIN, VOLUME_BLOCKS_MAX, VOLUME_EXTENT_MIN};
use crate::error::Result;
use crate::wire::{Reader, Writer};

macro_rules! ids {
    ($($name:ident: $id:ty, $int:ty, $range:expr, $why:literal;)*) => {
        impl Reader<'_> {
            $(
                pub(crate) fn $name(&mut self) -> Result<$id> {
                    let here = self.fault($why);
                    let number = <$int>::try_from(self.varint()?).ok();
                    let number = number.filter(|number| $range.contains(number));
                    number.and_then(|number| <$id>::new(number).ok()).ok_or(here)
                }
            )*
        }

        impl Writer<'_> {
            $(
                pub(crate) fn $name(&mut self, id: $id) {
                    self.varint(u64::from(id.get()));
                }
            )*
        }

        $(
            impl PoolId for $id {
                fn is_in_range(self) -> bool {
                    RangeBounds::contains(&$range, &self.get())
                }
            }
        )*
    };
}

/// An id whose range in a pool is smaller than that of its type.
pub(crate) trait PoolId: Copy {
    /// Whether a reader accepts it.
    fn is_in_range(self) -> bool;
}

ids! {
    block: BlockNumber, u64, (VOLUME_BLOCK_MIN..), "a block number is out of range";
    lba: Lba, u64, (0..VOLUME_BLOCKS_MAX), "a volume's block number is out of range";
    extent: ExtentNumber, u32, (VOLUME_EXTENT_MIN..), "an extent number is out of range";
    volume: VolumeId, u32, (1..), "a volume number is out of range";
    batch: BatchSequence, u64, (1..), "a batch number is out of range";
}

/// Whether every one of the ids is accepted by a reader.
pub(crate) fn are_in_range<I: PoolId>(ids: impl IntoIterator<Item = I>) -> bool {
    ids.into_iter().all(I::is_in_range)
}
