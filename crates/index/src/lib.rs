//! Hooks: fingerprint to container, on disk, rebuildable [Guo 3.2] (G3, G6).
//!
//! [`Index`] names the catalogs to load, from sorted immutable runs that are memory-mapped.
//! [`Resolver`] asks it, loads catalogs through the cache, and returns the place of a chunk or
//! node. Each session adds its hooks as a run of its own, and the holder of the index lease merges
//! runs.
//!
//! Invariants:
//! - The index may forget, and may be wrong: the catalogs decide. Every run can be deleted at any
//!   time (INV-4), and any bytes under `index/` cause a warning at worst (INV-8).
//! - Hooks to nodes are published only for committed sessions. The caller's `is_absent` filters
//!   places that must not be returned (INV-9).
//! - Memory is bounded by [`IndexOptions`] (INV-7): adding, rebuilding and merging stream.
//!
//! Any number of threads may use everything here.

mod block;
mod cache;
mod candidates;
mod catalogs;
mod catch_up;
pub mod conformance;
mod error;
mod hook;
mod images;
mod index;
mod kind;
mod lists;
mod memory;
mod merge;
mod object_header;
mod part;
mod part_header;
pub mod probe;
mod rates;
mod records;
mod resident;
mod resolver;
mod run;
pub mod sampling;
mod scan;
mod session;
mod session_ranges;
mod spans;
mod stats;
mod summary;
mod table;
mod unindexed;
mod writer;

pub use cache::{Eviction, FingerprintCache};
pub use candidates::{CANDIDATES_MAX, age_order};
pub use catalogs::{Catalog, CatalogSource};
pub use error::{IndexError, Warning};
pub use hook::{Hook, HookIndex, hooks_of};
pub use index::{Index, IndexOptions};
pub use kind::HookKind;
pub use lists::CandidateLists;
pub use merge::{MergeLease, Merged};
pub use resolver::{LOADS_MAX, Resolver, ResolverOptions, ResolverStats};
pub use run::RUNS_MAX;
pub use session::{HookWriter, SessionContainers};
pub use stats::IndexStats;
pub use table::{MEMORY_BYTES_MIN, MemoryIndex, MemoryStats};
