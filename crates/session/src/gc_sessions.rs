//! Removing the objects that ended sessions left.
//!
//! - Of an ended session, heartbeats and checkpoints are deleted. The claim stays, and with it the
//!   number.
//! - The checkpoint that an adoption names stays: it names the dead session's containers that the
//!   adopter's backup needs.
//! - Everything of a session without an ending stays.
//! - Of a read session that ended itself, the claim is deleted too. The ending is deleted by a
//!   later run that finds the claim gone, so one barrier covers both. A claim above the own one
//!   stays, because the highest claim is never deleted: new numbers are given out above it.
//! - An ending of another series than the claim names does not belong to the session.
//!
//! Removing twice does no harm, and any number of processes may do it at once. A session that ended
//! long ago has nothing left, nearly always. So a run looks only at read sessions, recent sessions
//! and a few others, which differ from run to run. The cost follows the number of new sessions. In
//! a far store with many sessions it looks at 48.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use env::StorageError;
use format::manifest::Manifest;
use format::names;
use format::session::{Claim, READ_SERIES};
use object::ObjectError;
use types::{Revision, SeriesId, SessionId};

use crate::error::{EndedBy, Result, SessionError};
use crate::listed::{self, endings};
use crate::objects::{Objects, Read};
use crate::session::Session;
use crate::session_listing::{Listing, SessionListing};
use crate::session_table::{self, Folder};

/// How many numbers below the own one every run looks at.
const RECENT: u64 = 64;
/// Of the older numbers, a run looks at one in this power of two.
const ROUNDS_LOG2: u32 = 6;

/// In a far store whose numbers are not above this one, one listing has all sessions: some ten
/// requests.
const YOUNG: u64 = 4096;
/// In another far store a run looks at so many of the newest sessions. Readers tidy once in 16
/// numbers, and each reader is looked at twice until it is gone.
const NEWEST: usize = 40;
/// It looks at so many others: half of them readers, as far as there are.
const OTHERS: usize = 8;
/// A storage lists so many folders side by side.
const AT_ONCE: usize = 8;

/// The result of tidying.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CollectedSessions {
    /// Sessions with objects that were removed.
    pub sessions: usize,
    /// Objects removed.
    pub objects: usize,
}

impl Session {
    /// Removes the objects that ended sessions left. It costs two listings, and a read for each
    /// session with such objects.
    ///
    /// # Errors
    /// Of the storage. The next call removes the rest.
    pub fn gc_sessions(&self) -> Result<CollectedSessions> {
        let listed = listed::list(&self.inner.objects, names::BACKUPS_FOLDER)?;
        gc(&self.inner.objects, self.id(), &endings(&listed))
    }

    /// Like [`Self::gc_sessions`], for the sessions that had ended by this listing. It may be old,
    /// because endings are final.
    ///
    /// # Errors
    /// Those of [`Self::gc_sessions`].
    pub fn gc_sessions_after(&self, listing: &SessionListing) -> Result<CollectedSessions> {
        gc(&self.inner.objects, self.id(), &listing.endings)
    }

    /// For tidying beside this session.
    #[must_use]
    pub fn tidier(&self) -> Tidier {
        Tidier {
            objects: self.inner.objects.clone(),
            own: self.id(),
        }
    }
}

/// Tidies for a session, and does not keep it alive.
pub struct Tidier {
    objects: Objects,
    own: SessionId,
}

impl fmt::Debug for Tidier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tidier")
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

impl Tidier {
    /// Like [`Session::gc_sessions_after`], by the listing from when the session began.
    ///
    /// # Errors
    /// Those of [`Session::gc_sessions`].
    pub fn gc_sessions_by(&self, listing: &Listing) -> Result<CollectedSessions> {
        gc(&self.objects, self.own, &endings(&listing.manifests))
    }
}

