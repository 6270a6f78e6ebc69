//! How a store uses its cache on this machine: which lists of removed slots count, and when the
//! cache is passed.

use env::PastCache;
use session::ReclaimView;

use crate::store::Store;

impl Store {
    /// Tells the cache which lists of removed slots are kept.
    pub(crate) fn enter_period(&self, view: &ReclaimView) {
        if let Some(cache) = &self.cache
            && !view.is_blind()
        {
            // Before there is any list, nothing was ever removed.
            cache.enter(
                view.oldest_epoch()
                    .map_or(0, |oldest| oldest.get().saturating_add(1)),
            );
        }
    }

    /// Passes the cache while the returned value exists, also for what it has put into memory.
    /// Without a cache, catalogs leave memory all the same: a process that runs for long has some
    /// that may have rotted in the storage since.
    pub(crate) fn past_cache(&self) -> Option<PastCache<'_>> {
        let past = self.cache.as_ref().map(|cache| cache.pass());
        self.containers.clear_catalogs();
        if past.is_some() {
            self.nodes().clear();
        }
        past
    }
}
