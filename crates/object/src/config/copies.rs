//! The copies of the config's revisions in the storage: reading the newest, publishing the next,
//! deleting the older. Knows nothing of passwords.

use std::collections::BTreeMap;
use std::fmt;

use env::{Env, StorageError};
use format::FormatError;
use format::config::Config;
use format::names::{self, CONFIG_FOLDER, ConfigCopy};
use types::{ObjectName, Revision};

use crate::ObjectError;
use crate::sealer::{list_named, put_or_same};

/// How often what was listed may be gone before it is read: each time, somebody made a newer
/// revision.
pub(super) const ATTEMPTS_MAX: u32 = 100;

/// A copy that is not as it should be, though the store opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDamage {
    /// The copy.
    pub name: ObjectName,
    /// What is wrong with it.
    pub fault: CopyFault,
}

/// What is wrong with a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyFault {
    /// It is not there: lost, never written because of a crash, or about to be written by somebody.
    Missing,
    /// It is there and cannot be decoded.
    Undecodable(FormatError),
    /// The storage reported an error when reading it.
    Unreadable(String),
    /// It differs from the copy that opened, and is not sealed under the store's keys.
    Forged,
}

impl fmt::Display for ConfigDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name)?;
        match &self.fault {
            CopyFault::Missing => write!(f, "this copy of the config is missing"),
            CopyFault::Undecodable(why) => write!(f, "this copy of the config is damaged: {why}"),
            CopyFault::Unreadable(why) => write!(f, "this copy of the config cannot be read: {why}"),
            CopyFault::Forged => write!(f, "this copy of the config was changed without the store's keys"),
        }
    }
}

/// The newest revision of which a copy decodes.
#[derive(Debug)]
pub(super) struct Newest {
    pub(super) revision: Revision,
    /// The contents of its decodable copies: one, unless somebody tampered with the storage.
    pub(super) configs: Vec<(ConfigCopy, Config)>,
    pub(super) damage: Vec<ConfigDamage>,
    pub(super) older: Vec<ObjectName>,
    /// The highest number that any copy has, readable or not: the next revision is above it.
    pub(super) highest: Revision,
}

/// What is under `config/`.
#[derive(Debug)]
pub(super) enum Survey {
    /// Nothing with a config's name.
    Empty,
    /// Copies, none of which decodes: rot, or what a crash in `create` left.
    Unreadable { highest: Revision, newest: ConfigDamage },
    /// A config.
    Found(Newest),
}

/// Reads the newest revision.
///
/// # Errors
/// `NewerFormat` and `UnknownFeatures` as the newest revision says: an older one must not be used
/// in its stead. Of the storage; `Contended`.
pub(super) fn survey(env: &Env) -> Result<Survey, ObjectError> {
    for _ in 0..ATTEMPTS_MAX {
        if let Some(survey) = survey_once(env)? {
            return Ok(survey);
        }
    }
    Err(ObjectError::Contended {
        what: CONFIG_FOLDER.to_owned(),
        attempts: ATTEMPTS_MAX,
    })
}

