//! The server's end of a connection, and the client at its other end.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use onefold::{Filter, Scope, Snapshot, Store};
use transport::{Channel, Closer, FrameReader, FrameWriter, Traffic, TransportError};
use types::SessionId;
use wire::{FRAME_BYTES_MAX, Head, Refusal, RefusalKind, Wire, reply};

use crate::balance::Processing;
use crate::gate::Permit;
use crate::home::Home;
use crate::manifests::Namespace;
use crate::namespaces::Limits;
use crate::rights::{Right, Rights};
use crate::shares::Shares;
use crate::state::State;

/// How an operation has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The connection goes on.
    GoOn,
    /// The client is gone, or is not listened to any more.
    Over,
}

/// Sets the time in which bytes of a client must come, if there is one.
pub type Deadline = Arc<dyn Fn(Option<Duration>) + Send + Sync>;

/// A message that has begun must come within this time, ...
const BODY_PATIENCE: Duration = Duration::from_secs(60);
/// ... and one second for so many of its bytes.
const BODY_BYTES_A_SECOND: u64 = 8 << 10;

/// What comes from a client.
pub(crate) struct Incoming {
    reader: FrameReader,
    deadline: Deadline,
}

/// The server's end of a connection.
pub(crate) struct Peer {
    pub(crate) incoming: Incoming,
    pub(crate) writer: FrameWriter,
    pub(crate) closer: Closer,
}

/// How long a running operation may go on with a token that was revoked.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A token that has logged in.
pub(crate) struct Token {
    id: String,
    home: Home,
    looked_at: Mutex<Duration>,
}

impl Token {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn new(id: String, home: &Home) -> Self {
        Self {
            id,
            home: home.clone(),
            looked_at: Mutex::new(home.env.clock.monotonic()),
        }
    }

    /// Refuses if the token was valid no longer when the server last looked. It looks if that is at
    /// least so long ago.
    pub(crate) fn ensure_valid(&self, after: Duration) -> Result<(), Refusal> {
        let now = self.home.env.clock.monotonic();
        {
            let mut looked_at = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
            if now < looked_at.saturating_add(after) {
                return Ok(());
            }
            *looked_at = now;
        }
        if self.home.is_valid(&self.id).map_err(failed)? {
            return Ok(());
        }
        Err(not_allowed(
            "this machine's token was revoked, or is too old; join again",
        ))
    }
}

/// A client that has shown its token.
pub(crate) struct User {
    /// Its token. A client of a tunnel has none.
    pub(crate) token: Option<Token>,
    pub(crate) rights: Rights,
    pub(crate) namespace: Namespace,
    pub(crate) store: Arc<Store>,
    /// The bytes that running backups of the namespace have added.
    pub(crate) running_bytes: Arc<AtomicU64>,
    /// The namespace's limits, as they were when the present operation began.
    pub(crate) limits: Limits,
    pub(crate) shares: Shares,
}

/// A message of a client.
pub(crate) struct Message {
    pub(crate) head: Head,
    pub(crate) body: Body,
    /// Until it is processed.
    pub(crate) processing: Option<Processing>,
}

/// The bytes of a message, and the memory that they have. Other clients wait for this memory. So
/// the body is dropped as soon as the message is decoded, before anything that waits for the
/// client: an answer, a place, the next message. If what is decoded is as large, and is needed for
/// long, the memory stays ([`Body::into_memory`]).
pub(crate) struct Body {
    bytes: Vec<u8>,
    memory: Option<Permit>,
}

