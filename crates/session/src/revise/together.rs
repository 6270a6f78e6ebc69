//! Creates the next revisions of many backups at once, with two barriers, and two listings of each
//! series.
//!
//! For each backup the steps of [`Manifests::revise`] happen in the same order: list its series; a
//! barrier makes the listed revisions durable; put its next number; a barrier makes that durable;
//! list its series again. The other backups take time between these steps, so other processes take
//! more numbers meanwhile. A backup whose number is taken is revised alone.

use std::collections::{BTreeMap, BTreeSet};

use format::manifest::{Backup, Manifest};
use format::names;
use types::{Revision, SeriesId, SessionId};

use super::{Next, Present};
use crate::error::Result;
use crate::list::ManifestList;
use crate::manifests::Manifests;
use crate::objects::Put;

/// Called with a backup's place in the list.
type Change<'a> = &'a mut dyn FnMut(usize, &Present<'_>) -> Result<Option<Backup>>;

impl Manifests {
    /// Like [`Self::revise`] for each of these backups, with one wait for all of them. `change`
    /// gets a backup's position in the list. `before_put` is called right before each put. Results
    /// are in the order of the list.
    ///
    /// # Errors
    /// Those of `before_put`; of the storage. Then there are no results, and some backups may have
    /// been revised.
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
                    // The failed put may have created it.
                    put.push((at, revision));
                    failed = Some(error);
                    break;
                }
            }
        }
        // Check the put revisions even after a failure: one that was put above a deleted backup
        // must not stay.
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

    /// The next revisions to put. Backups without one are done. It holds the list of one series at
    /// a time.
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

    /// Makes the put revisions durable, and checks each.
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
            // A failed listing does not stop the checks of other series.
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
