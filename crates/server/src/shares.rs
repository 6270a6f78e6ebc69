//! What the clients of a server share: its balance, and the rate of their namespace.
//!
//! An owner whose own line or rate slows it must hold back nobody ([`crate::balance`]). Its
//! messages may be there before the server asks for them: a restore asks for many regions ahead. So
//! a connection also notes how its last long message came, and how its last answers left.
//!
//! A connection's thread uses it. Nothing here fails but the sending.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use transport::{FrameWriter, TransportError};
use wire::{Refusal, Wire, reply};

use crate::balance::Processing;
use crate::gate::Permit;
use crate::rate::Rate;
use crate::state::State;

/// A frame of an answer has about so many bytes. Each connection keeps a frame's memory.
pub(crate) const PART_BYTES: usize = 256 << 10;

/// How long an answer waits for memory.
const MEMORY_PATIENCE: Duration = Duration::from_millis(200);

/// From the time that so many bytes take, ...
const LONG_BYTES: usize = 64 << 10;
/// ... a slower rate than this shows that they pass a network, or a client that is slower.
const MEMORY_BYTES_A_SECOND: u64 = 150_000_000;

/// What a connection shares with others.
#[derive(Debug)]
pub(crate) struct Shares {
    /// Who shares: the token, or the namespace of a tunnel.
    pub(crate) owner: String,
    rate: Arc<Rate>,
    /// Bytes a second.
    pub(crate) rate_bytes: Option<u64>,
    /// Whether the last long message or answer passed as slowly as over a network.
    is_slow: AtomicBool,
    /// Whether the last answer waited for the rate.
    is_paced: AtomicBool,
}

impl Shares {
    pub(crate) fn new(owner: String, rate: Arc<Rate>) -> Self {
        Self {
            owner,
            rate,
            rate_bytes: None,
            is_slow: AtomicBool::new(false),
            is_paced: AtomicBool::new(false),
        }
    }

    /// Waits until these bytes may pass, at the namespace's rate. Returns whether it had to wait.
    pub(crate) fn pass(&self, state: &State, bytes: usize) -> bool {
        let clock = &*state.home.env.clock;
        self.rate
            .pass(bytes, self.rate_bytes, clock, &|| state.is_ending())
    }

    /// Waits until more may come, at the namespace's rate. Returns whether the rate slows the
    /// client, if so many bytes come.
    pub(crate) fn turn(&self, state: &State, bytes: usize) -> bool {
        let clock = &*state.home.env.clock;
        self.rate
            .turn(bytes, self.rate_bytes, clock, &|| state.is_ending())
    }

    /// Counts bytes that have come.
    pub(crate) fn charge(&self, state: &State, bytes: usize) {
        self.rate.charge(bytes, self.rate_bytes, &*state.home.env.clock);
    }

    /// Whether the client's own line or rate is what slows it.
    pub(crate) fn is_bound(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed) || self.is_paced.load(Ordering::Relaxed)
    }

    /// Notes how long it took until these bytes had passed.
    pub(crate) fn note(&self, bytes: usize, took: Duration) {
        if bytes >= LONG_BYTES {
            let nanos = took.as_nanos() * u128::from(MEMORY_BYTES_A_SECOND);
            self.is_slow
                .store(nanos > bytes as u128 * 1_000_000_000, Ordering::Relaxed);
        }
    }
}

/// The answer to a message, at the rate of the client's namespace.
pub(crate) struct Answer<'a> {
    writer: &'a FrameWriter,
    state: &'a State,
    shares: &'a Shares,
    number: u32,
    /// The message. With the answer's first byte it counts as processed: what follows waits for the
    /// client.
    processing: Option<Processing>,
    /// Bytes that were sent, how long that took, and whether any of them waited for the rate.
    sent: (usize, Duration, bool),
}

impl<'a> Answer<'a> {
    /// To the message with this number.
    pub(crate) fn to(
        number: u32,
        processing: Option<Processing>,
        writer: &'a FrameWriter,
        (state, shares): (&'a State, &'a Shares),
    ) -> Self {
        Self {
            writer,
            state,
            shares,
            number,
            processing,
            sent: (0, Duration::ZERO, false),
        }
    }

    fn send(&mut self, kind: u8, body: &[u8]) -> Result<(), TransportError> {
        drop(self.processing.take());
        self.state.balance.count(&self.shares.owner, body.len());
        let is_paced = self.shares.pass(self.state, body.len());
        let clock = &*self.state.home.env.clock;
        let began = clock.monotonic();
        self.writer.send(kind, self.number, body)?;
        let (bytes, took, was_paced) = &mut self.sent;
        *bytes += body.len();
        *took += clock.monotonic().saturating_sub(began);
        *was_paced |= is_paced;
        // A single part is fast if the one before has just left the socket.
        if kind != reply::PART {
            self.shares.note(*bytes, *took);
            self.shares.is_paced.store(*was_paced, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Memory for so many bytes of the answer, beside what is sent: until the client has taken
    /// them. `None` if there is none for a while.
    pub(crate) fn memory(&mut self, bytes: u64) -> Option<Permit> {
        let (memory, owner) = (&self.state.memory, &self.shares.owner);
        memory.answer(owner, bytes, Duration::ZERO).or_else(|| {
            // Nobody waits for an owner that waits itself.
            drop(self.processing.take());
            memory.answer(owner, bytes, MEMORY_PATIENCE)
        })
    }

    /// Sends a part. More follows.
    pub(crate) fn part(&mut self, body: &[u8]) -> Result<(), TransportError> {
        self.send(reply::PART, body)
    }

    /// Sends the last part, in several frames if it is long.
    pub(crate) fn end(mut self, body: &[u8]) -> Result<(), TransportError> {
        let mut rest = body;
        while let Some((part, after)) = rest.split_at_checked(PART_BYTES)
            && !after.is_empty()
        {
            self.part(part)?;
            rest = after;
        }
        self.send(reply::ANSWER, rest)
    }

    /// Refuses.
    pub(crate) fn refuse(mut self, refusal: &Refusal) -> Result<(), TransportError> {
        self.send(reply::REFUSAL, &refusal.to_bytes())
    }

    /// Sends the whole answer.
    pub(crate) fn whole(self, answer: Result<Vec<u8>, Refusal>) -> Result<(), TransportError> {
        match answer {
            Ok(bytes) => self.end(&bytes),
            Err(refusal) => self.refuse(&refusal),
        }
    }
}
