//! The manifests of a store, as one entry for each session: the highest revision counts, and a
//! tombstone counts above all.
//!
//! Values only; [`crate::Manifests`] reads them. The list names unreadable manifests beside the
//! entries, and an entry states what they leave in doubt.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use format::manifest::{Backup, Manifest};
use format::names;
use format::reclaim::CoveredManifest;
use format::session::{ARCHIVAL_SERIES, READ_SERIES};
use types::{Revision, SeriesId, SessionId, UnixNanos};

use crate::damaged::DamagedObject;
use crate::error::{EndedBy, Result, SessionError};
use crate::listed::is_short;
use crate::listed::{Listed, Revisions, Stored};

/// Revisions that marks cover, by session. They need not be read again.
pub(crate) type Covers = BTreeMap<SessionId, CoveredManifest>;

/// One manifest revision as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredManifest {
    /// The series.
    pub series: SeriesId,
    /// The session.
    pub session: SessionId,
    /// The revision.
    pub revision: Revision,
    /// XXH3-128 of the object as stored. Marks name a manifest by it.
    pub digest: u128,
    /// Its content.
    pub manifest: Manifest,
}

/// The state of one session, from all its manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The revision that counts: a tombstone, else the highest that can be read.
    pub stored: Arc<StoredManifest>,
    /// All revisions that exist, in order.
    pub revisions: Vec<Revision>,
    /// When the lowest of them was put, by the storage's clock. This is the time of the commit
    /// while that revision exists (INV-6).
    pub committed_at: UnixNanos,
    /// When the revision that counts was put, by the same clock.
    pub put_at: UnixNanos,
    /// A revision above the one that counts exists and cannot be read. It may be a tombstone. So a
    /// restore may use the backup, and prune may not remove anything of it.
    pub newer_unreadable: bool,
    /// An unreadable revision has the length of a tombstone. A tombstone is final, so a readable
    /// revision above it does not end the doubt.
    pub may_be_forgotten: bool,
}

impl ManifestEntry {
    /// The series.
    #[must_use]
    pub fn series(&self) -> SeriesId {
        self.stored.series
    }

    /// The session number, which is also the backup's id.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.stored.session
    }

    /// The backup, if it is one and not forgotten.
    #[must_use]
    pub fn backup(&self) -> Option<&Backup> {
        match &self.stored.manifest {
            Manifest::Commit(backup) | Manifest::Revised(backup) => Some(backup),
            Manifest::Expired { .. } | Manifest::Adopted { .. } | Manifest::Forgotten => None,
        }
    }

    /// Whether it was a backup and is forgotten.
    #[must_use]
    pub fn is_forgotten(&self) -> bool {
        self.stored.manifest == Manifest::Forgotten
    }

    /// Whether an unreadable revision may be a tombstone. Then prune may have removed its nodes.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.newer_unreadable || self.may_be_forgotten
    }

    /// How another session ended this one, if one did.
    #[must_use]
    pub fn ended_by(&self) -> Option<EndedBy> {
        match &self.stored.manifest {
            ended @ (Manifest::Expired { .. } | Manifest::Adopted { .. }) => Some(EndedBy::of(ended)),
            Manifest::Commit(_) | Manifest::Revised(_) | Manifest::Forgotten => None,
        }
    }
}

/// All manifests of a store or series, at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManifestList {
    /// By session number.
    pub entries: Vec<ManifestEntry>,
    /// Backups that were not read, because the caller knows their highest revision. Only a
    /// [`crate::SessionListing`] has them. By session number.
    pub as_covered: Vec<CoveredBackup>,
    /// Revisions that exist and cannot be read.
    pub damaged: Vec<DamagedObject>,
}

/// A backup whose highest revision the caller knows, so it need not be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoveredBackup {
    /// The series.
    pub series: SeriesId,
    /// The known facts; it is not forgotten.
    pub covered: CoveredManifest,
    /// As in [`ManifestEntry`].
    pub committed_at: UnixNanos,
}

impl ManifestList {
    /// The backups that are not forgotten, by session number. Commits of rewrites are not among
    /// them.
    pub fn backups(&self) -> impl DoubleEndedIterator<Item = &ManifestEntry> {
        let is_backup =
            |entry: &&ManifestEntry| entry.backup().is_some() && entry.series() != ARCHIVAL_SERIES;
        self.entries.iter().filter(is_backup)
    }

    /// Commits of rewrites that must become revisions of the backups that they rewrite (R2), by
    /// session number.
    pub fn rewrites(&self) -> impl DoubleEndedIterator<Item = &ManifestEntry> {
        let is_rewrite =
            |entry: &&ManifestEntry| entry.backup().is_some() && entry.series() == ARCHIVAL_SERIES;
        self.entries.iter().filter(is_rewrite)
    }

    /// The list, for a caller that decides which data is live. An unreadable manifest is an error,
    /// because it may be of a backup.
    ///
    /// # Errors
    /// `Damaged` if a revision cannot be read.
    pub fn whole(self) -> Result<Self> {
        match self.damaged.first() {
            Some(damaged) => Err(SessionError::Damaged(damaged.clone())),
            None => Ok(self),
        }
    }

