//! A pool: a device, its volumes, and the index of their contents.
//!
//! Opening recovers every volume. One process at a time has a pool open; the device's lock sees to
//! that. Many threads may use a pool and its volumes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, RwLock};

use crypto::{DomainKey, Fingerprinter};
use ddi::DuplicatesIndex;
use env::{BlockDevice, Clock, DeviceError, Entropy};
use format::pool::frame::PoolId;
use format::pool::header::{VolumeHeader, VolumeSettings};
use format::pool::superblock::Superblock;
use types::{ExtentNumber, VolumeId};

use crate::error::{Result, VolumeError};
use crate::extents::{ExtentTable, extents_of, read_superblock, write_superblock};
use crate::head::{read_header, write_copies};
use crate::lock::lock;
use crate::names::{check_len, check_name};
use crate::recovery::recover;
use crate::shared::Shared;
use crate::start::{Volumes, compare_clients, finish_recovery};
use crate::volume::Volume;

/// Bytes of map that a volume caches, unless it is said otherwise.
pub const MAP_CACHE_BYTES_DEFAULT: usize = 112 << 20;

/// What a pool is opened with.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Bytes of map that each volume caches.
    pub map_cache_bytes: usize,
}

/// A pool of blocks with its volumes.
#[derive(Debug)]
pub struct Pool {
    pub(crate) shared: Arc<Shared>,
    volumes: RwLock<BTreeMap<VolumeId, Arc<Volume>>>,
    failed: Mutex<BTreeMap<VolumeId, String>>,
    /// Names of volumes that are not open, as far as they are known.
    unopened: Mutex<BTreeSet<String>>,
}

impl Pool {
    /// Makes a pool of a device; its content is lost. `pool` is its id, random, which its index has
    /// too. `index` is the folder of the index, empty if it is beside the pool's file.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] if the device is too small or too large; errors of the device.
    pub fn create(device: &dyn BlockDevice, entropy: &dyn Entropy, pool: PoolId, index: &str) -> Result<()> {
        let extents = extents_of(device.len())?;
        let mut domain_key = [0; 32];
        entropy.fill(&mut domain_key);
        let table = ExtentTable::create(device, pool, extents)?;
        let mut superblock = Superblock {
            counter: 0,
            pool,
            domain_key,
            extents,
            table: table.extents().to_vec(),
            next_volume: VolumeId::new(1).expect("1 is a number of a volume"),
            index: index.to_owned(),
        };
        write_superblock(device, &mut superblock)?;
        write_superblock(device, &mut superblock)
    }

    /// The pool's id, and the folder of its index as it was given when the pool was made.
    ///
    /// # Errors
    /// [`VolumeError::NotAPool`]; errors of the device.
    pub fn index_of(device: &dyn BlockDevice) -> Result<(PoolId, String)> {
        let superblock = read_superblock(device)?;
        Ok((superblock.pool, superblock.index))
    }

    /// Opens a pool and recovers its volumes. A volume that cannot be recovered is left out; see
    /// [`Self::failed`]. As long as the device cannot read one, the collectors of the others rest.
    ///
    /// # Errors
    /// [`VolumeError::NotAPool`], [`VolumeError::Newer`], [`ddi::DdiError::OtherPool`], damage of
    /// the pool's own blocks; errors of the device for them, and of the index.
    pub fn open(
        device: Arc<dyn BlockDevice>,
        index: Arc<dyn DuplicatesIndex>,
        options: &PoolOptions,
    ) -> Result<Self> {
        let mut superblock = read_superblock(&*device)?;
        index.check_pool(superblock.pool)?;
        let table = ExtentTable::load(&*device, &superblock)?;
        let headers = table.headers();
        let printer = Fingerprinter::new(&DomainKey::from_bytes(superblock.domain_key));
        // The counter of this write is the epoch of the logs.
        write_superblock(&*device, &mut superblock)?;
        let shared = Arc::new(Shared::new(
            device,
            index,
            Arc::clone(&options.clock),
            printer,
            options.map_cache_bytes,
            superblock,
            table,
        ));
        compare_clients(&shared, &headers)?;
        let (mut recovered, mut failed, mut unopened) = (Vec::new(), BTreeMap::new(), BTreeSet::new());
        for (id, extent) in headers {
            let error = match recover(Arc::clone(&shared), id, extent) {
                Ok(volume) => {
                    recovered.push(volume);
                    continue;
                }
                Err(error) => error,
            };
            match &error {
                VolumeError::Damaged { .. } | VolumeError::Contradiction { .. } | VolumeError::NoSpace => {}
                // It comes back when the device can read it. Nobody may free its blocks until then.
                VolumeError::Device(DeviceError::Io { .. }) | VolumeError::UnreadableLog { .. } => {
                    shared.set_unread();
                }
                _ => return Err(error),
            }
            tracing::error!(volume = %id, %error, "the volume cannot be recovered");
            failed.insert(id, error.to_string());
            let header = read_header(&*shared.device, shared.pool, extent, id);
            unopened.extend(header.map(|header| header.name));
        }
        let (volumes, without_space) = finish_recovery(&shared, recovered)?;
        failed.extend(without_space);
        give_distinct_names(&volumes)?;
        Ok(Self {
            shared,
            volumes: RwLock::new(volumes),
            failed: Mutex::new(failed),
            unopened: Mutex::new(unopened),
        })
    }

