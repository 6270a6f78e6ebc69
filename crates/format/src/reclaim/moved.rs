//! Containers whose slots another has taken over, and containers that are small enough to be.

use std::collections::BTreeSet;

use types::{ContainerId, Slot, SlotRange};

use crate::error::Result;
use crate::payload::rule;
use crate::wire::{Reader, Writer};

/// A container that was merged into another: its slots, and where they are now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// The container.
    pub from: ContainerId,
    /// How many slots of it may be referred to, from 0 on; at least 1.
    pub count: u32,
    /// The container that has them now; of the same kind, and never moved itself.
    pub to: ContainerId,
    /// Where slot 0 is there; the others follow.
    pub first_here: Slot,
    /// Whether executing this list moves them; else an earlier one has.
    pub is_new: bool,
}

impl Moved {
    /// The slots here that are those of `from`.
    #[must_use]
    pub fn here(&self) -> Option<SlotRange> {
        SlotRange::new(self.first_here, self.count)
    }
}

/// A container that may be merged with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmallContainer {
    /// The container.
    pub container: ContainerId,
    /// Stored bytes of one copy, about.
    pub stored_bytes: u64,
}

pub(super) fn write_moved(w: &mut Writer<'_>, moved: &[Moved]) {
    let mut previous = 0;
    w.list(moved, |w, moved| {
        write_id(w, &mut previous, moved.from);
        w.varint32(moved.count);
        w.container(moved.to);
        w.slot(moved.first_here);
        w.flag(moved.is_new);
    });
}

pub(super) fn read_moved(r: &mut Reader<'_>) -> Result<Vec<Moved>> {
    let mut previous = 0;
    r.list(12, |r| {
        Ok(Moved {
            from: read_id(r, &mut previous)?,
            count: r.varint32()?,
            to: r.container()?,
            first_here: r.slot()?,
            is_new: r.flag()?,
        })
    })
}

pub(super) fn write_small(w: &mut Writer<'_>, small: &[SmallContainer]) {
    let mut previous = 0;
    w.list(small, |w, small| {
        write_id(w, &mut previous, small.container);
        w.varint(small.stored_bytes);
    });
}

pub(super) fn read_small(r: &mut Reader<'_>) -> Result<Vec<SmallContainer>> {
    let mut previous = 0;
    r.list(2, |r| {
        Ok(SmallContainer {
            container: read_id(r, &mut previous)?,
            stored_bytes: r.varint()?,
        })
    })
}

fn write_id(w: &mut Writer<'_>, previous: &mut u64, id: ContainerId) {
    w.varint(id.to_u64().wrapping_sub(*previous));
    *previous = id.to_u64();
}

fn read_id(r: &mut Reader<'_>, previous: &mut u64) -> Result<ContainerId> {
    let wrong = r.fault("there is no such container id");
    let id = r.varint()?.checked_add(*previous).and_then(ContainerId::from_u64);
    let id = id.ok_or(wrong)?;
    *previous = id.to_u64();
    Ok(id)
}

pub(super) fn moved_rules(moved: &[Moved]) -> Result<(), &'static str> {
    let sorted = moved.windows(2).all(|pair| pair[0].from < pair[1].from);
    rule(
        sorted,
        "the containers that were merged are not sorted, or one stands twice",
    )?;
    let froms: BTreeSet<ContainerId> = moved.iter().map(|moved| moved.from).collect();
    let mut places = Vec::with_capacity(moved.len());
    for moved in moved {
        let here = moved.here();
        rule(
            here.is_some(),
            "a merged container has no slots, or they run past the last slot",
        )?;
        rule(
            moved.from.kind == moved.to.kind,
            "a container was merged into one of another kind",
        )?;
        rule(
            !froms.contains(&moved.to),
            "a container was merged into one that was merged itself",
        )?;
        places.extend(here.map(|here| (moved.to, here.first(), here.end())));
    }
    places.sort_unstable();
    let apart = places
        .windows(2)
        .all(|pair| pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1.get());
    rule(apart, "two containers were merged into the same slots")
}

pub(super) fn small_rules(small: &[SmallContainer]) -> Result<(), &'static str> {
    let sorted = small.windows(2).all(|pair| pair[0].container < pair[1].container);
    rule(sorted, "small containers are not sorted, or one stands twice")
}
