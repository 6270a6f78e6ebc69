//! The store's config (docs/format.md, "Config").
//!
//! A config is a plain header with the key slots, the sealed settings, and a digest of everything
//! before it. The magic bytes and the places of version and digest are the same in every version,
//! so an old program can distinguish a newer store from a damaged one. The crates above wrap keys
//! and seal.

use types::StoreId;

use crate::error::{FormatError, Result};
use crate::frame::{DIGEST_BYTES, TAG_BYTES, append_digest, verify_digest};
use crate::payload::{Payload, payload, rule};
use crate::wire::{Reader, Writer};

/// The first bytes of every config.
pub const CONFIG_MAGIC: [u8; 8] = *b"1FOLDcfg";
/// The most key slots.
pub const KEY_SLOTS_MAX: usize = 256;
/// Bytes of a slot's wrapped keys: two keys of 32 and a tag.
pub const WRAPPED_KEYS_BYTES: usize = 64 + TAG_BYTES;
/// The longest label of a slot.
pub const LABEL_BYTES_MAX: usize = 1024;
/// The most bytes of sealed settings.
pub const SEALED_SETTINGS_BYTES_MAX: usize = 64 << 10;
/// The most memory that a slot may require: a foreign config must not exhaust the machine.
pub const KDF_MEMORY_KIB_MAX: u32 = 4 << 20;
/// The most passes that a slot may require.
pub const KDF_PASSES_MAX: u32 = 64;
/// The most lanes that a slot may require.
pub const KDF_LANES_MAX: u32 = 64;
/// The longest chunk that settings may name.
pub const CHUNK_BYTES_MAX: u32 = 16 << 20;
/// The most plain bytes at which settings may close a region.
pub const REGION_BYTES_MAX: u32 = 1 << 20;
/// The most stored bytes at which settings may close a container.
pub const CONTAINER_BYTES_MAX: u32 = 1 << 30;
/// The largest average number of a node's children that settings may set.
pub const NODE_AVG_CHILDREN_MAX: u32 = 1 << 15;
/// The purpose of the settings' key in its derivation.
pub const SETTINGS_SEAL_PURPOSE: &str = "settings";

/// The version that this code writes.
pub const FORMAT_VERSION: u16 = 1;

/// Features, as bits. An unknown bit in `required_to_read` refuses the store; an unknown bit in
/// `required_to_write` opens it for reading only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// To read the store, a program must know all of these.
    pub required_to_read: u64,
    /// To write the store, a program must know all of these.
    pub required_to_write: u64,
}

impl Features {
    /// The features that this code knows: none beyond version 1 so far.
    pub const KNOWN: u64 = 0;

    /// Required bits that this code does not know, so that it cannot write the store; 0 if it can.
    #[must_use]
    pub const fn unknown_to_write(self) -> u64 {
        self.required_to_write & !Self::KNOWN
    }
}

/// A password's slot: the wrapped domain and encryption keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySlot {
    /// Random. The `key` commands name the slot by it.
    pub id: [u8; 8],
    /// How the password becomes a key.
    pub kdf: KeyDerivation,
    /// The 64 bytes of keys, AES-256-GCM under that key: 80 bytes.
    pub wrapped: Vec<u8>,
    /// A label for humans: user and host at creation.
    pub label: String,
}

/// How a slot's password becomes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyDerivation {
    /// Argon2id version 0x13.
    Argon2id {
        /// Fresh for every slot.
        salt: [u8; 32],
        /// Memory in KiB.
        memory_kib: u32,
        /// Passes.
        passes: u32,
        /// Lanes.
        lanes: u32,
    },
    /// `--insecure-no-password`: anyone who reads the store has the keys.
    None {
        /// Fresh for every slot.
        salt: [u8; 32],
    },
}

/// One revision of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Version of the whole store's format.
    pub version: u16,
    /// Feature flags.
    pub features: Features,
    /// The store.
    pub store: StoreId,
    /// The passwords' slots, at least 1, plain because they precede every key.
    pub key_slots: Vec<KeySlot>,
    /// The sealed part, encoded [`Settings`]: AES-256-GCM under a key derived from the encryption
    /// key. Everything before it is associated data.
    pub sealed_settings: Vec<u8>,
    /// Salt of that key.
    pub settings_salt: [u8; 32],
}

