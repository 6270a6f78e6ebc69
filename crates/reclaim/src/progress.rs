//! Watches and stops a reclamation.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::Clock;
use format::session::{ARCHIVAL_SERIES, READ_SERIES};
use session::{Life, SessionInfo};
use types::{SessionId, UnixNanos};

use crate::warning::Warning;

/// A session that a run waits for: it has not answered, and may live. Times are the wall clock's,
/// and are for people only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The session.
    pub session: SessionId,
    /// What it does.
    pub role: WaitingRole,
    /// The host of its backup. `None`: it makes no backup.
    pub host: Option<Vec<u8>>,
    /// The process id that it states.
    pub process: u32,
    /// Whether its process lives on this host.
    pub is_here: bool,
    /// Since when the run waits for it.
    pub since: UnixNanos,
    /// When the run ends it, if it stays silent.
    pub until: UnixNanos,
}

/// What a session does that a run waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingRole {
    /// It makes a backup.
    Backup,
    /// It reads, or has not declared that it does more.
    Reader,
    /// It rewrites a backup as an archival one.
    Optimize,
    /// It prunes, and holds the lease.
    Prune,
}

impl Waiting {
    /// For a session with this sign of life. `waited`: how long the run has waited; `left`: how
    /// long the session may still be silent.
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

/// Receives the progress of a run, and tells it whether to stop. Many threads call it.
pub trait Progress: Send + Sync {
    /// This many more nodes were marked.
    fn add_nodes(&self, nodes: u64);

    /// Removal will touch this many containers.
    fn set_total(&self, containers: u64);

    /// The work is counted in bytes of streams instead: this many.
    fn set_total_bytes(&self, bytes: u64);

    /// This many more of them are done.
    fn add_done(&self, more: u64);

    /// The sessions that the run waits for now; called at each look. An empty list: the run
    /// continues.
    fn waits_for(&self, sessions: &[Waiting]);

    /// The run could not do something, and continues with the rest.
    fn warn(&self, warning: Warning);

    /// Whether the run must stop at the next possible step.
    fn is_cancelled(&self) -> bool;
}

/// Ignores all progress, and never stops a run.
impl Progress for () {
    fn add_nodes(&self, _: u64) {}
    fn set_total(&self, _: u64) {}
    fn set_total_bytes(&self, _: u64) {}
    fn add_done(&self, _: u64) {}
    fn waits_for(&self, _: &[Waiting]) {}
    fn warn(&self, _: Warning) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Passes on only the wish to stop. Reads of a preview are not counted.
pub(crate) struct OnlyCancel<'a>(pub(crate) &'a dyn Progress);

impl Progress for OnlyCancel<'_> {
    fn add_nodes(&self, _: u64) {}
    fn set_total(&self, _: u64) {}
    fn set_total_bytes(&self, _: u64) {}
    fn add_done(&self, _: u64) {}
    fn waits_for(&self, _: &[Waiting]) {}
    fn warn(&self, _: Warning) {}
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// The progress of one part of the work. The part has units of its own, and counts as a fixed share
/// of the whole.
pub(crate) struct Part<'a> {
    told: &'a dyn Progress,
    /// Units of the whole that the finished part counts as.
    share: u64,
    /// Units of the part.
    total: u64,
    done: AtomicU64,
}

impl<'a> Part<'a> {
    /// A part that counts as this percentage of `whole`.
    pub(crate) fn of(told: &'a dyn Progress, percent: u64, whole: u64, total: u64) -> Self {
        Self {
            told,
            share: portion(whole, percent, 100),
            total,
            done: AtomicU64::new(0),
        }
    }

    /// Counts the rest of the part as done. It was done, or is not needed.
    pub(crate) fn finish(self) {
        let done = self.done.load(Ordering::Relaxed);
        self.add_done(self.total.saturating_sub(done));
        if self.total == 0 {
            self.told.add_done(self.share);
        }
    }
}

/// `of * part / whole`, at most `of`.
fn portion(of: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(of) * u128::from(part.min(whole));
    u64::try_from(product / u128::from(whole.max(1))).unwrap_or(of)
}

impl Progress for Part<'_> {
    fn add_nodes(&self, _: u64) {}
    fn set_total(&self, _: u64) {}
    fn set_total_bytes(&self, _: u64) {}
    fn add_done(&self, units: u64) {
        let before = self.done.fetch_add(units, Ordering::Relaxed);
        let counted = |done| portion(self.share, done, self.total);
        let more = counted(before.saturating_add(units)) - counted(before);
        if more > 0 {
            self.told.add_done(more);
        }
    }
    fn waits_for(&self, _: &[Waiting]) {}
    fn warn(&self, warning: Warning) {
        self.told.warn(warning);
    }
    fn is_cancelled(&self) -> bool {
        self.told.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counted(AtomicU64);

    impl Progress for Counted {
        fn add_nodes(&self, _: u64) {}
        fn set_total(&self, _: u64) {}
        fn set_total_bytes(&self, _: u64) {}
        fn add_done(&self, units: u64) {
            self.0.fetch_add(units, Ordering::Relaxed);
        }
        fn waits_for(&self, _: &[Waiting]) {}
        fn warn(&self, _: Warning) {}
        fn is_cancelled(&self) -> bool {
            false
        }
    }

    #[test]
    fn parts_count_as_their_share_of_the_progress() {
        for (total, steps) in [
            (7u64, [1u64, 2, 4]),
            (1000, [1, 0, 1]),
            (3, [2, 2, 2]),
            (0, [0, 0, 0]),
        ] {
            let counted = Counted::default();
            let mut percent = 0;
            for share in [20, 70, 10] {
                let part = Part::of(&counted, share, 500, total);
                steps.iter().for_each(|step| part.add_done(*step));
                part.finish();
                percent += share;
                assert_eq!(
                    counted.0.load(Ordering::Relaxed),
                    5 * percent,
                    "{total}: {steps:?}"
                );
            }
        }
    }
}
