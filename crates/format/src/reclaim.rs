//! The objects of reclamation (docs/format.md, "Reclamation objects").
//!
//! Lists of slots are written as differences: containers in order, each with its slots as gaps and
//! lengths. So a densely marked store takes a few bytes for each container.

mod list;

pub use list::{SlotCursor, SlotList};

use types::{ContainerId, Epoch, Revision, SeriesId, SessionId, SlotRange};

use crate::error::Result;
use crate::payload::{Payload, payload, rule};
use crate::wire::{Reader, Writer};

/// Slots of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerSlots {
    /// The container.
    pub container: ContainerId,
    /// `None`: the whole container. Else sorted ranges that are neither overlapping nor adjacent.
    pub slots: Option<Vec<SlotRange>>,
}

/// `condemned/<epoch>`: slots without a reference. Look-ups of a session treat them as absent from
/// its answer on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condemned {
    /// The epoch.
    pub epoch: Epoch,
    /// The mark revisions from which it was computed: (group, revision).
    pub marks: Vec<(GroupId, Revision)>,
    /// Sorted by container.
    pub slots: Vec<ContainerSlots>,
}

/// `removed/<epoch>`: the final list. No look-up returns anything on it, and nothing on it is used
/// again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The epoch.
    pub epoch: Epoch,
    /// Sorted by container. Names of whole containers stay taken for ever.
    pub slots: Vec<ContainerSlots>,
    /// The marks of all groups from this epoch on: exactly those from which the list was computed.
    pub marks: Vec<(GroupId, Revision)>,
    /// Condemned slots that were not removed: they stay in place until a later epoch removes them.
    /// Sorted by container.
    pub left: Vec<LeftSlots>,
    /// The names of whole containers that earlier epochs removed. They stay taken for ever.
    pub gone: Vec<ContainerRun>,
    /// Approximate bytes of all containers once the list is executed.
    pub stored_bytes: u64,
}

/// Dead slots that stay in their container, and the bytes that their removal would free and copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftSlots {
    /// The container and its dead slots.
    pub slots: ContainerSlots,
    /// Approximate stored bytes of the dead slots.
    pub dead_bytes: u64,
    /// Approximate stored bytes of the container's live slots.
    pub live_bytes: u64,
}

/// Containers of one session and kind with consecutive sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContainerRun {
    /// The first.
    pub first: ContainerId,
    /// The number of containers, at least 1.
    pub count: u32,
}

impl ContainerRun {
    /// The packed id of the last one.
    #[must_use]
    pub const fn last_u64(self) -> u64 {
        self.first.to_u64() + self.count.saturating_sub(1) as u64
    }

    /// Whether the container is in the run.
    #[must_use]
    pub fn contains(self, id: ContainerId) -> bool {
        (self.first.to_u64()..=self.last_u64()).contains(&id.to_u64())
    }

    /// Sorts containers into runs.
    #[must_use]
    pub fn collect(containers: impl IntoIterator<Item = ContainerId>) -> Vec<Self> {
        let mut ids: Vec<ContainerId> = containers.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        let mut runs: Vec<Self> = Vec::new();
        for id in ids {
            match runs.last_mut() {
                Some(run) if run.is_followed_by(id) => run.count += 1,
                _ => runs.push(Self { first: id, count: 1 }),
            }
        }
        runs
    }

    /// The containers of the run.
    pub fn ids(self) -> impl Iterator<Item = ContainerId> {
        (self.first.to_u64()..=self.last_u64()).filter_map(ContainerId::from_u64)
    }

    const fn is_followed_by(self, id: ContainerId) -> bool {
        self.last_u64() + 1 == id.to_u64() && is_one_folder(self.first.to_u64(), id.to_u64())
    }
}

/// Whether session and kind are the same.
const fn is_one_folder(a: u64, b: u64) -> bool {
    a >> 24 == b >> 24
}

/// A group of backups with common marks: a series and a span of sessions (Guo 3.3).
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
    /// `None`: the marks only add to earlier ones, and count at once. Else they count once the
    /// removed list of this epoch exists and names them.
    pub epoch: Option<Epoch>,
    /// The covered manifest revisions, with a digest of each object's stored bytes. A tombstone
    /// counts as a revision.
    pub covers: Vec<CoveredManifest>,
    /// Live slots by container, sorted.
    pub live: SlotList,
}