/// Parameters of the bytes in the store, sealed in the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Average length of a content-defined chunk, in bytes, a power of two.
    pub chunk_avg_bytes: u32,
    /// Shortest chunk (except at the end of a stream or file).
    pub chunk_min_bytes: u32,
    /// Longest chunk.
    pub chunk_max_bytes: u32,
    /// Average number of a node's children, a power of two; the minimum is half of it, and the
    /// maximum twice.
    pub node_avg_children: u32,
    /// A region is closed at so many plain bytes.
    pub region_bytes: u32,
    /// A container is closed at so many stored bytes.
    pub container_bytes: u32,
}

const WHAT: &str = "config";

impl Config {
    /// The bytes before the sealed settings: the plain header, key slots and salt. They are the
    /// associated data of the sealed settings, so they must be final before sealing.
    /// `sealed_settings` itself is not used.
    #[must_use]
    pub fn aad(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut w = Writer::new(&mut out);
        w.put(&CONFIG_MAGIC);
        w.u16(self.version);
        w.u16(0);
        w.u64(self.features.required_to_read);
        w.u64(self.features.required_to_write);
        w.store(self.store);
        w.list(&self.key_slots, write_slot);
        w.put(&self.settings_salt);
        out
    }

    /// Appends the only encoding of this config.
    ///
    /// # Panics
    /// If [`Self::check`] fails: the encoder never writes what could not be read back.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Err(error) = self.check() {
            panic!("about to write what could not be read back: {error}");
        }
        let mut object = self.aad();
        object.extend_from_slice(&self.sealed_settings);
        append_digest(&mut object);
        out.append(&mut object);
    }

    /// The encoding as a new vector.
    ///
    /// # Panics
    /// As [`Self::encode`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.encode(&mut out);
        out
    }

    /// The inverse of [`Self::encode`]. The caller must obey the features that are required to
    /// write ([`Features::unknown_to_write`]).
    ///
    /// # Errors
    /// `NotAStore` if the magic bytes are missing; `DigestMismatch`; `NewerVersion`;
    /// `UnknownFeatures`; `Malformed` or `Invalid` otherwise.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(WHAT, bytes);
        if r.array::<8>().ok() != Some(CONFIG_MAGIC) {
            return Err(FormatError::NotAStore);
        }
        verify_digest(WHAT, bytes)?;
        let version = r.u16()?;
        if version > FORMAT_VERSION {
            return Err(FormatError::NewerVersion {
                what: WHAT,
                found: version,
                known: FORMAT_VERSION,
            });
        }
        r.reserved::<2>()?;
        let features = Features {
            required_to_read: r.u64()?,
            required_to_write: r.u64()?,
        };
        let unknown = features.required_to_read & !Features::KNOWN;
        if unknown != 0 {
            return Err(FormatError::UnknownFeatures { unknown });
        }
        let store = r.store()?;
        let key_slots = r.list(8 + 1 + 32 + WRAPPED_KEYS_BYTES + 1, read_slot)?;
        let settings_salt = r.array()?;
        let sealed_settings = r.take_all_but(DIGEST_BYTES)?.to_vec();
        let config = Self {
            version,
            features,
            store,
            key_slots,
            sealed_settings,
            settings_salt,
        };
        config.check()?;
        Ok(config)
    }

    /// Whether the value follows the rules of its encoding.
    ///
    /// # Errors
    /// `Invalid` names the broken rule; `NewerVersion` for an unknown version.
    pub fn check(&self) -> Result<()> {
        if self.version > FORMAT_VERSION {
            return Err(FormatError::NewerVersion {
                what: WHAT,
                found: self.version,
                known: FORMAT_VERSION,
            });
        }
        self.rules()
            .map_err(|why| FormatError::Invalid { what: WHAT, why })
    }

    fn rules(&self) -> Result<(), &'static str> {
        rule(self.version != 0, "version 0 was never written")?;
        rule(!self.key_slots.is_empty(), "there is no key slot")?;
        rule(
            self.key_slots.len() <= KEY_SLOTS_MAX,
            "there are too many key slots",
        )?;
        self.key_slots.iter().try_for_each(slot_rules)?;
        let mut ids: Vec<[u8; 8]> = self.key_slots.iter().map(|slot| slot.id).collect();
        ids.sort_unstable();
        rule(
            ids.windows(2).all(|pair| pair[0] != pair[1]),
            "two key slots have one id",
        )?;
        let len = self.sealed_settings.len();
        rule(
            len > TAG_BYTES && len <= SEALED_SETTINGS_BYTES_MAX,
            "the sealed settings' length is impossible",
        )
    }
}

