//! One look at the store's sessions: who has ended and how, and who runs.
//!
//! Listing is what grows with a store's age, and several of the reclaimer's steps ask the same; so they are given one
//! answer as long as it need not be new (docs/protocol.md, "What is listed anew").

use std::collections::BTreeMap;

use env::ObjectMeta;
use format::names;
use format::reclaim::CoveredManifest;
use types::{Revision, SeriesId, SessionId};

use crate::claim::highest_claimed;
use crate::error::Result;
use crate::list::ManifestList;
use crate::manifests::{LISTINGS_MAX, Manifests, contended};
use crate::roster::Roster;
use crate::session::Session;

/// The sessions at one moment: each has its ending among the manifests, or is in the roster, or began later.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// All manifests.
    pub manifests: ManifestList,
    /// Who had no ending among them.
    pub roster: Roster,
    /// Who had one, read sessions too.
    pub(crate) endings: Vec<(SeriesId, SessionId)>,
}

/// Names of manifests and, listed after them, who ran: what a census is made of when it is known what need not be read.
#[derive(Debug, Clone)]
pub struct Listing {
    pub(crate) manifests: Vec<ObjectMeta>,
    roster: Roster,
}

impl Listing {
    /// Who ran. The session that began by this listing is none of them.
    #[must_use]
    pub const fn roster(&self) -> &Roster {
        &self.roster
    }
}

impl Manifests {
    /// One listing of manifests, and one of sessions after it. Backups are not read again that `covers` has in the revision
    /// that was listed as the highest, or as a tombstone that was listed: nothing is ever stored under a name a second time.
    ///
    /// # Errors
    /// As [`Self::list`], and [`Roster::list`].
    pub fn census(&self, covers: &BTreeMap<SessionId, CoveredManifest>) -> Result<Census> {
        for _ in 0..LISTINGS_MAX {
            if let Some(census) = self.census_of(self.look()?, covers)? {
                return Ok(census);
            }
        }
        Err(contended(names::BACKUPS_FOLDER))
    }

    /// As [`Self::census`], of what was listed before; `None` where a manifest has vanished since.
    ///
    /// # Errors
    /// Of the storage.
    pub fn census_of(
        &self,
        listing: Listing,
        covers: &BTreeMap<SessionId, CoveredManifest>,
    ) -> Result<Option<Census>> {
        let endings = endings(&listing.manifests);
        let manifests = self.read_listed(listing.manifests, covers)?;
        Ok(manifests.map(|manifests| {
            self.remember(&manifests);
            Census {
                manifests,
                roster: listing.roster,
                endings,
            }
        }))
    }

    pub(crate) fn look(&self) -> Result<Listing> {
        let manifests = self.objects().storage().list(names::BACKUPS_FOLDER)?;
        let roster = Roster::after(self.objects(), &manifests)?;
        Ok(Listing { manifests, roster })
    }
}

impl Session {
    /// Whether a listing that said who ran is as good as one from now: nobody else did, and nobody has begun since. That
    /// costs a listing of names; docs/protocol.md, "What is listed anew", says why it is so.
    ///
    /// # Errors
    /// Of the storage.
    pub fn is_alone_since(&self, roster: &Roster) -> Result<bool> {
        let was_alone = roster.damaged.is_empty() && roster.running.iter().all(|info| info.id == self.id());
        Ok(was_alone && highest_claimed(&self.inner.objects)? == Some(self.id()))
    }
}

/// The sessions whose ending was listed.
pub(crate) fn endings(listed: &[ObjectMeta]) -> Vec<(SeriesId, SessionId)> {
    let parsed = listed.iter().filter_map(|meta| names::parse_manifest(&meta.name));
    parsed
        .filter(|(_, _, revision)| *revision == Revision::FIRST)
        .map(|(series, session, _)| (series, session))
        .collect()
}
