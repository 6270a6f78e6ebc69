//! Beginning: claim a number, take the lock, list epochs, put a heartbeat.
//!
//! The order is the protocol:
//! 1. List the numbers. n is one above the highest of them.
//! 2. Take the process lock of n. If another process has it, or a process of another host may have
//!    it, skip n.
//!    On a far storage the lock is taken after 4: it is in a folder of this machine, and says
//!    nothing to others.
//! 3. Create `sessions/<n>/claim`, which says whether there is a lock. From here on every reclaimer
//!    sees the claim and waits for this session's answer. The lock was held before the claim was
//!    visible. So a watcher that finds the lock free knows at once that the process is gone, at
//!    whatever moment it died.
//! 4. List the numbers once more. Between the first listing and the claim this process may have
//!    slept for any time. Another session may have claimed n, ended and been tidied away, and
//!    others would take its ending for this session's. That cannot have happened if n is the
//!    highest, because the highest claim is never deleted. Otherwise give n up, and take another
//!    number. Later sessions see this claim. Nothing slow may happen between the claim and this
//!    listing: of two sessions that begin at once the lower gives way. With a barrier in between
//!    they could give way to each other for long.
//! 5. Barrier: the number is durable before any object's name contains it, so it is never given out
//!    again.
//! 6. *Then* list epochs and read their lists; heartbeat 0 names the highest, which answers all. A
//!    reclaimer creates `condemned/<e>` and then lists sessions: either it sees the claim and
//!    waits, or the listing here sees the epoch.
//!
//! A failure before 3 leaves nothing. After a later one the session puts its own ending. If even
//! that is impossible, as on a full disk, the process releases the lock and its file stays: any
//! process on this host finds the session dead at once. The claim is not deleted, because it may be
//! the highest.

use env::{ListingOf, Moment, ProcessLock, StorageError};
use format::manifest::{Manifest, SeriesName};
use format::names;
use format::session::{ARCHIVAL_SERIES, Claim, READ_SERIES};
use object::Sealer;
use types::{Revision, SeriesId, SessionId};

use crate::epochs;
use crate::error::{Result, SessionError};
use crate::listed::{self, Listed};
use crate::manifests::Manifests;
use crate::objects::{Objects, Put};
use crate::policy::SessionPolicy;
use crate::session::{Parts, Session, TARGET};
use crate::session_listing::Listing;
use crate::session_table;

/// How often to try again if other sessions take the number.
const CLAIMS_MAX: usize = 1000;

/// The process that begins a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// The folder of the series.
    pub series: SeriesId,
    /// The name of the series.
    pub name: SeriesName,
    /// The process id on this host, for messages only.
    pub process: u32,
    /// The time limits of the session.
    pub policy: SessionPolicy,
}

impl Session {
    /// Begins a session of a series. After it returns, the session may look up chunks, choose
    /// parents and put containers.
    ///
    /// # Errors
    /// `Contended` if other sessions take the number too often; `NumbersExhausted`; of the storage.
    pub fn begin(sealer: &Sealer, begin: Begin) -> Result<Self> {
        let (session, _) = Self::begin_with(&Manifests::new(sealer), begin, None)?;
        Ok(session)
    }

    /// Like [`Self::begin`], for a number by listings that were made at any moment after `since`.
    /// It also returns them.
    ///
    /// # Errors
    /// Those of [`Session::begin`].
    pub fn begin_listed(sealer: &Sealer, begin: Begin, since: Moment) -> Result<(Self, Listing)> {
        Self::begin_with(&Manifests::new(sealer), begin, Some(since))
    }

    /// Begins a session. Returns it with the listing for its number.
    fn begin_with(manifests: &Manifests, begin: Begin, since: Option<Moment>) -> Result<(Self, Listing)> {
        let objects = manifests.objects().clone();
        let spoke_at = objects.clock().monotonic_with_suspend();
        let mut claim = Claim {
            series: begin.series,
            name: begin.name.clone(),
            process: begin.process,
            has_lock: false,
        };
        let (held, listed) = claim_number(&objects, &mut claim, since)?;
        let id = held.id;
        match establish(manifests, held, begin, spoke_at, listed.since) {
            Ok(session) => Ok((session, listed)),
            Err(error) => {
                withdraw(&objects, id, claim.series);
                Err(error)
            }
        }
    }

