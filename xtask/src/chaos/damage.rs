//! Damage, in a run of its own. Undisturbed steps make a store. For each case the runner copies it,
//! and deletes, cuts, flips, zeroes or swaps one object of the copy, or puts an old one back. It
//! checks:
//!
//! - No restore gives a wrong byte, nothing panics, and `check` finishes.
//! - `check` reports a loss: if a backup is not listed or does not restore, `check --read-data`
//!   ends with 1.
//! - The loss of one object leads to no second loss. A backup that restores right after the damage
//!   restores after a prune, a backup and an optimize, and so does the new backup.
//! - Once the backups that do not restore are forgotten, `check` finds nothing that a prune does
//!   not repair.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::draws::{Draws, pick};
use super::judge::Fault;
use super::remove_all;
use super::run::{Judged, Run, Stop};
use super::script::{Rough, Step, strings};

/// Cases of a run.
pub(super) const CASES: u64 = 24;
/// How many steps make the store, and after how many the runner copies it for old objects.
const STEPS: u64 = 22;
const COPY_EVERY: u64 = 5;

const CALM: Rough = Rough {
    signals: 0,
    rivals: 0,
    ballast: 0,
    clocks: 0,
};

#[derive(Debug, Clone, Copy)]
enum Way {
    Delete,
    Truncate,
    Flip,
    Zero,
    Swap,
    /// The bytes of another object of the same folder that has the same name but for its last
    /// number.
    OlderRevision,
    /// An object that existed once, and was deleted.
    Resurrect,
}

/// A case that failed; the others continue.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) fault: Fault,
    pub(super) case: String,
}

/// Makes the store, and tries the cases. Returns the failed ones, and the number of all.
pub(super) fn damage(run: &mut Run, cases: u64) -> Judged<(Vec<Broken>, u64)> {
    run.begin()?;
    let olds = run.work.join("old");
    for number in 1..=STEPS.min(run.plan.steps) {
        run.journal.step(number)?;
        run.step(&Step::draw(run.plan.seed, number, CALM))?;
        if number % COPY_EVERY == 0 {
            copy(&run.place.store(), &olds.join(number.to_string()))?;
        }
    }
    run.compare_all("before the damage")?;
    let whole = run.work.join("whole");
    copy(&run.place.store(), &whole)?;
    let model = run.model.clone();
    let mut broken = Vec::new();
    for case in 0..cases {
        run.journal.step(STEPS + 1 + case)?;
        run.model = model.clone();
        remove_all(&run.place.store())?;
        copy(&whole, &run.place.store())?;
        let mut draws = Draws::new(run.plan.seed, 0x0dab_0000 + case);
        let Some(what) = harm(&run.place.store(), &olds, &mut draws)? else {
            continue;
        };
        run.journal.note(&what)?;
        match judge(run, &mut draws) {
            Ok(()) => {}
            Err(Stop::Fault(fault)) => {
                run.journal
                    .note(&format!("FAULT: {}: {}", fault.kind, fault.what))?;
                broken.push(Broken { fault, case: what });
            }
            Err(Stop::Runner(error)) => return Err(Stop::Runner(error.context(what))),
        }
    }
    Ok((broken, cases))
}

/// Checks a store with one damaged object.
fn judge(run: &mut Run, draws: &mut Draws) -> Judged {
    let checked = run.alone(&strings(&["check", "--read-data"]))?;
    let has_summary = checked.line("summary").is_some();
    let named = checked.code == Some(1) && checked.line("damage").is_some();
    let listed = run.alone(&strings(&["snapshots"]))?;
    if listed.code != Some(0) && !named {
        let what = format!(
            "the store does not list its backups, and check says {:?}",
            checked.code
        );
        return Err(Fault::new("silent", what).into());
    }
    let (good, bad) = restorable(run)?;
    if !bad.is_empty() && !named {
        let what = format!(
            "backups {bad:?} do not restore, and check ends with {:?} (B5)",
            checked.code
        );
        return Err(Fault::new("silent", what).into());
    }
    if !has_summary {
        let what = format!(
            "check stops early: {:?}: {} (B4)",
            checked.code,
            checked.err.trim()
        );
        return Err(Fault::new("check stops", what).into());
    }
    let told = go_on(run, draws)?;
    let (still, lost) = restorable(run)?;
    // The rules may delete a backup that has left a window.
    let by_window = |id: &u64| run.model.may_leave(*id);
    let second: Vec<&u64> = good.difference(&still).filter(|id| !by_window(id)).collect();
    if !second.is_empty() {
        let what = format!("backups {second:?} restored before {told:?}, and do not after (check: {named})");
        return Err(Fault::new("second loss", what).into());
    }
    clean(run, &lost)
}

