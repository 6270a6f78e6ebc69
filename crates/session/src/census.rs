//! One look at the store's sessions: who has ended and how, and who runs.
//!
//! Listing is what grows with a store's age, and several of the reclaimer's steps ask the same; so they are given one
//! answer as long as it need not be new (docs/protocol.md, "What is listed anew").

use std::collections::BTreeMap;

use env::ObjectMeta;
use format::names;
use format::reclaim::CoveredManifest;
use types::{Revision, SeriesId, SessionId};

use crate::error::Result;
use crate::list::ManifestList;
use crate::manifests::{LISTINGS_MAX, Manifests, contended};
use crate::roster::Roster;

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

impl Manifests {
    /// One listing of manifests, and one of sessions after it. Backups are not read again that `covers` has in the revision
    /// that was listed as the highest, or as a tombstone that was listed: nothing is ever stored under a name a second time.
    ///
    /// # Errors
    /// As [`Self::list`], and [`Roster::list`].
    pub fn census(&self, covers: &BTreeMap<SessionId, CoveredManifest>) -> Result<Census> {
        for _ in 0..LISTINGS_MAX {
            let listed = self.objects().storage().list(names::BACKUPS_FOLDER)?;
            let roster = Roster::after(self.objects(), &listed)?;
            let endings = endings(&listed);
            if let Some(manifests) = self.read_listed(listed, covers)? {
                self.remember(&manifests);
                return Ok(Census {
                    manifests,
                    roster,
                    endings,
                });
            }
        }
        Err(contended(names::BACKUPS_FOLDER))
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
