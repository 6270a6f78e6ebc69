//! Containers: packer, reader, generations, catalog cache [Guo 3.1, Lillibridge 3.1] (G1, G2, L2).
//!
//! A container is one object: regions of some 128 KiB, compressed and encrypted together, a sealed
//! catalog, and a trailer with the place of both. [`ContainerBuilder`] packs a container,
//! [`Containers`] reads and puts containers, and [`CatalogView`] maps slots to places.
//!
//! Invariants:
//! - A sealed generation never changes, except that trimming gives back some of its regions. Slots
//!   keep their meaning in all generations (INV-2).
//! - A reader checks digest, identity and seal before it uses a byte. Any bytes under any name
//!   cause an error at worst (INV-8), never a wrong byte (INV-5).
//! - Catalogs in memory stay within their budget (INV-7) and can be dropped at any time (INV-4).
//!
//! Any number of threads may use everything here.

mod buffer;
mod builder;
mod cache;
mod chunks;
mod compress;
mod containers;
mod copies;
mod error;
mod generations;
mod identity;
mod load;
mod lookup;
mod mirror_watch;
mod regions;
mod remembered;
mod rewrite;
mod sealed;
mod stats;
mod trim;
mod verify;
mod view;

pub use buffer::{BytesAt, PlainBuffer, RegionBuffer};
pub use builder::{ContainerBuilder, PendingEntry, SizeCount};
pub use compress::{CompressedRegion, Compression, compress_pieces, compress_region};
pub use containers::Containers;
pub use copies::{CatalogCopies, MAX_COPIES_REGION_BYTES};
pub use error::{ContainerError, Part};
pub use generations::container_of_mirror;
pub use identity::CopyOf;
pub use load::TAIL_GUESS_BYTES;
pub use lookup::FingerprintTable;
pub use mirror_watch::MirrorWatch;
pub use regions::PlainRegion;
pub use sealed::SealedContainer;
pub use stats::{ContainerStats, MirrorRead};
pub use verify::{Damage, Depth, Verified, verify_digests};
pub use view::{CatalogView, EntryPlace};
