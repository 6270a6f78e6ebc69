//! A pool of pages of one size, the memory of the index in memory [Guo 3.2.3]. It also counts the
//! bytes of the structures that name pages.
//!
//! Invariant: no more pages are in use than the budget allows. Memory grows by a slab, never by
//! copying pages. It uses huge pages if there is much of it (decision 17), because look-ups are
//! random. A page is named by its number, so structures made of pages have no pointers, and can be
//! written to storage unchanged. One thread at a time may write, and many may read.

use std::ops::{Deref, DerefMut};

use env::AlignedBuffer;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 2048;
/// Pages of a slab, the step in which memory grows: 64 KiB, or a huge page of the usual processors
/// if the budget has many.
const SLAB_PAGES: usize = 32;
const HUGE_SLAB_PAGES: usize = 1024;
/// From a budget of so many pages, 64 MiB, slabs are huge: at most a 32nd of it is allocated before
/// it is needed.
const HUGE_SLABS_FROM: usize = 32 * HUGE_SLAB_PAGES;

/// A page's bytes.
pub(crate) type Page = [u8; PAGE_BYTES];

/// The budget has no page left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Memory of pages, or of structures that name pages.
#[derive(Debug)]
pub(crate) enum Slab {
    Small(Box<[u8]>),
    Huge(AlignedBuffer),
}

impl Slab {
    /// A slab of zeros.
    pub(crate) fn new(bytes: usize) -> Self {
        if bytes < HUGE_SLAB_PAGES * PAGE_BYTES {
            return Self::Small(vec![0; bytes].into_boxed_slice());
        }
        let mut buffer = AlignedBuffer::with_capacity(bytes);
        buffer.grow_to(bytes);
        Self::Huge(buffer)
    }
}

impl Deref for Slab {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Huge(buffer) => buffer,
        }
    }
}

impl DerefMut for Slab {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Huge(buffer) => buffer,
        }
    }
}

/// All pages of an index.
#[derive(Debug)]
pub(crate) struct Pages {
    slabs: Vec<Slab>,
    /// Binary logarithm of a slab's pages.
    slab_bits: u32,
    free: Vec<u32>,
    in_use: usize,
    pages_max: usize,
    /// Bytes for naming pages: the most, and those in use.
    beside_max: usize,
    beside: usize,
}

impl Pages {
    /// A pool of at most `pages_max` pages, and at most `beside_max` bytes for naming them.
    pub(crate) fn new(pages_max: usize, beside_max: usize) -> Self {
        let slab_pages = if pages_max < HUGE_SLABS_FROM {
            SLAB_PAGES
        } else {
            HUGE_SLAB_PAGES
        };
        Self {
            slabs: Vec::new(),
            slab_bits: slab_pages.trailing_zeros(),
            free: Vec::new(),
            in_use: 0,
            pages_max,
            beside_max,
            beside: 0,
        }
    }

    /// Takes a page. It may have old content.
    pub(crate) fn take(&mut self) -> Result<u32, Full> {
        if self.in_use >= self.pages_max {
            return Err(Full);
        }
        self.in_use += 1;
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        let first = self.allocated();
        self.push_slab();
        let numbers = (first..self.allocated()).rev();
        self.free
            .extend(numbers.map(|number| u32::try_from(number).expect("8 TiB of pages")));
        Ok(self.free.pop().expect("a slab has pages"))
    }

    /// Adds a slab. The last one may be shorter, by the budget.
    fn push_slab(&mut self) -> &mut [u8] {
        let pages = (1 << self.slab_bits).min(self.pages_max - self.allocated());
        self.slabs.push_mut(Slab::new(pages * PAGE_BYTES))
    }

    /// Takes bytes for naming pages.
    pub(crate) fn take_beside(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes > self.beside_max - self.beside {
            return Err(Full);
        }
        self.beside += bytes;
        Ok(())
    }

    /// Gives bytes for naming pages back.
    pub(crate) fn give_back_beside(&mut self, bytes: usize) {
        self.beside -= bytes;
    }

    /// Bytes left for naming pages.
    pub(crate) fn free_beside(&self) -> usize {
        self.beside_max - self.beside
    }

    /// Gives a page back.
    pub(crate) fn give_back(&mut self, number: u32) {
        self.in_use -= 1;
        self.free.push(number);
    }

