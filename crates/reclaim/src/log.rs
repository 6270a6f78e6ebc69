//! Targets of this crate's events in `tracing`'s logs.

/// Events of prunes.
pub(crate) const PRUNE: &str = "onefold::prune";
/// Events of rewrites: reverse deduplication and layout repair.
pub(crate) const OPTIMIZE: &str = "onefold::optimize";
