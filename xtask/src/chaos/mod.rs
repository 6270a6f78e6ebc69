//! `cargo xtask chaos` runs the program as several processes at once. It kills and stops them,
//! fills the disk and shifts clocks. A plain model of the contents of the stores judges the
//! results. All draws follow from a seed. How far a process is when a signal reaches it varies with
//! the machine; the journal records it.

mod commands;
mod compare;
mod damage;
mod draws;
mod finish;
mod journal;
mod judge;
mod model;
mod picture;
mod place;
mod program;
mod run;
mod script;
mod sources;
#[cfg(test)]
mod tests;
mod trouble;
mod watch;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use run::{Judged, Plan, Run, Sabotage, Stop};
use watch::Watch;

use crate::workspace::root;

const USAGE: &str = "cargo xtask chaos [--seconds N] [--runs N] [--seed S] [--steps N] [--release] [--plain] \
                     [--only steps|damage] [--sabotage containers|manifest] [--keep FOLDER]";

/// The options of the command line.
#[derive(Debug, Clone)]
struct Options {
    seconds: Option<f64>,
    runs: Option<u64>,
    seed: u64,
    steps: u64,
    release: bool,
    plain: bool,
    /// `true`: damage alone; `false`: none.
    damage: Option<bool>,
    sabotage: Option<Sabotage>,
    keep: Option<PathBuf>,
}

impl Options {
    fn parse(args: impl Iterator<Item = String>) -> Result<Self> {
        let (mut seconds, mut runs, mut damage, mut sabotage, mut keep) = (None, None, None, None, None);
        let (mut seed, mut steps, mut release, mut plain) = (1, 40, false, false);
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .with_context(|| format!("{arg} wants a value: {USAGE}"))
            };
            match arg.as_str() {
                "--seconds" => seconds = Some(value()?.parse()?),
                "--runs" => runs = Some(value()?.parse()?),
                "--seed" => seed = value()?.parse()?,
                "--steps" => steps = value()?.parse()?,
                "--keep" => keep = Some(PathBuf::from(value()?)),
                "--sabotage" => {
                    sabotage = Some(match value()?.as_str() {
                        "containers" => Sabotage::Containers,
                        "manifest" => Sabotage::Manifest,
                        other => bail!("--sabotage containers or manifest, not {other:?}: {USAGE}"),
                    });
                }
                "--only" => {
                    damage = match value()?.as_str() {
                        "steps" => Some(false),
                        "damage" => Some(true),
                        other => bail!("--only steps or --only damage, not {other:?}: {USAGE}"),
                    }
                }
                "--release" => release = true,
                "--plain" => plain = true,
                _ => bail!("{arg:?} is no option: {USAGE}"),
            }
        }
        // One run by default.
        let runs = if runs.is_none() && seconds.is_none() {
            Some(1)
        } else {
            runs
        };
        Ok(Self {
            seconds,
            runs,
            seed,
            steps,
            release,
            plain,
            damage,
            sabotage,
            keep,
        })
    }
}

/// The results of all runs.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    steps: u64,
    processes: usize,
    signals: usize,
    damaged: u64,
    faults: BTreeMap<&'static str, Vec<u64>>,
}

/// Runs until the time is over or the number of runs is reached. Fails if any run found a fault.
pub(crate) fn chaos(args: impl Iterator<Item = String>) -> Result<()> {
    let options = Options::parse(args)?;
    let binary = build(options.release)?;
    let watch = Watch::start();
    let mut tally = Tally::default();
    let is_over = |runs: u64| {
        options.runs.is_some_and(|most| runs >= most)
            || options.seconds.is_some_and(|most| watch.seconds() >= most)
    };
    while !is_over(tally.runs) {
        let seed = options.seed + tally.runs;
        one(&options, seed, &binary, &mut tally)?;
    }
    report(&tally, watch.seconds())
}

