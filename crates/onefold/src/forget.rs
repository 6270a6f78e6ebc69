//! Forgets backups: those that a policy does not keep, or those that the caller names.
//!
//! It decides everything, and finds every objection, before it puts the first tombstone. All
//! tombstones are durable when the run ends. An interrupted run has forgotten some backups and
//! harmed none. Running it again does the rest. A backup that is held or tagged after the decision
//! stays. Forgetting frees no space.

mod others;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use format::names;
use reclaim::retention::{self, Candidate, Decision, Group, GroupBy, Policy, Reason, Times};
use session::{DamagedObject, Filter, Forgetting, ManifestEntry, ManifestList, Seen, Session, SessionError};
use types::{SeriesId, SessionId, UnixNanos};

use self::others::Other;
use crate::error::{Error, Result};
use crate::monitor::{Monitor, WorkUnit};
use crate::scope::Scope;
use crate::store::Store;

/// The choice of backups to forget.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ForgetWhat {
    /// These: ids, or `latest`.
    Named(Vec<String>),
    /// Of the backups that pass the filter, those that the policy does not keep.
    ByPolicy {
        /// The policy.
        policy: Policy,
        /// The groups to which the policy is applied separately.
        group_by: GroupBy,
        /// Which backups are considered.
        filter: Filter,
        /// Which times the policy uses.
        times: Times,
    },
}

/// A request to forget backups.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ForgetRequest {
    /// The backups to forget.
    pub what: ForgetWhat,
    /// Only decide and report.
    pub is_dry_run: bool,
    /// Forget a named backup even if the storage does not give its manifest now. Nobody knows then
    /// whether the backup is whole, or held. A rotted manifest does not need this option, because
    /// it will not come back. Also ends a named session without a backup, if its claim cannot be
    /// read.
    pub force_unreadable: bool,
}

types::setters!(ForgetRequest {
    what: ForgetWhat,
    is_dry_run: bool,
    force_unreadable: bool,
});

impl ForgetRequest {
    /// Forgets these backups: ids, or `latest`.
    #[must_use]
    pub fn named(ids: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(ForgetWhat::Named(ids.into_iter().map(Into::into).collect()))
    }

    /// Forgets the backups that `what` chooses, if their manifests can be read.
    #[must_use]
    pub const fn new(what: ForgetWhat) -> Self {
        Self {
            what,
            is_dry_run: false,
            force_unreadable: false,
        }
    }
}

/// The result of forgetting, or of a dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct ForgetReport {
    /// The decisions of a policy, with reasons.
    pub groups: Vec<Group>,
    /// Backups that were named and can be read, by id.
    pub named: Vec<Candidate>,
    /// Backups that this run forgot, by id.
    pub forgotten: Vec<SessionId>,
    /// Sessions without a backup that this run ended: their claims could not be read.
    #[serde(default)]
    pub ended_sessions: Vec<SessionId>,
    /// Backups that were to be forgotten, but another process had done so already.
    pub already_forgotten: Vec<SessionId>,
    /// Backups that were to be forgotten, but were held or tagged meanwhile, or were unreadable and
    /// can be read now. Also sessions that were to be ended, and have put something meanwhile. They
    /// stay, and the caller may request them again.
    pub revised_meanwhile: Vec<SessionId>,
    /// Backups that are forgotten, now or before, but stay stored, each with an archival backup
    /// that refers forward to it.
    pub kept: BTreeMap<SessionId, SessionId>,
    /// Manifests that cannot be read. A policy never forgets those backups.
    pub damaged: Vec<DamagedObject>,
}

/// A backup to forget, as it was seen.
#[derive(Clone, Copy)]
struct Doomed {
    series: SeriesId,
    session: SessionId,
    seen: Seen,
}

impl Doomed {
    fn of(entry: &ManifestEntry) -> Self {
        Self {
            series: entry.series(),
            session: entry.session(),
            seen: Seen {
                highest: entry.revisions.last().copied().unwrap_or(entry.stored.revision),
                is_read: true,
            },
        }
    }
}

