//! The listings that a handle has made: each serves callers that need none newer.
//!
//! A listing states what a folder had at some moment after the listing began. So it answers a
//! caller who asks for the state at any moment since an earlier one. Own puts and deletes do not
//! change that: who wants to see one in a listing asks for a moment after it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::{TryStreamExt, future};
use object_store::{Error, ObjectMeta as RemoteMeta};

use super::failure::{is_break, storage_error};
use super::{ObjectStoreStorage, PAUSE, REPEATS_MAX};
use crate::plain::{folders_in, is_in};
use crate::storage::REQUESTS_MAX;
use crate::{ListingOf, Moment, ObjectMeta, StorageError};

/// The most listings that are remembered.
const LISTINGS_MAX: usize = 16;
/// The most objects of all remembered listings (INV-7): some 4 MiB.
const OBJECTS_MAX: usize = 1 << 14;

/// The content of a listing.
#[derive(Debug, Clone)]
pub(super) enum Listed {
    Objects(Arc<Vec<ObjectMeta>>),
    Folders(Arc<Vec<String>>),
}

impl Listed {
    fn len(&self) -> usize {
        match self {
            Self::Objects(objects) => objects.len(),
            Self::Folders(folders) => folders.len(),
        }
    }
}

#[derive(Debug)]
struct Remembered {
    /// Whether it is of the objects; else of the sub-folders.
    is_of_objects: bool,
    folder: String,
    began: Moment,
    listed: Listed,
}

impl Remembered {
    fn is_of(&self, of: ListingOf<'_>) -> bool {
        match of {
            ListingOf::Objects(folder) => self.is_of_objects && self.folder == folder,
            ListingOf::Folders(folder) => !self.is_of_objects && self.folder == folder,
        }
    }
}

/// The newest listings of a handle, and its moments.
#[derive(Debug, Default)]
pub(super) struct Listings {
    passed: AtomicU64,
    remembered: Mutex<VecDeque<Remembered>>,
}

impl Listings {
    /// A moment after all earlier ones.
    pub(super) fn now(&self) -> Moment {
        Moment(self.passed.fetch_add(1, Ordering::AcqRel) + 1)
    }

    fn remembered(&self) -> MutexGuard<'_, VecDeque<Remembered>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A listing that began after this moment.
    pub(super) fn since(&self, of: ListingOf<'_>, since: Moment) -> Option<Listed> {
        let remembered = self.remembered();
        let found = remembered.iter().find(|one| one.is_of(of) && one.began > since);
        found.map(|one| one.listed.clone())
    }

    /// Remembers a listing that began at this moment, unless a newer one is there.
    pub(super) fn remember(&self, of: ListingOf<'_>, began: Moment, listed: &Listed) {
        let mut remembered = self.remembered();
        if remembered.iter().any(|one| one.is_of(of) && one.began >= began) {
            return;
        }
        remembered.retain(|one| !one.is_of(of));
        let (is_of_objects, folder) = match of {
            ListingOf::Objects(folder) => (true, folder.to_owned()),
            ListingOf::Folders(folder) => (false, folder.to_owned()),
        };
        remembered.push_back(Remembered {
            is_of_objects,
            folder,
            began,
            listed: listed.clone(),
        });
        let mut objects: usize = remembered.iter().map(|one| one.listed.len()).sum();
        while remembered.len() > LISTINGS_MAX || objects > OBJECTS_MAX {
            objects -= remembered
                .pop_front()
                .map_or(objects, |oldest| oldest.listed.len());
        }
    }
}

impl ObjectStoreStorage {
    /// A listing that began after this moment, or now.
    pub(super) fn listed(&self, of: ListingOf<'_>, since: Option<Moment>) -> Result<Listed, StorageError> {
        match since.and_then(|since| self.listings.since(of, since)) {
            Some(listed) => Ok(listed),
            None => self.runtime.block_on(self.list_now(of)),
        }
    }

    /// Lists, and remembers the listing.
    pub(super) async fn list_now(&self, of: ListingOf<'_>) -> Result<Listed, StorageError> {
        let began = self.listings.now();
        let listed = match of {
            ListingOf::Objects(folder) => Listed::Objects(Arc::new(self.list_objects(folder).await?)),
            ListingOf::Folders(folder) => Listed::Folders(Arc::new(self.list_sub_folders(folder).await?)),
        };
        self.listings.remember(of, began, &listed);
        Ok(listed)
    }

