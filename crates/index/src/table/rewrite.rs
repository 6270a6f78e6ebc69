//! Packs all entries of a table again: in slots of another size, without some entries, or with
//! other ordinals.
//!
//! Invariant: there is room for everything before the first page is changed, so that nothing fails
//! halfway.

use crate::table::directory::PageRef;
use crate::table::hook_table::{HookTable, first_of, pages_for};
use crate::table::pages::{Full, Pages};
use crate::table::slots::{Entry, Rank, SlotLayout};

impl HookTable {
    /// Whether there is room for the pages of all entries packed again, and for naming them.
    fn has_room_for(&self, layout: SlotLayout, pages: &Pages) -> bool {
        let (mut more, mut longest) = (0, 0);
        for segment in 0..self.segments.segments() {
            let wanted = self.held(segment).div_ceil(layout.slots());
            more += wanted.saturating_sub(self.segments.len(segment));
            longest = longest.max(wanted);
        }
        more <= pages.free() && self.segments.bytes_to_have(longest) <= pages.free_beside()
    }

    /// Packs all entries again. `change` returns the new entry of each, or `None` to drop it. The
    /// tag may become shorter.
    ///
    /// # Errors
    /// [`Full`] if the pool does not have enough pages; then nothing is changed. This cannot happen
    /// if slots do not become larger.
    pub(crate) fn rewrite(
        &mut self,
        pages: &mut Pages,
        layout: SlotLayout,
        mut change: impl FnMut(Entry) -> Option<Entry>,
    ) -> Result<(), Full> {
        if !self.has_room_for(layout, pages) {
            return Err(Full);
        }
        let old = std::mem::replace(&mut self.layout, layout);
        let shorter = old.tag_bits - layout.tag_bits;
        self.ranks = [0; Rank::ALL];
        let mut kept = Vec::new();
        for segment in 0..self.segments.segments() {
            for page in self.segments.row(segment) {
                let bytes = pages.page(page.number);
                let entries = (0..usize::from(page.count)).map(|at| old.entry(bytes, at));
                kept.extend(entries.filter_map(&mut change).map(|entry| Entry {
                    tag: entry.tag >> shorter,
                    ..entry
                }));
            }
            let wanted = pages_for(kept.len(), layout);
            for page in self.segments.row(segment).skip(wanted) {
                pages.give_back(page.number);
            }
            self.segments.truncate(segment, wanted);
            while self.segments.len(segment) < kept.len().div_ceil(layout.slots()) {
                self.append_page(pages, segment)?;
            }
            self.fill(pages, segment, &kept);
            kept.clear();
        }
        let before = self.segments.bytes();
        self.segments.shrink();
        pages.give_back_beside(before - self.segments.bytes());
        Ok(())
    }

    fn fill(&mut self, pages: &mut Pages, segment: usize, entries: &[Entry]) {
        let len = self.segments.len(segment);
        let mut rest = entries;
        for at in 0..len {
            let (here, back) = rest.split_at(rest.len().div_ceil(len - at));
            let number = self.page_at(segment, at).number;
            let page = pages.page_mut(number);
            for (slot, entry) in here.iter().enumerate() {
                self.layout.set(page, slot, *entry);
            }
            let page = PageRef {
                number,
                first: here.first().map_or(u32::MAX, |entry| first_of(entry.tag)),
                count: u16::try_from(here.len()).expect("a page has few slots"),
            };
            self.segments.set(segment, at, page);
            rest = back;
        }
        for entry in entries {
            self.ranks[entry.rank.number()] += 1;
        }
    }
}
