//! The store's config: everything that a program needs before it has a key.
//!
//! `config/<revision>.<copy>` holds the format version, the features, the store's id and the key
//! slots in plain, and the sealed settings. All plain parts are associated data of the seal. So
//! without the keys nobody can add, remove or change a slot without [`open`] noticing it. (A
//! process that can write to the storage can bring back a whole older revision; the threat model
//! says so.)
//!
//! Invariants:
//! - Every revision is created by a create-only put of its copy 0. The winner adds copy 1, then
//!   runs a barrier, and only then deletes lower revisions. So at any moment at least one whole
//!   copy of the newest durable revision exists. Of two processes that change the config at once,
//!   one starts again from the other's result.
//! - A new revision's number is above every listed number, including torn copies after crashes. Its
//!   creator lists again after creating it: if there is a higher one, its own is void.
//! - The last key slot is never removed.
//!
//! Many threads and processes may call everything at once. A crash at any point leaves the old or
//! the new config. A crash in [`create`] leaves nothing that another [`create`] cannot complete.

mod copies;
mod create;
mod open;
mod revise;
mod slots;
#[cfg(test)]
mod tests;

use std::fmt;

use crypto::MasterKeys;
use env::Env;
use format::config::{Config, Settings};
use types::{ObjectName, Revision, StoreId};

use crate::Sealer;

pub use crate::slot_id::SlotId;
pub use copies::{ConfigDamage, CopyFault};
pub use create::create;
pub use crypto::{Argon2Cost, Credential};
pub use open::open;
pub use revise::{add_slot, change_slot, delete_older, older, remove_slot, repair};
pub use slots::{NewSlot, SlotInfo};

/// A config that was opened with a password.
#[derive(Clone)]
pub struct OpenConfig {
    /// The revision that was read or made.
    pub revision: Revision,
    /// Its plain part, key slots included.
    pub config: Config,
    /// Parameters of the bytes in the store.
    pub settings: Settings,
    /// The store's keys.
    pub keys: MasterKeys,
    /// The key slot that opened.
    pub slot: SlotId,
    /// Damaged or missing copies of the opened config. [`repair`] mends them.
    pub damage: Vec<ConfigDamage>,
    /// Copies of older revisions, left by a crash or by a storage that denies deletion. A removed
    /// password still opens them.
    pub older: Vec<ObjectName>,
}

impl OpenConfig {
    /// The store's id.
    #[must_use]
    pub const fn store(&self) -> StoreId {
        self.config.store
    }

    /// The features that this program would need in order to change the store; 0 if it has all.
    #[must_use]
    pub const fn unknown_to_write(&self) -> u64 {
        self.config.features.unknown_to_write()
    }

    /// The key slots, in the order of their creation.
    pub fn slots(&self) -> impl Iterator<Item = SlotInfo<'_>> {
        self.config
            .key_slots
            .iter()
            .map(|slot| SlotInfo::of(slot, self.slot))
    }

    /// A sealer that puts and gets the store's sealed objects.
    #[must_use]
    pub fn sealer(&self, env: &Env) -> Sealer {
        Sealer::new(env.clone(), self.store(), self.keys.encryption.clone())
    }
}

impl fmt::Debug for OpenConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenConfig")
            .field("store", &self.store())
            .field("revision", &self.revision)
            .field("settings", &self.settings)
            .field("damage", &self.damage)
            .finish_non_exhaustive()
    }
}
