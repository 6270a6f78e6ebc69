//! Which backup a user means: an id, or the latest of those that a filter lets through.
//!
//! "Latest" is the highest session number: numbers are given out in order, and no clock has a say in it
//! (INV-6). Pure.

use format::manifest::Backup;
use types::SessionId;

use crate::error::{Result, SessionError};
use crate::manifests::{ManifestEntry, ManifestList};
use crate::objects::DamagedObject;

/// Which backups to consider; an empty filter lets all through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only of this host.
    pub host: Option<Vec<u8>>,
    /// Only those whose series has all of these paths.
    pub paths: Vec<Vec<u8>>,
    /// Only those that bear all of these tags.
    pub tags: Vec<String>,
}

impl Filter {
    /// Whether the backup passes.
    #[must_use]
    pub fn lets_through(&self, backup: &Backup) -> bool {
        self.host.as_ref().is_none_or(|host| *host == backup.series.host)
            && self.paths.iter().all(|path| backup.series.paths.contains(path))
            && self.tags.iter().all(|tag| backup.tags.contains(tag))
    }

    fn words(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let host = self.host.iter().map(|host| format!("of host {}", text(host)));
        let paths = self.paths.iter().map(|path| format!("of {}", text(path)));
        let tags = self.tags.iter().map(|tag| format!("tagged {tag}"));
        host.chain(paths)
            .chain(tags)
            .map(|part| format!(" {part}"))
            .collect()
    }
}

impl ManifestList {
    /// The latest backup that passes.
    #[must_use]
    pub fn latest(&self, filter: &Filter) -> Option<&ManifestEntry> {
        self.backups()
            .rev()
            .find(|entry| entry.backup().is_some_and(|backup| filter.lets_through(backup)))
    }

    /// A manifest that the storage did not give, of a session after `latest`, which the filter may let through:
    /// not one of a series of which it lets nothing else through.
    fn may_be_later(&self, latest: &ManifestEntry, filter: &Filter) -> Option<&DamagedObject> {
        let mut unread = self.damaged.iter().filter(|object| object.is_unread);
        unread.find(|object| {
            let Some((series, session, _)) = format::names::parse_manifest(&object.name) else {
                return false;
            };
            let of_series = self.backups().filter(|entry| entry.series() == series);
            let mut passes = of_series
                .filter_map(ManifestEntry::backup)
                .map(|backup| filter.lets_through(backup));
            session > latest.session() && passes.next().is_none_or(|first| first || passes.any(|one| one))
        })
    }

    /// The backup that `text` names: `latest`, of those that pass the filter, or a decimal id, whatever
    /// the filter.
    ///
    /// # Errors
    /// `NoBackup`; `Forgotten`; `EndedElsewhere` where the number is of a session that became no backup;
    /// `Damaged` where its manifest cannot be read; `LatestUnread` where the storage does not give one that may
    /// be of a later backup.
    pub fn resolve(&self, text: &str, filter: &Filter) -> Result<&ManifestEntry> {
        if text == "latest" {
            let missing = || SessionError::NoBackup {
                asked: text.to_owned(),
                among: filter.words(),
            };
            let latest = self.latest(filter).ok_or_else(missing)?;
            return match self.may_be_later(latest, filter) {
                Some(unread) => Err(SessionError::LatestUnread {
                    unread: unread.clone(),
                    latest: latest.session(),
                }),
                None => Ok(latest),
            };
        }
        let missing = || SessionError::NoBackup {
            asked: text.to_owned(),
            among: String::new(),
        };
        let session = text
            .parse()
            .ok()
            .and_then(|n| SessionId::new(n).ok())
            .ok_or_else(missing)?;
        let Some(entry) = self.get(session) else {
            let of_it = |name| format::names::parse_manifest(name).is_some_and(|(_, of, _)| of == session);
            return Err(match self.damaged.iter().find(|object| of_it(&object.name)) {
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
