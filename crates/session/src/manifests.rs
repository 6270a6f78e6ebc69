//! Manifest revisions: listing and reading.
//!
//! `backups/<series>/<session>.<revision>`: the highest revision counts, but a tombstone is final whatever
//! follows. A listing costs one listing and one read a backup, several at a time; what was read is kept, for
//! an object never changes. A manifest that cannot be read, be it that the disk does not give its sectors, is
//! named and hides no other; who decides what is live asks for [`ManifestList::whole`]. Cheap to clone; may be
//! used from many threads.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use env::{ObjectMeta, StorageError};
use format::frame::FRAME_OVERHEAD_BYTES;
use format::manifest::{Backup, Manifest};
use format::reclaim::CoveredManifest;
use format::session::READ_SERIES;
use format::{names, wire};
use object::Sealer;
use types::{ObjectName, Revision, SeriesId, SessionId, UnixNanos};

use crate::error::{EndedBy, Result, SessionError};
use crate::objects::{DamagedObject, Objects, Read};

/// A listing that keeps losing objects under its hands is begun again so often.
pub(crate) const LISTINGS_MAX: usize = 5;
/// No backup's encoding is as short as a tombstone's; later versions of the payload may add so much.
const TOMBSTONE_SLACK_BYTES: u64 = 16;

/// One manifest revision as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredManifest {
    /// The series.
    pub series: SeriesId,
    /// The session.
    pub session: SessionId,
    /// The revision.
    pub revision: Revision,
    /// XXH3-128 of the object as stored: what marks name it by.
    pub digest: u128,
    /// What it says.
    pub manifest: Manifest,
}

/// What the manifests of one session come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The revision that counts: a tombstone, else the highest that can be read.
    pub stored: Arc<StoredManifest>,
    /// All revisions that exist, in order.
    pub revisions: Vec<Revision>,
    /// When the lowest of them was put, by the storage's clock: the commit, while it is kept (INV-6).
    pub committed_at: UnixNanos,
    /// When the revision that counts was put, by the same clock.
    pub put_at: UnixNanos,
    /// A revision above the one that counts exists and cannot be read: it may have been a tombstone.
    /// Restoring is right, removing would not be.
    pub newer_unreadable: bool,
}

impl ManifestEntry {
    /// The series.
    #[must_use]
    pub fn series(&self) -> SeriesId {
        self.stored.series
    }

    /// The session; of a backup, its id.
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

    /// How the session was ended by another, if it was.
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
    /// Backups that were not read, since who listed knows them: only in a [`crate::Census`]. By session number.
    pub as_covered: Vec<CoveredBackup>,
    /// Revisions that exist and cannot be read.
    pub damaged: Vec<DamagedObject>,
}

/// A backup whose highest revision is one that the caller knows: what it says need not be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoveredBackup {
    /// The series.
    pub series: SeriesId,
    /// What is known of it; not forgotten.
    pub covered: CoveredManifest,
    /// As of [`ManifestEntry`].
    pub committed_at: UnixNanos,
}

impl ManifestList {
    /// The backups that are not forgotten, by session number.
    pub fn backups(&self) -> impl DoubleEndedIterator<Item = &ManifestEntry> {
        self.entries.iter().filter(|entry| entry.backup().is_some())
    }

    /// The list, for who decides by it what is live: a manifest that cannot be read may be of a backup.
    ///
    /// # Errors
    /// `Damaged` when a revision exists that cannot be read.
    pub fn whole(self) -> Result<Self> {
        match self.damaged.first() {
            Some(damaged) => Err(SessionError::Damaged(damaged.clone())),
            None => Ok(self),
        }
    }

    /// Takes up what is known of a session. A tombstone says nothing but that it is one.
    fn cover(&mut self, series: SeriesId, known: &CoveredManifest, revisions: &Revisions) {
        let time = |meta: Option<&ObjectMeta>| meta.map_or(UnixNanos::new(0), |meta| meta.put_at);
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
        });
    }

    /// The revisions of a session that cannot be read.
    pub fn damaged_of(&self, session: SessionId) -> impl Iterator<Item = &DamagedObject> {
        let is_of_it = move |name| names::parse_manifest(name).is_some_and(|(_, of, _)| of == session);
        self.damaged.iter().filter(move |object| is_of_it(&object.name))
    }

    /// A revision of the session that the storage did not give, and may give again.
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

    /// Whether the session has a manifest, whatever it says.
    #[must_use]
    pub fn has(&self, session: SessionId) -> bool {
        let covered = |backup: &CoveredBackup| backup.covered.session;
        self.get(session).is_some() || self.as_covered.binary_search_by_key(&session, covered).is_ok()
    }

    /// The entry of one session, whatever it says.
    #[must_use]
    pub fn get(&self, session: SessionId) -> Option<&ManifestEntry> {
        let at = self
            .entries
            .binary_search_by_key(&session, ManifestEntry::session)
            .ok()?;
        self.entries.get(at)
    }
}

