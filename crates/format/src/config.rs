//! The store's config (docs/format.md, "Config").

use types::StoreId;

/// The version that this code writes.
pub const FORMAT_VERSION: u16 = 1;

/// Features, as bits. An unknown bit in `required_to_read` refuses the store; an unknown bit in
/// `required_to_write` opens it for reading only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// Must all be known to read.
    pub required_to_read: u64,
    /// Must all be known to write.
    pub required_to_write: u64,
}

/// A password's slot: the wrapped domain and encryption keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySlot {
    /// Random; how `key` commands name the slot.
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
    /// The sealed part: AES-256-GCM under a key derived from the encryption key, with everything
    /// before it as associated data. Decodes to [`Settings`].
    pub sealed_settings: Vec<u8>,
    /// Salt of that key.
    pub settings_salt: [u8; 32],
}

/// What shapes the bytes in the store; sealed in the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Average length of a content-defined chunk, in bytes, a power of two.
    pub chunk_avg_bytes: u32,
    /// Shortest (but for a stream's or file's end).
    pub chunk_min_bytes: u32,
    /// Longest.
    pub chunk_max_bytes: u32,
    /// Average children of a node, a power of two; min is half, max twice.
    pub node_avg_children: u32,
    /// Plain bytes at which a region closes.
    pub region_bytes: u32,
    /// Stored bytes at which a container closes.
    pub container_bytes: u32,
}