/// One manifest revision from which marks were computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoveredManifest {
    /// The backup.
    pub session: SessionId,
    /// The revision.
    pub revision: Revision,
    /// XXH3-128 of the object as stored.
    pub digest: u128,
    /// Whether it is a tombstone. A manifest that is gone and was no tombstone is lost, not
    /// forgotten.
    pub forgotten: bool,
    /// Whether it is marked although it is forgotten, because a live backup refers forward to it
    /// (R2).
    pub kept: bool,
    /// If it is marked and archival: the backup of its series that it refers forward to (R2).
    pub next: Option<SessionId>,
    /// Whether it is marked, refers forward to none, and its references were rewritten
    /// ([`crate::manifest::Backup::rewritten`]).
    pub rewritten: bool,
}

impl CoveredManifest {
    /// Whether the slots that it reaches are marked.
    #[must_use]
    pub const fn is_marked(&self) -> bool {
        !self.forgotten || self.kept
    }

    /// Whether lower revisions may refer to removed slots.
    #[must_use]
    pub const fn is_rewritten(&self) -> bool {
        self.next.is_some() || self.rewritten
    }
}

/// `damaged/<kind>-<session>-<sequence>.<n>`: slots that are known to be bad. Look-ups treat them
/// as absent until they are healed.
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
        slots_rules(self.slots.iter())
    }
}

impl Payload for Removed {
    const WHAT: &'static str = "removed list";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.epoch(self.epoch);
        write_slots(w, &self.slots);
        w.list(&self.marks, write_mark_revision);
        let mut previous = 0;
        w.list(&self.left, |w, left| {
            let ranges = left.slots.slots.as_deref().unwrap_or_default();
            list::write_entry(w, &mut previous, left.slots.container, ranges);
            w.varint(left.dead_bytes);
            w.varint(left.live_bytes);
        });
        let mut end = 0;
        w.list(&self.gone, |w, run| {
            w.varint(run.first.to_u64().wrapping_sub(end));
            w.varint32(run.count);
            end = run.last_u64() + 1;
        });
        w.varint(self.stored_bytes);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            epoch: r.epoch()?,
            slots: read_slots(r)?,
            marks: r.list(18, read_mark_revision)?,
            left: read_left(r)?,
            gone: read_runs(r)?,
            stored_bytes: r.varint()?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        slots_rules(self.slots.iter())?;
        let left = self.left.iter().map(|left| &left.slots);
        slots_rules(left)?;
        let counted = self.gone.iter().all(|run| run.count > 0);
        rule(counted, "a run of containers is empty")?;
        let apart = self.gone.windows(2).all(|pair| {
            let (run, next) = (pair[0], pair[1].first.to_u64());
            run.last_u64() < next && !run.is_followed_by(pair[1].first)
        });
        rule(apart, "runs of containers are not sorted, or not merged")?;
        let within = |run: &ContainerRun| is_one_folder(run.first.to_u64(), run.last_u64());
        rule(
            self.gone.iter().all(within),
            "a run of containers leaves its session and kind",
        )
    }
}

