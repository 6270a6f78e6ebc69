//! Pools on disk: the device, and the folder with the duplicates index.
//!
//! A pool in a file has its index beside it, in the folder `FILE.index`, so both can be moved
//! together. An index elsewhere is named in the pool.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use ddi::{DdiError, DuplicatesIndex, FjallIndex, FjallOptions};
use env::{
    AlignedBuffer, BlockDevice, DeviceError, Entropy, FileCaching, FileDevice, SystemClock, SystemEntropy,
};

use volume::{Pool, PoolId, PoolOptions, VolumeError};

use super::request::{Kind, Refusal};

/// A disk whose first bytes are not zeros is in use, for all that is known.
const LOOK_BYTES: usize = 1 << 20;

/// Memory of an open pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caches {
    /// For the map of each volume.
    pub(crate) map_bytes: u64,
    /// For the index.
    pub(crate) index_bytes: u64,
}

impl Default for Caches {
    fn default() -> Self {
        Self {
            map_bytes: volume::MAP_CACHE_BYTES_DEFAULT as u64,
            index_bytes: FjallOptions::default().cache_bytes,
        }
    }
}

/// What is done about an index that is lost, damaged, or that of another pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexFault {
    /// The pool is not opened.
    Fails,
    /// An empty index takes its place. A damaged one, or that of another pool, is moved aside.
    Replaced,
}

/// A pool that this process has open.
#[derive(Debug)]
pub(crate) struct OpenedPool {
    pub(crate) pool: Arc<Pool>,
    /// The folder of its index.
    pub(crate) index: PathBuf,
    /// The index that was in the place of this pool's.
    pub(crate) moved: Option<MovedIndex>,
}

/// An index that was moved aside.
#[derive(Debug)]
pub(crate) struct MovedIndex {
    /// Where it is now.
    pub(crate) to: PathBuf,
    /// It is that of another pool. Else it is damaged.
    pub(crate) is_of_other_pool: bool,
}

fn refusal(kind: Kind, error: &impl ToString) -> Refusal {
    Refusal::new(kind, error.to_string())
}

/// The error of a device that holds a pool.
fn device_refusal(error: &DeviceError) -> Refusal {
    match error {
        DeviceError::NotFound { .. } => Refusal::new(
            Kind::NoPool,
            format!("{error}: there is no pool; make one with `onefold pool init`"),
        ),
        DeviceError::InUse { .. } => refusal(Kind::InUse, error),
        DeviceError::NoSpace { .. } => refusal(Kind::NoSpace, error),
        _ => refusal(Kind::Failed, error),
    }
}

fn place_of(path: &Path, refusal: Refusal) -> Refusal {
    let place = path.display().to_string();
    if refusal.message.contains(&place) {
        return refusal;
    }
    Refusal::new(refusal.kind, format!("{place}: {}", refusal.message))
}

/// The folder beside a pool's file.
fn beside(pool: &Path) -> PathBuf {
    let real = fs::canonicalize(pool).unwrap_or_else(|_| pool.to_owned());
    let mut name = OsString::from(real);
    name.push(".index");
    name.into()
}

/// The folder of the index that a device names, and the id of the pool.
fn named_index(pool: &Path, device: &dyn BlockDevice) -> Result<(PathBuf, PoolId), Refusal> {
    let (id, named) = Pool::index_of(device).map_err(|error| place_of(pool, error.into()))?;
    let folder = if named.is_empty() {
        beside(pool)
    } else {
        named.into()
    };
    Ok((folder, id))
}

/// The folder of a pool's index, and the pool's id, also of a pool that another process has open.
///
/// # Errors
/// [`Kind::NoPool`]; errors of the device.
pub(crate) fn index_folder(pool: &Path) -> Result<(PathBuf, PoolId), Refusal> {
    let device = FileDevice::open_beside(pool).map_err(|error| device_refusal(&error))?;
    named_index(pool, &device)
}

