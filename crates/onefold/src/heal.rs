//! Damage that commands find during other work: they list it for look-ups, and a later backup heals
//! it.
//!
//! `check` looks for damage. Other commands find it by chance, or in a sample. They list it under
//! `damaged/`, as a check does, so that no later backup refers to it. A backup that has stored
//! listed chunks again puts them back, at its end, where older backups refer to them
//! ([`reclaim::heal`]).

use std::collections::BTreeSet;

use container::{ContainerError, Depth};
use env::Moment;
use format::frame::ObjectKind;
use format::names::{self, LeaseRole};
use format::reclaim::Removed;
use index::Index;
use ingest::VerifiedKnown;
use recipe::RecipeError;
use restore::RestoreError;
use session::{Session, SessionError};
use types::{ContainerId, ContainerKind};

use crate::damage::{BadSlots, all_slots};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::store::Store;
use crate::warning::Warning;

pub use reclaim::{HealReport, Healed};

impl Store {
    /// Lists the unreadable containers that this process has met. It first reads each whole
    /// container again, because a prune may have overtaken a reader. Returns warnings about new
    /// ones.
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn record_met(&self) -> Result<Vec<Warning>> {
        let listed = self.list_met(usize::MAX)?.into_iter();
        Ok(listed.map(Warning::container_damaged).collect())
    }

    /// Does the same for a caller whose own work is done, or has failed: it is not an error if the
    /// storage fails now.
    pub(crate) fn note_met(&self) -> Vec<Warning> {
        self.record_met().unwrap_or_else(|error| {
            let why = error.to_string();
            vec![Warning::MetNotListed { why }]
        })
    }

    /// Like [`Self::record_met`], for at most so many containers. It drops the others. Returns the
    /// new ones.
    pub(crate) fn list_met(&self, count_max: usize) -> Result<Vec<ContainerId>> {
        let met = self.containers.take_met();
        let _past = (!met.is_empty()).then(|| self.past_cache());
        if met.is_empty() || !self.options.pin_reads || self.ensure_writable().is_err() {
            return Ok(Vec::new());
        }
        let mut bad = BadSlots::new();
        let mut removed = None;
        for id in met.into_iter().take(count_max) {
            let verified = self.containers.verify(id, Depth::Full)?;
            if verified.generation.is_none() {
                let removed = match &mut removed {
                    Some(removed) => removed,
                    none => none.insert(self.removed_whole()?),
                };
                if removed.as_ref().is_none_or(|removed| removed(id)) {
                    continue;
                }
            }
            match verified.lost(id.kind) {
                None => _ = bad.insert(id, vec![all_slots()]),
                Some(lost) if lost.is_empty() => {}
                Some(lost) => _ = bad.insert(id, lost),
            }
        }
        bad.retain(|id, _| id.kind != ContainerKind::Catalog);
        let known = self.sealer.list(names::DAMAGED_FOLDER, names::parse_damaged)?;
        let known: BTreeSet<ContainerId> = known.into_iter().map(|((id, _), _)| id).collect();
        self.list_damaged(&bad)?;
        Ok(bad.into_keys().filter(|id| !known.contains(id)).collect())
    }

    /// A function that tells whether reclamation has removed a container. `None`: a list cannot be
    /// read, so nobody knows.
    #[expect(clippy::type_complexity, reason = "a question")]
    fn removed_whole(&self) -> Result<Option<Box<dyn Fn(ContainerId) -> bool>>> {
        let (mut single, mut runs) = (BTreeSet::new(), Vec::new());
        for object in self.env.storage.list(names::REMOVED_FOLDER)? {
            if names::parse_removed(&object.name).is_none() {
                continue;
            }
            let read = self
                .sealer
                .read(&object.name, ObjectKind::Removed, Removed::decode);
            let Ok(list) = read else { return Ok(None) };
            let whole = list.slots.iter().filter(|slots| slots.slots.is_none());
            single.extend(whole.map(|slots| slots.container));
            runs.extend(list.gone);
        }
        Ok(Some(Box::new(move |id| {
            single.contains(&id) || runs.iter().any(|run| run.contains(id))
        })))
    }

    /// Records a container that an error calls missing. It should exist, because the reader has
    /// pinned it.
    pub(crate) fn note_missing(&self, error: &RestoreError) {
        match error {
            RestoreError::Container(error) | RestoreError::Recipe(RecipeError::Container(error)) => {
                self.note_missing_container(error);
            }
            RestoreError::LostPart { error, .. } | RestoreError::Lost { error, .. } => {
                self.note_missing(error);
            }
            _ => {}
        }
    }

