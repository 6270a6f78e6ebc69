//! Which backups a policy keeps, and why.
//!
//! Pure: values in, values out. Times are the storage's time of each commit (INV-6), straightened
//! for each series (see `times`). Backups are divided into groups. In each group every rule is
//! applied from the newest backup to the oldest. A backup may be forgotten if no rule, hold or
//! doubt keeps it. Periods (hours, days, ISO weeks, months, years) begin and end in UTC, so that
//! every host gets the same answer.
//!
//! If the storage's times contradict the times that backups state, and backups would be forgotten
//! because of it, retention decides nothing unless the caller says which times count ([`Times`],
//! `squeezed`).
//!
//! Invariant: without a rule, retention decides nothing. No group loses its last backup unless
//! [`Policy::may_remove_all`] is set. A held backup stays, and so does a backup whose newest
//! revision is unreadable.

mod error;
mod group;
mod period;
mod policy;
mod reason;
mod span;
mod squeezed;
mod stretched;
mod times;

#[cfg(test)]
mod squeezed_tests;
#[cfg(test)]
mod stretched_tests;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use session::{ManifestEntry, ManifestList};
use types::{SeriesId, SessionId, UnixNanos};

use format::manifest::{Backup, SeriesName};

pub use error::RetentionError;
pub use group::{GroupBy, GroupKey};
pub use period::Period;
pub use policy::{Limit, Policy, Rule};
pub use reason::Reason;
pub use span::{SpanError, TimeSpan};

use times::Buckets;

/// A backup as retention sees it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Candidate {
    /// The backup.
    pub session: SessionId,
    /// The folder of its series.
    pub series: SeriesId,
    /// The name of its series.
    pub name: SeriesName,
    /// When it was committed, by the storage's clock, never before an earlier backup of its series.
    pub committed_at: UnixNanos,
    /// When it ended, by the source's clock, never before an earlier backup of its series.
    pub own_at: UnixNanos,
    /// Whether the storage's clock hardly moved while the source's did (`squeezed`).
    pub is_squeezed: bool,
    /// Whether it is the newest of its series, and the storage's clock went far ahead of the
    /// source's before it (`stretched`).
    #[serde(default)]
    pub is_ahead: bool,
    /// Its tags, sorted.
    pub tags: Vec<String>,
    /// Until when it is held, by the storage's clock.
    pub hold_until: Option<UnixNanos>,
    /// Whether a revision above the one that counts cannot be read; it may be a hold.
    pub newer_unreadable: bool,
    /// Whether an unreadable revision may be a tombstone. A tombstone is final, whatever revision
    /// follows.
    pub may_be_forgotten: bool,
}

impl Candidate {
    fn of(entry: &ManifestEntry) -> Option<Self> {
        let backup = entry.backup()?;
        Some(Self {
            session: entry.session(),
            series: entry.series(),
            name: backup.series.clone(),
            committed_at: entry.committed_at,
            own_at: own_end(backup),
            is_squeezed: false,
            is_ahead: false,
            tags: backup.tags.clone(),
            hold_until: backup.hold_until,
            newer_unreadable: entry.newer_unreadable,
            may_be_forgotten: entry.may_be_forgotten,
        })
    }

    fn is_in_doubt(&self) -> bool {
        self.newer_unreadable || self.may_be_forgotten
    }

    /// The end of the hold, if it still lasts.
    #[must_use]
    pub fn held(&self, now: UnixNanos) -> Option<UnixNanos> {
        self.hold_until.filter(|until| *until > now)
    }
}

/// When the backup ended, by the source's clock.
fn own_end(backup: &Backup) -> UnixNanos {
    let elapsed = i64::try_from(backup.elapsed_nanos).unwrap_or(i64::MAX);
    UnixNanos::new(backup.source_time.get().saturating_add(elapsed))
}

/// Which times the rules use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Times {
    /// The storage's times. It is an error if they contradict the backups' own times and backups
    /// would be forgotten that stay by their own times.
    #[default]
    Agreeing,
    /// The storage's times, whatever the backups state.
    Commit,
    /// The backups' own times, whatever the storage states.
    Backup,
}

/// The backups of a listing that are not forgotten, by session number, with their times
/// straightened. Filter them afterwards: a filter must not change how a jumped clock is
/// straightened.
#[must_use]
pub fn candidates(list: &ManifestList) -> Vec<Candidate> {
    let mut candidates: Vec<_> = list.backups().filter_map(Candidate::of).collect();
    candidates.sort_by_key(|candidate| (candidate.series, candidate.session));
    for series in candidates.chunk_by_mut(|a, b| a.series == b.series) {
        reconcile(series);
    }
    candidates.sort_by_key(|candidate| candidate.session);
    candidates
}

