//! Profiles: files with a store, its backups and their hooks, so that a timer's command is short.
//!
//! A profile is TOML, and its keys are the long options of the command line. A typed option wins
//! over the environment, and the environment over the profile. Whatever a profile says wrongly is
//! an error before anything runs: a backup that silently leaves out an option is found out at the
//! restore. `docs/cli.md` has the tables.

mod hooks;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;

use crate::folders;
pub(crate) use hooks::{Hooks, Moment};
pub(crate) use words::{Line, PASSWORD_VARIABLE, PASSWORDS};

/// Profiles of the whole machine.
const OF_MACHINE: &str = "/etc/onefold";
/// The variable that names the profile, for users and for hooks.
pub(crate) const VARIABLE: &str = "ONEFOLD_PROFILE";

/// A profile as read from its file.
#[derive(Debug)]
pub(crate) struct Profile {
    /// As the user named it.
    pub(crate) name: String,
    /// The file, for messages.
    place: PathBuf,
    tables: Tables,
}

/// The tables of the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Tables {
    /// Defaults of options that every command has.
    global: toml::Table,
    /// Variables that are set unless the environment has them.
    environment: BTreeMap<String, String>,
    /// Commands around all backups.
    hooks: Hooks,
    backup: Vec<Entry>,
    forget: toml::Table,
    prune: toml::Table,
    check: toml::Table,
    optimize: toml::Table,
}

/// One backup of a profile.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Entry {
    name: Option<String>,
    #[serde(default)]
    paths: Vec<PathBuf>,
    /// A command whose output is backed up.
    #[serde(default)]
    command: Vec<String>,
    #[serde(flatten)]
    hooks: Hooks,
    #[serde(flatten)]
    options: toml::Table,
}

impl Entry {
    pub(crate) fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Its name, or else its paths, or its command without the arguments, which may be secrets.
    pub(crate) fn title(&self) -> String {
        let shown = |path: &PathBuf| path.display().to_string();
        match &self.name {
            Some(name) => name.clone(),
            None if self.paths.is_empty() => self.command.first().cloned().unwrap_or_default(),
            None => self.paths.iter().map(shown).collect::<Vec<_>>().join(" "),
        }
    }
}

impl Profile {
    /// Reads the profile of this name: `NAME.toml` in the user's folder of configurations, or else
    /// in `/etc/onefold`. A name with a slash is the path of the file itself.
    ///
    /// # Errors
    /// There is no such file; it cannot be read; it is no profile.
    pub(crate) fn load(name: &str) -> Result<Self> {
        let places = if name.contains('/') {
            vec![PathBuf::from(name)]
        } else {
            let own = folders::config().into_iter();
            own.chain([PathBuf::from(OF_MACHINE)])
                .map(|folder| folder.join(format!("{name}.toml")))
                .collect()
        };
        for place in &places {
            match std::fs::read_to_string(place) {
                Ok(text) => return Self::parse(name, place, &text),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(error).with_context(|| place.display().to_string()),
            }
        }
        let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        bail!("there is no profile `{name}`: no file {}", places.join(", nor "))
    }

    fn parse(name: &str, place: &Path, text: &str) -> Result<Self> {
        let wrong = |error: toml::de::Error| {
            let begin = error.span().map_or(0, |span| span.start);
            let line = text[..begin].matches('\n').count() + 1;
            // The error's whole text repeats the line, and this part of it a wrong value. Either
            // may be a secret.
            let what = error.message();
            let what = match what.split_once(", expected ") {
                Some((wrong, expected)) if wrong.starts_with("invalid ") => format!("expected {expected}"),
                _ => what.to_owned(),
            };
            anyhow!("{}, line {line}: {what}", place.display())
        };
        let tables: Tables = toml::from_str(text).map_err(wrong)?;
        let profile = Self {
            name: name.to_owned(),
            place: place.to_owned(),
            tables,
        };
        for (at, entry) in profile.tables.backup.iter().enumerate() {
            let has_list = entry.options.keys().any(|key| key.starts_with("files-from"));
            let (paths, command) = (has_list || !entry.paths.is_empty(), !entry.command.is_empty());
            if paths == command {
                return Err(profile.wrong(&format!("backup {} needs either `paths` or `command`", at + 1)));
            }
        }
        Ok(profile)
    }

    /// Two commands whose output has one name on one host would make one series. A rule of
    /// retention would keep one of them where the user means both.
    fn ensure_streams_have_names(&self) -> Result<(), String> {
        let commands = self
            .tables
            .backup
            .iter()
            .filter(|entry| !entry.command.is_empty());
        let mut seen = Vec::new();
        for entry in commands {
            let of = |key: &str| entry.options.get(key).and_then(toml::Value::as_str);
            let series = (of("host"), of("stdin-filename").unwrap_or("stdin"));
            if let Some((_, other)) = seen.iter().find(|(known, _)| *known == series) {
                let twins = format!(
                    "the output of `{other}` and that of `{}` have one name, `{}`, so they would make one series: give \
                     one of them another `stdin-filename`",
                    entry.title(),
                    series.1
                );
                return Err(self.wrong(&twins).to_string());
            }
            seen.push((series, entry.title()));
        }
        Ok(())
    }

