//! Which backup a user means: an id, or the latest of those that a filter lets through.
//!
//! "Latest" is the highest session number: numbers are given out in order, and no clock has a say in it
//! (INV-6). Pure.

use format::manifest::Backup;
use types::SessionId;

use crate::error::{Result, SessionError};
use crate::manifests::{ManifestEntry, ManifestList};

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

    /// The backup that `text` names: `latest`, of those that pass the filter, or a decimal id, whatever
    /// the filter.
    ///
    /// # Errors
    /// `NoBackup`; `Forgotten`; `EndedElsewhere` where the number is of a session that became no backup;
    /// `Damaged` where its manifest cannot be read.
    pub fn resolve(&self, text: &str, filter: &Filter) -> Result<&ManifestEntry> {
        if text == "latest" {
            let missing = || SessionError::NoBackup {
                asked: text.to_owned(),
                among: filter.words(),
            };
            return self.latest(filter).ok_or_else(missing);
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
