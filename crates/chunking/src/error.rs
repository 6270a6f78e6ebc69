//! Settings that every chunker refuses.

/// What is wrong with a chunker's settings. The only errors of this crate; all are misuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkingError {
    /// Sizes of content-defined chunks that contradict each other or the limits.
    #[error("chunk sizes of {min} / {avg} / {max} bytes (min / average / max): {why}")]
    Sizes {
        /// The shortest chunk asked for, in bytes.
        min: u32,
        /// The average asked for, in bytes.
        avg: u32,
        /// The longest chunk asked for, in bytes.
        max: u32,
        /// Which rule they break.
        why: &'static str,
    },
    /// A fixed length outside 4 KiB to 1 MiB.
    #[error("a fixed chunk of {bytes} bytes is not within 4 KiB to 1 MiB")]
    FixedLength {
        /// The length asked for, in bytes.
        bytes: u32,
    },
}
