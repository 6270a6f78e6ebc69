//! Arguments of the commands that describe the command line itself: `completions`, `man`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: ShellName,
}

/// A shell that completes words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShellName {
    /// Bash
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
    /// Elvish
    Elvish,
    /// `PowerShell`
    #[value(name = "powershell")]
    PowerShell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Write a page for each command into this folder (default: the main page to standard output)
    #[arg(value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}
