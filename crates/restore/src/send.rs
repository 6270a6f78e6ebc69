//! Sends out what was brought, in the stream's order, on the caller's thread.
//!
//! What must hold: no byte leaves before all that stand before it have, and each leaves once.

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::Receiver;

use crate::assemble::{AssembleStats, Message, Planned, charged};
use crate::error::RestoreError;
use crate::fetch::{FetchedBytes, SpotRun};
use crate::plan::SPOT_BYTES;
use crate::room::Room;

/// Where restored bytes go, in stream order.
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

    /// The next `len` bytes could not be had. A sink that can leave them out returns `Ok`.
    ///
    /// # Errors
    /// Any error ends the restore.
    fn lost(&mut self, len: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError>;
}

/// What waits for its turn.
enum Waiting {
    Run(Arc<FetchedBytes>, SpotRun),
    NoChunk {
        len: u64,
        lost: Option<Arc<RestoreError>>,
    },
}

/// The sending end.
pub(crate) struct Sender<'a> {
    sink: &'a mut dyn Sink,
    room: &'a Room,
    /// By the number of the first spot.
    waiting: HashMap<u64, Waiting>,
    next_spot: u64,
    planned: Option<Planned>,
    stats: AssembleStats,
}

impl<'a> Sender<'a> {
    pub(crate) fn new(sink: &'a mut dyn Sink, room: &'a Room) -> Self {
        Self {
            sink,
            room,
            waiting: HashMap::new(),
            next_spot: 0,
            planned: None,
            stats: AssembleStats::default(),
        }
    }

    /// Until all has left.
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
                Message::Brought(all) => {
                    for brought in all {
                        self.stats.region_bytes_read += brought.read_bytes;
                        for run in brought.runs {
                            let bytes = Arc::clone(&brought.bytes);
                            self.waiting.insert(run.first, Waiting::Run(bytes, run));
                        }
                    }
                    self.send_out()?;
                    self.room.dealt_with_piece();
                }
            }
        }
    }

    /// Sends what is there of the front, and frees its room.
    fn send_out(&mut self) -> Result<(), RestoreError> {
        let mut freed = 0;
        while let Some(waiting) = self.waiting.remove(&self.next_spot) {
            match waiting {
                Waiting::NoChunk { len, lost } => {
                    self.next_spot += 1;
                    freed += SPOT_BYTES;
                    self.stats.bytes += len;
                    match lost {
                        Some(error) => self.sink.lost(len, &error)?,
                        None => self.sink.zeros(len)?,
                    }
                }
                Waiting::Run(bytes, run) => {
                    self.next_spot += run.count;
                    self.stats.bytes += run.len;
                    freed += charged(&run);
                    match &run.found {
                        Ok(at) => self.sink.bytes(bytes.get(at))?,
                        Err(error) => self.sink.lost(run.len, error)?,
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
