//! One module for each command: calls the library, prints the result.

mod analyze;
mod backup;
mod cat;
mod check;
mod copy;
mod diff;
mod documents;
mod dump;
mod find;
mod forget;
mod index;
mod init;
mod join;
mod key;
mod ls;
mod mount;
mod on_pool;
mod optimize;
mod pipeline;
mod place;
mod pool;
mod prune;
mod repair;
mod restore;
mod revise;
mod self_test;
mod series;
mod serve;
mod server;
mod snapshots;
mod stats;
mod typed;
mod volume;

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use cli_support::{Code, Output};
use onefold::repository::Repository;
use onefold::{CacheOptions, Credential, Env, Monitor, OpenOptions, Store};

use crate::args::{Cli, Command, Filter, Global, LATEST};
pub(crate) use place::IdleOption;
use place::{Opened, Place, open_anywhere};
use typed::absolute;

/// Runs the command.
pub(crate) fn run(cli: &Cli, output: Output) -> Result<Code> {
    let global = &cli.global;
    let output = output.asked(cli.command.is_dry_run());
    match &cli.command {
        Command::Init(args) => init::run(global, args, output),
        Command::Backup(args) => backup::run(global, args, output),
        Command::Restore(args) => restore::run(global, args, output),
        Command::Dump(args) => dump::run(global, args, output),
        Command::Copy(args) => copy::run(global, args, output),
        Command::Mount(args) => mount::run(global, args, output),
        Command::Snapshots(args) => snapshots::run(global, args, output),
        Command::Ls(args) => ls::run(global, args, output),
        Command::Cat(args) => cat::run(global, args, output),
        Command::Diff(args) => diff::run(global, args, output),
        Command::Find(args) => find::run(global, args, output),
        Command::Prune(args) => prune::run(global, args, output),
        Command::Forget(args) => forget::run(global, args, output),
        Command::Tag(args) => revise::tag(global, args, output),
        Command::Hold(args) => revise::hold(global, args, output),
        Command::Unhold(args) => revise::unhold(global, args, output),
        Command::Check(args) => check::run(global, args, output),
        Command::Repair(args) => repair::run(global, args, output),
        Command::Stats(args) => stats::run(global, args, output),
        Command::Optimize(args) => optimize::run(global, args, output),
        Command::Index(args) => index::run(global, args, output),
        Command::Series(args) => series::run(global, args, output),
        Command::Key(args) => key::run(global, args, output),
        Command::Analyze(args) => analyze::run(args, output),
        Command::SelfTest(args) => self_test::run(global, args, output),
        Command::Serve(args) => serve::run(global, args, output),
        Command::Server(args) => server::run(global, args, output),
        Command::Join(args) => join::run(args, output),
        Command::Completions(args) => documents::completions(args, output),
        Command::Man(args) => documents::man(args, output),
        Command::Pool(args) => pool::run(args, output),
        Command::Volume(args) => volume::run(args, output),
    }
}

fn on_a_server(place: &Place) -> anyhow::Error {
    anyhow!("this command works in the store's own folder, and {place} is on a server: run it on the server")
}

/// Opens the store that the arguments name, in a folder or in a vault.
fn open(global: &Global) -> Result<Store> {
    match open_anywhere(global)? {
        Opened::Local(store) | Opened::Vault { store, .. } => Ok(*store),
        Opened::Remote(_) => Err(on_a_server(&place::place(global)?)),
    }
}

/// Opens the store of an environment, which has one, with the password that the function gives.
/// `is_at_hand`: the function asks nobody.
fn open_with(
    global: &Global,
    env: &Env,
    reads_content: bool,
    cache: Option<CacheOptions>,
    place: &str,
    (credential, is_at_hand): (&dyn Fn() -> Result<Credential>, bool),
) -> Result<Store> {
    // Check that there is a store before asking for its password. Otherwise opening it shows that,
    // with one request less.
    let credential = if is_at_hand && let Ok(credential) = credential() {
        credential
    } else {
        Store::probe(env).with_context(|| place.to_owned())?;
        credential()?
    };
    let options = OpenOptions::default()
        .index_bytes_max(u64::from(global.index_mib) << 20)
        .index_memory_bytes_max(global.index_memory_mib.map(|mib| (mib as usize) << 20))
        .pin_reads(!global.no_pin)
        .reads_content(reads_content)
        .cache(cache);
    let store = Store::open(env, &credential, &options).with_context(|| place.to_owned())?;
    let output = global.output();
    // Standard error is closed, so nothing can be reported.
    store.observe_mirror_reads(move |told| drop(output.warning(told, &format!("warning: {told}"))));
    Ok(store)
}

/// The host's name: the given one, or this host's.
fn host(given: Option<&str>) -> Result<Vec<u8>> {
    use std::os::unix::ffi::OsStrExt;
    Ok(match given {
        Some(host) => host.as_bytes().to_vec(),
        None => hostname::get()
            .context("asking for the host's name")?
            .as_bytes()
            .to_vec(),
    })
}

/// The error if none of the requested paths is in the backup.
fn nothing_there(paths: &[&PathBuf], id: onefold::SessionId) -> anyhow::Error {
    let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    anyhow::anyhow!(
        "backup {id} has nothing under {}; `onefold ls {id}` lists what it has",
        paths.join(", ")
    )
}

/// Prints the warnings of a finished operation.
fn tell_notes(monitor: &Monitor, output: Output) -> Result<()> {
    for note in monitor.notes() {
        output.warning(&note, &format!("warning: {note}"))?;
    }
    Ok(())
}

/// Reports the doubts about patterns that a walk or a restore has shown.
fn tell_patterns(patterns: &onefold::Excludes, output: Output) -> Result<()> {
    for doubt in patterns.doubts_met() {
        output.warn(format!("warning: {doubt}"))?;
    }
    if output.verbose {
        for pattern in patterns.unmet() {
            output.line(format!("the pattern {pattern:?} matched nothing"))?;
        }
    }
    Ok(())
}

fn filter(args: &Filter) -> Result<onefold::Filter> {
    Ok(onefold::Filter::default()
        .hosts(args.host.iter().map(|host| host.as_bytes().to_vec()).collect())
        .paths(absolute(&args.path)?)
        .stream(typed::stream_of(&args.path))
        .tags(args.tag.iter().map(|list| list.0.clone()).collect()))
}

/// The given ids, with `latest` replaced by the latest backup that passes the filter.
fn named(store: &dyn Repository, ids: &[String], args: &Filter) -> Result<Vec<String>> {
    let filter = filter(args)?;
    let one = |id: &String| {
        Ok(if id == LATEST && args.is_given() {
            store.find(id, &filter)?.id.to_string()
        } else {
            id.clone()
        })
    };
    ids.iter().map(one).collect()
}

/// The backup that an id names in a list, or `latest` in the store.
fn one_of(
    list: &onefold::SnapshotList,
    store: &dyn Repository,
    id: &str,
    filter: &onefold::Filter,
) -> Result<onefold::Snapshot> {
    Ok(match id {
        LATEST => store.find(id, filter)?,
        id => list.find(id, filter)?.clone(),
    })
}

fn cancel_flag() -> Result<std::sync::Arc<std::sync::atomic::AtomicBool>> {
    cli_support::watch()
}
