//! Adoption: a session continues from a dead session's last checkpoint.
//!
//! The order: read the dead session's newest readable checkpoint k; barrier; create its `.0` as
//! "adopted by me, at k", which ends it even if it wakes; read k again, and nothing later; list
//! epochs, and leave out the references of k that they condemn or remove.
//!
//! Reclamation keeps everything that any checkpoint of a session without an ending names, and
//! afterwards everything that k names. So an adopter that sleeps between reading k and winning the
//! name loses nothing. It leaves out references because rot or an early read may have hidden an
//! epoch.
//!
//! A session adopts only lower numbers of its series, so chains of adoption end. Sessions that the
//! dead one had adopted are adopted with it. The manifests name them; the dead session's checkpoint
//! may not, because it may have died before it wrote one.

use std::collections::BTreeSet;
use std::time::Duration;

use format::manifest::{ContainerSpan, Manifest};
use format::names;
use format::session::{Checkpoint, OpenStream};
use types::{ContainerId, SessionId, SlotRange, UnixNanos};

use crate::error::{EndedBy, Result, SessionError};
use crate::objects::Read;
use crate::session::{Session, TARGET, locked};
use crate::session_listing::Listing;
use crate::session_table::{self, SessionInfo, SessionTable};
use crate::watch::Life;

/// A dead session of the same series. Only [`Session::find_adoptable`] finds one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoptable {
    info: SessionInfo,
}

impl Adoptable {
    /// The dead session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.info.id
    }
}

/// What a session has taken over from dead sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adopted {
    /// The sessions, with the checkpoint of each; the dead one first, then those it had adopted.
    pub sessions: Vec<(SessionId, Option<u32>)>,
    /// The sealed containers that these checkpoints name. Look-ups may return their slots.
    pub containers: Vec<(SessionId, ContainerSpan)>,
    /// Other references of the checkpoints, as far as they are still valid.
    pub references: Vec<(ContainerId, SlotRange)>,
    /// References that were left out because an epoch condemned or removed them.
    pub references_left_out: usize,
    /// The positions of the streams by the checkpoints that have any, with their sessions, the
    /// newest first. Empty if no session may continue there. Their nodes are in containers that the
    /// checkpoints name, or among the references.
    pub positions: Vec<(SessionId, Vec<OpenStream>)>,
}

impl Session {
    /// Dead sessions of this series with lower numbers, the newest first. If no lock shows that a
    /// session is dead, its heartbeat must not have moved for `T` between calls, or, by the clock
    /// of an object store, before this session's newest object.
    ///
    /// # Errors
    /// Those of [`Session::ensure_running`]; of the storage.
    pub fn find_adoptable(&self) -> Result<Vec<Adoptable>> {
        self.ensure_running()?;
        self.adoptable_in(|| SessionTable::read(&self.inner.objects))
    }

    /// Like [`Self::find_adoptable`], by the listing from when this session began. Sessions that
    /// have ended since may be among the dead: [`Self::adopt`] takes over none of them.
    ///
    /// # Errors
    /// Those of [`Self::find_adoptable`].
    pub fn find_adoptable_by(&self, listing: &Listing) -> Result<Vec<Adoptable>> {
        self.ensure_running()?;
        self.adoptable_in(|| {
            SessionTable::beside(
                &self.inner.objects,
                &listing.manifests,
                &listing.numbers,
                self.id(),
            )
        })
    }

    /// The adoptable sessions of a table, which is listed now.
    fn adoptable_in(&self, list: impl FnOnce() -> Result<SessionTable>) -> Result<Vec<Adoptable>> {
        let clock = self.inner.objects.clock();
        let began = clock.monotonic_with_suspend();
        let table = list()?;
        let took = clock.monotonic_with_suspend().saturating_sub(began);
        let own = table.get(self.id()).and_then(|own| own.newest_at);
        self.inner.watch.keep_only(&table.running);
        let candidates = table.running.into_iter().rev();
        let of_series =
            |info: &SessionInfo| info.id < self.id() && info.claim.series == self.series() && !self.is_read();
        let is_dead = |info: &SessionInfo| match self.inner.watch.observe(info) {
            Life::Dead(_) => true,
            Life::Alive => false,
            Life::Unsure { .. } => self.was_quiet(info, own, took),
        };
        Ok(candidates
            .filter(of_series)
            .filter(is_dead)
            .map(|info| Adoptable { info })
            .collect())
    }

    /// Whether a session of an object store has put nothing for `T` before this session put its
    /// newest object, by the one clock of the object store. The listing took some time, which the
    /// other may have slept through: it does not count.
    fn was_quiet(&self, info: &SessionInfo, own: Option<UnixNanos>, took: Duration) -> bool {
        let (Some(own), Some(other)) = (own, info.newest_at) else {
            return false;
        };
        let quiet = u64::try_from(own.get().saturating_sub(other.get())).unwrap_or(0);
        let quiet = Duration::from_nanos(quiet).saturating_sub(took);
        self.inner.objects.storage().is_far() && quiet >= self.policy().unmoved_for
    }

