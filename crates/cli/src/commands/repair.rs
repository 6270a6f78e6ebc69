//! `onefold repair`

use anyhow::Result;
use cli_support::Code;
use cli_support::output::{Output, count};
use cli_support::progress::{self, Status};
use onefold::{Monitor, RepairReport, RepairStep, SessionId};
use serde::Serialize;

use super::check::{tell_backups, tell_findings};
use super::copy::open_source;
use crate::args::{Global, Repair};

#[derive(Serialize)]
struct ReplacedLine {
    message_type: &'static str,
    snapshot_id: u64,
    by: u64,
}

#[derive(Serialize)]
struct LeftOverLine {
    message_type: &'static str,
    snapshot_id: u64,
    of: u64,
}

#[derive(Serialize)]
struct HealedLine {
    message_type: &'static str,
    container: String,
    slots: u64,
    left: u64,
}

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    damage_before: usize,
    damage_left: usize,
    healed_slots: u64,
    containers_rewritten: usize,
    config_mended: bool,
    configs_deleted: usize,
    replaced: usize,
    broken_backups: Vec<u64>,
}

pub(crate) fn run(global: &Global, args: &Repair, output: Output) -> Result<Code> {
    let store = super::open(global)?;
    let from = args.from_repo.as_deref();
    let from = from
        .map(|named| open_source(global, (named, &args.password), true))
        .transpose()?;
    let other = from.as_ref().map(super::place::Opened::repository);
    let monitor = Monitor::new(super::cancel_flag()?);
    let status = || Status::of(&monitor);
    let report = progress::around(output, "repair", &status, |screen| {
        let mut told = |step: RepairStep| {
            let said = screen.print(|| say(step, output));
            // Standard output is closed: nobody can be told.
            drop(said);
        };
        store.repair(other, &monitor, &mut told)
    })?;
    super::tell_notes(&monitor, output)?;
    for warning in &report.warnings {
        output.warning(warning, &format!("warning: {warning}"))?;
    }
    tell(&report, other.is_some(), output)?;
    Ok(if report.after.is_sound() {
        Code::Success
    } else {
        Code::Failure
    })
}

/// Says what begins.
fn say(step: RepairStep, output: Output) -> Result<()> {
    let text = match step {
        RepairStep::Checks => "reading everything".to_owned(),
        RepairStep::Heals => "healing from the store's own copies".to_owned(),
        RepairStep::Copies { from, lost } => {
            format!("copying backup {from} of the other store, for backup {lost}")
        }
        RepairStep::ChecksAgain => "reading again what was damaged".to_owned(),
        _ => return Ok(()),
    };
    Ok(output.line(text)?)
}

fn tell(report: &RepairReport, had_other: bool, output: Output) -> Result<()> {
    if report.before.is_sound() && report.left_over.is_empty() {
        output.line("no damage found: there is nothing to repair")?;
    }
    for healed in &report.healed {
        output.line(format!(
            "healed {} of {}",
            count(healed.slots, "chunk", "chunks"),
            healed.container
        ))?;
        output.object(&HealedLine {
            message_type: "healed",
            container: healed.container.to_string(),
            slots: healed.slots,
            left: healed.left,
        })?;
    }
    for container in &report.rewritten {
        output.line(format!("wrote {container} anew, which had a bad copy"))?;
    }
    if report.configs_deleted > 0 {
        let deleted = count(report.configs_deleted as u64, "config", "configs");
        output.line(format!("deleted {deleted} that a change of passwords had left"))?;
    }
    if report.is_config_mended {
        output.line("the config has two whole copies again")?;
    }
    for (copy, of) in &report.left_over {
        output.line(format!(
            "backup {copy} was a copy of backup {of} that an earlier repair had left; it is forgotten"
        ))?;
        output.object(&LeftOverLine {
            message_type: "left_over",
            snapshot_id: copy.get(),
            of: of.get(),
        })?;
    }
    for (lost, by) in &report.replaced {
        output.line(format!(
            "backup {by} is a copy of backup {lost}, and has taken its place"
        ))?;
        output.object(&ReplacedLine {
            message_type: "replaced",
            snapshot_id: lost.get(),
            by: by.get(),
        })?;
    }
    tell_findings(&report.after.findings, output)?;
    tell_backups(&report.after, output)?;
    output.object(&Summary {
        message_type: "summary",
        damage_before: report.before.findings.len(),
        damage_left: report.after.findings.len(),
        healed_slots: report.healed.iter().map(|healed| healed.slots).sum(),
        containers_rewritten: report.rewritten.len(),
        config_mended: report.is_config_mended,
        configs_deleted: report.configs_deleted,
        replaced: report.replaced.len(),
        broken_backups: report
            .after
            .damaged_backups
            .iter()
            .copied()
            .map(SessionId::get)
            .collect(),
    })?;
    if report.before.is_sound() {
        return Ok(());
    }
    let found = count(report.before.findings.len() as u64, "finding", "findings");
    if report.after.is_sound() {
        return Ok(output.line(format!(
            "repaired: {found} before, none now; every backup can be restored whole"
        ))?);
    }
    let left = report.after.findings.len();
    let advice = advice(report, had_other);
    Ok(output.line(format!("{found} before, {left} now: {advice}"))?)
}

/// What to do about what is left.
fn advice(report: &RepairReport, had_other: bool) -> String {
    let Some(first) = report.after.damaged_backups.first() else {
        return "every backup can be restored whole".to_owned();
    };
    if had_other {
        // A copy that has lost its manifest does not say any more what it is a copy of.
        format!(
            "the store of --from-repo has no whole backup that is known to be the same; if such a backup was a copy, \
             run `onefold copy` from its source again, and then `onefold forget {first}` for each damaged one; or \
             back up the same files again, which heals the older backups, too"
        )
    } else {
        "for what is still lost, name another store that has copies of these backups (--from-repo), or back up the same \
         files again, which heals the older backups, too"
            .to_owned()
    }
}
