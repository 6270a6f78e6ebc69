//! Finds the runs that exist: lists them, and opens those that this process does not have open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use env::{Moment, StorageError};
use format::names;
use types::{ObjectName, UnixNanos};

use super::Index;
use crate::error::IndexError;
use crate::part::Part;
use crate::run::Run;
use crate::writer::RunId;

/// So many parts are opened side by side, if each takes a round trip.
const OPENED_AT_ONCE: usize = 8;

impl Index {
    /// Looks for runs that other processes have written or merged since.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn reload(&self) -> Result<(), IndexError> {
        self.reload_since(self.inner.storage.moment())
    }

    /// Like [`Self::reload`], as of any moment after `since`.
    ///
    /// # Errors
    /// Those of [`Self::reload`].
    pub fn reload_since(&self, mut since: Moment) -> Result<(), IndexError> {
        let mut is_again = false;
        loop {
            let before = self.inner.changes.load(Ordering::Acquire);
            let (listed, is_whole) = self.list_runs(since)?;
            since = self.inner.storage.moment();
            if !is_whole && !is_again {
                // Another process has merged runs since they were listed.
                is_again = true;
                continue;
            }
            if let Some(held) = self.held() {
                for run in &listed {
                    if let Some(damaged) = held.fill(run)? {
                        self.note_damaged(damaged);
                    }
                }
            }
            let mut runs = self.runs_mut();
            if self.inner.changes.load(Ordering::Acquire) == before {
                *runs = listed;
                return Ok(());
            }
        }
    }

    /// A moment before the last listing of runs.
    pub(crate) fn listed_since(&self) -> Moment {
        *self
            .inner
            .listed_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs, and whether all that were listed are still there.
    fn list_runs(&self, since: Moment) -> Result<(Vec<Arc<Run>>, bool), IndexError> {
        let mut is_whole = true;
        let known: BTreeMap<_, _> = self
            .runs()
            .iter()
            .flat_map(|run| run.parts.iter().map(|part| (part.meta().name, Arc::clone(part))))
            .collect();
        let mut parts: BTreeMap<RunId, BTreeMap<u32, Arc<Part>>> = BTreeMap::new();
        let mut put_at: BTreeMap<RunId, UnixNanos> = BTreeMap::new();
        // The writer of a run puts whole parts. So a broken part belongs to no run that is still
        // being written.
        let mut broken = BTreeSet::new();
        let listed = self.inner.storage.list_since(names::INDEX_FOLDER, since)?;
        *self
            .inner
            .listed_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = since;
        // An object that another process removed is no longer bad.
        self.bad()
            .retain(|name| listed.iter().any(|object| object.name == *name));
        let mut each = listed.iter();
        self.set_has_unread(each.any(|object| names::parse_index_unread(&object.name).is_some()));
        let is_new =
            |name: &&ObjectName| names::parse_index_run(name).is_some_and(|run| !known.contains_key(&run));
        let new: Vec<&ObjectName> = listed.iter().map(|object| &object.name).filter(is_new).collect();
        let is_far = self.inner.storage.is_far();
        let threads = if is_far { new.len().min(OPENED_AT_ONCE) } else { 1 };
        let mut opened = object::threaded(new.len(), threads, |at| self.open_part(new[at]))?.into_iter();
        for object in &listed {
            let Some(name) = names::parse_index_run(&object.name) else {
                continue;
            };
            let newest = put_at.entry(RunId::of(name).0).or_insert(object.put_at);
            *newest = object.put_at.max(*newest);
            let part = match known.get(&name) {
                Some(part) => Some(Arc::clone(part)),
                None => opened.next().flatten(),
            };
            let (run, number) = RunId::of(name);
            if let Some(part) = part {
                parts.entry(run).or_default().insert(number, part);
            } else if self.bad().contains(&object.name) {
                broken.insert(run);
            } else {
                is_whole = false;
            }
        }
        let newest = put_at.values().map(|put_at| put_at.get()).max().unwrap_or(0);
        let runs = parts.into_iter().map(|(id, parts)| {
            let idle = put_at
                .get(&id)
                .map_or(0, |put_at| newest.saturating_sub(put_at.get()));
            let idle = Duration::from_nanos(u64::try_from(idle).unwrap_or(0));
            let run = Run::new(id, parts.into_values().collect());
            Arc::new(if broken.contains(&id) {
                run
            } else {
                run.put_within(idle)
            })
        });
        Ok((runs.collect(), is_whole))
    }

    pub(super) fn open_part(&self, name: &ObjectName) -> Result<Option<Arc<Part>>, IndexError> {
        let opened = match self.open_part_once(name)? {
            // A cache may have kept wrong bytes. The storage gives them anew once.
            Some(Err(_)) if self.inner.storage.drop_cached(name) => self.open_part_once(name)?,
            opened => opened,
        };
        match opened {
            None => Ok(None),
            Some(Ok(part)) => Ok(Some(Arc::new(part))),
            Some(Err(why)) => {
                self.note_bad(name.clone(), why);
                Ok(None)
            }
        }
    }

    /// `None`: there is no such run.
    fn open_part_once(&self, name: &ObjectName) -> Result<Option<Result<Part, String>>, IndexError> {
        let object = match self.inner.storage.map(name) {
            Ok(object) => object,
            Err(StorageError::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let Some(parsed) = names::parse_index_run(name) else {
            return Ok(None);
        };
        let storage = Arc::clone(&self.inner.storage);
        Ok(Some(Part::open(storage, object, parsed, self.inner.store)))
    }
}
