//! The thread that ticks the sessions of a process.
//!
//! All its sessions are of one store. It lists the store's epochs once a round, for all of them,
//! and each session then puts its heartbeat. The thread starts with the first session, and ends
//! with the last one.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use env::Clock;

use crate::epochs::EpochNames;
use crate::error::{Result, SessionError};
use crate::session::{Inner, Session};

/// A session that has ended is noticed within so long.
const NAP: Duration = Duration::from_millis(200);

/// Ticks any number of sessions of one store. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct HeartbeatThread {
    ticked: Arc<Mutex<Ticked>>,
}

/// A session that the thread ticks. Once this value is dropped, the thread ticks the session no
/// more. It may finish the tick that it has begun.
#[derive(Debug)]
pub struct HeartbeatTask {
    stop: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Ticked {
    sessions: Vec<Member>,
    has_thread: bool,
}

#[derive(Debug, Clone)]
struct Member {
    session: Weak<Inner>,
    every: Duration,
    stop: Arc<AtomicBool>,
}

impl HeartbeatThread {
    /// Ticks the session until the returned value, or its last handle, is dropped.
    ///
    /// # Errors
    /// `Thread` where the system gives none.
    pub fn add(&self, session: &Session) -> Result<HeartbeatTask> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut ticked = self.lock();
        if !ticked.has_thread {
            let ticking = self.clone();
            let clock = Arc::clone(session.inner.objects.clock());
            let thread = thread::Builder::new().name("heartbeat".to_owned());
            let started = thread.spawn(move || ticking.run(&*clock));
            started.map_err(|source| SessionError::Thread { source })?;
            ticked.has_thread = true;
        }
        ticked.sessions.push(Member {
            session: Arc::downgrade(&session.inner),
            every: session.inner.policy.heartbeat_every,
            stop: Arc::clone(&stop),
        });
        Ok(HeartbeatTask { stop })
    }

    fn run(&self, clock: &dyn Clock) {
        let mut ticked_at = clock.monotonic();
        loop {
            let Some(members) = self.members() else {
                return;
            };
            let every = members.iter().map(|member| member.every).min().unwrap_or(NAP);
            clock.sleep(NAP.min(every));
            if clock.monotonic().saturating_sub(ticked_at) < every {
                continue;
            }
            ticked_at = clock.monotonic();
            let mut listed = None;
            for member in members {
                // A session that panics leaves the others their heartbeats, and gives up in the
                // end.
                drop(panic::catch_unwind(AssertUnwindSafe(|| member.tick(&mut listed))));
            }
        }
    }

    /// The sessions that have not ended; `None`, and no thread from then on, where there are none.
    fn members(&self) -> Option<Vec<Member>> {
        let mut ticked = self.lock();
        ticked.sessions.retain(Member::is_running);
        ticked.has_thread = !ticked.sessions.is_empty();
        ticked.has_thread.then(|| ticked.sessions.clone())
    }

    #[cfg(test)]
    pub(crate) fn has_thread(&self) -> bool {
        self.lock().has_thread
    }

    fn lock(&self) -> MutexGuard<'_, Ticked> {
        self.ticked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Member {
    fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Acquire)
            && self
                .session
                .upgrade()
                .is_some_and(|inner| inner.ensure_running().is_ok())
    }

    /// A storage that fails is tried again at the next tick; whether the session is over, every
    /// call of its owner finds by itself.
    fn tick(&self, listed: &mut Option<EpochNames>) {
        let Some(inner) = self.session.upgrade().filter(|_| self.is_running()) else {
            return;
        };
        if listed.is_none() {
            *listed = EpochNames::list(&inner.objects).ok();
        }
        drop(Session { inner }.tick_with(listed.as_ref()));
    }
}

impl Session {
    /// Ticks the session on a thread of its own, until the returned value, or the last handle of
    /// the session, is dropped.
    ///
    /// # Errors
    /// `Thread` where the system gives none.
    pub fn start_heartbeats(&self) -> Result<HeartbeatTask> {
        HeartbeatThread::default().add(self)
    }
}

impl Drop for HeartbeatTask {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}
