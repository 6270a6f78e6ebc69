//! One sealed object: when it opens, and with which errors it is refused.

use std::sync::Arc;

use crypto::EncryptionKey;
use env::fault::FaultStorage;
use env::{MemoryStorage, Storage};
use format::FormatError;
use format::frame::{DIGEST_BYTES, FRAME_OVERHEAD_BYTES, ObjectKind, append_digest};
use object::{ObjectError, Sealer};
use proptest::prelude::*;
use types::{ObjectName, StoreId};

use crate::support::{Interrupted, env_on};

fn key() -> EncryptionKey {
    EncryptionKey::from_bytes([7; 32])
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

fn sealer() -> (FaultStorage, Sealer) {
    let storage = FaultStorage::new();
    let env = env_on(storage.clone(), 1);
    (storage, Sealer::new(env, StoreId::from_bytes([1; 16]), key()))
}

/// Makes the digest fit again, like somebody who knows the format but does not have the key.
fn refit(object: &mut Vec<u8>) {
    object.truncate(object.len() - DIGEST_BYTES);
    append_digest(object);
}

#[test]
fn get_returns_the_plain_bytes_and_the_stored_ones_reveal_nothing() {
    let (storage, sealer) = sealer();
    let plain = b"a secret of some length";
    sealer.put(&name("a/1"), ObjectKind::Claim, plain).unwrap();
    assert_eq!(sealer.get(&name("a/1"), ObjectKind::Claim).unwrap(), plain);
    let stored = storage.get(&name("a/1")).unwrap();
    assert_eq!(stored.len(), plain.len() + FRAME_OVERHEAD_BYTES);
    assert!(!stored.windows(8).any(|w| plain.windows(8).any(|p| p == w)));
    assert_eq!(
        Sealer::check_digest(sealer.env(), &name("a/1")).unwrap(),
        ObjectKind::Claim
    );
}

#[test]
fn the_same_content_never_has_the_same_bytes() {
    let (storage, sealer) = sealer();
    sealer.put(&name("a/1"), ObjectKind::Claim, b"same").unwrap();
    sealer.put(&name("a/2"), ObjectKind::Claim, b"same").unwrap();
    let (one, two) = (
        storage.get(&name("a/1")).unwrap(),
        storage.get(&name("a/2")).unwrap(),
    );
    assert_ne!(one[16..48], two[16..48]);
    assert_ne!(one[48..], two[48..]);
}

#[test]
fn every_flipped_bit_is_rot_and_every_fitted_one_a_forgery() {
    let (storage, sealer) = sealer();
    let at = name("a/1");
    sealer.put(&at, ObjectKind::Claim, b"plain").unwrap();
    let stored = storage.get(&at).unwrap();
    for byte in 0..stored.len() {
        let mut rotten = stored.clone();
        rotten[byte] ^= 1 << (byte % 8);
        let found = sealer
            .open_bytes(&at, ObjectKind::Claim, rotten.clone())
            .unwrap_err();
        assert!(matches!(found, ObjectError::Rot { .. }), "byte {byte}: {found}");
        assert!(found.is_damage() && found.to_string().contains("a/1"));
        if byte < stored.len() - DIGEST_BYTES {
            refit(&mut rotten);
            let found = sealer.open_bytes(&at, ObjectKind::Claim, rotten).unwrap_err();
            let expected = match byte {
                0..8 | 12..16 => matches!(found, ObjectError::Rot { .. }),
                8..10 => matches!(found, ObjectError::Newer { .. } | ObjectError::Rot { .. }),
                10..12 => matches!(found, ObjectError::WrongKind { .. } | ObjectError::Rot { .. }),
                _ => matches!(found, ObjectError::Forged { .. }),
            };
            assert!(expected, "byte {byte}: {found}");
        }
    }
    for len in 0..stored.len() {
        let found = sealer
            .open_bytes(&at, ObjectKind::Claim, stored[..len].to_vec())
            .unwrap_err();
        assert!(matches!(found, ObjectError::Rot { .. }), "{len}: {found}");
    }
}

#[test]
fn an_object_opens_only_as_itself() {
    let (storage, sealer) = sealer();
    sealer.put(&name("a/1"), ObjectKind::Claim, b"plain").unwrap();
    let stored = storage.get(&name("a/1")).unwrap();
    let moved = sealer.open_bytes(&name("a/2"), ObjectKind::Claim, stored.clone());
    assert!(matches!(moved, Err(ObjectError::Forged { .. })));
    let elsewhere = Sealer::new(sealer.env().clone(), StoreId::from_bytes([2; 16]), key());
    let found = elsewhere.get(&name("a/1"), ObjectKind::Claim);
    assert!(matches!(found, Err(ObjectError::Forged { .. })));
    let keyless = Sealer::new(
        sealer.env().clone(),
        sealer.store(),
        EncryptionKey::from_bytes([8; 32]),
    );
    assert!(matches!(
        keyless.get(&name("a/1"), ObjectKind::Claim),
        Err(ObjectError::Forged { .. })
    ));
    let found = sealer.get(&name("a/1"), ObjectKind::Manifest);
    assert!(matches!(
        found,
        Err(ObjectError::WrongKind {
            found: ObjectKind::Claim,
            ..
        })
    ));
    assert!(
        sealer
            .get(&name("a/3"), ObjectKind::Claim)
            .unwrap_err()
            .is_not_found()
    );
}

#[test]
fn a_taken_name_is_an_error_and_keeps_its_object() {
    let (_, sealer) = sealer();
    sealer.put(&name("a/1"), ObjectKind::Claim, b"first").unwrap();
    assert!(
        sealer
            .put(&name("a/1"), ObjectKind::Claim, b"first")
            .unwrap_err()
            .is_already_exists()
    );
    assert_eq!(sealer.get(&name("a/1"), ObjectKind::Claim).unwrap(), b"first");
}

#[test]
fn our_own_write_met_again_is_no_rival() {
    let storage = Interrupted::new(Arc::new(MemoryStorage::new()));
    let (env, _) = env::Env::simulated(storage.clone(), 1);
    let sealer = Sealer::new(env, StoreId::from_bytes([1; 16]), key());
    storage.ask_twice();
    sealer.put(&name("a/1"), ObjectKind::Claim, b"x").unwrap();
    storage.ask_twice();
    assert!(
        sealer
            .put(&name("a/1"), ObjectKind::Claim, b"x")
            .unwrap_err()
            .is_already_exists()
    );
}

#[test]
fn content_that_does_not_decode_is_an_error_of_its_own() {
    let (_, sealer) = sealer();
    sealer.put(&name("a/1"), ObjectKind::Claim, b"x").unwrap();
    let refuse = |_: &[u8]| {
        Err::<(), _>(FormatError::Invalid {
            what: "claim",
            why: "no",
        })
    };
    let found = sealer.read(&name("a/1"), ObjectKind::Claim, refuse);
    assert!(matches!(found, Err(ObjectError::Content { .. })));
    let newer = |_: &[u8]| {
        Err::<(), _>(FormatError::NewerVersion {
            what: "claim",
            found: 2,
            known: 1,
        })
    };
    let found = sealer.read(&name("a/1"), ObjectKind::Claim, newer);
    assert!(matches!(found, Err(ObjectError::Newer { .. })));
    assert_eq!(
        sealer
            .read(&name("a/1"), ObjectKind::Claim, |b| Ok(b.len()))
            .unwrap(),
        1
    );
}

#[test]
fn a_list_passes_over_foreign_names() {
    let (storage, sealer) = sealer();
    for text in ["a/2", "a/10", "a/x", "a/b/3", "b/4"] {
        storage.put(&name(text), &[b""]).unwrap();
    }
    let parse = |name: &ObjectName| name.as_str().strip_prefix("a/")?.parse::<u32>().ok();
    let found: Vec<u32> = sealer
        .list("a", parse)
        .unwrap()
        .into_iter()
        .map(|(n, _)| n)
        .collect();
    assert_eq!(found, [10, 2]);
}

proptest! {
    #[test]
    fn any_content_is_read_back(plain in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let (_, sealer) = sealer();
        sealer.put(&name("a/1"), ObjectKind::Marks, &plain).unwrap();
        prop_assert_eq!(sealer.get(&name("a/1"), ObjectKind::Marks).unwrap(), plain);
    }

    #[test]
    fn any_bytes_are_refused_quietly(mut object in proptest::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
        let (_, sealer) = sealer();
        if head && object.len() >= FRAME_OVERHEAD_BYTES {
            let whole = sealer.seal(&name("a/1"), ObjectKind::Claim, b"");
            object[..16].copy_from_slice(&whole[..16]);
            refit(&mut object);
        }
        prop_assert!(sealer.open_bytes(&name("a/1"), ObjectKind::Claim, object).unwrap_err().is_damage());
    }
}
