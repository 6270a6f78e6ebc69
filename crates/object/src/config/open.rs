//! Opening a store.

use crypto::Credential;
use env::Env;
use format::FormatError;
use format::names;

use super::copies::{self, ConfigDamage, CopyFault, Newest, Survey};
use super::create::{damaged, remains};
use super::{OpenConfig, slots};
use crate::ObjectError;

/// Opens the newest revision with a whole copy. Writes nothing.
///
/// [`OpenConfig::damage`] has the damage that did not prevent opening. The call takes at most as
/// long as the costs of all key slots together.
///
/// # Errors
/// `NotAStore`, `ConfigMissing`, `ConfigDamaged`, `ConfigForged`; `NewerFormat`, `UnknownFeatures`;
/// `WrongPassword`, `PasswordNeeded`, `PasswordNotTaken`, `SlotUnusable`; errors of the storage.
pub fn open(env: &Env, credential: Credential<'_>) -> Result<OpenConfig, ObjectError> {
    match copies::survey(env)? {
        Survey::Found(newest) => unlock(newest, credential),
        Survey::Empty => Err(match remains(env)? {
            Some(folder) => ObjectError::ConfigMissing { folder },
            None => ObjectError::NotAStore,
        }),
        Survey::Unreadable { newest, .. } => Err(match newest.fault {
            CopyFault::Undecodable(FormatError::NotAStore) if remains(env)?.is_none() => {
                ObjectError::NotAStore
            }
            _ => damaged(newest),
        }),
    }
}

/// Tries the decoded copies. They differ only if somebody tampered with one or both.
fn unlock(newest: Newest, credential: Credential<'_>) -> Result<OpenConfig, ObjectError> {
    let Newest {
        revision,
        configs,
        mut damage,
        older,
        ..
    } = newest;
    let mut refusal = ObjectError::ConfigForged { revision };
    let mut opened = None;
    for (copy, config) in configs {
        let attempt = slots::unlock(&config, credential).and_then(|(slot, keys)| {
            let settings = slots::open_settings(&config, &keys.encryption, revision)?;
            Ok((slot, keys, settings))
        });
        match attempt {
            Ok(found) if opened.is_none() => opened = Some((config, found)),
            // A holder of the keys has published two contents as one revision: the first counts.
            Ok(_) => {}
            Err(refused) => {
                refusal = refused;
                damage.push(ConfigDamage {
                    name: names::config(revision, copy),
                    fault: CopyFault::Forged,
                });
            }
        }
    }
    let Some((config, (slot, keys, settings))) = opened else {
        return Err(refusal);
    };
    Ok(OpenConfig {
        revision,
        config,
        settings,
        keys,
        slot,
        damage,
        older,
    })
}
