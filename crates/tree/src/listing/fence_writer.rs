//! Writes fences into pages.
//!
//! A hash of the next path decides where a part of the listing ends, and where a page ends, as a
//! hash of bytes ends chunks. So one entry more or less changes only the parts and pages around it,
//! and the other pages have the same bytes as in the backup before. A reader does not depend on
//! this.

use format::listing::{Branch, FENCES_TRAILER_BYTES, Fence, FencePage};
use format::wire;

/// The lengths at which a hash ends a part or a page.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    /// The shortest length.
    min: u64,
    /// The average length beyond the shortest.
    mean: u64,
    /// The longest length, apart from the last piece.
    max: u64,
}

/// Bytes of a part of the listing.
const PART: Lengths = Lengths {
    min: 32 << 10,
    mean: 32 << 10,
    max: 128 << 10,
};
/// Bytes of the fences of a page.
const PAGE: Lengths = Lengths {
    min: 4 << 10,
    mean: 12 << 10,
    max: 64 << 10,
};

/// The fewest fences of a page, except the last ones: a path may be as long as a page.
const FENCES_MIN: usize = 16;

impl Lengths {
    /// Whether a part or page of `len` bytes ends before a piece of `next` bytes.
    fn end(self, len: u64, next: u64, hash: u32) -> bool {
        let one_in = self.mean.div_ceil(next.max(1));
        len >= self.max || len >= self.min && u64::from(hash).is_multiple_of(one_in)
    }
}

/// Writes the fences of a listing. Memory: one page for each level.
#[derive(Debug, Default)]
pub(super) struct FenceWriter {
    /// The open page of each level.
    levels: Vec<OpenPage>,
    /// The open part of the listing.
    part: Option<Fence>,
}

#[derive(Debug, Default)]
struct OpenPage {
    fences: Vec<Fence>,
    /// About the bytes of its fences.
    len: u64,
    /// Bytes of the written pages below it.
    below_len: u64,
}

impl FenceWriter {
    /// Adds the next entry: its path, and the bytes of its record and of its content.
    pub(super) fn push(&mut self, path: &[u8], listing_len: u64, content_len: u64, out: &mut Vec<u8>) {
        if let Some(part) = &mut self.part
            && !PART.end(part.listing_len, listing_len, hash(path, 0))
        {
            part.listing_len += listing_len;
            part.content_len += content_len;
            return;
        }
        let next = Fence {
            path: path.to_vec(),
            listing_len,
            content_len,
            below: None,
        };
        if let Some(part) = self.part.replace(next) {
            self.make_room(0, &part.path, out);
            self.add(0, part);
        }
    }

    /// Writes the open pages, up to the root, and the trailer. Writes nothing if there was no
    /// entry.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(part) = self.part.take() {
            self.make_room(0, &part.path, out);
            self.add(0, part);
        }
        let mut level = 0;
        while level < self.levels.len() {
            // Closing a page may open one above it. The highest page has several fences, or is of
            // level 0.
            if let Some(page_len) = self.close(level, level + 1 == self.levels.len(), out) {
                let page_len = u32::try_from(page_len).expect("a page is short");
                let trailer: [u8; FENCES_TRAILER_BYTES] = page_len.to_le_bytes();
                out.extend_from_slice(&trailer);
            }
            level += 1;
        }
        self.levels.clear();
    }

    /// Adds a fence to the open page of a level. [`Self::make_room`] has made room for it.
    fn add(&mut self, level: usize, fence: Fence) {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, OpenPage::default);
        }
        let page = &mut self.levels[level];
        page.len += len_of(&fence.path);
        page.below_len += fence.below.map_or(0, |below| below.tree_len);
        page.fences.push(fence);
    }

    /// Ends the open page of a level if it ends before a fence of this path. The page of that fence
    /// is not written yet: a page follows directly after the pages below it.
    fn make_room(&mut self, level: usize, path: &[u8], out: &mut Vec<u8>) {
        let ends = self.levels.get(level).is_some_and(|open| {
            let is_long = open.fences.len() >= FENCES_MIN;
            is_long && PAGE.end(open.len, len_of(path), hash(path, level + 1))
        });
        if ends {
            self.close(level, false, out);
        }
    }

    /// Writes the open page of a level, and a fence for it in the page above. For the root, which
    /// has no page above, it returns the length.
    fn close(&mut self, level: usize, is_root: bool, out: &mut Vec<u8>) -> Option<u64> {
        let path = self.levels[level].fences.first()?.path.clone();
        if !is_root {
            self.make_room(level + 1, &path, out);
        }
        let page = std::mem::take(&mut self.levels[level]);
        let sum = |len: fn(&Fence) -> u64| page.fences.iter().map(len).sum();
        let (listing_len, content_len) = (sum(|fence| fence.listing_len), sum(|fence| fence.content_len));
        let begin = out.len();
        let page_level = u8::try_from(level).expect("sixteen pages have one above them");
        FencePage {
            level: page_level,
            fences: page.fences,
        }
        .encode(out);
        let page_len = (out.len() - begin) as u64;
        if is_root {
            return Some(page_len);
        }
        let above = Fence {
            path,
            listing_len,
            content_len,
            below: Some(Branch {
                page_len,
                tree_len: page.below_len + page_len,
            }),
        };
        self.add(level + 1, above);
        None
    }
}

/// About the bytes of a fence: its path, and its other fields.
fn len_of(path: &[u8]) -> u64 {
    path.len() as u64 + 12
}

/// A hash of the path for parts (0) and for pages of each level. The hashes of the first four are
/// independent.
fn hash(path: &[u8], of: usize) -> u32 {
    let digest = wire::digest(path).to_le_bytes();
    let (words, _) = digest.as_chunks();
    u32::from_le_bytes(words[of.min(3)])
}
