//! Sends fetched bytes in the order of the stream, on the caller's thread.
//!
//! Invariant: bytes are sent in order, and each byte once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crossbeam_channel::Receiver;

use crate::error::RestoreError;
use crate::fetch::{FetchedBytes, SpotRun, ToKeep};
use crate::memory_budget::MemoryBudget;
use crate::message::{AssembleStats, Message, Planned, charged};
use crate::plan::{SPOT_BYTES, Use, Uses};

/// Receives restored bytes in the order of the stream.
pub trait Sink {
    /// The next bytes.
    ///
    /// # Errors
    /// Any error ends the restore.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), RestoreError>;

    /// The next `len` bytes are zeros.
    ///
    /// # Errors
    /// Any error ends the restore.
    fn zeros(&mut self, len: u64) -> Result<(), RestoreError>;

    /// The next `len` bytes are lost. A sink that can leave them out returns `Ok`.
    ///
    /// # Errors
    /// Any error ends the restore.
    fn lost(&mut self, len: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError>;
}

/// An item that waits for its turn.
enum Waiting {
    Run(Arc<FetchedBytes>, SpotRun),
    Use(Use),
    NoChunk {
        len: u64,
        lost: Option<Arc<RestoreError>>,
    },
}

/// A chunk that is kept for several spots. The entry exists from its first use, or from its arrival
/// if that is earlier.
#[derive(Default)]
struct RetainedChunk {
    chunk: Option<ToKeep>,
    /// Uses that were announced and not yet sent.
    uses: u64,
    /// Whether no further use will be announced.
    goes: bool,
}

/// The sending end.
pub(crate) struct Sender<'a> {
    sink: &'a mut dyn Sink,
    room: &'a MemoryBudget,
    /// By the number of the first spot.
    waiting: HashMap<u64, Waiting>,
    kept: HashMap<u64, RetainedChunk>,
    next_spot: u64,
    planned: Option<Planned>,
    stats: AssembleStats,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(sink: &'a mut dyn Sink, room: &'a MemoryBudget) -> Self {
        Self {
            sink,
            room,
            waiting: HashMap::new(),
            kept: HashMap::new(),
            next_spot: 0,
            planned: None,
            stats: AssembleStats::default(),
        }
    }

    /// Runs until everything was sent.
    pub(crate) fn run(mut self, messages: &Receiver<Message>) -> Result<AssembleStats, RestoreError> {
        loop {
            if let Some(planned) = self.planned
                && self.next_spot == planned.spots
            {
                self.stats.containers_read = planned.containers_read;
                return Ok(self.stats);
            }
            let Ok(message) = messages.recv() else {
                return Err(RestoreError::Internal("a spot was never filled"));
            };
            match message {
                Message::Planned(planned) => self.planned = Some(planned?),
                Message::NoChunk { spot, len, lost } => {
                    self.waiting.insert(spot, Waiting::NoChunk { len, lost });
                    self.send_out()?;
                }
                Message::Brought(brought) => {
                    self.stats.region_bytes_read += brought.read_bytes;
                    for run in brought.runs {
                        let bytes = Arc::clone(&brought.bytes);
                        self.waiting.insert(run.first, Waiting::Run(bytes, run));
                    }
                    for chunk in brought.to_keep {
                        let number = chunk.number;
                        self.kept.entry(number).or_default().chunk = Some(chunk);
                        self.let_go(number);
                    }
                    self.send_out()?;
                    self.room.dealt_with_piece();
                }
                Message::Uses(uses) => {
                    self.note(uses);
                    self.send_out()?;
                    self.room.dealt_with_piece();
                }
            }
        }
    }

    fn note(&mut self, uses: Uses) {
        for one in uses.uses {
            let kept = self.kept.entry(one.number).or_default();
            kept.uses += 1;
            kept.goes |= one.is_last;
            self.waiting.insert(one.spot, Waiting::Use(one));
        }
        for number in uses.evicted {
            self.kept.entry(number).or_default().goes = true;
            self.let_go(number);
        }
    }

    /// Frees a kept chunk if it has arrived and nothing needs it any more.
    fn let_go(&mut self, number: u64) {
        let Entry::Occupied(entry) = self.kept.entry(number) else {
            return;
        };
        let kept = entry.get();
        if kept.goes
            && kept.uses == 0
            && let Some(chunk) = &kept.chunk
        {
            self.room.free(chunk.charged);
            entry.remove();
        }
    }

    /// Sends a spot from a kept chunk. Returns `false` if the chunk has not arrived yet.
    fn send_kept(&mut self, one: Use) -> Result<bool, RestoreError> {
        let Some(kept) = self.kept.get_mut(&one.number) else {
            return Err(RestoreError::Internal("a chunk that is used was never kept"));
        };
        let Some(chunk) = &kept.chunk else {
            self.waiting.insert(one.spot, Waiting::Use(one));
            return Ok(false);
        };
        kept.uses -= 1;
        match &chunk.found {
            Ok(bytes) => match part(bytes, &one) {
                Some(bytes) => self.sink.bytes(bytes)?,
                None => {
                    let location = one.part.location;
                    lose(
                        self.sink,
                        one.len,
                        &Arc::new(RestoreError::WrongSlot { location }),
                    )?;
                }
            },
            Err(error) => lose(self.sink, one.len, error)?,
        }
        self.let_go(one.number);
        Ok(true)
    }

    /// Sends all available items at the front, and frees their room.
    fn send_out(&mut self) -> Result<(), RestoreError> {
        let mut freed = 0;
        while let Some(waiting) = self.waiting.remove(&self.next_spot) {
            match waiting {
                Waiting::Use(one) => {
                    if !self.send_kept(one)? {
                        break;
                    }
                    self.next_spot += 1;
                    freed += SPOT_BYTES;
                    self.stats.bytes += one.len;
                }
                Waiting::NoChunk { len, lost } => {
                    self.next_spot += 1;
                    freed += SPOT_BYTES;
                    self.stats.bytes += len;
                    match lost {
                        Some(error) => lose(self.sink, len, &error)?,
                        None => self.sink.zeros(len)?,
                    }
                }
                Waiting::Run(bytes, run) => {
                    self.next_spot += run.count;
                    self.stats.bytes += run.len;
                    freed += charged(&run);
                    match &run.found {
                        Ok(at) => self.sink.bytes(bytes.get(at))?,
                        Err(error) => lose(self.sink, run.len, error)?,
                    }
                }
            }
        }
        if freed > 0 {
            self.room.free(freed);
        }
        Ok(())
    }
}

/// Passes lost bytes to the sink, unless all further ones would be lost, too.
fn lose(sink: &mut dyn Sink, len: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError> {
    if error.is_of_whole_store() {
        return Err(RestoreError::NoMore(Arc::clone(error)));
    }
    sink.lost(len, error)
}

/// The part of a kept chunk that a spot needs.
fn part<'a>(chunk: &'a [u8], one: &Use) -> Option<&'a [u8]> {
    let skip = usize::try_from(one.part.skip).ok()?;
    let len = usize::try_from(one.len).ok()?;
    chunk.get(skip..)?.get(..len)
}
