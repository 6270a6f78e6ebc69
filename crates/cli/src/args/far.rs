//! Options about stores in object stores.

use std::num::NonZeroU64;
use std::path::Path;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{ArgMatches, Args};
use cli_support::idle::{Idle, is_typed, option};
use cli_support::values::byte_count;
use onefold::{CacheOptions, DATA_FOLDERS, ObjectStoreLocation, ObjectStoreOptions, StorageClass};

use crate::folders;

/// The options, by name.
pub(super) const OF_FAR: [&str; 5] = [
    "no_cache",
    "cache_size",
    "limit_upload",
    "limit_download",
    "storage_class",
];

const KIB: NonZeroU64 = NonZeroU64::new(1024).unwrap();

/// How a store in an object store is reached.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options for object stores")]
pub(crate) struct Far {
    /// Keep nothing of the store on this machine, and use nothing that was kept
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
    /// How large the cache on this machine may grow: bytes, or K, M, G
    #[arg(
        long,
        global = true,
        env = "ONEFOLD_CACHE_SIZE",
        value_name = "BYTES",
        default_value_t = CacheOptions::BYTES_MAX,
        hide_default_value = true,
        value_parser = byte_count
    )]
    pub(crate) cache_size: u64,
    /// Send at most this much a second to the object store
    #[arg(long, global = true, env = "ONEFOLD_LIMIT_UPLOAD", value_name = "KIB")]
    pub(crate) limit_upload: Option<NonZeroU64>,
    /// Receive at most this much a second from the object store
    #[arg(long, global = true, env = "ONEFOLD_LIMIT_DOWNLOAD", value_name = "KIB")]
    pub(crate) limit_download: Option<NonZeroU64>,
    /// Store the content of files in this storage class or access tier, such as STANDARD_IA; it
    /// must be one that is read at once
    #[arg(long, global = true, env = "ONEFOLD_STORAGE_CLASS", value_name = "CLASS")]
    pub(crate) storage_class: Option<String>,
}

impl Far {
    /// The cache, unless it is refused or there is no folder for it.
    pub(crate) fn cache(&self) -> Option<CacheOptions> {
        let folder = folders::cache().filter(|_| !self.no_cache)?;
        Some(CacheOptions::new(folder).bytes_max(self.cache_size))
    }

    /// The same for a store that is read alone: nothing in it gets a storage class.
    pub(crate) fn reading(&self) -> Self {
        Self {
            storage_class: None,
            ..self.clone()
        }
    }

    /// How the object store at that place is used.
    ///
    /// # Errors
    /// If the storage class cannot be used there.
    pub(crate) fn options(&self, location: &ObjectStoreLocation) -> Result<ObjectStoreOptions> {
        let rate = |kib: NonZeroU64| kib.saturating_mul(KIB);
        let class = self.storage_class.as_deref();
        let class = class.map(|word| StorageClass::new(word, DATA_FOLDERS.to_vec(), location));
        Ok(ObjectStoreOptions {
            upload_bytes_per_second: self.limit_upload.map(rate),
            download_bytes_per_second: self.limit_download.map(rate),
            storage_class: class.transpose()?,
        })
    }

    /// An option was typed, and no store of the command is in an object store: neither that which
    /// it writes nor that which it only reads.
    pub(super) fn idle(written: Option<&Path>, read: Option<&Path>, matches: &ArgMatches) -> Option<Idle> {
        let is_there = |repo: &Path| repo.to_str().is_some_and(ObjectStoreLocation::is_meant);
        if written.is_some_and(is_there) || read.is_some_and(is_there) {
            if is_typed(matches, "storage_class") && !written.is_some_and(is_there) {
                let why = "--storage-class concerns what is written, and the store that is written is in no object store";
                return Some((ErrorKind::ArgumentConflict, why.to_owned()));
            }
            let both = is_typed(matches, "no_cache") && is_typed(matches, "cache_size");
            let why = "--cache-size concerns the cache, and --no-cache uses none";
            return both.then(|| (ErrorKind::ArgumentConflict, why.to_owned()));
        }
        let idle = OF_FAR.iter().find(|id| is_typed(matches, id))?;
        let why = format!(
            "{} concerns a store in an object store (`s3:`, `gs:` or `azure:`), and this command is not about one",
            option(idle)
        );
        Some((ErrorKind::ArgumentConflict, why))
    }
}
