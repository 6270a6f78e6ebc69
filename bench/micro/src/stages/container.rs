//! Containers: their catalogs, and regions there and back in memory.

use std::sync::Arc;

use container::{CatalogView, Compression, ContainerBuilder, Containers, PendingEntry, compress_region};
use crypto::{DomainKey, EncryptionKey, MasterKeys};
use env::{Env, MemoryStorage};
use format::container::{Catalog, CatalogEntry};
use types::{
    ContainerId, ContainerKind, Fingerprint, Generation, RegionIndex, SequenceNumber, SessionId, Slot,
    StoreId,
};

use crate::data::{chunk_lens, noise, words};
use crate::harness::{Case, Options, compare};

const REGION_BYTES: usize = 128 << 10;
const CONTAINER_BYTES: usize = 16 << 20;

pub fn run(options: &Options, _text: &[u8]) {
    let catalog = catalog();
    let entries = catalog.entries.len();
    let encoded = catalog.to_bytes();
    let view = CatalogView::from_entries(id(), Generation::FIRST, catalog.entries.clone()).expect("sound");
    let known: Vec<Fingerprint> = catalog.entries.iter().map(|entry| entry.fingerprint).collect();
    compare(
        options,
        "catalog",
        &format!("{entries} entries, {} bytes; per entry or look-up", encoded.len()),
        vec![
            Case::operations("encode", entries, || catalog.to_bytes().len() as u64),
            Case::operations("decode", entries, || {
                Catalog::decode(&encoded).expect("encoded above").entries.len() as u64
            }),
            Case::operations("look-up, known", entries, || {
                known.iter().filter(|print| view.find(print).is_some()).count() as u64
            }),
        ],
    );
    let containers = containers();
    let sealed = fill(&containers);
    containers.put(&sealed).expect("memory");
    let view = containers.catalog(id()).expect("put above");
    let regions = u32::try_from(view.rows().len()).expect("some hundred");
    compare(
        options,
        "container",
        "16 MiB of random bytes, raw regions of 128 KiB, in memory",
        vec![
            Case::bytes("fill, seal", CONTAINER_BYTES, || {
                fill(&containers).bytes().len() as u64
            }),
            Case::bytes("read region by region", CONTAINER_BYTES, || {
                (0..regions)
                    .map(|n| {
                        containers
                            .read_region(&view, RegionIndex::new(n).expect("some hundred"))
                            .expect("sound")
                            .bytes()
                            .len() as u64
                    })
                    .sum()
            }),
        ],
    );
}

fn catalog() -> Catalog {
    let mut random = words(6);
    let entries = chunk_lens(8 << 10, CONTAINER_BYTES)
        .into_iter()
        .zip(0..)
        .map(|(len, n)| {
            let bytes: Vec<u8> = random.by_ref().take(4).flat_map(u64::to_le_bytes).collect();
            let len = u32::try_from(len).expect("at most 64 KiB");
            CatalogEntry {
                slot: Slot::new(n).expect("some thousand"),
                fingerprint: Fingerprint::from_bytes(bytes.try_into().expect("32 bytes")),
                len,
                level: PendingEntry::chunk(Fingerprint::from_bytes([0; 32]), len).level,
                logical_len: len.into(),
            }
        })
        .collect();
    Catalog { entries }
}

fn containers() -> Containers {
    let keys = MasterKeys {
        domain: DomainKey::from_bytes([1; 32]),
        encryption: EncryptionKey::from_bytes([2; 32]),
    };
    let (env, _) = Env::simulated(Arc::new(MemoryStorage::new()), 5);
    Containers::new(env, StoreId::from_bytes([4; 16]), &keys, 64 << 20)
}

fn fill(containers: &Containers) -> container::SealedContainer {
    let mut builder = ContainerBuilder::new(id(), Generation::FIRST);
    let print = Fingerprint::from_bytes([7; 32]);
    for seed in 0..(CONTAINER_BYTES / REGION_BYTES) as u64 {
        let plain = REGION.with(|bytes| bytes[..].to_vec());
        let entries: Vec<PendingEntry> = (0..16)
            .map(|n| {
                let mut bytes = *print.as_bytes();
                bytes[..16].copy_from_slice(&(u128::from(seed) << 64 | n).to_le_bytes());
                PendingEntry::chunk(Fingerprint::from_bytes(bytes), (REGION_BYTES / 16) as u32)
            })
            .collect();
        builder.append(compress_region(plain, Compression::Off), &entries);
    }
    builder.seal(containers).expect("within the limits")
}

thread_local! {
    static REGION: Vec<u8> = noise(8, REGION_BYTES);
}

fn id() -> ContainerId {
    ContainerId {
        session: SessionId::new(1).expect("not 0"),
        kind: ContainerKind::Data,
        sequence: SequenceNumber::new(1).expect("within the limits"),
    }
}
