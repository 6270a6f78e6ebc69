//! Changing what a manifest says of a backup: its tags, and until when it is held.
//!
//! Each change is a new revision, durable when it is reported. All backups are found before the first is changed.

use format::manifest::{Backup, TEXT_BYTES_MAX};
use reclaim::retention::{Reason, TimeSpan};
use session::{Filter, ManifestEntry, ManifestList};
use types::{SessionId, UnixNanos};

use crate::error::{Error, Result};
use crate::store::Store;

/// When a hold ends, by the storage's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldEnd {
    /// Then.
    At(UnixNanos),
    /// So long after now.
    After(TimeSpan),
}

/// What becomes of tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagChange {
    /// These, and no others.
    Set(Vec<String>),
    /// Some come and some go.
    Alter {
        /// Tags to add.
        add: Vec<String>,
        /// Tags to remove.
        remove: Vec<String>,
    },
}

impl TagChange {
    fn applied(&self, tags: &[String]) -> Vec<String> {
        let mut changed = match self {
            Self::Set(tags) => tags.clone(),
            Self::Alter { add, remove } => {
                let kept = tags.iter().filter(|tag| !remove.contains(tag));
                kept.chain(add).cloned().collect()
            }
        };
        changed.retain(|tag| !tag.is_empty());
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    fn new_tags(&self) -> &[String] {
        match self {
            Self::Set(tags) | Self::Alter { add: tags, .. } => tags,
        }
    }
}

/// Which backups are changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// These: ids, or `latest`.
    Named(Vec<String>),
    /// All that the filter lets through.
    All(Filter),
}

/// A backup that was looked at, and what it has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retagged {
    /// The backup.
    pub id: SessionId,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whether they are other than before.
    pub is_changed: bool,
}

impl Store {
    /// Holds backups until a time, whatever hold they had before; with `None`, ends their holds. Returns the ids
    /// and the end.
    ///
    /// # Errors
    /// When one of them is not there, or the end is past: nothing is changed then. Of the storage.
    pub fn hold(&self, ids: &[String], end: Option<HoldEnd>) -> Result<(Vec<SessionId>, Option<UnixNanos>)> {
        self.ensure_writable()?;
        let list = self.manifests.list()?;
        let entries = find(&list, &Which::Named(ids.to_vec()))?;
        let until = match end {
            None => None,
            Some(end) => Some(self.hold_end(end)?),
        };
        for entry in &entries {
            let mut in_doubt = entry.newer_unreadable;
            self.manifests.revise(entry.series(), entry.session(), |backup| {
                let is_as_wanted = backup.hold_until == until;
                // Once is enough to have a revision above the unreadable one.
                if is_as_wanted && !std::mem::take(&mut in_doubt) {
                    return Ok(None);
                }
                Ok(Some(Backup {
                    hold_until: until,
                    ..backup.clone()
                }))
            })?;
        }
        Ok((entries.iter().map(|entry| entry.session()).collect(), until))
    }

    fn hold_end(&self, end: HoldEnd) -> Result<UnixNanos> {
        let now = self.storage_now()?;
        let until = match end {
            HoldEnd::At(until) => until,
            HoldEnd::After(span) => span.after(now),
        };
        if until <= now {
            let reason = Reason::HeldUntil(until);
            return Err(Error::Setting(format!(
                "a backup that is {reason} is held no longer by the storage's clock; name a later time, or use \
                 `onefold unhold` to end a hold"
            )));
        }
        Ok(until)
    }

    /// Changes the tags of backups.
    ///
    /// # Errors
    /// When one of them is not there, or a tag is too long: nothing is changed then. Of the storage.
    pub fn tag(&self, which: &Which, change: &TagChange) -> Result<Vec<Retagged>> {
        self.ensure_writable()?;
        if let Some(tag) = change.new_tags().iter().find(|tag| tag.len() > TEXT_BYTES_MAX) {
            let shown: String = tag.chars().take(20).collect();
            return Err(Error::Setting(format!(
                "the tag {shown}... has {} bytes; a tag has {TEXT_BYTES_MAX} at most",
                tag.len()
            )));
        }
        let list = self.manifests.list()?;
        let mut done = Vec::new();
        for entry in find(&list, which)? {
            let mut is_changed = false;
            let mut tags = Vec::new();
            self.manifests.revise(entry.series(), entry.session(), |backup| {
                tags = change.applied(&backup.tags);
                is_changed = tags != backup.tags;
                Ok(is_changed.then(|| Backup {
                    tags: tags.clone(),
                    ..backup.clone()
                }))
            })?;
            done.push(Retagged {
                id: entry.session(),
                tags,
                is_changed,
            });
        }
        Ok(done)
    }
}

/// The backups that are meant, each once, by id.
fn find<'a>(list: &'a ManifestList, which: &Which) -> Result<Vec<&'a ManifestEntry>> {
    let mut entries = match which {
        Which::All(filter) => list
            .backups()
            .filter(|entry| entry.backup().is_some_and(|backup| filter.lets_through(backup)))
            .collect(),
        Which::Named(ids) => {
            let resolve = |id: &String| Ok(list.resolve(id, &Filter::default())?);
            ids.iter().map(resolve).collect::<Result<Vec<_>>>()?
        }
    };
    entries.sort_by_key(|entry| entry.session());
    entries.dedup_by_key(|entry| entry.session());
    Ok(entries)
}
