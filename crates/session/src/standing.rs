//! The objects that show the commit of a session without a manifest.

use format::names;
use format::session::{ARCHIVAL_SERIES, Claim, READ_SERIES};
use types::{SeriesId, SessionId};

use crate::error::{Result, SessionError};
use crate::listed;
use crate::objects::{Objects, Read};

/// The record of a commit; `None` if there is none, or it cannot be read.
fn record_of(objects: &Objects, session: SessionId) -> Result<Option<Claim>> {
    read_claim(objects, &names::committed(session))
}

fn read_claim(objects: &Objects, name: &types::ObjectName) -> Result<Option<Claim>> {
    match objects.read::<Claim>(name) {
        Ok(Read::Whole(claim)) => Ok(Some(claim)),
        Ok(Read::Missing | Read::Damaged(_)) => Ok(None),
        Err(SessionError::Storage(error)) if error.is_of_medium() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The series that a session's record or claim names.
pub(crate) fn series_of(objects: &Objects, session: SessionId) -> Result<Option<SeriesId>> {
    if let Some(record) = record_of(objects, session)? {
        return Ok(Some(record.series));
    }
    Ok(read_claim(objects, &names::claim(session))?.map(|claim| claim.series))
}

/// What a commit record shows for a session without a manifest in the listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The session is a backup that has lost its manifest.
    LostBackup,
    /// The session was a rewrite that has lost its manifest. It has no effect.
    LostRewrite,
    /// The session committed after the listing, or the record no longer exists.
    Unknown,
}

/// What this session's record shows. The record may be newer than the listing.
pub(crate) fn standing(objects: &Objects, session: SessionId) -> Result<Standing> {
    let series = series_of(objects, session)?;
    let folder = series.map_or_else(|| names::BACKUPS_FOLDER.to_owned(), names::backups_folder);
    let listed = listed::list(objects, &folder)?;
    let has_manifest = listed.iter().any(|one| one.session == session);
    if has_manifest || !objects.exists(&names::committed(session))? {
        return Ok(Standing::Unknown);
    }
    Ok(match series {
        Some(READ_SERIES | ARCHIVAL_SERIES) => Standing::LostRewrite,
        _ => Standing::LostBackup,
    })
}
