//! Errors of sealed objects and the config, sorted by what a caller would do.

use crypto::CryptoError;
use env::StorageError;
use format::FormatError;
use format::frame::ObjectKind;
use types::{ObjectName, Revision, StoreId};

use crate::slot_id::SlotId;

/// An object or config could not be read, opened or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The storage refused or failed; see also [`ObjectError::is_not_found`] and
    /// [`ObjectError::is_already_exists`].
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The stored bytes differ from those that were written: rot, or a write cut short. This is
    /// found without a key.
    #[error(
        "{name}: the stored bytes are damaged: {source}; \
         run `check` to see what it touches, and check the disk"
    )]
    Rot {
        /// The object.
        name: ObjectName,
        /// The error of the bytes.
        source: FormatError,
    },
    /// The bytes are whole, but were not sealed by a holder of this store's keys under this name.
    #[error(
        "{name}: not sealed under this store's key and this name; somebody other than this store's users \
         put it there, or it was moved: find out who can write to the storage"
    )]
    Forged {
        /// The object.
        name: ObjectName,
    },
    /// An object of another kind has the name.
    #[error("{name}: holds a {found:?} where a {expected:?} belongs; find out who can write to the storage")]
    WrongKind {
        /// The object.
        name: ObjectName,
        /// The requested kind.
        expected: ObjectKind,
        /// The kind in its header.
        found: ObjectKind,
    },
    /// Written by a later program.
    #[error("{name}: {source}; use a newer program")]
    Newer {
        /// The object.
        name: ObjectName,
        /// The structure that is newer.
        source: FormatError,
    },
    /// The object opens, but its content breaks the rules of its encoding: a defect of the program
    /// that wrote it.
    #[error("{name}: opens, but its content is not valid: {source}; please report this as a bug")]
    Content {
        /// The object.
        name: ObjectName,
        /// The broken rule.
        source: FormatError,
    },
    /// Other processes took the next number again and again.
    #[error("{what}: others changed it {attempts} times in a row meanwhile; try again")]
    Contended {
        /// The series of objects.
        what: String,
        /// The number of attempts.
        attempts: u32,
    },
    /// The highest revision number is taken. Counting cannot reach it.
    #[error("{what}: there is no number after revision {highest}; remove that object if it is not yours")]
    Exhausted {
        /// The series of objects.
        what: String,
        /// The highest number.
        highest: Revision,
    },

    /// There is no config.
    #[error("there is no Onefold store here; make one with `init`, or check the path")]
    NotAStore,
    /// A store cannot be created, because there is one.
    #[error("there is a store here already (config revision {revision}); nothing was changed")]
    StoreExists {
        /// The revision of its config.
        revision: Revision,
    },
    /// There are objects of a store, but there is no config.
    #[error(
        "there are objects of a store here (in `{folder}/`) but no config; restore `config/` from a copy \
         of the storage: without it the store cannot be opened"
    )]
    ConfigMissing {
        /// A folder that has objects.
        folder: String,
    },
    /// No copy of any revision of the config is readable.
    #[error(
        "{name}: no copy of the config is readable: {source}; restore `config/` from a copy of the storage, \
         or, if `init` was interrupted here, run it again"
    )]
    ConfigDamaged {
        /// The newest copy.
        name: ObjectName,
        /// The error of the newest copy.
        source: FormatError,
    },
    /// A right password opens the config, but no holder of the store's keys has sealed it with
    /// these key slots.
    #[error(
        "config revision {revision} was changed by somebody without the store's keys; restore `config/` \
         from a copy of the storage, and find out who can write to it"
    )]
    ConfigForged {
        /// The revision.
        revision: Revision,
    },
    /// Another store's config is in the place of this store's.
    #[error("the store was replaced meanwhile: it was {expected} and is now {found}")]
    OtherStore {
        /// The store that was opened.
        expected: StoreId,
        /// The store that was found.
        found: StoreId,
    },
    /// The store was written by a later program.
    #[error("the store has format version {found}, this program knows up to {known}; use a newer program")]
    NewerFormat {
        /// Its version.
        found: u16,
        /// The highest known version.
        known: u16,
    },
    /// The store uses features that this program does not know.
    #[error("the store requires features {unknown:#x} that this program does not know; use a newer program")]
    UnknownFeatures {
        /// The unknown bits.
        unknown: u64,
    },
    /// This program may read the store, but not change it.
    #[error(
        "changing the store requires features {unknown:#x} that this program does not know; use a newer one"
    )]
    ReadOnly {
        /// The unknown bits.
        unknown: u64,
    },

    /// No key slot opens with the password.
    #[error("wrong password")]
    WrongPassword,
    /// The store has passwords, and none was given.
    #[error("the store needs a password")]
    PasswordNeeded,
    /// A password was given, but the store has none. It is opened only if the caller asks for that,
    /// because anybody who can write to the storage could have planted a store of their own.
    #[error("the store has no password; if that is intended, say so with `--insecure-no-password`")]
    PasswordNotTaken,
    /// No slot opened, and this one could not be tried.
    #[error("key slot {slot} could not be tried: {source}")]
    SlotUnusable {
        /// The slot.
        slot: SlotId,
        /// The cause.
        source: CryptoError,
    },
    /// The password or the cost of a new key slot is not acceptable.
    #[error("the new key slot: {0}")]
    Credential(CryptoError),
    /// There is no such key slot.
    #[error("there is no key slot {slot}; list them with `key list`")]
    NoSuchSlot {
        /// The slot.
        slot: SlotId,
    },
    /// The only key slot cannot be removed: nobody could open the store again.
    #[error("key slot {slot} is the only one; add another password before removing it")]
    LastSlot {
        /// The slot.
        slot: SlotId,
    },
    /// Settings, labels or the number of key slots break the config's rules.
    #[error("the config would not be valid: {0}")]
    InvalidConfig(FormatError),
}

impl ObjectError {
    /// Whether the object does not exist.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::Storage(StorageError::NotFound { .. }))
    }

    /// Whether a rival took the name.
    #[must_use]
    pub const fn is_already_exists(&self) -> bool {
        matches!(self, Self::Storage(StorageError::AlreadyExists { .. }))
    }

    /// Whether the object exists, but is damaged or wrong: a retry does not help.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Rot { .. } | Self::Forged { .. } | Self::WrongKind { .. } | Self::Content { .. }
        )
    }
}
