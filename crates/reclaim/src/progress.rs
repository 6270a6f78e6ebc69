//! How reclaiming is watched and stopped.

use std::time::Duration;

use env::Clock;
use format::session::{ARCHIVAL_SERIES, READ_SERIES};
use session::{Life, SessionInfo};
use types::{SessionId, UnixNanos};

/// A session that a run waits for: it has not answered, and may live. Times are the wall clock's, for people alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The session.
    pub session: SessionId,
    /// What it is at.
    pub role: WaitingRole,
    /// Of which host it is a backup; `None`: it makes none.
    pub host: Option<Vec<u8>>,
    /// The process id that it has shown.
    pub process: u32,
    /// Whether its process lives on this host.
    pub is_here: bool,
    /// Since when it is waited for.
    pub since: UnixNanos,
    /// When it is ended, if it stays as silent as it is now.
    pub until: UnixNanos,
}

/// What a session is at that somebody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingRole {
    /// It makes a backup.
    Backup,
    /// It reads, or has not said that it does more.
    Reader,
    /// It rewrites a backup as an archival one.
    Optimize,
    /// It prunes, and holds the lease.
    Prune,
}

impl Waiting {
    /// For a session that showed such life, was waited for so long, and may stay silent for so long yet.
    pub(crate) fn of(
        info: &SessionInfo,
        life: Life,
        clock: &dyn Clock,
        (waited, left): (Duration, Duration),
    ) -> Self {
        let role = match info.claim.series {
            READ_SERIES => WaitingRole::Reader,
            ARCHIVAL_SERIES => WaitingRole::Optimize,
            _ => WaitingRole::Backup,
        };
        let now = clock.wall().get();
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        Self {
            session: info.id,
            role,
            host: (role == WaitingRole::Backup).then(|| info.claim.name.host.clone()),
            process: info.claim.process,
            is_here: life == Life::Alive,
            since: UnixNanos::new(now.saturating_sub(nanos(waited))),
            until: UnixNanos::new(now.saturating_add(nanos(left))),
        }
    }
}

/// Told what is done, and asked whether to stop. Called from many threads.
pub trait Progress: Send + Sync {
    /// So many nodes were marked.
    fn add_nodes(&self, nodes: u64);

    /// How many containers removal will touch.
    fn set_total(&self, containers: u64);

    /// So many more of them are done.
    fn add_done(&self, containers: u64);

    /// For whom it waits now, told again at each look; nobody: it goes on.
    fn waits_for(&self, sessions: &[Waiting]);

    /// Something could not be done, and the rest goes on.
    fn warn(&self, warning: &str);

    /// Whether to stop at the next step that may be the last.
    fn is_cancelled(&self) -> bool;
}

/// Nobody watches.
impl Progress for () {
    fn add_nodes(&self, _: u64) {}
    fn set_total(&self, _: u64) {}
    fn add_done(&self, _: u64) {}
    fn waits_for(&self, _: &[Waiting]) {}
    fn warn(&self, _: &str) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// What is read to find out is not counted.
pub(crate) struct OnlyCancel<'a>(pub(crate) &'a dyn Progress);

impl Progress for OnlyCancel<'_> {
    fn add_nodes(&self, _: u64) {}
    fn set_total(&self, _: u64) {}
    fn add_done(&self, _: u64) {}
    fn waits_for(&self, _: &[Waiting]) {}
    fn warn(&self, _: &str) {}
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}
