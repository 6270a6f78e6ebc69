//! The laboratory's command line: arguments, progress, printing; nothing else.
//!
//! Exit codes: 0 the command succeeded; 1 it failed; 2 the arguments were wrong; 130 it was
//! interrupted.

mod args;
mod commands;

use std::process::ExitCode;

use cli_support::{Code, Output, message_of};
use lab::LabError;
use simulate::SimulateError;

use crate::args::Cli;

fn main() -> ExitCode {
    let cli = match Cli::typed() {
        Ok(cli) => cli,
        Err(error) => return cli_support::not_understood(&error),
    };
    let output = Output::new(&cli.output);
    match commands::run(&cli.command, output) {
        Ok(code) => code.into(),
        Err(error) => {
            let code = if is_interrupted(&error) {
                Code::Interrupted
            } else {
                Code::Failure
            };
            cli_support::report(output, "onefold-lab", code, &message_of(&error));
            code.into()
        }
    }
}

fn is_interrupted(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(SimulateError::Interrupted))
            || cause.downcast_ref().is_some_and(LabError::is_interrupted)
    })
}