    /// An error about the file.
    fn wrong(&self, what: &str) -> anyhow::Error {
        anyhow!("profile {}: {what}", self.place.display())
    }

    pub(crate) fn hooks(&self) -> &Hooks {
        &self.tables.hooks
    }

    /// The backup of this number.
    pub(crate) fn entry(&self, at: usize) -> &Entry {
        &self.tables.backup[at]
    }

    /// Starts this program again with the profile's variables, if the environment lacks one.
    /// Returns if it lacks none. The variables must be set before anything runs, because any thread
    /// may read them.
    ///
    /// # Errors
    /// The system does not start the program.
    pub(crate) fn enter_environment(&self) -> Result<()> {
        let lacks = |name: &&String| std::env::var_os(name).is_none();
        let lacking: Vec<_> = self.tables.environment.keys().filter(lacks).collect();
        if lacking.is_empty() {
            return Ok(());
        }
        if let Some(name) = lacking
            .iter()
            .find(|name| name.is_empty() || name.contains(['=', '\0']))
        {
            return Err(self.wrong(&format!("`{name}` cannot be the name of a variable")));
        }
        self.ensure_is_found_again(&lacking)?;
        let mut words = std::env::args_os();
        let mut program = std::process::Command::new("/proc/self/exe");
        program.arg0(words.next().unwrap_or_else(|| OsString::from("onefold")));
        program.args(words);
        for name in lacking {
            program.env(name, &self.tables.environment[name]);
        }
        Err(program.exec())
            .with_context(|| format!("starting anew for the variables of {}", self.place.display()))
    }
}

impl Profile {
    /// The program reads its profile once more when it starts anew.
    fn ensure_is_found_again(&self, variables: &[&String]) -> Result<()> {
        let set = |name: &str| {
            let added = variables.iter().find(|one| **one == name);
            added.map(|name| OsString::from(&self.tables.environment[*name]))
        };
        let file = |folder: PathBuf| folder.join(format!("{}.toml", self.name));
        let own = folders::config_with(&set).map(file);
        let was_own = folders::config().map(file).as_ref() == Some(&self.place);
        // The same file comes first, or there is none before that of the machine.
        let is_same = own.as_ref() == Some(&self.place) || !was_own && own.is_none_or(|own| !own.exists());
        if self.name.contains('/') || is_same {
            return Ok(());
        }
        Err(self.wrong(
            "a variable of [environment] leads to another profile of this name, or to none: set it where the program is \
             started, or name the profile by its path",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Profile> {
        Profile::parse("home", Path::new("/etc/onefold/home.toml"), text)
    }

    #[test]
    fn a_wrong_profile_is_told_by_its_line_without_its_text() {
        let error = parsed("[global]\nrepo = \"/s\"\n[envirnment]\nSECRET = \"hunter2\"\n").unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("/etc/onefold/home.toml, line 3"), "{text}");
        assert!(text.contains("envirnment") && !text.contains("hunter2"), "{text}");
        for (text, line) in [
            ("[global]\n\n[environment]\nSECRET = 4711\n", 4),
            ("hooks = \"4711\"\n", 1),
        ] {
            let text = format!("{:#}", parsed(text).unwrap_err());
            assert!(text.contains(&format!("line {line}: expected")), "{text}");
            assert!(!text.contains("4711"), "{text}");
        }
        let text = format!("{:#}", parsed("[global]\nrepo = \"/s\"\nnonsense\n").unwrap_err());
        assert!(text.contains("line 3"), "{text}");
    }

    #[test]
    fn a_backup_has_paths_or_a_command() {
        for text in [
            "[[backup]]\nname = \"x\"\n",
            "[[backup]]\npaths = [\"/a\"]\ncommand = [\"b\"]\n",
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains("either `paths` or `command`"), "{error}");
        }
        let twins = "[[backup]]\ncommand = [\"dump\", \"a\"]\n[[backup]]\nname = \"b\"\ncommand = [\"dump\", \"b\"]\n";
        let named = |text: &str| parsed(text).unwrap().ensure_streams_have_names();
        let error = named(twins).unwrap_err();
        assert!(
            error.contains("`dump`") && error.contains("stdin-filename"),
            "{error}"
        );
        named(&format!("{twins}stdin-filename = \"b\"\n")).unwrap();
        named(&format!("{twins}host = \"b\"\n")).unwrap();
        let profile =
            parsed("[[backup]]\npaths = [\"/a\", \"/b\"]\n[[backup]]\ncommand = [\"pg_dump\", \"x\"]\n")
                .unwrap();
        assert_eq!(profile.entry(0).title(), "/a /b");
        assert_eq!(profile.entry(1).title(), "pg_dump");
    }
}
