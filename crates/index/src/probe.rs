//! Feeds any bytes to the readers of runs, for fuzzing and for tests on damaged runs.
//!
//! It panics only if the code is wrong: if a reader panics, returns hooks out of order, or accepts
//! a structure that cannot be written again (INV-8). It also fills in the right digests, so that it
//! reaches the code behind a digest check.

use std::sync::Arc;

use env::{MemoryStorage, ObjectBytes, Storage};
use format::names;
use format::wire::digest;
use types::StoreId;

use crate::block::{BLOCK_BYTES, BODY_BYTES, DIGEST_BYTES};
use crate::kind::HookKind;
use crate::merge::{Wanted, Written};
use crate::object_header::HEAD_BYTES;
use crate::part::Part;
use crate::part_header::Meta;
use crate::run::Run;
use crate::sampling::SamplingRates;
use crate::scan::Source;
use crate::unindexed::Unread;
use crate::writer::RunId;
use crate::{Index, IndexOptions};

/// A part of a run, with the given and with the right digests.
pub fn part(bytes: &[u8]) {
    for object in [bytes.to_vec(), with_digests(bytes)] {
        let Ok((meta, _)) = Meta::decode(&object) else {
            continue;
        };
        let name = names::index_run(meta.name);
        if names::parse_index_run(&name) != Some(meta.name) {
            continue;
        }
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        storage.put(&name, &[&object]).expect("memory takes it");
        let opened = Part::open(
            Arc::clone(&storage),
            ObjectBytes::new(object),
            meta.name,
            meta.store,
        );
        let Ok(part) = opened else {
            continue;
        };
        let mut found = Vec::new();
        for kind in HookKind::ALL {
            let tops = part.section(kind).0.tops.iter();
            let drawn = bytes.chunks_exact(6).take(64).map(|six| {
                let mut key = [0; 8];
                key[..6].copy_from_slice(six);
                u64::from_le_bytes(key)
            });
            for key in tops.copied().take(64).chain(drawn) {
                if part.find(kind, key, &mut found).is_err() {
                    break;
                }
            }
        }
        let store = meta.store;
        let run = Run::new(RunId::of(meta.name).0, vec![Arc::new(part)]);
        let mut source = Source::run(&run);
        let mut last = None;
        while let Ok(Some(hook)) = source.next() {
            assert!(last <= Some(hook.order()), "out of order");
            last = Some(hook.order());
        }
        let index = Index::open(storage, store, IndexOptions::default()).expect("memory answers");
        let wanted = Wanted {
            span: (meta.name.first, meta.name.last),
            covered: run.covered(),
            rates: SamplingRates::default(),
            keep: &|_| true,
        };
        match index.write_run(&wanted, || vec![Source::run(&run)]) {
            Ok(Written::Run(id, written)) => {
                let again = index.open_run(id, &written).expect("memory answers");
                assert!(
                    again.covered() == run.covered() && again.bytes() > 0,
                    "what was written is read"
                );
            }
            Ok(Written::Damaged(_)) | Err(_) => {}
        }
    }
}

/// A list of unread catalogs of the store in its header, with the given and with the right digest.
pub fn unread(bytes: &[u8]) {
    let mut right = bytes.to_vec();
    if let Some(end) = bytes.len().checked_sub(DIGEST_BYTES) {
        let value = digest(&bytes[..end]).to_le_bytes();
        right[end..].copy_from_slice(&value);
    }
    let store = bytes.get(HEAD_BYTES..).and_then(|meta| meta.first_chunk());
    let store = StoreId::from_bytes(store.copied().unwrap_or_default());
    for object in [bytes, &right] {
        if let Ok(list) = Unread::decode(object, store) {
            let again = list.encode(store);
            assert_eq!(
                Unread::decode(&again, store),
                Ok(list),
                "what was written is read"
            );
        }
    }
}

/// The bytes with all digests that a part of this length and front would have.
fn with_digests(bytes: &[u8]) -> Vec<u8> {
    let mut object = bytes.to_vec();
    let len_at = HEAD_BYTES - 4;
    let len = object.get(len_at..HEAD_BYTES).and_then(|len| len.first_chunk());
    let end = len
        .map_or(0, |len| u32::from_le_bytes(*len) as usize)
        .saturating_add(HEAD_BYTES);
    let Some(front) = object.get(..end) else {
        return object;
    };
    let value = digest(front).to_le_bytes();
    let Some(place) = object.get_mut(end..end + DIGEST_BYTES) else {
        return object;
    };
    place.copy_from_slice(&value);
    let body = (end + DIGEST_BYTES)
        .next_multiple_of(BLOCK_BYTES)
        .min(object.len());
    let (blocks, _) = object[body..].as_chunks_mut::<BLOCK_BYTES>();
    for block in blocks {
        let value = digest(&block[..BODY_BYTES]).to_le_bytes();
        block[BODY_BYTES..].copy_from_slice(&value);
    }
    object
}
