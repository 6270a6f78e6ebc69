//! The folder of an index: making it, opening it, and telling what is wrong with it.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace};
use format::pool::frame::PoolId;

use crate::DdiError;

use super::journals::SealedJournals;
use super::store::{
    Current, FORMAT, FORMAT_KEY, FjallOptions, GENERATION_KEY, HEAD, POOL_KEY, Store, failure, rows_name,
    rows_options,
};

/// A file that each database has.
const DATABASE_FILE: &str = "version";
/// In the head: present if recovery has lost batches.
const DAMAGE_KEY: &str = "damage";
/// Space of journals before the database writes more of their content to tables, in bytes.
const JOURNAL_BYTES_MAX: u64 = 256 << 20;
/// The generation of the rows of a new index.
const FIRST_GENERATION: u64 = 1;

/// Makes a folder with an empty index of a pool.
pub(super) fn create(folder: &Path, pool: PoolId) -> Result<(), DdiError> {
    let io_failed = |error: io::Error| io_failure(folder, "creating the duplicates index", &error);
    if folder.try_exists().map_err(io_failed)? {
        return Err(DdiError::Exists {
            folder: folder.to_owned(),
        });
    }
    let unfinished = with_suffix(folder, ".creating");
    match std::fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_failed(error)),
        _ => {}
    }
    std::fs::create_dir(&unfinished).map_err(io_failed)?;
    let db = open_database(&unfinished, FjallOptions::default())?;
    let failed = |error| failure(folder, "creating the duplicates index", error);
    let head = db.keyspace(HEAD, rows_options).map_err(failed)?;
    db.keyspace(&rows_name(FIRST_GENERATION), rows_options)
        .map_err(failed)?;
    let store = Store {
        db,
        head,
        folder: folder.to_owned(),
        threads_max: 1,
    };
    let mut batch = store.batch(3);
    batch.insert(&store.head, FORMAT_KEY, FORMAT.to_le_bytes());
    batch.insert(&store.head, POOL_KEY, pool);
    batch.insert(&store.head, GENERATION_KEY, FIRST_GENERATION.to_le_bytes());
    store.commit(batch)?;
    // In a table, the head survives a damaged journal.
    store.flush(&store.head)?;
    drop(store);
    std::fs::rename(&unfinished, folder).map_err(io_failed)?;
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(io_failed)
}

/// Opens the folder's index. Tells which pool it was made for.
pub(super) fn open(folder: &Path, options: FjallOptions) -> Result<(Store, PoolId, Current), DdiError> {
    let io_failed = |error: io::Error| io_failure(folder, "opening the duplicates index", &error);
    let not_an_index = || DdiError::NotAnIndex {
        folder: folder.to_owned(),
    };
    if !folder.try_exists().map_err(io_failed)? {
        return Err(DdiError::Missing {
            folder: folder.to_owned(),
        });
    }
    if !folder.join(DATABASE_FILE).try_exists().map_err(io_failed)? {
        return Err(not_an_index());
    }
    let journals = SealedJournals::note(folder).map_err(io_failed)?;
    let db = open_database(folder, options)?;
    if !db.keyspace_exists(HEAD) {
        return Err(not_an_index());
    }
    let head = db
        .keyspace(HEAD, rows_options)
        .map_err(|error| failure(folder, "opening the duplicates index", error))?;
    let store = Store {
        db,
        head,
        folder: folder.to_owned(),
        threads_max: options.threads_max.max(1),
    };
    check_format(&store)?;
    check_journals(&store, &journals)?;
    let Some(pool) = number(&store, POOL_KEY)? else {
        return Err(store.damaged("the id of its pool is missing".to_owned()));
    };
    let current = current(&store)?;
    // Recovered batches may be in the page cache alone, if a failed write left them there.
    store.flush(&store.head)?;
    store.flush(&current.rows)?;
    Ok((store, pool, current))
}

fn open_database(folder: &Path, options: FjallOptions) -> Result<Database, DdiError> {
    let open = || {
        Database::builder(folder)
            .cache_size(options.cache_bytes)
            .max_journaling_size(JOURNAL_BYTES_MAX)
            .open()
    };
    // The database asserts what a damaged folder may violate.
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok(result) => result.map_err(|error| failure(folder, "opening the duplicates index", error)),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(DdiError::Damaged {
                folder: folder.to_owned(),
                what: text.unwrap_or_else(|| "the database cannot be recovered".to_owned()),
            })
        }
    }
}

fn check_format(store: &Store) -> Result<(), DdiError> {
    let Some(format) = number(store, FORMAT_KEY)? else {
        return Err(DdiError::NotAnIndex {
            folder: store.folder.clone(),
        });
    };
    let found = u32::from_le_bytes(format);
    if found > FORMAT {
        return Err(DdiError::NewerFormat {
            folder: store.folder.clone(),
            found,
            newest: FORMAT,
        });
    }
    Ok(())
}

/// Refuses an index that has lost batches from the middle. It stays refused, because the next
/// recovery finds the cut journals intact.
fn check_journals(store: &Store, journals: &SealedJournals) -> Result<(), DdiError> {
    let cut = journals
        .first_cut()
        .map_err(|error| io_failure(&store.folder, "opening the duplicates index", &error))?;
    if let Some(path) = cut {
        let what = format!(
            "{} has a broken record; the batches behind it are lost",
            path.display()
        );
        let mut batch = store.batch(1);
        batch.insert(&store.head, DAMAGE_KEY, what.as_bytes());
        store.commit(batch)?;
        store.flush(&store.head)?;
        return Err(store.damaged(what));
    }
    match store.get(&store.head, DAMAGE_KEY.as_bytes())? {
        Some(what) => Err(store.damaged(String::from_utf8_lossy(&what).into_owned())),
        None => Ok(()),
    }
}

/// The rows in use. Others, of a rebuild that did not end or whose end was interrupted, are
/// deleted.
fn current(store: &Store) -> Result<Current, DdiError> {
    let Some(generation) = number(store, GENERATION_KEY)? else {
        return Err(store.damaged("the number of its rows is missing".to_owned()));
    };
    let generation = u64::from_le_bytes(generation);
    let name = rows_name(generation);
    let mut rows = None;
    for known in store.db.list_keyspace_names() {
        if *known == *HEAD {
            continue;
        }
        let keyspace = open_keyspace(store, &known)?;
        if *known == *name {
            rows = Some(keyspace);
        } else {
            store
                .db
                .delete_keyspace(keyspace)
                .map_err(|error| store.failed("deleting old rows", error))?;
        }
    }
    let Some(rows) = rows else {
        return Err(store.damaged("its rows are missing".to_owned()));
    };
    Ok(Current {
        rows,
        generation,
        is_rebuilding: false,
    })
}

fn open_keyspace(store: &Store, name: &str) -> Result<Keyspace, DdiError> {
    store
        .db
        .keyspace(name, rows_options)
        .map_err(|error| store.failed("opening the duplicates index", error))
}

/// A number of the head.
fn number<const N: usize>(store: &Store, key: &str) -> Result<Option<[u8; N]>, DdiError> {
    match store.get(&store.head, key.as_bytes())? {
        None => Ok(None),
        Some(bytes) => match <[u8; N]>::try_from(&*bytes) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) => Err(store.damaged(format!("its {key} is no number"))),
        },
    }
}

fn with_suffix(folder: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(folder);
    name.push(suffix);
    name.into()
}

fn io_failure(folder: &Path, action: &'static str, error: &io::Error) -> DdiError {
    DdiError::Failed {
        action,
        folder: folder.to_owned(),
        why: error.to_string(),
    }
}