fn write_slot(w: &mut Writer<'_>, slot: &KeySlot) {
    w.put(&slot.id);
    match slot.kdf {
        KeyDerivation::None { salt } => {
            w.u8(0);
            w.put(&salt);
        }
        KeyDerivation::Argon2id {
            salt,
            memory_kib,
            passes,
            lanes,
        } => {
            w.u8(1);
            w.put(&salt);
            w.u32(memory_kib);
            w.u32(passes);
            w.u32(lanes);
        }
    }
    w.put(&slot.wrapped);
    w.text(&slot.label);
}

fn read_slot(r: &mut Reader<'_>) -> Result<KeySlot> {
    let id = r.array()?;
    let unknown = r.fault("the key derivation is not known");
    let kdf = match r.u8()? {
        0 => KeyDerivation::None { salt: r.array()? },
        1 => KeyDerivation::Argon2id {
            salt: r.array()?,
            memory_kib: r.u32()?,
            passes: r.u32()?,
            lanes: r.u32()?,
        },
        _ => return Err(unknown),
    };
    let wrapped = r.take(WRAPPED_KEYS_BYTES)?.to_vec();
    Ok(KeySlot {
        id,
        kdf,
        wrapped,
        label: r.text(LABEL_BYTES_MAX)?,
    })
}

fn slot_rules(slot: &KeySlot) -> Result<(), &'static str> {
    rule(
        slot.wrapped.len() == WRAPPED_KEYS_BYTES,
        "wrapped keys are not 80 bytes",
    )?;
    rule(
        slot.label.len() <= LABEL_BYTES_MAX,
        "a key slot's label is too long",
    )?;
    if let KeyDerivation::Argon2id {
        memory_kib,
        passes,
        lanes,
        ..
    } = slot.kdf
    {
        rule(
            (1..=KDF_LANES_MAX).contains(&lanes),
            "a key slot's lanes are out of range",
        )?;
        rule(
            (1..=KDF_PASSES_MAX).contains(&passes),
            "a key slot's passes are out of range",
        )?;
        // Argon2 needs eight KiB for each lane.
        let memory_fits = memory_kib >= 8 * lanes && memory_kib <= KDF_MEMORY_KIB_MAX;
        rule(memory_fits, "a key slot's memory is out of range")?;
    }
    Ok(())
}

payload!(Settings);

impl Payload for Settings {
    const WHAT: &'static str = "settings";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.u32(self.chunk_avg_bytes);
        w.u32(self.chunk_min_bytes);
        w.u32(self.chunk_max_bytes);
        w.u32(self.node_avg_children);
        w.u32(self.region_bytes);
        w.u32(self.container_bytes);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            chunk_avg_bytes: r.u32()?,
            chunk_min_bytes: r.u32()?,
            chunk_max_bytes: r.u32()?,
            node_avg_children: r.u32()?,
            region_bytes: r.u32()?,
            container_bytes: r.u32()?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        rule(
            self.chunk_avg_bytes.is_power_of_two(),
            "the average chunk length is not a power of two",
        )?;
        rule(self.chunk_min_bytes >= 1, "the shortest chunk is empty")?;
        let ordered =
            self.chunk_min_bytes <= self.chunk_avg_bytes && self.chunk_avg_bytes <= self.chunk_max_bytes;
        rule(ordered, "the chunk lengths are not in order")?;
        rule(
            self.chunk_max_bytes <= CHUNK_BYTES_MAX,
            "the longest chunk is too long",
        )?;
        rule(
            self.node_avg_children.is_power_of_two(),
            "the average children are not a power of two",
        )?;
        let children_fit = (2..=NODE_AVG_CHILDREN_MAX).contains(&self.node_avg_children);
        rule(children_fit, "the average children are out of range")?;
        rule(
            (1..=REGION_BYTES_MAX).contains(&self.region_bytes),
            "the region length is out of range",
        )?;
        rule(
            (1..=CONTAINER_BYTES_MAX).contains(&self.container_bytes),
            "the container length is out of range",
        )
    }
}
