//! Finds the backup that a user names: by its id, or as the latest one that passes a filter.
//!
//! "Latest" is the highest session number: numbers are given out in order, and no clock decides
//! (INV-6). If an unreadable manifest may be of a later backup, the result is an error that names
//! it, not an older backup. A manifest that was cut short does not count: it was never
//! acknowledged.

use format::manifest::Backup;
use format::names::{self, SessionObject};
use format::session::ARCHIVAL_SERIES;
use types::{Revision, SeriesId, SessionId};

use crate::damaged::DamagedObject;
use crate::error::{Result, SessionError};
use crate::list::{ManifestEntry, ManifestList};
use crate::manifests::Manifests;

/// Which backups to consider. An empty filter lets all pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Filter {
    /// Only backups of these hosts. Empty: any host.
    pub hosts: Vec<Vec<u8>>,
    /// Only backups whose series has all of these paths.
    pub paths: Vec<Vec<u8>>,
    /// Besides the backups of `paths`, also those of the stream of this name. It counts only if
    /// there are `paths`. The name of a stream may be relative, so no path can choose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Vec<u8>>,
    /// Only backups that have all tags of one of these lists, as [`bears`] defines it. Empty: any
    /// tags.
    pub tags: Vec<Vec<String>>,
}

types::setters!(Filter {
    hosts: Vec<Vec<u8>>,
    paths: Vec<Vec<u8>>,
    stream: Option<Vec<u8>>,
    tags: Vec<Vec<String>>,
});

impl Filter {
    /// Whether the backup passes.
    #[must_use]
    pub fn lets_through(&self, backup: &Backup) -> bool {
        (self.hosts.is_empty() || self.hosts.contains(&backup.series.host))
            && self.is_of_paths(&backup.series.paths)
            && (self.tags.is_empty() || self.tags.iter().any(|list| bears(&backup.tags, list)))
    }

    fn is_of_paths(&self, of_series: &[Vec<u8>]) -> bool {
        self.paths.iter().all(|path| of_series.contains(path))
            || matches!((&self.stream, of_series), (Some(name), [only]) if name == only)
    }

    fn words(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut words = String::new();
        let hosts: Vec<String> = self.hosts.iter().map(|host| text(host)).collect();
        if !hosts.is_empty() {
            words += &format!(" of host {}", hosts.join(" or "));
        }
        for path in &self.paths {
            words += &format!(" of {}", text(path));
        }
        if let Some(name) = &self.stream {
            words += &format!(", or of the stream {}", text(name));
        }
        let lists = self.tags.iter().map(|list| match list.as_slice() {
            [] => "without tags".to_owned(),
            tags => format!("tagged {}", tags.join(",")),
        });
        let lists: Vec<String> = lists.collect();
        if !lists.is_empty() {
            words += &format!(" {}", lists.join(" or "));
        }
        words
    }
}

/// Whether a backup with these tags has all `wanted` ones. If none is wanted: whether it has no
/// tags.
#[must_use]
pub fn bears(tags: &[String], wanted: &[String]) -> bool {
    if wanted.is_empty() {
        return tags.is_empty();
    }
    wanted.iter().all(|tag| tags.contains(tag))
}

impl ManifestList {
    /// The latest backup that passes.
    #[must_use]
    pub fn latest(&self, filter: &Filter) -> Option<&ManifestEntry> {
        self.backups()
            .rev()
            .find(|entry| entry.backup().is_some_and(|backup| filter.lets_through(backup)))
    }

    /// Unreadable manifests of sessions after `after` that may be backups which pass the filter. A
    /// series counts if one of its readable backups passes, or if it has none. The latest first.
    fn may_be_later(&self, after: Option<SessionId>, filter: &Filter) -> Vec<&DamagedObject> {
        let is_later = |object: &&DamagedObject| {
            let Some((series, session, _)) = names::parse_manifest(&object.name) else {
                return false;
            };
            if series == ARCHIVAL_SERIES {
                return false;
            }
            let is_over = self.get(session).is_some_and(|entry| entry.backup().is_none());
            let of_series = self.backups().filter(|entry| entry.series() == series);
            let mut passes = of_series
                .filter_map(ManifestEntry::backup)
                .map(|backup| filter.lets_through(backup));
            let may_pass = passes.next().is_none_or(|first| first || passes.any(|one| one));
            after < Some(session) && !is_over && may_pass
        };
        let mut later: Vec<_> = self.damaged.iter().filter(is_later).collect();
        later.sort_by_key(|object| {
            std::cmp::Reverse(names::parse_manifest(&object.name).map(|(_, of, _)| of))
        });
        later
    }

