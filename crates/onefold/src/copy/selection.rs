//! Chooses the backups to copy: those that the destination does not have.
//!
//! A backup is known by its origin: the store and number of the backup that was made from files. A
//! copy of a copy has the origin of the copy. So what was copied away and back is recognized, and
//! so is what came by two ways.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use format::manifest::{Backup, Origin, SeriesName};
use format::names;
use session::Filter;
use types::{SessionId, StoreId, UnixNanos};

use super::CopyRequest;
use crate::error::Result;
use crate::repository::Repository;
use crate::snapshots::{Snapshot, SnapshotList};

/// What this run has seen of the destination counts for so long.
const LISTED_EVERY: Duration = Duration::from_secs(10);

/// What to copy.
#[derive(Debug)]
pub(super) struct Selection {
    /// By id.
    pub(super) due: Vec<Snapshot>,
    /// Those that the destination has, with their numbers there.
    pub(super) skipped: Vec<(Snapshot, SessionId)>,
    /// What is wrong with manifests of the source that cannot be read, and whose backups may be
    /// due.
    pub(super) unread: Vec<String>,
    /// What is wrong with newer revisions of those that are due.
    pub(super) older: Vec<(SessionId, String)>,
    /// What is wrong with manifests of the destination that cannot be read: their backups may be
    /// copies of what is due.
    pub(super) unread_there: Vec<String>,
    /// When the destination was last listed.
    listed_at: Duration,
    store: Option<StoreId>,
    /// All backups of the source, by id.
    all: Vec<Snapshot>,
    /// The backups of the destination, by origin.
    copies: BTreeMap<Origin, Copy>,
    /// The series of the destination, and those whose first backup is copied now.
    series: BTreeSet<SeriesName>,
}

/// A backup of the destination.
#[derive(Debug, Clone, Copy)]
struct Copy {
    id: SessionId,
    /// It refers forward to another one, so no backup can take ranges from it.
    is_archival: bool,
    /// When its source began. A store that was put back to an earlier state gives out numbers anew,
    /// so the origin alone does not tell backups apart.
    source_time: UnixNanos,
}

impl Copy {
    fn of(id: SessionId, backup: &Backup) -> Self {
        Self {
            id,
            is_archival: backup.next.is_some(),
            source_time: backup.source_time,
        }
    }

    /// Whether it is a copy of this backup.
    fn is_of(&self, snapshot: &Snapshot) -> bool {
        self.source_time == snapshot.backup.source_time
    }
}

/// The origin of a backup in this store. `None` if nobody knows the store.
fn origin_of(store: Option<StoreId>, id: SessionId, backup: &Backup) -> Option<Origin> {
    let own = store.map(|store| Origin { store, backup: id });
    backup.origin.or(own)
}

/// The backups of a destination, by origin.
fn copies_in(destination: &SnapshotList) -> BTreeMap<Origin, Copy> {
    let copy = |one: &Snapshot| {
        let origin = origin_of(destination.store, one.id, &one.backup)?;
        Some((origin, Copy::of(one.id, &one.backup)))
    };
    destination.snapshots.iter().filter_map(copy).collect()
}

/// Whether a revision of the backup may pass. Only tags differ from one to another.
fn may_pass(filter: &Filter, backup: &Snapshot) -> bool {
    let any_tags = filter.clone().tags(Vec::new());
    any_tags.lets_through(&backup.backup)
}

