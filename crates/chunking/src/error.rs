//! Settings that every chunker refuses.

/// An error in a chunker's settings. This crate has no other errors, and all are misuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkingError {
    /// Sizes of content-defined chunks that contradict each other or the limits.
    #[error("chunk sizes of {min} / {avg} / {max} bytes (min / average / max): {why}")]
    Sizes {
        /// The requested shortest chunk, in bytes.
        min: u32,
        /// The requested average, in bytes.
        avg: u32,
        /// The requested longest chunk, in bytes.
        max: u32,
        /// The rule that they break.
        why: &'static str,
    },
    /// A fixed length outside 4 KiB to 1 MiB.
    #[error("a fixed chunk of {bytes} bytes is not within 4 KiB to 1 MiB")]
    FixedLength {
        /// The requested length, in bytes.
        bytes: u32,
    },
}