/// The store's manifests.
#[derive(Clone)]
pub struct Manifests {
    objects: Objects,
    known: Arc<Mutex<HashMap<ObjectName, Arc<StoredManifest>>>>,
}

/// Manifests that need not be read again: what is known of a session's highest revision.
pub(crate) type Covers = BTreeMap<SessionId, CoveredManifest>;

/// The revisions of one session, as listed.
pub(crate) type Revisions = BTreeMap<Revision, ObjectMeta>;

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

    /// Every session that has ended: backups, forgotten ones, and those that others ended; but for read
    /// sessions.
    ///
    /// # Errors
    /// Of the storage. An unreadable manifest is none, and one that fails to be read is neither: they are in
    /// the list's `damaged`.
    pub fn list(&self) -> Result<ManifestList> {
        let list = self.list_folder(names::BACKUPS_FOLDER)?;
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

    /// As [`Self::list`], of one series.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn list_series(&self, series: SeriesId) -> Result<ManifestList> {
        self.list_folder(&names::backups_folder(series))
    }

    /// One revision, with its digest.
    ///
    /// # Errors
    /// `NoBackup` where there is no such revision, `Damaged`, or of the storage.
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

    fn list_folder(&self, folder: &str) -> Result<ManifestList> {
        for _ in 0..LISTINGS_MAX {
            let listed = self.objects.storage().list(folder)?;
            if let Some(list) = self.read_listed(listed, &Covers::new())? {
                return Ok(list);
            }
        }
        Err(contended(folder))
    }

    /// What was listed, read where it is not known; `None` where an object has vanished since.
    pub(crate) fn read_listed(
        &self,
        listed: Vec<ObjectMeta>,
        covers: &Covers,
    ) -> Result<Option<ManifestList>> {
        let mut list = ManifestList::default();
        let mut sessions = by_session(listed);
        // Endings of read sessions are no backups, and there may be more of them than of those.
        sessions.retain(|(series, _), _| *series != READ_SERIES);
        sessions.retain(|(series, session), revisions| {
            let known = covers.get(session);
            let known = known.filter(|known| revisions.keys().next_back() == Some(&known.revision));
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

    /// What a session's revisions come to; `None` when not one can be read.
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
        let mut newer_unreadable = false;
        for revision in worth_reading(revisions) {
            match read(revision)? {
                Read::Whole(stored) if counts.is_none() || stored.manifest == Manifest::Forgotten => {
                    counts = Some(stored);
                }
                Read::Damaged(object) => {
                    newer_unreadable |= counts.is_none();
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
        let newer_unreadable = newer_unreadable && stored.manifest != Manifest::Forgotten;
        let time = |meta: Option<&ObjectMeta>| meta.map_or(UnixNanos::new(0), |meta| meta.put_at);
        let committed_at = time(revisions.values().next());
        let put_at = time(revisions.get(&stored.revision));
        let revisions = revisions.keys().copied().collect();
        Ok(Some(ManifestEntry {
            stored,
            revisions,
            committed_at,
            put_at,
            newer_unreadable,
        }))
    }

    fn fetch_all(
        &self,
        wanted: &[(SeriesId, SessionId, Revision)],
    ) -> Result<Vec<Read<Arc<StoredManifest>>>> {
        object::several(wanted.len(), |at| {
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
            // A bad sector costs this manifest, as rot would.
            Err(error @ StorageError::Io { .. }) => {
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

pub(crate) fn by_session(listed: Vec<ObjectMeta>) -> BTreeMap<(SeriesId, SessionId), Revisions> {
    let mut sessions: BTreeMap<_, Revisions> = BTreeMap::new();
    for meta in listed {
        if let Some((series, session, revision)) = names::parse_manifest(&meta.name) {
            sessions
                .entry((series, session))
                .or_default()
                .insert(revision, meta);
        }
    }
    sessions
}

/// The highest revision, and those below it that are short enough to be a tombstone; highest first.
fn worth_reading(revisions: &Revisions) -> impl Iterator<Item = Revision> {
    let tombstone = Manifest::Forgotten.to_bytes().len() + FRAME_OVERHEAD_BYTES;
    let short = tombstone as u64 + TOMBSTONE_SLACK_BYTES;
    let highest = revisions.keys().next_back().copied();
    revisions
        .iter()
        .rev()
        .filter(move |(revision, meta)| {
            Some(**revision) == highest || (**revision != Revision::FIRST && meta.len <= short)
        })
        .map(|(revision, _)| *revision)
}
