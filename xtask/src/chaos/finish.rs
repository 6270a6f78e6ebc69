//! The end of a run. The runner forgets and prunes all backups, on the disk as full as it is and
//! then with room. The rest must be sound, and next to nothing.

use std::fs;

use super::draws::Draws;
use super::judge::Fault;
use super::model::{Did, Effect};
use super::run::{Judged, Run};
use super::script::{Jump, strings};
use super::trouble::jump_times;

/// How many prunes a full disk may need until one ends with 0.
const PRUNES_MAX: usize = 4;
/// Lists, endings, settings and the like must take no more than this.
const LEFT_BYTES_MAX: u64 = 256 << 10;

/// Forgets and prunes all, and checks the rest.
pub(super) fn finish(run: &mut Run) -> Judged {
    run.journal.note("the end")?;
    let reserve = reserve_bytes(run);
    let mut draws = Draws::new(run.plan.seed, 2);
    let leave = if draws.chance(50) {
        0
    } else {
        draws.about(4 << 10, 2 << 20)
    };
    let is_full = run.place.kind.is_small() && draws.chance(60);
    if is_full {
        run.place.fill(leave)?;
        run.journal
            .note(&format!("filled up to {leave} bytes; the reserve has {reserve}"))?;
    }
    // First, half of the backups are forgotten. On a full disk, shared containers are rewritten, or
    // not.
    let kept = run.model.kept();
    let half: Vec<u64> = kept.iter().copied().filter(|_| draws.chance(50)).collect();
    forget(run, half, is_full)?;
    let ended = run.alone(&strings(&["prune", "--max-unused", "0"]))?;
    if !is_full && ended.code != Some(0) {
        return Err(Fault::new("exit code", format!("of prune: {:?}: {}", ended.code, ended.err)).into());
    }
    run.compare_all("after the first prune of the end")?;
    let kept = run.model.kept();
    forget(run, kept, is_full)?;
    if is_full {
        let ended = prune_to_the_end(run)?;
        let could = run.has_reserve && reserve >= 1 << 20;
        if !ended && could {
            let what = format!("{PRUNES_MAX} prunes of a store without backups failed on a full disk (B3)");
            return Err(Fault::new("full disk", what).into());
        }
        run.place.release()?;
        let kept = run.model.kept();
        forget(run, kept, false)?;
    }
    if !prune_to_the_end(run)? {
        return Err(Fault::new("full disk", "prune fails with room, too (B3)").into());
    }
    // A broken-off backup stays for a day, and the manifest of a forgotten one for a month.
    jump_times(
        &run.place.store(),
        Jump {
            seconds: -40 * 86_400,
            percent: 100,
            after_ms: None,
            seed: 0,
        },
    )?;
    for _ in 0..2 {
        run.well(&strings(&["prune", "--max-unused", "0"]))?;
    }
    sound(run)?;
    empty(run)
}

/// `check` with all data must find nothing.
pub(super) fn sound(run: &mut Run) -> Judged {
    let ended = run.alone(&strings(&["check", "--read-data"]))?;
    let lines = ended.lines();
    let damage: Vec<String> = lines
        .iter()
        .filter(|line| line["message_type"] == "damage")
        .map(ToString::to_string)
        .collect();
    if ended.code != Some(0) || !damage.is_empty() {
        let what = format!(
            "check: {:?}: {}\n{}",
            ended.code,
            ended.err.trim(),
            damage.join("\n")
        );
        return Err(Fault::new("not clean", what).into());
    }
    Ok(())
}

fn forget(run: &mut Run, ids: Vec<u64>, is_full: bool) -> Judged {
    if ids.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let unhold = run.alone(&[strings(&["unhold"]), strings(&names)].concat())?;
    let mut did = vec![Did {
        effect: Effect::Hold(ids.clone(), false),
        is_done: unhold.code == Some(0),
    }];
    if unhold.code == Some(0) || !is_full {
        run.settle(&did)?;
        did.clear();
    }
    let ended = run.alone(&[strings(&["forget"]), strings(&names)].concat())?;
    if ended.code != Some(0) && !is_full {
        return Err(Fault::new("exit code", format!("of forget: {:?}: {}", ended.code, ended.err)).into());
    }
    did.push(Did {
        effect: Effect::ForgetIds(ids),
        is_done: ended.code == Some(0),
    });
    run.settle(&did)
}

/// Prunes until one ends with 0, a few times at most.
fn prune_to_the_end(run: &mut Run) -> Judged<bool> {
    for _ in 0..PRUNES_MAX {
        if run.alone(&strings(&["prune", "--max-unused", "0"]))?.code == Some(0) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn reserve_bytes(run: &Run) -> u64 {
    fs::metadata(run.place.store().join("reserve")).map_or(0, |meta| meta.len())
}

/// No container may be left, and little else.
fn empty(run: &Run) -> Judged {
    let store = run.place.store();
    let mut objects = Vec::new();
    super::objects(&store, &mut objects)?;
    let mut bytes = 0;
    for object in &objects {
        let name = object.strip_prefix(&store)?;
        // The index keeps the hooks of deleted containers until it is rebuilt, within a budget of
        // its own.
        if name.starts_with("reserve") || name.starts_with("index") {
            continue;
        }
        bytes += object.metadata()?.len();
        if ["data", "recipe", "small", "catalog", "mirror", "archive"]
            .iter()
            .any(|folder| name.starts_with(folder))
        {
            let what = format!("{} stays though no backup is left", name.display());
            return Err(Fault::new("not empty", what).into());
        }
    }
    if bytes > LEFT_BYTES_MAX {
        return Err(Fault::new(
            "not empty",
            format!("{bytes} bytes stay in {} objects", objects.len()),
        )
        .into());
    }
    Ok(())
}
