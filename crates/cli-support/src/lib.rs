//! What the command lines of Onefold share: output for people and for programs, progress, exit
//! codes, private files, the interrupt, values of options.

mod exit;
pub mod idle;
mod interrupt;
pub mod output;
pub mod private;
pub mod progress;
pub mod screen;
pub mod values;

/// The target of the program's own events in the log.
pub const TARGET: &str = "onefold::command";

pub use exit::{Code, code_of, message_of, not_understood, report};
pub use interrupt::{watch, watch_hangup};
pub use output::{Output, OutputOptions};