/// Makes the times of a series agree with the order of its sessions, and marks the backups for
/// which the two clocks contradict each other. The backups come in the order of sessions.
fn reconcile(series: &mut [Candidate]) {
    let told: Vec<_> = series.iter().map(|candidate| candidate.committed_at).collect();
    for (candidate, time) in series.iter_mut().zip(times::straightened(&told)) {
        candidate.committed_at = time;
    }
    let own: Vec<_> = series.iter().map(|candidate| candidate.own_at).collect();
    squeezed::mark(series, &own);
    stretched::mark(series, &own);
    for (candidate, time) in series.iter_mut().zip(times::straightened(&own)) {
        candidate.own_at = time;
    }
}

/// The decision about a backup.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Decision {
    /// The backup.
    pub backup: Candidate,
    /// The reasons to keep it. Without a reason it may be forgotten.
    pub reasons: Vec<Reason>,
}

impl Decision {
    /// Whether the backup is kept.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        !self.reasons.is_empty()
    }
}

/// The decisions of one group.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Group {
    /// What its backups have in common.
    pub key: GroupKey,
    /// Newest first.
    pub decisions: Vec<Decision>,
}

impl Group {
    /// The backups of which this is true. It is given the newest one too.
    fn of(&self, is_one: &impl Fn(&Candidate, &Candidate) -> bool) -> Vec<&Decision> {
        let Some(newest) = self.decisions.first() else {
            return Vec::new();
        };
        let all = self.decisions.iter();
        all.filter(|one| is_one(&one.backup, &newest.backup)).collect()
    }
}

/// Does the same as [`decide`], with these times.
///
/// # Errors
/// Those of [`decide`]; `Contradiction`.
pub fn decide_by(
    candidates: Vec<Candidate>,
    policy: &Policy,
    group_by: GroupBy,
    now: UnixNanos,
    times: Times,
) -> Result<Vec<Group>, RetentionError> {
    let by_own = |policy: &Policy| {
        let mut candidates = candidates.clone();
        for one in &mut candidates {
            one.committed_at = one.own_at;
        }
        decide(candidates, policy, group_by, now)
    };
    if times == Times::Backup {
        return by_own(policy);
    }
    let groups = decide(candidates.clone(), policy, group_by, now)?;
    if times == Times::Commit {
        return Ok(groups);
    }
    ensure_agreeing(&groups, |one, _| one.is_squeezed, || by_own(policy))?;
    let spans = policy.spans();
    if !spans.rules.is_empty() {
        ensure_agreeing(&groups, stretched::seems_old, || by_own(&spans))?;
    }
    Ok(groups)
}

/// Fails if a group loses a backup that `contradicts` says of it, and that `by_own` keeps. It is
/// given the backup, and the newest one of the group.
fn ensure_agreeing(
    groups: &[Group],
    contradicts: impl Fn(&Candidate, &Candidate) -> bool,
    by_own: impl FnOnce() -> Result<Vec<Group>, RetentionError>,
) -> Result<(), RetentionError> {
    let all: Vec<_> = groups.iter().map(|group| group.of(&contradicts)).collect();
    let goes = |decision: &&&Decision| !decision.is_kept();
    if !all.iter().flatten().any(|one| goes(&one)) {
        return Ok(());
    }
    // By their own times a group would lose all its backups, so their own times keep none of them.
    let Ok(own) = by_own() else { return Ok(()) };
    for ((group, contradicting), own) in groups.iter().zip(all).zip(own) {
        let kept: BTreeSet<_> = own
            .decisions
            .iter()
            .filter(|one| one.is_kept())
            .map(|one| one.backup.session)
            .collect();
        let lost = contradicting.iter().filter(goes);
        let lost = lost.filter(|one| kept.contains(&one.backup.session)).count();
        if lost > 0 {
            let backups = contradicting.iter().map(|one| &one.backup);
            // The newest one may be what is wrong.
            let newest = group.decisions.iter().map(|one| &one.backup).take(1);
            let shown = newest.filter(|one| one.is_ahead).chain(backups);
            return Err(RetentionError::Contradiction {
                group: group.key.clone(),
                contradicting: shown.clone().count(),
                committed: squeezed::span(shown.clone().map(|one| one.committed_at)),
                own: squeezed::span(shown.map(|one| one.own_at)),
                lost,
            });
        }
    }
    Ok(())
}

