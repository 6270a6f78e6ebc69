//! The slot column of catalogs and their copies: runs of consecutive slots in physical order.
//!
//! The encoding is canonical: each run is as long as possible. Slots are distinct.

use types::{Slot, SlotRange};

use crate::error::Result;
use crate::wire::{Reader, Writer};

/// Writes the slots as maximal runs. The reader must know their count.
pub(super) fn write(w: &mut Writer<'_>, slots: impl Iterator<Item = Slot>) {
    let mut run: Option<(Slot, u32)> = None;
    for slot in slots {
        run = match run {
            Some((first, count)) if first.checked_add(count) == Some(slot) => Some((first, count + 1)),
            previous => {
                put_run(w, previous);
                Some((slot, 1))
            }
        };
    }
    put_run(w, run);
}

fn put_run(w: &mut Writer<'_>, run: Option<(Slot, u32)>) {
    if let Some((first, count)) = run {
        w.slot(first);
        w.varint32(count);
    }
}

/// Reads runs until they hold `count` slots.
pub(super) fn read(r: &mut Reader<'_>, count: usize) -> Result<Vec<SlotRange>> {
    let mut runs: Vec<SlotRange> = Vec::new();
    let mut left = count as u64;
    while left > 0 {
        let run = r.slot_range()?;
        let Some(rest) = left.checked_sub(run.count().into()) else {
            return Err(r.fault("the slot runs hold more slots than there are entries"));
        };
        if runs
            .last()
            .is_some_and(|previous| previous.end() == run.first().get())
        {
            return Err(r.fault("a slot run continues the one before"));
        }
        left = rest;
        runs.push(run);
    }
    Ok(runs)
}

/// Whether no slot occurs twice.
pub(super) fn are_distinct(slots: impl Iterator<Item = Slot>) -> bool {
    let mut slots: Vec<Slot> = slots.collect();
    slots.sort_unstable();
    slots.windows(2).all(|pair| pair[0] != pair[1])
}
