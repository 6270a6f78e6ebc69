//! The closer's stage: makes stored data safe to build on.
//!
//! One thread. It keeps account of every container that was put, publishes the hooks to chunks,
//! writes checkpoints from which a crashed backup resumes, and answers reclamation. When the packer
//! is done and its last container is put, the account becomes part of the manifest. The session's
//! commit makes the backup durable and visible (INV-1).
//!
//! An answer is collected in this order. First the closer takes the right to write the checkpoint
//! (then no look-up by an older view is left). The look-up stage sends all found chunks ahead. The
//! packer seals the open containers. When all of these are put, the closer writes the checkpoint.

use std::sync::Arc;
use std::time::Duration;

use container::CatalogView;
use format::manifest::ContainerSpan;
use format::session::OpenStream;
use recipe::TreeRoot;
use session::{CheckpointTurn, Draft, Session};
use types::{ContainerId, ContainerKind, SlotRange};

use crate::counters::Counters;
use crate::error::{Halt, IngestError};
use crate::options::IngestOptions;
use crate::queue::Receiver;
use crate::store::sealed_containers::{CopyLane, SealedContainers};
use crate::store::session::StoreSession;

/// How often the stage looks for requests of reclamation.
const POLL: Duration = Duration::from_millis(200);

/// In a backup that can be resumed, a checkpoint that states the positions of the streams is due
/// after so many intervals, whatever was stored.
const INTERVALS_A_POSITION: u32 = 10;

/// In a long backup, checkpoints are at least this share of the stored bytes apart: each names
/// every container so far, and all are kept until the session ends.
const CHECKPOINT_SHARE: u64 = 256;

/// A container that has been put.
#[derive(Debug, Clone)]
pub(crate) struct SealedNotice {
    /// How many containers were submitted before it. There are several writers, so a later one may
    /// be put first.
    pub(crate) number: u64,
    pub(crate) catalog: Arc<CatalogView>,
    /// Bytes in the storage, the mirror's included.
    pub(crate) stored_bytes: u64,
}

/// A message to the closer.
#[derive(Debug)]
pub(crate) enum ToClose {
    /// A container was put.
    Sealed(SealedNotice),
    /// An answer was collected. It is complete once the first `submitted` containers are put.
    Answer {
        submitted: u64,
        references: Vec<(ContainerId, SlotRange)>,
        streams: Vec<OpenStream>,
    },
    /// All chunks are packed: `submitted` containers in all.
    Finish { submitted: u64, roots: Vec<TreeRoot> },
}

/// The results of a finished pipeline for the manifest.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) roots: Vec<TreeRoot>,
    pub(crate) containers: Vec<ContainerSpan>,
}

/// The bytes stored since the last checkpoint, and its time.
#[derive(Debug)]
pub(crate) struct CheckpointClock {
    bytes: u64,
    began: Duration,
}

impl CheckpointClock {
    pub(crate) fn start(now: Duration) -> Self {
        Self { bytes: 0, began: now }
    }
}

/// The stage's state.
pub(crate) struct CloseStage {
    pub(crate) session: Arc<StoreSession>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) options: IngestOptions,
    pub(crate) notices: crossbeam_channel::Sender<SealedNotice>,
    pub(crate) copies: CopyLane,
    pub(crate) containers: SealedContainers,
    pub(crate) checkpoint_clock: CheckpointClock,
    /// The references of the last answer. Later checkpoints have them too.
    pub(crate) references: Vec<(ContainerId, SlotRange)>,
    /// The positions of the streams at that time.
    pub(crate) streams: Vec<OpenStream>,
    /// The bytes stored by that time.
    pub(crate) bytes_at_position: u64,
    /// When that was.
    pub(crate) position_at: Duration,
}

/// What an answer was collected as.
#[derive(Debug)]
struct Collected {
    submitted: u64,
    references: Vec<(ContainerId, SlotRange)>,
    streams: Vec<OpenStream>,
}

