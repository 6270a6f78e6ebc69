//! Making a store.
//!
//! The put of copy 0 decides between two creators. A crash leaves one of two states. If the config
//! opens, the store exists. If the storage has torn copies and nothing else, there is no store. The
//! next creator then takes the next revision, and deletes the torn copies when its own is durable.
//! Torn copies beside other objects are a damaged store, which [`create`] does not change.

use crypto::{DomainKey, EncryptionKey, MasterKeys};
use env::Env;
use format::FormatError;
use format::config::{Config, FORMAT_VERSION, Features, Settings};
use format::names::{self, CONFIG_FOLDER};
use types::{ContainerKind, Revision, StoreId};

use super::copies::{self, ATTEMPTS_MAX, CopyFault, Published, Survey};
use super::slots::{self, NewSlot};
use super::{ConfigDamage, OpenConfig};
use crate::ObjectError;
use crate::revisions::next_number;
use crate::slot_id::SlotId;

/// Creates a store with these settings and key slots, at least one. With `share_domain`, the store
/// joins another store's domain. Both then have the same fingerprints and chunk boundaries, so that
/// copies between them move references.
///
/// # Errors
/// `StoreExists`, also if a rival was first; `ConfigDamaged` or `ConfigMissing` if there are
/// remains of a store; `InvalidConfig`, `Credential`; errors of the storage. After an error of the
/// storage the store may exist or not. A second call tells.
pub fn create(
    env: &Env,
    settings: &Settings,
    new_slots: &[NewSlot<'_>],
    share_domain: Option<DomainKey>,
) -> Result<OpenConfig, ObjectError> {
    settings.check().map_err(ObjectError::InvalidConfig)?;
    let mut revision = vacancy(env)?;
    let (config, keys) = draw(env, settings, new_slots, share_domain)?;
    let slot = config.key_slots.first().map(|slot| SlotId::from_bytes(slot.id));
    let slot = slot.expect("the config was checked to have a slot");
    for _ in 0..ATTEMPTS_MAX {
        let (revision, config) = match copies::publish(env, revision, &config)? {
            Published::Yes => (revision, config),
            Published::No => match succeeded_by(env, &config)? {
                Some(successor) => successor,
                None => {
                    revision = vacancy(env)?;
                    continue;
                }
            },
        };
        let older = copies::delete_older(env, revision)?;
        let damage = Vec::new();
        return Ok(OpenConfig {
            revision,
            config,
            settings: *settings,
            keys,
            slot,
            damage,
            older,
        });
    }
    Err(ObjectError::Contended {
        what: CONFIG_FOLDER.to_owned(),
        attempts: ATTEMPTS_MAX,
    })
}

/// Our store under a later revision: another process that knows a password was quicker.
fn succeeded_by(env: &Env, ours: &Config) -> Result<Option<(Revision, Config)>, ObjectError> {
    let Survey::Found(mut newest) = copies::survey(env)? else {
        return Ok(None);
    };
    let Some(at) = newest
        .configs
        .iter()
        .position(|(_, config)| config.store == ours.store)
    else {
        return Ok(None);
    };
    let (_, config) = newest.configs.swap_remove(at);
    copies::settle(env, &newest, &config)?;
    Ok(Some((newest.revision, config)))
}

/// The first revision of a new store.
fn vacancy(env: &Env) -> Result<Revision, ObjectError> {
    match copies::survey(env)? {
        Survey::Found(newest) => Err(ObjectError::StoreExists {
            revision: newest.revision,
        }),
        Survey::Empty => match remains(env)? {
            Some(folder) => Err(ObjectError::ConfigMissing { folder }),
            None => Ok(Revision::FIRST),
        },
        Survey::Unreadable { highest, newest } => match remains(env)? {
            Some(_) => Err(damaged(newest)),
            None => next_number(Some(highest), CONFIG_FOLDER),
        },
    }
}

/// A folder of a store, other than the config's, that has objects.
pub(super) fn remains(env: &Env) -> Result<Option<String>, ObjectError> {
    let fixed = [
        names::MIRROR_FOLDER,
        names::BACKUPS_FOLDER,
        names::SESSIONS_FOLDER,
        names::GROUPS_FOLDER,
        names::CONDEMNED_FOLDER,
        names::REMOVED_FOLDER,
        names::DAMAGED_FOLDER,
        names::LEASE_FOLDER,
        names::SERIES_FOLDER,
        names::INDEX_FOLDER,
    ];
    let ours = |folder: &str| {
        fixed.contains(&folder) || ContainerKind::ALL.iter().any(|kind| kind.folder() == folder)
    };
    for folder in env.storage.list_folders("")? {
        if ours(&folder) && !env.storage.list(&folder)?.is_empty() {
            return Ok(Some(folder));
        }
    }
    Ok(None)
}

/// The error for a config of which no copy can be decoded.
pub(super) fn damaged(newest: ConfigDamage) -> ObjectError {
    let source = match newest.fault {
        CopyFault::Undecodable(source) => source,
        CopyFault::Missing | CopyFault::Unreadable(_) | CopyFault::Forged => FormatError::NotAStore,
    };
    ObjectError::ConfigDamaged {
        name: newest.name,
        source,
    }
}

/// Draws id and keys, and wraps the keys for every slot.
fn draw(
    env: &Env,
    settings: &Settings,
    new_slots: &[NewSlot<'_>],
    share_domain: Option<DomainKey>,
) -> Result<(Config, MasterKeys), ObjectError> {
    let mut store = [0; 16];
    env.entropy.fill(&mut store);
    let store = StoreId::from_bytes(store);
    let random_key = || {
        let mut key = [0; crypto::KEY_BYTES];
        env.entropy.fill(&mut key);
        key
    };
    let keys = MasterKeys {
        domain: share_domain.unwrap_or_else(|| DomainKey::from_bytes(random_key())),
        encryption: EncryptionKey::from_bytes(random_key()),
    };
    let key_slots = new_slots
        .iter()
        .map(|new| slots::make(env, store, &keys, new))
        .collect::<Result<_, _>>()?;
    let mut config = Config {
        version: FORMAT_VERSION,
        features: Features::default(),
        store,
        key_slots,
        sealed_settings: Vec::new(),
        settings_salt: [0; 32],
    };
    slots::seal_settings(env, &mut config, &keys.encryption, settings);
    config.check().map_err(ObjectError::InvalidConfig)?;
    Ok((config, keys))
}
