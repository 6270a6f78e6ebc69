//! The containers of entries, by ordinal: 8 bytes each.
//!
//! Ids are kept in the order of arrival, which is nearly that of age. Ids in order are found by
//! bisection, and the few late ones through a map. If the map grows beyond its limit, ids get new
//! ordinals (the caller rewrites the entries). One thread writes at a time, many read.

use std::collections::BTreeMap;

use types::{ContainerId, ContainerKind, SequenceNumber, SessionId};

use crate::candidates::age_order;
use crate::table::pages::{Full, PAGE_BYTES, Pages};

const PAGE_IDS: usize = PAGE_BYTES / 8;
/// Approximate bytes of an entry in a B-tree map.
const LATE_BYTES: usize = 24;

/// Maps ordinals to containers, and back.
#[derive(Debug, Default)]
pub(crate) struct Ordinals {
    pages: Vec<u32>,
    len: u32,
    /// The number of first ids that are in order of age.
    sorted: u32,
    /// Ordinals of the others, by age.
    late: BTreeMap<u64, u32>,
    late_max: usize,
}

impl Ordinals {
    /// `late_bytes` limits the memory for containers that come late.
    pub(crate) fn new(late_bytes: usize) -> Self {
        Self {
            late_max: late_bytes / LATE_BYTES,
            ..Self::default()
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn page_numbers(&self) -> &[u32] {
        &self.pages
    }

    /// Bytes besides pages.
    pub(crate) fn bytes_beside(&self) -> usize {
        self.pages.capacity() * 4 + self.late.len() * LATE_BYTES
    }

    /// The [age](age_order) of a container; 0 for an ordinal that was never given.
    pub(crate) fn age(&self, pages: &Pages, ordinal: u32) -> u64 {
        let number = self.pages.get(ordinal as usize / PAGE_IDS);
        number.map_or(0, |number| {
            let begin = ordinal as usize % PAGE_IDS * 8;
            let bytes = pages.page(*number)[begin..].first_chunk();
            u64::from_le_bytes(*bytes.expect("an id lies within its page"))
        })
    }

    /// A byte of the line with an ordinal's container.
    pub(crate) fn line<'a>(&'a self, pages: &'a Pages, ordinal: u32) -> &'a u8 {
        let number = self.pages.get(ordinal as usize / PAGE_IDS);
        number.map_or(&0, |number| &pages.page(*number)[ordinal as usize % PAGE_IDS * 8])
    }

    /// The container of an ordinal.
    pub(crate) fn container(&self, pages: &Pages, ordinal: u32) -> Option<ContainerId> {
        (ordinal < self.len).then(|| of_age(self.age(pages, ordinal)))?
    }

    /// The ordinal of a container that has one.
    pub(crate) fn find(&self, pages: &Pages, container: ContainerId) -> Option<u32> {
        let age = age_order(container);
        let (mut low, mut high) = (0, self.sorted);
        while low < high {
            let middle = u32::midpoint(low, high);
            match self.age(pages, middle).cmp(&age) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        self.late.get(&age).copied()
    }

    /// Gives a container an ordinal.
    pub(crate) fn push(&mut self, pages: &mut Pages, container: ContainerId) -> Result<u32, Full> {
        let (ordinal, age) = (self.len, age_order(container));
        let is_in_order = self.sorted == self.len
            && self
                .len
                .checked_sub(1)
                .is_none_or(|last| self.age(pages, last) < age);
        if ordinal as usize / PAGE_IDS >= self.pages.len() {
            let number = pages.take()?;
            self.pages.push(number);
        }
        let begin = ordinal as usize % PAGE_IDS * 8;
        let page = pages.page_mut(self.pages[ordinal as usize / PAGE_IDS]);
        page[begin..begin + 8].copy_from_slice(&age.to_le_bytes());
        self.len += 1;
        if is_in_order {
            self.sorted += 1;
        } else {
            self.late.insert(age, ordinal);
        }
        Ok(ordinal)
    }

    /// Restores `len` containers from pages. Returns false if there are too few pages.
    pub(crate) fn load(&mut self, pages: &Pages, page_numbers: Vec<u32>, len: u32) -> bool {
        if (len as usize).div_ceil(PAGE_IDS) != page_numbers.len() {
            return false;
        }
        (self.pages, self.len) = (page_numbers, len);
        let in_order = (1..len).take_while(|n| self.age(pages, n - 1) < self.age(pages, *n));
        self.sorted = u32::try_from(in_order.count()).expect("fewer than containers") + len.min(1);
        self.late = (self.sorted..len).map(|n| (self.age(pages, n), n)).collect();
        true
    }

    /// Whether containers should get new ordinals before another one is added.
    pub(crate) fn is_out_of_order(&self) -> bool {
        self.late.len() >= self.late_max
    }

    /// Gives new ordinals, in order of age, to the containers for which `keep` is true. Returns the
    /// new ordinal of each old one. Takes 24 bytes for each container meanwhile.
    pub(crate) fn renumber(
        &mut self,
        pages: &mut Pages,
        mut keep: impl FnMut(u32, ContainerId) -> bool,
    ) -> Vec<Option<u32>> {
        let mut kept: Vec<(u64, u32)> = Vec::new();
        for ordinal in 0..self.len {
            if let Some(container) = self.container(pages, ordinal)
                && keep(ordinal, container)
            {
                kept.push((age_order(container), ordinal));
            }
        }
        kept.sort_unstable();
        let mut new = vec![None; self.len as usize];
        for page in self.pages.split_off(kept.len().div_ceil(PAGE_IDS)) {
            pages.give_back(page);
        }
        self.late.clear();
        self.len = 0;
        for (age, old) in kept {
            new[old as usize] = Some(self.len);
            let begin = self.len as usize % PAGE_IDS * 8;
            let page = pages.page_mut(self.pages[self.len as usize / PAGE_IDS]);
            page[begin..begin + 8].copy_from_slice(&age.to_le_bytes());
            self.len += 1;
        }
        self.sorted = self.len;
        new
    }
}

/// The inverse of [`age_order`].
fn of_age(age: u64) -> Option<ContainerId> {
    Some(ContainerId {
        session: SessionId::new(age >> 27).ok()?,
        kind: ContainerKind::from_number(u8::try_from(age & 7).ok()?)?,
        sequence: SequenceNumber::new(u32::try_from((age >> 3) & 0xff_ffff).ok()?).ok()?,
    })
}