    /// A page's slab, and its offset in the slab.
    fn place(&self, number: u32) -> (usize, usize) {
        let in_slab = number & ((1 << self.slab_bits) - 1);
        ((number >> self.slab_bits) as usize, in_slab as usize * PAGE_BYTES)
    }

    pub(crate) fn page(&self, number: u32) -> &Page {
        let (slab, begin) = self.place(number);
        self.slabs[slab][begin..]
            .first_chunk()
            .expect("slabs are whole pages")
    }

    pub(crate) fn page_mut(&mut self, number: u32) -> &mut Page {
        let (slab, begin) = self.place(number);
        self.slabs[slab][begin..]
            .first_chunk_mut()
            .expect("slabs are whole pages")
    }

    pub(crate) fn in_use(&self) -> usize {
        self.in_use
    }

    pub(crate) fn free(&self) -> usize {
        self.pages_max - self.in_use
    }

    /// Pages with allocated memory.
    pub(crate) fn allocated(&self) -> usize {
        self.slabs.iter().map(|slab| slab.len() / PAGE_BYTES).sum()
    }

    pub(crate) fn pages_max(&self) -> usize {
        self.pages_max
    }

    /// All pages in stretches of 64 KiB, or of all pages if there are fewer: for writing them out.
    pub(crate) fn stretches(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.slabs.iter().flat_map(|slab| stretches_of(slab))
    }

    /// Whether so many bytes are whole stretches of this pool.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        let pages = bytes / PAGE_BYTES;
        let is_whole = pages.is_multiple_of(SLAB_PAGES) || pages == self.pages_max;
        bytes.is_multiple_of(PAGE_BYTES) && pages <= self.pages_max && is_whole
    }

    /// Loads pages into an empty pool. They must [fit](Self::fits).
    pub(crate) fn load(&mut self, pages: &[u8]) {
        for of_slab in pages.chunks(PAGE_BYTES << self.slab_bits) {
            self.push_slab()[..of_slab.len()].copy_from_slice(of_slab);
        }
    }

    /// Sets which of the loaded pages are in use.
    pub(crate) fn set_in_use(&mut self, in_use: &[bool]) {
        let numbered = (0..).zip(in_use).filter(|(_, in_use)| !**in_use);
        self.free = numbered.map(|(number, _)| number).collect();
        self.in_use = in_use.len() - self.free.len();
    }

    /// Bytes allocated, used or not.
    pub(crate) fn bytes(&self) -> usize {
        self.allocated() * PAGE_BYTES + self.free.capacity() * 4 + self.slabs.capacity() * size_of::<Slab>()
    }
}

/// Pages in the stretches of [`Pages::stretches`].
pub(crate) fn stretches_of(pages: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    pages.chunks(SLAB_PAGES * PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Every page is given once, whether slabs are small or huge, and whether pages were loaded
    /// before or not. The last slab is short.
    #[test]
    fn every_page_of_the_budget_is_given_once() {
        for pages_max in [
            5,
            SLAB_PAGES,
            3 * SLAB_PAGES + 1,
            HUGE_SLABS_FROM,
            HUGE_SLABS_FROM + 77,
        ] {
            for taken_back in [0, SLAB_PAGES] {
                let mut pages = Pages::new(pages_max, 0);
                let old = vec![9; taken_back.min(pages_max) * PAGE_BYTES];
                assert!(pages.fits(old.len()) && !pages.fits(old.len() + 1));
                pages.load(&old);
                let mut in_use = vec![false; pages.allocated()];
                in_use
                    .iter_mut()
                    .take(old.len() / PAGE_BYTES)
                    .for_each(|used| *used = true);
                pages.set_in_use(&in_use);
                let mut given: BTreeSet<u32> =
                    (0..pages.in_use()).map(|n| u32::try_from(n).unwrap()).collect();
                assert!(given.iter().all(|number| *pages.page(*number) == [9; PAGE_BYTES]));
                while let Ok(number) = pages.take() {
                    assert!(given.insert(number), "{number} twice");
                    pages.page_mut(number)[7] = 1;
                }
                assert_eq!(
                    (given.len(), pages.allocated(), pages.free()),
                    (pages_max, pages_max, 0)
                );
                let bytes: usize = pages.stretches().map(<[u8]>::len).sum();
                assert_eq!(bytes, pages_max * PAGE_BYTES);
                assert!(pages.fits(bytes));
                pages.give_back(3);
                assert_eq!(pages.take(), Ok(3));
            }
        }
    }
}
