//! Creating the next revision of a manifest.
//!
//! Nothing is overwritten: tags, holds and archival rewrites are new revisions, and forgetting is a
//! tombstone, which is final. A process that loses a number reads again before it tries the next.
//! The revision is durable on return. A crash leaves the revision, a torn one (which hides no lower
//! one), or none. Any number of processes may do this at once.

mod together;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use env::StorageError;
use format::frame::ObjectKind;
use format::manifest::{Backup, Manifest};
use format::names;
use format::reclaim::Marks;
use format::session::ARCHIVAL_SERIES;
use object::ObjectError;
use types::{Revision, SeriesId, SessionId};

use crate::damaged::DamagedObject;
use crate::error::{Result, SessionError};
use crate::list::{ManifestEntry, ManifestList};
use crate::listed::{self, by_session};
use crate::manifests::Manifests;
use crate::objects::Put;

/// A number that keeps being lost is tried so often.
const REVISIONS_MAX: usize = 64;

/// The result of forgetting a backup as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgetting {
    /// It is forgotten now.
    Done,
    /// It was forgotten before.
    Before,
    /// It was revised since it was seen, or could not be read then and can now. It stays.
    Revised,
}

/// What a decision to forget a backup was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Its highest revision, readable or not.
    pub highest: Revision,
    /// Whether any revision of it could be read.
    pub is_read: bool,
}

/// The present content of a backup's manifest, for a change.
#[derive(Debug, Clone, Copy)]
pub struct Present<'a> {
    /// What the highest revision says that can be read.
    pub backup: &'a Backup,
    /// The highest revision of all cannot be read: it may say otherwise, until one is put above it.
    pub is_in_doubt: bool,
    /// A revision that the storage does not give now, and may give again. What it says of tags and
    /// holds would be undone by a new revision; and it may be a tombstone, which is final.
    pub unread: Option<&'a DamagedObject>,
    /// A revision that cannot be read may be a tombstone, which no revision above it undoes.
    pub may_be_forgotten: bool,
    /// A revision that cannot be read, in a store where backups are rewritten as archival ones
    /// (R2): it may have roots that no lower revision has, and the data that the lower ones reach
    /// may be removed. No revision with their roots is put above it.
    pub may_be_archival: Option<&'a DamagedObject>,
}

impl<'a> Present<'a> {
    fn of(list: &'a ManifestList, entry: &'a ManifestEntry, rewrites: bool) -> Option<Self> {
        let unread = list.unread_of(entry.series(), entry.session());
        let is_in_doubt = entry.newer_unreadable || unread.is_some();
        let damaged = list.damaged_of(entry.session()).next();
        Some(Self {
            backup: entry.backup()?,
            is_in_doubt: entry.newer_unreadable,
            unread: list.unread_of(entry.series(), entry.session()),
            may_be_forgotten: entry.may_be_forgotten,
            may_be_archival: damaged.filter(|_| is_in_doubt && rewrites),
        })
    }
}

/// What becomes of a backup that is revised.
enum Next {
    /// Nothing: the revision that counts.
    Stays(Revision),
    /// This, as the revision of that number.
    Put(Revision, Box<Backup>),
}

/// What the revisions of a backup come to for who would forget it.
enum Standing {
    /// There is a tombstone.
    Forgotten(Revision),
    /// There is none that can be read.
    Seen(Seen),
}

