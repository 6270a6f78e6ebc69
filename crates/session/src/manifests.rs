//! Lists and reads manifest revisions.
//!
//! Of `backups/<series>/<session>.<revision>` the highest revision counts, but a tombstone is final
//! whatever follows. A list costs one listing, and one read for each backup, several at a time.
//! Read objects are cached, because an object never changes. The list names unreadable manifests,
//! damaged or on a bad sector, and they hide no others. A caller that decides what is live asks for
//! [`ManifestList::whole`]. Cheap to clone; may be used from many threads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use env::{Moment, StorageError};
use format::manifest::Manifest;
use format::reclaim::CoveredManifest;
use format::session::READ_SERIES;
use format::{names, wire};
use object::Sealer;
use types::{ObjectName, Revision, SeriesId, SessionId, UnixNanos};

use crate::damaged::DamagedObject;
use crate::error::{Result, SessionError};
use crate::list::{Covers, ManifestEntry, ManifestList, StoredManifest};
use crate::listed::{self, Listed, Revisions, Stored, by_session, is_short};
use crate::objects::{Objects, Read};

/// How often to list again if objects vanish before they are read.
pub(crate) const LISTINGS_MAX: usize = 5;
/// The store's manifests.
#[derive(Clone)]
pub struct Manifests {
    objects: Objects,
    known: Arc<Mutex<HashMap<ObjectName, Arc<StoredManifest>>>>,
}

impl Manifests {
    /// Access to the manifests of the sealer's store.
    #[must_use]
    pub fn new(sealer: &Sealer) -> Self {
        Self {
            objects: Objects::new(sealer),
            known: Arc::default(),
        }
    }

    /// The store's small objects.
    #[must_use]
    pub fn sealer(&self) -> &Sealer {
        self.objects.sealer()
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Every session that has ended: backups, forgotten ones, and sessions that others ended. Read
    /// sessions are left out.
    ///
    /// # Errors
    /// Of the storage. An unreadable manifest is no error; it is in the list's `damaged`.
    pub fn list(&self) -> Result<ManifestList> {
        self.list_since(self.objects.storage().moment())
    }

    /// Like [`Self::list`], as of any moment after `since`.
    ///
    /// # Errors
    /// Those of [`Self::list`].
    pub fn list_since(&self, since: Moment) -> Result<ManifestList> {
        let list = self.list_folder(names::BACKUPS_FOLDER, since)?;
        self.remember(&list);
        Ok(list)
    }

    pub(crate) fn remember(&self, list: &ManifestList) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.clear();
        known.extend(list.entries.iter().map(|entry| {
            let stored = &entry.stored;
            (
                names::manifest(stored.series, stored.session, stored.revision),
                Arc::clone(stored),
            )
        }));
    }

    /// Like [`Self::list`], for one series.
    ///
    /// # Errors
    /// Those of [`Self::list`].
    pub fn list_series(&self, series: SeriesId) -> Result<ManifestList> {
        self.list_folder(&names::backups_folder(series), self.objects.storage().moment())
    }

    /// One revision, with its digest.
    ///
    /// # Errors
    /// `NoBackup` if there is no such revision; `Damaged`; of the storage.
    pub fn read(
        &self,
        series: SeriesId,
        session: SessionId,
        revision: Revision,
    ) -> Result<Arc<StoredManifest>> {
        match self.fetch(series, session, revision)? {
            Read::Whole(stored) => Ok(stored),
            Read::Missing => Err(SessionError::NoBackup {
                asked: format!("{session}, revision {revision}"),
                among: String::new(),
            }),
            Read::Damaged(damaged) => Err(SessionError::Damaged(damaged)),
        }
    }

    fn list_folder(&self, folder: &str, mut since: Moment) -> Result<ManifestList> {
        for _ in 0..LISTINGS_MAX {
            let listed = listed::list_since(&self.objects, folder, since)?;
            if let Some(list) = self.read_listed(&listed, &Covers::new())? {
                return Ok(list);
            }
            since = self.objects.storage().moment();
        }
        Err(contended(folder))
    }

    /// Reads the listed manifests that are not known. `None`: an object has vanished since it was
    /// listed.
    pub(crate) fn read_listed(&self, listed: &[Listed], covers: &Covers) -> Result<Option<ManifestList>> {
        let mut list = ManifestList::default();
        let rest = list.cover_alone(listed, covers);
        let mut sessions = by_session(&rest);
        // Endings of read sessions are no backups, and there may be more of them than of backups.
        sessions.retain(|(series, _), _| *series != READ_SERIES);
        sessions.retain(|(series, session), revisions| {
            // A tombstone is final, whatever revision was put above it since.
            let counts = |known: &&CoveredManifest| {
                let Some(stored) = revisions.get(&known.revision) else {
                    return false;
                };
                // If the revision of this name was lost, another object may have its name: a
                // tombstone, or another revision.
                let is_tombstone = is_short(known.revision, stored);
                let highest = revisions.keys().next_back();
                known.forgotten == is_tombstone && (known.forgotten || highest == Some(&known.revision))
            };
            let known = covers.get(session).filter(counts);
            known.is_none_or(|known| {
                list.cover(*series, known, revisions);
                false
            })
        });
        let wanted: Vec<_> = sessions
            .iter()
            .flat_map(|((series, session), revisions)| {
                worth_reading(revisions).map(|revision| (*series, *session, revision))
            })
            .collect();
        let fetched: HashMap<_, _> = wanted.iter().copied().zip(self.fetch_all(&wanted)?).collect();
        if fetched.values().any(|read| matches!(read, Read::Missing)) {
            return Ok(None);
        }
        for ((series, session), revisions) in &sessions {
            list.entries
                .extend(self.entry(*series, *session, revisions, &fetched, &mut list.damaged)?);
        }
        list.entries.sort_by_key(ManifestEntry::session);
        list.as_covered.sort_by_key(|backup| backup.covered.session);
        Ok(Some(list))
    }

