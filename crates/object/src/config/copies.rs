//! The copies of the config's revisions in the storage: reads the newest, publishes the next,
//! deletes older ones. Knows nothing of passwords.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;

use env::{Env, StorageError};
use format::FormatError;
use format::config::Config;
use format::names::{self, CONFIG_FOLDER, ConfigCopy};
use types::{ObjectName, Revision};

use crate::ObjectError;
use crate::sealer::{list_named, put_or_same};
use crate::several::several;

/// How often listed copies may be gone before they are read: each time, another process made a
/// newer revision.
pub(super) const ATTEMPTS_MAX: u32 = 100;

/// A bad or missing copy of a config that could be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDamage {
    /// The copy.
    pub name: ObjectName,
    /// The fault.
    pub fault: CopyFault,
}

/// The fault of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyFault {
    /// It does not exist: it was lost, never written because of a crash, or will be written soon by
    /// another process.
    Missing,
    /// It cannot be decoded.
    Undecodable(FormatError),
    /// The storage reported an error when it was read.
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

/// The newest revision with a copy that can be decoded.
#[derive(Debug)]
pub(super) struct Newest {
    pub(super) revision: Revision,
    /// The decoded copies: all equal, unless somebody tampered with the storage.
    pub(super) configs: Vec<(ConfigCopy, Config)>,
    pub(super) damage: Vec<ConfigDamage>,
    pub(super) older: Vec<ObjectName>,
    /// The highest number of any copy, readable or not. The next revision gets a higher one.
    pub(super) highest: Revision,
}

/// The state of `config/`.
#[derive(Debug)]
pub(super) enum Survey {
    /// No object with a config's name.
    Empty,
    /// Copies exist, but none can be decoded: they have rotted, or a crash in `create` left them.
    Unreadable { highest: Revision, newest: ConfigDamage },
    /// A config.
    Found(Newest),
}

/// Reads the newest revision.
///
/// # Errors
/// `NewerFormat` and `UnknownFeatures` of the newest revision: an older one must not be used
/// instead. Errors of the storage; `Contended`.
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

/// `None` if a listed copy was gone before it could be read.
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
        let copies = ConfigCopy::ALL.map(|copy| (copy, names::config(revision, copy)));
        let read = several(env.storage.is_far(), copies.len(), |at| {
            Ok::<_, Infallible>(env.storage.get(&copies[at].1))
        });
        let Ok(read) = read;
        for ((copy, name), read) in copies.into_iter().zip(read) {
            let fault = match read {
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
                    // The error counts if the other copy is not good either. It may be temporary,
                    // so an older revision must not pass for the newest.
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

/// The result of an attempt to publish a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Published {
    /// Both copies are durable, and afterwards there was no higher revision.
    Yes,
    /// A rival was first, or has continued from this revision: look again.
    No,
}

/// Creates both copies of a revision and makes them durable. Its number must be above all listed
/// ones.
pub(super) fn publish(env: &Env, revision: Revision, config: &Config) -> Result<Published, ObjectError> {
    let bytes = config.to_bytes();
    for copy in ConfigCopy::ALL {
        // A rival may have made a higher revision and deleted this number: before copy 0 was
        // created, or between the copies.
        if !create_copy(env, revision, copy, &bytes)? || highest_listed(env)? != Some(revision) {
            return Ok(Published::No);
        }
    }
    env.storage.barrier()?;
    Ok(Published::Yes)
}

/// Makes what was read durable. If a copy is missing, adds it.
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

/// All copies below a revision.
pub(super) fn older(env: &Env, revision: Revision) -> Result<Vec<ObjectName>, ObjectError> {
    let listed = list_named(env, CONFIG_FOLDER, names::parse_config)?;
    let older = listed.into_iter().filter(|((other, _), _)| *other < revision);
    Ok(older.map(|(_, meta)| meta.name).collect())
}

/// Durably deletes all copies below a durable revision. Returns those that the storage keeps.
pub(super) fn delete_older(env: &Env, revision: Revision) -> Result<Vec<ObjectName>, ObjectError> {
    let mut kept = Vec::new();
    let mut deleted = false;
    for name in older(env, revision)? {
        match env.storage.delete(&name) {
            Ok(()) => deleted = true,
            Err(StorageError::NotFound { .. }) => {}
            // The credentials may only append.
            Err(StorageError::Denied { .. } | StorageError::ReadOnly { .. }) => kept.push(name),
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
