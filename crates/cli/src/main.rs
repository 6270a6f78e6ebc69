//! The onefold command line: arguments, progress, printing; nothing else.
//!
//! Exit codes are restic's: 0 all went well; 1 the command failed; 3 a backup was made, but
//! something could not be read; 10 there is no store; 12 wrong password; 130 interrupted.

mod args;
mod commands;
mod exit;
mod folders;
mod log;
mod notify;
mod password;
mod profile;
mod run;
mod volumes;

use std::process::ExitCode;

use crate::args::Typed;

fn main() -> ExitCode {
    let typed = match Typed::new() {
        Ok(typed) => typed,
        Err(error) => return cli_support::not_understood(&error),
    };
    run::all(typed)
}