    /// The objects of some sub-folders. Few are listed side by side. Many are in one listing of the
    /// whole folder: what a server lists behind a name depends on its order of names, which not all
    /// have in common.
    pub(super) async fn list_some(
        &self,
        folder: &str,
        sub_folders: &BTreeSet<String>,
    ) -> Result<Vec<ObjectMeta>, StorageError> {
        let folders = folders_in(folder, sub_folders)?;
        if folders.len() > REQUESTS_MAX {
            let mut listed = self.list_objects(folder).await?;
            listed.retain(|meta| is_in(&meta.name, folder, sub_folders));
            return Ok(listed);
        }
        let each = folders.iter().map(|folder| self.list_objects(folder));
        let mut listed = future::try_join_all(each).await?.concat();
        // The name of a folder may be a prefix of another's.
        listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    async fn list_objects(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        let path = self.folder_path(folder)?;
        let list = || self.store.list(path.as_ref()).try_collect::<Vec<RemoteMeta>>();
        let metas = repeated(list).await;
        let metas = metas.map_err(|error| storage_error("list", folder, error))?;
        let named = metas
            .iter()
            .filter_map(|meta| Some(Self::meta_of(self.name_of(&meta.location)?, meta)));
        let mut objects: Vec<ObjectMeta> = named.collect();
        objects.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(objects)
    }

    async fn list_sub_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        let path = self.folder_path(folder)?;
        let listed = repeated(|| self.store.list_with_delimiter(path.as_ref())).await;
        let listed = listed.map_err(|error| storage_error("list", folder, error))?;
        let folders = listed
            .common_prefixes
            .iter()
            .filter_map(|path| self.name_of(path));
        let mut names: Vec<String> = folders
            .filter_map(|name| name.parts().last().map(str::to_owned))
            .collect();
        names.sort_unstable();
        Ok(names)
    }
}

/// Asks again if the connection broke within an answer: the library repeats only what was not
/// answered at all.
async fn repeated<T, F: Future<Output = Result<T, Error>>>(ask: impl Fn() -> F) -> Result<T, Error> {
    let mut repeats = 0;
    loop {
        match ask().await {
            Err(error) if is_break(&error) && repeats < REPEATS_MAX => {}
            answer => return answer,
        }
        repeats += 1;
        tokio::time::sleep(PAUSE * repeats).await;
    }
}

/// The objects of a listing of objects.
pub(super) fn objects_of(listed: Listed) -> Vec<ObjectMeta> {
    match listed {
        Listed::Objects(objects) => Arc::unwrap_or_clone(objects),
        Listed::Folders(_) => Vec::new(),
    }
}

/// The sub-folders of a listing of sub-folders.
pub(super) fn folders_of(listed: Listed) -> Vec<String> {
    match listed {
        Listed::Folders(folders) => Arc::unwrap_or_clone(folders),
        Listed::Objects(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders(count: usize) -> Listed {
        Listed::Folders(Arc::new(vec![String::new(); count]))
    }

    #[test]
    fn a_listing_serves_earlier_moments_only() {
        let listings = Listings::default();
        let (before, began, after) = (listings.now(), listings.now(), listings.now());
        let of = ListingOf::Folders("sessions");
        listings.remember(of, began, &folders(3));
        assert_eq!(listings.since(of, before).map(|listed| listed.len()), Some(3));
        assert!(listings.since(of, began).is_none() && listings.since(of, after).is_none());
        assert!(listings.since(ListingOf::Objects("sessions"), before).is_none());
        assert!(listings.since(ListingOf::Folders("session"), before).is_none());
        // A slower one that began earlier does not replace it.
        listings.remember(of, before, &folders(2));
        assert_eq!(listings.since(of, before).map(|listed| listed.len()), Some(3));
        listings.remember(of, after, &folders(4));
        assert_eq!(listings.since(of, began).map(|listed| listed.len()), Some(4));
    }

    #[test]
    fn memory_is_bounded() {
        let listings = Listings::default();
        let before = listings.now();
        let names: Vec<String> = (0..LISTINGS_MAX + 1).map(|number| number.to_string()).collect();
        for name in &names {
            listings.remember(ListingOf::Folders(name), listings.now(), &folders(1));
        }
        assert!(listings.since(ListingOf::Folders("0"), before).is_none());
        assert!(listings.since(ListingOf::Folders("1"), before).is_some());
        listings.remember(ListingOf::Folders("a"), listings.now(), &folders(OBJECTS_MAX - 1));
        assert!(listings.since(ListingOf::Folders("a"), before).is_some());
        listings.remember(ListingOf::Folders("b"), listings.now(), &folders(OBJECTS_MAX + 1));
        assert!(listings.since(ListingOf::Folders("a"), before).is_none());
        assert!(listings.since(ListingOf::Folders("b"), before).is_none());
    }
}
