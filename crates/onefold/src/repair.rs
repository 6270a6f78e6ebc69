//! Repairs damage: from second copies, from other places in the store, and from another store that
//! has copies of the damaged backups.
//!
//! 1. A check reads everything, and lists what is bad.
//! 2. The config gets two whole copies; bad chunks come back from other places of the store
//!    ([`reclaim::heal`]); containers with a bad copy are written anew ([`reclaim::rewrite`]).
//! 3. A backup whose newest manifest revision is damaged gets a new one above it.
//! 4. Backups that are still damaged are copied again from the other store ([`crate::copy()`]). A
//!    copy stores what is bad here once more, and that heals the damaged backup, too: chunks come
//!    back to where it refers to them.
//! 5. If the damaged backup is whole now, the second copy is forgotten, unless somebody has revised
//!    it, or forgotten the other one, meanwhile. If it is not whole, as when nodes or its manifest
//!    are lost, the copy takes its place, and the damaged one is forgotten.
//! 6. What was damaged, and what is new, is read again.
//!
//! Nothing is removed before its replacement is durable and was read. A repair that ends early
//! leaves the store at least as readable as it was. It may leave copies beside the backups that
//! they are of: the next repair uses or forgets them ([`leftovers`]).

mod doubt;
mod leftovers;

use std::collections::{BTreeMap, BTreeSet};

use format::manifest::{Backup, Origin};
use format::names::LeaseRole;
use index::Index;
use reclaim::Healed;
use session::{Forgetting, ManifestEntry, Session, SessionError};
use types::{ContainerId, Revision, SessionId};

use crate::check::{CheckReport, Damage, Finding, ReadData};
use crate::copy::{CopyRequest, CopyStep, copy};
use crate::error::{Error, Result};
use crate::forget::ForgetRequest;
use crate::monitor::Monitor;
use crate::repository::Repository;
use crate::revise::{HoldEnd, TagChange, Which};
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::warning::Warning;
use leftovers::Pair;

/// A step of a repair, told as it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairStep {
    /// Everything is read.
    Checks,
    /// Damage is healed from the store's own copies.
    Heals,
    /// This backup of the other store is copied, in the place of that one of this store.
    Copies {
        /// In the other store.
        from: SessionId,
        /// The damaged backup.
        lost: SessionId,
    },
    /// What was damaged is read again.
    ChecksAgain,
}

/// The result of a repair.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// What was damaged before.
    pub before: CheckReport,
    /// What is damaged now.
    pub after: CheckReport,
    /// Containers that got chunks back.
    pub healed: Vec<Healed>,
    /// Containers that were written anew because one of their copies was bad.
    pub rewritten: Vec<ContainerId>,
    /// Whether the config got two whole copies.
    pub is_config_mended: bool,
    /// Configs that changes of passwords had left.
    pub configs_deleted: usize,
    /// Backups that could not be healed, each with its copy that has taken its place.
    pub replaced: BTreeMap<SessionId, SessionId>,
    /// Copies that an earlier repair had left, and that were forgotten now, each with the backup
    /// that it is a copy of.
    pub left_over: BTreeMap<SessionId, SessionId>,
    /// Damaged backups that the other store does not have, or has damaged.
    pub missing: BTreeSet<SessionId>,
    /// Errors that did not end the repair.
    pub warnings: Vec<Warning>,
}