impl Manifests {
    /// Creates the next revision of a backup from what the present one says. It must reach nothing
    /// that the present one does not: an archival rewrite first commits its new root as a backup of
    /// its own session, where an expired rewriter loses. `change` is asked again whenever somebody
    /// else was quicker, and may answer `None` when there is nothing left to do; it is told of what
    /// cannot be read, and whether to go ahead is for it to say. Durable on return. Returns the
    /// entry's revision after the call.
    ///
    /// # Errors
    /// `NoBackup`, `Forgotten` (a tombstone is final), `Damaged` where no revision can be read, or
    /// where what is there could not be read again afterwards, `Contended`, whatever `change`
    /// returns, or of the storage.
    pub fn revise(
        &self,
        series: SeriesId,
        session: SessionId,
        mut change: impl FnMut(&Present<'_>) -> Result<Option<Backup>>,
    ) -> Result<Revision> {
        for _ in 0..REVISIONS_MAX {
            let list = self.list_series(series)?;
            let marked = self.marked_revisions(series, &BTreeSet::from([session]))?;
            let (revision, next) = match self.next(&list, &marked, (series, session), &mut change)? {
                Next::Put(revision, next) => (revision, next),
                Next::Stays(revision) => return Ok(revision),
            };
            if self.create(series, session, revision, &Manifest::Revised(*next))? == Put::Created {
                return self.revised(&self.list_series(series)?, series, session, revision);
            }
        }
        Err(contended(series, session))
    }

    /// The next revision of a backup, from a list of its series and the revisions that marks cover.
    fn next(
        &self,
        list: &ManifestList,
        marked: &BTreeMap<SessionId, Revision>,
        (series, session): (SeriesId, SessionId),
        change: &mut dyn FnMut(&Present<'_>) -> Result<Option<Backup>>,
    ) -> Result<Next> {
        let entry = list.get(session).ok_or_else(|| unreadable(list, session))?;
        if entry.is_forgotten() {
            return Err(SessionError::Forgotten { session });
        }
        let rewrites = !list.damaged.is_empty() && self.may_be_rewritten(series, list, session)?;
        let Some(present) = Present::of(list, entry, rewrites) else {
            return Err(no_backup(session));
        };
        let Some(next) = change(&present)? else {
            return Ok(Next::Stays(entry.stored.revision));
        };
        let listed = entry.revisions.last().copied().unwrap_or(entry.stored.revision);
        let highest = marked.get(&session).copied().max(Some(listed)).unwrap_or(listed);
        Ok(Next::Put(above(highest), Box::new(next)))
    }

    /// Backups that were rewritten as archival ones (R2) lately, by the rewrites that the list has,
    /// forgotten ones too.
    ///
    /// # Errors
    /// Of the storage.
    pub fn rewritten(&self, list: &ManifestList) -> Result<BTreeSet<SessionId>> {
        let mut all = BTreeSet::new();
        let rewrites = list
            .entries
            .iter()
            .filter(|entry| entry.series() == ARCHIVAL_SERIES);
        for rewrite in rewrites {
            let last = self.last_backup(rewrite)?;
            let Some((_, rewrite)) = last else { continue };
            // Of an archival rewrite the eldest; layout repair rewrites all.
            let of = if rewrite.rewritten.is_some() {
                rewrite.parents.len()
            } else {
                1
            };
            all.extend(rewrite.parents.iter().take(of).map(|(of, _)| *of));
        }
        Ok(all)
    }

    /// Whether this backup may have been rewritten: others of its series are; or it was lately; or
    /// marks say so.
    fn may_be_rewritten(&self, of: SeriesId, series: &ManifestList, session: SessionId) -> Result<bool> {
        let is_rewritten = |entry: &ManifestEntry| {
            let backup = entry.backup();
            backup.is_some_and(|backup| backup.next.is_some() || backup.rewritten.is_some())
        };
        if series.entries.iter().any(is_rewritten) {
            return Ok(true);
        }
        let rewritten = self.rewritten(&self.list_series(ARCHIVAL_SERIES)?)?;
        Ok(rewritten.contains(&session) || self.is_marked_as_rewritten(of, session)?)
    }

    /// Whether marks say that a backup was rewritten: an archival backup has marks of its own,
    /// others are in the marks of their series. These marks exist before the record of the rewrite
    /// is deleted.
    fn is_marked_as_rewritten(&self, series: SeriesId, session: SessionId) -> Result<bool> {
        for ((group, revision), _) in self.sealer().list(names::GROUPS_FOLDER, names::parse_marks)? {
            if group.series == ARCHIVAL_SERIES && group.first == session {
                return Ok(true);
            }
            if group.series != series || group.first > session {
                continue;
            }
            let name = names::marks(group, revision);
            let is_said = |marks: &Marks| {
                let mut covers = marks.covers.iter();
                covers.any(|covered| covered.session == session && covered.is_rewritten())
            };
            match self.sealer().read(&name, ObjectKind::Marks, Marks::decode) {
                Ok(marks) if is_said(&marks) => return Ok(true),
                // Replaced meanwhile.
                Ok(_) | Err(ObjectError::Storage(StorageError::NotFound { .. })) => {}
                // What they say is not known.
                Err(error) if error.is_damage() => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Forgets a backup: a tombstone becomes its next revision, durable on return. Forgetting what
    /// is forgotten is nothing. A backup whose manifest cannot be read can be forgotten too.
    ///
    /// # Errors
    /// `NoBackup` where there is none, or where the session was ended by another; `Contended`; of
    /// the storage.
    pub fn forget(&self, series: SeriesId, session: SessionId) -> Result<Revision> {
        for _ in 0..REVISIONS_MAX {
            let at = match self.before_tombstone(series, session)? {
                Standing::Forgotten(tombstone) => return Ok(tombstone),
                Standing::Seen(now) => above(now.highest),
            };
            if self.create(series, session, at, &Manifest::Forgotten)? == Put::Created {
                return Ok(at);
            }
        }
        Err(contended(series, session))
    }

    /// Like [`Self::forget`], if the backup's highest revision, readable or not, is still the one
    /// that the decision was made from. So a hold or a tag put meanwhile is respected, and a
    /// revision that was unreadable and can be read now is looked at again.
    ///
    /// # Errors
    /// As [`Self::forget`].
    pub fn forget_as_seen(&self, series: SeriesId, session: SessionId, seen: Seen) -> Result<Forgetting> {
        for _ in 0..REVISIONS_MAX {
            match self.before_tombstone(series, session)? {
                Standing::Forgotten(_) => return Ok(Forgetting::Before),
                Standing::Seen(now) if now.highest != seen.highest || now.is_read && !seen.is_read => {
                    return Ok(Forgetting::Revised);
                }
                Standing::Seen(_) => {}
            }
            if self.create(series, session, above(seen.highest), &Manifest::Forgotten)? == Put::Created {
                return Ok(Forgetting::Done);
            }
        }
        Err(contended(series, session))
    }

    /// Like [`Self::forget_as_seen`], for a caller that forgets many and waits once for all: a
    /// barrier before the first covers what was seen, and one after the last makes the tombstones
    /// durable.
    ///
    /// # Errors
    /// As [`Self::forget`].
    pub fn put_tombstone(&self, series: SeriesId, session: SessionId, seen: Seen) -> Result<Forgetting> {
        if !seen.is_read {
            // It is looked at once more.
            return self.forget_as_seen(series, session, seen);
        }
        let name = names::manifest(series, session, above(seen.highest));
        match self.objects().put(&name, &Manifest::Forgotten)? {
            Put::Created => Ok(Forgetting::Done),
            // There is a revision above the one that was seen.
            Put::Taken => self.forget_as_seen(series, session, seen),
        }
    }

    fn before_tombstone(&self, series: SeriesId, session: SessionId) -> Result<Standing> {
        let listed = listed::list(self.objects(), &names::backups_folder(series))?;
        let Some(revisions) = by_session(&listed).remove(&(series, session)) else {
            return Err(no_backup(session));
        };
        let mut damaged = Vec::new();
        let entry = self.entry(series, session, &revisions, &HashMap::new(), &mut damaged)?;
        if let Some(entry) = &entry {
            if entry.is_forgotten() {
                return Ok(Standing::Forgotten(entry.stored.revision));
            }
            if entry.backup().is_none() {
                return Err(no_backup(session));
            }
        }
        match revisions.keys().next_back() {
            Some(highest) => Ok(Standing::Seen(Seen {
                highest: *highest,
                is_read: entry.is_some(),
            })),
            None => Err(no_backup(session)),
        }
    }

    /// A creator that slept for long may have got a number above a backup that was forgotten,
    /// dropped and swept meanwhile: what it created must not bring that back. Only a listing
    /// without the revisions below says so, made since; that they cannot be read says nothing.
    fn revised(
        &self,
        list: &ManifestList,
        series: SeriesId,
        session: SessionId,
        revision: Revision,
    ) -> Result<Revision> {
        let is_below = |object: &DamagedObject| {
            names::parse_manifest(&object.name).is_some_and(|(_, _, below)| below < revision)
        };
        match list.get(session) {
            Some(entry) if entry.is_forgotten() => Err(SessionError::Forgotten { session }),
            Some(entry) if entry.revisions.first() < Some(&revision) => Ok(revision),
            None if list.damaged_of(session).any(is_below) => Err(unreadable(list, session)),
            _ => {
                self.forget(series, session)?;
                Err(SessionError::Forgotten { session })
            }
        }
    }

    fn create(
        &self,
        series: SeriesId,
        session: SessionId,
        revision: Revision,
        manifest: &Manifest,
    ) -> Result<Put> {
        self.objects()
            .put_durably(&names::manifest(series, session, revision), manifest)
    }
}

fn above(revision: Revision) -> Revision {
    if revision == Revision::MAX {
        revision
    } else {
        revision.next()
    }
}

/// No revision of it can be read, or there is none.
fn unreadable(list: &ManifestList, session: SessionId) -> SessionError {
    let damaged = list.damaged_of(session).next();
    damaged.map_or_else(
        || no_backup(session),
        |object| SessionError::Damaged(object.clone()),
    )
}

fn no_backup(session: SessionId) -> SessionError {
    SessionError::NoBackup {
        asked: session.to_string(),
        among: String::new(),
    }
}

fn contended(series: SeriesId, session: SessionId) -> SessionError {
    SessionError::Contended {
        name: format!("{}/{session}", names::backups_folder(series)),
    }
}
