//! Fences: find a path's place in the listing.

use std::io;
use std::ops::Range;

use format::listing::{FENCES_TRAILER_BYTES, FencePage, RECORD_BYTES_MAX};

use crate::{TreeError, order};

/// The bytes to read first, at the end of the stream: the root is there, and all pages of a small
/// tree.
const TAIL_BYTES: u64 = 16 << 10;
/// The longest page: a record and its length.
const PAGE_BYTES_MAX: u64 = RECORD_BYTES_MAX as u64 + 10;
const STREAM: &str = "stream of fences";

/// Returns a range of the fences stream.
pub type ReadRange<'a> = dyn FnMut(Range<u64>) -> io::Result<Vec<u8>> + 'a;

/// Finds paths in a listing by its fences. It reads one page of each level, and keeps the last one
/// of each. So for paths in listing order it reads each page once.
///
/// It trusts fences only if they fit together, and fit the lengths of their stream and of the
/// listing, which the manifest states.
#[derive(Debug)]
pub struct Fences {
    len: u64,
    listing_len: u64,
    /// The end of the stream, once it is read.
    tail: Option<Vec<u8>>,
    /// The pages on the way to the last path, from the root down.
    pages: Vec<Page>,
}

/// A page, and the range that it describes.
#[derive(Debug)]
struct Page {
    /// Where its record ends in the fences stream. This identifies it among the pages below the
    /// same page.
    end: u64,
    listing_offset: u64,
    content_offset: u64,
    page: FencePage,
}

/// Where a part of the listing begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingPlace {
    /// Path of its first entry.
    pub path: Vec<u8>,
    /// The offset of that entry in the listing stream.
    pub listing_offset: u64,
    /// Where that entry's content begins in the content stream. Its lead comes first.
    pub content_offset: u64,
}

/// What a part is sought by.
#[derive(Debug, Clone, Copy)]
enum Sought<'a> {
    /// A path.
    Path(&'a [u8]),
    /// An offset in the listing.
    Offset(u64),
}

/// The facts that a fence states about the page below it.
struct Expected {
    level: Option<u8>,
    path: Option<Vec<u8>>,
    tree: Range<u64>,
    page_len: u64,
    listing: Range<u64>,
    content_offset: u64,
    content_len: Option<u64>,
}

impl Fences {
    /// The fences stream of `len` bytes for a listing of `listing_len`. Reads nothing yet.
    #[must_use]
    pub fn new(len: u64, listing_len: u64) -> Self {
        Self {
            len,
            listing_len,
            tail: None,
            pages: Vec::new(),
        }
    }

    /// The last part that begins with `path` or before it, or else the first one. From there on,
    /// the listing has the path's entry, if there is one, and all entries below it. `None`: the
    /// listing is empty. `read` returns any range of the fences stream.
    ///
    /// # Errors
    /// [`TreeError::Damaged`] if the fences do not fit together; [`TreeError::Stream`].
    pub fn find(&mut self, path: &[u8], read: &mut ReadRange<'_>) -> Result<Option<ListingPlace>, TreeError> {
        self.descend(Sought::Path(path), read)
    }

    /// The last part that begins at this offset of the listing or before it. `None`: the listing is
    /// empty. `read` returns any range of the fences stream.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_offset(
        &mut self,
        offset: u64,
        read: &mut ReadRange<'_>,
    ) -> Result<Option<ListingPlace>, TreeError> {
        self.descend(Sought::Offset(offset), read)
    }

    fn descend(
        &mut self,
        sought: Sought<'_>,
        read: &mut ReadRange<'_>,
    ) -> Result<Option<ListingPlace>, TreeError> {
        if self.listing_len == 0 && self.len == 0 {
            return Ok(None);
        }
        let mut expected = self.root(read)?;
        for depth in 0.. {
            let here = self.pages.get(depth);
            if here.is_none_or(|page| page.end != expected.tree.end) {
                self.pages.truncate(depth);
                let page = self.page(&expected, read)?;
                self.pages.push(page);
            }
            match self.pages[depth].lead(sought, expected.tree.start) {
                Ok(next) => expected = next,
                Err(place) => return Ok(Some(place)),
            }
        }
        unreachable!("a page leads to one of a lower level")
    }

    fn root(&mut self, read: &mut ReadRange<'_>) -> Result<Expected, TreeError> {
        let pages_len = self.len.checked_sub(FENCES_TRAILER_BYTES as u64);
        let pages_len = pages_len.ok_or_else(|| damaged(0, "there are none"))?;
        let trailer = self.read(pages_len..self.len, read)?;
        let trailer = <[u8; FENCES_TRAILER_BYTES]>::try_from(&trailer[..]);
        let page_len = u32::from_le_bytes(trailer.map_err(|_| damaged(pages_len, "they are cut off"))?);
        Ok(Expected {
            level: None,
            path: None,
            tree: 0..pages_len,
            page_len: page_len.into(),
            listing: 0..self.listing_len,
            content_offset: 0,
            content_len: None,
        })
    }

    fn page(&mut self, expected: &Expected, read: &mut ReadRange<'_>) -> Result<Page, TreeError> {
        let Range { start, end } = expected.tree;
        if expected.page_len > PAGE_BYTES_MAX {
            return Err(damaged(end, "a page is longer than a record may be"));
        }
        let begin = end.checked_sub(expected.page_len).filter(|begin| *begin >= start);
        let begin = begin.ok_or_else(|| damaged(end, "a page begins before what is below it"))?;
        let bytes = self.read(begin..end, read)?;
        let (page, len) = match FencePage::decode_one(&bytes) {
            Ok(Some(decoded)) => decoded,
            Ok(None) => return Err(damaged(begin, "a page is cut off")),
            Err(why) => return Err(damaged(begin, why)),
        };
        let fits = len == bytes.len() && expected.fits(&page, begin);
        if !fits {
            return Err(damaged(begin, "a page is not what led to it"));
        }
        Ok(Page {
            end,
            listing_offset: expected.listing.start,
            content_offset: expected.content_offset,
            page,
        })
    }

    fn read(&mut self, range: Range<u64>, read: &mut ReadRange<'_>) -> Result<Vec<u8>, TreeError> {
        let tail_begin = self.len.saturating_sub(TAIL_BYTES);
        if range.start < tail_begin {
            return read_exactly(range, read);
        }
        let tail = match &mut self.tail {
            Some(tail) => tail,
            none => none.insert(read_exactly(tail_begin..self.len, read)?),
        };
        let at = |offset: u64| usize::try_from(offset - tail_begin).unwrap_or(usize::MAX);
        let bytes = tail.get(at(range.start)..at(range.end));
        Ok(bytes.expect("the tail ends where the stream does").to_vec())
    }
}