impl Store {
    /// Repairs the store, with the help of another one if there is one.
    ///
    /// # Errors
    /// If the storage refuses or is gone; if somebody prunes meanwhile; if the caller asks to stop.
    /// Damage that stays is no error: it is in the report.
    pub fn repair(
        &self,
        other: Option<&dyn Repository>,
        monitor: &Monitor,
        told: &mut dyn FnMut(RepairStep),
    ) -> Result<RepairReport> {
        self.ensure_writable()?;
        let _past = self.past_cache();
        told(RepairStep::Checks);
        let before = self.check(ReadData::Share(1.0), monitor)?;
        let mut report = RepairReport {
            after: before.clone(),
            before,
            ..RepairReport::default()
        };
        self.delete_leftover_configs(&mut report)?;
        if report.before.is_sound() {
            if other.is_some() {
                let left = self.leftovers(&BTreeSet::new(), &BTreeSet::new())?;
                self.settle(&left, &report.before.clone(), monitor, &mut report)?;
            }
            return Ok(report);
        }
        told(RepairStep::Heals);
        report.is_config_mended = self.mend_config()?;
        let touched = report.before.damaged_containers.clone();
        let mut sessions = BTreeSet::new();
        self.heal_and_rewrite(&touched, monitor, &mut report)?;
        if let Some(other) = other {
            let mut lost = report.before.damaged_backups.clone();
            self.end_doubts(other, &mut lost, &touched, monitor, &mut report)?;
            let mut pairs = self.leftovers(&report.before.damaged_backups, &lost)?;
            lost.retain(|id| pairs.iter().all(|pair| pair.of != *id));
            pairs.extend(self.copy_back(other, &lost, monitor, told, &mut report)?);
            if !pairs.is_empty() {
                self.heal_and_rewrite(&touched, monitor, &mut report)?;
                sessions = self.sessions_of(&pairs)?;
                told(RepairStep::ChecksAgain);
                let seen = self.check_some(&touched, &sessions, monitor)?;
                self.settle(&pairs, &seen, monitor, &mut report)?;
            }
        }
        told(RepairStep::ChecksAgain);
        report.after = self.check_some(&touched, &sessions, monitor)?;
        if report.is_config_mended {
            // This handle remembers what it found when it was opened.
            let is_of_config = |found: &Finding| matches!(found.what, Damage::ConfigCopy { .. });
            report.after.findings.retain(|found| !is_of_config(found));
        }
        report
            .missing
            .retain(|id| report.after.damaged_backups.contains(id));
        Ok(report)
    }

    /// Deletes what changes of passwords have left.
    fn delete_leftover_configs(&self, report: &mut RepairReport) -> Result<()> {
        let is_old = |found: &Finding| found.what == Damage::ConfigOld;
        if !report.before.leftovers.iter().any(is_old) {
            return Ok(());
        }
        let kept = self.delete_old_configs()?;
        let is_kept = |found: &Finding| kept.iter().any(|name| name.as_str() == found.object);
        let is_left = |found: &Finding| !is_old(found) || is_kept(found);
        report.after.leftovers.retain(is_left);
        report.configs_deleted = report.before.leftovers.len() - report.after.leftovers.len();
        Ok(())
    }

    /// Makes two whole copies of the config, if one is damaged. Returns whether it did.
    fn mend_config(&self) -> Result<bool> {
        if self.config.damage.is_empty() {
            return Ok(false);
        }
        let mended = object::config::repair(&self.env, &self.config)?;
        Ok(mended.damage.is_empty())
    }

    fn heal_and_rewrite(
        &self,
        ids: &BTreeSet<ContainerId>,
        monitor: &Monitor,
        report: &mut RepairReport,
    ) -> Result<()> {
        let index = self.index()?;
        let (healed, warnings) = self.heal(&index, &[], monitor)?;
        report.healed.extend(healed.healed);
        report.warnings.extend(warnings);
        if ids.is_empty() {
            return Ok(());
        }
        let session =
            Session::begin_read_with(&self.manifests, self.options.process, self.options.policy, None)?;
        let heartbeats = self.heartbeats.add(&session)?;
        let written = self.rewrite_as(&session, &index, ids, monitor);
        drop(heartbeats);
        let ended = session.end();
        let (written, warnings) = written?;
        ended?;
        report.rewritten.extend(written);
        report.warnings.extend(warnings);
        Ok(())
    }

    fn rewrite_as(
        &self,
        session: &Session,
        index: &Index,
        ids: &BTreeSet<ContainerId>,
        monitor: &Monitor,
    ) -> Result<(Vec<ContainerId>, Vec<Warning>)> {
        let lease = match session.acquire_lease(LeaseRole::Reclaim) {
            Ok(lease) => lease,
            Err(SessionError::LeaseTaken { .. }) => {
                let why = "another process prunes or heals now; run the repair again".to_owned();
                return Ok((Vec::new(), vec![Warning::NotHealed { why }]));
            }
            Err(error) => return Err(error.into()),
        };
        let written = self.reclaiming(Some(index), monitor, |context| {
            reclaim::rewrite(context, &lease, ids)
        });
        let released = lease.release();
        let written = written?;
        released.map_err(Error::from)?;
        Ok(written)
    }

