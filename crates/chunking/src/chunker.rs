//! The interface of all chunkers.
//!
//! Invariant: the boundaries of a stream are the same however it is split into buffers. A chunker
//! keeps no state between calls. So this follows from one rule: a chunker cuts only where no later
//! byte could move the cut, or where the caller says that no byte follows.

/// The longest chunk of any chunker, in bytes. A caller whose buffers hold more always makes
/// progress.
pub const CHUNK_BYTES_MAX: u32 = 1 << 20;

/// Cuts bytes into chunks. It has no state, so one value serves many streams and threads.
///
/// The caller keeps the uncut bytes and puts them before the following bytes. Each call begins at
/// the start of a chunk. Uncut bytes are processed again, so buffers should be several times as
/// long as [`Self::chunk_bytes_max`].
pub trait Chunker: Send + Sync {
    /// The length of the first chunk of `bytes`, at least 1 and at most [`Self::chunk_bytes_max`].
    ///
    /// `None`: more bytes are needed to decide. With `last` (nothing follows: the end of the
    /// stream, or of a file whose chunks must not extend into the next) this happens only if
    /// `bytes` is empty.
    fn first_cut(&self, bytes: &[u8], last: bool) -> Option<u32>;

    /// The length that no chunk exceeds, in bytes.
    fn chunk_bytes_max(&self) -> u32;

    /// Appends to `lens` the length of each chunk of `bytes`, in order, and returns their sum: the
    /// number of cut bytes. The caller carries over the rest, which is less than
    /// [`Self::chunk_bytes_max`]. With `last` there is none.
    fn cut_all(&self, bytes: &[u8], last: bool, lens: &mut Vec<u32>) -> usize {
        let mut rest = bytes;
        while let Some(len) = self.first_cut(rest, last) {
            lens.push(len);
            rest = &rest[len as usize..];
        }
        bytes.len() - rest.len()
    }
}
