//! Errors of sealed objects and the config, sorted by what a caller would do.

use crypto::CryptoError;
use env::StorageError;
use format::FormatError;
use format::frame::ObjectKind;
use types::{ObjectName, Revision, StoreId};

use crate::slot_id::SlotId;

/// An object or config that could not be read, opened or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The storage refused or failed; see also [`ObjectError::is_not_found`] and
    /// [`ObjectError::is_already_exists`].
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The stored bytes are not those that were written: rot, or a write cut short. Found without a
    /// key.
    #[error(
        "{name}: the stored bytes are damaged: {source}; \
         run `check` to see what it touches, and check the disk"
    )]
    Rot {
        /// The object.
        name: ObjectName,
        /// What is wrong with the bytes.
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
    /// A whole object of another kind stands under the name.
    #[error("{name}: holds a {found:?} where a {expected:?} belongs; find out who can write to the storage")]
    WrongKind {
        /// The object.
        name: ObjectName,
        /// What the caller asked for.
        expected: ObjectKind,
        /// What its header says.
        found: ObjectKind,
    },
    /// Written by a later program.
    #[error("{name}: {source}; use a newer program")]
    Newer {
        /// The object.
        name: ObjectName,
        /// What is newer.
        source: FormatError,
    },
    /// The object opens, but what it holds breaks the rules of its encoding: a defect of the
    /// program that wrote it.
    #[error("{name}: opens, but its content is not valid: {source}; please report this as a bug")]
    Content {
        /// The object.
        name: ObjectName,
        /// Which rule.
        source: FormatError,
    },
    /// Others kept winning the next number.
    #[error("{what}: others changed it {attempts} times in a row meanwhile; try again")]
    Contended {
        /// The series of objects.
        what: String,
        /// How often it was tried.
        attempts: u32,
    },
    /// The highest revision number is taken. Nobody gets there by counting.
    #[error("{what}: there is no number after revision {highest}; remove that object if it is not yours")]
    Exhausted {
        /// The series of objects.
        what: String,
        /// The highest that stands there.
        highest: Revision,
    },

    /// There is no config.
    #[error("there is no Onefold store here; make one with `init`, or check the path")]
    NotAStore,
    /// `init` where there is a store.
    #[error("there is a store here already (config revision {revision}); nothing was changed")]
    StoreExists {
        /// The revision of its config.
        revision: Revision,
    },
    /// There are objects of a store, but no config.
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
        /// What is wrong with it.
        source: FormatError,
    },
    /// The config opens with a right password but was not sealed with these key slots by a holder
    /// of the store's keys.
    #[error(
        "config revision {revision} was changed by somebody without the store's keys; restore `config/` \
         from a copy of the storage, and find out who can write to it"
    )]
    ConfigForged {
        /// The revision.
        revision: Revision,
    },
    /// Another store's config stands where this store's did.
    #[error("the store was replaced meanwhile: it was {expected} and is now {found}")]
    OtherStore {
        /// The store that was opened.
        expected: StoreId,
        /// The store that is there.
        found: StoreId,
    },
    /// The store was written by a later program.
    #[error("the store has format version {found}, this program knows up to {known}; use a newer program")]
    NewerFormat {
        /// Its version.
        found: u16,
        /// The highest known here.
        known: u16,
    },
    /// The store uses features that this program does not know.
    #[error("the store requires features {unknown:#x} that this program does not know; use a newer program")]
    UnknownFeatures {
        /// The bits that are not known.
        unknown: u64,
    },
    /// The store may be read, but not changed, by this program.
    #[error(
        "changing the store requires features {unknown:#x} that this program does not know; use a newer one"
    )]
    ReadOnly {
        /// The bits that are not known.
        unknown: u64,
    },

    /// No key slot opens with the password.
    #[error("wrong password")]
    WrongPassword,
    /// The store has passwords, and none was given.
    #[error("the store needs a password")]
    PasswordNeeded,
    /// A password was given, and the store has none. It is opened only if the caller says so,
    /// because anybody who can write to the storage could have planted a store of their own.
    #[error("the store has no password; if that is intended, say so with `--insecure-no-password`")]
    PasswordNotTaken,
    /// No slot opened, and this one could not be tried.
    #[error("key slot {slot} could not be tried: {source}")]
    SlotUnusable {
        /// The slot.
        slot: SlotId,
        /// Why.
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

    /// Whether the name was taken by a rival.
    #[must_use]
    pub const fn is_already_exists(&self) -> bool {
        matches!(self, Self::Storage(StorageError::AlreadyExists { .. }))
    }

    /// Whether the object is there, but is not what it should be: no retry helps.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Rot { .. } | Self::Forged { .. } | Self::WrongKind { .. } | Self::Content { .. }
        )
    }
}
