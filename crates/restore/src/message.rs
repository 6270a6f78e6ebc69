//! The messages between the threads of an assembly.

use std::sync::Arc;

use crate::error::RestoreError;
use crate::fetch::{Brought, SpotRun};
use crate::plan::{SPOT_BYTES, Uses};

/// What an assembly cost [Lillibridge 3.1: the speed factor is bytes per container read].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AssembleStats {
    /// Bytes that left, zeros included.
    pub bytes: u64,
    /// Containers read, each as often as it was read.
    pub containers_read: u64,
    /// Plain bytes of the regions read.
    pub region_bytes_read: u64,
    /// Most bytes read ahead or assembled at any time, as they were charged against the budget.
    pub memory_bytes_max: u64,
}

/// What the sending thread is told.
pub(crate) enum Message {
    /// Zeros, or bytes that cannot be had, for one spot.
    NoChunk {
        spot: u64,
        len: u64,
        lost: Option<Arc<RestoreError>>,
    },
    /// What a piece brought.
    Brought(Brought),
    /// Spots that kept chunks fill, and chunks that go.
    Uses(Uses),
    /// The plan ends here: so many spots, so many containers read.
    Planned(Result<Planned, RestoreError>),
}

/// A whole plan, in numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Planned {
    pub(crate) spots: u64,
    pub(crate) containers_read: u64,
}

/// What a run of spots gives back.
pub(crate) fn charged(run: &SpotRun) -> u64 {
    run.len + run.count * SPOT_BYTES
}
