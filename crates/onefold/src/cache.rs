//! A cache on this machine of what every command reads again from a store far away.
//!
//! | kept | counts while |
//! |---|---|
//! | manifests, removed lists, runs of the index | a listing of this process shows the object with its length and time |
//! | ends of containers, and all that is read of containers with nodes | the oldest list of removed slots is not newer than what was the oldest when it was read |
//!
//! The second rule is that of the caches in memory ([`crate::past_cache`]): after the read,
//! slots leave a container only if a later list names them, and a session honours all lists that
//! are kept (docs/decisions/0058). Until a session has seen the lists, nothing of containers is
//! taken from the cache. Commands that judge the store, or delete in it, pass the cache.

use std::path::PathBuf;
use std::sync::Arc;

use env::{CachePolicy, CachedStorage, Env, Keep};
use format::container::{ContainerTail, TailParse};
use format::frame::Frame;
use format::names;
use types::{ContainerKind, ObjectName, StoreId};

/// The folder of a cache, and how large it may grow.
///
/// ```
/// let cache = onefold::CacheOptions::new("/home/ann/.cache/onefold").bytes_max(1 << 30);
/// let options = onefold::OpenOptions::default().cache(Some(cache));
/// # assert!(options.cache.is_some());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheOptions {
    /// The folder. Stores and processes may share it, and it may be deleted at any time.
    pub folder: PathBuf,
    /// About how many bytes the cache takes at most, of all stores together.
    pub bytes_max: u64,
}

types::setters!(CacheOptions {
    folder: PathBuf,
    bytes_max: u64,
});

impl CacheOptions {
    /// The usual bound: 1 GiB.
    pub const BYTES_MAX: u64 = 1 << 30;

    /// A cache of the usual size.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            bytes_max: Self::BYTES_MAX,
        }
    }

    /// The storage with this cache.
    pub(crate) fn over(&self, env: &Env, store: StoreId) -> Arc<CachedStorage> {
        let name = name_of(store, env.storage.identity());
        let cache = CachedStorage::new(
            Arc::clone(&env.storage),
            &self.folder.join("objects"),
            &name,
            self.bytes_max,
            Box::new(StorePolicy),
            Arc::clone(&env.clock),
        );
        // Only on a far storage a session takes its lock after its claim, as such locks need.
        Arc::new(if env.storage.is_far() {
            cache.with_locks(&self.folder.join("locks").join(&name))
        } else {
            cache
        })
    }
}

/// The folder of a store in the cache. A copied bucket has the same id, and goes its own way from
/// there on: numbers that both give out are of different objects.
fn name_of(store: StoreId, identity: Option<String>) -> String {
    let digits = store.as_bytes().iter().map(|byte| format!("{byte:02x}"));
    let place = identity.map(|identity| format!("-{identity}"));
    digits.chain(place).collect()
}

/// The environment with this cache as its storage.
pub(crate) fn with_cache(env: &Env, cache: Option<&Arc<CachedStorage>>) -> Env {
    let mut env = env.clone();
    if let Some(cache) = cache {
        env.storage = Arc::<CachedStorage>::clone(cache);
    }
    env
}

/// The folders of objects that have content of files alone. They are read when that is restored,
/// and so may have a cheaper storage class.
pub const DATA_FOLDERS: [&str; 2] = [ContainerKind::Data.folder(), ContainerKind::Archive.folder()];

/// What is kept of a store's objects.
#[derive(Debug)]
struct StorePolicy;

impl CachePolicy for StorePolicy {
    fn keep(&self, name: &ObjectName) -> Keep {
        if let Some((container, _)) = names::parse_container(name) {
            return match container.kind {
                ContainerKind::Data | ContainerKind::Archive => Keep::OfPeriod { ranges: false },
                ContainerKind::Recipe | ContainerKind::Small => Keep::OfPeriod { ranges: true },
                // Read by repairs alone.
                ContainerKind::Catalog => Keep::Nothing,
            };
        }
        let is_ours = names::parse_manifest(name).is_some() || names::parse_index_run(name).is_some();
        if is_ours || names::parse_removed(name).is_some() {
            return Keep::Listed { when_put: is_ours };
        }
        Keep::Nothing
    }

    fn is_whole(&self, name: &ObjectName, bytes: &[u8]) -> bool {
        // The index checks its runs, and drops bad ones from the cache.
        names::parse_index_run(name).is_some() || Frame::split(bytes).is_ok()
    }

    fn end_bytes(&self, name: &ObjectName, tail: &[u8], object_len: u64) -> Option<u64> {
        let Ok(TailParse::Whole(end)) = ContainerTail::parse(tail, object_len) else {
            return None;
        };
        let holds_nodes = matches!(self.keep(name), Keep::OfPeriod { ranges: true });
        if holds_nodes && tail.len() as u64 == object_len {
            return Some(object_len);
        }
        object_len.checked_sub(end.footer.catalog_offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_and_its_copy_elsewhere_share_nothing() {
        let store = StoreId::from_bytes([0xab; 16]);
        let alone = name_of(store, None);
        assert_eq!(alone, "ab".repeat(16));
        let [one, other] = ["1", "2"].map(|place| name_of(store, Some(place.to_owned())));
        assert!(one != other && one.starts_with(&alone) && other.starts_with(&alone));
    }
}