impl Store {
    /// Forgets backups.
    ///
    /// # Errors
    /// A policy that keeps nothing, or a named backup that is held, in doubt or missing: then
    /// nothing is forgotten. `Interrupted`, or of the storage: then some backups may be forgotten.
    pub fn forget(&self, request: &ForgetRequest, monitor: &Monitor) -> Result<ForgetReport> {
        self.forget_within(&Scope::default(), request, monitor)
    }

    /// Forgets backups of a part of the store.
    ///
    /// # Errors
    /// As [`Self::forget`]. A backup outside of the scope does not exist.
    pub fn forget_within(
        &self,
        scope: &Scope,
        request: &ForgetRequest,
        monitor: &Monitor,
    ) -> Result<ForgetReport> {
        if !request.is_dry_run {
            self.ensure_writable()?;
        }
        let mut list = scope.narrow(self.manifests.list()?);
        let mut report = ForgetReport::default();
        let mut others = Vec::new();
        let mut doomed = match &request.what {
            ForgetWhat::Named(ids) => self.named((scope, &list), ids, request, (&mut report, &mut others))?,
            ForgetWhat::ByPolicy {
                policy,
                group_by,
                filter,
                times,
            } => {
                if policy.rules.is_empty() && policy.may_remove_all && *filter == Filter::default() {
                    return Err(Error::Setting(
                        "this would forget every backup in the store; choose some with --host, --path or --tag".into(),
                    ));
                }
                let candidates = chosen(scope, &list, filter);
                let now = self.now_for_holds(&candidates, request.is_dry_run)?;
                report.groups = retention::decide_by(candidates, policy, *group_by, now, *times)?;
                report.damaged.clone_from(&list.damaged);
                condemned(&list, &report.groups)
            }
        };
        doomed.sort_by_key(|one| one.session);
        doomed.dedup_by_key(|one| one.session);
        let done = if request.is_dry_run {
            vec![Forgetting::Done; doomed.len()]
        } else {
            self.forget_all(&doomed, monitor)?
        };
        for (one, done) in doomed.into_iter().zip(done) {
            match done {
                Forgetting::Done => report.forgotten.push(one.session),
                Forgetting::Before => report.already_forgotten.push(one.session),
                Forgetting::Revised => report.revised_meanwhile.push(one.session),
            }
        }
        for one in others {
            let is_done = request.is_dry_run || self.forget_other(&one)?;
            let told = match one {
                _ if !is_done => &mut report.revised_meanwhile,
                Other::Lost(_) => &mut report.forgotten,
                Other::Unreadable(_) => &mut report.ended_sessions,
            };
            told.push(one.session());
        }
        report.forgotten.sort_unstable();
        let gone = report.forgotten.iter().chain(&report.already_forgotten);
        let gone: BTreeSet<_> = gone.copied().collect();
        list.forget(&gone);
        report.kept = self.keepers(&list);
        report.kept.retain(|one, _| gone.contains(one));
        Ok(report)
    }

    /// Forgets a backup, whatever its hold, unless somebody has revised it since it was listed.
    pub(crate) fn forget_as_seen(&self, entry: &ManifestEntry, monitor: &Monitor) -> Result<Forgetting> {
        let done = self.forget_all(&[Doomed::of(entry)], monitor)?;
        Ok(done.into_iter().next().unwrap_or(Forgetting::Revised))
    }

    /// The forgotten backups of a listing that others refer forward to, each with one that does,
    /// along a chain. It reads manifests as far as possible. This is only a report: it does not
    /// decide whether they stay.
    fn keepers(&self, list: &ManifestList) -> BTreeMap<SessionId, SessionId> {
        let is_forgotten = |id| list.get(id).is_some_and(ManifestEntry::is_forgotten);
        let mut keepers = BTreeMap::new();
        for entry in list.backups() {
            let next = entry.backup().and_then(|backup| backup.next);
            if !next.is_some_and(is_forgotten) {
                continue;
            }
            let chain = self.manifests.chains(list, [entry]).unwrap_or_default();
            let links = chain.iter().map(|link| link.session);
            let forgotten = links.take_while(|id| is_forgotten(*id));
            keepers.extend(forgotten.map(|id| (id, entry.session())));
        }
        keepers
    }

