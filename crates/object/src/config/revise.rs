//! Changes of the key slots, and repair of the config. Each is a new revision.
//!
//! If another process takes the revision's number first, this one reads that revision and applies
//! its change to it. The costly wrapping is done once, before the race. If an earlier attempt has
//! made the change already, it is made durable, and counts.

use env::Env;
use format::config::{Config, KeySlot};
use format::names::CONFIG_FOLDER;
use types::ObjectName;

use super::OpenConfig;
use super::copies::{self, ATTEMPTS_MAX, Newest, Published, Survey};
use super::create::damaged;
use super::slots::{self, NewSlot};
use crate::ObjectError;
use crate::revisions::next_number;
use crate::slot_id::SlotId;

/// Adds a password. Returns the config with it, and the new slot.
///
/// # Errors
/// `Credential`, `InvalidConfig` (too many slots, a label too long), `ReadOnly`, `ConfigForged`,
/// `OtherStore`, `Contended`; errors of the storage. Then the change may be made or not;
/// [`super::open`] tells.
pub fn add_slot(
    env: &Env,
    open: &OpenConfig,
    new: &NewSlot<'_>,
) -> Result<(OpenConfig, SlotId), ObjectError> {
    let slot = slots::make(env, open.store(), &open.keys, new)?;
    let id = SlotId::from_bytes(slot.id);
    let revised = revise(env, open, |current, _| {
        Ok(if has(current, id) {
            None
        } else {
            Some(with(current, &slot))
        })
    })?;
    Ok((revised, id))
}

/// Removes a password. Later revisions cannot be opened with it. Its holder keeps everything that
/// they copied before, keys included.
///
/// # Errors
/// `NoSuchSlot`, `LastSlot`, and as [`add_slot`].
pub fn remove_slot(env: &Env, open: &OpenConfig, slot: SlotId) -> Result<OpenConfig, ObjectError> {
    revise(env, open, |current, attempt| match current {
        _ if !has(current, slot) => done_unless_first(attempt, slot),
        [_] => Err(ObjectError::LastSlot { slot }),
        _ => Ok(Some(without(current, slot))),
    })
}

/// Replaces a password by another in one revision. Returns the config with it, and the new slot.
///
/// # Errors
/// `NoSuchSlot`, and as [`add_slot`].
pub fn change_slot(
    env: &Env,
    open: &OpenConfig,
    old: SlotId,
    new: &NewSlot<'_>,
) -> Result<(OpenConfig, SlotId), ObjectError> {
    let slot = slots::make(env, open.store(), &open.keys, new)?;
    let id = SlotId::from_bytes(slot.id);
    let mut revised = revise(env, open, |current, _| {
        match (has(current, old), has(current, id)) {
            (false, true) => Ok(None),
            (false, false) => Err(ObjectError::NoSuchSlot { slot: old }),
            (true, true) => Ok(Some(without(current, old))),
            (true, false) => Ok(Some(with(&without(current, old), &slot))),
        }
    })?;
    if revised.slot == old {
        revised.slot = id;
    }
    Ok((revised, id))
}

/// Deletes revisions below the newest one, which a change that ended early has left: a removed
/// password still opens them. The result names those that the storage does not delete.
///
/// # Errors
/// As [`add_slot`].
pub fn delete_older(env: &Env, open: &OpenConfig) -> Result<OpenConfig, ObjectError> {
    revise(env, open, |_, _| Ok(None))
}

/// Revisions below the open one: what [`delete_older`] deletes.
///
/// # Errors
/// Of the storage.
pub fn older(env: &Env, open: &OpenConfig) -> Result<Vec<ObjectName>, ObjectError> {
    copies::older(env, open.revision)
}

/// Publishes the same config as a new revision, with two whole copies. Deletes older ones.
///
/// # Errors
/// As [`add_slot`].
pub fn repair(env: &Env, open: &OpenConfig) -> Result<OpenConfig, ObjectError> {
    revise(env, open, |current, _| Ok(Some(current.to_vec())))
}

/// Publishes the next revision with the slots that `change` makes of the newest one's. `change`
/// returns `None` if they are right already. It receives the number of earlier attempts.
fn revise(
    env: &Env,
    open: &OpenConfig,
    mut change: impl FnMut(&[KeySlot], u32) -> Result<Option<Vec<KeySlot>>, ObjectError>,
) -> Result<OpenConfig, ObjectError> {
    for attempt in 0..ATTEMPTS_MAX {
        let (newest, current) = reread(env, open)?;
        let (revision, config) = match change(&current.key_slots, attempt)? {
            None => {
                copies::settle(env, &newest, &current)?;
                (newest.revision, current)
            }
            Some(key_slots) => {
                let mut next = Config { key_slots, ..current };
                slots::seal_settings(env, &mut next, &open.keys.encryption, &open.settings);
                next.check().map_err(ObjectError::InvalidConfig)?;
                let revision = next_number(Some(newest.highest), CONFIG_FOLDER)?;
                if copies::publish(env, revision, &next)? == Published::No {
                    continue;
                }
                (revision, next)
            }
        };
        let older = copies::delete_older(env, revision)?;
        let (damage, settings, keys, slot) = (Vec::new(), open.settings, open.keys.clone(), open.slot);
        return Ok(OpenConfig {
            revision,
            config,
            settings,
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

/// The newest revision now. Checks by the keys that it belongs to this store.
fn reread(env: &Env, open: &OpenConfig) -> Result<(Newest, Config), ObjectError> {
    let mut newest = match copies::survey(env)? {
        Survey::Found(newest) => newest,
        Survey::Empty => return Err(ObjectError::NotAStore),
        Survey::Unreadable { newest, .. } => return Err(damaged(newest)),
    };
    let mut refusal = ObjectError::ConfigForged {
        revision: newest.revision,
    };
    for (_, config) in std::mem::take(&mut newest.configs) {
        if config.store != open.store() {
            refusal = ObjectError::OtherStore {
                expected: open.store(),
                found: config.store,
            };
            continue;
        }
        match slots::open_settings(&config, &open.keys.encryption, newest.revision) {
            Ok(_) if config.features.unknown_to_write() != 0 => {
                return Err(ObjectError::ReadOnly {
                    unknown: config.features.unknown_to_write(),
                });
            }
            Ok(_) => return Ok((newest, config)),
            Err(refused) => refusal = refused,
        }
    }
    Err(refusal)
}

fn has(slots: &[KeySlot], id: SlotId) -> bool {
    slots.iter().any(|slot| slot.id == *id.as_bytes())
}

fn with(slots: &[KeySlot], slot: &KeySlot) -> Vec<KeySlot> {
    slots.iter().chain([slot]).cloned().collect()
}

fn without(slots: &[KeySlot], id: SlotId) -> Vec<KeySlot> {
    slots
        .iter()
        .filter(|slot| slot.id != *id.as_bytes())
        .cloned()
        .collect()
}

/// If the slot is missing after our attempt, it is removed as intended, by us or by another
/// process.
fn done_unless_first(attempt: u32, slot: SlotId) -> Result<Option<Vec<KeySlot>>, ObjectError> {
    if attempt == 0 {
        Err(ObjectError::NoSuchSlot { slot })
    } else {
        Ok(None)
    }
}