fn read_exactly(range: Range<u64>, read: &mut ReadRange<'_>) -> Result<Vec<u8>, TreeError> {
    let (offset, len) = (range.start, range.end - range.start);
    let bytes = read(range).map_err(|source| TreeError::Stream {
        stream: STREAM,
        offset,
        source,
    })?;
    if bytes.len() as u64 == len {
        Ok(bytes)
    } else {
        Err(damaged(offset, "they are cut off"))
    }
}

fn damaged(offset: u64, why: impl ToString) -> TreeError {
    TreeError::Damaged {
        stream: STREAM,
        offset,
        why: why.to_string(),
    }
}

impl Expected {
    /// Whether a page that begins at `begin` of the stream is the expected one.
    fn fits(&self, page: &FencePage, begin: u64) -> bool {
        let sum = |len: &dyn Fn(&format::listing::Fence) -> u64| {
            let mut lens = page.fences.iter().map(len);
            lens.try_fold(0u64, u64::checked_add)
        };
        let below = sum(&|fence| fence.below.map_or(0, |below| below.tree_len));
        let pairs = page.fences.windows(2);
        let content_len = sum(&|fence| fence.content_len);
        self.level.is_none_or(|level| level == page.level)
            && below == Some(begin - self.tree.start)
            && sum(&|fence| fence.listing_len) == Some(self.listing.end - self.listing.start)
            && content_len.is_some_and(|len| self.content_len.is_none_or(|expected| expected == len))
            && self.path.as_ref().is_none_or(|path| *path == page.fences[0].path)
            && { pairs }.all(|pair| order::compare(&pair[0].path, &pair[1].path).is_lt())
    }
}

impl Page {
    /// How many fences begin at what is sought, or before it.
    fn fences_upto(&self, sought: Sought<'_>) -> usize {
        let fences = &self.page.fences;
        match sought {
            Sought::Path(path) => fences.partition_point(|fence| order::compare(&fence.path, path).is_le()),
            Sought::Offset(offset) => {
                let mut begin = self.listing_offset;
                let mut begins = fences.iter().map(|fence| {
                    let next = begin + fence.listing_len;
                    std::mem::replace(&mut begin, next)
                });
                begins.position(|begin| begin > offset).unwrap_or(fences.len())
            }
        }
    }

    /// The page below for what is sought, or the part that has it. The pages below this one begin
    /// at `tree_begin`.
    fn lead(&self, sought: Sought<'_>, tree_begin: u64) -> Result<Expected, ListingPlace> {
        let fences = &self.page.fences;
        let upto = self.fences_upto(sought);
        let at = upto.saturating_sub(1);
        let fence = &fences[at];
        // These are sums over the page's fences, which were checked.
        let before = |len: fn(&format::listing::Fence) -> u64| fences[..at].iter().map(len).sum::<u64>();
        let listing_offset = self.listing_offset + before(|fence| fence.listing_len);
        let content_offset = self.content_offset + before(|fence| fence.content_len);
        let Some(below) = fence.below else {
            return Err(ListingPlace {
                path: fence.path.clone(),
                listing_offset,
                content_offset,
            });
        };
        let tree_begin = tree_begin + before(|fence| fence.below.map_or(0, |below| below.tree_len));
        Ok(Expected {
            level: self.page.level.checked_sub(1),
            path: Some(fence.path.clone()),
            tree: tree_begin..tree_begin + below.tree_len,
            page_len: below.page_len,
            listing: listing_offset..listing_offset + fence.listing_len,
            content_offset,
            content_len: Some(fence.content_len),
        })
    }
}
