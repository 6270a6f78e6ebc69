//! What a profile says, as words of the command line and as defaults of its options.

use std::ffi::OsString;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command as Clap};
use cli_support::idle::is_typed;
use toml::Value;

use super::{Entry, Profile};

/// The options for the password. Only one of them counts.
pub(crate) const PASSWORDS: [&str; 3] = ["insecure_no_password", "password_file", "password_command"];
/// The variable with the password itself.
pub(crate) const PASSWORD_VARIABLE: &str = "ONEFOLD_PASSWORD";
/// Options that only have a meaning on a typed command line.
const TYPED_ONLY: [&str; 3] = ["help", "version", "profile"];

/// One command line to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// All words, with the program's name.
    pub(crate) words: Vec<OsString>,
    /// The number of the profile's backup that it makes.
    pub(crate) entry: Option<usize>,
    /// The part of the profile that it comes from, for messages.
    pub(crate) place: Option<String>,
}

impl Profile {
    /// Makes the options of `[global]` the defaults of the command line.
    ///
    /// # Errors
    /// A key that is no such option, or a value of another kind.
    pub(crate) fn with_defaults(&self, mut clap: Clap, matches: &ArgMatches) -> Result<Clap, String> {
        for (key, value) in &self.tables.global {
            let known = clap
                .get_arguments()
                .find(|arg| is_option(arg, key) && arg.is_global_set());
            let Some(known) = known.filter(|arg| !TYPED_ONLY.contains(&arg.get_id().as_str())) else {
                return Err(self.told(&format!("`{key}` in [global] is no option of every command")));
            };
            let id = known.get_id().to_string();
            if PASSWORDS.contains(&id.as_str()) && says_password(&clap, matches) {
                continue;
            }
            let text = match (value, takes_value(known)) {
                (Value::Boolean(true), false) => "true".to_owned(),
                (Value::Boolean(false), false) => continue,
                (value, true) => {
                    scalar(value).ok_or_else(|| self.told(&format!("`{key}` in [global] takes one value")))?
                }
                _ => return Err(self.told(&format!("`{key}` in [global] is `true` or `false`"))),
            };
            clap = with_default(clap, &id, &text);
        }
        Ok(clap)
    }

    /// The command lines for the typed words: one for each of the profile's backups, if `backup`
    /// was typed without saying what to back up; otherwise one, with the options of the profile's
    /// table. `clap` is the innermost command, and `matches` has its typed words.
    ///
    /// # Errors
    /// A table has a key that is no option of the command, or a value of another kind; no backup
    /// has the typed name.
    pub(crate) fn lines(
        &self,
        typed: &[OsString],
        clap: &Clap,
        matches: &ArgMatches,
    ) -> Result<Vec<Line>, String> {
        let verb = clap.get_name();
        let names_something = clap
            .get_positionals()
            .any(|arg| is_typed(matches, arg.get_id().as_str()));
        let one = |added: Vec<OsString>, table: &str| {
            let place = (!added.is_empty()).then(|| self.told(table));
            vec![Line {
                words: with_options(typed, added),
                entry: None,
                place,
            }]
        };
        let table = match verb {
            "backup" => {
                let says_what = [
                    "stdin",
                    "stdin_from_command",
                    "image_kib",
                    "files_from",
                    "files_from_verbatim",
                    "files_from_raw",
                ];
                let says_what = names_something || says_what.iter().any(|id| is_typed(matches, id));
                return if says_what && is_typed(matches, "only") {
                    Err("--only names backups of the profile, and another one is typed".to_owned())
                } else if says_what {
                    Ok(one(Vec::new(), ""))
                } else {
                    self.backups(typed, clap, matches)
                };
            }
            "forget" => &self.tables.forget,
            "prune" => &self.tables.prune,
            "check" => &self.tables.check,
            "optimize" => &self.tables.optimize,
            _ => return Ok(one(Vec::new(), "")),
        };
        if names_something {
            return Ok(one(Vec::new(), ""));
        }
        let place = format!("[{verb}]");
        Ok(one(self.options(table, &place, clap, matches)?, &place))
    }

