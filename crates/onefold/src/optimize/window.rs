//! Expires backups beyond the retention window of their series. The settings give the number of
//! live and archival backups to keep [RevDedup 2.1].
//!
//! This works like `forget --keep-last`, by [`reclaim::retention`] and the same tombstones. The
//! window is a number of backups, so no clock decides, except whether a hold has ended, by the
//! storage's clock (INV-6). A backup in doubt does not count in the window, and stays if it may be
//! held.
//!
//! Invariant: no backup expires by settings that may not be the newest. An unreadable newest
//! revision may have widened the window.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use format::series::{ArchivalWindow, SeriesSettings};
use reclaim::retention::{self, Candidate, Decision, GroupBy, Limit, Period, Policy, Reason, Rule};
use session::{Forgetting, ManifestList};
use types::{SeriesId, SessionId, UnixNanos};

use crate::error::Result;
use crate::monitor::Monitor;
use crate::store::Store;
use crate::warning::Warning;

/// A backup that has left the retention window of its series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired {
    /// The backup.
    pub id: SessionId,
    /// How many live backups its series keeps.
    pub live_window: u16,
    /// How many archival backups its series keeps behind the live ones.
    pub archival_window: u16,
}

/// Backups that have left their windows, oldest first.
#[derive(Debug, Default)]
pub(super) struct Expiring {
    /// Backups to forget.
    pub(super) gone: Vec<Expired>,
    /// Backups that stay because they are held.
    pub(super) held: BTreeSet<SessionId>,
    /// Backups that stay because nobody knows whether they are held.
    pub(super) warnings: Vec<Warning>,
}

/// Backups that have left their windows, in the series whose settings have one.
///
/// # Errors
/// A window causes none, because it keeps at least one backup that is sure.
pub(super) fn expiring(
    list: &ManifestList,
    settings: &dyn Fn(SeriesId) -> Option<SeriesSettings>,
    now: UnixNanos,
) -> Result<Expiring> {
    let mut series: BTreeMap<SeriesId, Vec<Candidate>> = BTreeMap::new();
    for candidate in retention::candidates(list) {
        series.entry(candidate.series).or_default().push(candidate);
    }
    let mut expiring = Expiring::default();
    for (id, candidates) in series {
        let Some(set) = settings(id) else { continue };
        let count = set.retention_window().and_then(NonZeroU32::new);
        let (Some(count), ArchivalWindow::Newest(archival)) = (count, set.archival_window) else {
            continue;
        };
        let policy = Policy {
            rules: vec![Rule::Newest {
                period: Period::Each,
                limit: Limit::Count(count),
            }],
            may_remove_all: false,
        };
        let groups = retention::decide(candidates, &policy, GroupBy::SERIES, now)?;
        let mut kept = 0;
        for decision in groups.iter().flat_map(|group| &group.decisions) {
            let has_place = |reason: &Reason| matches!(reason, Reason::Newest { .. });
            if decision.reasons.iter().any(has_place) {
                kept += u32::from(!decision.backup.may_be_forgotten);
                continue;
            }
            let is_out = kept >= count.get();
            expiring.add(decision, is_out, (set.live_window, archival.get()), now);
        }
    }
    expiring.gone.sort_unstable_by_key(|one| one.id);
    Ok(expiring)
}

impl Expiring {
    /// Adds a backup that is outside of its window. `is_out`: the window is full of newer backups.
    fn add(
        &mut self,
        decision: &Decision,
        is_out: bool,
        (live_window, archival_window): (u16, u16),
        now: UnixNanos,
    ) {
        let id = decision.backup.session;
        if !decision.is_kept() {
            self.gone.push(Expired {
                id,
                live_window,
                archival_window,
            });
        } else if decision.backup.held(now).is_some() {
            self.held.insert(id);
        } else if is_out {
            self.warnings.push(Warning::MayBeHeld { backup: id });
        }
    }
}

impl Store {
    /// Forgets these backups, as they were listed. Returns those that were forgotten, and warnings
    /// about the others. Durable on return.
    pub(super) fn forget_expired(
        &self,
        list: &ManifestList,
        gone: &[Expired],
        monitor: &Monitor,
    ) -> Result<(Vec<Expired>, Vec<Warning>)> {
        let ids: Vec<_> = gone.iter().map(|one| one.id).collect();
        let done = self.forget_listed(list, &ids, monitor)?;
        let (mut forgotten, mut warnings) = (Vec::new(), Vec::new());
        for one in gone {
            match done.get(&one.id) {
                Some(Forgetting::Done) => forgotten.push(*one),
                // Another process has forgotten it.
                Some(Forgetting::Before) | None => {}
                Some(Forgetting::Revised) => warnings.push(Warning::RevisedMeanwhile { backup: one.id }),
            }
        }
        Ok((forgotten, warnings))
    }
}
