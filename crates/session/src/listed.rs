//! What a listing says of manifests: whose they are, and what the storage knows of them.
//!
//! Old stores have many, and several steps ask the same of one listing; so names are read once, and not kept.

use std::collections::BTreeMap;

use env::{ObjectMeta, StorageError};
use format::names;
use types::{Revision, SeriesId, SessionId, UnixNanos};

use crate::objects::Objects;

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
