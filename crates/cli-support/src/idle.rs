//! Options that could have no effect. Clap itself cannot detect these.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command as Clap};
use onefold::Cap;

/// The kind of error, and the explanation.
pub type Idle = (ErrorKind, String);

/// The innermost command that was typed, and its arguments.
///
/// # Panics
/// If `matches` does not belong to `clap`.
pub fn innermost<'a>(clap: &'a mut Clap, matches: &'a ArgMatches) -> (&'a mut Clap, &'a ArgMatches) {
    let (mut clap, mut matches) = (clap, matches);
    while let Some((name, inner)) = matches.subcommand() {
        clap = clap.find_subcommand_mut(name).expect("it was typed");
        matches = inner;
    }
    (clap, matches)
}

/// Whether the option was typed, rather than set by a default or the environment.
#[must_use]
pub fn is_typed(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Refuses these options if one was typed and there is no cap.
#[must_use]
pub fn idle_cap(cap: Cap, matches: &ArgMatches, ids: &[&str]) -> Option<Idle> {
    let idle = ids.iter().find(|id| cap == Cap::None && is_typed(matches, id))?;
    let why = format!(
        "{} says how a cap counts, and there is none: name one with --cap",
        option(idle)
    );
    Some((ErrorKind::ArgumentConflict, why))
}

/// The name of an option as it is typed.
#[must_use]
pub fn option(id: &str) -> String {
    format!("--{}", id.replace('_', "-"))
}
