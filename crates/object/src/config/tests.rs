//! States that the storage cannot cause, because decoding refuses them first.

use std::sync::Arc;

use env::{Env, MemoryStorage};
use format::config::{KeyDerivation, Settings};

use super::{Argon2Cost, Credential, NewSlot, create, slots};
use crate::ObjectError;

#[test]
fn an_untried_key_slot_is_distinguished_from_a_wrong_password() {
    let (env, _) = Env::simulated(Arc::new(MemoryStorage::new()), 1);
    let settings = Settings {
        chunk_avg_bytes: 8192,
        chunk_min_bytes: 4096,
        chunk_max_bytes: 65536,
        node_avg_children: 512,
        region_bytes: 131_072,
        container_bytes: 16 << 20,
    };
    let cost = Argon2Cost {
        memory_kib: 8,
        passes: 1,
        lanes: 1,
    };
    let new = |password| NewSlot {
        credential: Credential::Password(password),
        label: "",
        cost,
    };
    let mut config = create(&env, &settings, &[new(b"a"), new(b"b")], None)
        .unwrap()
        .config;
    let try_with = |password| slots::unlock(&config, Credential::Password(password)).map(drop);
    assert!(matches!(try_with(b"c"), Err(ObjectError::WrongPassword)));
    if let KeyDerivation::Argon2id { passes, .. } = &mut config.key_slots[0].kdf {
        *passes = 1000;
    }
    let try_with = |password| slots::unlock(&config, Credential::Password(password)).map(drop);
    assert!(matches!(try_with(b"a"), Err(ObjectError::SlotUnusable { .. })));
    assert!(matches!(try_with(b"c"), Err(ObjectError::SlotUnusable { .. })));
    assert!(try_with(b"b").is_ok());
}