impl Body {
    /// Drops the bytes, and keeps their memory. A short message has none.
    pub(crate) fn into_memory(self) -> Option<Permit> {
        self.memory
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

pub(crate) fn not_allowed(why: impl Into<String>) -> Refusal {
    Refusal::new(RefusalKind::NotAllowed, why)
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Refusal {
    Refusal::new(RefusalKind::Failed, error.to_string())
}

impl User {
    /// Refuses what the token does not allow.
    pub(crate) fn ensure(&self, right: Right) -> Result<(), Refusal> {
        if self.rights.has(right) {
            return Ok(());
        }
        Err(not_allowed(format!(
            "this machine's token has no right to {}; it has: {}",
            right.word(),
            self.rights
        )))
    }

    /// Refuses an operation if the token is not valid.
    pub(crate) fn ensure_valid(&self) -> Result<(), Refusal> {
        let token = self.token.as_ref();
        token.map_or(Ok(()), |token| token.ensure_valid(Duration::ZERO))
    }

    /// Refuses to go on with an operation if the token has not been valid for a while.
    pub(crate) fn ensure_still_valid(&self) -> Result<(), Refusal> {
        let token = self.token.as_ref();
        token.map_or(Ok(()), |token| token.ensure_valid(LOOK_EVERY))
    }

    /// The namespace's part of the store.
    pub(crate) fn scope(&self) -> Scope {
        Scope::default()
            .host_prefix(self.namespace.prefix().to_vec())
            .minimum_age(self.limits.minimum_age)
    }

    /// Backups of the namespace. Of several, those that do not exist are left out.
    pub(crate) fn some(&self, ids: &[SessionId]) -> Result<Vec<Snapshot>, Refusal> {
        if let [id] = ids {
            return Ok(vec![self.snapshot(*id)?]);
        }
        let wanted: HashSet<SessionId> = ids.iter().copied().collect();
        let mut found = self.store.snapshots().map_err(failed)?.snapshots;
        found.retain(|snapshot| wanted.contains(&snapshot.id) && self.namespace.has(&snapshot.backup));
        Ok(found)
    }

    /// A backup of the namespace.
    pub(crate) fn snapshot(&self, id: SessionId) -> Result<Snapshot, Refusal> {
        let none = || Refusal::new(RefusalKind::NotFound, format!("there is no backup {id}"));
        let found = self.store.find(&id.to_string(), &Filter::default());
        let found = found.map_err(|_| none())?;
        if self.namespace.has(&found.backup) {
            Ok(found)
        } else {
            Err(none())
        }
    }
}

impl Incoming {
    /// The client has shown its token: messages may come at any time.
    pub(crate) fn trust(&self) {
        (self.deadline)(None);
    }

    /// The next message of somebody who has not logged in, of so many bytes at most.
    pub(crate) fn of_stranger(&mut self, max: usize) -> Result<Option<(Head, Vec<u8>)>, TransportError> {
        self.reader.next(max)
    }

    /// The next message, once there is memory for it, at the namespace's rate and in balance with
    /// others. `None` if the client has left.
    pub(crate) fn next(&mut self, state: &State, shares: &Shares) -> Result<Option<Message>, TransportError> {
        let clock = &*state.home.env.clock;
        let asked_at = clock.monotonic();
        let Some(head) = self.reader.head(FRAME_BYTES_MAX)? else {
            return Ok(None);
        };
        let waited = clock.monotonic().saturating_sub(asked_at);
        // A client that waits for its rate holds no memory that others need.
        let is_paced = shares.turn(state, head.len);
        let waited = if is_paced || shares.is_bound() {
            Duration::MAX
        } else {
            waited
        };
        let is_ending = || state.is_ending();
        let processing = state.balance.enter(&shares.owner, head.len, waited, &is_ending);
        let memory = state.memory.body(&shares.owner, head.len, &is_ending);
        // It holds memory that others need.
        let seconds = head.len as u64 / BODY_BYTES_A_SECOND;
        (self.deadline)(Some(BODY_PATIENCE + Duration::from_secs(seconds)));
        let began = clock.monotonic();
        let bytes = self.reader.body(head)?;
        shares.charge(state, head.len);
        shares.note(head.len, clock.monotonic().saturating_sub(began));
        (self.deadline)(None);
        Ok(Some(Message {
            head,
            body: Body { bytes, memory },
            processing: Some(processing),
        }))
    }
}

impl Peer {
    pub(crate) fn new(channel: Channel, deadline: &Deadline) -> Self {
        let traffic = Traffic::default();
        Self {
            incoming: Incoming {
                reader: FrameReader::new(channel.input, traffic.clone()),
                deadline: Arc::clone(deadline),
            },
            writer: FrameWriter::new(channel.output, traffic),
            closer: channel.closer,
        }
    }

    /// Answers, in several frames if one is too short.
    pub(crate) fn answer(&self, number: u32, body: &[u8]) -> Result<(), TransportError> {
        let mut rest = body;
        while let Some((part, after)) = rest.split_at_checked(FRAME_BYTES_MAX)
            && !after.is_empty()
        {
            self.writer.send(reply::PART, number, part)?;
            rest = after;
        }
        self.writer.send(reply::ANSWER, number, rest)
    }

    pub(crate) fn refuse(&self, number: u32, refusal: &Refusal) -> Result<(), TransportError> {
        self.writer.send(reply::REFUSAL, number, &refusal.to_bytes())
    }

    pub(crate) fn reply(&self, number: u32, answer: Result<Vec<u8>, Refusal>) -> Result<(), TransportError> {
        match answer {
            Ok(bytes) => self.answer(number, &bytes),
            Err(refusal) => self.refuse(number, &refusal),
        }
    }
}
