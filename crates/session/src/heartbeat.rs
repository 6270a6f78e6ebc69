//! Heartbeats: objects that show that the session lives, and which epochs it has answered.
//!
//! Every tick checks whether somebody ended the session, lists epochs, swaps the view if there is a
//! new one, puts the next heartbeat, and deletes all but the newest two. A read session then
//! answers the new epoch at once; the checkpoint of a backup is written by its owner. A session
//! that could put no heartbeat for a day gives up. It measures the day with a clock that counts
//! suspended time, before and after each put, so it notices every sleep. The caller calls
//! [`Session::tick`], or lets a [`HeartbeatThread`](crate::HeartbeatThread) do so.

use format::names;
use format::session::{ARCHIVAL_SERIES, Heartbeat};
use tracing::{debug, info, warn};
use types::Epoch;

use crate::epochs::{self, EpochNames};
use crate::error::{Result, SessionError};
use crate::objects::Put;
use crate::session::{Beat, Inner, Session, TARGET, locked};

/// So many heartbeats are kept: one to be read while the next appears.
const HEARTBEATS_KEPT: usize = 2;
/// After an outage of the storage, many numbers may exist. They are deleted in small steps.
const DELETES_MAX: usize = 16;

/// The result of a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// The epoch that look-ups honour from now on, if this tick saw a new one.
    pub new_epoch: Option<Epoch>,
    /// Whether an epoch waits for a checkpoint to answer it.
    pub checkpoint_wanted: bool,
}

impl Session {
    /// Runs one round: checks whether the session was ended, lists epochs, and puts a heartbeat. A
    /// read session then answers a new epoch. Call it every
    /// [`crate::SessionPolicy::heartbeat_every`].
    ///
    /// # Errors
    /// `EndedElsewhere`, `GaveUp`, `Closed`: the session is over. Of the storage: the next tick
    /// tries again. The heartbeat is put even if nothing could be read.
    pub fn tick(&self) -> Result<Tick> {
        self.tick_with(None)
    }

    /// As [`Self::tick`]; `listed` is a listing of epochs that another session has just made.
    pub(crate) fn tick_with(&self, listed: Option<&EpochNames>) -> Result<Tick> {
        let ticked = self.tick_once(listed);
        match &ticked {
            Ok(tick) => {
                let Tick {
                    new_epoch,
                    checkpoint_wanted,
                } = tick;
                let new_epoch = new_epoch.map(tracing::field::display);
                debug!(target: TARGET, session = %self.id(), new_epoch, checkpoint_wanted, "tick");
            }
            Err(error) => warn!(target: TARGET, session = %self.id(), %error, "tick failed"),
        }
        ticked
    }

    fn tick_once(&self, listed: Option<&EpochNames>) -> Result<Tick> {
        self.inner.ensure_running()?;
        let looked = self.inner.ensure_not_ended();
        self.inner.ensure_running()?;
        let new_epoch = self.inner.see_epochs(listed);
        self.inner.speak()?;
        looked?;
        let new_epoch = new_epoch?;
        if self.is_read() || self.series() == ARCHIVAL_SERIES {
            self.answer_reading()?;
        }
        Ok(Tick {
            new_epoch,
            checkpoint_wanted: self.checkpoint_wanted(),
        })
    }

    /// Whether the session saw an epoch that no checkpoint has answered yet.
    #[must_use]
    pub fn checkpoint_wanted(&self) -> bool {
        let seen = self.inner.gate.view().newest_epoch();
        seen > locked(&self.inner.beat).answered
    }
}

impl Inner {
    /// Lists epochs, unless that was done; if they have changed, look-ups honour them from now on.
    pub(crate) fn see_epochs(&self, listed: Option<&EpochNames>) -> Result<Option<Epoch>> {
        let mut beat = locked(&self.beat);
        let is_same = match listed {
            Some(listed) => *listed == beat.epochs,
            None => EpochNames::list(&self.objects)? == beat.epochs,
        };
        if is_same {
            return Ok(None);
        }
        let since = self.objects.storage().moment();
        let (listed, view) = epochs::load(&self.objects, self.id, since)?;
        let earlier = self.gate.view();
        // A prune that began before this session may delete lists under it. Caches of the process,
        // or of the disk, may be older than those lists, and have the slots that they name.
        let view = if earlier.keeps() || listed.lacks_removed_of(&beat.epochs) {
            view.keeping(&earlier)
        } else {
            view
        };
        let (before, now) = (earlier.newest_epoch(), view.newest_epoch());
        let epoch = now.map(tracing::field::display);
        info!(target: TARGET, session = %self.id, epoch, "honours other lists of epochs from now on");
        self.gate.swap(view);
        beat.epochs = listed;
        Ok(if now > before { now } else { None })
    }

    /// Writes the next heartbeat.
    pub(crate) fn speak(&self) -> Result<()> {
        self.speak_with(&mut locked(&self.beat))
    }

    /// States, now and in later heartbeats, that checkpoint `number` answers `epoch`, unless a
    /// later answer exists.
    pub(crate) fn answer(&self, epoch: Epoch, number: u32) -> Result<()> {
        let mut beat = locked(&self.beat);
        if beat.answered >= Some(epoch) {
            return Ok(());
        }
        beat.answered = Some(epoch);
        beat.checkpoint = Some(number);
        self.speak_with(&mut beat)
    }

    fn speak_with(&self, beat: &mut Beat) -> Result<()> {
        self.ensure_running()?;
        let begun_at = self.objects.clock().monotonic_with_suspend();
        let heartbeat = Heartbeat {
            counter: beat.next_counter,
            answered: beat.answered,
            checkpoint: beat.checkpoint,
        };
        // A failed put may have created the object too, so its number is not used again.
        beat.written.push(beat.next_counter);
        beat.next_counter += 1;
        match self
            .objects
            .put(&names::heartbeat(self.id, heartbeat.counter), &heartbeat)?
        {
            Put::Created => {}
            Put::Taken => {
                let rule = "another process writes heartbeats under this number";
                return Err(SessionError::Misuse {
                    session: self.id,
                    rule,
                });
            }
        }
        // The process may have slept for days inside the put.
        self.ensure_running()?;
        let answered = heartbeat.answered.map(tracing::field::display);
        debug!(target: TARGET, session = %self.id, counter = heartbeat.counter, answered, "heartbeat");
        self.spoke(begun_at);
        for _ in 0..DELETES_MAX.min(beat.written.len().saturating_sub(HEARTBEATS_KEPT)) {
            // The heartbeat stands. Where sessions may not delete, old ones stay; and an error of
            // the storage must not end the session, or keep it from answering an epoch.
            if let Err(error) = self.objects.delete(&names::heartbeat(self.id, beat.written[0])) {
                debug!(target: TARGET, session = %self.id, %error, "an old heartbeat was not deleted");
                break;
            }
            beat.written.remove(0);
        }
        Ok(())
    }
}
