//! Copied segments that follow each other in a container, in the form to send.
//!
//! An offer to copy names a segment by its fingerprint, its length and its location: some 50 bytes.
//! The segments of an unchanged stream mostly lie side by side, and the store has their
//! fingerprints. So a client sends the first location, the count, and one fingerprint over all of
//! them. That one is a proof: only who knows the segments' fingerprints can compute it.

use crypto::Fingerprinter;
use recipe::{KnownNode, RecipeError, SEGMENT_LEVEL, StoreReader};
use types::{ChunkLocation, Fingerprint, Level};

use crate::dedup::StreamIndex;
use crate::message::Offer;

/// Segments of one run, at most.
const COUNT_MAX: u32 = 4096;

/// Segments of one stream in consecutive slots of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopiedRun {
    /// The stream that they continue.
    pub stream: StreamIndex,
    /// The location of the first one's node.
    pub first: ChunkLocation,
    /// How many they are.
    pub count: u32,
    /// The fingerprint of a node with these children.
    pub proof: Fingerprint,
}

/// A run to which a client adds.
#[derive(Debug)]
pub struct OpenRun {
    stream: StreamIndex,
    first: ChunkLocation,
    segments: Vec<(Fingerprint, u64)>,
}

fn proof(printer: &Fingerprinter, segments: &[(Fingerprint, u64)]) -> Fingerprint {
    let above = Level::new(SEGMENT_LEVEL.get() + 1).expect("segments are not at the top");
    let mut hasher = printer.node_hasher(above);
    for (fingerprint, len) in segments {
        hasher.push(fingerprint, *len);
    }
    hasher.finish()
}

impl OpenRun {
    /// A run that begins with this offer. Gives back an offer that copies nothing.
    ///
    /// # Errors
    /// The offer.
    pub fn begin(offer: Offer) -> Result<Self, Offer> {
        match offer {
            Offer::Copy {
                stream,
                fingerprint,
                len,
                node,
            } => Ok(Self {
                stream,
                first: node.location,
                segments: vec![(fingerprint, len)],
            }),
            other => Err(other),
        }
    }

    /// Adds the segment of this offer. Gives back an offer that does not continue the run.
    ///
    /// # Errors
    /// The offer.
    pub fn add(&mut self, offer: Offer) -> Result<(), Offer> {
        let count = self.count();
        let next = self.first.slot.checked_add(count).filter(|_| count < COUNT_MAX);
        match offer {
            Offer::Copy {
                stream,
                fingerprint,
                len,
                node,
            } if stream == self.stream
                && node.location.container == self.first.container
                && next == Some(node.location.slot) =>
            {
                self.segments.push((fingerprint, len));
                Ok(())
            }
            other => Err(other),
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.segments.len()).expect("a run is short")
    }

    /// The run in the form to send.
    #[must_use]
    pub fn close(&self, printer: &Fingerprinter) -> CopiedRun {
        CopiedRun {
            stream: self.stream,
            first: self.first,
            count: self.count(),
            proof: proof(printer, &self.segments),
        }
    }
}

impl CopiedRun {
    /// The offers of these segments. `None` if there are no such segments, or the sender does not
    /// know their fingerprints.
    ///
    /// # Errors
    /// If the store cannot read their container.
    pub fn offers(&self, reader: &dyn StoreReader) -> Result<Option<Vec<Offer>>, RecipeError> {
        if self.count == 0 || self.count > COUNT_MAX {
            return Ok(None);
        }
        let view = reader.catalog(self.first.container)?;
        let mut entries = Vec::with_capacity(self.count as usize);
        for number in 0..self.count {
            let Some(slot) = self.first.slot.checked_add(number) else {
                return Ok(None);
            };
            // A rewritten container has no slot for what was damaged.
            let missing = ChunkLocation { slot, ..self.first };
            let entry = view.entry(slot).ok_or(RecipeError::MissingSlot {
                node: self.first,
                missing,
            })?;
            if entry.level != SEGMENT_LEVEL {
                return Ok(None);
            }
            entries.push(entry);
        }
        let segments: Vec<_> = entries
            .iter()
            .map(|entry| (entry.fingerprint, entry.logical_len))
            .collect();
        if proof(reader.fingerprinter(), &segments) != self.proof {
            return Ok(None);
        }
        let offers = entries.iter().map(|entry| {
            let location = ChunkLocation {
                slot: entry.slot,
                ..self.first
            };
            let containers_max = reader.node(location)?.containers_max;
            Ok(Offer::Copy {
                stream: self.stream,
                fingerprint: entry.fingerprint,
                len: entry.logical_len,
                node: KnownNode {
                    location,
                    containers_max,
                },
            })
        });
        offers.collect::<Result<_, RecipeError>>().map(Some)
    }
}
