//! Turns a region's plain bytes into the bytes to encrypt: compressed by zstd, or unchanged.
//!
//! This is pure computation, meant for worker threads. Each thread reuses one zstd context and its
//! buffers, and allocates only the result. A region that does not shrink stays raw, so stored bytes
//! never exceed plain bytes by more than the seal.

use std::borrow::Cow;
use std::cell::RefCell;

use format::container::Codec;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::CParameter;

/// Shorter regions are compressed without a test: the test would cost as much.
const JUDGED_BYTES_MIN: usize = 8 << 10;
/// Pieces of a region whose bytes are counted, evenly spread.
const PIECES: usize = 16;
const PIECE_BYTES: usize = 128;
/// Bytes in the middle of a region that are tested for repetitions.
const PROBE_BYTES: usize = 4 << 10;
/// The level of that test: zstd's fastest that still codes literals by entropy.
const PROBE_LEVEL: i32 = 1;

/// Whether and how regions are compressed; a setting of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Every region raw.
    Off,
    /// Like [`Compression::Level`], but a region may be left raw after a test: in a sample of its
    /// bytes all values are equally frequent, and its middle does not repeat itself. This takes a
    /// seventh of the time for media and archives.
    Auto {
        /// zstd's level for the regions that are compressed.
        level: i32,
    },
    /// Compresses every region at this zstd level (1 to 22; negative: faster). zstd clamps other
    /// values.
    Level(i32),
}

thread_local! {
    pub(crate) static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::new(Decompressor::default());
}

impl Compression {
    /// The same at this level, if it compresses at a lower one.
    #[must_use]
    pub fn at_least(self, least: i32) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::Auto { level } => Self::Auto {
                level: level.max(least),
            },
            Self::Level(level) => Self::Level(level.max(least)),
        }
    }
}

/// A region ready to be appended to a container and sealed in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressedRegion {
    codec: Codec,
    bytes: Vec<u8>,
    plain_len: usize,
}

impl CompressedRegion {
    /// An uncompressed region.
    #[must_use]
    pub fn raw(plain: Vec<u8>) -> Self {
        Self {
            codec: Codec::Raw,
            plain_len: plain.len(),
            bytes: plain,
        }
    }

    /// A region that was compressed before, in its compressed form. Its bytes decompress to
    /// `plain_len`.
    #[must_use]
    pub fn as_read(packed: &[u8], plain_len: usize) -> Self {
        Self {
            codec: Codec::Zstd,
            bytes: packed.to_vec(),
            plain_len,
        }
    }

    /// The codec that restores the plain bytes.
    #[must_use]
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// The bytes that will be encrypted.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes in a container, without the seal's tag.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        self.bytes.len()
    }

    /// Length before compression.
    #[must_use]
    pub fn plain_len(&self) -> usize {
        self.plain_len
    }

    /// The plain bytes; `None` if the bytes do not decompress to [`Self::plain_len`] bytes.
    #[must_use]
    pub fn plain(&self) -> Option<Cow<'_, [u8]>> {
        let plain = match self.codec {
            Codec::Raw => Cow::Borrowed(self.bytes.as_slice()),
            Codec::Zstd => {
                // Allocates the declared length, whatever the frame says.
                let mut room = Vec::with_capacity(self.plain_len);
                DECOMPRESSOR
                    .with_borrow_mut(|zstd| zstd.decompress_to_buffer(&self.bytes, &mut room))
                    .ok()?;
                Cow::Owned(room)
            }
        };
        (plain.len() == self.plain_len).then_some(plain)
    }

    /// Like [`Self::plain`], with bytes of its own.
    #[must_use]
    pub fn decompress(&self) -> Option<Vec<u8>> {
        self.plain().map(Cow::into_owned)
    }

    /// Fills the room, which has [`Self::plain_len`] bytes, with the plain bytes. `None` if they
    /// do not decompress to so many.
    pub(crate) fn decompress_into(&self, room: &mut [u8]) -> Option<()> {
        match self.codec {
            Codec::Raw => room.copy_from_slice(&self.bytes),
            Codec::Zstd => {
                let len = DECOMPRESSOR
                    .with_borrow_mut(|zstd| zstd.decompress_to_buffer(&self.bytes, room))
                    .ok()?;
                if len != room.len() {
                    return None;
                }
            }
        }
        Some(())
    }
}

/// A thread's reusable zstd context.
struct RegionCompressor {
    zstd: Compressor<'static>,
    spare: Vec<u8>,
    gathered: Vec<u8>,
}

