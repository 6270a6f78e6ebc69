//! The kinds of hooks.

/// What a hook leads to. The two never mix: a look-up of one kind never gives the other's
/// containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookKind {
    /// A chunk. May be published before its session commits.
    Data,
    /// A node. Published only after its session's manifest: the caller's duty (INV-9).
    Node,
}

impl HookKind {
    /// Both, in the order of their sections.
    pub const ALL: [Self; 2] = [Self::Data, Self::Node];

    pub(crate) const fn number(self) -> usize {
        match self {
            Self::Data => 0,
            Self::Node => 1,
        }
    }
}
