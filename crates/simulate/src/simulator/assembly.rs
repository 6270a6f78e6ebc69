//! The compared ways to use a restore's memory. Restores look ahead. The other ways are those of
//! Lillibridge 3 and 4, replayed as plans alone.

/// How a restore uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assembly {
    /// A rolling forward assembly area: sent space is laid out anew at once (L5).
    Rolling,
    /// A fixed forward assembly area: it is filled and sent as a whole before the next one (L5).
    Fixed,
    /// Keeps whole containers, and drops the least recently used one first [Lillibridge 4, the
    /// baseline; L2].
    Lru,
    /// Keeps chunks for their next use, which the recipe tells (L9). Real restores do this.
    LookAhead,
}

impl Assembly {
    /// The name that `onefold-lab simulate --assembly` takes.
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
