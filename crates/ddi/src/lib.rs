//! The duplicates index (DDI): fingerprint of a block's content -> the block and its references.