/// Opens a pool, and recovers it if its last process was killed.
///
/// # Errors
/// [`Kind::InUse`] if another process has it open; [`Kind::NoPool`]; errors of device and index.
pub(crate) fn open(
    path: &Path,
    caching: FileCaching,
    caches: Caches,
    on_fault: IndexFault,
) -> Result<OpenedPool, Refusal> {
    let device = FileDevice::open(path, caching).map_err(|error| device_refusal(&error))?;
    let (folder, id) = named_index(path, &device)?;
    let (index, moved) = open_index(&folder, id, caches.index_bytes, on_fault)?;
    let options = PoolOptions {
        clock: Arc::new(SystemClock),
        map_cache_bytes: usize::try_from(caches.map_bytes).unwrap_or(usize::MAX),
    };
    let pool = Pool::open(Arc::new(device), Arc::new(index), &options);
    let pool = pool.map_err(|error| place_of(path, error.into()))?;
    Ok(OpenedPool {
        pool: Arc::new(pool),
        index: folder,
        moved,
    })
}

fn open_index(
    folder: &Path,
    pool: PoolId,
    cache_bytes: u64,
    on_fault: IndexFault,
) -> Result<(FjallIndex, Option<MovedIndex>), Refusal> {
    let options = FjallOptions {
        cache_bytes,
        ..FjallOptions::default()
    };
    let opened = FjallIndex::open(folder, options);
    let checked = opened.and_then(|index| index.check_pool(pool).map(|()| index));
    let error = match checked {
        Ok(index) => return Ok((index, None)),
        Err(error) => error,
    };
    let kind = match &error {
        DdiError::InUse { .. } => Kind::InUse,
        DdiError::NewerFormat { .. } => Kind::Newer,
        DdiError::Missing { .. } | DdiError::Damaged { .. } | DdiError::OtherPool { .. } => {
            Kind::NeedsRecount
        }
        _ => Kind::Failed,
    };
    if kind != Kind::NeedsRecount {
        return Err(refusal(kind, &error));
    }
    if on_fault == IndexFault::Fails {
        let advice = match &error {
            DdiError::Missing { .. } => {
                "; bring the folder back, or make the index anew with `onefold volume recount`"
            }
            _ => "",
        };
        return Err(Refusal::new(kind, format!("{error}{advice}")));
    }
    let moved = match &error {
        DdiError::Damaged { .. } => Some(move_aside(folder, false)?),
        DdiError::OtherPool { .. } => Some(move_aside(folder, true)?),
        _ => None,
    };
    let made = FjallIndex::create(folder, pool, options).and_then(|index| {
        drop(index);
        FjallIndex::open(folder, options)
    });
    let index = made.map_err(|error| refusal(Kind::Failed, &error))?;
    keep_private(folder).map_err(|error| refusal(Kind::Failed, &error))?;
    Ok((index, moved))
}

/// Gives an index that this pool cannot use another name.
fn move_aside(folder: &Path, is_of_other_pool: bool) -> Result<MovedIndex, Refusal> {
    let what = if is_of_other_pool { "other-pool" } else { "damaged" };
    let named = |number: u32| {
        let mut name = OsString::from(folder);
        name.push(format!(".{what}-{number}"));
        PathBuf::from(name)
    };
    let free = (1..1000)
        .map(named)
        .find(|name| fs::symlink_metadata(name).is_err());
    let name = free.unwrap_or_else(|| named(1000));
    fs::rename(folder, &name).map_err(|error| {
        let why = format!("{}: the index cannot be moved aside: {error}", folder.display());
        Refusal::new(Kind::Failed, why)
    })?;
    Ok(MovedIndex {
        to: name,
        is_of_other_pool,
    })
}

