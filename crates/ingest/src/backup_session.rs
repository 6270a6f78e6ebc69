//! The seam between who reads a source and who keeps a store.
//!
//! A client chunks, fingerprints and compresses. The store finds duplicates, packs, writes and
//! commits. All that they need of each other is a [`BackupSession`]: a store on this machine
//! implements it directly ([`crate::LocalSession`]), a store elsewhere by messages. The client
//! cannot tell them apart, and what is decided does not depend on which it is.

use std::sync::Arc;
use std::time::Duration;

use crypto::Fingerprinter;
use format::config::Settings;
use format::manifest::{BackupTotals, ContainerSpan, SeriesName, StreamRole, StreamRoot};
use index::ResolverStats;
use recipe::{StoreReader, TreeRoot};
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
    /// The domain's fingerprints, and its table of gears.
    pub fingerprinter: Fingerprinter,
    /// What shapes the store's bytes.
    pub settings: Settings,
    /// What is referred to, and what is stored.
    pub granularity: Granularity,
    /// Whether the client looks closer at what it takes from the parent: something of it has
    /// rotted.
    pub is_suspect: bool,
    /// The streams of an interrupted backup that this one goes on with, by position; empty for a
    /// backup that begins anew.
    pub resumed: Vec<ResumedStream>,
}

/// The streams of a backup, in the order of their indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// What the manifest calls it.
    pub role: StreamRole,
    /// Where its new chunks go.
    pub lane: Lane,
    /// Fixed chunks of so many bytes; content-defined ones otherwise. The client cuts; who goes on
    /// with the stream must cut alike.
    pub fixed_chunk_bytes: Option<u32>,
}

/// A stream of an interrupted backup that this one goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumedStream {
    /// So many of its bytes are stored already. The client sends what follows.
    pub len: u64,
    /// The node over the last of them; none where there are none.
    pub last: Option<TreeRoot>,
}

/// What a manifest says of a backup, besides its streams.
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
    /// What made it.
    pub program: String,
    /// Sorted, each once.
    pub tags: Vec<String>,
    /// What the client counted: entries, bytes read, chunks. The store adds what it stored.
    pub counted: BackupTotals,
}

/// A backup that is durable and visible.
#[derive(Debug)]
pub struct Committed {
    /// Its number.
    pub session: SessionId,
    /// Its streams.
    pub streams: Vec<StreamRoot>,
    /// What was counted, on both sides.
    pub totals: BackupTotals,
    /// The containers that the session put.
    pub containers: Vec<ContainerSpan>,
    /// Whose stored bytes it took over, and whether those had a checkpoint.
    pub adopted: Vec<(SessionId, bool)>,
    /// What failed after the backup was durable. It costs the next backup some time.
    pub warnings: Vec<IngestError>,
    /// What look-ups cost.
    pub lookups: ResolverStats,
    /// The sample of reused containers.
    pub verified: VerifiedKnown,
    /// What the store's queues saw.
    pub queues: Vec<Arc<QueueStats>>,
    /// What the store's stages did with their time.
    pub stages: Vec<Arc<StageStats>>,
}

/// A backup under way, as its client sees it. Any number of threads.
pub trait BackupSession: Send + Sync {
    /// What the client must know.
    fn terms(&self) -> &Terms;

    /// Reads earlier backups of the series.
    fn reader(&self) -> &dyn StoreReader;

    /// The parts of a range of an earlier backup's stream that must not be referred to: something
    /// there is damaged or gone. Normally there are none. Whole segments, in order, each once.
    ///
    /// # Errors
    /// When the store does not answer.
    fn unsound(&self, stream: &TreeRoot, range: ByteRange) -> Result<Vec<ByteRange>, IngestError>;

    /// Offers what comes next. Waits while the store is busy, and so for as long as nobody takes
    /// verdicts: another thread does, until the last offer was made.
    ///
    /// # Errors
    /// The store's reason, when the backup cannot go on.
    fn submit(&self, offers: Vec<Offer>) -> Result<(), IngestError>;

    /// What the store has decided since the last call; empty when nothing was within `wait`.
    ///
    /// # Errors
    /// The store's reason, when the backup cannot go on.
    fn verdicts(&self, wait: Duration) -> Result<Vec<Verdict>, IngestError>;

    /// Makes the backup durable and visible, once [`Verdict::Done`] has come and all regions were
    /// submitted. Called once.
    ///
    /// # Errors
    /// When there is no backup. What was stored is taken over by the next one of the series.
    fn commit(&self, about: About) -> Result<Committed, IngestError>;
}
