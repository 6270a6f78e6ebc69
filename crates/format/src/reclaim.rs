//! What reclamation announces and keeps (docs/format.md, "Reclamation objects").
//!
//! Lists of slots are written as differences: containers in order, each with its slots as gaps and
//! lengths, so that a densely marked store costs a few bytes a container.

use types::{ContainerId, Epoch, Revision, SeriesId, SessionId, Slot, SlotRange};

use crate::error::Result;
use crate::payload::{Payload, payload, rule};
use crate::wire::{Reader, Writer};

/// Slots of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSlots {
    /// The container.
    pub container: ContainerId,
    /// `None`: all of it. Else sorted, disjoint, not adjacent.
    pub slots: Option<Vec<SlotRange>>,
}

/// `condemned/<epoch>`: slots found unreferenced; look-ups treat them as absent from the answer on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condemned {
    /// The epoch.
    pub epoch: Epoch,
    /// The mark revisions it was computed from: (group, revision).
    pub marks: Vec<(GroupId, Revision)>,
    /// Sorted by container.
    pub slots: Vec<ContainerSlots>,
}

/// `removed/<epoch>`: the final list. Nothing on it is returned by a look-up or comes back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The epoch.
    pub epoch: Epoch,
    /// Sorted by container; whole containers' names stay taken for ever.
    pub slots: Vec<ContainerSlots>,
    /// The mark revisions that take effect with this list, and are exactly those.
    pub marks: Vec<(GroupId, Revision)>,
}

/// A group of backups whose marks are kept together: a series and a span of sessions (Guo 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    /// The series.
    pub series: SeriesId,
    /// The first session number of the span.
    pub first: SessionId,
}

/// `groups/<group>.<revision>`: the marks of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// The group.
    pub group: GroupId,
    /// The manifest revisions it covers, with a digest of each object's stored bytes.
    pub covers: Vec<CoveredManifest>,
    /// Live slots by container, sorted.
    pub live: Vec<ContainerSlots>,
}

/// One manifest revision that marks were computed from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoveredManifest {
    /// The backup.
    pub session: SessionId,
    /// The revision.
    pub revision: Revision,
    /// XXH3-128 of the object as stored.
    pub digest: u128,
}

/// `damaged/<kind>-<session>-<sequence>.<n>`: slots known bad; absent to look-ups until healed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// The container and its bad slots.
    pub slots: ContainerSlots,
}

payload!(Condemned);
payload!(Removed);
payload!(Marks);
payload!(Damaged);

impl Payload for Condemned {
    const WHAT: &'static str = "condemned list";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.epoch(self.epoch);
        w.list(&self.marks, write_mark_revision);
        write_slots(w, &self.slots);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            epoch: r.epoch()?,
            marks: r.list(18, read_mark_revision)?,
            slots: read_slots(r)?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        slots_rules(&self.slots)
    }
}

impl Payload for Removed {
    const WHAT: &'static str = "removed list";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.epoch(self.epoch);
        write_slots(w, &self.slots);
        w.list(&self.marks, write_mark_revision);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            epoch: r.epoch()?,
            slots: read_slots(r)?,
            marks: r.list(18, read_mark_revision)?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        slots_rules(&self.slots)
    }
}

impl Payload for Marks {
    const WHAT: &'static str = "marks";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        write_group(w, self.group);
        w.list(&self.covers, |w, c| {
            w.session(c.session);
            w.revision(c.revision);
            w.u128(c.digest);
        });
        write_slots(w, &self.live);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let group = read_group(r)?;
        let covers = r.list(18, |r| {
            Ok(CoveredManifest {
                session: r.session()?,
                revision: r.revision()?,
                digest: r.u128()?,
            })
        })?;
        Ok(Self {
            group,
            covers,
            live: read_slots(r)?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        slots_rules(&self.live)
    }
}

impl Payload for Damaged {
    const WHAT: &'static str = "damaged list";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        write_slots(w, std::slice::from_ref(&self.slots));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let not_one = r.fault("a damaged list is of one container");
        match <[ContainerSlots; 1]>::try_from(read_slots(r)?) {
            Ok([slots]) => Ok(Self { slots }),
            Err(_) => Err(not_one),
        }
    }

    fn rules(&self) -> Result<(), &'static str> {
        slots_rules(std::slice::from_ref(&self.slots))
    }
}

fn write_group(w: &mut Writer<'_>, group: GroupId) {
    w.series(group.series);
    w.session(group.first);
}

fn read_group(r: &mut Reader<'_>) -> Result<GroupId> {
    Ok(GroupId {
        series: r.series()?,
        first: r.session()?,
    })
}

fn write_mark_revision(w: &mut Writer<'_>, &(group, revision): &(GroupId, Revision)) {
    write_group(w, group);
    w.revision(revision);
}

fn read_mark_revision(r: &mut Reader<'_>) -> Result<(GroupId, Revision)> {
    Ok((read_group(r)?, r.revision()?))
}

fn write_slots(w: &mut Writer<'_>, list: &[ContainerSlots]) {
    let mut previous = 0;
    w.list(list, |w, entry| {
        let id = entry.container.to_u64();
        w.varint(id.wrapping_sub(previous));
        previous = id;
        let ranges = entry.slots.as_deref().unwrap_or_default();
        let mut end = 0;
        w.list(ranges, |w, range| {
            w.varint32(range.first().get().wrapping_sub(end));
            w.varint32(range.count());
            end = range.end();
        });
    });
}

/// Differences of 0, where they would repeat or continue what stands before, are left to the rules.
fn read_slots(r: &mut Reader<'_>) -> Result<Vec<ContainerSlots>> {
    let mut previous = 0u64;
    r.list(2, |r| {
        let wrong = r.fault("there is no such container id");
        let id = r.varint()?.checked_add(previous);
        let container = id.and_then(ContainerId::from_u64).ok_or(wrong)?;
        previous = container.to_u64();
        let mut end = 0u32;
        let ranges = r.list(2, |r| {
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
            Ok(range)
        })?;
        Ok(ContainerSlots {
            container,
            slots: (!ranges.is_empty()).then_some(ranges),
        })
    })
}

fn slots_rules(list: &[ContainerSlots]) -> Result<(), &'static str> {
    let sorted = list.windows(2).all(|pair| pair[0].container < pair[1].container);
    rule(sorted, "the containers are not sorted, or one stands twice")?;
    for ranges in list.iter().filter_map(|entry| entry.slots.as_ref()) {
        rule(!ranges.is_empty(), "a container is listed with no slots")?;
        let apart = ranges
            .windows(2)
            .all(|pair| pair[0].end() < pair[1].first().get());
        rule(apart, "the slots of a container are not sorted, or not merged")?;
    }
    Ok(())
}
