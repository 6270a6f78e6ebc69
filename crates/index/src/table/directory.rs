//! The directory: the pages of each segment of a table, in order.
//!
//! ```text
//! line of 64 bytes   6 pages of 10: number u32, first tag u32, count u16; first tag of the next
//! line's first page, u32
//! ```
//!
//! A line is a cache line of the processor. The first lines of all segments are adjacent, then all
//! second lines, and so on up to the longest segment. So the address of the line with a segment's
//! page is known without following a pointer. The line also has the end of the page. Segments have
//! nearly the same length, so little of the last lines is empty.
//!
//! Invariant: the last tag of a line is the first of the next line's first page. A segment that is
//! much longer than others adds lines for all of them. A caller that adds pages asks for the cost,
//! and may refuse. Values only; the table gives them their meaning.

use crate::table::pages::Slab;

const LINE_BYTES: usize = 64;
const REF_BYTES: usize = 10;
/// Pages of a line.
const LINE_REFS: usize = 6;
/// Offset in a line of the next line's first tag.
const NEXT_FIRST: usize = LINE_REFS * REF_BYTES;

/// A page of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRef {
    pub(crate) number: u32,
    /// The page's first tag.
    pub(crate) first: u32,
    pub(crate) count: u16,
}

/// The pages of all segments.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Number of pages of each segment.
    lens: Vec<u16>,
    /// Layers of lines: each has one line of each segment.
    layers: Vec<Slab>,
}

impl Directory {
    pub(crate) fn new(segments: usize) -> Self {
        Self {
            lens: vec![0; segments],
            layers: Vec::new(),
        }
    }

    pub(crate) fn segments(&self) -> usize {
        self.lens.len()
    }

    /// Number of a segment's pages.
    pub(crate) fn len(&self, segment: usize) -> usize {
        self.lens[segment].into()
    }

    /// Number of all pages.
    pub(crate) fn pages(&self) -> usize {
        self.lens.iter().map(|len| usize::from(*len)).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        let layers: usize = self.layers.iter().map(|layer| layer.len()).sum();
        self.lens.capacity() * 2 + self.layers.capacity() * size_of::<Slab>() + layers
    }

    fn line(&self, segment: usize, at: usize) -> &[u8; LINE_BYTES] {
        let line = self.layers[at / LINE_REFS][segment * LINE_BYTES..].first_chunk();
        line.expect("a layer has a line of each segment")
    }

    fn line_mut(&mut self, segment: usize, at: usize) -> &mut [u8; LINE_BYTES] {
        let line = self.layers[at / LINE_REFS][segment * LINE_BYTES..].first_chunk_mut();
        line.expect("a layer has a line of each segment")
    }

    /// The page at this position of the segment, if it exists.
    pub(crate) fn get(&self, segment: usize, at: usize) -> Option<PageRef> {
        (at < self.len(segment)).then(|| {
            let begin = at % LINE_REFS * REF_BYTES;
            let bytes = self.line(segment, at)[begin..].first_chunk();
            let [n0, n1, n2, n3, f0, f1, f2, f3, c0, c1]: [u8; REF_BYTES] =
                *bytes.expect("a page stands within its line");
            PageRef {
                number: u32::from_le_bytes([n0, n1, n2, n3]),
                first: u32::from_le_bytes([f0, f1, f2, f3]),
                count: u16::from_le_bytes([c0, c1]),
            }
        })
    }

    /// The first tag of the next page of the segment, if there is one. It is in the same line.
    pub(crate) fn next_first(&self, segment: usize, at: usize) -> Option<u32> {
        (at + 1 < self.len(segment)).then(|| {
            let in_line = at % LINE_REFS + 1;
            let begin = if in_line == LINE_REFS {
                NEXT_FIRST
            } else {
                in_line * REF_BYTES + 4
            };
            let bytes = self.line(segment, at)[begin..].first_chunk();
            u32::from_le_bytes(*bytes.expect("a tag stands within its line"))
        })
    }

    /// A byte of the line with this page, even if the page does not exist.
    pub(crate) fn expected_line(&self, segment: usize, at: usize) -> &u8 {
        let layer = self.layers.get(at / LINE_REFS);
        layer.map_or(&0, |layer| &layer[segment * LINE_BYTES])
    }

    /// A segment's pages.
    pub(crate) fn row(&self, segment: usize) -> impl Iterator<Item = PageRef> {
        (0..self.len(segment)).map_while(move |at| self.get(segment, at))
    }

