//! Ids of a pool as varints.

use types::{BatchSequence, BlockNumber, ExtentNumber, Lba, VolumeId};

use crate::error::Result;
use crate::wire::{Reader, Writer};

macro_rules! ids {
    ($($name:ident: $id:ty, $int:ty, $why:literal;)*) => {
        impl Reader<'_> {
            $(
                pub(crate) fn $name(&mut self) -> Result<$id> {
                    let here = self.fault($why);
                    let number = <$int>::try_from(self.varint()?).ok();
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
    };
}

ids! {
    block: BlockNumber, u64, "a block number is out of range";
    lba: Lba, u64, "a volume's block number is out of range";
    extent: ExtentNumber, u32, "an extent number is out of range";
    volume: VolumeId, u32, "a volume number is out of range";
    batch: BatchSequence, u64, "a batch number is out of range";
}