    /// Begins a session that only reads. Backups that it declares as parents are kept while it
    /// runs. It ends by [`Session::end`].
    ///
    /// # Errors
    /// Those of [`Session::begin`].
    pub fn begin_read(sealer: &Sealer, process: u32, policy: SessionPolicy) -> Result<Self> {
        Self::begin_read_with(&Manifests::new(sealer), process, policy, None)
    }

    /// Like [`Session::begin_read`]. It need not read again what `manifests` has read. The listings
    /// for the number are as of any moment after `since`, or new.
    ///
    /// # Errors
    /// Those of [`Session::begin`].
    pub fn begin_read_with(
        manifests: &Manifests,
        process: u32,
        policy: SessionPolicy,
        since: Option<Moment>,
    ) -> Result<Self> {
        let (session, _) = Self::begin_with(manifests, to_read(process, policy), since)?;
        Ok(session)
    }

    /// Like [`Session::begin_read_with`]. It also returns the listing for its number, for a session
    /// listing ([`Manifests::list_sessions_of`]).
    ///
    /// # Errors
    /// Those of [`Session::begin`].
    pub fn begin_read_listed(
        manifests: &Manifests,
        process: u32,
        policy: SessionPolicy,
    ) -> Result<(Self, Listing)> {
        Self::begin_with(manifests, to_read(process, policy), None)
    }

    /// Whether this session only reads.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.series() == READ_SERIES
    }
}

fn to_read(process: u32, policy: SessionPolicy) -> Begin {
    let name = SeriesName {
        host: Vec::new(),
        paths: Vec::new(),
    };
    Begin {
        series: READ_SERIES,
        name,
        process,
        policy,
    }
}

/// A number, and its process lock if the storage has locks.
struct ClaimedId {
    id: SessionId,
    lock: Option<Box<dyn ProcessLock>>,
}

