//! A pool of pages of one size: all memory of the in-memory index comes from here [Guo 3.2.3].
//!
//! What must hold: no more pages are in use than the budget allows; memory grows by a slab, never by copying
//! what is there; a page is named by its number, so whatever is made of pages has no pointers and can be
//! written to storage as it stands. Used by one thread at a time for writing, by many for reading.

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 2048;
/// Pages of a slab: the step in which memory grows.
const SLAB_PAGES: usize = 32;

/// A page's bytes.
pub(crate) type Page = [u8; PAGE_BYTES];

/// The budget has no page left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// All pages of an index.
#[derive(Debug)]
pub(crate) struct Pages {
    slabs: Vec<Box<[Page]>>,
    free: Vec<u32>,
    in_use: usize,
    pages_max: usize,
}

impl Pages {
    pub(crate) fn new(pages_max: usize) -> Self {
        Self {
            slabs: Vec::new(),
            free: Vec::new(),
            in_use: 0,
            pages_max,
        }
    }

    /// Takes a page; what it holds is left over from before.
    pub(crate) fn take(&mut self) -> Result<u32, Full> {
        if self.in_use >= self.pages_max {
            return Err(Full);
        }
        self.in_use += 1;
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        let first = self.slabs.len() * SLAB_PAGES;
        // The last slab is as small as the budget.
        let pages = SLAB_PAGES.min(self.pages_max - first);
        self.slabs.push(vec![[0; PAGE_BYTES]; pages].into_boxed_slice());
        let numbers = (first..first + pages).rev();
        self.free
            .extend(numbers.map(|number| u32::try_from(number).expect("8 TiB of pages")));
        Ok(self.free.pop().expect("a slab has pages"))
    }

    /// Gives a page back.
    pub(crate) fn give_back(&mut self, number: u32) {
        self.in_use -= 1;
        self.free.push(number);
    }

    pub(crate) fn page(&self, number: u32) -> &Page {
        &self.slabs[number as usize / SLAB_PAGES][number as usize % SLAB_PAGES]
    }

    pub(crate) fn page_mut(&mut self, number: u32) -> &mut Page {
        &mut self.slabs[number as usize / SLAB_PAGES][number as usize % SLAB_PAGES]
    }

    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }

    pub(crate) fn free(&self) -> usize {
        self.pages_max - self.in_use
    }

    /// Pages that have memory.
    pub(crate) fn allocated(&self) -> usize {
        self.slabs.iter().map(|slab| slab.len()).sum()
    }

    pub(crate) fn pages_max(&self) -> usize {
        self.pages_max
    }

    /// The slabs, for writing them out.
    pub(crate) fn slabs(&self) -> impl Iterator<Item = &[Page]> + Clone {
        self.slabs.iter().map(|slab| &**slab)
    }

    /// Whether so many bytes are some slabs of this pool.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        let pages = bytes / PAGE_BYTES;
        let is_whole = pages.is_multiple_of(SLAB_PAGES) || pages == self.pages_max;
        bytes.is_multiple_of(PAGE_BYTES) && pages <= self.pages_max && is_whole
    }

    /// Pages as slabs, as [`Self::slabs`] gave them.
    pub(crate) fn slabs_of<'a>(&self, pages: &'a [Page]) -> impl Iterator<Item = &'a [Page]> {
        pages.chunks(SLAB_PAGES)
    }

    /// Takes pages back into an empty pool that they [fit](Self::fits).
    pub(crate) fn load(&mut self, pages: &[Page]) {
        self.slabs = pages.chunks(SLAB_PAGES).map(Box::from).collect();
    }

    /// Says which of the pages taken back are in use.
    pub(crate) fn set_in_use(&mut self, in_use: &[bool]) {
        let numbered = (0..).zip(in_use).filter(|(_, in_use)| !**in_use);
        self.free = numbered.map(|(number, _)| number).collect();
        self.in_use = in_use.len() - self.free.len();
    }

    /// Bytes allocated, used or not.
    pub(crate) fn bytes(&self) -> usize {
        self.allocated() * PAGE_BYTES + self.free.capacity() * 4 + self.slabs.capacity() * 16
    }
}