    /// Adds backups of which only the known revision is listed. In an old store these are nearly
    /// all. Returns the listed revisions of the others.
    pub(crate) fn cover_alone(&mut self, listed: &[Listed], covers: &Covers) -> Vec<Listed> {
        let mut rest = Vec::new();
        // Sorted by name, so the revisions of one session are next to each other.
        for revisions in listed.chunk_by(|a, b| a.session == b.session) {
            let known = match revisions {
                [one] if one.series != READ_SERIES => covers
                    .get(&one.session)
                    .filter(|known| known.revision == one.revision && !known.forgotten)
                    .filter(|_| !is_short(one.revision, &one.stored))
                    .map(|known| (one, *known)),
                _ => None,
            };
            match known {
                Some((one, covered)) => self.as_covered.push(CoveredBackup {
                    series: one.series,
                    covered,
                    committed_at: one.stored.put_at,
                }),
                None => rest.extend_from_slice(revisions),
            }
        }
        rest
    }

    /// Adds a session by its known revision. A tombstone has no other content.
    pub(crate) fn cover(&mut self, series: SeriesId, known: &CoveredManifest, revisions: &Revisions) {
        let time = |stored: Option<&Stored>| stored.map_or(UnixNanos::new(0), |stored| stored.put_at);
        let committed_at = time(revisions.values().next());
        if !known.forgotten {
            return self.as_covered.push(CoveredBackup {
                series,
                covered: *known,
                committed_at,
            });
        }
        self.entries.push(ManifestEntry {
            stored: Arc::new(StoredManifest {
                series,
                session: known.session,
                revision: known.revision,
                digest: known.digest,
                manifest: Manifest::Forgotten,
            }),
            revisions: revisions.keys().copied().collect(),
            committed_at,
            put_at: time(revisions.get(&known.revision)),
            newer_unreadable: false,
            may_be_forgotten: false,
        });
    }

    /// Counts these backups as forgotten, for a preview. There are no tombstones, so there are no
    /// digests.
    pub fn forget(&mut self, sessions: &BTreeSet<SessionId>) {
        for entry in &mut self.entries {
            if sessions.contains(&entry.session()) && entry.backup().is_some() {
                let mut stored = (*entry.stored).clone();
                stored.manifest = Manifest::Forgotten;
                stored.digest = !stored.digest;
                entry.stored = Arc::new(stored);
            }
        }
        let is_meant = |backup: &mut CoveredBackup| sessions.contains(&backup.covered.session);
        let meant: Vec<_> = self.as_covered.extract_if(.., is_meant).collect();
        self.entries.extend(meant.into_iter().map(|backup| {
            let known = backup.covered;
            ManifestEntry {
                stored: Arc::new(StoredManifest {
                    series: backup.series,
                    session: known.session,
                    revision: known.revision,
                    digest: !known.digest,
                    manifest: Manifest::Forgotten,
                }),
                revisions: vec![known.revision],
                committed_at: backup.committed_at,
                put_at: backup.committed_at,
                newer_unreadable: false,
                may_be_forgotten: false,
            }
        }));
        self.entries.sort_by_key(ManifestEntry::session);
    }

    /// The revisions of a session that cannot be read.
    pub fn damaged_of(&self, session: SessionId) -> impl Iterator<Item = &DamagedObject> {
        let is_of_it = move |name| names::parse_manifest(name).is_some_and(|(_, of, _)| of == session);
        self.damaged.iter().filter(move |object| is_of_it(&object.name))
    }

    /// A revision of the session that the storage did not give, and may give later.
    #[must_use]
    pub fn unread_of(&self, series: SeriesId, session: SessionId) -> Option<&DamagedObject> {
        let of_it = self.unread(series).find(|(of, _)| *of == session);
        of_it.map(|(_, object)| object)
    }

    /// The revisions of the series that the storage did not give, by session.
    pub(crate) fn unread(&self, series: SeriesId) -> impl Iterator<Item = (SessionId, &DamagedObject)> {
        let unread = self.damaged.iter().filter(|object| object.is_unread);
        unread.filter_map(move |object| {
            let (of, session, _) = names::parse_manifest(&object.name)?;
            (of == series).then_some((session, object))
        })
    }

    /// Whether the session has a manifest, readable or not.
    #[must_use]
    pub fn has(&self, session: SessionId) -> bool {
        let covered = |backup: &CoveredBackup| backup.covered.session;
        self.get(session).is_some() || self.as_covered.binary_search_by_key(&session, covered).is_ok()
    }

    /// The entry of one session.
    #[must_use]
    pub fn get(&self, session: SessionId) -> Option<&ManifestEntry> {
        let at = self
            .entries
            .binary_search_by_key(&session, ManifestEntry::session)
            .ok()?;
        self.entries.get(at)
    }
}