impl Payload for Marks {
    const WHAT: &'static str = "marks";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        write_group(w, self.group);
        w.option(self.epoch, Writer::epoch);
        w.list(&self.covers, |w, c| {
            write_covered(w, c);
        });
        self.live.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let group = read_group(r)?;
        let epoch = r.option(Reader::epoch)?;
        let covers = r.list(19, read_covered)?;
        Ok(Self {
            group,
            epoch,
            covers,
            live: SlotList::read(r)?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        self.covers.iter().try_for_each(covered_rules)
    }
}

const COVERED_FORGOTTEN: u8 = 1;
const COVERED_KEPT: u8 = 2;
const COVERED_NEXT: u8 = 4;
const COVERED_REWRITTEN: u8 = 8;

fn write_covered(w: &mut Writer<'_>, covered: &CoveredManifest) {
    w.session(covered.session);
    w.revision(covered.revision);
    w.u128(covered.digest);
    let flag = |is: bool, bit| if is { bit } else { 0 };
    w.u8(flag(covered.forgotten, COVERED_FORGOTTEN)
        | flag(covered.kept, COVERED_KEPT)
        | flag(covered.next.is_some(), COVERED_NEXT)
        | flag(covered.rewritten, COVERED_REWRITTEN));
    if let Some(next) = covered.next {
        w.session(next);
    }
}

fn read_covered(r: &mut Reader<'_>) -> Result<CoveredManifest> {
    let (session, revision, digest) = (r.session()?, r.revision()?, r.u128()?);
    let unknown = r.fault("what a manifest is covered as is not known");
    let flags = r.u8()?;
    if flags & !(COVERED_FORGOTTEN | COVERED_KEPT | COVERED_NEXT | COVERED_REWRITTEN) != 0 {
        return Err(unknown);
    }
    let next = if flags & COVERED_NEXT == 0 {
        None
    } else {
        Some(r.session()?)
    };
    Ok(CoveredManifest {
        session,
        revision,
        digest,
        forgotten: flags & COVERED_FORGOTTEN != 0,
        kept: flags & COVERED_KEPT != 0,
        next,
        rewritten: flags & COVERED_REWRITTEN != 0,
    })
}

fn covered_rules(covered: &CoveredManifest) -> Result<(), &'static str> {
    rule(
        covered.forgotten || !covered.kept,
        "a manifest is kept that is not forgotten",
    )?;
    rule(
        covered.next.is_none() || covered.is_marked(),
        "a forgotten manifest refers forward and is not kept",
    )?;
    rule(
        !covered.rewritten || covered.next.is_none(),
        "a manifest refers forward and was rewritten to refer forward to none",
    )?;
    rule(
        !covered.rewritten || covered.is_marked(),
        "a forgotten manifest was rewritten and is not kept",
    )
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
        slots_rules(std::iter::once(&self.slots))
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

fn read_left(r: &mut Reader<'_>) -> Result<Vec<LeftSlots>> {
    let mut previous = 0u64;
    r.list(4, |r| {
        let mut ranges = Vec::new();
        let container = list::read_entry(r, &mut previous, &mut ranges)?;
        let slots = (!ranges.is_empty()).then_some(ranges);
        Ok(LeftSlots {
            slots: ContainerSlots { container, slots },
            dead_bytes: r.varint()?,
            live_bytes: r.varint()?,
        })
    })
}

fn read_runs(r: &mut Reader<'_>) -> Result<Vec<ContainerRun>> {
    let mut end = 0u64;
    r.list(2, |r| {
        let wrong = r.fault("there is no such container id");
        let id = r.varint()?.checked_add(end).and_then(ContainerId::from_u64);
        let first = id.ok_or_else(|| wrong.clone())?;
        let run = ContainerRun {
            first,
            count: r.varint32()?,
        };
        let last = first.to_u64().checked_add(u64::from(run.count));
        end = last.ok_or(wrong)?;
        Ok(run)
    })
}

fn write_slots(w: &mut Writer<'_>, slots: &[ContainerSlots]) {
    let mut previous = 0;
    w.list(slots, |w, entry| {
        list::write_entry(
            w,
            &mut previous,
            entry.container,
            entry.slots.as_deref().unwrap_or_default(),
        );
    });
}

/// Reads slots. The rules of the value refuse differences of 0, which would repeat or continue the
/// previous slots.
fn read_slots(r: &mut Reader<'_>) -> Result<Vec<ContainerSlots>> {
    let mut previous = 0u64;
    r.list(2, |r| {
        let mut ranges = Vec::new();
        let container = list::read_entry(r, &mut previous, &mut ranges)?;
        Ok(ContainerSlots {
            container,
            slots: (!ranges.is_empty()).then_some(ranges),
        })
    })
}

fn slots_rules<'a>(list: impl Iterator<Item = &'a ContainerSlots>) -> Result<(), &'static str> {
    let mut last = None;
    for entry in list {
        let sorted = last < Some(entry.container);
        rule(sorted, "the containers are not sorted, or one stands twice")?;
        last = Some(entry.container);
        if let Some(ranges) = &entry.slots {
            rule(!ranges.is_empty(), "a container is listed with no slots")?;
            rule(
                are_apart(ranges),
                "the slots of a container are not sorted, or not merged",
            )?;
        }
    }
    Ok(())
}

fn are_apart(ranges: &[SlotRange]) -> bool {
    ranges
        .windows(2)
        .all(|pair| pair[0].end() < pair[1].first().get())
}
