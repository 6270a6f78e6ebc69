//! What a running session leaves in the store (docs/format.md, "Session objects").

use types::{Epoch, Revision, SeriesId, SessionId};

use crate::manifest::{ContainerSpan, SeriesName};

/// `sessions/<session>/claim`: claims the number and names the one manifest that can end the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The series' folder; a read session has the reserved series [`READ_SERIES`].
    pub series: SeriesId,
    /// The series' name (empty for a read session).
    pub name: SeriesName,
    /// Process id on the host, for messages only.
    pub process: u32,
    /// Whether a process lock of the same name is held on this host while the session lives.
    pub has_lock: bool,
}

/// The reserved series of read sessions.
pub const READ_SERIES: SeriesId = SeriesId::from_bytes([0; 16]);

/// `sessions/<session>/heartbeat.<counter>`: the session lives, and has answered these epochs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Counts up from 0; whoever watches compares it with what it saw before, never with a clock.
    pub counter: u64,
    /// The highest epoch the session honours: all up to it are answered. `None`: there was none.
    pub answered: Option<Epoch>,
    /// The checkpoint that answers it, once there is one.
    pub checkpoint: Option<u32>,
}

/// `sessions/<session>/checkpoint.<n>`: what is durable and referred to, so that a crashed backup
/// resumes, and reclamation knows what to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Counts up from 0.
    pub number: u32,
    /// The highest epoch honoured by everything below.
    pub answered: Option<Epoch>,
    /// Sealed and durable containers of this session.
    pub containers: Vec<ContainerSpan>,
    /// Nodes that live only in memory or in open containers: their references into sealed containers
    /// of any session, as slot ranges.
    pub references: Vec<(types::ContainerId, types::SlotRange)>,
    /// Declared parents with the revision that is in use.
    pub parents: Vec<(SeriesId, SessionId, Revision)>,
    /// Sessions adopted so far, and at which checkpoint.
    pub adopted: Vec<(SessionId, Option<u32>)>,
}

/// `lease/<what>.<n>`: who holds a lease. The highest claim is never deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The holder.
    pub holder: SessionId,
    /// Set in the claim that gives the lease up.
    pub released: bool,
}
