//! Fences: pages that say where paths begin in the listing.
//!
//! The stream is a tree of pages. Fences of a page of level 0 describe successive parts of the
//! listing. Fences of a higher page describe pages one level below. Each page follows all pages
//! below it, so the last one is the root. The trailer behind it is its length. A fence has lengths
//! and no offset: where nothing changed, a page has the same bytes as in the previous backup.

use crate::error::Result;
use crate::listing::path::path_rules;
use crate::manifest::PATH_BYTES_MAX;
use crate::payload::{Payload, rule};
use crate::wire::{Reader, Writer};

/// The highest level of a page.
pub const FENCE_LEVEL_MAX: u8 = 8;
/// Bytes of the trailer: the length of the last page's record, a little-endian u32.
pub const FENCES_TRAILER_BYTES: usize = 4;

/// A page of fences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FencePage {
    /// 0: its fences describe parts of the listing; else: pages one level below.
    pub level: u8,
    /// The fences in listing order, at least one.
    pub fences: Vec<Fence>,
}

/// One part of the listing, or all parts below a page. Entries never span parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// Path of the first entry.
    pub path: Vec<u8>,
    /// Bytes in the listing stream, at least 1.
    pub listing_len: u64,
    /// Bytes in the content stream, leads of its files included.
    pub content_len: u64,
    /// The page that the fence describes; `None` in a page of level 0.
    pub below: Option<Branch>,
}

/// A page below another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Bytes of the page's record, at least 1.
    pub page_len: u64,
    /// Bytes of that record and of all pages below it, which directly precede it.
    pub tree_len: u64,
}

impl Payload for FencePage {
    const WHAT: &'static str = "page of fences";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.u8(self.level);
        w.list(&self.fences, |w, fence| {
            w.bytes(&fence.path);
            w.varint(fence.listing_len);
            w.varint(fence.content_len);
            if let Some(below) = fence.below {
                w.varint(below.page_len);
                w.varint(below.tree_len.wrapping_sub(below.page_len));
            }
        });
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let too_long = r.fault("the pages below a fence are longer than any stream");
        let level = r.u8()?;
        let fences = r.list(3, |r| {
            Ok(Fence {
                path: r.bytes(PATH_BYTES_MAX)?.to_vec(),
                listing_len: r.varint()?,
                content_len: r.varint()?,
                below: if level == 0 {
                    None
                } else {
                    let (page_len, others) = (r.varint()?, r.varint()?);
                    let tree_len = page_len.checked_add(others).ok_or(too_long.clone())?;
                    Some(Branch { page_len, tree_len })
                },
            })
        })?;
        Ok(Self { level, fences })
    }

    fn rules(&self) -> Result<(), &'static str> {
        rule(self.level <= FENCE_LEVEL_MAX, "a page of fences is too high")?;
        rule(!self.fences.is_empty(), "a page of fences is empty")?;
        for fence in &self.fences {
            path_rules(&fence.path)?;
            rule(fence.listing_len > 0, "a fence stands for nothing")?;
            let fits = match fence.below {
                None => self.level == 0,
                Some(below) => self.level > 0 && 0 < below.page_len && below.page_len <= below.tree_len,
            };
            rule(fits, "a fence leads to no page that there can be")?;
        }
        Ok(())
    }
}
