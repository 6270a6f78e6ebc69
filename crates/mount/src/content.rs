//! Bytes of streams, at any offset, by several threads at once.
//!
//! A stream is divided into windows. The references of a window come from the verified tree once,
//! and then stay in memory, so a read opens no nodes where it reads again. If a node of a window
//! cannot be read, a read follows only the references that it needs: damage beside a file is no
//! damage of the file.

use std::ops::Range;
use std::sync::Arc;

use recipe::{ChunkRef, ChunkRefs, Place, RecipeError, StoreReader, TreeRoot};

use crate::cache::Cache;
use crate::regions::{LastRegion, Passed, Regions};

/// A window's length in bytes.
pub(crate) const WINDOW_BYTES: u64 = 1 << 20;
/// A read of so many bytes or more keeps only regions of which it has a part.
const LONG_BYTES: u64 = 512 << 10;
/// So many bytes of a stream are searched for a hole. A program may always be told that the file
/// has no hole, and a search costs the nodes of all that is searched.
const HOLE_SOUGHT_BYTES: u64 = 4 << 30;

/// A stream of a pinned backup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream {
    /// The number of the pin. What a stream refers forward to may be elsewhere when the backup is
    /// pinned again.
    pub(crate) pin: u64,
    /// The root of the stream, which also names it.
    pub(crate) root: TreeRoot,
}

/// The number of a pin, the root's fingerprint, the number of a window.
type Key = (u64, types::Fingerprint, u64);

/// What is kept of streams in memory.
#[derive(Debug)]
pub(crate) struct Contents {
    windows: Cache<Key, Vec<ChunkRef>>,
    pub(crate) regions: Regions,
}

impl Contents {
    /// A sixteenth of the budget is for references.
    pub(crate) fn new(budget_bytes: u64) -> Self {
        let windows = budget_bytes / 16;
        Self {
            windows: Cache::new(windows),
            regions: Regions::new(budget_bytes - windows),
        }
    }

    /// The references of a window.
    fn window(
        &self,
        reader: &dyn StoreReader,
        stream: &Stream,
        number: u64,
    ) -> Result<Arc<Vec<ChunkRef>>, RecipeError> {
        match self
            .windows
            .get_or_turn((stream.pin, stream.root.fingerprint, number))
        {
            Ok(window) => Ok(window),
            Err(turn) => {
                let begin = number.saturating_mul(WINDOW_BYTES);
                let len = WINDOW_BYTES.min(stream.root.len.saturating_sub(begin));
                let references = references(reader, &stream.root, begin..begin + len)?;
                let bytes = (references.capacity() * size_of::<ChunkRef>()) as u64 + 64;
                Ok(turn.keep(references, bytes))
            }
        }
    }

    /// The references of a range that is within one window, and perhaps others around them.
    fn of_range(
        &self,
        reader: &dyn StoreReader,
        stream: &Stream,
        range: &Range<u64>,
    ) -> Result<Arc<Vec<ChunkRef>>, RecipeError> {
        match self.window(reader, stream, range.start / WINDOW_BYTES) {
            Ok(window) => Ok(window),
            Err(RecipeError::Other(error)) => Err(RecipeError::Other(error)),
            Err(_) => references(reader, &stream.root, range.clone()).map(Arc::new),
        }
    }

