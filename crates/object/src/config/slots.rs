//! Key slots: from a password to the store's keys, and back.
//!
//! The wrapped keys are bound to the store's id and the slot's id. So a slot that is copied into
//! another store or under another id does not open. Pure, except for the random bytes of a new
//! slot.

use crypto::{Argon2Cost, Credential, CryptoError, EncryptionKey, MasterKeys, SlotDerivation};
use env::Env;
use format::FormatError;
use format::config::{Config, KeyDerivation, KeySlot, SETTINGS_SEAL_PURPOSE, Settings};
use types::{Revision, StoreId};

use crate::ObjectError;
use crate::slot_id::SlotId;

/// The parameters of a new key slot.
#[derive(Debug, Clone, Copy)]
pub struct NewSlot<'a> {
    /// The password, or none.
    pub credential: Credential<'a>,
    /// For humans: user and host. At most 1024 bytes.
    pub label: &'a str,
    /// The cost of one guess at the password; ignored without a password.
    pub cost: Argon2Cost,
}

/// The public data of a key slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotInfo<'a> {
    /// Its id.
    pub id: SlotId,
    /// Its label.
    pub label: &'a str,
    /// The cost of one guess at its password; `None`: it has no password.
    pub cost: Option<Argon2Cost>,
    /// Whether it is the one that opened the store.
    pub is_current: bool,
}

impl<'a> SlotInfo<'a> {
    pub(super) fn of(slot: &'a KeySlot, current: SlotId) -> Self {
        let id = SlotId::from_bytes(slot.id);
        let cost = match derivation(&slot.kdf) {
            SlotDerivation::Argon2id { cost, .. } => Some(cost),
            SlotDerivation::NoPassword { .. } => None,
        };
        Self {
            id,
            label: &slot.label,
            cost,
            is_current: id == current,
        }
    }
}

fn derivation(kdf: &KeyDerivation) -> SlotDerivation {
    match *kdf {
        KeyDerivation::Argon2id {
            salt,
            memory_kib,
            passes,
            lanes,
        } => SlotDerivation::Argon2id {
            salt,
            cost: Argon2Cost {
                memory_kib,
                passes,
                lanes,
            },
        },
        KeyDerivation::None { salt } => SlotDerivation::NoPassword { salt },
    }
}

/// The associated data of a slot's wrapped keys.
fn slot_aad(store: StoreId, id: SlotId) -> [u8; 24] {
    let mut aad = [0; 24];
    aad[..16].copy_from_slice(store.as_bytes());
    aad[16..].copy_from_slice(id.as_bytes());
    aad
}

/// Makes a slot. This takes as long as the cost says.
pub(super) fn make(
    env: &Env,
    store: StoreId,
    keys: &MasterKeys,
    new: &NewSlot<'_>,
) -> Result<KeySlot, ObjectError> {
    let (mut id, mut salt) = ([0; 8], [0; 32]);
    env.entropy.fill(&mut id);
    env.entropy.fill(&mut salt);
    let Argon2Cost {
        memory_kib,
        passes,
        lanes,
    } = new.cost;
    let kdf = match new.credential {
        Credential::Password(_) => KeyDerivation::Argon2id {
            salt,
            memory_kib,
            passes,
            lanes,
        },
        Credential::NoPassword => KeyDerivation::None { salt },
    };
    let wrapped = crypto::wrap(
        new.credential,
        &derivation(&kdf),
        &slot_aad(store, SlotId::from_bytes(id)),
        keys,
    )
    .map_err(ObjectError::Credential)?;
    Ok(KeySlot {
        id,
        kdf,
        wrapped: wrapped.to_vec(),
        label: new.label.to_owned(),
    })
}

/// Tries the slots that take this kind of credential, in order.
pub(super) fn unlock(
    config: &Config,
    credential: Credential<'_>,
) -> Result<(SlotId, MasterKeys), ObjectError> {
    let mut refusal = match credential {
        Credential::Password(_) => ObjectError::PasswordNotTaken,
        Credential::NoPassword => ObjectError::PasswordNeeded,
    };
    for slot in &config.key_slots {
        let id = SlotId::from_bytes(slot.id);
        let opened = crypto::unwrap(
            credential,
            &derivation(&slot.kdf),
            &slot_aad(config.store, id),
            &slot.wrapped,
        );
        match opened {
            Ok(keys) => return Ok((id, keys)),
            Err(CryptoError::OtherCredential) => {}
            // A slot that could not be tried may have been the right one. So this error takes
            // precedence over "wrong password".
            Err(CryptoError::WrongPassword) => {
                if !matches!(refusal, ObjectError::SlotUnusable { .. }) {
                    refusal = ObjectError::WrongPassword;
                }
            }
            Err(source) => refusal = ObjectError::SlotUnusable { slot: id, source },
        }
    }
    Err(refusal)
}

/// Seals the settings under a fresh salt. The rest of the config must be final.
pub(super) fn seal_settings(env: &Env, config: &mut Config, key: &EncryptionKey, settings: &Settings) {
    env.entropy.fill(&mut config.settings_salt);
    let mut sealed = settings.to_bytes();
    key.seal_key(SETTINGS_SEAL_PURPOSE, &config.settings_salt)
        .seal(0, &config.aad(), &mut sealed, 0);
    config.sealed_settings = sealed;
}

/// Opens the settings. This also checks that a holder of the keys wrote this config.
pub(super) fn open_settings(
    config: &Config,
    key: &EncryptionKey,
    revision: Revision,
) -> Result<Settings, ObjectError> {
    let mut sealed = config.sealed_settings.clone();
    let plain = key
        .seal_key(SETTINGS_SEAL_PURPOSE, &config.settings_salt)
        .open(0, &config.aad(), &mut sealed)
        .map_err(|_| ObjectError::ConfigForged { revision })?;
    Settings::decode(plain).map_err(|source| match source {
        FormatError::NewerVersion { found, known, .. } => ObjectError::NewerFormat { found, known },
        other => ObjectError::InvalidConfig(other),
    })
}
