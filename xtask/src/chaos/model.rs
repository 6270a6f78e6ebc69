//! The plain model that judges the program: what each backup contains, and which are forgotten,
//! held and tagged. The effect of an interrupted command is unknown until the store is listed; the
//! model says which effects are possible.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::picture::Picture;

/// One backup.
#[derive(Debug, Clone)]
pub(super) struct Backup {
    pub(super) source: usize,
    pub(super) picture: Arc<Picture>,
    pub(super) tags: BTreeSet<String>,
    pub(super) is_held: bool,
    pub(super) is_forgotten: bool,
}

/// The possible effect of a command of the last step.
#[derive(Debug, Clone)]
pub(super) struct Did {
    pub(super) effect: Effect,
    /// The command ended with 0, so it has had its whole effect.
    pub(super) is_done: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Effect {
    Nothing,
    Backup {
        source: usize,
        picture: Arc<Picture>,
        tags: BTreeSet<String>,
        id: Option<u64>,
    },
    ForgetIds(Vec<u64>),
    ForgetRules {
        keep_last: u64,
        keep_tag: Option<String>,
    },
    Hold(Vec<u64>, bool),
    Tag {
        ids: Vec<u64>,
        add: Option<String>,
        remove: Option<String>,
    },
    Optimize,
    Window {
        source: Option<usize>,
        archival: Option<u64>,
    },
}

/// A line of `snapshots`.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) tags: BTreeSet<String>,
    pub(super) is_held: bool,
}

/// The known state of the store.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) backups: BTreeMap<u64, Backup>,
    /// The archival windows that `optimize` may have used, beside at least one live backup: by
    /// source, and for all under `None`.
    windows: BTreeMap<Option<usize>, BTreeSet<u64>>,
}

