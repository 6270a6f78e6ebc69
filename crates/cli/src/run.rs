//! Runs what the user asks for: one command, or the backups of a profile with their hooks.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use cli_support::output::Output;
use cli_support::{Code, TARGET};

use crate::args::{Cli, Typed};
use crate::commands::{self, IdleOption};
use crate::exit;
use crate::log;
use crate::profile::{Hooks, Moment, Profile};

/// How one command ended.
enum Ended {
    With(Code),
    /// An option could have no effect: clap's message is printed, with its exit code.
    NotUnderstood(ExitCode),
}

/// Runs all commands, one after another, and returns the exit code: the gravest one.
pub(crate) fn all(mut typed: Typed) -> ExitCode {
    let first = &mut typed.runs[0];
    let output = first.global.output();
    let filter = first.log_filter.take();
    if let Err(error) = log::start(first.global.log.as_deref(), filter) {
        return exit::report(output, &first.command, &error).into();
    }
    match &typed.profile {
        Some(profile) if typed.runs[0].entry.is_some() => of_profile(profile, &typed.runs, output),
        _ => match one(&typed.runs[0]) {
            Ended::With(code) => code.into(),
            Ended::NotUnderstood(code) => code,
        },
    }
}

fn one(cli: &Cli) -> Ended {
    let output = cli.global.output();
    let (version, process) = (env!("CARGO_PKG_VERSION"), std::process::id());
    tracing::info!(target: TARGET, command = cli.verb, version, process, "begins");
    let code = match commands::run(cli, output) {
        Ok(code) => code,
        Err(error) => match error.downcast_ref::<IdleOption>() {
            Some(IdleOption(idle)) => return Ended::NotUnderstood(cli_support::not_understood(idle)),
            None => exit::report(output, &cli.command, &error),
        },
    };
    tracing::info!(target: TARGET, code = code.number(), "ends");
    Ended::With(code)
}

/// Makes the backups of a profile. One that fails does not keep the others from being made.
fn of_profile(profile: &Profile, runs: &[Cli], output: Output) -> ExitCode {
    // Hooks may have to undo what others did.
    let watched = cli_support::watch_hangup().and_then(|()| cli_support::watch());
    let stop = match watched {
        Ok(stop) => stop,
        Err(error) => return exit::report(output, &runs[0].command, &error).into(),
    };
    let mut misunderstood = None;
    let each = || {
        let mut gravest = Code::Success;
        for cli in runs {
            if stop.load(Ordering::Relaxed) {
                return Code::Interrupted;
            }
            let entry = profile.entry(cli.entry.expect("each run is of a backup"));
            let title = entry.title();
            let announced = (!output.json)
                .then(|| output.line(format!("{title}:")))
                .transpose();
            let code = match announced {
                Ok(_) => within(profile, entry.hooks(), Some(&title), cli, output, || {
                    // A signal may have come while a hook ran.
                    if stop.load(Ordering::Relaxed) {
                        return Code::Interrupted;
                    }
                    match one(cli) {
                        Ended::With(code) => code,
                        Ended::NotUnderstood(code) => {
                            misunderstood = Some(code);
                            Code::Failure
                        }
                    }
                }),
                Err(error) => exit::report(output, &cli.command, &error.into()),
            };
            gravest = graver(gravest, code);
            if code == Code::Interrupted {
                break;
            }
        }
        gravest
    };
    let code = within(profile, profile.hooks(), None, &runs[0], output, each);
    misunderstood.unwrap_or_else(|| code.into())
}

/// Runs something between its hooks, and returns its exit code, or that of a hook that failed.
fn within(
    profile: &Profile,
    hooks: &Hooks,
    backup: Option<&str>,
    cli: &Cli,
    output: Output,
    run: impl FnOnce() -> Code,
) -> Code {
    let hook = |moment, code: Option<Code>| -> Code {
        let ran: Result<()> = hooks.run(moment, profile, backup, code.map(Code::number));
        match ran {
            Ok(()) => code.unwrap_or(Code::Success),
            Err(error) => graver(
                code.unwrap_or(Code::Success),
                exit::report(output, &cli.command, &error),
            ),
        }
    };
    // Nothing is made, so nothing has to be prepared for it, and there is nothing to tell.
    if cli.command.is_dry_run() {
        return run();
    }
    let mut code = hook(Moment::Before, None);
    if code == Code::Success {
        code = run();
        if is_made(code) {
            code = hook(Moment::After, Some(code));
        }
    }
    if !is_made(code) {
        code = hook(Moment::Failed, Some(code));
    }
    hook(Moment::Finally, Some(code))
}

/// Whether there is a backup.
const fn is_made(code: Code) -> bool {
    matches!(code, Code::Success | Code::Incomplete)
}

/// The graver one of two exit codes. The first of two equally grave ones.
const fn graver(one: Code, other: Code) -> Code {
    if gravity(other) > gravity(one) { other } else { one }
}

const fn gravity(code: Code) -> u8 {
    match code {
        Code::Success => 0,
        Code::Incomplete => 1,
        Code::Failure | Code::NoStore | Code::WrongPassword => 2,
        Code::Interrupted => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_code_counts_and_a_backup_that_lacks_entries_is_made() {
        assert_eq!(graver(Code::Success, Code::Incomplete), Code::Incomplete);
        assert_eq!(graver(Code::Failure, Code::Incomplete), Code::Failure);
        assert_eq!(graver(Code::NoStore, Code::Failure), Code::NoStore);
        assert_eq!(graver(Code::NoStore, Code::Interrupted), Code::Interrupted);
        assert!(is_made(Code::Incomplete) && !is_made(Code::WrongPassword));
    }
}
