//! The kinds of hooks.

/// The target of a hook. The kinds never mix: a look-up of one kind never returns the other's
/// containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HookKind {
    /// A chunk. May be published before its session commits.
    Data,
    /// A node. The caller must publish it only after its session's manifest (INV-9).
    Node,
}

impl HookKind {
    /// Both kinds, in the order of their sections.
    pub const ALL: [Self; 2] = [Self::Data, Self::Node];

    pub(crate) const fn number(self) -> usize {
        match self {
            Self::Data => 0,
            Self::Node => 1,
        }
    }
}