/// Does one run, reports it and counts it.
fn one(options: &Options, seed: u64, binary: &Path, tally: &mut Tally) -> Result<()> {
    let watch = Watch::start();
    let work = tempfile::Builder::new().prefix("onefold-chaos-").tempdir()?;
    let damages = options.damage.unwrap_or(seed.is_multiple_of(4));
    // Runs with damage need no small disk.
    let plain = options.plain || damages;
    let plan = Plan {
        seed,
        steps: options.steps,
        plain,
        sabotage: options.sabotage.map(|sabotage| (options.steps, sabotage)),
    };
    let mut run = Run::new(plan, binary.to_owned(), work.path())?;
    let judged = if damages {
        damage::damage(&mut run, damage::CASES).map(|(broken, cases)| {
            tally.damaged += cases;
            broken
        })
    } else {
        whole(&mut run).map(|()| Vec::new())
    };
    tally.runs += 1;
    tally.steps += run.journal.step;
    tally.processes += run.processes();
    tally.signals += run.signals;
    let (place, step) = (run.place.kind, run.journal.step);
    let found = match judged {
        Ok(broken) => broken.into_iter().map(|one| (one.fault, one.case)).collect(),
        Err(Stop::Fault(fault)) => vec![(fault, format!("step {step}"))],
        Err(Stop::Runner(error)) => return Err(error.context(format!("seed {seed}, step {step}"))),
    };
    let sort = if damages { "damage" } else { "steps" };
    for (fault, what) in &found {
        tally.faults.entry(fault.kind).or_default().push(seed);
        say(&format!(
            "seed {seed} ({sort}), {what}, on {place:?}: {}: {}",
            fault.kind, fault.what
        ))?;
        run.journal
            .note(&format!("FAULT: {what}: {}: {}", fault.kind, fault.what))?;
    }
    if found.is_empty() {
        let (processes, seconds) = (run.processes(), watch.seconds());
        say(&format!(
            "seed {seed} ({sort}): well, {processes} processes on {place:?} in {seconds:.0} s"
        ))?;
    } else {
        let plain = if options.plain { " --plain" } else { "" };
        say(&format!(
            "  again: cargo xtask chaos --seed {seed} --steps {} --only {sort}{plain}",
            options.steps
        ))?;
    }
    keep(options, seed, !found.is_empty(), &run, work.path())
}

/// Plays the steps, and then the end.
fn whole(run: &mut Run) -> Judged {
    run.play()?;
    finish::finish(run)
}

/// Keeps the journal of a failed run. If the user asked for it, keeps the journal of every run, and
/// the store of a failed one too.
fn keep(options: &Options, seed: u64, has_failed: bool, run: &Run, work: &Path) -> Result<()> {
    if !has_failed && options.keep.is_none() {
        return Ok(());
    }
    let folder = options.keep.clone().unwrap_or_else(|| target().join("chaos"));
    fs::create_dir_all(&folder)?;
    let journal = folder.join(format!("{seed}.journal"));
    fs::copy(work.join("journal"), &journal)?;
    if has_failed {
        say(&format!("  journal: {}", journal.display()))?;
    }
    if has_failed && options.keep.is_some() {
        let copy = folder.join(format!("{seed}.store"));
        remove_all(&copy)?;
        let copied = Command::new("cp")
            .arg("-a")
            .arg(run.place.store())
            .arg(copy)
            .status()?;
        if !copied.success() {
            bail!(
                "the store of seed {seed} could not be copied to {}",
                folder.display()
            );
        }
    }
    Ok(())
}

fn report(tally: &Tally, seconds: f64) -> Result<()> {
    let Tally {
        runs,
        steps,
        processes,
        signals,
        damaged,
        faults,
    } = tally;
    say(&format!(
        "{runs} runs, {steps} steps, {processes} processes, {signals} signals, {damaged} damaged stores in {seconds:.0} s"
    ))?;
    for (kind, seeds) in faults {
        say(&format!("  {kind}: {} (seeds {seeds:?})", seeds.len()))?;
    }
    if !faults.is_empty() {
        bail!(
            "{} of {runs} runs failed",
            faults.values().map(Vec::len).sum::<usize>()
        );
    }
    Ok(())
}

/// Where cargo builds.
fn target() -> PathBuf {
    let elsewhere = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    elsewhere.unwrap_or_else(|| root().join("target"))
}

/// Builds the program, and returns its path.
fn build(release: bool) -> Result<PathBuf> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--quiet", "--locked", "--package", "onefold-cli"])
        .current_dir(root());
    if release {
        command.arg("--release");
    }
    if !command.status()?.success() {
        bail!("the program does not build");
    }
    let binary = target().join(if release {
        "release/onefold"
    } else {
        "debug/onefold"
    });
    // Makes a copy, so that a later build does not change the program during a run.
    let copy = target().join("chaos-onefold");
    fs::copy(&binary, &copy).with_context(|| format!("copying {}", binary.display()))?;
    copy.canonicalize().context("where the program is")
}

/// Adds the files below a folder, in an order that does not depend on the disk.
fn objects(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            objects(&path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn remove_all(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

fn say(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}
