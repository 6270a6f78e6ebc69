//! The inputs of the lanes: leaves, and pairs of nodes.

/// Bytes of a block.
pub(super) const BLOCK_BYTES: usize = 64;

/// A chaining value.
pub(super) type Cv = [u32; 8];

/// A leaf of some tree: at most 1 KiB.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf<'a> {
    pub(super) bytes: &'a [u8],
    /// The leaf's number in its input.
    pub(super) number: u32,
    /// Whether it is the only leaf of its input.
    pub(super) is_root: bool,
    /// The place of its chaining value.
    pub(super) to: u32,
}

impl Leaf<'_> {
    pub(super) fn blocks(&self) -> usize {
        self.bytes.len().div_ceil(BLOCK_BYTES).max(1)
    }
}

/// Two neighbouring nodes, at `from` and after it; `to` is the place of their parent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) is_root: bool,
}
