//! Every persistent byte of Onefold: encode, decode, golden vectors.
//!
//! The functions take slices and return values: no I/O, no keys, no clock. `docs/format.md` and
//! `docs/format-pool.md` describe the same bytes as tables, and `testdata/golden/` pins them. What
//! must hold: a decoder takes any bytes without panicking and without reserving more memory than a
//! small multiple of its input (INV-8). It accepts exactly what the encoder writes, so that
//! decoding and encoding again gives the same bytes. All types are plain values, safe to share.

pub mod config;
pub mod container;
pub mod frame;
pub mod listing;
pub mod manifest;
pub mod names;
pub mod node;
pub mod pool;
pub mod probe;
pub mod reclaim;
pub mod series;
pub mod session;
pub mod wire;

mod error;
mod payload;

pub use error::{FormatError, Result};
