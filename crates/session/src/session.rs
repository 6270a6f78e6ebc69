//! A session: the handle for its operations, and its state.
//!
//! Cheap to clone; all methods may be called from many threads. There are three locks, always taken
//! in this order: `turn` (one checkpoint at a time, held while the caller collects it), `record`
//! (the session's references, held while they are written), `beat` (heartbeats, held while one is
//! written). `state` is locked for an instant under any of them. Once the session has ended, every
//! call fails with the reason, and writes no object of the session. Dropping the last handle
//! without an end leaves the session as a crash would: a later session of the series may continue
//! from its last checkpoint.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::ProcessLock;
use format::manifest::{ContainerSpan, SeriesName};
use format::names;
use format::session::OpenStream;
use object::Sealer;
use tracing::{info, warn};
use types::{ContainerId, Epoch, Revision, SeriesId, SessionId, SlotRange};

use crate::epoch_guard::{EpochGuard, LookupGate};
use crate::epochs::EpochNames;
use crate::error::{EndedBy, Result, SessionError};
use crate::manifests::Manifests;
use crate::objects::Objects;
use crate::policy::SessionPolicy;
use crate::view::ReclaimView;
use crate::watch::DeathWatch;

/// One process's work with the store.
#[derive(Clone)]
pub struct Session {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) id: SessionId,
    pub(crate) series: SeriesId,
    pub(crate) name: SeriesName,
    pub(crate) policy: SessionPolicy,
    pub(crate) objects: Objects,
    pub(crate) manifests: Manifests,
    pub(crate) gate: Arc<LookupGate>,
    pub(crate) watch: DeathWatch,
    state: Mutex<State>,
    pub(crate) turn: Mutex<()>,
    pub(crate) record: Mutex<Record>,
    pub(crate) beat: Mutex<Beat>,
    lock: Mutex<Option<Box<dyn ProcessLock>>>,
}

/// Whether the session runs, and when it last put a heartbeat.
#[derive(Debug)]
struct State {
    end: Option<End>,
    /// When the last successful put of a heartbeat began, by the clock that counts suspended time.
    spoke_at: Duration,
}

#[derive(Debug, Clone)]
pub(crate) enum End {
    /// It ended itself.
    Closed,
    /// Another session ended it.
    Elsewhere(EndedBy),
    /// It put no heartbeat for so long.
    Silent(Duration),
}

/// The references of the session, as its checkpoints name them.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) next_number: u32,
    /// The epoch that all of these honour.
    pub(crate) answered: Option<Epoch>,
    /// The number of answers written. If it changes while parents are chosen, they are chosen
    /// again.
    pub(crate) answers: u64,
    pub(crate) containers: Vec<ContainerSpan>,
    pub(crate) references: Vec<(ContainerId, SlotRange)>,
    pub(crate) streams: Vec<OpenStream>,
    pub(crate) parents: Vec<(SeriesId, SessionId, Revision)>,
    pub(crate) adopted: Vec<(SessionId, Option<u32>)>,
}

/// The content of the next heartbeat.
#[derive(Debug, Default)]
pub(crate) struct Beat {
    pub(crate) next_counter: u64,
    /// Counters that may exist in the store.
    pub(crate) written: Vec<u64>,
    pub(crate) answered: Option<Epoch>,
    pub(crate) checkpoint: Option<u32>,
    pub(crate) epochs: EpochNames,
}

/// The values that [`crate::claim`] passes on.
pub(crate) struct Parts {
    pub(crate) id: SessionId,
    pub(crate) series: SeriesId,
    pub(crate) name: SeriesName,
    pub(crate) policy: SessionPolicy,
    pub(crate) objects: Objects,
    pub(crate) manifests: Manifests,
    pub(crate) view: ReclaimView,
    pub(crate) epochs: EpochNames,
    pub(crate) spoke_at: Duration,
    pub(crate) lock: Option<Box<dyn ProcessLock>>,
}

impl Session {
    pub(crate) fn new(parts: Parts) -> Self {
        let answered = parts.view.newest_epoch();
        let env = parts.objects.sealer().env().clone();
        Self {
            inner: Arc::new(Inner {
                id: parts.id,
                series: parts.series,
                name: parts.name,
                policy: parts.policy,
                manifests: parts.manifests,
                objects: parts.objects,
                gate: Arc::new(LookupGate::new(parts.view)),
                watch: DeathWatch::new(env, parts.policy),
                state: Mutex::new(State {
                    end: None,
                    spoke_at: parts.spoke_at,
                }),
                turn: Mutex::new(()),
                record: Mutex::new(Record {
                    answered,
                    ..Record::default()
                }),
                beat: Mutex::new(Beat {
                    answered,
                    epochs: parts.epochs,
                    ..Beat::default()
                }),
                lock: Mutex::new(parts.lock),
            }),
        }
    }

