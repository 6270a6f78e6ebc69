//! Regions as a client sends them to a store elsewhere: the bytes of a container, before they are
//! encrypted.

use chunking::CHUNK_BYTES_MAX;
use container::{CompressedRegion, Compression, PendingEntry, compress_region};
use crypto::Fingerprinter;
use format::container::{Codec, REGION_PLAIN_BYTES_MAX};
use types::Fingerprint;

use crate::dedup::Lane;
use crate::error::IngestError;
use crate::region::{Coming, OfferedRegion, PlainBytes, ReadyRegion, RegionBytes};

/// A region of new chunks, compressed or not.
#[derive(Debug)]
pub struct StoredRegion {
    /// The lane of its chunks.
    pub lane: Lane,
    /// The number of its first chunk in the lane; the others follow.
    pub first: u64,
    /// Each chunk's fingerprint and plain length, in bytes.
    pub chunks: Vec<(Fingerprint, u32)>,
    /// The bytes for the container.
    pub bytes: CompressedRegion,
}

impl StoredRegion {
    /// A region that is not compressed.
    #[must_use]
    pub fn raw(lane: Lane, first: u64, chunks: Vec<(Fingerprint, u32)>, plain: Vec<u8>) -> Self {
        Self {
            lane,
            first,
            chunks,
            bytes: compress_region(plain, Compression::Off),
        }
    }

    /// Whether the chunks match their fingerprints. A store does not trust a client (B2).
    #[must_use]
    pub fn is_genuine(&self, printer: &Fingerprinter) -> bool {
        // Check lengths before anything is allocated.
        let is_chunk = |(_, len): &(Fingerprint, u32)| (1..=CHUNK_BYTES_MAX).contains(len);
        let len: u64 = self.chunks.iter().map(|(_, len)| u64::from(*len)).sum();
        if !self.chunks.iter().all(is_chunk)
            || self.chunks.is_empty()
            || len > u64::from(REGION_PLAIN_BYTES_MAX)
            || len != self.bytes.plain_len() as u64
        {
            return false;
        }
        // Nothing is stored compressed that became longer by it. A frame can be padded to any
        // length, and no reader takes a container with a region longer than the longest one.
        if self.bytes.codec() != Codec::Raw && self.bytes.bytes().len() as u64 >= len {
            return false;
        }
        let Some(plain) = self.bytes.plain() else {
            return false;
        };
        let mut rest = &*plain;
        let mut chunks = Vec::with_capacity(self.chunks.len());
        for (_, len) in &self.chunks {
            let (chunk, after) = rest.split_at(*len as usize);
            rest = after;
            chunks.push(chunk);
        }
        let mut found = Vec::with_capacity(chunks.len());
        printer.chunks(&chunks, &mut found);
        let stated = self.chunks.iter().map(|(fingerprint, _)| fingerprint);
        stated.eq(&found)
    }
}

impl From<StoredRegion> for OfferedRegion {
    fn from(region: StoredRegion) -> Self {
        let entry = |(fingerprint, len): (Fingerprint, u32)| PendingEntry::chunk(fingerprint, len);
        Self {
            lane: region.lane,
            first: region.first,
            entries: region.chunks.into_iter().map(entry).collect(),
            bytes: Coming::Ready(RegionBytes::Compressed(region.bytes)),
        }
    }
}

impl OfferedRegion {
    /// The region in the form to send, once a worker has compressed it.
    ///
    /// # Errors
    /// If the backup was given up meanwhile.
    pub fn into_sendable(self) -> Result<SendableRegion, IngestError> {
        let ready = self.wait().map_err(|_| IngestError::StoreEnded)?;
        Ok(SendableRegion(ready))
    }
}

/// A region that a client sends. It arrives as a [`StoredRegion`]. The sender does not copy bytes
/// that are not compressed: they stay in the buffers of the source.
#[derive(Debug)]
pub struct SendableRegion(ReadyRegion);

impl SendableRegion {
    /// The lane of its chunks.
    #[must_use]
    pub fn lane(&self) -> Lane {
        self.0.lane
    }

    /// The number of its first chunk in the lane.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.0.first
    }

    /// Each chunk's fingerprint and plain length, in bytes.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = (Fingerprint, u32)> {
        self.0.entries.iter().map(|entry| (entry.fingerprint, entry.len))
    }

    /// The codec that restores the plain bytes.
    #[must_use]
    pub fn codec(&self) -> Codec {
        match &self.0.bytes {
            RegionBytes::Raw(_) => Codec::Raw,
            RegionBytes::Compressed(region) => region.codec(),
        }
    }

    /// Length before compression.
    #[must_use]
    pub fn plain_len(&self) -> usize {
        match &self.0.bytes {
            RegionBytes::Raw(plain) => plain.len(),
            RegionBytes::Compressed(region) => region.plain_len(),
        }
    }

    /// Bytes in a container, without the seal's tag.
    #[must_use]
    pub fn stored_len(&self) -> usize {
        self.0.bytes.stored_len()
    }

    /// The bytes for the container, in pieces.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let (plain, packed) = match &self.0.bytes {
            RegionBytes::Raw(plain) => (Some(plain), None),
            RegionBytes::Compressed(region) => (None, Some(region.bytes())),
        };
        plain.into_iter().flat_map(PlainBytes::pieces).chain(packed)
    }
}

#[cfg(test)]
mod tests {
    use crypto::DomainKey;

    use super::*;

    #[test]
    fn a_region_with_other_bytes_is_not_genuine() {
        let printer = Fingerprinter::new(&DomainKey::from_bytes([5; 32]));
        let plain = [[1; 300], [2; 300]].concat();
        let chunks = vec![
            (printer.chunk(&plain[..300]), 300),
            (printer.chunk(&plain[300..]), 300),
        ];
        let region = |plain: &[u8], how| StoredRegion {
            lane: Lane::Content,
            first: 0,
            chunks: chunks.clone(),
            bytes: compress_region(plain.to_vec(), how),
        };
        for how in [Compression::Off, Compression::Level(3)] {
            assert!(region(&plain, how).is_genuine(&printer));
            let mut other = plain.clone();
            other[599] ^= 1;
            assert!(!region(&other, how).is_genuine(&printer));
            assert!(
                !region(&plain[..599], how).is_genuine(&printer),
                "shorter than said"
            );
            assert!(!region(&[plain.clone(), vec![0]].concat(), how).is_genuine(&printer));
        }
        let packed = compress_region(plain.clone(), Compression::Level(3));
        let mut garbled = packed.bytes().to_vec();
        garbled.truncate(garbled.len() - 1);
        let region = StoredRegion {
            bytes: CompressedRegion::as_read(&garbled, plain.len()),
            ..region(&plain, Compression::Off)
        };
        assert!(!region.is_genuine(&printer), "a frame that was cut off");
        // A bomb: few bytes that become many more than they should.
        let bomb = compress_region(vec![0; 16 << 20], Compression::Level(3));
        let region = StoredRegion {
            bytes: CompressedRegion::as_read(bomb.bytes(), plain.len()),
            ..region
        };
        assert!(
            !region.is_genuine(&printer),
            "only the declared length is allocated"
        );
        let region = StoredRegion {
            chunks: vec![(printer.chunk(b"x"), CHUNK_BYTES_MAX); 256],
            bytes: bomb,
            ..region
        };
        assert!(!region.is_genuine(&printer), "longer than a region");
    }
}
