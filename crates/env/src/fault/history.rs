//! The states of an object, from its last durable one to its live one.

use std::sync::Arc;

use types::UnixNanos;

/// An object's content at one time.
#[derive(Debug, Clone)]
pub(super) struct Version {
    pub(super) bytes: Arc<Vec<u8>>,
    pub(super) put_at: UnixNanos,
    /// So many of the bytes take no space.
    pub(super) given_back: u64,
}

impl Version {
    /// Bytes that it takes on the disk.
    pub(super) fn space(&self) -> u64 {
        (self.bytes.len() as u64).saturating_sub(self.given_back)
    }
}

/// There or not, since the machine's operation of that number.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) since: u64,
    pub(super) version: Option<Version>,
}

/// The states that a power loss may leave: the first is durable, the last is live, and those
/// between were live once and may have reached the disk by chance.
#[derive(Debug, Clone)]
pub(super) struct History {
    states: Vec<State>,
}

impl History {
    /// An object that never was.
    pub(super) fn absent() -> Self {
        Self {
            states: vec![State {
                since: 0,
                version: None,
            }],
        }
    }

    /// An object that is durable.
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

    /// What readers see.
    pub(super) fn live(&self) -> Option<&Version> {
        self.last().version.as_ref()
    }

    /// Since which operation readers see that.
    pub(super) fn live_since(&self) -> u64 {
        self.last().since
    }

    /// The object is put or deleted.
    pub(super) fn push(&mut self, since: u64, version: Option<Version>) {
        self.states.push(State { since, version });
    }

    /// What was live at that operation is durable from now on.
    pub(super) fn settle(&mut self, since: u64) {
        let settled = self
            .states
            .partition_point(|state| state.since <= since)
            .saturating_sub(1);
        self.states.drain(..settled);
    }

    /// Replaces the whole history: this is the object now, live and durable.
    pub(super) fn replace(&mut self, version: Version) {
        *self = Self::durable(version);
    }

    /// Nothing is there, was there or can come back.
    pub(super) fn is_gone(&self) -> bool {
        self.states.len() == 1 && self.live().is_none()
    }
}
