//! The folders of this user that the program keeps things in.

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder that the first variable names, or `onefold` in that of the second, or in the home.
pub(crate) fn folder_for(own: &str, of_all: &str, in_home: &str) -> Option<PathBuf> {
    folder_of(&variable, own, of_all, in_home)
}

fn folder_of(
    value: &dyn Fn(&str) -> Option<OsString>,
    own: &str,
    of_all: &str,
    in_home: &str,
) -> Option<PathBuf> {
    value(own)
        .map(PathBuf::from)
        .or_else(|| value(of_all).map(|folder| PathBuf::from(folder).join("onefold")))
        .or_else(|| value("HOME").map(|home| PathBuf::from(home).join(in_home).join("onefold")))
}

/// A variable of the environment that is not empty.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// The folder with this user's configuration.
pub(crate) fn config() -> Option<PathBuf> {
    config_with(&|_| None)
}

/// The same, if these variables were set beside those of the environment.
pub(crate) fn config_with(set: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let value = |name: &str| variable(name).or_else(|| set(name).filter(|value| !value.is_empty()));
    folder_of(&value, "ONEFOLD_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")
}

/// The folder for what can be read again.
pub(crate) fn cache() -> Option<PathBuf> {
    folder_for("ONEFOLD_CACHE_DIR", "XDG_CACHE_HOME", ".cache")
}
