//! Regions of wanted chunks that the caller reads, one after another: from another store.
//!
//! The counterpart of the gatherer for a client that reads a chunk only once the store wants it.
//! Workers compress the regions. One thread.

use std::fmt;
use std::mem;
use std::sync::Arc;

use container::{Compression, PendingEntry};
use types::Fingerprint;

use crate::backup_session::Distance;
use crate::client::run::Client;
use crate::dedup::{Lane, NewChunk};
use crate::error::IngestError;
use crate::message::Offer;
use crate::region::OfferedRegion;
use crate::stage::StageStats;
use crate::workers::Workers;

/// Gathers chunks to regions.
pub struct ReadRegions<'a> {
    client: Client<'a>,
    region_bytes: usize,
    workers: Workers,
    stage: Arc<StageStats>,
    open: [OpenRegion; Lane::COUNT],
    full: Vec<Offer>,
}

#[derive(Default)]
struct OpenRegion {
    /// The number of its first chunk.
    first: u64,
    entries: Vec<PendingEntry>,
    plain: Vec<u8>,
}

impl fmt::Debug for ReadRegions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadRegions").finish_non_exhaustive()
    }
}

impl<'a> ReadRegions<'a> {
    /// No regions yet.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(client: Client<'a>) -> Result<Self, IngestError> {
        let stage = StageStats::new("work");
        let workers = client.pools.workers(client.options.workers, &stage);
        Ok(Self {
            region_bytes: client.session.terms().settings.region_bytes as usize,
            workers: workers.map_err(IngestError::NoThread)?,
            client,
            stage,
            open: Default::default(),
            full: Vec::new(),
        })
    }

    /// Adds a wanted chunk with its bytes, which have this fingerprint. Chunks of a lane come in
    /// the order of their numbers.
    ///
    /// # Errors
    /// If the backup was given up, or a chunk is longer than the format allows.
    pub fn push(&mut self, new: NewChunk, fingerprint: Fingerprint, bytes: &[u8]) -> Result<(), IngestError> {
        let len = u32::try_from(bytes.len()).map_err(|_| IngestError::TooLarge("a chunk of 4 GiB"))?;
        let open = &self.open[new.lane.number()];
        if !open.entries.is_empty() && open.first + open.entries.len() as u64 != new.ordinal {
            self.close(new.lane)?;
        }
        let open = &mut self.open[new.lane.number()];
        if open.entries.is_empty() {
            open.first = new.ordinal;
        }
        open.entries.push(PendingEntry::chunk(fingerprint, len));
        open.plain.extend_from_slice(bytes);
        if open.plain.len() >= self.region_bytes {
            self.close(new.lane)?;
        }
        Ok(())
    }

    /// Closes the open region of a lane.
    ///
    /// # Errors
    /// If the backup was given up.
    pub fn close(&mut self, lane: Lane) -> Result<(), IngestError> {
        let OpenRegion {
            first,
            entries,
            plain,
        } = mem::take(&mut self.open[lane.number()]);
        if entries.is_empty() {
            return Ok(());
        }
        let compression = self.compression();
        let region = OfferedRegion::of_bytes((lane, first), entries, plain, compression, &self.workers);
        let region = region.map_err(|_| IngestError::StoreEnded)?;
        self.full.push(Offer::Region(region));
        Ok(())
    }

    fn compression(&self) -> Compression {
        let options = self.client.options;
        match (self.client.session.distance(), options.slow_line_level) {
            (Distance::Far { is_slow: true }, Some(level)) => options.compression.at_least(level),
            _ => options.compression,
        }
    }

    /// The closed regions, to be sent.
    #[must_use]
    pub fn take(&mut self) -> Vec<Offer> {
        mem::take(&mut self.full)
    }

    /// How many regions were closed and not taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.full.len()
    }

    /// Whether none was.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    /// How the workers spent their time.
    #[must_use]
    pub fn stage(&self) -> &Arc<StageStats> {
        &self.stage
    }
}
