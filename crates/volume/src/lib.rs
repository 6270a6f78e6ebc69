//! Pools of blocks, and the volumes that share them.
