//! The stages, in the order of the pipeline.

mod chunk;
mod compress;
mod container;
mod fingerprint;
mod hooks;
mod seal;

use crate::harness::Options;

type Stage = fn(&Options, text: &[u8]);

/// Every stage with the name that `--only` takes.
pub const ALL: &[(&str, Stage)] = &[
    ("chunk", chunk::run),
    ("fingerprint", fingerprint::run),
    ("hooks", hooks::run),
    ("compress", compress::run),
    ("seal", seal::run),
    ("container", container::run),
];
