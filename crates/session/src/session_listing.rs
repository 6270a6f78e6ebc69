//! One listing of the store's sessions: which have ended, how, and which run.
//!
//! Listings grow with a store's age, and several of the reclaimer's steps need one. They share a
//! listing as long as it need not be new (docs/protocol.md, "What is listed anew, and what
//! is handed on").

use std::collections::BTreeMap;

use env::Moment;
use format::names;
use format::reclaim::CoveredManifest;
use types::{SeriesId, SessionId};

use crate::error::Result;
use crate::list::ManifestList;
use crate::listed::{self, Listed, endings};
use crate::manifests::{LISTINGS_MAX, Manifests, contended};
use crate::session::Session;
use crate::session_table::{SessionTable, numbers};

/// The sessions at one moment: each has its ending among the manifests, or is in the session table,
/// or began later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionListing {
    /// All manifests.
    pub manifests: ManifestList,
    /// Sessions without an ending among the manifests.
    pub table: SessionTable,
    /// Sessions with an ending, including read sessions.
    pub(crate) endings: Vec<(SeriesId, SessionId)>,
}

/// The listing from when a session began. It can become a session listing later.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Manifests, listed before its claim was put.
    pub(crate) manifests: Vec<Listed>,
    /// The numbers of sessions, listed afterwards.
    pub(crate) numbers: Vec<SessionId>,
    /// A moment after the claim and before that listing.
    pub(crate) since: Moment,
}

impl Manifests {
    /// Lists manifests once, and sessions after them. It does not read a backup again if `covers`
    /// has its highest listed revision, or a listed tombstone, because no name is ever used for a
    /// second object.
    ///
    /// # Errors
    /// Those of [`Self::list`] and [`SessionTable::list`].
    pub fn list_sessions(&self, covers: &BTreeMap<SessionId, CoveredManifest>) -> Result<SessionListing> {
        for _ in 0..LISTINGS_MAX {
            let listed = listed::list(self.objects(), names::BACKUPS_FOLDER)?;
            let table = SessionTable::after(self.objects(), &listed)?;
            if let Some(listing) = self.listing_by(&listed, table, covers)? {
                return Ok(listing);
            }
        }
        Err(contended(names::BACKUPS_FOLDER))
    }

    /// Like [`Self::list_sessions`], from the manifests that were listed before the session's claim
    /// was put. `None`: a new listing is needed, because another session runs or has begun since,
    /// or a manifest has vanished.
    ///
    /// # Errors
    /// Of the storage.
    pub fn list_sessions_of(
        &self,
        session: &Session,
        listing: &Listing,
        covers: &BTreeMap<SessionId, CoveredManifest>,
    ) -> Result<Option<SessionListing>> {
        // Use the numbers that were listed after the own claim. A session that is just claiming may
        // have only an empty folder, but its folder raised the own number.
        let table = SessionTable::among(self.objects(), &listing.manifests, &listing.numbers)?;
        if session.is_alone_since(&table)? {
            self.listing_by(&listing.manifests, table, covers)
        } else {
            Ok(None)
        }
    }

    fn listing_by(
        &self,
        listed: &[Listed],
        mut table: SessionTable,
        covers: &BTreeMap<SessionId, CoveredManifest>,
    ) -> Result<Option<SessionListing>> {
        let endings = endings(listed);
        let manifests = self.read_listed(listed, covers)?;
        Ok(manifests.map(|manifests| {
            self.remember(&manifests);
            table.take_out_lost(&manifests, |id| covers.contains_key(&id));
            SessionListing {
                manifests,
                table,
                endings,
            }
        }))
    }
}

impl Session {
    /// Whether the manifests and the session table that were listed after the own claim are as good
    /// as new ones: no other session ran, and none has begun since. This costs a listing of names.
    /// docs/protocol.md, "What is listed anew, and what is handed on", has the reason.
    ///
    /// # Errors
    /// Of the storage.
    pub fn is_alone_since(&self, table: &SessionTable) -> Result<bool> {
        let was_alone = table.damaged.is_empty() && table.running.iter().all(|info| info.id == self.id());
        Ok(was_alone && numbers(&self.inner.objects)?.last() == Some(&self.id()))
    }
}