    /// The sessions with containers of these copies: their own, and those that they took over.
    fn sessions_of(&self, pairs: &[Pair]) -> Result<BTreeSet<SessionId>> {
        let mut sessions: BTreeSet<SessionId> = pairs.iter().map(|pair| pair.copy).collect();
        for snapshot in self.snapshots()?.snapshots {
            if sessions.contains(&snapshot.id) {
                sessions.extend(snapshot.backup.adopted.iter().map(|(adopted, _)| *adopted));
            }
        }
        Ok(sessions)
    }

    /// Copies the damaged backups again that the other store has. Returns them with their copies.
    fn copy_back(
        &self,
        other: &dyn Repository,
        lost: &BTreeSet<SessionId>,
        monitor: &Monitor,
        told: &mut dyn FnMut(RepairStep),
        report: &mut RepairReport,
    ) -> Result<Vec<Pair>> {
        if lost.is_empty() {
            return Ok(Vec::new());
        }
        let theirs = self.counterparts(other, lost)?;
        report.missing = lost
            .iter()
            .filter(|id| !theirs.contains_key(id))
            .copied()
            .collect();
        let request = CopyRequest {
            ids: theirs.values().map(ToString::to_string).collect(),
            again: theirs.values().copied().collect(),
            ..CopyRequest::default()
        };
        if request.ids.is_empty() {
            return Ok(Vec::new());
        }
        let lost_of = |from: SessionId| {
            theirs
                .iter()
                .find(|(_, their)| **their == from)
                .map(|(lost, _)| *lost)
        };
        let copied = copy(other, self, &request, monitor, &mut |step| {
            if let CopyStep::Begins(snapshot) = step
                && let Some(lost) = lost_of(snapshot.id)
            {
                let from = snapshot.id;
                told(RepairStep::Copies { from, lost });
            }
        })?;
        let mut copies = Vec::new();
        for one in copied.copied {
            report.healed.extend(one.made.healed.iter().cloned());
            copies.extend(lost_of(one.from.id).map(|of| Pair {
                of,
                copy: one.made.id,
                is_left: false,
            }));
        }
        report
            .missing
            .extend(copied.failed.iter().filter_map(|one| lost_of(one.from.id)));
        Ok(copies)
    }

    /// The backups of the other store that are the same as these, by these.
    fn counterparts(
        &self,
        other: &dyn Repository,
        lost: &BTreeSet<SessionId>,
    ) -> Result<BTreeMap<SessionId, SessionId>> {
        let (ours, theirs) = (self.snapshots()?, other.snapshots()?);
        let origin = |store, snapshot: &Snapshot| {
            let own = |store| Origin {
                store,
                backup: snapshot.id,
            };
            snapshot.backup.origin.or(Option::map(store, own))
        };
        let mut by_origin: BTreeMap<Origin, SessionId> = BTreeMap::new();
        for snapshot in &theirs.snapshots {
            if let Some(origin) = origin(theirs.store, snapshot) {
                by_origin.insert(origin, snapshot.id);
            }
        }
        let wanted = |id: &SessionId| {
            let known = ours.snapshots.iter().find(|snapshot| snapshot.id == *id);
            match known {
                Some(snapshot) => origin(ours.store, snapshot),
                // Its manifest is lost. If it was made here, its number is its origin.
                None => ours.store.map(|store| Origin { store, backup: *id }),
            }
        };
        let time = |list: &[Snapshot], id: SessionId| {
            let found = list.iter().find(|snapshot| snapshot.id == id);
            found.map(|snapshot| snapshot.backup.source_time)
        };
        let pair = |id: &SessionId| {
            let their = *by_origin.get(&wanted(id)?)?;
            // A store that was put back to an earlier state gives out numbers anew.
            let known = time(&ours.snapshots, *id);
            let is_same = known.is_none() || known == time(&theirs.snapshots, their);
            is_same.then_some((*id, their))
        };
        Ok(lost.iter().filter_map(pair).collect())
    }

