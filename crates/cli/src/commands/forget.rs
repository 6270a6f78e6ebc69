//! `onefold forget`

use anyhow::Result;
use onefold::{Candidate, ForgetReport, ForgetRequest, ForgetWhat, Group, Monitor};
use serde::Serialize;

use super::prune;
use crate::args::{Forget, Global};
use crate::exit::Code;
use crate::output::{Output, count, lossy, utc_minute, utc_time};

#[derive(Serialize)]
struct GroupLine {
    message_type: &'static str,
    host: Option<String>,
    paths: Option<Vec<String>>,
    tags: Option<Vec<String>>,
    keep: Vec<Kept>,
    remove: Vec<Backup>,
}

#[derive(Serialize)]
struct Kept {
    #[serde(flatten)]
    backup: Backup,
    reasons: Vec<String>,
}

#[derive(Serialize)]
struct Backup {
    id: u64,
    committed: String,
    hostname: String,
    paths: Vec<String>,
    tags: Vec<String>,
}

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    dry_run: bool,
    forgotten: Vec<u64>,
    already_forgotten: Vec<u64>,
    changed_meanwhile: Vec<u64>,
}

pub(crate) fn run(global: &Global, args: &Forget, output: Output) -> Result<Code> {
    let what = if args.ids.is_empty() {
        ForgetWhat::ByPolicy {
            policy: args.policy(),
            group_by: args.group_by,
            filter: super::filter(&args.filter())?,
        }
    } else {
        ForgetWhat::Named(args.ids.clone())
    };
    let store = super::open(global)?;
    let request = ForgetRequest {
        what,
        is_dry_run: args.dry_run,
        even_unread: args.even_unread,
    };
    let monitor = Monitor::new(super::cancel_flag()?);
    let report = store.forget(&request, &monitor)?;
    for group in &report.groups {
        print(group, output)?;
    }
    let code = summarize(&report, args.dry_run, output)?;
    let options = prune::options(&args.limits);
    if args.dry_run {
        let doomed = report.forgotten.iter().copied().collect();
        prune::preview(&store, &options, &doomed, output)?;
    } else if args.prune {
        let pruned = prune::prune(&store, &options, output)?;
        return Ok(if code == Code::Success { pruned } else { code });
    }
    Ok(code)
}

fn print(group: &Group, output: Output) -> Result<()> {
    let kept = group.decisions.iter().filter(|decision| decision.is_kept());
    let all = count(group.decisions.len() as u64, "backup", "backups");
    output.line(format!("{}: keeps {} of {all}", group.key, kept.clone().count()))?;
    output.line(format!(
        "  {:6}  {:>6}  {:16}  {:12}  why",
        "", "id", "committed (UTC)", "host"
    ))?;
    for decision in &group.decisions {
        let reasons: Vec<_> = decision.reasons.iter().map(ToString::to_string).collect();
        let line = format!(
            "  {:6}  {:>6}  {:16}  {:12}  {}",
            if decision.is_kept() { "keep" } else { "remove" },
            decision.backup.session,
            utc_minute(decision.backup.committed_at.get()),
            lossy(&decision.backup.name.host),
            reasons.join(", "),
        );
        output.line(line.trim_end())?;
    }
    output.line("")?;
    let removed = group.decisions.iter().filter(|decision| !decision.is_kept());
    let texts = |paths: &Vec<Vec<u8>>| paths.iter().map(|path| lossy(path)).collect();
    output.object(&GroupLine {
        message_type: "group",
        host: group.key.host.as_deref().map(lossy),
        paths: group.key.paths.as_ref().map(texts),
        tags: group.key.tags.clone(),
        keep: kept
            .map(|decision| Kept {
                backup: backup(&decision.backup),
                reasons: decision.reasons.iter().map(ToString::to_string).collect(),
            })
            .collect(),
        remove: removed.map(|decision| backup(&decision.backup)).collect(),
    })?;
    Ok(())
}

fn backup(candidate: &Candidate) -> Backup {
    Backup {
        id: candidate.session.get(),
        committed: utc_time(candidate.committed_at.get()),
        hostname: lossy(&candidate.name.host),
        paths: candidate.name.paths.iter().map(|path| lossy(path)).collect(),
        tags: candidate.tags.clone(),
    }
}

fn summarize(report: &ForgetReport, dry_run: bool, output: Output) -> Result<Code> {
    let ids = |ids: &[onefold::SessionId]| ids.iter().map(|id| id.get()).collect::<Vec<_>>();
    let forgotten = count(report.forgotten.len() as u64, "backup", "backups");
    if dry_run {
        output.line(format!("would forget {forgotten}; nothing was changed"))?;
    } else {
        output.line(format!("forgot {forgotten}"))?;
    }
    if !report.already_forgotten.is_empty() {
        let already = count(report.already_forgotten.len() as u64, "was", "were");
        output.line(format!("{already} forgotten before"))?;
    }
    output.object(&Summary {
        message_type: "summary",
        dry_run,
        forgotten: ids(&report.forgotten),
        already_forgotten: ids(&report.already_forgotten),
        changed_meanwhile: ids(&report.revised_meanwhile),
    })?;
    for id in &report.revised_meanwhile {
        output.warn(format!(
            "backup {id} was held or tagged by somebody meanwhile, or can be read again, and stays; run the command \
             again to decide anew"
        ))?;
    }
    for damaged in &report.damaged {
        output.warn(format!("{}: {}; run `onefold check`", damaged.name, damaged.why))?;
    }
    Ok(
        if report.damaged.is_empty() && report.revised_meanwhile.is_empty() {
            Code::Success
        } else {
            Code::Failure
        },
    )
}
