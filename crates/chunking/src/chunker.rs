//! The interface of all chunkers.
//!
//! Invariant: the boundaries of a stream are the same however it is split into buffers. A
//! chunker keeps no state between calls, so this follows from one rule: a chunker cuts only where
//! no later byte could move the cut, or where the caller says that there is no later byte.

/// The longest chunk of any chunker, in bytes. A caller whose buffers hold more always makes
/// progress.
pub const CHUNK_BYTES_MAX: u32 = 1 << 20;

/// Cuts bytes into chunks. Without state: one value serves many streams and threads.
///
/// The caller keeps what was not cut and puts it in front of the bytes that follow; each call
/// begins at a chunk's start. Uncut bytes are looked at again, so buffers of several times
/// [`Self::chunk_bytes_max`] are worth having.
pub trait Chunker: Send + Sync {
    /// The length of the first chunk of `bytes`, at least 1 and at most [`Self::chunk_bytes_max`].
    ///
    /// `None`: more bytes are needed to tell. With `last` (nothing follows: the end of the stream,
    /// or of a file whose chunks are not to reach into the next) only when `bytes` is empty.
    fn first_cut(&self, bytes: &[u8], last: bool) -> Option<u32>;

    /// The length that no chunk exceeds, in bytes.
    fn chunk_bytes_max(&self) -> u32;

    /// Appends to `lens` the length of each chunk of `bytes`, in order, and returns their sum: how
    /// many bytes were cut. The rest, less than [`Self::chunk_bytes_max`], is the caller's to
    /// carry; with `last` there is none.
    fn cut_all(&self, bytes: &[u8], last: bool, lens: &mut Vec<u32>) -> usize {
        let mut rest = bytes;
        while let Some(len) = self.first_cut(rest, last) {
            lens.push(len);
            rest = &rest[len as usize..];
        }
        bytes.len() - rest.len()
    }
}