    /// Forgets of each damaged backup and its copy the one that is not needed.
    fn settle(
        &self,
        pairs: &[Pair],
        seen: &CheckReport,
        monitor: &Monitor,
        report: &mut RepairReport,
    ) -> Result<()> {
        for Pair {
            of: lost,
            copy,
            is_left,
        } in pairs
        {
            // Others may forget backups all the time.
            let list = self.manifests.list()?;
            let entry = |id: &SessionId| list.get(*id).filter(|entry| entry.backup().is_some());
            let streams = |id: &SessionId| -> Option<Vec<_>> {
                let streams = entry(id)?.backup()?.streams.iter();
                Some(streams.map(|stream| (stream.role, stream.len)).collect())
            };
            // What is known of the damaged one must be the same in its copy.
            let is_same = streams(lost).is_none_or(|known| streams(copy) == Some(known));
            let is_healed = !seen.damaged_backups.contains(lost);
            let there = entry(copy).filter(|copy| !copy.is_in_doubt());
            let Some(there) = there.filter(|_| !seen.damaged_backups.contains(copy) && is_same) else {
                if !is_healed {
                    report.missing.insert(*lost);
                }
                continue;
            };
            if is_healed && let Some(why) = keeps_both(entry(lost), there) {
                let (copy, of) = (*copy, *lost);
                report.warnings.push(Warning::CopyStays { copy, of, why });
                continue;
            }
            let forgotten = if is_healed {
                self.drop_backup(*copy, entry(copy), monitor)
            } else {
                let known = entry(lost).and_then(ManifestEntry::backup);
                let kept = known.map_or(Ok(()), |known| self.hand_on(known, *copy));
                kept.and_then(|()| self.drop_backup(*lost, entry(lost), monitor))
            };
            match forgotten {
                Ok(()) if is_healed && *is_left => _ = report.left_over.insert(*copy, *lost),
                Ok(()) if is_healed => {}
                Ok(()) => _ = report.replaced.insert(*lost, *copy),
                Err(error) => report.warnings.push(Warning::NotHealed {
                    why: format!("of backup {lost} and its copy {copy}, none could be forgotten: {error}"),
                }),
            }
        }
        Ok(())
    }

    /// Gives the copy the tags of the damaged backup, and the later hold.
    fn hand_on(&self, of: &Backup, copy: SessionId) -> Result<()> {
        let ids = [copy.to_string()];
        let list = self.snapshots()?.snapshots;
        let Some(now) = list.iter().find(|snapshot| snapshot.id == copy) else {
            return Ok(());
        };
        // A hold that has ended cannot be made again, and protects nothing.
        if let Some(until) = of.hold_until
            && of.hold_until > now.backup.hold_until
            && until > self.storage_now()?
        {
            self.hold(&ids, Some(HoldEnd::At(until)))?;
        }
        if of.tags != now.backup.tags {
            self.tag(&Which::Named(ids.to_vec()), &TagChange::Set(of.tags.clone()))?;
        }
        Ok(())
    }

    /// Forgets a backup as it was when it was compared with its copy, which has its hold.
    fn drop_backup(&self, id: SessionId, seen: Option<&ManifestEntry>, monitor: &Monitor) -> Result<()> {
        let Some(entry) = seen else {
            // Its manifest is lost.
            let named = ForgetRequest::named([id.to_string()]);
            return self.forget(&named.force_unreadable(true), monitor).map(drop);
        };
        match self.forget_as_seen(entry, monitor)? {
            Forgetting::Done | Forgetting::Before => Ok(()),
            Forgetting::Revised => Err(Error::Held(format!(
                "somebody changed backup {id} meanwhile; run the repair again"
            ))),
        }
    }
}

/// Why neither a whole backup nor its copy is forgotten, if so. Hours may have passed since they
/// were checked.
fn keeps_both(of: Option<&ManifestEntry>, copy: &ManifestEntry) -> Option<&'static str> {
    if !of.is_some_and(|of| of.backup().is_some() && !of.is_in_doubt()) {
        return Some("the other one was forgotten meanwhile, or cannot be read now");
    }
    let is_revised = copy.revisions.last() != Some(&Revision::FIRST);
    is_revised.then_some("somebody has given it tags or a hold")
}