    fn backups(&self, typed: &[OsString], clap: &Clap, matches: &ArgMatches) -> Result<Vec<Line>, String> {
        let wanted: Vec<&String> = matches
            .try_get_many("only")
            .ok()
            .flatten()
            .into_iter()
            .flatten()
            .collect();
        let is_wanted = |entry: &Entry| wanted.is_empty() || wanted.contains(&&entry.title());
        for name in &wanted {
            if !self.tables.backup.iter().any(|entry| entry.title() == **name) {
                return Err(self.told(&format!("it has no backup of the name `{name}`")));
            }
        }
        self.ensure_streams_have_names()?;
        let mut lines = Vec::new();
        for (at, entry) in self.tables.backup.iter().enumerate() {
            // The options of all backups are checked before the first one is made.
            let place = format!("backup `{}`", entry.title());
            let mut options = self.options(&entry.options, &place, clap, matches)?;
            if !entry.command.is_empty() {
                options.push("--stdin-from-command".into());
            }
            let mut words = with_options(typed, options);
            if !words.iter().any(|word| word == "--") {
                words.push("--".into());
            }
            words.extend(entry.paths.iter().map(Into::into));
            words.extend(entry.command.iter().map(Into::into));
            if is_wanted(entry) {
                lines.push(Line {
                    words,
                    entry: Some(at),
                    place: Some(self.told(&place)),
                });
            }
        }
        if lines.is_empty() {
            return Err(self.told("it has no [[backup]]: name what to back up"));
        }
        Ok(lines)
    }

    /// The options of a table that were not typed, as words.
    fn options(
        &self,
        table: &toml::Table,
        place: &str,
        clap: &Clap,
        matches: &ArgMatches,
    ) -> Result<Vec<OsString>, String> {
        let mut words = Vec::new();
        for (key, value) in table {
            let known = clap
                .get_arguments()
                .find(|arg| is_option(arg, key) && !arg.is_global_set());
            let known =
                known.filter(|arg| !TYPED_ONLY.contains(&arg.get_id().as_str()) && arg.get_id() != "only");
            let Some(known) = known else {
                let verb = clap.get_name();
                return Err(self.told(&format!("`{key}` in {place} is no option of `{verb}`")));
            };
            if is_said(matches, known) {
                continue;
            }
            let values = match value {
                Value::Array(values) => &values[..],
                one => std::slice::from_ref(one),
            };
            for value in values {
                let word = match value {
                    Value::Boolean(false) if !takes_value(known) => continue,
                    Value::Boolean(true) => format!("--{key}"),
                    value => {
                        let text = scalar(value);
                        let text =
                            text.ok_or_else(|| self.told(&format!("`{key}` in {place} is no value")))?;
                        format!("--{key}={text}")
                    }
                };
                words.push(word.into());
            }
        }
        Ok(words)
    }

    fn told(&self, what: &str) -> String {
        format!("{:#}", self.wrong(what))
    }
}

/// Whether the command line or the environment has the option.
fn is_said(matches: &ArgMatches, arg: &Arg) -> bool {
    let source = matches.value_source(arg.get_id().as_str());
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// The typed words, with others behind their options: before `--`, behind which all are paths.
fn with_options(typed: &[OsString], options: Vec<OsString>) -> Vec<OsString> {
    let end = typed.iter().position(|word| word == "--");
    let (front, back) = typed.split_at(end.unwrap_or(typed.len()));
    [front, &options, back].concat()
}

fn is_option(arg: &Arg, key: &str) -> bool {
    arg.get_long() == Some(key)
}

fn takes_value(arg: &Arg) -> bool {
    !matches!(
        arg.get_action(),
        ArgAction::SetTrue | ArgAction::SetFalse | ArgAction::Count
    )
}

/// A number or a text as it would be typed.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Datetime(time) => Some(time.to_string()),
        Value::Boolean(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// Whether the command line or the environment says how the store is opened. Then the profile does
/// not: its password would be that of another store.
fn says_password(clap: &Clap, matches: &ArgMatches) -> bool {
    let is_set = std::env::var_os(PASSWORD_VARIABLE).is_some_and(|value| !value.is_empty());
    let mut options = clap
        .get_arguments()
        .filter(|arg| PASSWORDS.contains(&arg.get_id().as_str()));
    is_set || options.any(|arg| is_said(matches, arg))
}

/// Gives an option of every command a default, also where a command below has a copy of it.
fn with_default(clap: Clap, id: &str, value: &str) -> Clap {
    clap.mut_args(|arg| {
        if arg.get_id() == id {
            arg.default_value(OsString::from(value))
        } else {
            arg
        }
    })
    .mut_subcommands(|inner| with_default(inner, id, value))
}
