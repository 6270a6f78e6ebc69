//! The onefold command line: arguments, progress, printing; nothing else.
//!
//! Exit codes are restic's: 0 all went well; 1 the command failed; 3 a backup was made, but something could
//! not be read; 10 there is no store; 12 wrong password; 130 interrupted.

mod args;
mod commands;
mod exit;
mod interrupt;
mod output;
mod password;
mod private;
mod progress;
mod screen;

use std::process::ExitCode;

use crate::args::Cli;
use crate::output::Output;

fn main() -> ExitCode {
    let cli = match Cli::typed() {
        Ok(cli) => cli,
        Err(error) => return exit::not_understood(&error),
    };
    let output = Output::new(&cli.global);
    match commands::run(&cli, output) {
        Ok(code) => code.into(),
        Err(error) => exit::report(output, &cli.command, &error).into(),
    }
}
