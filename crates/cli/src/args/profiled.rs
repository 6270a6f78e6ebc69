//! The command line together with the profile that it names.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command as Clap};
use cli_support::idle::innermost;

use super::{Cli, environment};
use crate::profile::{Line, Profile, VARIABLE};

/// What the user asks for.
pub(crate) struct Typed {
    /// The profile, if one is named.
    pub(crate) profile: Option<Profile>,
    /// The commands to run, one after another: several if the profile has several backups.
    pub(crate) runs: Vec<Cli>,
}

impl Typed {
    /// Parses the command line, and reads the profile. Starts the program anew if the profile sets
    /// variables.
    ///
    /// # Errors
    /// The words that clap does not accept; a request for help; a profile that cannot be read, or
    /// has a fault.
    pub(crate) fn new() -> Result<Self, clap::Error> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let mut clap = environment::without_empty(Cli::described());
        // Words that clap does not accept are refused below, with the profile's options added.
        let loose = || clap.clone().ignore_errors(true).try_get_matches_from(&words);
        let loose = may_name(&words).then(loose).and_then(Result::ok);
        let Some((name, matches)) = loose.and_then(|matches| Some((named(&matches)?, matches))) else {
            let cli = Cli::parsed(&clap, &words)?;
            if let Some(why) = cli.only_without_profile() {
                return Err(clap.error(ErrorKind::MissingRequiredArgument, why));
            }
            return Ok(Self {
                profile: None,
                runs: vec![cli],
            });
        };
        let refused = |why: String, clap: &mut Clap| clap.error(ErrorKind::ValueValidation, why);
        let profile = Profile::load(&name)
            .and_then(|profile| profile.enter_environment().map(|()| profile))
            .map_err(|error| refused(cli_support::message_of(&error), &mut clap))?;
        let mut known = clap.clone();
        let (inner, inner_matches) = innermost(&mut known, &matches);
        let with_defaults = profile.with_defaults(clap.clone(), inner_matches);
        let with_defaults = with_defaults.map_err(|why| refused(why, &mut clap))?;
        let lines = profile
            .lines(&words, inner, inner_matches)
            .map_err(|why| refused(why, inner))?;
        let mut parsed = |line: &Line| -> Result<Cli, clap::Error> {
            let cli = Cli::parsed(&with_defaults, &line.words);
            let mut cli = cli.map_err(|error| placed(&mut clap, error, line))?;
            cli.entry = line.entry;
            Ok(cli)
        };
        let runs = lines.iter().map(&mut parsed).collect::<Result<_, _>>()?;
        Ok(Self {
            profile: Some(profile),
            runs,
        })
    }
}

/// Whether a profile may be named. Most commands name none, and then their words are parsed once.
fn may_name(words: &[OsString]) -> bool {
    let may = |word: &OsString| {
        let word = word.as_encoded_bytes();
        word.starts_with(b"--profile")
            || word.starts_with(b"-") && !word.starts_with(b"--") && word.contains(&b'P')
    };
    std::env::var_os(VARIABLE).is_some() || words.iter().any(may)
}

/// The profile that the words or the environment name.
fn named(matches: &ArgMatches) -> Option<String> {
    let mut matches = matches;
    let mut name = None;
    loop {
        // A global option has its value in the command behind which it was typed, and in those
        // below.
        if let Ok(Some(found)) = matches.try_get_one::<String>("profile") {
            name = Some(found.clone());
        }
        match matches.subcommand() {
            Some((_, inner)) => matches = inner,
            None => return name,
        }
    }
}

/// Names the part of the profile in an error about its options.
fn placed(clap: &mut Clap, error: clap::Error, line: &Line) -> clap::Error {
    let Some(place) = line
        .place
        .as_ref()
        .filter(|_| error.use_stderr() && !is_typed(&error))
    else {
        return error;
    };
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let first = text.lines().next().unwrap_or_default();
    clap.error(error.kind(), format!("{place}: {first}"))
}

/// Whether the user typed the option that the error is about.
fn is_typed(error: &clap::Error) -> bool {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return false;
    };
    let option = option.split([' ', '=']).next().unwrap_or_default();
    std::env::args_os().any(|word| word.to_string_lossy().split('=').next() == Some(option))
}