/// Runs a prune, a backup and an optimize, in a drawn order. Returns how each ended.
fn go_on(run: &mut Run, draws: &mut Draws) -> Judged<Vec<String>> {
    let mut order = ["prune", "backup", "optimize"];
    let first = pick(draws.next(), order.len());
    order.swap(0, first);
    let mut told = Vec::new();
    for verb in order {
        let args = match verb {
            "prune" => strings(draws.one(&[
                &["prune"][..],
                &["prune", "--all"],
                &["prune", "--max-unused", "0"],
            ])),
            "backup" => {
                let mut args = strings(&["backup", "--force"]);
                args.push(run.sources[0].path.clone().into());
                args
            }
            _ => strings(&["optimize", "--repair", "100"]),
        };
        let ended = run.alone(&args)?;
        told.push(format!("{verb} {:?}", ended.code));
        let id = ended
            .line("summary")
            .and_then(|line| line["snapshot_id"].as_u64());
        if let (Some(id), true, Some(0)) = (id, verb == "backup", ended.code) {
            let picture = run.sources[0].picture()?;
            run.model.add(id, 0, picture);
            let restored = run.try_restore(id)?;
            if restored.code != Some(0) {
                let what = format!(
                    "backup {id}, made after the damage, does not restore: {}",
                    restored.err.trim()
                );
                return Err(Fault::new("second loss", what).into());
            }
        }
    }
    Ok(told)
}

/// Which backups of the model restore right now, and which do not.
fn restorable(run: &mut Run) -> Judged<(BTreeSet<u64>, BTreeSet<u64>)> {
    let (mut good, mut bad) = (BTreeSet::new(), BTreeSet::new());
    for id in run.model.kept() {
        let ended = run.try_restore(id)?;
        if ended.code == Some(0) {
            good.insert(id)
        } else {
            bad.insert(id)
        };
    }
    Ok((good, bad))
}

/// Forgets the backups that do not restore or that check names, prunes, and checks that nothing is
/// left.
fn clean(run: &mut Run, lost: &BTreeSet<u64>) -> Judged {
    let checked = run.alone(&strings(&["check", "--read-data"]))?;
    let lines = checked.lines();
    let named = lines
        .iter()
        .filter(|line| line["message_type"] == "damaged_backup");
    let mut ids: BTreeSet<u64> = named.filter_map(|line| line["snapshot_id"].as_u64()).collect();
    ids.extend(lost);
    for id in ids {
        run.alone(&strings(&["unhold", &id.to_string()]))?;
        // A backup that is no longer listed cannot be forgotten; prune reports what is left of it.
        run.alone(&strings(&["forget", "--force-unreadable", &id.to_string()]))?;
    }
    let mut said = Vec::new();
    for args in [
        &["prune", "--all", "--max-unused", "0"][..],
        &["prune", "--all", "--allow-missing-manifests", "--max-unused", "0"],
    ] {
        let ended = run.alone(&strings(args))?;
        said.push(format!("{:?} {}", ended.code, ended.err.trim()));
        if ended.code == Some(0) {
            break;
        }
    }
    let checked = run.alone(&strings(&["check", "--read-data"]))?;
    let lines = checked.lines();
    let uncovered = |line: &&serde_json::Value| line["message_type"] == "damage" && line["covered"] != true;
    let damage: Vec<String> = lines.iter().filter(uncovered).map(ToString::to_string).collect();
    if !damage.is_empty() || checked.line("damaged_backup").is_some() || checked.line("summary").is_none() {
        let what = format!(
            "after forget and prune ({}) check ends with {:?}: {} {} (B6)",
            said.join("; "),
            checked.code,
            checked.err.trim(),
            damage.join(" ")
        );
        return Err(Fault::new("stays damaged", what).into());
    }
    Ok(())
}