impl CloseStage {
    pub(crate) fn run(mut self, input: &Receiver<ToClose>) -> Result<Closed, Halt> {
        let store = Arc::clone(&self.session);
        let session = store.session();
        let mut turn: Option<CheckpointTurn<'_>> = None;
        let mut collected: Option<Collected> = None;
        let mut finish: Option<(u64, Vec<TreeRoot>)> = None;
        loop {
            let received = match input.recv_within(POLL) {
                Ok(received) => received,
                Err(closed) => {
                    // An answer that was being collected is given no more; another right to write
                    // would wait for this one.
                    drop(turn.take());
                    self.leave_checkpoint(session);
                    return Err(closed.into());
                }
            };
            match received {
                None => {}
                Some(ToClose::Sealed(notice)) => self.sealed(notice)?,
                Some(ToClose::Answer {
                    submitted,
                    references,
                    streams,
                }) => {
                    collected = Some(Collected {
                        submitted,
                        references,
                        streams,
                    });
                }
                Some(ToClose::Finish { submitted, roots }) => finish = Some((submitted, roots)),
            }
            if let Some(answer) = collected.take_if(|answer| self.containers.has_all(answer.submitted))
                && let Some(turn) = turn.take()
            {
                (self.references, self.streams) = (answer.references, answer.streams);
                self.bytes_at_position = self.counters.bytes_stored.get();
                self.position_at = self.session.clock().monotonic();
                let draft = Draft {
                    containers: self.containers.answer(answer.submitted),
                    references: self.references.clone(),
                    streams: self.streams.clone(),
                };
                turn.write(draft).map_err(IngestError::from)?;
                if let Some(first) = self.streams.first() {
                    self.session.durable.advance(first.len);
                }
                self.restart_checkpoint_clock();
            }
            if let Some((_, roots)) = finish.take_if(|(count, _)| self.containers.has_all(*count)) {
                // An epoch that waits for an answer gets the manifest instead.
                if let Some(id) = self.copies.finish()? {
                    self.containers.add_copies(id);
                }
                return Ok(Closed {
                    roots,
                    containers: self.containers.all(),
                });
            }
            if turn.is_none() && finish.is_none() && (session.checkpoint_wanted() || self.checkpoint_is_due())
            {
                turn = self.checkpoint(session, self.position_is_due())?;
            }
        }
    }

    fn sealed(&mut self, notice: SealedNotice) -> Result<(), Halt> {
        let id = notice.catalog.id();
        self.counters.bytes_stored.add(notice.stored_bytes);
        self.checkpoint_clock.bytes += notice.stored_bytes;
        self.containers.add(notice.number, id);
        if id.kind == ContainerKind::Data
            && let Some(copied) = self.copies.add(&notice.catalog)?
        {
            self.containers.add_copies(copied);
        }
        self.session.publish(&notice.catalog)?;
        // The look-up stage is done, and gone, before the last containers are put.
        drop(self.notices.send(notice));
        Ok(())
    }

    fn checkpoint_is_due(&self) -> bool {
        let CheckpointClock { bytes, began } = self.checkpoint_clock;
        let waited = self.session.clock().monotonic().saturating_sub(began);
        let share = self.counters.bytes_stored.get() / CHECKPOINT_SHARE;
        bytes >= self.options.checkpoint_bytes.max(share)
            || (bytes > 0 && waited >= self.options.checkpoint_interval)
            || self.position_is_wanted()
    }

    /// A stream of which nearly all is known stores next to nothing, and is as long to read.
    fn position_is_due(&self) -> bool {
        let stored = self
            .counters
            .bytes_stored
            .get()
            .saturating_sub(self.bytes_at_position);
        let enough = self
            .options
            .checkpoint_bytes
            .saturating_mul(self.options.checkpoints_a_position);
        self.options.is_resumable && stored >= enough || self.position_is_wanted()
    }

    /// Whether a position is due, whatever was stored.
    fn position_is_wanted(&self) -> bool {
        let waited = self.session.clock().monotonic().saturating_sub(self.position_at);
        let is_old = waited >= self.options.checkpoint_interval * INTERVALS_A_POSITION;
        self.options.is_resumable && (is_old || self.session.durable.is_requested())
    }

    /// Writes a checkpoint, unless it would have to answer an epoch, or to say how far the streams
    /// are: then what has been found must be collected first, and the right to write comes back.
    fn checkpoint<'s>(
        &mut self,
        session: &'s Session,
        says_how_far: bool,
    ) -> Result<Option<CheckpointTurn<'s>>, Halt> {
        let turn = session.begin_checkpoint().map_err(IngestError::from)?;
        if session.checkpoint_wanted() || says_how_far {
            self.session.durable.take_request();
            self.session.request_collection();
            return Ok(Some(turn));
        }
        let draft = Draft {
            containers: self.containers.safe_to_adopt(),
            references: self.references.clone(),
            streams: self.streams.clone(),
        };
        turn.write(draft).map_err(IngestError::from)?;
        self.restart_checkpoint_clock();
        Ok(None)
    }

    /// The backup stops before its end, asked to or because a stage failed: what was put by now is
    /// for the next one. Nothing depends on it, and the reason why the backup stops is the one to
    /// tell.
    fn leave_checkpoint(&mut self, session: &Session) {
        let waits_for_answer = session.checkpoint_wanted();
        if self.checkpoint_clock.bytes > 0 && !waits_for_answer {
            drop(self.checkpoint(session, false));
        }
    }

    fn restart_checkpoint_clock(&mut self) {
        self.checkpoint_clock = CheckpointClock::start(self.session.clock().monotonic());
    }
}
