//! The interface between the client, which reads a source, and the store.
//!
//! A client chunks, fingerprints and compresses. The store finds duplicates, packs, writes and
//! commits. They know each other only by [`BackupSession`]: a store on this machine implements it
//! directly ([`crate::LocalSession`]), a store elsewhere by messages. The client cannot distinguish
//! them, and they make the same decisions.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use crypto::Fingerprinter;
use format::config::Settings;
use format::manifest::{BackupTotals, ContainerSpan, Origin, SeriesName, StreamRole, StreamRoot};
use index::ResolverStats;
use recipe::{Child, StoreReader, TreeBuilder, TreeRoot};
use types::{ByteRange, SessionId, UnixNanos};

use crate::dedup::{Granularity, Lane};
use crate::error::IngestError;
use crate::message::{Offer, Verdict};
use crate::queue::QueueStats;
use crate::sample::VerifiedKnown;
use crate::stage::StageStats;

/// What a client needs to know before it begins.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Computes the domain's fingerprints, and has its gear table.
    pub fingerprinter: Fingerprinter,
    /// The permanent settings of the store.
    pub settings: Settings,
    /// The unit of references.
    pub granularity: Granularity,
    /// Whether the client must check data that it takes from the parent, because some of it has
    /// rotted.
    pub is_suspect: bool,
    /// Whether the series has a backup, so that much of the new one is probably stored.
    pub has_previous: bool,
    /// The streams of an interrupted backup that this one continues, by position. Empty for a new
    /// backup.
    pub resumed: Vec<ResumedStream>,
}

/// The streams of a backup, in the order of their indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its role in the manifest.
    pub role: StreamRole,
    /// The lane of its new chunks.
    pub lane: Lane,
    /// Cuts fixed chunks of this length; otherwise content-defined ones. A client that continues
    /// the stream must cut in the same way.
    pub fixed_chunk_bytes: Option<u32>,
}

impl Stream {
    /// The stream with its tree, for a manifest.
    pub(crate) const fn with_root(&self, root: &TreeRoot) -> StreamRoot {
        StreamRoot {
            role: self.role,
            location: root.location,
            level: root.level,
            fingerprint: root.fingerprint,
            len: root.len,
        }
    }
}

/// A stream of an interrupted backup that this one continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumedStream {
    /// How many of its bytes are stored already. The client sends the bytes after them.
    pub len: u64,
    /// The node with the last of these bytes. `None`: there are none.
    pub last: Option<TreeRoot>,
}

impl ResumedStream {
    /// How far a tree was that this backup goes on with.
    pub(crate) fn of(tree: &TreeBuilder) -> Self {
        Self {
            len: tree.len(),
            last: tree.last().and_then(Child::as_root),
        }
    }
}

/// The facts of a backup for its manifest, besides the streams.
#[derive(Debug, Clone)]
pub struct About {
    /// Host and paths.
    pub name: SeriesName,
    /// When the backup began, by the source's clock.
    pub source_time: UnixNanos,
    /// How long it took, in nanoseconds.
    pub elapsed_nanos: u64,
    /// The user's name.
    pub user: Vec<u8>,
    /// The program that made it.
    pub program: String,
    /// Sorted, each once.
    pub tags: Vec<String>,
    /// Make no backup if its streams equal those of the backup before.
    pub only_if_changed: bool,
    /// The backup cannot be forgotten before this time of the storage's clock.
    pub hold_until: Option<UnixNanos>,
    /// The backup that this one is a copy of.
    pub origin: Option<Origin>,
    /// What the client counted: entries, bytes read, chunks. The store adds what it stored.
    pub counted: BackupTotals,
}