fn gc(objects: &Objects, own: SessionId, endings: &[(SeriesId, SessionId)]) -> Result<CollectedSessions> {
    let looked_at = endings
        .iter()
        .filter(|(series, id)| *series == READ_SERIES || is_in_turn(*id, own));
    let looked_at: BTreeSet<(SessionId, SeriesId)> = looked_at.map(|(series, id)| (*id, *series)).collect();
    let (looked_at, folders) = look_at(objects, looked_at, own)?;
    let mut left = Vec::new();
    for (id, series) in looked_at {
        let folder = folders.get(&id).cloned().unwrap_or_default();
        // A claim above the own one stays.
        let is_read = series == READ_SERIES && id < own;
        if is_read || !folder.heartbeats.is_empty() || !folder.checkpoints.is_empty() {
            left.push(Left {
                id,
                series,
                folder,
                is_read,
            });
        }
    }
    let mut tidied = CollectedSessions::default();
    if left.is_empty() {
        return Ok(tidied);
    }
    // These must be durable first: the endings that the run acts on, the absence of claims, and
    // the own claim, which allows to delete others.
    objects.barrier()?;
    for ended in left {
        match collect(objects, ended) {
            Ok(removed) => {
                tidied.objects += removed;
                tidied.sessions += usize::from(removed > 0);
            }
            // Another client removes what this one may not.
            Err(error) if error.is_no_right() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(tidied)
}

/// A session's folder by its number.
type Folders = BTreeMap<SessionId, Folder>;

/// The folders of these sessions. In a far store, where each request takes a round trip, one
/// listing has those of a young store, and of an old one a run looks at few.
fn look_at(
    objects: &Objects,
    sessions: BTreeSet<(SessionId, SeriesId)>,
    own: SessionId,
) -> Result<(BTreeSet<(SessionId, SeriesId)>, Folders)> {
    if !objects.storage().is_far() {
        let folders = session_table::folders_of(objects, sessions.iter().map(|(id, _)| *id))?;
        return Ok((sessions, folders));
    }
    if own.get() <= YOUNG {
        let folders = session_table::all_folders(objects)?;
        return Ok((sessions, folders));
    }
    let few = few_of(&sessions, own);
    let mut folders = Folders::new();
    for some in few.chunks(AT_ONCE) {
        folders.extend(session_table::folders_of(
            objects,
            some.iter().map(|(id, _)| *id),
        )?);
    }
    Ok((few.into_iter().collect(), folders))
}

/// The newest of these sessions, and some of the others, other ones for each `own`.
fn few_of(sessions: &BTreeSet<(SessionId, SeriesId)>, own: SessionId) -> Vec<(SessionId, SeriesId)> {
    let newest = sessions.len().saturating_sub(NEWEST);
    let (mut readers, mut others) = (Vec::new(), Vec::new());
    for one in sessions.iter().take(newest) {
        let kind = if one.1 == READ_SERIES {
            &mut readers
        } else {
            &mut others
        };
        kind.push(*one);
    }
    let turned = |all: &[(SessionId, SeriesId)]| {
        let first = usize::try_from(mixed(own) >> 32).unwrap_or_default() % all.len().max(1);
        [&all[first..], &all[..first]].concat()
    };
    let (readers, others) = (turned(&readers), turned(&others));
    let of_readers = readers.len().min(OTHERS - others.len().min(OTHERS / 2));
    let others = others.into_iter().take(OTHERS - of_readers);
    let older = readers.into_iter().take(of_readers).chain(others);
    sessions.iter().skip(newest).copied().chain(older).collect()
}

/// A session with an ending, and the objects that it left.
struct Left {
    id: SessionId,
    series: SeriesId,
    folder: Folder,
    is_read: bool,
}

/// Removes what an ended session left. Returns the number of objects.
fn collect(objects: &Objects, left: Left) -> Result<usize> {
    let Left {
        id,
        series,
        folder,
        is_read,
    } = left;
    // The ending of an earlier session with this number says nothing about the present one.
    if folder.claimed && !is_of(objects, id, series)? {
        return Ok(0);
    }
    let name = names::manifest(series, id, Revision::FIRST);
    let ending = match objects.read::<Manifest>(&name) {
        Ok(Read::Whole(ending)) => ending,
        // Its content is not known, so all objects of the session stay. Other sessions do not
        // matter to it.
        Ok(Read::Missing | Read::Damaged(_)) => return Ok(0),
        Err(SessionError::Storage(error)) if error.is_of_medium() => return Ok(0),
        Err(error) => return Err(error),
    };
    let keep = match EndedBy::of(&ending) {
        EndedBy::Adopted { checkpoint, .. } => checkpoint,
        _ => None,
    };
    if folder.claimed && !folder.committed && matches!(ending, Manifest::Commit(_)) {
        // The session was killed before it put the record itself.
        record_commit(objects, id)?;
    }
    let mut removed = remove(objects, id, &folder, keep)?;
    if is_read && ending == (Manifest::Expired { by: id }) {
        // A claim without its ending would look like a running session, and nobody would look for
        // its other objects. So the ending is deleted only if no others were listed.
        if folder.claimed {
            objects.delete(&names::claim(id))?;
            removed += 1;
        } else if removed == 0 {
            objects.delete(&name)?;
            // The folder is empty. If this fails, the folder costs a listing one look more.
            drop(objects.storage().drop_folder(&names::session_folder(id)));
            removed += 1;
        }
    }
    Ok(removed)
}

/// Puts the record of a commit, a copy of the claim.
fn record_commit(objects: &Objects, id: SessionId) -> Result<()> {
    match objects.read::<Claim>(&names::claim(id)) {
        Ok(Read::Whole(claim)) => match objects.put(&names::committed(id), &claim) {
            // Tidying frees space, so it must continue.
            Err(SessionError::Object(ObjectError::Storage(StorageError::NoSpace { .. }))) => Ok(()),
            put => put.map(drop),
        },
        Ok(Read::Missing | Read::Damaged(_)) => Ok(()),
        Err(SessionError::Storage(error)) if error.is_of_medium() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether the session's claim names the series. An unreadable claim may name any.
fn is_of(objects: &Objects, id: SessionId, series: SeriesId) -> Result<bool> {
    match objects.read::<Claim>(&names::claim(id)) {
        Ok(Read::Whole(claim)) => Ok(claim.series == series),
        // It was deleted since it was listed.
        Ok(Read::Missing) => Ok(true),
        Ok(Read::Damaged(_)) => Ok(false),
        Err(SessionError::Storage(error)) if error.is_of_medium() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Differs much from one number to the next.
fn mixed(own: SessionId) -> u64 {
    own.get().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Whether session `own` looks at this ended session.
fn is_in_turn(id: SessionId, own: SessionId) -> bool {
    let turn = mixed(own) >> (u64::BITS - ROUNDS_LOG2);
    own.get().saturating_sub(id.get()) < RECENT || id.get() & ((1 << ROUNDS_LOG2) - 1) == turn
}

/// Removes heartbeats and checkpoints, except the checkpoint `keep`.
pub(crate) fn remove(objects: &Objects, id: SessionId, folder: &Folder, keep: Option<u32>) -> Result<usize> {
    let heartbeats = folder.heartbeats.iter();
    let mut doomed: Vec<_> = heartbeats.map(|counter| names::heartbeat(id, *counter)).collect();
    let checkpoints = folder.checkpoints.iter().filter(|number| Some(**number) != keep);
    doomed.extend(checkpoints.map(|number| names::checkpoint(id, *number)));
    if !doomed.is_empty() {
        objects.storage().delete_many(&doomed)?;
    }
    Ok(doomed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_far_store_is_asked_for_the_newest_sessions_and_in_turn_for_a_few_others() {
        let id = |number| SessionId::new(number).unwrap();
        let of = SeriesId::from_bytes([7; 16]);
        let all: BTreeSet<_> = (1..400).map(|number| (id(number), of)).collect();
        let mut seen = BTreeSet::new();
        for own in 400..3000 {
            let few = few_of(&all, id(own));
            assert_eq!(few.len(), NEWEST + OTHERS);
            assert!(few.iter().take(NEWEST).eq(all.iter().skip(399 - NEWEST)));
            seen.extend(few);
        }
        assert_eq!(seen, all);
        // Neither readers nor others keep the rest from their turn.
        for (count, looked_at) in [(0, 0), (2, 2), (90, 4)] {
            let readers = (1000..1000 + count).map(|number| (id(number), READ_SERIES));
            let newest = (2000..2000 + NEWEST as u64).map(|number| (id(number), of));
            let with: BTreeSet<_> = all.iter().copied().chain(readers).chain(newest).collect();
            let few = few_of(&with, id(3000));
            assert_eq!(few.len(), NEWEST + OTHERS);
            let readers = few.iter().filter(|one| one.1 == READ_SERIES).count();
            assert_eq!(readers, looked_at);
        }
        let readers: BTreeSet<_> = (1..99).map(|number| (id(number), READ_SERIES)).collect();
        assert_eq!(few_of(&readers, id(900)).len(), NEWEST + OTHERS);
        // All of a few are looked at.
        let some: BTreeSet<_> = all.iter().take(NEWEST + OTHERS).copied().collect();
        assert!(few_of(&some, id(900)).into_iter().collect::<BTreeSet<_>>() == some);
        assert!(few_of(&BTreeSet::new(), id(900)).is_empty());
    }
}