    /// Forgets backups as they were listed, in any order. Returns the result for each. Durable on
    /// return.
    pub(crate) fn forget_listed(
        &self,
        list: &ManifestList,
        ids: &[SessionId],
        monitor: &Monitor,
    ) -> Result<BTreeMap<SessionId, Forgetting>> {
        let listed = ids.iter().filter_map(|id| list.get(*id));
        let doomed: Vec<_> = listed.map(Doomed::of).collect();
        let done = self.forget_all(&doomed, monitor)?;
        Ok(doomed.into_iter().map(|one| one.session).zip(done).collect())
    }

    fn forget_all(&self, doomed: &[Doomed], monitor: &Monitor) -> Result<Vec<Forgetting>> {
        monitor.begin_part(WorkUnit::Backups, doomed.len() as u64);
        if doomed.is_empty() {
            return Ok(Vec::new());
        }
        let done: Vec<_> = doomed.iter().map(|_| OnceLock::new()).collect();
        self.with_reserve(|_| self.put_tombstones(doomed, &done, monitor))
            .0
    }

    /// Puts the tombstones that are not `done`, several at once. The first barrier makes the
    /// objects durable on which the decision is based. The last one makes all tombstones durable.
    /// No tombstone needs another barrier in between.
    fn put_tombstones(
        &self,
        doomed: &[Doomed],
        done: &[OnceLock<Forgetting>],
        monitor: &Monitor,
    ) -> Result<Vec<Forgetting>> {
        self.sealer.barrier()?;
        let all = object::several(self.env.storage.is_far(), doomed.len(), |at| {
            // An earlier attempt that ran out of space put it. If it were put again, it would look
            // like another process's tombstone.
            if let Some(done) = done[at].get() {
                return Ok(*done);
            }
            if monitor.is_cancelled() {
                return Err(::restore::RestoreError::Interrupted.into());
            }
            let Doomed {
                series,
                session,
                seen,
            } = doomed[at];
            let forgetting = self.manifests.put_tombstone(series, session, seen)?;
            monitor.add_done(1);
            Ok::<_, Error>(*done[at].get_or_init(|| forgetting))
        })?;
        self.sealer.barrier()?;
        Ok(all)
    }

    fn named(
        &self,
        (scope, list): (&Scope, &ManifestList),
        ids: &[String],
        request: &ForgetRequest,
        (report, others): (&mut ForgetReport, &mut Vec<Other>),
    ) -> Result<Vec<Doomed>> {
        let mut candidates = retention::candidates(list);
        scope.protect(&mut candidates);
        let mut candidates: BTreeMap<_, _> = candidates.into_iter().map(|one| (one.session, one)).collect();
        let mut doomed = Vec::new();
        let mut wanted = Vec::new();
        // A client of a server may name one many times.
        for id in ids.iter().collect::<BTreeSet<_>>() {
            match self.manifests.resolve(list, id, &Filter::default()) {
                Ok(entry) => {
                    doomed.push(Doomed::of(entry));
                    wanted.extend(candidates.remove(&entry.session()));
                }
                Err(SessionError::Forgotten { session }) => report.already_forgotten.push(session),
                // Nobody can restore it, and only a tombstone ends it.
                Err(SessionError::Damaged(object)) => {
                    doomed.extend(unreadable(list, &object, request.force_unreadable)?)
                }
                // Nobody knows whose these are.
                Err(error @ SessionError::NoBackup { .. }) if scope.is_whole() => {
                    others.push(self.other(id, request)?.ok_or(error)?);
                }
                Err(error) => return Err(error.into()),
            }
        }
        report.already_forgotten.sort_unstable();
        report.already_forgotten.dedup();
        let now = self.now_for_holds(&wanted, request.is_dry_run)?;
        for one in &wanted {
            let id = one.session;
            if one.newer_unreadable {
                return Err(Error::Held(format!(
                    "backup {id} is not forgotten: its newest manifest revision cannot be read and may be a hold; \
                     `onefold unhold {id}` writes a new one without, and then it can be"
                )));
            }
            if let Some(until) = one.held(now) {
                let reason = Reason::HeldUntil(until);
                let own_hold = list.get(id).and_then(ManifestEntry::backup);
                if own_hold.and_then(|backup| backup.hold_until) != Some(until) {
                    return Err(Error::Held(format!(
                        "backup {id} is {reason}, and none is forgotten: it is younger than the minimum age here"
                    )));
                }
                return Err(Error::Held(format!(
                    "backup {id} is {reason}, and none is forgotten; `onefold unhold {id}` ends the hold"
                )));
            }
        }
        wanted.sort_by_key(|one| one.session);
        report.named = wanted;
        Ok(doomed)
    }

