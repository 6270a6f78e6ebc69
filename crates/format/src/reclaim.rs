//! What reclamation announces and keeps (docs/format.md, "Reclamation objects").

use types::{ContainerId, Epoch, Revision, SeriesId, SessionId, SlotRange};

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
