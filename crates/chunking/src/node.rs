//! Where a node of a recipe ends: its children's fingerprints decide.
//!
//! Invariant: whether a node ends after a child depends only on the fingerprints since the
//! last end. So a builder can continue a tree after any node that the rule ended, with the same
//! result.

use types::Fingerprint;

/// The smallest average that makes every level smaller than the one below it.
pub const NODE_AVG_CHILDREN_MIN: u32 = 4;

/// The largest average. It limits what a reader of a node must hold.
pub const NODE_AVG_CHILDREN_MAX: u32 = 1 << 14;

/// The cut rule of one level: the end of a segment or higher node [RevDedup 2.2.2].
///
/// After at least `avg / 2` children, a node ends after a child whose node bits (bytes 0-3 of its
/// fingerprint, little-endian) are a multiple of `avg / 2`, but at the latest after `2 * avg`
/// children. On random fingerprints the mean is `avg / 2`, plus that of a geometric number capped
/// at `3 * avg / 2`, less one: 0.97 of `avg` for large averages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCutter {
    min: u32,
    max: u32,
    mask: u32,
    pending: u32,
}

impl NodeCutter {
    /// The rule for an average of `avg` children.
    ///
    /// # Panics
    /// If `avg` is not a power of two from [`NODE_AVG_CHILDREN_MIN`] to [`NODE_AVG_CHILDREN_MAX`].
    /// The decoder of the store's settings checks this.
    #[must_use]
    pub const fn new(avg: u32) -> Self {
        assert!(
            avg.is_power_of_two() && avg >= NODE_AVG_CHILDREN_MIN && avg <= NODE_AVG_CHILDREN_MAX,
            "the average of a node's children is a power of two within its limits"
        );
        Self {
            min: avg / 2,
            max: avg * 2,
            mask: avg / 2 - 1,
            pending: 0,
        }
    }

    /// Takes the next child. Returns true if the node ends after it: then the next child begins a
    /// new one.
    pub const fn push(&mut self, child: &Fingerprint) -> bool {
        self.pending += 1;
        let ends = self.pending >= self.max || (self.pending >= self.min && self.is_end(child));
        if ends {
            self.pending = 0;
        }
        ends
    }

    const fn is_end(&self, child: &Fingerprint) -> bool {
        let b = child.as_bytes();
        u32::from_le_bytes([b[0], b[1], b[2], b[3]]) & self.mask == 0
    }

    /// The number of children of the open node.
    #[must_use]
    pub const fn pending(&self) -> u32 {
        self.pending
    }

    /// Drops the open node: the next child begins a new one.
    pub const fn reset(&mut self) {
        self.pending = 0;
    }
}