/// The index and its control socket are for the user of the pool alone.
fn keep_private(folder: &Path) -> std::io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Makes a pool and its index. If anything fails, nothing is left of them.
///
/// # Errors
/// The file exists and is not empty; a disk is in use or not empty; the folder of the index exists.
pub(crate) fn make(path: &Path, bytes: u64, index: Option<&Path>, force: bool) -> Result<PathBuf> {
    let was_there = fs::symlink_metadata(path).is_ok();
    if !was_there {
        // The file holds the data of all volumes, so it is for its owner alone.
        cli_support::private::create_new(path).with_context(|| path.display().to_string())?;
    }
    let made = make_parts(path, bytes, index, force);
    if made.as_ref().is_err_and(|failed| failed.is_file_ours) {
        // The error of the creation tells more than one of the removal.
        if !was_there {
            drop(fs::remove_file(path));
        } else if fs::metadata(path).is_ok_and(|found| found.is_file()) {
            // A pipe or a disk has no length, and opening it may wait for ever.
            drop(
                fs::File::options()
                    .write(true)
                    .open(path)
                    .and_then(|file| file.set_len(0)),
            );
        }
    }
    made.map_err(|failed| failed.error)
}

/// Why a pool was not made.
struct NotMade {
    error: anyhow::Error,
    /// The file was empty, and nobody else has it.
    is_file_ours: bool,
}

fn make_parts(path: &Path, bytes: u64, index: Option<&Path>, force: bool) -> Result<PathBuf, NotMade> {
    let device = FileDevice::create(path, bytes, FileCaching::PageCache).map_err(|error| NotMade {
        is_file_ours: !matches!(
            error,
            DeviceError::AlreadyExists { .. } | DeviceError::InUse { .. }
        ),
        error: match error {
            DeviceError::TooShort { .. } => anyhow!(error).context("the disk is smaller than --size"),
            error => error.into(),
        },
    })?;
    let is_file_ours = !device.is_disk();
    make_on(path, &device, index, force).map_err(|error| NotMade { error, is_file_ours })
}

fn make_on(path: &Path, device: &FileDevice, index: Option<&Path>, force: bool) -> Result<PathBuf> {
    if device.is_disk() {
        if index.is_none() {
            return Err(anyhow!(
                "{}: the duplicates index of a disk needs a folder: name one with --index",
                path.display()
            ));
        }
        if !force {
            check_empty(path, device)?;
        }
    }
    let (folder, named) = match index {
        None => (beside(path), String::new()),
        Some(folder) => {
            let folder = std::path::absolute(folder).context("the folder of the index")?;
            let name = folder.to_str().map(str::to_owned);
            let name = name.context("the folder of the index has a name that is not UTF-8; name another")?;
            (folder, name)
        }
    };
    let mut id = PoolId::default();
    SystemEntropy.fill(&mut id);
    drop(FjallIndex::create(&folder, id, FjallOptions::default())?);
    let made = keep_private(&folder)
        .context("the folder of the index")
        .and_then(|()| {
            let made: Result<(), VolumeError> = Pool::create(device, &SystemEntropy, id, &named);
            made.with_context(|| path.display().to_string())
        });
    if let Err(error) = made {
        drop(fs::remove_dir_all(&folder));
        return Err(error);
    }
    Ok(folder)
}

/// Fails unless a disk looks empty.
fn check_empty(path: &Path, device: &FileDevice) -> Result<()> {
    let place = path.display();
    match Pool::index_of(device) {
        Err(VolumeError::NotAPool { .. }) => {}
        Err(VolumeError::Device(error)) => return Err(error.into()),
        Ok(_) | Err(_) => {
            return Err(anyhow!(
                "{place}: there is a pool on this disk already; if nobody needs its volumes, add --force"
            ));
        }
    }
    let len = usize::try_from(device.len())
        .unwrap_or(usize::MAX)
        .min(LOOK_BYTES);
    let mut first = AlignedBuffer::with_capacity(len);
    first.grow_to(len);
    device.read_at(0, &mut first)?;
    if first.iter().any(|byte| *byte != 0) {
        return Err(anyhow!(
            "{place}: this disk is not empty; if nobody needs what is on it, add --force"
        ));
    }
    Ok(())
}