impl RegionCompressor {
    /// Compresses into the spare buffer; `None` if zstd fails (out of memory). Then the region is
    /// stored raw.
    fn attempt(&mut self, plain: &[u8], level: i32) -> Option<usize> {
        self.zstd
            .set_parameter(CParameter::CompressionLevel(level))
            .ok()?;
        self.spare.clear();
        self.spare.reserve(zstd::zstd_safe::compress_bound(plain.len()));
        self.zstd.compress_to_buffer(plain, &mut self.spare).ok()
    }

    /// Whether a test of parts of the region suggests that it shrinks.
    fn may_shrink(&mut self, plain: &[u8]) -> bool {
        if plain.len() < JUDGED_BYTES_MIN || !is_even(plain) {
            return true;
        }
        let start = (plain.len() - PROBE_BYTES) / 2;
        // A thirty-second: frame overhead and chance gain less, and the poorest real gain is more.
        self.attempt(&plain[start..start + PROBE_BYTES], PROBE_LEVEL)
            .is_some_and(|len| len < PROBE_BYTES - PROBE_BYTES / 32)
    }

    /// Compresses the bytes if this makes them smaller.
    fn compress(&mut self, plain: &[u8], compression: Compression) -> Option<CompressedRegion> {
        let level = match compression {
            Compression::Off => return None,
            Compression::Level(level) => level,
            Compression::Auto { level } if self.may_shrink(plain) => level,
            Compression::Auto { .. } => return None,
        };
        let len = self.attempt(plain, level).filter(|len| *len < plain.len())?;
        Some(CompressedRegion {
            codec: Codec::Zstd,
            bytes: self.spare[..len].to_vec(),
            plain_len: plain.len(),
        })
    }
}

/// Whether all byte values have about the same frequency. Then entropy coding would gain nothing.
///
/// The measure is the sum of squares of the counts. For n random bytes it is `n + n (n - 1) / 256`
/// and deviates by `n sqrt(2 / 256)`: 18,424 and 181 for 2,048. The limit is six deviations above.
/// For bytes that entropy coding would shrink by a thirty-second, it is some 24,100 or more.
fn is_even(plain: &[u8]) -> bool {
    const SQUARES_MAX: u32 = 19_500;
    let mut counts = [[0u16; 256]; 2];
    let stride = (plain.len() - PIECE_BYTES) / (PIECES - 1);
    for piece in 0..PIECES {
        let piece = &plain[piece * stride..][..PIECE_BYTES];
        // Two tables, so that two increments of the same value do not wait for each other.
        for pair in piece.as_chunks::<2>().0 {
            counts[0][usize::from(pair[0])] += 1;
            counts[1][usize::from(pair[1])] += 1;
        }
    }
    let [even, odd] = &counts;
    let squares: u32 = even
        .iter()
        .zip(odd)
        .map(|(even, odd)| u32::from(even + odd).pow(2))
        .sum();
    squares <= SQUARES_MAX
}

thread_local! {
    static COMPRESSOR: RefCell<RegionCompressor> =
        RefCell::new(RegionCompressor { zstd: Compressor::default(), spare: Vec::new(), gathered: Vec::new() });
}

/// Compresses one region's plain bytes with this thread's context, or leaves them raw if they do
/// not shrink.
#[must_use]
pub fn compress_region(plain: Vec<u8>, compression: Compression) -> CompressedRegion {
    let compressed = COMPRESSOR.with_borrow_mut(|compressor| compressor.compress(&plain, compression));
    compressed.unwrap_or_else(|| CompressedRegion::raw(plain))
}

/// Like [`compress_region`], for bytes in several pieces; `None` if they should be stored raw.
/// Gathers them only if there is more than one piece.
#[must_use]
pub fn compress_pieces<'a>(
    mut pieces: impl Iterator<Item = &'a [u8]>,
    compression: Compression,
) -> Option<CompressedRegion> {
    if compression == Compression::Off {
        return None;
    }
    let first = pieces.next().unwrap_or_default();
    COMPRESSOR.with_borrow_mut(|compressor| {
        let Some(second) = pieces.next() else {
            return compressor.compress(first, compression);
        };
        let mut gathered = std::mem::take(&mut compressor.gathered);
        gathered.clear();
        gathered.extend_from_slice(first);
        gathered.extend_from_slice(second);
        pieces.for_each(|piece| gathered.extend_from_slice(piece));
        let compressed = compressor.compress(&gathered, compression);
        compressor.gathered = gathered;
        compressed
    })
}
