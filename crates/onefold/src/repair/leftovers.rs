//! Copies that an earlier repair has left beside the backups that they are of.
//!
//! A repair makes a copy, and then forgets the copy or the damaged backup. If it ends in between,
//! both stay. The next repair with another store finds them here: it uses the copy of a damaged
//! backup instead of making another one, and forgets the copy of a whole one.
//!
//! Two backups count as such a pair if they have the same origin, series, time and lengths. A copy
//! that somebody has revised since (a tag, a hold) is never forgotten for a whole backup.

use std::collections::{BTreeMap, BTreeSet};

use format::manifest::Origin;
use types::{Revision, SessionId};

use crate::error::Result;
use crate::snapshots::Snapshot;
use crate::store::Store;

/// A backup, and a copy of it in the same store.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) of: SessionId,
    pub(super) copy: SessionId,
    /// Whether an earlier repair has made the copy.
    pub(super) is_left: bool,
}

impl Store {
    /// The copies that are left. `damaged` are the backups that a check has found damaged. Of
    /// these, a copy may take the place of those in `lost` alone.
    pub(super) fn leftovers(
        &self,
        damaged: &BTreeSet<SessionId>,
        lost: &BTreeSet<SessionId>,
    ) -> Result<Vec<Pair>> {
        let list = self.snapshots()?;
        let Some(store) = list.store else {
            return Ok(Vec::new());
        };
        let mut by_origin: BTreeMap<Origin, Vec<&Snapshot>> = BTreeMap::new();
        for snapshot in &list.snapshots {
            let backup = snapshot.id;
            let origin = snapshot.backup.origin.unwrap_or(Origin { store, backup });
            by_origin.entry(origin).or_default().push(snapshot);
        }
        let mut pairs = Vec::new();
        for (origin, mut same) in by_origin {
            same.sort_unstable_by_key(|snapshot| snapshot.id);
            // A backup that was made here and lost its manifest is not listed.
            let is_unlisted = origin.store == store
                && lost.contains(&origin.backup)
                && same.iter().all(|snapshot| snapshot.id != origin.backup);
            let first = same[0];
            let of = if is_unlisted { origin.backup } else { first.id };
            let is_whole = |snapshot: &&&Snapshot| !damaged.contains(&snapshot.id);
            let others = same.iter().filter(|one| one.id != of && is_same(first, one));
            let mut copies = others.filter(is_whole);
            let mut kept = of;
            if damaged.contains(&of) {
                let Some(copy) = copies.next().filter(|_| lost.contains(&of)) else {
                    continue;
                };
                kept = copy.id;
                pairs.push((of, copy.id));
            }
            let unneeded = copies.filter(|copy| copy.revision == Revision::FIRST);
            pairs.extend(unneeded.map(|copy| (kept, copy.id)));
        }
        let pair = |(of, copy)| Pair {
            of,
            copy,
            is_left: true,
        };
        Ok(pairs.into_iter().map(pair).collect())
    }
}

fn is_same(one: &Snapshot, other: &Snapshot) -> bool {
    let streams = |of: &Snapshot| -> Vec<_> {
        let streams = of.backup.streams.iter();
        streams.map(|stream| (stream.role, stream.len)).collect()
    };
    one.series == other.series
        && one.backup.source_time == other.backup.source_time
        && streams(one) == streams(other)
}