    /// Like [`Self::note_missing`], for the error that ended an operation.
    pub(crate) fn note_missing_of(&self, error: &Error) {
        match error {
            Error::Restore(error) => self.note_missing(error),
            Error::Container(error) | Error::Recipe(RecipeError::Container(error)) => {
                self.note_missing_container(error);
            }
            _ => {}
        }
    }

    fn note_missing_container(&self, error: &ContainerError) {
        if let ContainerError::Missing { container } = error {
            self.containers.note_met(*container);
        }
    }

    /// Lists the damage that a backup has found, and heals it with the chunks that the backup has
    /// stored again. Other listed damage is healed if it was listed at some moment after `since`.
    /// The backup is safe, so an error becomes a warning.
    pub(crate) fn mend(
        &self,
        since: Moment,
        verified: &VerifiedKnown,
        index: &Index,
        fresh: &[ContainerId],
        monitor: &Monitor,
        warnings: &mut Vec<Warning>,
    ) -> Vec<Healed> {
        let healed = self.try_mend(since, verified, index, fresh, monitor, warnings);
        healed.unwrap_or_else(|error| {
            warnings.push(Warning::NotHealed {
                why: error.to_string(),
            });
            Vec::new()
        })
    }

    fn try_mend(
        &self,
        since: Moment,
        verified: &VerifiedKnown,
        index: &Index,
        fresh: &[ContainerId],
        monitor: &Monitor,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Healed>> {
        let bad: BadSlots = verified.bad.iter().cloned().collect();
        if !bad.is_empty() {
            self.list_damaged(&bad)?;
        }
        let met = self.list_met(usize::MAX)?;
        // What this backup has met is listed now. What others have met, a later one may heal.
        let is_new = !bad.is_empty() || !met.is_empty();
        let since = if is_new { self.env.storage.moment() } else { since };
        let (report, more) = self.heal_since(since, index, fresh, monitor)?;
        let is_whole = |id: &ContainerId| {
            let mut healed = report.healed.iter();
            healed.any(|healed| healed.container == *id && healed.left == 0)
        };
        let met = met.into_iter().filter(|id| !is_whole(id));
        warnings.extend(met.map(Warning::container_damaged));
        warnings.extend(more);
        Ok(report.healed)
    }

    /// Heals listed damage with chunks in these containers, or in containers that the index finds.
    /// Does nothing while another session reclaims, because that session heals too. Returns
    /// warnings besides the report.
    ///
    /// # Errors
    /// Of the storage. Slots that are healed by then stay healed.
    pub(crate) fn heal(
        &self,
        index: &Index,
        fresh: &[ContainerId],
        monitor: &Monitor,
    ) -> Result<(HealReport, Vec<Warning>)> {
        self.heal_since(self.env.storage.moment(), index, fresh, monitor)
    }

    /// Like [`Self::heal`]. It does nothing if no damage was listed at some moment after `since`.
    fn heal_since(
        &self,
        since: Moment,
        index: &Index,
        fresh: &[ContainerId],
        monitor: &Monitor,
    ) -> Result<(HealReport, Vec<Warning>)> {
        let listed = self.env.storage.list_since(names::DAMAGED_FOLDER, since)?;
        if listed.is_empty() {
            return Ok(<_>::default());
        }
        // What is stored counts, not what this machine has kept of it.
        let _past = self.past_cache();
        let session =
            Session::begin_read_with(&self.manifests, self.options.process, self.options.policy, None)?;
        let heartbeats = self.heartbeats.add(&session)?;
        let healed = self.heal_as(&session, index, fresh, monitor);
        drop(heartbeats);
        let ended = session.end();
        let report = healed?;
        ended?;
        Ok(report)
    }

    fn heal_as(
        &self,
        session: &Session,
        index: &Index,
        fresh: &[ContainerId],
        monitor: &Monitor,
    ) -> Result<(HealReport, Vec<Warning>)> {
        let lease = match session.acquire_lease(LeaseRole::Reclaim) {
            Ok(lease) => lease,
            Err(SessionError::LeaseTaken { .. }) => return Ok(<_>::default()),
            Err(error) => return Err(error.into()),
        };
        let healed = self.reclaiming(Some(index), monitor, |context| {
            reclaim::heal(context, &lease, fresh, self.options.node_cache_bytes)
        });
        let released = lease.release();
        let healed = healed?;
        released.map_err(Error::from)?;
        Ok(healed)
    }
}
