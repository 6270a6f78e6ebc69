//! Repairs damage: from second copies, from other places in the store, and from another store that
//! has copies of the damaged backups.
//!
//! 1. A check reads everything, and lists what is bad.
//! 2. The config gets two whole copies; bad chunks come back from other places of the store
//!    ([`reclaim::heal`]); containers with a bad copy are written anew ([`reclaim::rewrite`]).
//! 3. Backups that are still damaged are copied again from the other store ([`crate::copy()`]). A
//!    copy stores what is bad here once more, and that heals the damaged backup, too: chunks come
//!    back to where it refers to them.
//! 4. If the damaged backup is whole now, the second copy is forgotten. Otherwise, as when nodes or
//!    its manifest are lost, the copy takes its place, and the damaged one is forgotten.
//! 5. What was damaged, and what is new, is read again.
//!
//! Nothing is removed before its replacement is durable and was read. A repair that ends early
//! leaves the store at least as readable as it was, and the next one continues.

use std::collections::{BTreeMap, BTreeSet};

use format::manifest::Origin;
use format::names::LeaseRole;
use index::Index;
use reclaim::Healed;
use session::Session;
use types::{ContainerId, SessionId};

use crate::check::{CheckReport, Damage, Finding, ReadData};
use crate::copy::{CopyRequest, CopyStep, copy};
use crate::error::{Error, Result};
use crate::forget::ForgetRequest;
use crate::monitor::Monitor;
use crate::repository::Repository;
use crate::snapshots::Snapshot;
use crate::store::Store;
use crate::warning::Warning;

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
    /// Backups that could not be healed, each with its copy that has taken its place.
    pub replaced: BTreeMap<SessionId, SessionId>,
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
        if report.before.is_sound() {
            return Ok(report);
        }
        told(RepairStep::Heals);
        report.is_config_mended = self.mend_config()?;
        let mut touched = report.before.damaged_containers.clone();
        self.heal_and_rewrite(&touched, monitor, &mut report)?;
        let lost = report.before.damaged_backups.clone();
        if let (Some(other), false) = (other, lost.is_empty()) {
            let since = self.newest()?;
            let copies = self.copy_back(other, &lost, monitor, told, &mut report)?;
            self.heal_and_rewrite(&touched, monitor, &mut report)?;
            touched.extend(self.containers_since(since)?);
            told(RepairStep::ChecksAgain);
            let seen = self.check_containers(&touched, monitor)?;
            self.settle(&copies, &seen, monitor, &mut report)?;
        }
        told(RepairStep::ChecksAgain);
        report.after = self.check_containers(&touched, monitor)?;
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
        let session = Session::begin_read_with(&self.manifests, self.options.process, self.options.policy)?;
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
        let lease = session.acquire_lease(LeaseRole::Reclaim)?;
        let written = self.reclaiming(Some(index), monitor, |context| {
            reclaim::rewrite(context, &lease, ids)
        });
        let released = lease.release();
        let written = written?;
        released.map_err(Error::from)?;
        Ok(written)
    }

    /// The newest backup.
    fn newest(&self) -> Result<Option<SessionId>> {
        Ok(self.snapshots()?.snapshots.last().map(|snapshot| snapshot.id))
    }

    /// The containers of backups that are newer.
    fn containers_since(&self, since: Option<SessionId>) -> Result<BTreeSet<ContainerId>> {
        let list = self.snapshots()?.snapshots.into_iter();
        let newer = list.filter(|snapshot| since.is_none_or(|since| snapshot.id > since));
        Ok(newer
            .flat_map(|snapshot| {
                let spans = snapshot.backup.containers.clone();
                spans
                    .into_iter()
                    .flat_map(move |span| span.ids(snapshot.id).collect::<Vec<_>>())
            })
            .collect())
    }

    /// Copies the damaged backups again that the other store has. Returns the copies, by the
    /// damaged backups.
    fn copy_back(
        &self,
        other: &dyn Repository,
        lost: &BTreeSet<SessionId>,
        monitor: &Monitor,
        told: &mut dyn FnMut(RepairStep),
        report: &mut RepairReport,
    ) -> Result<BTreeMap<SessionId, SessionId>> {
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
            return Ok(BTreeMap::new());
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
        let mut copies = BTreeMap::new();
        for one in copied.copied {
            report.healed.extend(one.made.healed.iter().cloned());
            if let Some(lost) = lost_of(one.from.id) {
                copies.insert(lost, one.made.id);
            }
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
        let pair = |id: &SessionId| Some((*id, *by_origin.get(&wanted(id)?)?));
        Ok(lost.iter().filter_map(pair).collect())
    }

    /// Forgets of each damaged backup and its copy the one that is not needed.
    fn settle(
        &self,
        copies: &BTreeMap<SessionId, SessionId>,
        seen: &CheckReport,
        monitor: &Monitor,
        report: &mut RepairReport,
    ) -> Result<()> {
        let list = self.snapshots()?.snapshots;
        let streams = |id: &SessionId| -> Option<Vec<_>> {
            let snapshot = list.iter().find(|snapshot| snapshot.id == *id)?;
            let streams = snapshot.backup.streams.iter();
            Some(streams.map(|stream| (stream.role, stream.len)).collect())
        };
        for (lost, copy) in copies {
            // What is known of the damaged one must be the same in its copy.
            let is_same = streams(lost).is_none_or(|known| streams(copy) == Some(known));
            if seen.damaged_backups.contains(copy) || !is_same {
                report.missing.insert(*lost);
                continue;
            }
            let is_healed = !seen.damaged_backups.contains(lost);
            let needless = if is_healed { copy } else { lost };
            // The other one is held as long.
            self.hold(&[needless.to_string()], None).ok();
            let request = ForgetRequest::named([needless.to_string()]).force_unreadable(true);
            self.forget(&request, monitor)?;
            if !is_healed {
                report.replaced.insert(*lost, *copy);
            }
        }
        Ok(())
    }
}
