//! The ways to use a restore's memory that are compared. Restores look ahead; the others are those
//! of Lillibridge 3 and 4, replayed as plans alone.

/// How a restore uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assembly {
    /// A forward assembly area that rolls: space that is sent out is laid out anew at once (L5).
    Rolling,
    /// A forward assembly area that is filled and sent as a whole before the next one (L5).
    Fixed,
    /// Whole containers are kept, and the least recently used one is dropped first
    /// [Lillibridge 4, the baseline; L2].
    Lru,
    /// Chunks are kept for their next use, which the recipe tells (L9): what restores do.
    LookAhead,
}

impl Assembly {
    /// As `onefold-lab simulate --assembly` takes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rolling => "rolling",
            Self::Fixed => "fixed",
            Self::Lru => "lru",
            Self::LookAhead => "look-ahead",
        }
    }
}
