//! Environment variables that replace options.
//!
//! An empty variable counts as unset, as usual. An error about a wrong value names the variable,
//! because the user typed no option. A typed option overrides the environment, even a variable of
//! another option for the same thing.

use std::ffi::OsStr;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Command as Clap};
use cli_support::idle::is_typed;

use super::copy::SOURCE_PASSWORDS;
use super::{Cli, Command};
use crate::profile::PASSWORDS;

/// Removes empty variables from the definition.
pub(super) fn without_empty(clap: Clap) -> Clap {
    clap.mut_args(|arg| {
        let is_empty = |name: &OsStr| std::env::var_os(name).is_some_and(|value| value.is_empty());
        if arg.get_env().is_some_and(is_empty) {
            arg.env(Resettable::<clap::builder::OsStr>::Reset)
        } else {
            arg
        }
    })
    .mut_subcommands(without_empty)
}

/// Names the variable in the error about its wrong value.
pub(super) fn named(clap: &mut Clap, mut error: clap::Error) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let (Some(option), Some(value)) = (text(ContextKind::InvalidArg), text(ContextKind::InvalidValue)) else {
        return error;
    };
    let ends_so = |typed: std::ffi::OsString| typed.to_string_lossy().ends_with(&value);
    if std::env::args_os().skip(1).any(ends_so) {
        return error;
    }
    if let Some(variable) = variable(clap, &option, &value) {
        let place = ContextValue::String(format!("{variable}, in the environment in place of {option}"));
        error.insert(ContextKind::InvalidArg, place);
    }
    error
}

/// The variable of this option, if its value is this one.
fn variable(clap: &Clap, option: &str, value: &str) -> Option<String> {
    let of_option = clap.get_arguments().filter(|arg| arg.to_string() == option);
    let names = of_option.filter_map(clap::Arg::get_env);
    let found = names
        .filter(|name| std::env::var_os(name).is_some_and(|set| set.to_string_lossy() == value))
        .map(|name| name.to_string_lossy().into_owned())
        .next();
    found.or_else(|| {
        clap.get_subcommands()
            .find_map(|command| variable(command, option, value))
    })
}

/// Drops values from the environment if another option was typed for the same thing.
pub(super) fn give_way(cli: &mut Cli, matches: &ArgMatches) {
    let from = match &mut cli.command {
        Command::Copy(copy) => Some(&mut copy.from.password),
        Command::Repair(repair) => Some(&mut repair.password),
        _ => None,
    };
    if let Some(from) = from
        && SOURCE_PASSWORDS.iter().any(|id| is_typed(matches, id))
    {
        from.from_password_file
            .take_if(|_| !is_typed(matches, "from_password_file"));
        from.from_password_command
            .take_if(|_| !is_typed(matches, "from_password_command"));
    }
    if PASSWORDS.iter().any(|id| is_typed(matches, id)) {
        let global = &mut cli.global;
        global
            .password_file
            .take_if(|_| !is_typed(matches, "password_file"));
        global
            .password_command
            .take_if(|_| !is_typed(matches, "password_command"));
    }
}