impl ClaimedId {
    /// Takes the lock of a number. `None`: another process has it, or may have it. On a far storage
    /// nothing is taken yet ([`Self::lock_later`]).
    fn take(objects: &Objects, id: SessionId) -> Result<Option<Self>> {
        if objects.storage().is_far() {
            return Ok(Some(Self { id, lock: None }));
        }
        match objects.storage().lock(&names::session_lock(id)) {
            Ok(lock) => Ok(Some(Self { id, lock })),
            Err(StorageError::Locked { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the lock on a far storage, where only processes of this machine see it, once the claim
    /// is this session's. Earlier, two machines could take the lock of one number, and the one
    /// without the claim would leave a lock that speaks of the other's session. Without the lock
    /// the session's state is unknown to others, and nothing else changes.
    fn lock_later(&mut self, objects: &Objects) {
        if objects.storage().is_far() {
            let lock = objects.storage().lock(&names::session_lock(self.id));
            self.lock = lock.unwrap_or_default();
        }
    }

    /// Gives the number back. The lock's name is deleted before the lock is released: later,
    /// another process may hold a lock of that name, which must stay. If the deletion fails, the
    /// name does no harm, and the next process takes it over.
    fn give_back(self, objects: &Objects) {
        if self.lock.is_some() {
            drop(objects.storage().drop_lock(&names::session_lock(self.id)));
        }
    }
}

fn claim_number(
    objects: &Objects,
    claim: &mut Claim,
    mut since: Option<Moment>,
) -> Result<(ClaimedId, Listing)> {
    let (mut name, mut passed) = (String::new(), None);
    for _ in 0..CLAIMS_MAX {
        let (id, manifests) = free_number(objects, passed, since.take())?;
        let Some(mut held) = ClaimedId::take(objects, id)? else {
            name = names::session_lock(id).to_string();
            passed = Some(id);
            continue;
        };
        claim.has_lock = held.lock.is_some() || objects.storage().is_far();
        match put_claim(objects, &held, claim) {
            Ok(Some((numbers, since))) => {
                let listing = Listing {
                    manifests,
                    numbers,
                    since,
                };
                held.lock_later(objects);
                return Ok((held, listing));
            }
            Ok(None) => held.give_back(objects),
            // The name of the lock stays as long as the claim may exist, because it shows that the
            // process has ended.
            Err(error) => return Err(error),
        }
        name = names::claim(id).to_string();
    }
    Err(SessionError::Contended { name })
}

/// Numbers of sessions that were listed after a claim, and the moment of the claim.
type After = (Vec<SessionId>, Moment);

/// Puts the claim, and returns the numbers of sessions listed after it. `None`: the number was
/// taken, or is given up.
fn put_claim(objects: &Objects, held: &ClaimedId, claim: &Claim) -> Result<Option<After>> {
    let object = names::claim(held.id);
    match objects.put(&object, claim) {
        Ok(Put::Created) => {}
        Ok(Put::Taken) => return Ok(None),
        Err(error) => {
            // An object that the storage refused for lack of space usually does not exist. If it
            // exists, its owner is not known.
            if held.lock.is_some() && objects.exists(&object).is_ok_and(|exists| !exists) {
                drop(objects.storage().drop_lock(&names::session_lock(held.id)));
            }
            return Err(error);
        }
    }
    let stands = stands(objects, held.id);
    if stands.is_err() {
        withdraw(objects, held.id, claim.series);
    }
    stands
}

/// Whether a claim that was just put is the highest, and durable.
fn stands(objects: &Objects, id: SessionId) -> Result<Option<After>> {
    let since = objects.storage().moment();
    objects.storage().look_ahead(&[
        ListingOf::Folders(names::SESSIONS_FOLDER),
        ListingOf::Objects(names::CONDEMNED_FOLDER),
    ]);
    let numbers = session_table::numbers_since(objects, since)?;
    if numbers.last() <= Some(&id) {
        objects.barrier()?;
        return Ok(Some((numbers, since)));
    }
    // The claim is not the highest, and it named nothing. If the deletion fails or is undone, a
    // session stays that never spoke.
    objects.delete(&names::claim(id))?;
    // Otherwise every session table would read the folder, because no ending makes that needless.
    // An error here does no harm.
    drop(objects.storage().drop_folder(&names::session_folder(id)));
    Ok(None)
}

/// Ends a session that could not begin. The caller reports the first error. Without room for the
/// ending, a session stays that never spoke, and its lock is free.
fn withdraw(objects: &Objects, id: SessionId, series: SeriesId) {
    let ending = names::manifest(series, id, Revision::FIRST);
    if objects.put(&ending, &Manifest::Expired { by: id }).is_ok() {
        drop(objects.delete(&names::heartbeat(id, 0)));
        drop(objects.storage().drop_lock(&names::session_lock(id)));
    }
}

/// One more than the highest number in the names of sessions and manifests, and above `passed`. The
/// highest claim is never deleted, so no number is free twice at this moment. Manifests count for a
/// store that has lost its claims. Both listings are as of any moment after `since`, or new.
fn free_number(
    objects: &Objects,
    passed: Option<SessionId>,
    since: Option<Moment>,
) -> Result<(SessionId, Vec<Listed>)> {
    let since = since.unwrap_or_else(|| {
        let now = objects.storage().moment();
        objects.storage().look_ahead(&[
            ListingOf::Folders(names::SESSIONS_FOLDER),
            ListingOf::Objects(names::BACKUPS_FOLDER),
        ]);
        now
    });
    let claimed = session_table::numbers_since(objects, since)?.last().copied();
    let manifests = listed::list_since(objects, names::BACKUPS_FOLDER, since)?;
    let ended = manifests.iter().map(|one| one.session).max();
    let id = match claimed.max(ended).max(passed) {
        None => SessionId::new(1).map_err(|_| SessionError::NumbersExhausted)?,
        Some(SessionId::MAX) => return Err(SessionError::NumbersExhausted),
        Some(highest) => highest.next(),
    };
    Ok((id, manifests))
}

fn establish(
    manifests: &Manifests,
    held: ClaimedId,
    begin: Begin,
    spoke_at: std::time::Duration,
    since: Moment,
) -> Result<Session> {
    let objects = manifests.objects();
    let ClaimedId { id, lock } = held;
    let (epochs, view) = epochs::load(objects, id, since)?;
    let Begin {
        series,
        name,
        process: _,
        policy,
    } = begin;
    let (objects, manifests) = (objects.clone(), manifests.clone());
    let session = Session::new(Parts {
        id,
        series,
        name,
        policy,
        objects,
        manifests,
        view,
        epochs,
        spoke_at,
        lock,
    });
    session.inner.speak()?;
    tracing::info!(target: TARGET, session = %id, kind = kind(series), "begins");
    Ok(session)
}

/// The kind of a session of this series, for the log.
fn kind(series: SeriesId) -> &'static str {
    match series {
        READ_SERIES => "read",
        ARCHIVAL_SERIES => "rewrite",
        _ => "backup",
    }
}