    /// The id of the pool.
    #[must_use]
    pub fn id(&self) -> PoolId {
        self.shared.pool
    }

    pub(crate) fn all(&self) -> Vec<Arc<Volume>> {
        let volumes = self.volumes.read();
        let volumes = volumes.unwrap_or_else(std::sync::PoisonError::into_inner);
        volumes.values().cloned().collect()
    }

    /// The volumes, by name.
    #[must_use]
    pub fn volumes(&self) -> Vec<Arc<Volume>> {
        let mut volumes: Vec<_> = self
            .all()
            .into_iter()
            .filter(|one| !one.name().is_empty())
            .collect();
        volumes.sort_by_key(|volume| volume.name());
        volumes
    }

    /// Removed volumes that have not given everything back yet (see [`Volume::dissolve`]).
    #[must_use]
    pub fn removed(&self) -> Vec<Arc<Volume>> {
        let all = self.all().into_iter();
        all.filter(|one| one.is_dissolving()).collect()
    }

    /// Volumes that could not be recovered, and why.
    #[must_use]
    pub fn failed(&self) -> BTreeMap<VolumeId, String> {
        lock(&self.failed).clone()
    }

    /// The volume with this name.
    ///
    /// # Errors
    /// [`VolumeError::NoVolume`].
    pub fn volume(&self, name: &str) -> Result<Arc<Volume>> {
        let found = self.volumes().into_iter().find(|volume| volume.name() == name);
        found.ok_or_else(|| VolumeError::NoVolume {
            name: name.to_owned(),
        })
    }

    /// Makes a volume of zeros. Its length is rounded up to whole blocks.
    ///
    /// # Errors
    /// [`VolumeError::VolumeExists`], [`VolumeError::Invalid`], [`VolumeError::NoSpace`]; errors of
    /// the device and of the index. If one comes after the volume was made, [`Self::failed`] has
    /// the volume, and the next start opens it.
    pub fn create_volume(&self, name: &str, len_bytes: u64, settings: VolumeSettings) -> Result<Arc<Volume>> {
        check_name(name)?;
        let blocks = check_len(len_bytes)?;
        let mut superblock = self.shared.superblock();
        if self.volume(name).is_ok() || lock(&self.unopened).contains(name) {
            return Err(VolumeError::VolumeExists {
                name: name.to_owned(),
            });
        }
        // A volume that could not be read may have this name. It has the lower number then, which
        // decides who keeps the name.
        let may_revive = self.shared.may_collect();
        for husk in self.all().into_iter().filter(|one| may_revive && one.is_husk()) {
            let Some(_dissolving) = husk.try_dissolving() else {
                continue;
            };
            if husk.is_husk() && husk.slot().open.is_none() {
                husk.revive(name, blocks, settings)?;
                drop(_dissolving);
                return Ok(husk);
            }
        }
        let id = superblock.next_volume;
        let mut next = superblock.clone();
        next.next_volume = id.next();
        write_superblock(&*self.shared.device, &mut next)?;
        *superblock = next;
        let mut header = VolumeHeader {
            volume: id,
            counter: 1,
            name: name.to_owned(),
            blocks,
            birth: 1,
            epoch: 0,
            root: None,
            state: None,
            log: None,
            settings,
        };
        let (extent, granted) = self.begin_volume(&mut header)?;
        let opened = granted.and_then(|()| self.open_new(id, extent));
        if let Err(error) = &opened {
            tracing::error!(volume = %id, name, %error, "the volume was made, but cannot be opened");
            lock(&self.failed).insert(id, error.to_string());
            lock(&self.unopened).insert(name.to_owned());
        }
        opened
    }