    /// Replaces a page.
    pub(crate) fn set(&mut self, segment: usize, at: usize, page: PageRef) {
        assert!(at < self.len(segment), "there is a page to replace");
        let begin = at % LINE_REFS * REF_BYTES;
        let bytes = &mut self.line_mut(segment, at)[begin..begin + REF_BYTES];
        bytes[..4].copy_from_slice(&page.number.to_le_bytes());
        bytes[4..8].copy_from_slice(&page.first.to_le_bytes());
        bytes[8..].copy_from_slice(&page.count.to_le_bytes());
        if at > 0 && at.is_multiple_of(LINE_REFS) {
            self.line_mut(segment, at - 1)[NEXT_FIRST..].copy_from_slice(&page.first.to_le_bytes());
        }
    }

    /// Bytes that another page of a segment takes.
    pub(crate) fn bytes_to_push(&self, segment: usize) -> usize {
        self.bytes_to_have(self.len(segment) + 1)
    }

    /// Additional bytes that the directory takes for a segment of so many pages.
    pub(crate) fn bytes_to_have(&self, len: usize) -> usize {
        let more = len.div_ceil(LINE_REFS).saturating_sub(self.layers.len());
        more * (self.lens.len() * LINE_BYTES + size_of::<Slab>())
    }

    /// Adds a page behind the others of a segment.
    pub(crate) fn push(&mut self, segment: usize, page: PageRef) {
        let at = self.len(segment);
        if at / LINE_REFS == self.layers.len() {
            self.layers.reserve_exact(1);
            self.layers.push(Slab::new(self.lens.len() * LINE_BYTES));
        }
        self.lens[segment] = u16::try_from(at + 1).expect("lines of so many pages are beyond any budget");
        self.set(segment, at, page);
    }

    /// Removes the pages of a segment from a position on.
    pub(crate) fn truncate(&mut self, segment: usize, len: usize) {
        if len < self.len(segment) {
            self.lens[segment] = u16::try_from(len).expect("less than it was");
        }
    }

    /// Frees lines that no segment uses any more.
    pub(crate) fn shrink(&mut self) {
        let longest = self.lens.iter().copied().max().unwrap_or(0);
        self.layers.truncate(usize::from(longest).div_ceil(LINE_REFS));
        self.layers.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEGMENTS: usize = 3;

    #[derive(Debug, Clone)]
    enum Step {
        Push(usize, PageRef),
        Set(usize, usize, PageRef),
        Truncate(usize, usize),
        Shrink,
    }

    fn page() -> impl Strategy<Value = PageRef> {
        any::<(u32, u32, u16)>().prop_map(|(number, first, count)| PageRef { number, first, count })
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            12 => (0..SEGMENTS, page()).prop_map(|(segment, page)| Step::Push(segment, page)),
            6 => (0..SEGMENTS, any::<usize>(), page()).prop_map(|(segment, at, page)| Step::Set(segment, at, page)),
            1 => (0..SEGMENTS, 0..40_usize).prop_map(|(segment, len)| Step::Truncate(segment, len)),
            1 => Just(Step::Shrink),
        ];
        prop::collection::vec(step, 0..200)
    }

    proptest! {
        /// After any steps, it equals lists of pages. After it was shrunk, it has no more lines
        /// than the longest segment needs.
        #[test]
        fn the_directory_is_a_list_for_each_segment(steps in steps()) {
            let mut directory = Directory::new(SEGMENTS);
            let mut lists = vec![Vec::new(); SEGMENTS];
            for step in steps {
                match step {
                    Step::Push(segment, page) => {
                        let expected = directory.bytes() + directory.bytes_to_push(segment);
                        directory.push(segment, page);
                        prop_assert_eq!(directory.bytes(), expected);
                        lists[segment].push(page);
                    }
                    Step::Set(segment, at, page) => {
                        let list = &mut lists[segment];
                        if !list.is_empty() {
                            let at = at % list.len();
                            directory.set(segment, at, page);
                            list[at] = page;
                        }
                    }
                    Step::Truncate(segment, len) => {
                        directory.truncate(segment, len);
                        lists[segment].truncate(len);
                    }
                    Step::Shrink => {
                        directory.shrink();
                        let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
                        prop_assert_eq!(directory.layers.len(), longest.div_ceil(LINE_REFS));
                    }
                }
                for (segment, list) in lists.iter().enumerate() {
                    prop_assert_eq!(&directory.row(segment).collect::<Vec<_>>(), list);
                    for at in 0..=list.len() {
                        let next = list.get(at + 1).map(|page| page.first);
                        prop_assert_eq!(directory.next_first(segment, at), next, "page {} of {}", at, segment);
                        prop_assert_eq!(directory.get(segment, at), list.get(at).copied());
                    }
                }
                let full = lists.iter().map(|list| directory.bytes_to_have(list.len())).max();
                prop_assert_eq!(full, Some(0), "what is there has its lines");
                prop_assert_eq!(directory.pages(), lists.iter().map(Vec::len).sum::<usize>());
            }
        }
    }
}
