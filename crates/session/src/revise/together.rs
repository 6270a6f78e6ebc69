//! Creating the next revisions of many backups at once, with two barriers, and two listings of each
//! series.
//!
//! For each backup the steps of [`Manifests::revise`] happen in the same order: list its series; a
//! barrier covers what was read; put its next number; a barrier makes that durable; list its series
//! again. The other backups take time between these steps, so more numbers may be lost to other
//! processes. A backup that loses its number is revised alone.

use std::collections::{BTreeMap, BTreeSet};

use format::manifest::{Backup, Manifest};
use format::names;
use types::{Revision, SeriesId, SessionId};

use super::{Next, Present};
use crate::error::Result;
use crate::list::ManifestList;
use crate::manifests::Manifests;
use crate::objects::Put;

/// Asked by a backup's place among those that are revised.
type Change<'a> = &'a mut dyn FnMut(usize, &Present<'_>) -> Result<Option<Backup>>;

impl Manifests {
    /// Like [`Self::revise`] for each of these backups, with one wait for all of them. `change`
    /// gets a backup's position here; `before_put` is called right before each revision is put.
    /// Results are in order.
    ///
    /// # Errors
    /// Of `before_put`; of the storage: then nothing is said of any, and some may have been
    /// revised.
    pub fn revise_all(
        &self,
        backups: &[(SeriesId, SessionId)],
        before_put: &dyn Fn() -> Result<()>,
        mut change: impl FnMut(usize, &Present<'_>) -> Result<Option<Backup>>,
    ) -> Result<Vec<Result<Revision>>> {
        let mut done: BTreeMap<usize, Result<Revision>> = BTreeMap::new();
        let todo = self.nexts(backups, &mut done, &mut change)?;
        let (mut put, mut lost, mut failed) = (Vec::new(), Vec::new(), None);
        if !todo.is_empty() {
            self.objects().barrier()?;
        }
        for (at, revision, next) in todo {
            let (series, session) = backups[at];
            let name = names::manifest(series, session, revision);
            let created = before_put().and_then(|()| self.objects().put(&name, &Manifest::Revised(next)));
            match created {
                Ok(Put::Created) => put.push((at, revision)),
                Ok(Put::Taken) => lost.push(at),
                Err(error) => {
                    // It may exist nevertheless.
                    put.push((at, revision));
                    failed = Some(error);
                    break;
                }
            }
        }
        // Whatever came of the others: what was put above a backup that is no more must not stay.
        let looked_at = self.look_at(backups, &put, &mut done);
        if let Some(error) = failed {
            return Err(error);
        }
        looked_at?;
        for at in lost {
            let (series, session) = backups[at];
            let alone = self.revise(series, session, |present| {
                before_put()?;
                change(at, present)
            });
            done.insert(at, alone);
        }
        Ok(done.into_values().collect())
    }

    /// What is to be put of each, by lists of their series of which one is held at a time; those of
    /// which nothing is are done.
    fn nexts(
        &self,
        backups: &[(SeriesId, SessionId)],
        done: &mut BTreeMap<usize, Result<Revision>>,
        change: Change<'_>,
    ) -> Result<Vec<(usize, Revision, Backup)>> {
        let mut todo = Vec::new();
        let all: BTreeSet<SeriesId> = backups.iter().map(|(series, _)| *series).collect();
        for series in all {
            let list = self.list_series(series)?;
            let of_it = of_series(backups, series).map(|(_, (_, session))| session);
            let marked = self.marked_revisions(series, &of_it.collect())?;
            for (at, (_, session)) in of_series(backups, series) {
                match self.next(&list, &marked, (series, session), &mut |present| {
                    change(at, present)
                }) {
                    Ok(Next::Put(revision, backup)) => todo.push((at, revision, *backup)),
                    Ok(Next::Stays(revision)) => _ = done.insert(at, Ok(revision)),
                    Err(error) => _ = done.insert(at, Err(error)),
                }
            }
        }
        Ok(todo)
    }

    /// Makes durable what was put, and sees what it stands on.
    fn look_at(
        &self,
        backups: &[(SeriesId, SessionId)],
        put: &[(usize, Revision)],
        done: &mut BTreeMap<usize, Result<Revision>>,
    ) -> Result<()> {
        if put.is_empty() {
            return Ok(());
        }
        self.objects().barrier()?;
        let mut lists: BTreeMap<SeriesId, Vec<(usize, Revision)>> = BTreeMap::new();
        for (at, revision) in put.iter().copied() {
            lists.entry(backups[at].0).or_default().push((at, revision));
        }
        let mut failed = Ok(());
        for (series, of_it) in lists {
            // One that cannot be listed says nothing of the others.
            let list: Result<ManifestList> = self.list_series(series);
            match list {
                Ok(list) => {
                    for (at, revision) in of_it {
                        done.insert(at, self.revised(&list, series, backups[at].1, revision));
                    }
                }
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed
    }
}

/// The backups of a series, with their places.
fn of_series(
    backups: &[(SeriesId, SessionId)],
    series: SeriesId,
) -> impl Iterator<Item = (usize, (SeriesId, SessionId))> + '_ {
    let each = backups.iter().copied().enumerate();
    each.filter(move |(_, (of, _))| *of == series)
}