    /// The entry for a session's revisions. `None`: none of them can be read.
    pub(crate) fn entry(
        &self,
        series: SeriesId,
        session: SessionId,
        revisions: &Revisions,
        fetched: &HashMap<(SeriesId, SessionId, Revision), Read<Arc<StoredManifest>>>,
        damaged: &mut Vec<DamagedObject>,
    ) -> Result<Option<ManifestEntry>> {
        let read = |revision: Revision| match fetched.get(&(series, session, revision)) {
            Some(read) => Ok(read.clone()),
            None => self.fetch(series, session, revision),
        };
        let mut counts = None;
        let (mut newer_unreadable, mut may_be_forgotten) = (false, false);
        for revision in worth_reading(revisions) {
            match read(revision)? {
                Read::Whole(stored) if counts.is_none() || stored.manifest == Manifest::Forgotten => {
                    counts = Some(stored);
                }
                Read::Damaged(object) => {
                    newer_unreadable |= counts.is_none();
                    may_be_forgotten |= revisions
                        .get(&revision)
                        .is_some_and(|stored| is_short(revision, stored));
                    damaged.push(object);
                }
                Read::Whole(_) | Read::Missing => {}
            }
        }
        if counts.is_none() {
            for revision in revisions.keys().rev().copied() {
                match read(revision)? {
                    Read::Whole(stored) => {
                        counts = Some(stored);
                        break;
                    }
                    Read::Damaged(object) if !damaged.iter().any(|known| known.name == object.name) => {
                        damaged.push(object);
                    }
                    Read::Damaged(_) | Read::Missing => {}
                }
            }
        }
        let Some(stored) = counts else { return Ok(None) };
        let is_certain = stored.manifest == Manifest::Forgotten;
        let time = |stored: Option<&Stored>| stored.map_or(UnixNanos::new(0), |stored| stored.put_at);
        let committed_at = time(revisions.values().next());
        let put_at = time(revisions.get(&stored.revision));
        let revisions = revisions.keys().copied().collect();
        Ok(Some(ManifestEntry {
            stored,
            revisions,
            committed_at,
            put_at,
            newer_unreadable: newer_unreadable && !is_certain,
            may_be_forgotten: may_be_forgotten && !is_certain,
        }))
    }

    fn fetch_all(
        &self,
        wanted: &[(SeriesId, SessionId, Revision)],
    ) -> Result<Vec<Read<Arc<StoredManifest>>>> {
        object::several(self.objects.storage().is_far(), wanted.len(), |at| {
            let (series, session, revision) = wanted[at];
            self.fetch(series, session, revision)
        })
    }

    pub(crate) fn fetch(
        &self,
        series: SeriesId,
        session: SessionId,
        revision: Revision,
    ) -> Result<Read<Arc<StoredManifest>>> {
        let name = names::manifest(series, session, revision);
        if let Some(known) = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&name)
        {
            return Ok(Read::Whole(Arc::clone(known)));
        }
        let stored = match self.objects.storage().get(&name) {
            Ok(stored) => stored,
            Err(StorageError::NotFound { .. }) => return Ok(Read::Missing),
            // A bad sector makes this manifest unreadable, as rot would.
            Err(error) if error.is_of_medium() => {
                return Ok(Read::Damaged(DamagedObject::unread(name, &error)));
            }
            Err(error) => return Err(error.into()),
        };
        let digest = wire::digest(&stored);
        Ok(match self.objects.open::<Manifest>(&name, stored) {
            Read::Whole(manifest) => Read::Whole(Arc::new(StoredManifest {
                series,
                session,
                revision,
                digest,
                manifest,
            })),
            Read::Missing => Read::Missing,
            Read::Damaged(damaged) => Read::Damaged(damaged),
        })
    }
}

pub(crate) fn contended(folder: &str) -> SessionError {
    SessionError::Contended {
        name: folder.to_owned(),
    }
}

/// The highest revision, and those below it that have the length of a tombstone; highest first.
fn worth_reading(revisions: &Revisions) -> impl Iterator<Item = Revision> {
    let highest = revisions.keys().next_back().copied();
    revisions
        .iter()
        .rev()
        .filter(move |(revision, stored)| Some(**revision) == highest || is_short(**revision, stored))
        .map(|(revision, _)| *revision)
}
