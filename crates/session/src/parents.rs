//! Parents: backups that a session refers to, or that a read session reads.
//!
//! A session chooses them from manifests that it lists after epochs, and declares them with their
//! revision in a checkpoint before it uses anything of them. Reclamation keeps that revision, even
//! if the backup is forgotten. If the session answers an epoch between listing and declaring, that
//! answer does not declare the choice, so the session lists and chooses again.
//!
//! With an archival backup the session declares its whole chain, by the same list: each backup that
//! the one before it refers forward to, in the revision that counts (R2). A reader of the archival
//! backup reads those too, and they may be rewritten meanwhile.

use env::Moment;
use types::{Revision, SessionId};

use crate::checkpoint::Draft;
use crate::error::{Result, SessionError};
use crate::list::{ManifestEntry, ManifestList};
use crate::session::{Session, locked};

/// How often to choose again if an epoch overtakes the choice.
const CHOICES_MAX: usize = 64;

impl Session {
    /// Lists manifests, lets `choose` name backups of the list, and declares these durably. The
    /// session may use their nodes once this returns. The backups that they refer forward to are
    /// declared with them ([`crate::Manifests::chains`]). The session may call it again for more.
    /// Every declared parent stays declared.
    ///
    /// # Errors
    /// `NoBackup` if `choose` names a session that is no backup of the list, or a forgotten one;
    /// those of [`Session::ensure_running`]; `Contended`; of the storage.
    pub fn choose_parents(
        &self,
        choose: impl FnMut(&ManifestList) -> Vec<SessionId>,
    ) -> Result<Vec<ManifestEntry>> {
        self.choose_parents_since(self.sealer().env().storage.moment(), choose)
    }

    /// Like [`Self::choose_parents`], from manifests as of any moment after `since`, which must be
    /// after this session has begun.
    ///
    /// # Errors
    /// Those of [`Self::choose_parents`].
    pub fn choose_parents_since(
        &self,
        since: Moment,
        mut choose: impl FnMut(&ManifestList) -> Vec<SessionId>,
    ) -> Result<Vec<ManifestEntry>> {
        let inner = &self.inner;
        let mut listed_since = Some(since);
        for _ in 0..CHOICES_MAX {
            inner.ensure_running()?;
            let answers = locked(&inner.record).answers;
            let list = match listed_since.take() {
                Some(since) if answers == 0 => inner.manifests.list_since(since)?,
                _ => inner.manifests.list()?,
            };
            let chosen = choose(&list)
                .into_iter()
                .map(|id| {
                    let entry = list.get(id).filter(|entry| entry.backup().is_some());
                    let missing = || SessionError::NoBackup {
                        asked: id.to_string(),
                        among: String::new(),
                    };
                    entry.cloned().ok_or_else(missing)
                })
                .collect::<Result<Vec<_>>>()?;
            if chosen.is_empty() {
                return Ok(chosen);
            }
            let own = chosen
                .iter()
                .map(|entry| (entry.series(), entry.session(), entry.stored.revision));
            let mut parents: Vec<_> = own.collect();
            let links = inner.manifests.chains(&list, &chosen)?;
            parents.extend(
                links
                    .iter()
                    .map(|link| (link.series, link.session, link.revision)),
            );
            let mut record = locked(&inner.record);
            if record.answers != answers {
                continue;
            }
            let known = record.parents.len();
            for parent in parents {
                if !record.parents.contains(&parent) {
                    record.parents.push(parent);
                }
            }
            let draft = Draft {
                containers: record.containers.clone(),
                references: record.references.clone(),
                streams: record.streams.clone(),
            };
            let answered = record.answered;
            // The draft is the last one, so this checkpoint answers no new epoch. It only declares
            // parents.
            if let Err(error) = inner.write_checkpoint(&mut record, answered, draft) {
                record.parents.truncate(known);
                return Err(error);
            }
            return Ok(chosen);
        }
        Err(SessionError::Contended {
            name: "the choice of parents".to_owned(),
        })
    }

    /// The parents declared so far, and the revision of each that is in use.
    #[must_use]
    pub fn parents(&self) -> Vec<(SessionId, Revision)> {
        let record = locked(&self.inner.record);
        record
            .parents
            .iter()
            .map(|(_, session, revision)| (*session, *revision))
            .collect()
    }
}
