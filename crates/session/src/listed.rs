//! A listing of manifests: their sessions and revisions, lengths and times.
//!
//! Old stores have many manifests, and several steps use one listing. So names are parsed once, and
//! not kept.

use std::collections::BTreeMap;

use env::{Moment, ObjectMeta, StorageError};
use format::frame::FRAME_OVERHEAD_BYTES;
use format::manifest::Manifest;
use format::names;
use types::{Revision, SeriesId, SessionId, UnixNanos};

use crate::objects::Objects;

/// The encoding of a backup is never as short as a tombstone. Later versions of the payload may add
/// so much.
const TOMBSTONE_SLACK_BYTES: u64 = 16;

/// A listed manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) series: SeriesId,
    pub(crate) session: SessionId,
    pub(crate) revision: Revision,
    pub(crate) stored: Stored,
}

/// The length and the time of an object, from the storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) len: u64,
    pub(crate) put_at: UnixNanos,
}

/// The revisions of one session, as listed.
pub(crate) type Revisions = BTreeMap<Revision, Stored>;

impl Listed {
    fn of(meta: &ObjectMeta) -> Option<Self> {
        let (series, session, revision) = names::parse_manifest(&meta.name)?;
        let stored = Stored {
            len: meta.len,
            put_at: meta.put_at,
        };
        Some(Self {
            series,
            session,
            revision,
            stored,
        })
    }
}

/// The manifests of the store, or of one series, sorted by name. Skips foreign names.
pub(crate) fn list(objects: &Objects, folder: &str) -> Result<Vec<Listed>, StorageError> {
    let listed = objects.storage().list(folder)?;
    Ok(listed.iter().filter_map(Listed::of).collect())
}

/// Like [`list`], as of any moment after `since`.
pub(crate) fn list_since(
    objects: &Objects,
    folder: &str,
    since: Moment,
) -> Result<Vec<Listed>, StorageError> {
    let listed = objects.storage().list_since(folder, since)?;
    Ok(listed.iter().filter_map(Listed::of).collect())
}

/// By series and session.
pub(crate) fn by_session(listed: &[Listed]) -> BTreeMap<(SeriesId, SessionId), Revisions> {
    let mut sessions: BTreeMap<_, Revisions> = BTreeMap::new();
    for one in listed {
        let revisions = sessions.entry((one.series, one.session)).or_default();
        revisions.insert(one.revision, one.stored);
    }
    sessions
}

/// The sessions whose ending was listed.
pub(crate) fn endings(listed: &[Listed]) -> Vec<(SeriesId, SessionId)> {
    let first = listed.iter().filter(|one| one.revision == Revision::FIRST);
    first.map(|one| (one.series, one.session)).collect()
}

/// Whether a revision may be a tombstone, by its length. A shorter object is torn: a power cut left
/// it before it was durable, so nobody was told of it or acted on it. Rot does not change lengths.
pub(crate) fn is_short(revision: Revision, stored: &Stored) -> bool {
    let tombstone = (Manifest::Forgotten.to_bytes().len() + FRAME_OVERHEAD_BYTES) as u64;
    let lengths = tombstone..=tombstone + TOMBSTONE_SLACK_BYTES;
    revision != Revision::FIRST && lengths.contains(&stored.len)
}