/// `None` when a listed copy was gone before it could be read.
fn survey_once(env: &Env) -> Result<Option<Survey>, ObjectError> {
    let mut listed: BTreeMap<Revision, Vec<ObjectName>> = BTreeMap::new();
    for ((revision, _), meta) in list_named(env, CONFIG_FOLDER, names::parse_config)? {
        listed.entry(revision).or_default().push(meta.name);
    }
    let Some(highest) = listed.last_key_value().map(|(&revision, _)| revision) else {
        return Ok(Some(Survey::Empty));
    };
    let mut damage: Vec<ConfigDamage> = Vec::new();
    for (&revision, there) in listed.iter().rev() {
        let mut configs: Vec<(ConfigCopy, Config)> = Vec::new();
        let mut refusal = None;
        for copy in ConfigCopy::ALL {
            let name = names::config(revision, copy);
            let fault = match env.storage.get(&name) {
                Ok(bytes) => match Config::decode(&bytes) {
                    Ok(config) => {
                        if configs.iter().all(|(_, other)| *other != config) {
                            configs.push((copy, config));
                        }
                        continue;
                    }
                    Err(FormatError::NewerVersion { found, known, .. }) => {
                        refusal.get_or_insert(ObjectError::NewerFormat { found, known });
                        continue;
                    }
                    Err(FormatError::UnknownFeatures { unknown }) => {
                        refusal.get_or_insert(ObjectError::UnknownFeatures { unknown });
                        continue;
                    }
                    Err(why) => CopyFault::Undecodable(why),
                },
                Err(StorageError::NotFound { .. }) if there.contains(&name) => return Ok(None),
                Err(StorageError::NotFound { .. }) => CopyFault::Missing,
                Err(failed @ StorageError::Io { .. }) => {
                    let fault = CopyFault::Unreadable(failed.to_string());
                    // Should the other copy not do: an error that may pass is no reason to take an
                    // older revision for the newest.
                    refusal.get_or_insert(failed.into());
                    fault
                }
                Err(failed) => return Err(failed.into()),
            };
            damage.push(ConfigDamage { name, fault });
        }
        if !configs.is_empty() {
            let older = listed
                .range(..revision)
                .flat_map(|(_, names)| names.iter().cloned())
                .collect();
            return Ok(Some(Survey::Found(Newest {
                revision,
                configs,
                damage,
                older,
                highest,
            })));
        }
        if let Some(refusal) = refusal {
            return Err(refusal);
        }
    }
    let newest = damage.into_iter().find(|d| d.fault != CopyFault::Missing);
    let newest = newest.expect("a listed copy that is neither missing nor decoded is damaged");
    Ok(Some(Survey::Unreadable { highest, newest }))
}

/// What became of an attempt to publish a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    /// Both copies are durable, and no higher revision was there after.
    Yes,
    /// A rival was first, or has gone on from ours: look again.
    No,
}

/// Creates both copies of a revision, whose number is above all that were listed, and makes them
/// durable.
pub(super) fn publish(env: &Env, revision: Revision, config: &Config) -> Result<Published, ObjectError> {
    let bytes = config.to_bytes();
    for copy in ConfigCopy::ALL {
        // A rival may have made a higher revision, and deleted this number before we created it
        // anew or between our copies.
        if !create_copy(env, revision, copy, &bytes)? || highest_listed(env)? != Some(revision) {
            return Ok(Published::No);
        }
    }
    env.storage.barrier()?;
    Ok(Published::Yes)
}

/// Makes what was read durable, and adds the copy that is missing, if one is.
pub(super) fn settle(env: &Env, newest: &Newest, config: &Config) -> Result<(), ObjectError> {
    let bytes = config.to_bytes();
    for damage in newest.damage.iter().filter(|d| d.fault == CopyFault::Missing) {
        match names::parse_config(&damage.name) {
            Some((revision, copy)) if revision == newest.revision => {
                create_copy(env, revision, copy, &bytes)?;
            }
            _ => {}
        }
    }
    Ok(env.storage.barrier()?)
}

/// Deletes all copies below a durable revision, durably; returns those that the storage keeps.
pub(super) fn delete_older(env: &Env, revision: Revision) -> Result<Vec<ObjectName>, ObjectError> {
    let mut kept = Vec::new();
    let mut deleted = false;
    for ((other, _), meta) in list_named(env, CONFIG_FOLDER, names::parse_config)? {
        if other >= revision {
            continue;
        }
        match env.storage.delete(&meta.name) {
            Ok(()) => deleted = true,
            Err(StorageError::NotFound { .. }) => {}
            // Credentials that may only append.
            Err(StorageError::Denied { .. } | StorageError::ReadOnly { .. }) => kept.push(meta.name),
            Err(failed) => return Err(failed.into()),
        }
    }
    if deleted {
        env.storage.barrier()?;
    }
    Ok(kept)
}

fn create_copy(env: &Env, revision: Revision, copy: ConfigCopy, bytes: &[u8]) -> Result<bool, ObjectError> {
    match put_or_same(env, &names::config(revision, copy), bytes) {
        Ok(()) => Ok(true),
        Err(taken) if taken.is_already_exists() => Ok(false),
        Err(failed) => Err(failed),
    }
}

fn highest_listed(env: &Env) -> Result<Option<Revision>, ObjectError> {
    let listed = list_named(env, CONFIG_FOLDER, names::parse_config)?;
    Ok(listed.into_iter().map(|((revision, _), _)| revision).max())
}