    /// Reads a range of a stream.
    ///
    /// # Errors
    /// Of the first byte that cannot be read. `out` then has the bytes before it.
    pub(crate) fn read(
        &self,
        reader: &dyn StoreReader,
        stream: &Stream,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Result<(), RecipeError> {
        // The kernel keeps what it is given, and need not be given it again.
        let is_long = range.end - range.start >= LONG_BYTES;
        let mut passed = Passed::default();
        for part in windows_of(&range) {
            let references = self.of_range(reader, stream, &part)?;
            let needed = within(&references, &part);
            let mut last = LastRegion::default();
            let mut is_here = |reference: &ChunkRef| self.regions.has(reader, reference, &mut last);
            if needed.len() > 1 && !needed.iter().all(&mut is_here) {
                self.regions.load(reader, needed.iter());
            }
            if needed.len() > 1 {
                self.regions.verify(reader, needed.iter());
            }
            let mut last = LastRegion::default();
            for reference in needed {
                let begin = part.start.max(reference.offset);
                let len = part.end.min(reference.offset + reference.len) - begin;
                match reference.place {
                    Place::Zeros => {
                        let len = usize::try_from(len).expect("a window fits in memory");
                        out.resize(out.len() + len, 0);
                    }
                    Place::At(at) => {
                        let skip = reference.skip + (begin - reference.offset);
                        let place = (skip, len);
                        self.regions
                            .append(reader, at, reference, place, &mut last, out)?;
                    }
                }
            }
            if is_long {
                self.regions.let_go(reader, needed.iter(), &mut passed);
            }
        }
        Ok(())
    }

    /// Brings a range into memory, as far as that is possible. Errors are left to the reads.
    pub(crate) fn fetch(&self, reader: &dyn StoreReader, stream: &Stream, range: &Range<u64>) {
        for part in windows_of(range) {
            let Ok(references) = self.of_range(reader, stream, &part) else {
                return;
            };
            // Who decoded the other regions compares what it uses of them.
            let mut last = LastRegion::default();
            let is_missing = |reference: &&ChunkRef| !self.regions.has(reader, reference, &mut last);
            let needed: Vec<&ChunkRef> = { within(&references, &part).iter() }.filter(is_missing).collect();
            self.regions.load(reader, needed.iter().copied());
            self.regions.verify(reader, needed.into_iter());
        }
    }
}

/// The first byte at `from` or behind it that is in a hole, or in none. The end of the stream if
/// there is none, and for a hole also if there is none in the next [`HOLE_SOUGHT_BYTES`]. A hole is
/// a run of zeros of at least a block.
///
/// # Errors
/// If the stream's tree cannot be read.
pub(crate) fn seek(
    reader: &dyn StoreReader,
    root: &TreeRoot,
    from: u64,
    is_hole_sought: bool,
) -> Result<u64, RecipeError> {
    let references = ChunkRefs::new(reader, root, from, root.len.saturating_sub(from))?;
    first_of(references, root.len, from, is_hole_sought)
}

fn first_of(
    references: impl Iterator<Item = Result<ChunkRef, RecipeError>>,
    len: u64,
    from: u64,
    is_hole_sought: bool,
) -> Result<u64, RecipeError> {
    for reference in references {
        let reference = reference?;
        if is_hole_sought && reference.offset.saturating_sub(from) >= HOLE_SOUGHT_BYTES {
            break;
        }
        if (reference.place == Place::Zeros) == is_hole_sought {
            return Ok(reference.offset);
        }
    }
    Ok(len)
}

fn references(
    reader: &dyn StoreReader,
    root: &TreeRoot,
    range: Range<u64>,
) -> Result<Vec<ChunkRef>, RecipeError> {
    ChunkRefs::new(reader, root, range.start, range.end - range.start)?.collect()
}

/// The parts of a range, each within one window.
fn windows_of(range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
    let Range { mut start, end } = *range;
    std::iter::from_fn(move || {
        let begin = (start < end).then_some(start)?;
        start = (begin / WINDOW_BYTES + 1).saturating_mul(WINDOW_BYTES).min(end);
        Some(begin..start)
    })
}

/// The references with bytes of the range.
fn within<'r>(references: &'r [ChunkRef], range: &Range<u64>) -> &'r [ChunkRef] {
    let begin = references.partition_point(|reference| reference.offset + reference.len <= range.start);
    let end = references.partition_point(|reference| reference.offset < range.end);
    references.get(begin..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use types::Fingerprint;

    use super::*;

    #[test]
    fn a_hole_is_sought_in_the_next_gibibytes_and_data_everywhere() {
        const GIB: u64 = 1 << 30;
        let seek = |from: u64, is_zero: &dyn Fn(u64) -> bool, is_hole_sought| {
            let seen = Cell::new(0);
            let references = (from / GIB..1000).map(|nth| {
                seen.set(seen.get() + 1);
                Ok(ChunkRef {
                    place: if is_zero(nth) {
                        Place::Zeros
                    } else {
                        Place::At(types::ChunkLocation {
                            container: types::ContainerId::from_u64(1).unwrap(),
                            slot: types::Slot::new(0).unwrap(),
                        })
                    },
                    fingerprint: Fingerprint::from_bytes([0; 32]),
                    offset: nth * GIB,
                    len: GIB,
                    skip: 0,
                    chunk_len: GIB,
                })
            });
            let found = first_of(references, 1000 * GIB, from, is_hole_sought).unwrap();
            (found / GIB, seen.get())
        };
        assert_eq!(seek(GIB, &|nth| nth == 3, true), (3, 3));
        assert_eq!(seek(GIB, &|nth| nth == 900, true), (1000, 5));
        assert_eq!(seek(0, &|nth| nth != 900, false), (900, 901));
    }
}
