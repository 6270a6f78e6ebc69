//! Work with pools and volumes, on a pool that this process opens or on one that a server has open.
//!
//! A pool has one process at a time. `volume serve` has its pool for long, so it listens on a
//! control socket in the folder of the index, and does there what other commands ask for. A command
//! makes a [`Request`] and prints the [`Answer`]; [`ask`] finds out who does the work. So the
//! output and the exit code are the same.

mod asking;
mod control;
mod exports;
mod figures;
mod line;
mod opening;
mod request;
mod work;

pub(crate) use asking::{ask, open_alone};
pub(crate) use control::Control;
pub(crate) use exports::ServedExports;
pub(crate) use figures::{PoolFigures, Times, VolumeFigures};
pub(crate) use opening::{Caches, IndexFault, OpenedPool, make, open};
pub(crate) use request::{Answer, Change, Kind, Refusal, Request};
