//! The passwords of a store.

use crypto::Argon2Cost;
use object::config::{self, NewSlot, SlotId};
use types::ObjectName;

use crate::credential::Credential;
use crate::error::{Error, Result};
use crate::store::Store;

/// A password's slot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyInfo {
    /// Its id.
    pub id: String,
    /// Who made it.
    pub label: String,
    /// Whether it needs a password.
    pub has_password: bool,
    /// Whether it opened the store.
    pub is_current: bool,
}

impl Store {
    /// The passwords' slots.
    ///
    /// # Errors
    /// None today: the config was read when the store was opened.
    pub fn keys(&self) -> Result<Vec<KeyInfo>> {
        let info = |slot: object::config::SlotInfo<'_>| KeyInfo {
            id: slot.id.to_string(),
            label: slot.label.to_owned(),
            has_password: slot.cost.is_some(),
            is_current: slot.is_current,
        };
        Ok(self.config.slots().map(info).collect())
    }

    /// The cost of a new password: no less than that of the one that opened the store.
    fn key_cost(&self) -> Argon2Cost {
        let usual = Argon2Cost::default();
        let current = self.config.slots().find(|slot| slot.is_current);
        let current = current.and_then(|slot| slot.cost).unwrap_or(usual);
        Argon2Cost {
            memory_kib: current.memory_kib.max(usual.memory_kib),
            passes: current.passes.max(usual.passes),
            lanes: current.lanes.max(usual.lanes),
        }
    }

    /// Adds a password. Returns the id of its slot.
    ///
    /// # Errors
    /// Of the storage; if no more slots fit.
    pub fn add_key(&self, credential: &Credential, label: &str) -> Result<String> {
        let slot = NewSlot {
            credential: credential.as_crypto(),
            label,
            cost: self.key_cost(),
        };
        let (_, id) = config::add_slot(&self.env, &self.config, &slot)?;
        Ok(id.to_string())
    }

    /// Removes a password's slot, but not the one that opened the store: its owner may know no
    /// other password.
    ///
    /// # Errors
    /// If there is no such slot, it is the last one, or it opened the store; of the storage.
    pub fn remove_key(&self, id: &str) -> Result<()> {
        let slot = self.slot_id(id)?;
        let is_current = self.config.slots().any(|one| one.id == slot && one.is_current);
        // The storage refuses to remove the last one, and says so.
        if is_current && self.config.slots().count() > 1 {
            return Err(Error::CurrentKey { id: id.to_owned() });
        }
        config::remove_slot(&self.env, &self.config, slot)?;
        Ok(())
    }

    /// Replaces the password that opened the store. Returns the id of the new slot.
    ///
    /// # Errors
    /// Of the storage.
    pub fn change_key(&self, credential: &Credential, label: &str) -> Result<String> {
        let current = self
            .config
            .slots()
            .find(|slot| slot.is_current)
            .map(|slot| slot.id);
        let current = current.ok_or_else(|| Error::NotFound("the slot that opened the store".into()))?;
        let slot = NewSlot {
            credential: credential.as_crypto(),
            label,
            cost: self.key_cost(),
        };
        let (_, id) = config::change_slot(&self.env, &self.config, current, &slot)?;
        Ok(id.to_string())
    }

    /// Deletes the configs that changes of passwords have replaced, where one ended early. Returns
    /// those that the storage does not delete: a removed password still opens them.
    ///
    /// # Errors
    /// Of the storage.
    pub fn delete_old_configs(&self) -> Result<Vec<ObjectName>> {
        Ok(config::delete_older(&self.env, &self.config)?.older)
    }

    fn slot_id(&self, text: &str) -> Result<SlotId> {
        let found = self
            .config
            .slots()
            .map(|slot| slot.id)
            .find(|id| id.to_string() == text);
        found
            .ok_or_else(|| Error::NotFound(format!("no password slot {text}; `onefold key list` shows them")))
    }
}
