//! Committed backups that have lost all their manifests.
//!
//! The manifest of a backup is one object. If it is lost, nothing else may count as the session's
//! end. Silence must not, because the session would look dead and prune would sweep its containers.
//! Other objects show the commit:
//!
//! - `sessions/<n>/committed`, put right after the manifest is durable, and durably deleted before
//!   the manifest (docs/protocol.md, "Keep house"). So if it exists without a manifest, the backup
//!   is lost. A power cut may undo it, so its absence proves nothing.
//! - The claim of a session that marks cover or that a later backup names as its parent. It, too,
//!   is durably deleted before the manifest.
//!
//! A lost backup is no running session: nobody waits for it, adopts it or ends it. A tombstone ends
//! it.

use std::collections::{BTreeMap, BTreeSet};

use format::frame::ObjectKind;
use format::manifest::Manifest;
use format::names;
use format::reclaim::{CoveredManifest, GroupId, Marks};
use format::session::{ARCHIVAL_SERIES, READ_SERIES};
use types::{Revision, SeriesId, SessionId};

use crate::error::{Result, SessionError};
use crate::list::{ManifestEntry, ManifestList};
use crate::manifests::Manifests;
use crate::objects::{Put, Read};
use crate::session_table::{self, SessionTable};
use crate::standing::{Standing, series_of, standing};

/// How often the next number is tried for a tombstone.
const REVISIONS_MAX: usize = 64;

/// A committed backup that has no manifest and was not forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostBackup {
    /// The session.
    pub session: SessionId,
    /// Its series.
    pub series: SeriesId,
    /// The highest revision that is known to have existed.
    pub highest: Revision,
}

impl SessionTable {
    /// Moves sessions from running to lost if another object shows their commit: `is_known` is true
    /// for them, or a manifest names them as parents. Those manifests were listed before the
    /// session table.
    pub(crate) fn take_out_lost(&mut self, list: &ManifestList, is_known: impl Fn(SessionId) -> bool) {
        let backups = list.entries.iter().filter_map(ManifestEntry::backup);
        let parents: BTreeSet<SessionId> = backups
            .flat_map(|backup| backup.parents.iter().map(|(parent, _)| *parent))
            .collect();
        let lost = self.running.extract_if(.., |info| {
            let is_backup = !matches!(info.claim.series, READ_SERIES | ARCHIVAL_SERIES);
            is_backup && !list.has(info.id) && (is_known(info.id) || parents.contains(&info.id))
        });
        self.lost.extend(lost.map(|info| info.id));
        self.lost.sort_unstable();
        self.lost.dedup();
    }
}

impl Manifests {
    /// The lost backup of this session, if it has one.
    pub fn find_lost(&self, session: SessionId) -> Result<Option<LostBackup>> {
        let objects = self.objects();
        let list = self.list()?;
        if list.has(session) || list.damaged_of(session).next().is_some() {
            return Ok(None);
        }
        let mut marked: Option<(Revision, GroupId)> = None;
        for (group, covers) in self.marked(&|_| true)? {
            let of_it = covers.iter().filter(|covered| covered.session == session);
            marked = of_it.map(|covered| (covered.revision, group)).chain(marked).max();
        }
        let folder = session_table::one_folder(objects, session)?;
        let mut table = SessionTable::default();
        if folder.committed {
            let is_lost = standing(objects, session)? == Standing::LostBackup;
            table.lost.extend(is_lost.then_some(session));
        } else if marked.is_some() && !folder.claimed {
            table.lost.push(session);
        } else {
            table.running.extend(SessionTable::one(self.sealer(), session)?);
            table.take_out_lost(&list, |_| marked.is_some());
        }
        if table.lost.is_empty() {
            return Ok(None);
        }
        let of_group = marked.map(|(_, group)| group.series);
        let of_group = of_group.filter(|series| !matches!(*series, READ_SERIES | ARCHIVAL_SERIES));
        let series = series_of(objects, session)?.or(of_group);
        Ok(series.map(|series| LostBackup {
            session,
            series,
            highest: marked.map_or(Revision::FIRST, |(revision, _)| revision),
        }))
    }

    /// Puts the tombstone of a lost backup, above every revision that is known to have existed.
    /// Durable on return.
    ///
    /// # Errors
    /// `Contended`; of the storage.
    pub fn forget_lost(&self, lost: &LostBackup) -> Result<Revision> {
        let mut at = lost.highest;
        for _ in 0..REVISIONS_MAX {
            at = at.next();
            let name = names::manifest(lost.series, lost.session, at);
            if self.objects().put_durably(&name, &Manifest::Forgotten)? == Put::Created {
                return Ok(at);
            }
            if matches!(
                self.objects().read::<Manifest>(&name)?,
                Read::Whole(Manifest::Forgotten)
            ) {
                return Ok(at);
            }
        }
        Err(SessionError::Contended {
            name: names::manifest(lost.series, lost.session, at).to_string(),
        })
    }

    /// For each of these sessions of a series, the highest revision that marks cover. A name is
    /// never used again, even if its revision is lost: otherwise marks would seem to cover the new
    /// object.
    ///
    /// The marks of every lower group of the series may cover a session. Usually those of the
    /// highest group at or below it do. But if these were lost for a time, or if a backup with a
    /// lower number committed later, a prune has put it into another group since.
    pub(crate) fn marked_revisions(
        &self,
        series: SeriesId,
        sessions: &BTreeSet<SessionId>,
    ) -> Result<BTreeMap<SessionId, Revision>> {
        let mut highest: BTreeMap<SessionId, Revision> = BTreeMap::new();
        if sessions.is_empty() {
            return Ok(highest);
        }
        let last = sessions.iter().next_back().copied();
        let is_wanted = |group: GroupId| {
            let is_own = group.series == ARCHIVAL_SERIES && sessions.contains(&group.first);
            is_own || group.series == series && Some(group.first) <= last
        };
        for (_, covers) in self.marked(&is_wanted)? {
            for covered in covers
                .iter()
                .filter(|covered| sessions.contains(&covered.session))
            {
                let known = highest.entry(covered.session).or_insert(covered.revision);
                *known = covered.revision.max(*known);
            }
        }
        Ok(highest)
    }

    /// What the marks of these groups cover, in force or not. It reads several at a time, and skips
    /// unreadable ones.
    fn marked(&self, is_wanted: &dyn Fn(GroupId) -> bool) -> Result<Vec<(GroupId, Vec<CoveredManifest>)>> {
        let mut listed = self.sealer().list(names::GROUPS_FOLDER, names::parse_marks)?;
        listed.retain(|((group, _), _)| is_wanted(*group));
        let is_far = self.objects().storage().is_far();
        let read = object::several(is_far, listed.len(), |at| {
            let (group, revision) = listed[at].0;
            let name = names::marks(group, revision);
            match self.sealer().read(&name, ObjectKind::Marks, Marks::decode) {
                Ok(marks) => Ok(Some((marks.group, marks.covers))),
                Err(error) if error.is_not_found() || error.is_damage() => Ok(None),
                Err(object::ObjectError::Storage(error)) if error.is_of_medium() => Ok(None),
                Err(error) => Err(SessionError::from(error)),
            }
        })?;
        Ok(read.into_iter().flatten().collect())
    }
}
