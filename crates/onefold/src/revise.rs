//! Changes the tags and the hold of a backup in its manifest.
//!
//! Each change is a new revision, durable when it is reported. All backups are found before the
//! first is changed. If the newest revision of a backup is unreadable, and the user names that
//! backup, a new revision is made from an older one, and the user is told. If only a filter chose
//! the backup, it is left alone while the unreadable revision may become readable.

use std::collections::BTreeSet;

use format::manifest::{Backup, TEXT_BYTES_MAX, ensure_tags_within_limits};
use reclaim::retention::{Reason, TimeSpan};
use session::{Filter, ManifestEntry, ManifestList, Present, SessionError};
use types::{SessionId, UnixNanos};

use crate::error::{Error, Result};
use crate::scope::Scope;
use crate::store::Store;

/// When a hold ends, by the storage's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum HoldEnd {
    /// At this time.
    At(UnixNanos),
    /// This long after now.
    After(TimeSpan),
}

/// A change of tags.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub enum TagChange {
    /// Replace all tags by these.
    Set(Vec<String>),
    /// Add and remove some tags.
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

    /// The tags of a backup after the change. A change that adds none may leave too many.
    fn applied_within_limits(&self, tags: &[String]) -> Result<Vec<String>> {
        let changed = self.applied(tags);
        if !self.new_tags().is_empty() {
            ensure_tags_within_limits(&changed).map_err(|error| Error::Setting(error.to_string()))?;
        }
        Ok(changed)
    }

    fn new_tags(&self) -> &[String] {
        match self {
            Self::Set(tags) | Self::Alter { add: tags, .. } => tags,
        }
    }
}

/// The backups to change.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Which {
    /// These: ids, or `latest`.
    Named(Vec<String>),
    /// All that pass the filter.
    All(Filter),
}

/// A backup of the request, and its tags afterwards.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Retagged {
    /// The backup.
    pub id: SessionId,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whether they have changed.
    pub is_changed: bool,
    /// A revision of it cannot be read, as for [`Held::in_doubt`].
    pub is_in_doubt: bool,
}

/// Backups whose holds were set.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Held {
    /// The backups.
    pub ids: Vec<SessionId>,
    /// Until when they are held now. `None`: they are not held.
    pub until: Option<UnixNanos>,
    /// Those of which a revision cannot be read. Tags or a hold in that revision are lost. If it
    /// was a tombstone and becomes readable again, the backup is forgotten.
    pub in_doubt: Vec<SessionId>,
}

/// If the highest revision is an archival rewrite (R2), the data that lower ones reach may be
/// removed. So none of their roots is put above an unreadable revision.
fn keep_archival(present: &Present<'_>) -> std::result::Result<(), SessionError> {
    match present.may_be_archival {
        Some(object) => Err(SessionError::Damaged(object.clone())),
        None => Ok(()),
    }
}

fn is_in_doubt(present: &Present<'_>) -> bool {
    present.is_in_doubt || present.may_be_forgotten || present.unread.is_some()
}

impl Store {
    /// Holds backups until a time, and replaces earlier holds. With `None`, ends their holds.
    ///
    /// # Errors
    /// If one of them does not exist, or the end is past: then nothing is changed. Of the storage.
    pub fn hold(&self, ids: &[String], end: Option<HoldEnd>) -> Result<Held> {
        self.hold_within(&Scope::default(), ids, end)
    }

