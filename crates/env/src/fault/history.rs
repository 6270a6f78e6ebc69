//! The states of an object, from its last durable one to its live one.

use std::sync::Arc;

use types::UnixNanos;

/// An object's content at one time.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) put_at: UnixNanos,
    /// So many of the bytes were given back and take no space.
    pub(super) given_back: u64,
}

impl Version {
    /// Bytes that it takes on the disk.
    pub(super) fn space(&self) -> u64 {
        (self.bytes.len() as u64).saturating_sub(self.given_back)
    }
}

/// A state of an object, existing or not, since the machine's operation with this number.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) since: u64,
    pub(super) version: Option<Version>,
}

/// The states that a power loss may leave. The first is durable, and the last is live. The states
/// in between were live once, and may have reached the disk by chance.
#[derive(Debug, Clone)]
pub(super) struct History {
    states: Vec<State>,
}

impl History {
    /// The history of an object that never existed.
    pub(super) fn absent() -> Self {
        Self {
            states: vec![State {
                since: 0,
                version: None,
            }],
        }
    }

    /// The history of a durable object.
    pub(super) fn durable(version: Version) -> Self {
        Self {
            states: vec![State {
                since: 0,
                version: Some(version),
            }],
        }
    }

    /// All states, oldest first; never empty.
    pub(super) fn states(&self) -> &[State] {
        &self.states
    }

    fn last(&self) -> &State {
        self.states
            .last()
            .expect("a history is made with a state and never loses its last")
    }

    /// The version that readers see.
    pub(super) fn live(&self) -> Option<&Version> {
        self.last().version.as_ref()
    }

    /// The operation since which readers see that version.
    pub(super) fn live_since(&self) -> u64 {
        self.last().since
    }

    /// Records that the object was put or deleted.
    pub(super) fn push(&mut self, since: u64, version: Option<Version>) {
        self.states.push(State { since, version });
    }

    /// Makes durable the state that was live at that operation.
    pub(super) fn settle(&mut self, since: u64) {
        let settled = self
            .states
            .partition_point(|state| state.since <= since)
            .saturating_sub(1);
        self.states.drain(..settled);
    }

    /// Replaces the whole history: the object is live and durable with this version.
    pub(super) fn replace(&mut self, version: Version) {
        *self = Self::durable(version);
    }

    /// Whether the object does not exist, did not exist, and cannot come back.
    pub(super) fn is_gone(&self) -> bool {
        self.states.len() == 1 && self.live().is_none()
    }
}