/// Damages one drawn object. Returns which and how, or `None` if the drawn damage is impossible.
fn harm(store: &Path, olds: &Path, draws: &mut Draws) -> Result<Option<String>> {
    let mut objects = Vec::new();
    super::objects(store, &mut objects)?;
    objects.retain(|object| !object.starts_with(store.join("reserve")));
    // Draws the folder first, because there are few lists and many containers.
    let folder = |object: &PathBuf| {
        object
            .strip_prefix(store)
            .ok()?
            .components()
            .next()
            .map(|part| part.as_os_str().to_owned())
    };
    let folders: BTreeSet<_> = objects.iter().filter_map(folder).collect();
    let folders: Vec<_> = folders.into_iter().collect();
    let chosen = &folders[pick(draws.next(), folders.len())];
    let among: Vec<&PathBuf> = objects
        .iter()
        .filter(|object| folder(object).as_ref() == Some(chosen))
        .collect();
    let object = among[pick(draws.next(), among.len())];
    let other = among[pick(draws.next(), among.len())];
    let way = draws.one(&[
        Way::Delete,
        Way::Delete,
        Way::Delete,
        Way::Truncate,
        Way::Flip,
        Way::Zero,
        Way::Swap,
        Way::OlderRevision,
        Way::Resurrect,
        Way::Resurrect,
    ]);
    let draw = draws.next();
    let shown = object.strip_prefix(store)?.display().to_string();
    let mut bytes = fs::read(object)?;
    let len = bytes.len();
    let at = pick(draw, len);
    match way {
        Way::Delete => fs::remove_file(object)?,
        Way::Truncate => {
            bytes.truncate(at);
            fs::write(object, &bytes)?;
        }
        Way::Flip => {
            let Some(byte) = bytes.get_mut(at) else {
                return Ok(None);
            };
            *byte ^= 1 << (draw >> 61);
            fs::write(object, &bytes)?;
        }
        Way::Zero => {
            let end = bytes.len().min(at + 4096);
            bytes[at..end].fill(0);
            fs::write(object, &bytes)?;
        }
        Way::Swap => {
            let others = fs::read(other)?;
            if others == bytes {
                return Ok(None);
            }
            fs::write(object, &others)?;
            fs::write(other, &bytes)?;
        }
        Way::OlderRevision => {
            let stem = |path: &Path| path.file_stem().map(ToOwned::to_owned);
            let older = among.iter().find(|path| {
                **path != object && path.parent() == object.parent() && stem(path) == stem(object)
            });
            let Some(older) = older else {
                return Ok(None);
            };
            fs::copy(older, object)?;
        }
        Way::Resurrect => return resurrect(store, olds, draw),
    }
    Ok(Some(format!(
        "{way:?} of {shown}, of {len} bytes, at {at}; the other is {}",
        other.strip_prefix(store)?.display()
    )))
}

/// Puts back an object that has been deleted since an earlier copy of the store was made.
fn resurrect(store: &Path, olds: &Path, draw: u64) -> Result<Option<String>> {
    let mut gone = Vec::new();
    let Ok(copies) = fs::read_dir(olds) else {
        return Ok(None);
    };
    for copy in copies {
        let copy = copy?.path();
        let mut objects = Vec::new();
        super::objects(&copy, &mut objects)?;
        for object in objects {
            let name = object.strip_prefix(&copy)?.to_owned();
            if !store.join(&name).exists() {
                gone.push((name, object));
            }
        }
    }
    gone.sort();
    let Some((name, object)) = gone.get(pick(draw, gone.len())) else {
        return Ok(None);
    };
    let place = store.join(name);
    fs::create_dir_all(place.parent().context("an object lies in a folder")?)?;
    fs::copy(object, &place)?;
    Ok(Some(format!(
        "{} is put back from {}",
        name.display(),
        object.display()
    )))
}

/// Copies a store with its times.
fn copy(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    if !copied.success() {
        bail!("{} could not be copied to {}", from.display(), to.display());
    }
    Ok(())
}
