//! Fingerprints of chunks, zero runs and nodes [Guo 2.1], and the gear table.
//!
//! All depend only on the domain key. So stores of one domain agree, and a reader of fingerprints
//! without the key cannot test for known content. Each use has a derived key of its own: a chunk
//! with the bytes of an encoded child list never has a node's fingerprint.

use std::fmt;
use std::sync::Arc;

use types::{Fingerprint, Level};
use zeroize::{Zeroize, Zeroizing};

use crate::keys::{DomainKey, SALT_BYTES, derive};
use crate::lanes::{LaneWidth, keyed_hashes};
use crate::seal::KEY_BYTES;

/// Words of a gear table. The chunker defines their meaning.
pub const GEAR_TABLE_WORDS: usize = 76;

/// Bytes of the derived keys of a domain.
pub const DERIVED_KEYS_BYTES: usize = 4 * KEY_BYTES;

/// Computes fingerprints in one domain. Cheap to clone, and shared between threads.
#[derive(Clone)]
pub struct Fingerprinter(Arc<Keys>);

struct Keys {
    chunk: Zeroizing<[u8; KEY_BYTES]>,
    zeros: Zeroizing<[u8; KEY_BYTES]>,
    node: Zeroizing<[u8; KEY_BYTES]>,
    gear: Zeroizing<[u8; KEY_BYTES]>,
}

impl Fingerprinter {
    /// Derives the domain's hash keys.
    #[must_use]
    pub fn new(domain: &DomainKey) -> Self {
        let key = |purpose| derive(domain.as_bytes(), purpose, &[0; SALT_BYTES]);
        Self(Arc::new(Keys {
            chunk: key("chunk"),
            zeros: key("zeros"),
            node: key("node"),
            gear: key("gear"),
        }))
    }

    /// The four derived keys, for a client elsewhere. Who has them can test for known content, but
    /// reads nothing.
    #[must_use]
    pub fn derived_keys(&self) -> Zeroizing<[u8; DERIVED_KEYS_BYTES]> {
        let keys = &*self.0;
        let mut bytes = Zeroizing::new([0; DERIVED_KEYS_BYTES]);
        let each = [&keys.chunk, &keys.zeros, &keys.node, &keys.gear];
        for (room, key) in bytes.chunks_exact_mut(KEY_BYTES).zip(each) {
            room.copy_from_slice(&**key);
        }
        bytes
    }

    /// From [`Self::derived_keys`].
    #[must_use]
    pub fn from_derived_keys(bytes: &[u8; DERIVED_KEYS_BYTES]) -> Self {
        let key = |number: usize| {
            let mut key = Zeroizing::new([0; KEY_BYTES]);
            key.copy_from_slice(&bytes[number * KEY_BYTES..][..KEY_BYTES]);
            key
        };
        Self(Arc::new(Keys {
            chunk: key(0),
            zeros: key(1),
            node: key(2),
            gear: key(3),
        }))
    }

    /// The fingerprint of a chunk's plaintext.
    ///
    /// It is one keyed hash of the whole slice. Unlike the incremental hasher, the slice form has
    /// no state of 1.9 KiB to set up. Allocates nothing. For several chunks, [`Self::chunks`] is
    /// faster.
    #[inline]
    #[must_use]
    pub fn chunk(&self, plain: &[u8]) -> Fingerprint {
        Fingerprint::from_bytes(*blake3::keyed_hash(&self.0.chunk, plain).as_bytes())
    }

    /// The fingerprints of many chunks, in order, equal to those of [`Self::chunk`]. With AVX-512
    /// it takes some two thirds of the time for chunks around 8 KiB, and less than half around 4
    /// KiB. It pays from some 16 KiB in all; a MiB is plenty. Allocates some 50 bytes for each KiB
    /// of the chunks.
    pub fn chunks(&self, plain: &[&[u8]], out: &mut Vec<Fingerprint>) {
        out.reserve(plain.len());
        keyed_hashes(LaneWidth::widest(), &self.0.chunk, plain, |hash| {
            out.push(Fingerprint::from_bytes(hash));
        });
    }

    /// How many chunks this processor can hash side by side, fewest first; never empty.
    /// [`Self::chunks`] takes the last.
    #[must_use]
    pub fn lane_counts() -> Vec<usize> {
        LaneWidth::available().into_iter().map(LaneWidth::count).collect()
    }

    /// Like [`Self::chunks`], with so many chunks side by side, for comparison: fingerprints do not
    /// depend on that. A number that [`Self::lane_counts`] does not have counts as 1.
    pub fn chunks_by(&self, lanes: usize, plain: &[&[u8]], out: &mut Vec<Fingerprint>) {
        let available = LaneWidth::available();
        let width = available.iter().find(|width| width.count() == lanes);
        keyed_hashes(*width.unwrap_or(&available[0]), &self.0.chunk, plain, |hash| {
            out.push(Fingerprint::from_bytes(hash));
        });
    }

    /// The fingerprint of a run of `len` zero bytes, which is neither stored nor read [RevDedup
    /// 3.3].
    #[must_use]
    pub fn zeros(&self, len: u64) -> Fingerprint {
        Fingerprint::from_bytes(*blake3::keyed_hash(&self.0.zeros, &len.to_le_bytes()).as_bytes())
    }

    /// Begins the fingerprint of a node of that level, which must not be 0.
    #[must_use]
    pub fn node_hasher(&self, level: Level) -> NodeHasher {
        let mut hasher = blake3::Hasher::new_keyed(&self.0.node);
        hasher.update(&[level.get()]);
        NodeHasher(hasher)
    }

    /// The domain's random words for the gear hash. Without the key, a reader of chunk lengths
    /// cannot compute where known content would be cut.
    #[must_use]
    pub fn gear_table(&self) -> [u16; GEAR_TABLE_WORDS] {
        let mut stream = blake3::Hasher::new_keyed(&self.0.gear).finalize_xof();
        let mut table = [0; GEAR_TABLE_WORDS];
        for word in &mut table {
            let mut bytes = [0; 2];
            stream.fill(&mut bytes);
            *word = u16::from_le_bytes(bytes);
        }
        table
    }
}

impl fmt::Debug for Fingerprinter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprinter(..)")
    }
}

/// The fingerprint of a node under construction: BLAKE3, keyed for nodes, over the level (u8) and
/// 40 bytes for each child.
///
/// It covers only content, never its place, so that equal streams have equal trees in every store
/// of the domain.
pub struct NodeHasher(blake3::Hasher);

impl NodeHasher {
    /// Adds the next child: its fingerprint and its logical length in bytes.
    pub fn push(&mut self, child: &Fingerprint, logical_len: u64) {
        let mut record = [0; Fingerprint::BYTES + 8];
        record[..Fingerprint::BYTES].copy_from_slice(child.as_bytes());
        record[Fingerprint::BYTES..].copy_from_slice(&logical_len.to_le_bytes());
        self.0.update(&record);
    }

    /// The node's fingerprint.
    #[must_use]
    pub fn finish(self) -> Fingerprint {
        Fingerprint::from_bytes(*self.0.finalize().as_bytes())
    }
}

impl Drop for NodeHasher {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for NodeHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeHasher(..)")
    }
}