/// A backup that is durable and visible.
#[derive(Debug)]
pub struct Committed {
    /// Its number.
    pub session: SessionId,
    /// The source is as in this backup, and [`About::only_if_changed`] was set: none was made.
    pub same_as: Option<SessionId>,
    /// Its streams.
    pub streams: Vec<StreamRoot>,
    /// The counts of both sides.
    pub totals: BackupTotals,
    /// The containers that the session put.
    pub containers: Vec<ContainerSpan>,
    /// The sessions whose data it took over, and whether each had a checkpoint.
    pub adopted: Vec<(SessionId, bool)>,
    /// Errors after the backup was durable. They cost the next backup some time.
    pub warnings: Vec<IngestError>,
    /// The cost of look-ups.
    pub lookups: ResolverStats,
    /// The sample of reused containers.
    pub verified: VerifiedKnown,
    /// Statistics of the store's queues.
    pub queues: Vec<Arc<QueueStats>>,
    /// How the store's stages spent their time.
    pub stages: Vec<Arc<StageStats>>,
}

/// How far a store is from its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// In the same process.
    Here,
    /// Behind a network. Offers and verdicts need its time, so the client offers more before it
    /// waits for verdicts.
    Far {
        /// Whether the network is what slows the backup now.
        is_slow: bool,
    },
}

/// A running backup, as its client sees it. Any number of threads may use it.
pub trait BackupSession: Send + Sync {
    /// The facts that the client needs.
    fn terms(&self) -> &Terms;

    /// How far the store is from its client.
    fn distance(&self) -> Distance {
        Distance::Here
    }

    /// Reads earlier backups of the series.
    fn reader(&self) -> &dyn StoreReader;

    /// The parts of a range of an earlier backup's stream to which the client must not refer,
    /// because data there is damaged or missing. Normally there are none. Returns whole segments,
    /// in order, each once.
    ///
    /// # Errors
    /// If the store does not answer.
    fn unsound(&self, stream: &TreeRoot, range: ByteRange) -> Result<Vec<ByteRange>, IngestError>;

    /// The listing of an earlier backup, if this machine has kept it and it can be read. Otherwise
    /// the client reads it from the store.
    fn kept_listing(&self, _listing: &TreeRoot) -> Option<Box<dyn Read + Send + '_>> {
        None
    }

    /// Takes the next bytes of this backup's listing, for [`Self::kept_listing`] of the next one.
    /// The store gets them by offers, whether they are kept or not.
    fn keep_listing(&self, _bytes: &[u8]) {}

    /// Sends the next offers. Waits while the store is busy. The store stays busy while nobody
    /// takes verdicts, so another thread must take them until the last offer is sent.
    ///
    /// # Errors
    /// The store's reason, if the backup cannot continue.
    fn submit(&self, offers: Vec<Offer>) -> Result<(), IngestError>;

    /// The store's decisions since the last call. Empty if it made none within `wait`.
    ///
    /// # Errors
    /// The store's reason, if the backup cannot continue.
    fn verdicts(&self, wait: Duration) -> Result<Vec<Verdict>, IngestError>;

    /// Children of the segments that the store has decided on and keeps in memory, until the chunks
    /// before them have come. A known segment is one. A store elsewhere does not tell.
    fn unplaced(&self) -> usize {
        0
    }

    /// The position of a single stream before which its bytes are durable: if this backup broke,
    /// another one that resumes it would go on there. If it is `known`, waits up to `wait` for a
    /// later one.
    ///
    /// # Errors
    /// The store's reason, if this waited and the backup cannot continue.
    fn durable(&self, known: u64, wait: Duration) -> Result<u64, IngestError>;

    /// Asks the store to make a later position durable soon. If the backup cannot be resumed, this
    /// has no effect.
    ///
    /// # Errors
    /// The store's reason, if the backup cannot continue.
    fn request_durable(&self) -> Result<(), IngestError>;

    /// Makes the backup durable and visible, once [`Verdict::Done`] has come and all regions were
    /// submitted. Called once.
    ///
    /// # Errors
    /// If there is no backup. The next backup of the series takes over the stored data.
    fn commit(&self, about: About) -> Result<Committed, IngestError>;
}
