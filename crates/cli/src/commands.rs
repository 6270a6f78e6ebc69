//! One module a command: calls the library, prints what it says.

mod backup;
mod check;
mod index;
mod init;
mod key;
mod ls;
mod restore;
mod snapshots;
mod stats;

use std::path::PathBuf;

use anyhow::{Result, bail};
use onefold::{Env, OpenOptions, Store};

use crate::args::{Cli, Command, Filter, Global};
use crate::exit::Code;
use crate::output::Output;
use crate::{interrupt, password};

/// Runs the command.
pub(crate) fn run(cli: &Cli, output: Output) -> Result<Code> {
    let global = &cli.global;
    match &cli.command {
        Command::Init(args) => init::run(global, args, output),
        Command::Backup(args) => backup::run(global, args, output),
        Command::Restore(args) => restore::run(global, args, output),
        Command::Snapshots(args) => snapshots::run(global, args, output),
        Command::Ls(args) => ls::run(global, args, output),
        Command::Check(args) => check::run(global, args, output),
        Command::Stats(args) => stats::run(global, args, output),
        Command::Index(args) => index::run(global, args, output),
        Command::Key(args) => key::run(global, args, output),
    }
}

/// The folder that holds the store.
fn folder(global: &Global) -> Result<PathBuf> {
    match &global.repo {
        Some(folder) => Ok(folder.clone()),
        None => bail!("which store? Name its folder with --repo, or set ONEFOLD_REPOSITORY"),
    }
}

/// Opens the store that the arguments name.
fn open(global: &Global) -> Result<Store> {
    let env = Env::local(&folder(global)?).map_err(onefold::Error::from)?;
    // Whether there is a store is told before anybody is asked for its password.
    Store::probe(&env)?;
    let credential = password::existing(global)?;
    Ok(Store::open(&env, &credential, &OpenOptions::default())?)
}

fn filter(args: &Filter) -> Result<onefold::Filter> {
    use std::os::unix::ffi::OsStrExt;
    let mut paths = Vec::new();
    for path in &args.path {
        paths.push(std::path::absolute(path)?.as_os_str().as_bytes().to_vec());
    }
    Ok(onefold::Filter {
        host: args.host.as_ref().map(|host| host.as_bytes().to_vec()),
        paths,
        tags: args.tag.clone(),
    })
}

fn cancel_flag() -> Result<std::sync::Arc<std::sync::atomic::AtomicBool>> {
    interrupt::watch()
}
