//! Encoded slots of many containers: a few bytes for each container, read from front to back.
//!
//! Memory holds the marks of a large store in this form. Decoded, they would be twenty times as
//! large. A list is made only by pushing ascending containers, or by decoding, so its content
//! follows the rules.

use types::{ContainerId, Slot, SlotRange};

use super::{ContainerSlots, are_apart};
use crate::error::Result;
use crate::wire::{Reader, Writer};

/// Encoded slots by container, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlotList {
    containers: u64,
    last: Option<ContainerId>,
    bytes: Vec<u8>,
}

impl SlotList {
    /// Appends a container's slots. No ranges mean the whole container.
    ///
    /// # Panics
    /// If the container is not above the previous one, or if the ranges are not sorted or are
    /// adjacent. Then the caller's merging is broken.
    pub fn push(&mut self, container: ContainerId, slots: &[SlotRange]) {
        assert!(self.last < Some(container), "containers are pushed in order");
        assert!(are_apart(slots), "slots are sorted and merged");
        let mut previous = self.last.map_or(0, ContainerId::to_u64);
        write_entry(&mut Writer::new(&mut self.bytes), &mut previous, container, slots);
        self.last = Some(container);
        self.containers += 1;
    }

    /// The number of containers.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.containers
    }

    /// Whether the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.containers == 0
    }

    /// Memory of the list.
    #[must_use]
    pub fn bytes_in_memory(&self) -> u64 {
        self.bytes.capacity() as u64
    }

    /// A reader at the first container.
    #[must_use]
    pub fn cursor(&self) -> SlotCursor<'_> {
        SlotCursor {
            reader: Reader::new(WHAT, &self.bytes),
            left: self.containers,
            previous: 0,
            ranges: Vec::new(),
        }
    }

    /// The decoded containers.
    pub fn iter(&self) -> impl Iterator<Item = ContainerSlots> + '_ {
        let mut cursor = self.cursor();
        std::iter::from_fn(move || {
            let (container, ranges) = cursor.next()?;
            let slots = (!ranges.is_empty()).then(|| ranges.to_vec());
            Some(ContainerSlots { container, slots })
        })
    }

    pub(super) fn write(&self, w: &mut Writer<'_>) {
        w.varint(self.containers);
        w.put(&self.bytes);
    }

    /// Accepts exactly what [`Self::write`] writes.
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self> {
        let containers = r.count(2)?;
        let (mut entries, begin) = (r.clone(), r.position());
        let (mut last, mut previous, mut ranges) = (None, 0, Vec::new());
        for _ in 0..containers {
            let wrong = r.fault("the containers are not sorted, or slots are not sorted or not merged");
            ranges.clear();
            let container = read_entry(r, &mut previous, &mut ranges)?;
            if last >= Some(container) || !are_apart(&ranges) {
                return Err(wrong);
            }
            last = Some(container);
        }
        // A number has one encoding, so pushing would make the same bytes.
        let bytes = entries.take(r.position() - begin)?.to_vec();
        Ok(Self {
            containers: containers as u64,
            last,
            bytes,
        })
    }
}

impl FromIterator<ContainerSlots> for SlotList {
    fn from_iter<I: IntoIterator<Item = ContainerSlots>>(entries: I) -> Self {
        let mut list = Self::default();
        for entry in entries {
            list.push(entry.container, entry.slots.as_deref().unwrap_or_default());
        }
        list
    }
}

/// Reads a list from front to back, in reused memory.
#[derive(Debug, Clone)]
pub struct SlotCursor<'a> {
    reader: Reader<'a>,
    left: u64,
    previous: u64,
    ranges: Vec<SlotRange>,
}

impl SlotCursor<'_> {
    /// The next container and its slots. No ranges mean the whole container.
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows from it")]
    pub fn next(&mut self) -> Option<(ContainerId, &[SlotRange])> {
        self.left = self.left.checked_sub(1)?;
        self.ranges.clear();
        let read = read_entry(&mut self.reader, &mut self.previous, &mut self.ranges);
        let container = read.expect("a list was encoded here, or checked when it was decoded");
        Some((container, &self.ranges))
    }
}

const WHAT: &str = "list of slots";

pub(super) fn write_entry(
    w: &mut Writer<'_>,
    previous: &mut u64,
    container: ContainerId,
    slots: &[SlotRange],
) {
    let id = container.to_u64();
    w.varint(id.wrapping_sub(*previous));
    *previous = id;
    let mut end = 0;
    w.list(slots, |w, range| {
        w.varint32(range.first().get().wrapping_sub(end));
        w.varint32(range.count());
        end = range.end();
    });
}

pub(super) fn read_entry(
    r: &mut Reader<'_>,
    previous: &mut u64,
    ranges: &mut Vec<SlotRange>,
) -> Result<ContainerId> {
    let wrong = r.fault("there is no such container id");
    let id = r.varint()?.checked_add(*previous);
    let container = id.and_then(ContainerId::from_u64).ok_or(wrong)?;
    *previous = container.to_u64();
    let mut end = 0u32;
    for _ in 0..r.count(2)? {
        let wrong = r.fault("a slot range is empty or out of range");
        let first = r
            .varint32()?
            .checked_add(end)
            .and_then(|first| Slot::new(first).ok());
        let count = r.varint32()?;
        let range = first
            .and_then(|first| SlotRange::new(first, count))
            .ok_or(wrong)?;
        end = range.end();
        ranges.push(range);
    }
    Ok(container)
}