    /// The backup with this number.
    ///
    /// # Errors
    /// `NoBackup`; `Forgotten`; `EndedElsewhere` if the session with this number became no backup;
    /// `Damaged` if its manifest cannot be read.
    fn numbered(&self, text: &str) -> Result<&ManifestEntry> {
        let missing = || SessionError::NoBackup {
            asked: text.to_owned(),
            among: String::new(),
        };
        let session = text
            .parse()
            .ok()
            .and_then(|n| SessionId::new(n).ok())
            .ok_or_else(missing)?;
        // A commit of a rewrite is no backup, and no user may forget it.
        let is_rewrite = |entry: &&ManifestEntry| entry.series() == ARCHIVAL_SERIES;
        let found = self.get(session);
        if found.filter(is_rewrite).is_some() {
            return Err(missing());
        }
        let Some(entry) = found else {
            return Err(match self.damaged_of(session).next() {
                Some(object) => SessionError::Damaged(object.clone()),
                None => missing(),
            });
        };
        match entry.ended_by() {
            Some(how) => Err(SessionError::EndedElsewhere { session, how }),
            None if entry.is_forgotten() => Err(SessionError::Forgotten { session }),
            None => Ok(entry),
        }
    }
}

impl Manifests {
    /// The backup that `text` names: `latest` for the latest one that passes the filter, or a
    /// decimal id, whatever the filter. The list must come from this value.
    ///
    /// # Errors
    /// `NoBackup`; `Forgotten`; `EndedElsewhere` if the session with this number became no backup;
    /// `Damaged` if its manifest cannot be read; `LatestInDoubt` if an unreadable manifest may be
    /// of a later backup; of the storage.
    pub fn resolve<'a>(
        &self,
        list: &'a ManifestList,
        text: &str,
        filter: &Filter,
    ) -> Result<&'a ManifestEntry> {
        if text != "latest" {
            return list.numbered(text);
        }
        let latest = list.latest(filter);
        let number = latest.map(ManifestEntry::session);
        if let Some(damaged) = self.first_lost(list.may_be_later(number, filter))? {
            return Err(SessionError::LatestInDoubt {
                damaged: damaged.clone(),
                latest: number,
                among: filter.words(),
            });
        }
        latest.ok_or_else(|| SessionError::NoBackup {
            asked: text.to_owned(),
            among: filter.words(),
        })
    }

    /// An unreadable manifest that may be of a backup of the series after `after`.
    ///
    /// # Errors
    /// Of the storage.
    pub fn lost_after<'a>(
        &self,
        list: &'a ManifestList,
        series: SeriesId,
        after: Option<SessionId>,
    ) -> Result<Option<&'a DamagedObject>> {
        let mut later = list.may_be_later(after, &Filter::default());
        later.retain(|object| names::parse_manifest(&object.name).is_some_and(|(of, _, _)| of == series));
        self.first_lost(later)
    }

    fn first_lost<'a>(&self, damaged: Vec<&'a DamagedObject>) -> Result<Option<&'a DamagedObject>> {
        for object in damaged {
            if !self.was_cut_short(object)? {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// Whether an unreadable manifest is an ending that a power cut tore, so that it was never
    /// acknowledged. The session's heartbeats show this: a session deletes them only when its
    /// ending is durable, and no other session deletes them while the ending is unreadable. Missing
    /// containers would show nothing, because a backup may consist of older chunks only.
    ///
    /// # Errors
    /// Of the storage.
    pub fn was_cut_short(&self, object: &DamagedObject) -> Result<bool> {
        let Some((_, session, Revision::FIRST)) = names::parse_manifest(&object.name) else {
            return Ok(false);
        };
        if object.is_unread {
            return Ok(false);
        }
        let storage = self.objects().storage();
        let traces = storage.list(&names::session_folder(session))?;
        let has = |wanted: fn(&SessionObject) -> bool| {
            let objects = traces
                .iter()
                .filter_map(|trace| names::parse_session_object(&trace.name));
            objects.map(|(_, object)| object).any(|object| wanted(&object))
        };
        // The record of the commit is put once the ending is durable.
        Ok(has(|object| matches!(object, SessionObject::Heartbeat(_)))
            && !has(|object| matches!(object, SessionObject::Committed)))
    }
}
