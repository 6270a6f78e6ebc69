//! Finds the backups to make archival or to repair, and those that stay because they are held.
//!
//! Pure: its inputs are a listing of manifests, the settings, and a time of the storage.

use std::collections::{BTreeMap, BTreeSet};

use format::manifest::Backup;
use session::{ManifestEntry, ManifestList};
use types::{SeriesId, SessionId, UnixNanos};

/// A backup that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueBackup {
    /// The backup.
    pub id: SessionId,
    /// The backup that it will refer forward to, if one is left.
    pub onto: Option<SessionId>,
    /// Bytes of its streams.
    pub bytes: u64,
}

/// A backup whose layout is due for repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueRepair {
    /// The backup.
    pub id: SessionId,
    /// Bytes of its streams.
    pub bytes: u64,
    /// The most plain bytes to copy.
    pub budget: u64,
}

/// A held backup that would be changed or forgotten without the hold. At least one of the three
/// reasons applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldBackup {
    /// The backup.
    pub id: SessionId,
    /// When its hold ends, by the storage's clock.
    pub until: UnixNanos,
    /// It has left the retention window of its series, and would be forgotten.
    pub is_expired: bool,
    /// It has left the live window, and would be made archival.
    pub is_due: bool,
    /// The forgotten backup to which it refers forward. That one stays stored for it, and would be
    /// freed.
    pub keeps: Option<SessionId>,
}

/// A due backup with its series.
pub(super) type DueOf = (SeriesId, DueBackup);
pub(super) type RepairOf = (SeriesId, DueRepair);
pub(super) type HeldOf = (SeriesId, HeldBackup);

/// For each series: the newest backup, if it was not repaired and has a budget. The budget is this
/// percentage of the bytes that the live backups of the series stored anew, minus the bytes that
/// were copied for them. The bytes of the first backup count only if it is the only one. Archival
/// backups do not count, because the bytes copied for them are not known any more; those in
/// `archival` will be archival by then. A backup that is shorter than half of the longest one
/// counts as incremental. No other backup shares its order, so its new bytes count for the next
/// full backup.
pub(super) fn due_repairs(
    list: &ManifestList,
    percent: &dyn Fn(SeriesId) -> u16,
    archival: &BTreeSet<SessionId>,
    now: UnixNanos,
) -> Vec<RepairOf> {
    let mut series: BTreeMap<SeriesId, Vec<(&ManifestEntry, &Backup)>> = BTreeMap::new();
    for entry in list.backups() {
        let backup = entry.backup().map(|backup| (entry, backup));
        series.entry(entry.series()).or_default().extend(backup);
    }
    let len = |backup: &Backup| backup.streams.iter().map(|stream| stream.len).sum::<u64>();
    let mut all = Vec::new();
    for (series, backups) in series {
        let Some((entry, newest)) = backups.last().copied() else {
            continue;
        };
        let longest = backups.iter().map(|(_, backup)| len(backup)).max().unwrap_or(0);
        let is_full = |backup: &Backup| len(backup) >= longest.div_ceil(2);
        let is_repaired = newest.rewritten.is_some_and(|copied| copied > 0);
        let percent = u128::from(percent(series));
        let counted = if backups.len() > 1 {
            &backups[1..]
        } else {
            &backups[..]
        };
        let live = counted
            .iter()
            .filter(|(entry, backup)| backup.next.is_none() && !archival.contains(&entry.session()));
        let budget = live.fold(0u64, |left, (_, backup)| {
            let more = u128::from(backup.totals.bytes_new) * percent / 100;
            let all = left.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
            all.saturating_sub(backup.rewritten.unwrap_or(0))
        });
        let is_held = newest.hold_until.is_some_and(|until| until > now);
        let is_free = newest.next.is_none() && !is_held && !entry.is_in_doubt();
        if budget > 0 && is_free && !is_repaired && is_full(newest) {
            let (id, bytes) = (entry.session(), len(newest));
            all.push((series, DueRepair { id, bytes, budget }));
        }
    }
    all
}

/// The due backups, oldest first: those that have left their live windows and do not refer forward
/// to the next one, and those that refer forward to a forgotten backup. Second, the backups that
/// stay because they are held, although they are due or in `expired`.
pub(super) fn due(
    list: &ManifestList,
    live: &dyn Fn(SeriesId) -> Option<u16>,
    expired: &BTreeSet<SessionId>,
    now: UnixNanos,
) -> (Vec<DueOf>, Vec<HeldOf>) {
    let mut series: BTreeMap<SeriesId, Vec<&ManifestEntry>> = BTreeMap::new();
    for entry in list.backups() {
        series.entry(entry.series()).or_default().push(entry);
    }
    let is_there = |id: &SessionId| list.get(*id).is_some_and(|entry| entry.backup().is_some());
    let (mut all, mut all_held) = (Vec::new(), Vec::new());
    for (series, backups) in series {
        let live = live(series).map_or(backups.len(), |live| live.max(1).into());
        for (n, older) in backups.iter().enumerate() {
            let Some(backup) = older.backup() else { continue };
            let onto = backups.get(n + 1).map(|later| later.session());
            let is_archival = n + live < backups.len();
            let lost = backup.next.filter(|next| !is_there(next));
            let is_due = backup.next != onto && (is_archival || lost.is_some());
            let id = older.session();
            if let Some(until) = backup.hold_until.filter(|until| *until > now) {
                let held = HeldBackup {
                    id,
                    until,
                    is_expired: expired.contains(&id),
                    is_due: is_due && lost.is_none(),
                    keeps: lost,
                };
                if is_due || held.is_expired {
                    all_held.push((series, held));
                }
            } else if is_due {
                let bytes = backup.streams.iter().map(|stream| stream.len).sum();
                all.push((series, DueBackup { id, onto, bytes }));
            }
        }
    }
    all.sort_unstable_by_key(|(_, due)| due.id);
    all_held.sort_unstable_by_key(|(_, held)| held.id);
    (all, all_held)
}
