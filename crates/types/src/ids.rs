//! Numbers that name objects and parts of a store.

use std::fmt;

use crate::OutOfRange;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $int:ty, $what:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
        pub struct $name($int);

        impl $name {
            /// The largest number allowed.
            pub const MAX: Self = Self($max);

            /// Checks and wraps a number.
            ///
            /// # Errors
            /// [`OutOfRange`] if the number is larger than [`Self::MAX`].
            pub const fn new(value: $int) -> Result<Self, OutOfRange> {
                #[allow(clippy::absurd_extreme_comparisons, unused_comparisons, reason = "MAX may be the integer's own")]
                if value > $max {
                    return Err(OutOfRange { what: $what, value: value as u64, max: $max as u64 });
                }
                Ok(Self(value))
            }

            /// The number.
            #[must_use]
            pub const fn get(self) -> $int {
                self.0
            }

            /// The next number.
            ///
            /// # Panics
            /// If there is none: these counters do not wrap within any store's life.
            #[must_use]
            pub const fn next(self) -> Self {
                assert!(self.0 < $max, concat!($what, " numbers are exhausted"));
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                Self::new(<$int>::deserialize(d)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

number!(
    /// A session's number: claimed once, never reused. A committed session is a backup, and this is
    /// its id.
    SessionId, u64, "session", 0x1f_ffff_ffff
);
number!(
    /// A container's number within its session.
    SequenceNumber, u32, "container sequence", 0xff_ffff
);
number!(
    /// The number of times that a container was rewritten; 0 when first sealed.
    Generation, u32, "generation", u32::MAX - 1
);
number!(
    /// A chunk's number inside its container; survives every generation (INV-2).
    Slot, u32, "slot", 0xf_ffff
);
number!(
    /// A region's number inside one generation of a container.
    RegionIndex, u32, "region", 0xf_ffff
);
number!(
    /// A node's height: 0 is a chunk, 1 a segment.
    Level, u8, "level", 8
);
number!(
    /// One round of reclamation.
    Epoch, u64, "epoch", u64::MAX - 1
);
number!(
    /// A revision of something that changes only by a new object: a manifest, the config, a lease.
    Revision, u32, "revision", u32::MAX - 1
);

number!(
    /// A block of a pool: its offset in units of 4 KiB.
    BlockNumber, u64, "block", 0xff_ffff_ffff
);
number!(
    /// A block of a volume, as its user counts them: an offset in units of 4 KiB.
    Lba, u64, "volume block", 0xff_ffff_ffff
);
number!(
    /// An extent of a pool: 1,024 successive blocks.
    ExtentNumber, u32, "extent", 0x3fff_ffff
);
number!(
    /// A volume of a pool, numbered from 1. A number is never used again.
    VolumeId, u32, "volume", u32::MAX - 1
);
number!(
    /// A batch that a volume sends to the duplicates index, numbered from 1.
    BatchSequence, u64, "batch", u64::MAX - 1
);

impl Generation {
    /// The generation of a first sealing.
    pub const FIRST: Self = Self(0);
}

impl Revision {
    /// The revision that commit, expiry and adoption race to create.
    pub const FIRST: Self = Self(0);
}

impl Slot {
    /// The slot `n` places after this one, if there is one.
    #[must_use]
    pub fn checked_add(self, n: u32) -> Option<Self> {
        self.0.checked_add(n).and_then(|v| Self::new(v).ok())
    }
}

/// A container's id: the session that wrote it, its kind, and its sequence number in that session.
///
/// The kind is part of the id so that a reference alone names the object to read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct ContainerId {
    /// The session that claimed the number.
    pub session: SessionId,
    /// The kind of its content.
    pub kind: ContainerKind,
    /// The number within the session; one counter serves all kinds.
    pub sequence: SequenceNumber,
}

impl ContainerId {
    /// Packs into 64 bits: session in the upper 37, kind in the next 3, sequence in the lower 24.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        (self.session.get() << 27) | ((self.kind.number() as u64) << 24) | self.sequence.get() as u64
    }

    /// The inverse of [`Self::to_u64`]; `None` if the kind's number is unknown.
    #[must_use]
    pub const fn from_u64(value: u64) -> Option<Self> {
        let Some(kind) = ContainerKind::from_number(((value >> 24) & 7) as u8) else {
            return None;
        };
        Some(Self {
            session: SessionId(value >> 27),
            kind,
            sequence: SequenceNumber((value & 0xff_ffff) as u32),
        })
    }
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind.folder(), self.session, self.sequence)
    }
}

/// The kind of a container's content. It is the container's folder in the store and a byte in its
/// header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub enum ContainerKind {
    /// Chunks of streams.
    Data,
    /// Encoded nodes.
    Recipe,
    /// Data that only one archival backup owns. Never hooked, and never used for look-up (R4).
    Archive,
    /// Copies of data catalogs with 16-byte fingerprints.
    Catalog,
    /// Data and nodes of a backup under 1 MiB, in one container.
    Small,
}

impl ContainerKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Data,
        Self::Recipe,
        Self::Archive,
        Self::Catalog,
        Self::Small,
    ];

    /// Its number in ids and headers.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Data => 0,
            Self::Recipe => 1,
            Self::Archive => 2,
            Self::Catalog => 3,
            Self::Small => 4,
        }
    }

    /// The inverse of [`Self::number`].
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Data),
            1 => Some(Self::Recipe),
            2 => Some(Self::Archive),
            3 => Some(Self::Catalog),
            4 => Some(Self::Small),
            _ => None,
        }
    }

    /// The folder's name.
    #[must_use]
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Recipe => "recipe",
            Self::Archive => "archive",
            Self::Catalog => "catalog",
            Self::Small => "small",
        }
    }

    /// Whether a second copy is kept under `mirror/`: the loss of one node can make whole backups
    /// unreadable.
    #[must_use]
    pub const fn is_mirrored(self) -> bool {
        matches!(self, Self::Recipe | Self::Small)
    }
}

macro_rules! bytes16 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub struct $name([u8; 16]);

        impl $name {
            /// Wraps 16 bytes.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The 16 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        }
    };
}

bytes16!(
    /// A store's identity, random at `init`.
    StoreId
);
bytes16!(
    /// A series' folder: a keyed hash of its name, so that names are not visible in the store.
    SeriesId
);