/// Decides about each candidate. Groups come in the order of their keys. `now` is a recent time of
/// the storage's clock: holds that end before it do not count.
///
/// # Errors
/// `NoRule`; `KeepsNothing`. Neither if the policy may remove all.
pub fn decide(
    candidates: Vec<Candidate>,
    policy: &Policy,
    group_by: GroupBy,
    now: UnixNanos,
) -> Result<Vec<Group>, RetentionError> {
    if policy.rules.is_empty() && !policy.may_remove_all {
        return Err(RetentionError::NoRule);
    }
    let groups: Vec<_> = group::divide(candidates, group_by)
        .into_iter()
        .map(|(key, backups)| Group {
            key,
            decisions: decide_group(backups, policy, now),
        })
        .collect();
    let emptied = |group: &&Group| {
        let mut sure = group
            .decisions
            .iter()
            .filter(|decision| !decision.backup.is_in_doubt());
        sure.clone().next().is_some() && !sure.any(Decision::is_kept)
    };
    match groups.iter().find(emptied) {
        Some(group) if !policy.may_remove_all => Err(RetentionError::KeepsNothing {
            group: group.key.clone(),
            backups: group.decisions.len(),
        }),
        _ => Ok(groups),
    }
}

fn decide_group(mut backups: Vec<Candidate>, policy: &Policy, now: UnixNanos) -> Vec<Decision> {
    // Within a series, times agree with session numbers. A group may have several series.
    backups.sort_by_key(|backup| std::cmp::Reverse((backup.committed_at, backup.session)));
    let mut decisions: Vec<_> = backups
        .into_iter()
        .map(|backup| Decision {
            reasons: standing(&backup, now),
            backup,
        })
        .collect();
    // A backup in doubt may be forgotten already, so it counts towards no rule.
    let sure = |decision: &Decision| !decision.backup.is_in_doubt();
    apply_all(policy, &mut decisions, &sure);
    // The rules also run with the doubtful backups, as if they were sure. So a doubtful backup is
    // forgotten some day like others.
    let mut with_doubtful = decisions.clone();
    with_doubtful
        .iter_mut()
        .for_each(|decision| decision.reasons.clear());
    apply_all(policy, &mut with_doubtful, &|decision| {
        !decision.backup.newer_unreadable
    });
    for (decision, with) in decisions.iter_mut().zip(with_doubtful) {
        if decision.backup.may_be_forgotten {
            decision.reasons.extend(with.reasons);
        }
    }
    decisions
}

/// Applies the rules to the decisions for which `to` is true.
fn apply_all(policy: &Policy, decisions: &mut [Decision], to: &dyn Fn(&Decision) -> bool) {
    let mut chosen: Vec<&mut Decision> = decisions.iter_mut().filter(|decision| to(decision)).collect();
    for rule in &policy.rules {
        apply(rule, &mut chosen);
    }
}

/// The reasons that hold without any rule.
fn standing(backup: &Candidate, now: UnixNanos) -> Vec<Reason> {
    let held = backup.held(now).map(Reason::HeldUntil);
    let unreadable = backup.newer_unreadable.then_some(Reason::NewerUnreadable);
    held.into_iter().chain(unreadable).collect()
}

fn apply(rule: &Rule, decisions: &mut [&mut Decision]) {
    let oldest = decisions.len().saturating_sub(1);
    match rule {
        Rule::Newest { period, limit } => {
            let mut buckets = Buckets::new(*period);
            let mut nth = 0;
            for (at, decision) in decisions.iter_mut().enumerate() {
                if limit.is_reached(nth) {
                    break;
                }
                let opens = buckets.opens(decision.backup.committed_at);
                // A rule that has kept fewer backups than its limit keeps the oldest one, so that
                // the history grows towards the limit.
                if opens || at == oldest {
                    nth += 1;
                    decision.reasons.push(Reason::Newest {
                        period: *period,
                        nth,
                        is_oldest: !opens,
                    });
                }
            }
        }
        Rule::Within { period, span } => {
            let Some(newest) = decisions.first() else { return };
            let since = span.before(newest.backup.committed_at);
            let mut buckets = Buckets::new(*period);
            for (at, decision) in decisions.iter_mut().enumerate() {
                if decision.backup.committed_at < since {
                    break;
                }
                let opens = buckets.opens(decision.backup.committed_at);
                if opens || at == oldest {
                    decision.reasons.push(Reason::Within {
                        period: *period,
                        span: *span,
                        is_oldest: !opens,
                    });
                }
            }
        }
        Rule::Tagged(tags) => {
            for decision in decisions {
                if session::bears(&decision.backup.tags, tags) {
                    decision.reasons.push(Reason::Tagged(tags.clone()));
                }
            }
        }
    }
}
