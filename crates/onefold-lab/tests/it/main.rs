//! The laboratory's binary as its users run it: real files, exit codes, messages, signals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "other processes are waited for, in the system's own time"
)]

mod access;
mod bed;
mod idle;
mod lab;
#[path = "../../../cli/tests/it/ran.rs"]
mod ran;
mod simulate;
mod streams;
mod traces;
