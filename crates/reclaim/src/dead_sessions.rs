//! Dead sessions: those that no session has adopted for long, and others.

use std::time::Duration;

use format::names;
use session::{DeathWatch, Life, Session, SessionInfo, SessionListing};
use types::UnixNanos;

use crate::context::Context;
use crate::error::Result;
use crate::options::{PruneOptions, PruneReport};

/// A session that is known to be dead, and has not been ended.
pub(crate) struct Dead<'a> {
    pub(crate) info: &'a SessionInfo,
    /// No later backup has adopted it for long, so only this run would end it.
    pub(crate) is_abandoned: bool,
}

/// The dead sessions of the session listing. `now` is the time by the storage's clock, as nearly as
/// the caller knows it. One look cannot tell whether a session of another host is dead.
pub(crate) fn among<'a>(
    context: &Context<'_>,
    options: &PruneOptions,
    listing: &'a SessionListing,
    now: UnixNanos,
) -> Vec<Dead<'a>> {
    let env = context.sealer.env();
    let watch = DeathWatch::new(env.clone(), context.policy);
    let is_dead = |info: &&SessionInfo| matches!(watch.observe(info), Life::Dead(_));
    let dead = listing.table.running.iter().filter(is_dead);
    dead.map(|info| {
        let last = match info.counter {
            Some(counter) => names::heartbeat(info.id, counter),
            None => names::claim(info.id),
        };
        let is_old = |put_at: UnixNanos| {
            let age = u64::try_from(now.get().saturating_sub(put_at.get())).unwrap_or(0);
            Duration::from_nanos(age) >= options.abandoned_after
        };
        Dead {
            info,
            is_abandoned: env.storage.head(&last).is_ok_and(|meta| is_old(meta.put_at)),
        }
    })
    .collect()
}

/// Ends dead sessions that no later backup has adopted for long, because nobody else would end
/// them. Returns whether there was one.
pub(crate) fn expire_abandoned(
    context: &Context<'_>,
    options: &PruneOptions,
    session: &Session,
    listing: &SessionListing,
    report: &mut PruneReport,
) -> Result<bool> {
    let before = report.sessions_expired.len();
    let now = context.sealer.env().storage.head(&names::claim(session.id()))?;
    for dead in among(context, options, listing, now.put_at) {
        if dead.is_abandoned && dead.info.id != session.id() {
            session.expire(dead.info)?;
            report.sessions_expired.push(dead.info.id);
        }
    }
    Ok(report.sessions_expired.len() > before)
}
