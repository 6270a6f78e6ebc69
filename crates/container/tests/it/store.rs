//! Shared code of the tests: a store in memory that can be damaged, and containers of known chunks.

use std::sync::Arc;

use container::{
    CatalogView, Compression, ContainerBuilder, ContainerError, Containers, PendingEntry, SealedContainer,
    compress_region,
};
use crypto::{DomainKey, EncryptionKey, MasterKeys};
use env::Env;
use env::fault::FaultStorage;
use format::container::CatalogEntry;
use format::names;
use types::{
    ChunkLocation, ContainerId, ContainerKind, Generation, ObjectName, SequenceNumber, SessionId, Slot,
    StoreId,
};

pub(crate) struct Store {
    pub(crate) storage: FaultStorage,
    pub(crate) containers: Containers,
    seed: u64,
}

pub(crate) fn keys(n: u8) -> MasterKeys {
    MasterKeys {
        domain: DomainKey::from_bytes([n; 32]),
        encryption: EncryptionKey::from_bytes([n + 1; 32]),
    }
}

pub(crate) fn store_id(n: u8) -> StoreId {
    StoreId::from_bytes([n; 16])
}

impl Store {
    pub(crate) fn new() -> Self {
        Self::on(FaultStorage::new(), store_id(1), &keys(1))
    }

    pub(crate) fn on(storage: FaultStorage, store: StoreId, keys: &MasterKeys) -> Self {
        let (env, _) = Env::simulated(Arc::new(storage.clone()), 7);
        Self {
            containers: Containers::new(env, store, keys, 64 << 20),
            storage,
            seed: 8,
        }
    }

    /// The same storage, with nothing cached or remembered.
    pub(crate) fn reopen(&mut self) {
        self.seed += 1;
        let (env, _) = Env::simulated(Arc::new(self.storage.clone()), self.seed);
        self.containers = Containers::new(env, store_id(1), &keys(1), 64 << 20);
    }

    /// A store of another process on the same storage.
    pub(crate) fn beside(&self) -> Self {
        let mut other = Self::on(self.storage.clone(), store_id(1), &keys(1));
        other.seed = self.seed + 1000;
        other.reopen();
        other
    }

    pub(crate) fn seal(
        &self,
        id: ContainerId,
        generation: u32,
        regions: &[Vec<Vec<u8>>],
        compression: Compression,
    ) -> SealedContainer {
        let mut builder = ContainerBuilder::new(id, self::generation(generation));
        for chunks in regions {
            let entries: Vec<PendingEntry> = chunks.iter().map(|chunk| self.entry(chunk)).collect();
            builder.append(compress_region(chunks.concat(), compression), &entries);
        }
        builder.seal(&self.containers).unwrap()
    }

    pub(crate) fn entry(&self, chunk: &[u8]) -> PendingEntry {
        let fingerprint = self.containers.fingerprinter().chunk(chunk);
        PendingEntry::chunk(fingerprint, u32::try_from(chunk.len()).unwrap())
    }

    /// Seals and puts a first generation.
    pub(crate) fn put(&self, id: ContainerId, regions: &[Vec<Vec<u8>>]) -> SealedContainer {
        let sealed = self.seal(id, 0, regions, Compression::Level(3));
        self.containers.put(&sealed).unwrap();
        sealed
    }

    /// Rewrites a container with some of its slots, in one region.
    pub(crate) fn put_survivors(&self, id: ContainerId, n: u32, survivors: &[(u32, &[u8])]) {
        let entries: Vec<CatalogEntry> = survivors
            .iter()
            .map(|(at, chunk)| survivor(self.entry(chunk), slot(*at)))
            .collect();
        let plain: Vec<u8> = survivors
            .iter()
            .flat_map(|(_, chunk)| chunk.iter().copied())
            .collect();
        let mut builder = ContainerBuilder::new(id, generation(n));
        builder.append_survivors(compress_region(plain, Compression::Level(3)), &entries);
        self.containers
            .put(&builder.seal(&self.containers).unwrap())
            .unwrap();
    }

    pub(crate) fn read(&self, id: ContainerId, at: u32) -> Result<Vec<u8>, ContainerError> {
        self.containers.read_chunk(ChunkLocation {
            container: id,
            slot: slot(at),
        })
    }

    /// Reads every chunk by its region. The first error ends it.
    pub(crate) fn read_all(&self, id: ContainerId) -> Result<Vec<Vec<u8>>, ContainerError> {
        let view = self.containers.catalog(id)?;
        view.entries()
            .to_vec()
            .iter()
            .map(|entry| self.read(id, entry.slot.get()))
            .collect()
    }

    pub(crate) fn damage(&self, name: &ObjectName, how: impl FnOnce(&mut Vec<u8>)) {
        assert!(self.storage.damage(name, how), "{name} exists");
    }
}

pub(crate) fn survivor(entry: PendingEntry, slot: Slot) -> CatalogEntry {
    let PendingEntry {
        fingerprint,
        len,
        level,
        logical_len,
    } = entry;
    CatalogEntry {
        slot,
        fingerprint,
        len,
        level,
        logical_len,
    }
}

pub(crate) fn id(kind: ContainerKind, session: u64, sequence: u32) -> ContainerId {
    ContainerId {
        session: SessionId::new(session).unwrap(),
        kind,
        sequence: SequenceNumber::new(sequence).unwrap(),
    }
}

pub(crate) fn data(sequence: u32) -> ContainerId {
    id(ContainerKind::Data, 3, sequence)
}

pub(crate) fn slot(n: u32) -> Slot {
    Slot::new(n).unwrap()
}

pub(crate) fn generation(n: u32) -> Generation {
    Generation::new(n).unwrap()
}

pub(crate) fn name(id: ContainerId, n: u32) -> ObjectName {
    names::container(id, generation(n))
}

/// Incompressible bytes, the same for the same seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

/// Two regions of three chunks each. One region is compressible.
pub(crate) fn sample() -> Vec<Vec<Vec<u8>>> {
    vec![
        vec![noise(1, 100), noise(2, 37), noise(3, 1)],
        vec![b"to be or not to be ".repeat(20), vec![7; 300], noise(4, 50)],
    ]
}

pub(crate) fn plan_of(view: &CatalogView) -> Vec<u32> {
    view.entries().iter().map(|entry| entry.slot.get()).collect()
}
