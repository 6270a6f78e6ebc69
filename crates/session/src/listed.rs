//! A listing of manifests: their sessions and revisions, and what the storage says of them.
//!
//! Old stores have many manifests, and several steps use one listing. So names are parsed once, and
//! not kept.

use std::collections::BTreeMap;

use env::{ObjectMeta, StorageError};
use format::frame::FRAME_OVERHEAD_BYTES;
use format::manifest::Manifest;
use format::names;
use types::{Revision, SeriesId, SessionId, UnixNanos};

use crate::objects::Objects;

/// No backup's encoding is as short as a tombstone's; later versions of the payload may add so
/// much.
const TOMBSTONE_SLACK_BYTES: u64 = 16;

/// A manifest that was listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) series: SeriesId,
    pub(crate) session: SessionId,
    pub(crate) revision: Revision,
    pub(crate) stored: Stored,
}

/// What the storage knows of an object.
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

/// The manifests of the store, or of one series, by name. Foreign names are passed over.
pub(crate) fn list(objects: &Objects, folder: &str) -> Result<Vec<Listed>, StorageError> {
    let listed = objects.storage().list(folder)?;
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

/// Whether a revision may be a tombstone, by its length. One that is shorter than any is what a
/// power cut left of something that nobody had made durable, and so was neither told nor acted on:
/// rot leaves lengths as they were.
pub(crate) fn is_short(revision: Revision, stored: &Stored) -> bool {
    let tombstone = (Manifest::Forgotten.to_bytes().len() + FRAME_OVERHEAD_BYTES) as u64;
    let lengths = tombstone..=tombstone + TOMBSTONE_SLACK_BYTES;
    revision != Revision::FIRST && lengths.contains(&stored.len)
}