/// The kind and the text of a fault in a listing.
pub(super) type Fault = (&'static str, String);

impl Model {
    /// Numbers of the backups that are not forgotten.
    pub(super) fn kept(&self) -> Vec<u64> {
        let kept = self.backups.iter().filter(|(_, backup)| !backup.is_forgotten);
        kept.map(|(id, _)| *id).collect()
    }

    /// Adds a backup without tags.
    pub(super) fn add(&mut self, id: u64, source: usize, picture: Arc<Picture>) {
        self.add_tagged(id, source, picture, BTreeSet::new());
    }

    fn add_tagged(&mut self, id: u64, source: usize, picture: Arc<Picture>, tags: BTreeSet<String>) {
        let backup = Backup {
            source,
            picture,
            tags,
            is_held: false,
            is_forgotten: false,
        };
        self.backups.insert(id, backup);
    }

    /// Notes the window that `init` has set for all series.
    pub(super) fn begin(&mut self, archival: Option<u64>) {
        let effect = Effect::Window {
            source: None,
            archival,
        };
        self.widen(&[Did {
            effect,
            is_done: true,
        }]);
    }

    /// Adds the effects of a step, as the listing after it shows them. Fails if the listing
    /// contradicts the model.
    pub(super) fn settle(
        &mut self,
        did: &[Did],
        listed: &BTreeMap<u64, Listed>,
        names: &[String],
    ) -> Result<(), Fault> {
        self.widen(did);
        self.add_new(did, listed, names)?;
        for id in self.kept() {
            match listed.get(&id) {
                Some(line) => {
                    self.stays(id, did, line)?;
                }
                None if self.may_go(id, did) => {
                    if let Some(backup) = self.backups.get_mut(&id) {
                        backup.is_forgotten = true;
                    }
                }
                None => {
                    return Err((
                        "lost",
                        format!("backup {id} is listed no more, and nothing forgot it"),
                    ));
                }
            }
        }
        let back = |(id, backup): &(&u64, &Backup)| backup.is_forgotten && listed.contains_key(id);
        if let Some((id, _)) = self.backups.iter().find(back) {
            return Err((
                "came back",
                format!("backup {id} was forgotten, and is listed again"),
            ));
        }
        Ok(())
    }

    /// A listed backup that is not known must come from a backup that ran, with the content of its
    /// source.
    fn add_new(
        &mut self,
        did: &[Did],
        listed: &BTreeMap<u64, Listed>,
        names: &[String],
    ) -> Result<(), Fault> {
        for (id, line) in listed {
            if self.backups.contains_key(id) {
                continue;
            }
            let of_source = |one: &Did| match &one.effect {
                Effect::Backup {
                    source,
                    picture,
                    tags,
                    id: told,
                } if names[*source] == line.name => Some((*source, Arc::clone(picture), tags.clone(), *told)),
                _ => None,
            };
            let mut made: Vec<_> = did.iter().filter_map(of_source).collect();
            made.retain(|(_, _, _, told)| told.is_none_or(|told| told == *id));
            made.sort_by_key(|(_, _, tags, told)| (told.is_none(), *tags != line.tags));
            let Some((source, picture, tags, _)) = made.into_iter().next() else {
                return Err((
                    "out of nowhere",
                    format!("backup {id} of {:?} was made by nobody", line.name),
                ));
            };
            if tags != line.tags && !did.iter().any(|one| matches!(one.effect, Effect::Tag { .. })) {
                return Err((
                    "tags",
                    format!("backup {id} was made with {tags:?} and has {:?}", line.tags),
                ));
            }
            let backup = Backup {
                source,
                picture,
                tags: line.tags.clone(),
                is_held: line.is_held,
                is_forgotten: false,
            };
            self.backups.insert(*id, backup);
        }
        for one in did {
            if let Effect::Backup {
                source,
                picture,
                tags,
                id: Some(id),
            } = &one.effect
                && !self.backups.contains_key(id)
            {
                self.add_tagged(*id, *source, Arc::clone(picture), tags.clone());
            }
        }
        Ok(())
    }

    /// Compares the listed line of a backup that is kept.
    fn stays(&mut self, id: u64, did: &[Did], line: &Listed) -> Result<(), Fault> {
        for one in did {
            if let Effect::ForgetIds(ids) = &one.effect
                && one.is_done
                && ids.contains(&id)
            {
                return Err((
                    "not forgotten",
                    format!("backup {id} was forgotten, and is listed"),
                ));
            }
        }
        let Some(backup) = self.backups.get_mut(&id) else {
            return Ok(());
        };
        let (mut tags, mut holds) = (
            BTreeSet::from([backup.tags.clone()]),
            BTreeSet::from([backup.is_held]),
        );
        let changes = did
            .iter()
            .filter(|one| matches!(one.effect, Effect::Tag { .. } | Effect::Hold(..)))
            .count();
        // Two commands at once may take effect in either order.
        for _ in 0..2 {
            for one in did {
                one.apply(id, changes == 1 && one.is_done, &mut tags, &mut holds);
            }
        }
        if !tags.contains(&line.tags) {
            return Err((
                "tags",
                format!("backup {id} may have the tags {tags:?} and has {:?}", line.tags),
            ));
        }
        if !holds.contains(&line.is_held) {
            return Err((
                "hold",
                format!("backup {id}: held is {}, and may be {holds:?}", line.is_held),
            ));
        }
        backup.tags.clone_from(&line.tags);
        backup.is_held = line.is_held;
        Ok(())
    }

    /// Whether a command that ran may have forgotten this backup.
    fn may_go(&self, id: u64, did: &[Did]) -> bool {
        let Some(backup) = self.backups.get(&id) else {
            return true;
        };
        let let_go = |one: &Did| matches!(&one.effect, Effect::Hold(ids, false) if ids.contains(&id));
        if backup.is_held && !did.iter().any(let_go) {
            return false;
        }
        let newer = self
            .backups
            .range(id + 1..)
            .filter(|(_, other)| other.source == backup.source)
            .count();
        let newer = u64::try_from(newer).unwrap_or(u64::MAX);
        let tagged = |tag: &String| {
            let gone = did.iter().any(|one| matches!(one.effect, Effect::Tag { .. }));
            backup.tags.contains(tag) && !gone
        };
        did.iter().any(|one| match &one.effect {
            Effect::ForgetIds(ids) => ids.contains(&id),
            Effect::ForgetRules { keep_last, keep_tag } => {
                newer >= (*keep_last).max(1) && !keep_tag.as_ref().is_some_and(tagged)
            }
            Effect::Optimize | Effect::Backup { .. } => {
                let windows = [None, Some(backup.source)];
                windows
                    .iter()
                    .filter_map(|of| self.windows.get(of))
                    .flatten()
                    .any(|archival| newer > *archival)
            }
            Effect::Nothing | Effect::Hold(..) | Effect::Tag { .. } | Effect::Window { .. } => false,
        })
    }

    /// Whether this backup is beyond a window that may be in force.
    pub(super) fn may_leave(&self, id: u64) -> bool {
        let optimize = Did {
            effect: Effect::Optimize,
            is_done: true,
        };
        self.may_go(id, &[optimize])
    }

    /// Adds windows that commands have set to those that may be in force. A change of the layout in
    /// between may bring an earlier window back.
    fn widen(&mut self, did: &[Did]) {
        for one in did {
            if let Effect::Window {
                source,
                archival: Some(archival),
            } = &one.effect
            {
                self.windows.entry(*source).or_default().insert(*archival);
            }
        }
    }
}

impl Did {
    /// Adds the states that this command may have caused.
    fn apply(
        &self,
        id: u64,
        surely: bool,
        tags: &mut BTreeSet<BTreeSet<String>>,
        holds: &mut BTreeSet<bool>,
    ) {
        match &self.effect {
            Effect::Tag { ids, add, remove } if ids.contains(&id) => {
                let changed = tags.iter().map(|old| {
                    let mut new = old.clone();
                    new.extend(add.clone());
                    if let Some(remove) = remove {
                        new.remove(remove);
                    }
                    new
                });
                let changed: BTreeSet<_> = changed.collect();
                if surely {
                    tags.clear();
                }
                tags.extend(changed);
            }
            Effect::Hold(ids, held) if ids.contains(&id) => {
                if surely {
                    holds.clear();
                }
                holds.insert(*held);
            }
            _ => {}
        }
    }
}
