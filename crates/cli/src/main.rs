//! The onefold command line: arguments, progress, printing; nothing else.
//!
//! Exit codes are restic's: 0 all went well; 1 the command failed; 3 a backup was made, but
//! something could not be read; 10 there is no store; 12 wrong password; 130 interrupted.

mod args;
mod commands;
mod exit;
mod log;
mod password;
mod volumes;

use std::process::ExitCode;

use cli_support::TARGET;
use cli_support::output::Output;

use crate::args::Cli;
use crate::commands::IdleOption;

fn main() -> ExitCode {
    let mut cli = match Cli::typed() {
        Ok(cli) => cli,
        Err(error) => return cli_support::not_understood(&error),
    };
    let output = cli.global.output();
    match log::start(cli.global.log.as_deref(), cli.log_filter.take()) {
        Ok(()) => run(&cli, output),
        Err(error) => exit::report(output, &cli.command, &error).into(),
    }
}

fn run(cli: &Cli, output: Output) -> ExitCode {
    let (version, process) = (env!("CARGO_PKG_VERSION"), std::process::id());
    tracing::info!(target: TARGET, command = cli.verb, version, process, "begins");
    let code = match commands::run(cli, output) {
        Ok(code) => code,
        Err(error) => match error.downcast_ref::<IdleOption>() {
            Some(IdleOption(idle)) => return cli_support::not_understood(idle),
            None => exit::report(output, &cli.command, &error),
        },
    };
    tracing::info!(target: TARGET, code = code.number(), "ends");
    code.into()
}