    /// Writes the header of a new volume, and enters it in the table. If that succeeds, there is
    /// the volume: then the second result says whether it got extents for its log and its blocks.
    fn begin_volume(&self, header: &mut VolumeHeader) -> Result<(ExtentNumber, Result<()>)> {
        let device = &*self.shared.device;
        // Nobody else may take the extents meanwhile.
        let mut table = self.shared.table();
        if table.free() < 3 {
            return Err(VolumeError::NoSpace);
        }
        let extent = table.find_header()?;
        write_copies(device, self.shared.pool, extent, header)?;
        table.begin_volume(device, extent, header.volume)?;
        Ok((extent, table.grant(device, header.volume, 2).map(|_| ())))
    }

    fn open_new(&self, id: VolumeId, extent: ExtentNumber) -> Result<Arc<Volume>> {
        let recovered = recover(Arc::clone(&self.shared), id, extent)?;
        let (made, _) = finish_recovery(&self.shared, vec![recovered])?;
        let volume = made.get(&id).cloned().ok_or(VolumeError::NoSpace)?;
        let volumes = self.volumes.write();
        volumes
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .extend(made);
        Ok(volume)
    }

    /// Removes a volume: its name at once, its blocks by and by (see [`Volume::dissolve`]). The
    /// caller has ended all its requests.
    ///
    /// # Errors
    /// [`VolumeError::NoVolume`]; errors of the device.
    pub fn remove_volume(&self, name: &str) -> Result<Arc<Volume>> {
        let _superblock = self.shared.superblock();
        let volume = self.volume(name)?;
        volume.rename("")?;
        Ok(volume)
    }

    /// Gives the pool a longer device: a file grows to `len_bytes`; a disk must have been grown
    /// before.
    ///
    /// # Errors
    /// [`VolumeError::Invalid`] if it is not longer; errors of the device: then the pool uses
    /// nothing of the new part until a growth or a start succeeds.
    pub fn grow(&self, len_bytes: u64) -> Result<()> {
        let extents = extents_of(len_bytes)?;
        let mut superblock = self.shared.superblock();
        if extents <= superblock.extents {
            return Err(VolumeError::Invalid {
                what: "size of the pool",
                why: format!(
                    "the pool has {} extents of 4 MiB, and can only grow",
                    superblock.extents
                ),
            });
        }
        let device = &*self.shared.device;
        device.grow(len_bytes)?;
        let mut table = self.shared.table();
        let mut longer = superblock.clone();
        (longer.extents, longer.table) = table.extend(device, extents)?;
        write_superblock(device, &mut longer)?;
        table.end_growth();
        *superblock = longer;
        Ok(())
    }

    /// Flushes every volume and makes its checkpoint, so that the next start has nothing to replay.
    ///
    /// # Errors
    /// The first error; the other volumes have been tried.
    pub fn close(&self) -> Result<()> {
        // A checkpoint that is not made leaves the log, which the next start replays.
        let close = |volume: &Arc<Volume>| volume.flush_now().and_then(|()| volume.checkpoint());
        let results: Vec<Result<()>> = self.all().iter().map(close).collect();
        results.into_iter().collect()
    }
}

/// Renames volumes that were made while another one of their name could not be read.
fn give_distinct_names(volumes: &Volumes) -> Result<()> {
    let mut names = BTreeSet::from([String::new()]);
    for volume in volumes.values() {
        let name = volume.name();
        if !name.is_empty() && names.contains(&name) {
            let mut other: String = name.chars().take(50).collect();
            while names.contains(&other) {
                other = format!("{other}-{}", volume.id);
            }
            tracing::warn!(volume = %volume.id, name, other, "another volume has its name; it gets another one");
            volume.rename(&other)?;
        }
        names.insert(volume.name());
    }
    Ok(())
}

impl Volume {
    fn rename(&self, name: &str) -> Result<()> {
        let mut head = self.head();
        let header = VolumeHeader {
            name: name.to_owned(),
            ..head.header.clone()
        };
        let result = self.write_header(&mut head, header);
        self.or_stop(result)
    }

    /// Changes the settings, durably.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn set(&self, settings: VolumeSettings) -> Result<()> {
        let mut head = self.head();
        let header = VolumeHeader {
            settings,
            ..head.header.clone()
        };
        let result = self.write_header(&mut head, header);
        self.or_stop(result)?;
        self.keep_settings(settings);
        Ok(())
    }
}