impl Selection {
    /// # Errors
    /// If a named backup does not exist; of either repository.
    pub(super) fn new(from: &dyn Repository, to: &dyn Repository, request: &CopyRequest) -> Result<Self> {
        let source = from.snapshots()?;
        let mut chosen: BTreeMap<SessionId, Snapshot> = BTreeMap::new();
        for text in &request.ids {
            let found = source.find(text, &request.filter)?;
            chosen.insert(found.id, found.clone());
        }
        if request.ids.is_empty() {
            let passing = source.snapshots.iter();
            let passing = passing.filter(|one| request.filter.lets_through(&one.backup));
            chosen.extend(passing.map(|one| (one.id, one.clone())));
        }
        let destination = to.snapshots()?;
        let copies = copies_in(&destination);
        let (mut due, mut skipped) = (Vec::new(), Vec::new());
        for one in chosen.into_values() {
            let origin = origin_of(source.store, one.id, &one.backup);
            match origin.and_then(|origin| copies.get(&origin)) {
                Some(copy) if copy.is_of(&one) && !request.again.contains(&one.id) => {
                    skipped.push((one, copy.id));
                }
                _ => due.push(one),
            }
        }
        let (mut unread, mut older) = (Vec::new(), Vec::new());
        let asks_for_all = request.ids.is_empty();
        for object in &source.damaged {
            let why = format!("{}: {}", object.name, object.why);
            let of = names::parse_manifest(&object.name).map(|(_, session, _)| session);
            match source.snapshots.iter().find(|one| Some(one.id) == of) {
                Some(known) if due.iter().any(|one| one.id == known.id) => older.push((known.id, why)),
                Some(known) if skipped.iter().any(|(one, _)| one.id == known.id) => {}
                Some(known) if asks_for_all && may_pass(&request.filter, known) => unread.push(why),
                None if asks_for_all => unread.push(why),
                _ => {}
            }
        }
        let unread_there = destination.damaged.iter();
        Ok(Self {
            due,
            skipped,
            unread,
            older,
            unread_there: unread_there
                .map(|object| format!("{}: {}", object.name, object.why))
                .collect(),
            listed_at: to.clock().monotonic(),
            store: source.store,
            all: source.snapshots,
            copies,
            series: destination
                .snapshots
                .into_iter()
                .map(|one| one.backup.series)
                .collect(),
        })
    }

    /// The copy that the destination has of this backup by now. Another run may have made it since
    /// this one began. The destination is listed again if that was done some time ago.
    pub(super) fn made_meanwhile(
        &mut self,
        to: &dyn Repository,
        snapshot: &Snapshot,
    ) -> Result<Option<SessionId>> {
        let now = to.clock().monotonic();
        if now.saturating_sub(self.listed_at) >= LISTED_EVERY {
            self.copies = copies_in(&to.snapshots()?);
            self.listed_at = now;
        }
        let copy = self.origin(snapshot).and_then(|origin| self.copies.get(&origin));
        Ok(copy.filter(|copy| copy.is_of(snapshot)).map(|copy| copy.id))
    }

    /// Whether this is the first time that the destination gets a backup of the series.
    pub(super) fn begins(&mut self, series: &SeriesName) -> bool {
        self.series.insert(series.clone())
    }

    /// The origin of a backup of the source.
    pub(super) fn origin(&self, snapshot: &Snapshot) -> Option<Origin> {
        origin_of(self.store, snapshot.id, &snapshot.backup)
    }

    /// The newest backup of the series before this one that the destination has a copy of, and the
    /// number of the copy.
    pub(super) fn earlier(&self, snapshot: &Snapshot) -> Option<(Snapshot, SessionId)> {
        let roles = |one: &Snapshot| -> Vec<_> { one.backup.streams.iter().map(|one| one.role).collect() };
        let mut before = self.all.iter().rev().filter(|one| {
            one.id < snapshot.id
                && one.backup.series == snapshot.backup.series
                && roles(one) == roles(snapshot)
        });
        before.find_map(|one| {
            let copy = self.copies.get(&self.origin(one)?)?;
            (!copy.is_archival && copy.is_of(one)).then(|| (one.clone(), copy.id))
        })
    }

    /// Notes a copy that was made.
    pub(super) fn note(&mut self, snapshot: &Snapshot, id: SessionId) {
        if let Some(origin) = self.origin(snapshot) {
            let copy = Copy {
                is_archival: false,
                ..Copy::of(id, &snapshot.backup)
            };
            self.copies.insert(origin, copy);
        }
    }
}
