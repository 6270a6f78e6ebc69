//! The inputs of a run, or of its preview, when no epoch is open: lists, marks, manifests,
//! sessions.

use std::collections::BTreeSet;

use format::reclaim::{ContainerSlots, Removed};
use session::{Listing, ManifestList, Session, SessionListing};
use types::{SessionId, UnixNanos};

use crate::context::Context;
use crate::epochs::Epochs;
use crate::error::Result;
use crate::final_list::{self, Ground};
use crate::mark_overflow::MarkOverflow;
use crate::mark_sweep::{self, Before, Ended, Plan};
use crate::marks::InForce;
use crate::options::PruneOptions;
use crate::plan::{self, Limits};
use crate::slots::SlotMap;
use crate::warning::Warning;

/// The inputs of a run while no epoch is open.
pub(crate) struct Known {
    pub(crate) epochs: Epochs,
    pub(crate) removed: Option<(Removed, UnixNanos)>,
    pub(crate) in_force: InForce,
    sweep_all: bool,
    /// A removed list of a finished epoch cannot be read. The next epoch's list replaces it, and
    /// all that still holds of it.
    pub(crate) replaces_lists: bool,
    pub(crate) listing: SessionListing,
    /// The sessions of the listing that run or may run.
    running: BTreeSet<SessionId>,
    /// Sessions that a run would have ended; only a preview fills it.
    pub(crate) ended: Ended,
}

impl Known {
    /// Loads the inputs in this order, because marks in force cover nothing that is listed after
    /// them. `listed`: the listing from when the session began. It is used if no other session has
    /// run since.
    pub(crate) fn load(
        context: &Context<'_>,
        options: &PruneOptions,
        listed: Option<(&Session, Listing)>,
    ) -> Result<Self> {
        Self::of(context, options, Epochs::list(context.sealer)?, listed)
    }

    /// Does the same as [`Self::load`] with these epochs, as they are or will be.
    pub(crate) fn of(
        context: &Context<'_>,
        options: &PruneOptions,
        epochs: Epochs,
        listed: Option<(&Session, Listing)>,
    ) -> Result<Self> {
        let (removed, unreadable) = epochs.last_removed(context.sealer, context.progress)?;
        let newest = removed.as_ref().map(|(removed, _)| removed);
        let in_force = InForce::load(context.sealer, newest, options.marks_bytes_max)?;
        for group in &in_force.missing {
            let (series, first) = (group.series, group.first);
            context.progress.warn(Warning::MarksUnread { series, first });
        }
        let has_rotten = match newest {
            Some(newest) => epochs.has_rotten_below(context.sealer, newest.epoch, context.progress)?,
            None => false,
        };
        let replaces_lists = unreadable || has_rotten;
        // An epoch that is still open has lists that cannot be read.
        let sweep_all =
            options.all || replaces_lists || epochs.open().is_some() || !in_force.missing.is_empty();
        let mut known = Self {
            epochs,
            removed,
            in_force,
            sweep_all,
            replaces_lists,
            listing: SessionListing::default(),
            running: BTreeSet::new(),
            ended: Ended::default(),
        };
        let listing = match listed {
            Some((session, listing)) => {
                let covers = known.in_force.covers();
                context.manifests.list_sessions_of(session, &listing, &covers)?
            }
            None => None,
        };
        known.look(context, listing)?;
        Ok(known)
    }

    /// Takes this session listing, or a new one.
    pub(crate) fn look(&mut self, context: &Context<'_>, listing: Option<SessionListing>) -> Result<()> {
        self.listing = match listing {
            Some(listing) => listing,
            None => context.manifests.list_sessions(&self.in_force.covers())?,
        };
        self.running = context.running(&self.listing.table)?;
        Ok(())
    }

    pub(crate) fn into_listing(self) -> SessionListing {
        self.listing
    }

    pub(crate) fn plan(
        &self,
        context: &Context<'_>,
        options: &PruneOptions,
        list: &ManifestList,
        overflow: Option<&mut MarkOverflow<'_>>,
    ) -> Result<Plan> {
        let before = Before {
            in_force: &self.in_force,
            removed: self.removed.as_ref().map(|(removed, _)| removed),
            sweep_all: self.sweep_all,
            running: &self.running,
            ended: &self.ended,
            epoch: self.epochs.next(),
        };
        mark_sweep::plan(context, options, list, &before, overflow)
    }

    /// If a list is lost, no dead slot may stay that only this list named. A node that reaches
    /// removed slots is the worst case.
    pub(crate) fn limits(&self, options: &PruneOptions) -> Limits {
        if self.replaces_lists {
            Limits::NOTHING_STAYS
        } else {
            options.limits
        }
    }

    /// Whether there is work for an epoch. `own`: the session that asks.
    pub(crate) fn is_needed(
        &self,
        context: &Context<'_>,
        options: &PruneOptions,
        own: Option<SessionId>,
        plan: &Plan,
    ) -> Result<bool> {
        Ok(plan.has_news || plan.has_dropped || self.is_overdue(context, own, self.limits(options), plan)?)
    }

    /// Whether more stays unused than the user allows, and some of it can be removed; or a slot
    /// stayed for a session that no longer runs. The decision tells what can be removed: without a
    /// copy, or with one within the limit. `plan` found nothing new.
    fn is_overdue(
        &self,
        context: &Context<'_>,
        own: Option<SessionId>,
        limits: Limits,
        plan: &Plan,
    ) -> Result<bool> {
        let Some((removed, _)) = &self.removed else {
            return Ok(false);
        };
        let is_over = |id: &SessionId| Some(*id) == own || self.ended.first.contains(id);
        let is_alone = self.running.iter().all(is_over);
        if is_alone && removed.left.iter().any(|left| left.dead_bytes == 0) {
            return Ok(true);
        }
        let dead: u64 = removed.left.iter().map(|left| left.dead_bytes).sum();
        if !plan::is_above(dead, removed.stored_bytes.max(dead), limits.unused_max) {
            return Ok(false);
        }
        let ground = Ground {
            known: &removed.left,
            stored_bytes: removed.stored_bytes,
            limits,
        };
        // If an epoch follows, it warns of each container itself.
        let quiet = Context {
            progress: &(),
            ..*context
        };
        let of_epoch = |slots: &ContainerSlots| self.ended.by_epoch.contains(&slots.container.session);
        let condemned = plan.condemned.iter().filter(|slots| !of_epoch(slots));
        let condemned: Vec<_> = condemned.cloned().collect();
        let decided = final_list::decide(&quiet, &condemned, &SlotMap::default(), ground)?;
        Ok(!decided.slots.is_empty())
    }
}