    /// A recent time of the storage's clock, if one of these backups has a hold. Without holds, no
    /// time matters.
    fn now_for_holds(&self, backups: &[Candidate], is_dry_run: bool) -> Result<UnixNanos> {
        let before_all_holds = UnixNanos::new(i64::MIN);
        if backups.iter().all(|one| one.hold_until.is_none()) {
            return Ok(before_all_holds);
        }
        if is_dry_run {
            // In a dry run, the user may lack the right to write. Then holds count as lasting.
            return Ok(self.storage_now().unwrap_or(before_all_holds));
        }
        // This puts a claim, which on a full disk needs the reserve, like the tombstones.
        self.with_reserve(|_| self.storage_now()).0
    }

    /// The time by the storage's clock: the time of an object put just now, a read session's claim.
    pub(crate) fn storage_now(&self) -> Result<UnixNanos> {
        let session = Session::begin_read(&self.sealer, self.options.process, self.options.policy)?;
        let told = self.env.storage.head(&names::claim(session.id()));
        session.end()?;
        Ok(told?.put_at)
    }
}

/// The backups to which a policy is applied.
fn chosen(scope: &Scope, list: &ManifestList, filter: &Filter) -> Vec<Candidate> {
    let mut candidates = retention::candidates(list);
    scope.protect(&mut candidates);
    candidates.retain(|one| {
        let backup = list.get(one.session).and_then(ManifestEntry::backup);
        backup.is_some_and(|backup| filter.lets_through(backup))
    });
    candidates
}

fn condemned(list: &ManifestList, groups: &[Group]) -> Vec<Doomed> {
    let decisions = groups.iter().flat_map(|group| &group.decisions);
    decisions
        .filter(|decision: &&Decision| !decision.is_kept())
        .filter_map(|decision| list.get(decision.backup.session))
        .map(Doomed::of)
        .collect()
}

/// A backup without a readable revision. If the storage just does not give one now, the backup may
/// be whole, and held.
fn unreadable(list: &ManifestList, object: &DamagedObject, force_unreadable: bool) -> Result<Option<Doomed>> {
    let Some((series, session, _)) = names::parse_manifest(&object.name) else {
        return Ok(None);
    };
    if let Some(unread) = list.unread_of(series, session).filter(|_| !force_unreadable) {
        return Err(Error::Held(format!(
            "{unread}: backup {session} is not forgotten, for it may be whole and held, and cannot be read now; run the \
             command again when the storage can be read, or forget it all the same with --force-unreadable"
        )));
    }
    let revisions = list
        .damaged_of(session)
        .filter_map(|other| names::parse_manifest(&other.name));
    let highest = revisions.map(|(_, _, revision)| revision).max();
    Ok(highest.map(|highest| Doomed {
        series,
        session,
        seen: Seen {
            highest,
            is_read: false,
        },
    }))
}
