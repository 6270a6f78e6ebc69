//! Changes that the runner makes to a store: times that jump, and deletions that the judge must
//! notice.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::draws::Draws;
use super::run::{Judged, Run, Sabotage};
use super::script::Jump;

impl Run {
    /// Deletes objects that no program would delete.
    pub(super) fn sabotage(&mut self, sabotage: Sabotage) -> Judged {
        let store = self.place.store();
        let mut objects = Vec::new();
        match sabotage {
            Sabotage::Containers => {
                for folder in ["data", "small", "mirror"] {
                    super::objects(&store.join(folder), &mut objects)?;
                }
            }
            Sabotage::Manifest => {
                let id = *self.model.kept().first().context("a backup is kept")?;
                super::objects(&store.join("backups"), &mut objects)?;
                let number = format!("{id:013}");
                objects.retain(|object| object.file_stem().is_some_and(|stem| *stem == *number));
            }
        }
        for object in objects {
            self.journal
                .note(&format!("the runner deletes {}", object.display()))?;
            fs::remove_file(object)?;
        }
        Ok(())
    }
}

/// Moves the times of a share of the store's objects, which are the clock of a local folder.
pub(super) fn jump_times(store: &Path, jump: Jump) -> Result<()> {
    let mut draws = Draws::new(jump.seed, 0);
    let mut objects = Vec::new();
    super::objects(store, &mut objects)?;
    for object in objects {
        if !draws.chance(jump.percent) {
            continue;
        }
        let moved = || -> std::io::Result<()> {
            let time = object.metadata()?.modified()?;
            let by = std::time::Duration::from_secs(jump.seconds.unsigned_abs());
            let time = if jump.seconds < 0 { time - by } else { time + by };
            fs::File::open(&object)?.set_modified(time)
        };
        // The object may disappear at any moment.
        match moved() {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}
