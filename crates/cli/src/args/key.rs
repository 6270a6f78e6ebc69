//! Arguments of the commands that manage passwords.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// List the passwords' slots
    List,
    /// Add a password
    Add(NewPassword),
    /// Remove a password's slot; not that of the password which was given
    Remove {
        /// The slot's id, as `key list` prints it
        id: String,
    },
    /// Replace the password that was given
    Passwd(NewPassword),
}

#[derive(Debug, Args)]
pub(crate) struct NewPassword {
    /// File with the new password
    #[arg(long, value_name = "FILE")]
    pub(crate) new_password_file: Option<PathBuf>,
    /// Add a slot without a password
    #[arg(long, conflicts_with = "new_password_file")]
    pub(crate) new_insecure_no_password: bool,
}
