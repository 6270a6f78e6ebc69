//! Numbers of a session's containers, and when these are full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use types::{ContainerId, ContainerKind, SequenceNumber, SessionId};

use crate::error::IngestError;

/// Gives out container numbers; shared by the packer and the closer.
#[derive(Debug, Clone)]
pub(crate) struct Sequences {
    session: SessionId,
    next: Arc<AtomicU32>,
}

impl Sequences {
    pub(crate) fn new(session: SessionId) -> Self {
        Self {
            session,
            next: Arc::new(AtomicU32::new(0)),
        }
    }

    pub(crate) fn next(&self, kind: ContainerKind) -> Result<ContainerId, IngestError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let sequence = SequenceNumber::new(number)
            .map_err(|_| IngestError::TooLarge("one backup cannot have more than 16,777,216 containers"))?;
        Ok(ContainerId {
            session: self.session,
            kind,
            sequence,
        })
    }
}

/// When containers and regions are full.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) container_bytes: u64,
    pub(crate) region_bytes: usize,
}
