//! What the commands on pools share: who does the work, its progress, and warnings.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use cli_support::Output;
use cli_support::progress::{Status, beside};
use onefold::WorkUnit;

use crate::volumes::{self, Answer, OpenedPool, Request};

/// Lets the request be done, by this process or by the pool's server.
pub(super) fn ask(pool: &Path, request: &Request, output: Output) -> Result<Answer> {
    let verb = match request {
        Request::Drain { .. } => "draining",
        Request::Remove { .. } => "freeing",
        // They are done at once, or not at all.
        _ => return Ok(volumes::ask(pool, request, &mut |_, _| true)?),
    };
    let asked = super::cancel_flag()?;
    let (done, total) = (AtomicU64::new(0), AtomicU64::new(0));
    let status = || Status {
        unit: WorkUnit::Bytes,
        done: done.load(Ordering::Relaxed),
        total: total.load(Ordering::Relaxed),
        ..Status::default()
    };
    let answer = beside(output, verb, &status, || {
        volumes::ask(pool, request, &mut |now, all| {
            done.store(now, Ordering::Relaxed);
            total.store(all, Ordering::Relaxed);
            !asked.load(Ordering::Relaxed)
        })
    });
    Ok(answer?)
}

/// Tells what somebody who opens a pool has to know.
pub(super) fn tell_of_pool(opened: &OpenedPool, output: Output) -> Result<()> {
    for (id, why) in opened.pool.failed() {
        output.warn(format!("warning: volume number {id} cannot be recovered: {why}"))?;
    }
    if let Some(moved) = &opened.moved {
        let to = moved.to.display();
        output.warn(if moved.is_of_other_pool {
            format!("warning: the duplicates index is that of another pool, and is now {to}; bring it back to that pool")
        } else {
            format!("warning: the duplicates index is damaged, and is now {to}; remove it when the pool is well")
        })?;
    }
    Ok(())
}

/// Work on so many bytes, of which the share is told that is done.
pub(super) struct Course {
    done: AtomicU64,
    total: u64,
}

impl Course {
    /// Nothing is done yet.
    pub(super) fn new(total: u64) -> Self {
        Self {
            done: AtomicU64::new(0),
            total,
        }
    }

    /// This share is done.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the share is clamped"
    )]
    pub(super) fn keep(&self, share: f64) {
        let done = share.clamp(0.0, 1.0) * self.total as f64;
        self.done.store(done as u64, Ordering::Relaxed);
    }

    /// For the progress line.
    pub(super) fn status(&self) -> Status {
        Status {
            unit: WorkUnit::Bytes,
            done: self.done.load(Ordering::Relaxed),
            total: self.total,
            ..Status::default()
        }
    }
}
