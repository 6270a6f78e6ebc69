//! The operating system's side of directory backups: walks a tree, reads its files, writes the
//! listing and its fences, finds unchanged files, and restores entries with their metadata.
//!
//! Linux only: `openat`-relative calls, `O_PATH` handles and `/proc/self/fd` make the walk
//! independent of path lengths, and the restore safe against planted links (INV-8).
//!
//! Invariants:
//! - All entries are in *listing order* ([`order`]): the walk yields it, the writer enforces it,
//!   the reader checks it. So two listings merge in one pass.
//! - A fault of one entry is a value ([`TreeError`]) beside the other entries, and never ends the
//!   work.
//! - Nothing here knows of containers or recipes: bytes in, bytes out.
//! - Memory is bounded by one folder's names, the depth, and the number of hard-linked files
//!   (INV-7).
//!
//! Concurrency: [`Walk`], [`Lister`], [`Looker`], [`ListingWriter`], [`ListingReader`] and
//! [`Unchanged`] belong to one thread each and may be moved. [`WalkEntry`] and [`FileReader`] are
//! `Send`: files may be opened and read ahead on other threads. [`Restorer`] takes entries in order
//! from one thread; every [`FileWriter`] may be written by several threads at once.

#[cfg(not(target_os = "linux"))]
compile_error!("onefold-tree reads and restores files by calls that Linux alone has: see docs/platforms.md");

mod accounts;
mod blocks;
mod error;
mod exclude;
mod folder;
mod image;
mod links;
mod listing;
mod metadata;
pub mod order;
mod read;
mod restore;
mod retry;
mod roots;
#[cfg(test)]
mod testing;
mod typed;
mod unchanged;
mod walk;
mod walk_entry;

pub use accounts::Accounts;
pub use blocks::BlockWriter;
pub use error::{Action, Change, LinkFault, TreeError};
pub use exclude::{Doubt, ExcludeBuilder, Excludes, PatternDoubt};
pub use image::ImageReader;
pub use links::LostLinks;
pub use listing::{
    Base, ComparedListing, Comparing, Difference, Fences, Listed, ListingPlace, ListingReader, ListingWriter,
    ReadRange, UnequalParts,
};
pub use read::{
    DataSection, FileReader, Piece, ReadFile, Section, Sections, SmallRead, open_file, read_small,
};
pub use restore::{
    Begun, Fate, FileWriter, Include, Overwrite, Owners, PendingFile, PendingLink, Placed, Reread,
    RestoreOptions, Restored, Restorer, SkipReason, Sparse, Surplus, SurplusObserver, SurplusReport, Survey,
    WholeFile, drop_pages,
};
pub use roots::Roots;
pub use rustix::io::Errno;
pub use typed::TypedPath;
pub use unchanged::{Comparison, Trust, Unchanged};
pub use walk::{FolderId, Lister, Looked, Looker, Marker, StoreFolder, Stretch, Walk, WalkOptions};
pub use walk_entry::WalkEntry;
