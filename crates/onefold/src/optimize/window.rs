//! Backups beyond the retention window of their series expire; the settings say how many live and
//! archival backups to keep [RevDedup 2.1].
//!
//! This works like `forget --keep-last`, by [`reclaim::retention`] and the same tombstones. The
//! window is a number of backups, so no clock decides, except whether a hold has ended, by the
//! storage's clock (INV-6). A backup in doubt fills no place in the window, and stays if it may be
//! held.
//!
//! Invariant: nothing expires by settings that may not be the newest. An unreadable newest
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
    /// It.
    pub id: SessionId,
    /// The live backups that its series keeps.
    pub live_window: u16,
    /// The archival ones that it keeps behind them.
    pub archival_window: u16,
}

/// What has left its window, oldest first.
#[derive(Debug, Default)]
pub(super) struct Expiring {
    /// What is to be forgotten.
    pub(super) gone: Vec<Expired>,
    /// What stays, because it is held.
    pub(super) held: BTreeSet<SessionId>,
    /// What stays, because nobody knows whether it is held.
    pub(super) warnings: Vec<Warning>,
}

/// What has left its window, of the series that have settings with one.
///
/// # Errors
/// None that a window could bring about: it keeps at least one backup that is sure.
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
    /// A backup that has no place in its window; `is_out`: the window is full of newer ones.
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
    /// Forgets them, as they were listed. Which were, and what should be said of the others.
    /// Durable when it returns.
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
                // Somebody else has.
                Some(Forgetting::Before) | None => {}
                Some(Forgetting::Revised) => warnings.push(Warning::RevisedMeanwhile { backup: one.id }),
            }
        }
        Ok((forgotten, warnings))
    }
}
