//! Shared code of the tests: an index on a storage that can be damaged, and hooks of known bits.

use std::collections::BTreeMap;
use std::sync::Arc;

use container::{CatalogView, Compression, ContainerBuilder, Containers, PendingEntry, compress_region};
use crypto::{DomainKey, EncryptionKey, MasterKeys};
use env::fault::FaultStorage;
use env::{Env, Storage};
use index::conformance::{self, fingerprint};
use index::{CANDIDATES_MAX, CandidateLists, Hook, HookIndex, HookKind, Index, IndexOptions};
use types::{ContainerId, ContainerKind, Generation, Level, ObjectName, SequenceNumber, SessionId, StoreId};

pub(crate) const SMALL: IndexOptions = IndexOptions {
    pending_bytes_max: 40 * 100,
    bytes_max: 1 << 30,
    part_entries_max: 64,
    memory_bytes_max: None,
};

pub(crate) fn store_id() -> StoreId {
    StoreId::from_bytes([4; 16])
}

pub(crate) fn open(storage: &FaultStorage, options: IndexOptions) -> Index {
    Index::open(Arc::new(storage.clone()), store_id(), options).unwrap()
}

pub(crate) fn containers(storage: &FaultStorage) -> Containers {
    let keys = MasterKeys {
        domain: DomainKey::from_bytes([1; 32]),
        encryption: EncryptionKey::from_bytes([2; 32]),
    };
    let (env, _) = Env::simulated(Arc::new(storage.clone()), 5);
    Containers::new(env, store_id(), &keys, 16 << 20)
}

pub(crate) fn session(n: u64) -> SessionId {
    SessionId::new(n).unwrap()
}

pub(crate) fn id(kind: ContainerKind, session_number: u64, sequence: u32) -> ContainerId {
    let sequence = SequenceNumber::new(sequence).unwrap();
    ContainerId {
        session: session(session_number),
        kind,
        sequence,
    }
}

pub(crate) fn data(session_number: u64, sequence: u32) -> ContainerId {
    id(ContainerKind::Data, session_number, sequence)
}

pub(crate) fn hook(bits: u64, container: ContainerId) -> Hook {
    conformance::hook(HookKind::Data, bits, container)
}

/// Numbers that are spread over all 64 bits.
pub(crate) fn bits(n: u64) -> u64 {
    n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub(crate) fn ask(index: &impl HookIndex, bits: u64, kind: HookKind) -> Vec<ContainerId> {
    let mut out = vec![data(9, 9)];
    index.candidates(&fingerprint(bits), kind, &mut out);
    out
}

/// Looks up all of these together, and compares each answer with that of a single look-up.
pub(crate) fn ask_all(index: &impl HookIndex, keys: &[(HookKind, u64)]) {
    let mut lists = CandidateLists::default();
    for kind in HookKind::ALL {
        let of_kind = keys.iter().filter(|key| key.0 == kind);
        let prints: Vec<_> = of_kind.map(|(_, bits)| fingerprint(*bits)).collect();
        index.candidates_together(None, &prints, kind, &mut lists);
        let mut alone = Vec::new();
        for (n, print) in prints.iter().enumerate() {
            index.candidates(print, kind, &mut alone);
            assert_eq!(lists.of(n), alone, "{n} of {}", prints.len());
        }
    }
}

/// Looks up by the whole fingerprint, because an index in memory samples by it.
pub(crate) fn ask_chunk(index: &impl HookIndex, containers: &Containers, n: u64) -> Vec<ContainerId> {
    let mut out = Vec::new();
    let print = containers.fingerprinter().chunk(&chunk(n));
    index.candidates(&print, HookKind::Data, &mut out);
    out
}

/// The expected answers of an exact index.
#[derive(Debug, Default)]
pub(crate) struct Model(BTreeMap<(HookKind, u64), Vec<ContainerId>>);

impl Model {
    pub(crate) fn add(&mut self, hooks: &[Hook]) {
        for hook in hooks {
            let held = self.0.entry((hook.kind, hook.bits)).or_default();
            if !held.contains(&hook.container) {
                held.push(hook.container);
            }
        }
    }

    pub(crate) fn check(&self, index: &impl HookIndex) {
        for ((kind, bits), held) in &self.0 {
            let mut expected = held.clone();
            let age = |id: &ContainerId| (id.session, id.sequence, id.kind.number());
            expected.sort_by_key(|id| std::cmp::Reverse(age(id)));
            expected.truncate(CANDIDATES_MAX);
            assert_eq!(ask(index, *bits, *kind), expected, "bits {bits:x}");
        }
        ask_all(index, &self.0.keys().copied().collect::<Vec<_>>());
    }
}

pub(crate) fn runs(storage: &FaultStorage) -> Vec<ObjectName> {
    storage
        .list("index")
        .unwrap()
        .into_iter()
        .map(|object| object.name)
        .collect()
}

pub(crate) fn chunk(n: u64) -> Vec<u8> {
    n.to_le_bytes().repeat(4)
}

/// Seals and puts a container with these chunks, and a node if the kind has any.
pub(crate) fn put(containers: &Containers, id: ContainerId, chunks: &[u64]) -> Arc<CatalogView> {
    let mut builder = ContainerBuilder::new(id, Generation::FIRST);
    let mut plain = Vec::new();
    let mut entries = Vec::new();
    for n in chunks {
        let bytes = chunk(*n);
        let fingerprint = containers.fingerprinter().chunk(&bytes);
        let mut entry = PendingEntry::chunk(fingerprint, u32::try_from(bytes.len()).unwrap());
        if id.kind == ContainerKind::Recipe {
            entry.level = Level::new(1).unwrap();
        }
        entries.push(entry);
        plain.extend_from_slice(&bytes);
    }
    builder.append(compress_region(plain, Compression::Off), &entries);
    let sealed = builder.seal(containers).unwrap();
    containers.put(&sealed).unwrap();
    sealed.catalog()
}
