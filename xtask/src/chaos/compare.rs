//! Compares restored or dumped data with the source.

use std::fs;
use std::path::Path;

use super::commands::{Compare, Ready};
use super::judge::Fault;
use super::picture::{Picture, digest};
use super::program::Ended;
use super::remove_all;
use super::run::{Judged, Run};
use super::script::strings;
use super::sources::Sort;

impl Run {
    /// Compares the result of a command that ended with 0.
    pub(super) fn compare(&mut self, ready: &Ready, ended: &Ended) -> Judged {
        match &ready.compare {
            Compare::Restored { id, target, part } => {
                if ended.code == Some(0) {
                    self.same(*id, target, part.as_deref())?;
                }
                remove_all(target)?;
            }
            Compare::Dumped { id, part } if ended.code == Some(0) => {
                let Some(backup) = self.model.backups.get(id) else {
                    return Ok(());
                };
                let was = backup.picture.0.get(part).and_then(|entry| entry.digest);
                if was != Some(digest(&ended.out)?) {
                    return Err(Fault::new("wrong byte", format!("dump of {part:?} of backup {id}")).into());
                }
            }
            Compare::Dumped { .. } | Compare::Nothing | Compare::Password { .. } => {}
        }
        Ok(())
    }

    fn same(&self, id: u64, target: &Path, part: Option<&Path>) -> Judged {
        let Some(backup) = self.model.backups.get(&id) else {
            return Ok(());
        };
        let source = &self.sources[backup.source];
        let root = match source.sort {
            Sort::Stream => target.join(&source.name),
            Sort::Tree | Sort::Image { .. } => target.join(source.path.strip_prefix("/")?),
        };
        let (is, was) = match (source.sort, part) {
            (Sort::Tree, Some(part)) => (Picture::of(&root.join(part)), backup.picture.part(part)),
            (Sort::Tree, None) => (Picture::of(&root), (*backup.picture).clone()),
            (Sort::Stream | Sort::Image { .. }, _) => (Picture::bytes_of(&root), (*backup.picture).clone()),
        };
        let is = is.map_err(|error| Fault::new("wrong byte", format!("backup {id} restored: {error:#}")))?;
        if let Some(difference) = is.differs(&was) {
            return Err(
                Fault::new("wrong byte", format!("backup {id} restored with 0: {difference}")).into(),
            );
        }
        Ok(())
    }

    /// Restores a backup whole and compares.
    pub(super) fn restore(&mut self, id: u64) -> Judged {
        let ended = self.try_restore(id)?;
        if ended.code != Some(0) {
            let what = format!(
                "backup {id} does not restore: {:?}: {}",
                ended.code,
                ended.err.trim()
            );
            return Err(Fault::new("lost", what).into());
        }
        Ok(())
    }

    /// Restores a backup whole, and compares if the restore ends with 0.
    pub(super) fn try_restore(&mut self, id: u64) -> Judged<Ended> {
        self.fresh += 1;
        let target = self.work.join(format!("target{}", self.fresh));
        let mut args = strings(&["restore", &id.to_string(), "--target"]);
        args.push(target.clone().into());
        let ended = self.alone(&args)?;
        if ended.code == Some(0) {
            self.same(id, &target, None)?;
        }
        remove_all(&target)?;
        fs::remove_file(&ended.out)?;
        Ok(ended)
    }

    /// Restores all backups that are not forgotten.
    pub(super) fn compare_all(&mut self, when: &str) -> Judged {
        self.journal.note(&format!("all backups are restored {when}"))?;
        for id in self.model.kept() {
            self.restore(id)?;
        }
        Ok(())
    }
}