    /// Takes over a dead session. Durable on return. The next checkpoint and the manifest name it.
    ///
    /// # Errors
    /// `NotAdoptable` if it has ended in another way meanwhile; `EndedElsewhere`, `GaveUp` for this
    /// session; `Damaged` if it may have adopted a session whose ending the storage does not give;
    /// of the storage.
    pub fn adopt(&self, dead: &Adoptable) -> Result<Adopted> {
        let inner = &self.inner;
        let old = dead.session();
        self.ensure_running()?;
        inner.ensure_not_ended()?;
        let checkpoint = newest_readable(self, old)?.map(|checkpoint| checkpoint.number);
        let ending = Manifest::Adopted {
            by: self.id(),
            checkpoint,
        };
        let mut record = locked(&inner.record);
        let how = self.end_other(self.series(), old, &ending)?;
        let why = match how {
            // This is also the case if an earlier call won the name and then failed.
            EndedBy::Adopted { by, checkpoint } if by == self.id() => Ok(checkpoint),
            EndedBy::Adopted { .. } => Err("another session was quicker to take it over"),
            EndedBy::Committed => Err("it is a backup already"),
            EndedBy::Expired { .. } | EndedBy::Unreadable | EndedBy::LongAgo => {
                Err("it was expired meanwhile")
            }
        };
        let checkpoint = why.map_err(|why| SessionError::NotAdoptable { session: old, why })?;
        let sessions = with_those_it_adopted(self, old, checkpoint)?;
        for adoption in &sessions {
            if !record.adopted.contains(adoption) {
                record.adopted.push(*adoption);
            }
        }
        drop(record);
        let mut adopted = Adopted {
            sessions,
            ..Adopted::default()
        };
        let mut taken = Vec::new();
        for (session, number) in &adopted.sessions {
            let Some(number) = number else { continue };
            let Some(checkpoint) = session_table::adopted_checkpoint(&inner.objects, *session, *number)?
            else {
                continue;
            };
            // A later adopter may have died before it had a position.
            if !checkpoint.streams.is_empty() {
                adopted.positions.push((*session, checkpoint.streams));
            }
            adopted
                .containers
                .extend(checkpoint.containers.iter().map(|span| (*session, *span)));
            taken.extend(checkpoint.references);
        }
        inner.see_epochs(None)?;
        let view = self.view();
        let all = taken.len();
        taken.retain(|(container, slots)| view.is_whole(*container, *slots));
        adopted.references_left_out = all - taken.len();
        if view.is_blind() || adopted.references_left_out > 0 {
            adopted.positions.clear();
        }
        adopted.references = taken;
        tracing::info!(
            target: TARGET,
            session = %self.id(), dead = %old, spans = adopted.containers.len(),
            "takes over what a dead session stored"
        );
        Ok(adopted)
    }

    /// The sessions adopted so far.
    #[must_use]
    pub fn adopted(&self) -> Vec<(SessionId, Option<u32>)> {
        locked(&self.inner.record).adopted.clone()
    }
}

fn newest_readable(session: &Session, old: SessionId) -> Result<Option<Checkpoint>> {
    let objects = &session.inner.objects;
    let folder = session_table::one_folder(objects, old)?;
    for number in folder.checkpoints.iter().rev() {
        if let Read::Whole(checkpoint) = objects.read::<Checkpoint>(&names::checkpoint(old, *number))? {
            return Ok(Some(checkpoint));
        }
    }
    Ok(None)
}

/// The dead session, and all sessions that it had adopted, directly or through others, by the
/// manifests of the series.
fn with_those_it_adopted(
    session: &Session,
    old: SessionId,
    checkpoint: Option<u32>,
) -> Result<Vec<(SessionId, Option<u32>)>> {
    let list = session.inner.manifests.list_series(session.series())?;
    for (unread, object) in list.unread(session.series()).filter(|(unread, _)| *unread < old) {
        // Once sessions are tidied, a checkpoint stays only of an adopted session.
        if !session_table::one_folder(&session.inner.objects, unread)?
            .checkpoints
            .is_empty()
        {
            return Err(SessionError::Damaged(object.clone()));
        }
    }
    let mut all = vec![(old, checkpoint)];
    let mut adopters = BTreeSet::from([old]);
    // Adopters have higher numbers than the sessions that they adopted, so one pass from the
    // highest down finds chains.
    for entry in list.entries.iter().rev() {
        if let Some(EndedBy::Adopted { by, checkpoint }) = entry.ended_by()
            && entry.session() != old
            && adopters.contains(&by)
        {
            adopters.insert(entry.session());
            all.push((entry.session(), checkpoint));
        }
    }
    Ok(all)
}