    /// Like [`Self::hold`], for backups of a part of the store.
    ///
    /// # Errors
    /// As [`Self::hold`]. A backup outside of the scope does not exist.
    pub fn hold_within(&self, scope: &Scope, ids: &[String], end: Option<HoldEnd>) -> Result<Held> {
        self.ensure_writable()?;
        let list = scope.narrow(self.manifests.list()?);
        let entries = self.find_all(&list, &Which::Named(ids.to_vec()))?;
        let until = match end {
            None => None,
            Some(end) => Some(self.hold_end(end)?),
        };
        let mut held = Held {
            until,
            ..Held::default()
        };
        for entry in &entries {
            let mut in_doubt = false;
            self.manifests
                .revise(entry.series(), entry.session(), |present| {
                    keep_archival(present)?;
                    in_doubt |= is_in_doubt(present);
                    let is_as_wanted = present.backup.hold_until == until;
                    if is_as_wanted && !present.is_in_doubt {
                        return Ok(None);
                    }
                    Ok(Some(Backup {
                        hold_until: until,
                        ..present.backup.clone()
                    }))
                })?;
            held.ids.push(entry.session());
            held.in_doubt.extend(in_doubt.then(|| entry.session()));
        }
        Ok(held)
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
    /// If one of them does not exist, a tag is too long, a backup would have too many tags, or the
    /// storage does not give a revision of a backup that was not named: then nothing is changed. Of
    /// the storage.
    pub fn tag(&self, which: &Which, change: &TagChange) -> Result<Vec<Retagged>> {
        self.tag_within(&Scope::default(), which, change)
    }

    /// Like [`Self::tag`], for backups of a part of the store.
    ///
    /// # Errors
    /// As [`Self::tag`]. A backup outside of the scope does not exist.
    pub fn tag_within(&self, scope: &Scope, which: &Which, change: &TagChange) -> Result<Vec<Retagged>> {
        self.ensure_writable()?;
        if let Some(tag) = change.new_tags().iter().find(|tag| tag.len() > TEXT_BYTES_MAX) {
            let shown: String = tag.chars().take(20).collect();
            return Err(Error::Setting(format!(
                "the tag {shown}... has {} bytes; a tag has {TEXT_BYTES_MAX} at most",
                tag.len()
            )));
        }
        let list = scope.narrow(self.manifests.list()?);
        let mut done = Vec::new();
        let entries = self.find_all(&list, which)?;
        for backup in entries.iter().filter_map(|entry| entry.backup()) {
            change.applied_within_limits(&backup.tags)?;
        }
        let is_named = matches!(which, Which::Named(_));
        for entry in entries.iter().filter(|_| !is_named) {
            if let Some(unread) = list.unread_of(entry.series(), entry.session()) {
                return Err(Error::Held(format!(
                    "{unread}: backup {id} keeps its tags, for what that revision says is not known now; run the command \
                     again when it can be read, or name the backup: `onefold tag ... {id}`",
                    id = entry.session()
                )));
            }
        }
        for entry in entries {
            let (mut is_changed, mut in_doubt) = (false, false);
            let mut tags = Ok(Vec::new());
            self.manifests
                .revise(entry.series(), entry.session(), |present| {
                    if let Some(unread) = present.unread.filter(|_| !is_named) {
                        return Err(SessionError::Damaged(unread.clone()));
                    }
                    keep_archival(present)?;
                    in_doubt |= is_in_doubt(present);
                    tags = change.applied_within_limits(&present.backup.tags);
                    // The loop above has not seen tags that somebody adds meanwhile.
                    let Ok(tags) = &tags else { return Ok(None) };
                    is_changed = *tags != present.backup.tags;
                    Ok((is_changed || is_named && present.is_in_doubt).then(|| Backup {
                        tags: tags.clone(),
                        ..present.backup.clone()
                    }))
                })?;
            done.push(Retagged {
                id: entry.session(),
                tags: tags?,
                is_changed,
                is_in_doubt: in_doubt,
            });
        }
        Ok(done)
    }

    /// The requested backups, each once, by id.
    fn find_all<'a>(&self, list: &'a ManifestList, which: &Which) -> Result<Vec<&'a ManifestEntry>> {
        let mut entries = match which {
            Which::All(filter) => list
                .backups()
                .filter(|entry| entry.backup().is_some_and(|backup| filter.lets_through(backup)))
                .collect(),
            Which::Named(ids) => {
                let resolve = |id: &String| Ok(self.manifests.resolve(list, id, &Filter::default())?);
                // A client of a server may name one many times.
                let ids: BTreeSet<&String> = ids.iter().collect();
                ids.into_iter().map(resolve).collect::<Result<Vec<_>>>()?
            }
        };
        entries.sort_by_key(|entry| entry.session());
        entries.dedup_by_key(|entry| entry.session());
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An earlier version set no limit.
    #[test]
    fn tags_can_be_removed_from_a_backup_with_too_many() {
        let words = |count: usize| (0..count).map(|word| format!("{word:04}")).collect::<Vec<_>>();
        let remove = vec!["0003".to_owned()];
        let change = |add| TagChange::Alter {
            add,
            remove: remove.clone(),
        };
        let left = change(Vec::new()).applied_within_limits(&words(2000)).unwrap();
        assert_eq!(left.len(), 1999);
        let added = change(vec!["new".to_owned()]).applied_within_limits(&words(2000));
        assert!(matches!(added, Err(Error::Setting(_))));
    }
}
