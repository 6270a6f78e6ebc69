//! Entries of the map's pages: eight bytes each (D1).
//!
//! A page is 512 of them and nothing else. Its digest is in the page above.

use types::{BlockNumber, OutOfRange};

use super::VOLUME_BLOCK_MIN;

/// The largest birth generation: 20 bits.
pub const BIRTH_MAX: u32 = 0xf_ffff;

const BLOCK_BITS: u32 = 40;
const BIRTH_BITS: u32 = 20;
const BLOCK_MASK: u64 = (1 << BLOCK_BITS) - 1;

/// Where a block of a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapEntry {
    /// Nobody wrote it, or it was cut: zeros.
    #[default]
    Zero,
    /// A block of this volume alone. It is written in place if the mapping was born in the volume's
    /// present generation.
    Private {
        /// The block.
        block: BlockNumber,
        /// The generation of the mapping.
        birth: u32,
    },
    /// A private block that the finder examines: nobody overwrites it. Never stored: on the device
    /// it is `Private`, and the log says what the finder had in hand.
    Frozen {
        /// The block.
        block: BlockNumber,
        /// The generation of the mapping.
        birth: u32,
    },
    /// A registered block. This reference is one of those that the duplicates index counts.
    Counted {
        /// The block.
        block: BlockNumber,
        /// The generation of the mapping.
        birth: u32,
    },
}

impl MapEntry {
    /// The block, if there is one.
    #[must_use]
    pub const fn block(self) -> Option<BlockNumber> {
        match self {
            Self::Zero => None,
            Self::Private { block, .. } | Self::Frozen { block, .. } | Self::Counted { block, .. } => {
                Some(block)
            }
        }
    }

    /// Packs: the block in the lower 40 bits, the birth generation in the next 20, the kind in the
    /// upper 4. `Zero` is 0.
    ///
    /// # Panics
    /// If the block is one that no volume has, or the birth generation is above [`BIRTH_MAX`]: the
    /// entry could not be read back.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        let (kind, block, birth) = match self {
            Self::Zero => return 0,
            Self::Private { block, birth } => (1, block, birth),
            Self::Counted { block, birth } => (2, block, birth),
            Self::Frozen { block, birth } => (3, block, birth),
        };
        assert!(
            block.get() >= VOLUME_BLOCK_MIN,
            "no volume has a block of extent 0"
        );
        assert!(birth <= BIRTH_MAX, "a birth generation has 20 bits");
        (kind << (BLOCK_BITS + BIRTH_BITS)) | ((birth as u64) << BLOCK_BITS) | block.get()
    }

    /// The inverse of [`Self::to_u64`]; `None` if no entry is packed like this.
    #[must_use]
    pub fn from_u64(value: u64) -> Option<Self> {
        if value == 0 {
            return Some(Self::Zero);
        }
        let block = BlockNumber::new(value & BLOCK_MASK).ok()?;
        if block.get() < VOLUME_BLOCK_MIN {
            return None;
        }
        let birth = u32::try_from((value >> BLOCK_BITS) & u64::from(BIRTH_MAX)).ok()?;
        match value >> (BLOCK_BITS + BIRTH_BITS) {
            1 => Some(Self::Private { block, birth }),
            2 => Some(Self::Counted { block, birth }),
            3 => Some(Self::Frozen { block, birth }),
            _ => None,
        }
    }

    /// The entry that these stored eight bytes are; `None` if no entry is stored like this.
    #[must_use]
    pub fn from_stored(value: u64) -> Option<Self> {
        Self::from_u64(value).filter(|entry| entry.stored() == *entry)
    }

    /// The entry as it is stored.
    #[must_use]
    pub const fn stored(self) -> Self {
        match self {
            Self::Frozen { block, birth } => Self::Private { block, birth },
            other => other,
        }
    }
}

/// A reference to a page of the level below: its block, and 24 bits of its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageReference {
    /// The page's block.
    pub block: BlockNumber,
    /// The upper 24 bits of the page's digest.
    pub check: u32,
}

impl PageReference {
    /// A reference to this page, stored at this block.
    ///
    /// # Errors
    /// [`OutOfRange`] for a block of extent 0, which is the pool's.
    pub fn to_page(block: BlockNumber, page: &[u8]) -> Result<Self, OutOfRange> {
        if block.get() < VOLUME_BLOCK_MIN {
            return Err(OutOfRange {
                what: "block of a page",
                value: block.get(),
                max: BlockNumber::MAX.get(),
            });
        }
        Ok(Self {
            block,
            check: Self::check_of(page),
        })
    }

    /// Whether these are the bytes of the page. A reference to a block of extent 0, which
    /// [`Self::to_page`] does not make, is to no page: it is damage.
    #[must_use]
    pub fn is_to(&self, page: &[u8]) -> bool {
        self.block.get() >= VOLUME_BLOCK_MIN && self.check == Self::check_of(page)
    }

    fn check_of(page: &[u8]) -> u32 {
        u32::try_from(crate::wire::digest(page) >> 104).expect("24 bits")
    }

    /// Packs: the block in the lower 40 bits, the check in the upper 24.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        ((self.check as u64) << BLOCK_BITS) | self.block.get()
    }

    /// The inverse of [`Self::to_u64`]; `None` for 0, which stands for a page of zeros.
    #[must_use]
    pub fn from_u64(value: u64) -> Option<Self> {
        let block = BlockNumber::new(value & BLOCK_MASK).ok()?;
        let check = u32::try_from(value >> BLOCK_BITS).ok()?;
        (value != 0).then_some(Self { block, check })
    }
}
