//! Messages between the threads of an assembly.

use std::sync::Arc;

use crate::error::RestoreError;
use crate::fetch::{Brought, SpotRun};
use crate::plan::{SPOT_BYTES, Uses};

/// The cost of an assembly [Lillibridge 3.1: the speed factor is bytes per container read].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AssembleStats {
    /// Bytes sent, zeros included.
    pub bytes: u64,
    /// Containers read. Each read counts.
    pub containers_read: u64,
    /// Plain bytes of the regions read.
    pub region_bytes_read: u64,
    /// The most bytes charged against the budget at any time, for reading ahead and assembling.
    pub memory_bytes_max: u64,
}

/// Messages to the sending thread.
pub(crate) enum Message {
    /// Zeros or lost bytes, for one spot.
    NoChunk {
        spot: u64,
        len: u64,
        lost: Option<Arc<RestoreError>>,
    },
    /// The result of a piece.
    Brought(Brought),
    /// Spots that kept chunks fill, and chunks that are dropped.
    Uses(Uses),
    /// The end of the plan: its numbers of spots and of containers read.
    Planned(Result<Planned, RestoreError>),
}

/// The numbers of a whole plan.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Planned {
    pub(crate) spots: u64,
    pub(crate) containers_read: u64,
}

/// The room in the budget that a run of spots gives back.
pub(crate) fn charged(run: &SpotRun) -> u64 {
    run.len + run.count * SPOT_BYTES
}
