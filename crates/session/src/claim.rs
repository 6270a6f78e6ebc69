//! Beginning: claim a number, take the lock, list epochs, speak.
//!
//! The order is the protocol:
//! 1. `sessions/<n>/claim` is created, n being above every number that a listing just before it showed. The claim
//!    is visible to every reclaimer from here on, and each waits for this session's answer.
//! 2. The numbers are listed once more. Between the first listing and the claim this process may have slept for
//!    ever so long, and another session have claimed n, ended and been tidied away: its ending would be taken for
//!    this one's. Nothing of the kind can have happened where n is the highest, for the highest claim is never
//!    deleted. Otherwise n is given up, and another taken. Whoever comes later sees this claim.
//!    Nothing slow stands between the claim and this listing: of two that begin at once the lower gives way, and
//!    they could give way to each other for long if a barrier's time were between.
//! 3. Barrier: the number is durable before anything is named by it, so it is never given out again.
//! 4. The process lock. Only the winner of a claim ever takes the lock of its number, so that no lock file
//!    of a lost attempt can make another host's session look dead. Until the first heartbeat a watcher
//!    does not believe a free lock (see [`crate::watch`]): between 1 and 5 nobody can think this session
//!    dead for having no lock yet.
//! 5. *Then* epochs are listed and their lists read; heartbeat 0 names the highest, which answers all.
//!    A reclaimer creates `condemned/<e>` and then lists sessions: either it sees the claim and waits, or
//!    the listing here sees the epoch.
//!
//! A failure after the claim leaves a session that never spoke; it is ended here if possible, otherwise
//! by whoever finds it dead.

use format::manifest::{Manifest, SeriesName};
use format::names;
use format::session::{Claim, READ_SERIES};
use object::Sealer;
use types::{Revision, SeriesId, SessionId};

use crate::census::Listing;
use crate::epochs;
use crate::error::{Result, SessionError};
use crate::listed::{self, Listed};
use crate::manifests::Manifests;
use crate::objects::{Objects, Put};
use crate::policy::SessionPolicy;
use crate::roster;
use crate::session::{Parts, Session};

/// A number that keeps being lost is tried so often.
const CLAIMS_MAX: usize = 1000;

/// Who begins a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begin {
    /// The series' folder.
    pub series: SeriesId,
    /// The series' name.
    pub name: SeriesName,
    /// The process id on this host, for messages only.
    pub process: u32,
    /// The times it goes by.
    pub policy: SessionPolicy,
}

impl Session {
    /// Begins a session of a series. Look-ups, parents and containers may follow its return.
    ///
    /// # Errors
    /// `Contended` where others claim without end; `NumbersExhausted`; of the storage.
    pub fn begin(sealer: &Sealer, begin: Begin) -> Result<Self> {
        let (session, _) = Self::begin_with(&Manifests::new(sealer), begin)?;
        Ok(session)
    }

    /// With what was listed for its number.
    fn begin_with(manifests: &Manifests, begin: Begin) -> Result<(Self, Listing)> {
        let objects = manifests.objects().clone();
        let spoke_at = objects.clock().monotonic_with_suspend();
        let claim = Claim {
            series: begin.series,
            name: begin.name.clone(),
            process: begin.process,
            has_lock: true,
        };
        let (id, listed) = claim_number(&objects, &claim)?;
        match establish(manifests, id, begin, spoke_at) {
            Ok(session) => Ok((session, listed)),
            Err(error) => {
                let ending = names::manifest(claim.series, id, Revision::FIRST);
                // The first error is the one to report; what is left is a session that never spoke.
                drop(objects.put(&ending, &Manifest::Expired { by: id }));
                Err(error)
            }
        }
    }

    /// Begins a session that reads only: what it declares as parents is kept while it runs. It ends by
    /// [`Session::end`].
    ///
    /// # Errors
    /// As [`Session::begin`].
    pub fn begin_read(sealer: &Sealer, process: u32, policy: SessionPolicy) -> Result<Self> {
        Self::begin_read_with(&Manifests::new(sealer), process, policy)
    }

    /// As [`Session::begin_read`]; what `manifests` has read it need not read again.
    ///
    /// # Errors
    /// As [`Session::begin`].
    pub fn begin_read_with(manifests: &Manifests, process: u32, policy: SessionPolicy) -> Result<Self> {
        let (session, _) = Self::begin_with(manifests, to_read(process, policy))?;
        Ok(session)
    }

    /// As [`Session::begin_read_with`]; what was listed for its number comes with it, for a census
    /// ([`Manifests::census_of`]).
    ///
    /// # Errors
    /// As [`Session::begin`].
    pub fn begin_read_listed(
        manifests: &Manifests,
        process: u32,
        policy: SessionPolicy,
    ) -> Result<(Self, Listing)> {
        Self::begin_with(manifests, to_read(process, policy))
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

fn claim_number(objects: &Objects, claim: &Claim) -> Result<(SessionId, Listing)> {
    let mut name = String::new();
    for _ in 0..CLAIMS_MAX {
        let (id, manifests) = free_number(objects)?;
        let object = names::claim(id);
        if objects.put(&object, claim)? == Put::Created {
            let numbers = roster::numbers(objects)?;
            if numbers.last() <= Some(&id) {
                objects.barrier()?;
                return Ok((id, Listing { manifests, numbers }));
            }
            // Not the highest, and nothing was named by it. Should the deletion fail or be undone, a session stays that
            // never spoke.
            objects.delete(&object)?;
            // Or every roster would look into it, for no ending says that it need not. Whatever comes of it.
            drop(objects.storage().drop_folder(&names::session_folder(id)));
        }
        name = object.to_string();
    }
    Err(SessionError::Contended { name })
}

/// One more than the highest number in the sessions' and the manifests' names. The highest claim is never
/// deleted, so no number is free twice at this moment; manifests count too, for a store that lost its claims.
fn free_number(objects: &Objects) -> Result<(SessionId, Vec<Listed>)> {
    let claimed = roster::numbers(objects)?.last().copied();
    let manifests = listed::list(objects, names::BACKUPS_FOLDER)?;
    let ended = manifests.iter().map(|one| one.session).max();
    let id = match claimed.max(ended) {
        None => SessionId::new(1).map_err(|_| SessionError::NumbersExhausted)?,
        Some(SessionId::MAX) => return Err(SessionError::NumbersExhausted),
        Some(highest) => highest.next(),
    };
    Ok((id, manifests))
}

fn establish(
    manifests: &Manifests,
    id: SessionId,
    begin: Begin,
    spoke_at: std::time::Duration,
) -> Result<Session> {
    let objects = manifests.objects();
    let lock = objects.storage().lock(&names::session_lock(id))?;
    let (epochs, view) = epochs::load(objects, id)?;
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
    Ok(session)
}
