//! Creates the next revision of a manifest.
//!
//! Nothing is overwritten: tags, holds and archival rewrites are new revisions, and forgetting is a
//! tombstone, which is final. A process that finds its number taken reads again before it tries the
//! next. The revision is durable on return. A crash leaves the revision, a torn one (which hides no
//! lower one), or none. Any number of processes may do this at once.

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

/// How often to try again if other processes take the number.
const REVISIONS_MAX: usize = 64;

/// The result of forgetting a backup as it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgetting {
    /// It is forgotten now.
    Done,
    /// It was forgotten before.
    Before,
    /// It was revised since it was seen, or it could not be read then and can be now. It stays.
    Revised,
}

/// The state of a backup on which a decision to forget it is based.
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
    /// The backup in the highest readable revision.
    pub backup: &'a Backup,
    /// The highest revision cannot be read. It may have other content, until a revision is put
    /// above it.
    pub is_in_doubt: bool,
    /// A revision that the storage does not give now, and may give later. A new revision would undo
    /// its tags and holds. It may also be a tombstone, which is final.
    pub unread: Option<&'a DamagedObject>,
    /// An unreadable revision may be a tombstone, which no revision above it undoes.
    pub may_be_forgotten: bool,
    /// An unreadable revision, in a store where backups are rewritten as archival ones (R2). It may
    /// have roots that no lower revision has, and the data that the lower ones reach may be
    /// removed. So no revision with their roots is put above it.
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

/// The next step for a backup that is revised.
enum Next {
    /// No step: this revision counts.
    Stays(Revision),
    /// Put this backup as the revision of this number.
    Put(Revision, Box<Backup>),
}

/// The state of a backup for a caller that would forget it.
enum Standing {
    /// It has a tombstone.
    Forgotten(Revision),
    /// It has no readable tombstone.
    Seen(Seen),
}

impl Manifests {
    /// Creates the next revision of a backup from the present one. It must reach nothing that the
    /// present one does not reach. (An archival rewrite first commits its new root as a backup of
    /// its own session, which fails if that session was expired.) `change` is called again whenever
    /// another process took the number, and may return `None` if there is nothing left to do. It
    /// learns of unreadable revisions, and decides whether to continue. Durable on return. Returns
    /// the entry's revision after the call.
    ///
    /// # Errors
    /// `NoBackup`; `Forgotten` (a tombstone is final); `Damaged` if no revision can be read, or
    /// none can be read again after the put; `Contended`; those of `change`; of the storage.
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

    /// The next step for a backup, from a list of its series and the revisions that marks cover.
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

    /// Backups that were recently rewritten as archival ones (R2), by the rewrites in the list,
    /// including forgotten ones.
    ///
    /// # Errors
    /// `Damaged` for a rewrite that cannot be read now, and may be later. Of the storage.
    pub fn rewritten(&self, list: &ManifestList) -> Result<BTreeSet<SessionId>> {
        let mut all = BTreeSet::new();
        let rewrites = list
            .entries
            .iter()
            .filter(|entry| entry.series() == ARCHIVAL_SERIES);
        for rewrite in rewrites {
            let last = self.last_backup_for_sure(rewrite)?;
            let Some((_, rewrite)) = last else { continue };
            // An archival rewrite rewrites its oldest parent. Layout repair rewrites all parents.
            let of = if rewrite.rewritten.is_some() {
                rewrite.parents.len()
            } else {
                1
            };
            all.extend(rewrite.parents.iter().take(of).map(|(of, _)| *of));
        }
        Ok(all)
    }

    /// Whether this backup may have been rewritten: others of its series are archival, a listed
    /// rewrite names it, or marks cover it as rewritten.
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

    /// Whether marks cover a backup as rewritten. An archival backup has marks of its own, and
    /// other backups are in the marks of their series. These marks exist before the record of the
    /// rewrite is deleted.
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
                // They were replaced meanwhile.
                Ok(_) | Err(ObjectError::Storage(StorageError::NotFound { .. })) => {}
                // Their content is not known.
                Err(error) if error.is_damage() => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    /// Forgets a backup: puts a tombstone as its next revision. Durable on return. It does nothing
    /// if the backup is forgotten already. A backup with an unreadable manifest can be forgotten
    /// too.
    ///
    /// # Errors
    /// `NoBackup` if there is none, or if another session ended that one; `Contended`; of the
    /// storage.
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
    /// that the decision was made from. So it respects a hold or a tag that was put meanwhile, and
    /// it reads a revision again that was unreadable and can be read now.
    ///
    /// # Errors
    /// Those of [`Self::forget`].
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

    /// Like [`Self::forget_as_seen`], for a caller that forgets many backups and waits once for
    /// all. The caller runs one barrier before the first, which makes the seen revisions durable,
    /// and one after the last, which makes the tombstones durable.
    ///
    /// # Errors
    /// Those of [`Self::forget`].
    pub fn put_tombstone(&self, series: SeriesId, session: SessionId, seen: Seen) -> Result<Forgetting> {
        if !seen.is_read {
            // It is read once more.
            return self.forget_as_seen(series, session, seen);
        }
        let name = names::manifest(series, session, above(seen.highest));
        match self.objects().put(&name, &Manifest::Forgotten)? {
            Put::Created => Ok(Forgetting::Done),
            // There is a revision above the seen one.
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

    /// Checks a revision that was just put. A process that slept for long may have put it above a
    /// backup that was forgotten, deleted and swept meanwhile. The revision must not bring that
    /// backup back, so it is forgotten. A newer listing without lower revisions shows this case.
    /// Lower revisions that are unreadable show nothing.
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

/// The error for a backup without a readable revision, or without any.
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