    /// The session's number. If it commits, this is the backup's id.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.inner.id
    }

    /// The folder of the series.
    #[must_use]
    pub fn series(&self) -> SeriesId {
        self.inner.series
    }

    /// The name of the series; empty for a read session.
    #[cfg(test)]
    pub(crate) fn series_name(&self) -> &SeriesName {
        &self.inner.name
    }

    /// The time limits of the session.
    #[must_use]
    pub fn policy(&self) -> SessionPolicy {
        self.inner.policy
    }

    /// The store's small objects.
    #[must_use]
    pub fn sealer(&self) -> &Sealer {
        self.inner.objects.sealer()
    }

    /// The store's manifests. For choosing parents use [`Session::choose_parents`], which lists
    /// them again.
    #[must_use]
    pub fn manifests(&self) -> &Manifests {
        &self.inner.manifests
    }

    /// Begins a look-up. Take the guard before you ask the index, treat slots as absent by its
    /// view, and keep it until the result is recorded where the next checkpoint is collected from.
    #[must_use]
    pub fn look_up(&self) -> EpochGuard {
        self.inner.gate.enter()
    }

    /// The present view, for reports only.
    #[must_use]
    pub fn view(&self) -> Arc<ReclaimView> {
        self.inner.gate.view()
    }

    /// Fails once the session has ended, or has put no heartbeat for too long. It does not access
    /// the storage.
    ///
    /// # Errors
    /// `Closed`, `EndedElsewhere`, `GaveUp`.
    pub fn ensure_running(&self) -> Result<()> {
        self.inner.ensure_running()
    }
}

impl Inner {
    pub(crate) fn ensure_running(&self) -> Result<()> {
        let mut state = locked(&self.state);
        if state.end.is_none() {
            let now = self.objects.clock().monotonic_with_suspend();
            let silent = now.saturating_sub(state.spoke_at);
            if silent > self.policy.silence_max {
                warn!(target: TARGET, session = %self.id, ?silent, "gives up: it could put no heartbeat");
                state.end = Some(End::Silent(silent));
            }
        }
        match &state.end {
            None => Ok(()),
            Some(end) => Err(self.error(end)),
        }
    }

    /// Records how the session ended. The first record counts.
    pub(crate) fn end(&self, end: End) -> SessionError {
        let mut state = locked(&self.state);
        let is_first = state.end.is_none();
        let end = state.end.get_or_insert(end).clone();
        drop(state);
        let error = self.error(&end);
        match &end {
            _ if !is_first => {}
            End::Closed => info!(target: TARGET, session = %self.id, "ends"),
            _ => warn!(target: TARGET, session = %self.id, %error, "was ended"),
        }
        error
    }

    fn error(&self, end: &End) -> SessionError {
        let session = self.id;
        match end {
            End::Closed => SessionError::Closed { session },
            End::Elsewhere(how) => SessionError::EndedElsewhere {
                session,
                how: how.clone(),
            },
            End::Silent(silent) => SessionError::GaveUp {
                session,
                silent: *silent,
            },
        }
    }

    /// Records a successful heartbeat, and when its put began.
    pub(crate) fn spoke(&self, begun_at: Duration) {
        locked(&self.state).spoke_at = begun_at;
    }

    /// Checks whether the one name that can end the session is taken. If so, the session gives up.
    pub(crate) fn ensure_not_ended(&self) -> Result<()> {
        if !self
            .objects
            .exists(&names::manifest(self.series, self.id, Revision::FIRST))?
        {
            return Ok(());
        }
        match self.objects.ending(self.series, self.id)? {
            None => Ok(()),
            // Only the session itself commits, so another of its threads does so now.
            Some(EndedBy::Committed) => Err(self.end(End::Closed)),
            Some(how) => Err(self.end(End::Elsewhere(how))),
        }
    }

    /// Releases the process lock, for ever.
    pub(crate) fn unlock(&self) -> Result<()> {
        if locked(&self.lock).take().is_some() {
            self.objects.storage().drop_lock(&names::session_lock(self.id))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.inner.id)
            .field("series", &self.inner.series)
            .finish()
    }
}

/// The target of all events of this crate in `tracing`'s logs.
pub(crate) const TARGET: &str = "onefold::session";

/// Locks a mutex. If another thread panicked under the lock, each value behind it is still valid.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
