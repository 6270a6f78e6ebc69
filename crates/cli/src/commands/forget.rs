//! `onefold forget`

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use cli_support::Code;
use cli_support::output::{Output, bytes, count, local_time, lossy, moment, utc_time, zone};
use onefold::{
    Candidate, Decision, ForgetReport, ForgetRequest, ForgetWhat, Group, Monitor, Reason, SessionId, Times,
    UnixNanos, operations, shell_word,
};
use serde::Serialize;

use super::place::open_anywhere;
use super::prune;
use crate::args::{Forget, Global};

/// The reason to forget a backup that the rules do not keep.
const NO_RULE: &str = "no rule keeps it";
/// The reason to forget a named backup.
const NAMED: &str = "named on the command line";

#[derive(Serialize)]
struct GroupLine {
    message_type: &'static str,
    host: Option<String>,
    paths: Option<Vec<String>>,
    tags: Option<Vec<String>>,
    keep: Vec<Decided>,
    remove: Vec<Decided>,
}

#[derive(Serialize)]
struct NamedLine {
    message_type: &'static str,
    remove: Vec<Decided>,
}

/// The decision about a backup, and the reasons.
#[derive(Serialize)]
struct Decided {
    #[serde(skip)]
    is_kept: bool,
    id: u64,
    #[serde(flatten)]
    backup: Option<Backup>,
    reasons: Vec<String>,
    /// The cells of its line in the table.
    #[serde(skip)]
    shown: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_alone: Option<u64>,
}

#[derive(Serialize)]
struct Backup {
    committed: String,
    hostname: String,
    paths: Vec<String>,
    tags: Vec<String>,
    #[serde(skip)]
    committed_at: UnixNanos,
}

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    dry_run: bool,
    forgotten: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ended_sessions: Vec<u64>,
    already_forgotten: Vec<u64>,
    changed_meanwhile: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kept: Vec<prune::Kept>,
}

pub(crate) fn run(global: &Global, args: &Forget, output: Output) -> Result<Code> {
    let opened = open_anywhere(global)?;
    if args.prune && opened.local().is_none() {
        bail!(
            "a machine may forget its backups, but only the server prunes: leave out --prune, and run `onefold prune` there"
        );
    }
    let store = opened.repository();
    let what = if args.ids.is_empty() {
        ForgetWhat::ByPolicy {
            policy: args.policy(),
            group_by: args.group_by,
            filter: super::filter(&args.filter())?,
            times: args.times(),
        }
    } else {
        ForgetWhat::Named(super::named(store, &args.ids, &args.filter())?)
    };
    let request = ForgetRequest::new(what)
        .is_dry_run(args.dry_run)
        .force_unreadable(args.force_unreadable);
    let monitor = Monitor::new(super::cancel_flag()?);
    let report = operations::forget(store, &request, &monitor)?;
    super::tell_notes(&monitor, output)?;
    let options = prune::options(&args.limits);
    // A server tells no namespace what others share with it.
    let preview = opened.local().filter(|_| args.dry_run).map(|store| {
        let doomed = report.forgotten.iter().copied().collect();
        prune::preview(store, &options, &doomed, output)
    });
    // Print the decision even if the preview fails.
    let known = preview.as_ref().and_then(|preview| preview.as_ref().ok());
    let alone = known.map(|preview| &preview.alone);
    for group in &report.groups {
        print_group(group, alone, args.times(), output)?;
    }
    if !args.ids.is_empty() {
        print_named(&report, alone, output)?;
    }
    let code = summarize(&report, args.dry_run, output)?;
    // A prune prints this itself.
    if !args.dry_run && !args.prune {
        prune::say_kept(&report.kept, false, output)?;
    }
    if let Some(preview) = preview {
        prune::say_preview(&preview?, output)?;
    } else if let Some(store) = opened.local().filter(|_| args.prune) {
        let pruned = prune::prune(store, &options, output)?;
        return Ok(if code == Code::Success { pruned } else { code });
    }
    Ok(code)
}

/// Stored bytes that only each of the forgotten backups reaches, if they were computed.
type Alone<'a> = Option<&'a BTreeMap<SessionId, u64>>;

impl Decided {
    fn of(decision: &Decision, alone: Alone<'_>) -> Self {
        let reasons = decision.reasons.iter().map(ToString::to_string).collect();
        let shown = |reason: &Reason| match reason {
            Reason::HeldUntil(until) => format!("held until {}", moment(until.get())),
            other => other.to_string(),
        };
        if decision.is_kept() {
            Self {
                is_kept: true,
                id: decision.backup.session.get(),
                backup: Some(Backup::of(&decision.backup)),
                reasons,
                shown: decision.reasons.iter().map(shown).collect(),
                bytes_alone: None,
            }
        } else {
            Self::removed(decision.backup.session, Some(&decision.backup), NO_RULE, alone)
        }
    }

    fn removed(id: SessionId, backup: Option<&Candidate>, why: &str, alone: Alone<'_>) -> Self {
        Self {
            is_kept: false,
            id: id.get(),
            backup: backup.map(Backup::of),
            reasons: vec![why.to_owned()],
            shown: vec![why.to_owned()],
            bytes_alone: alone.and_then(|alone| alone.get(&id).copied()),
        }
    }
}

impl Backup {
    fn of(candidate: &Candidate) -> Self {
        Self {
            committed: utc_time(candidate.committed_at.get()),
            hostname: lossy(&candidate.name.host),
            paths: candidate.name.paths.iter().map(|path| lossy(path)).collect(),
            tags: candidate.tags.clone(),
            committed_at: candidate.committed_at,
        }
    }
}

/// Prints one line for each backup, with its exclusive bytes if they are known.
fn print_table(decided: &[Decided], alone: Alone<'_>, times: Times, output: Output) -> Result<()> {
    let head = match times {
        Times::Backup => format!("made ({})", zone()),
        Times::Agreeing | Times::Commit => format!("committed ({})", zone()),
    };
    let width = head.len().max(19);
    let size = |text: &str| alone.map_or_else(String::new, |_| format!("{text:>10}  "));
    output.line(format!(
        "  {:6}  {:>6}  {head:19}  {:12}  {}why",
        "",
        "id",
        "host",
        size("alone")
    ))?;
    for one in decided {
        let (committed, host) = match &one.backup {
            Some(backup) => (
                local_time(backup.committed_at.get()),
                shell_word(backup.hostname.as_bytes()),
            ),
            None => ("-".to_owned(), "-".to_owned()),
        };
        output.line(format!(
            "  {:6}  {:>6}  {committed:width$}  {host:12}  {}{}",
            if one.is_kept { "keep" } else { "remove" },
            one.id,
            size(&one.bytes_alone.map(bytes).unwrap_or_default()),
            one.shown.join(", "),
        ))?;
    }
    output.line("")?;
    Ok(())
}

fn print_group(group: &Group, alone: Alone<'_>, times: Times, output: Output) -> Result<()> {
    let decided: Vec<_> = group
        .decisions
        .iter()
        .map(|decision| Decided::of(decision, alone))
        .collect();
    let kept = decided.iter().filter(|one| one.is_kept).count();
    let all = count(decided.len() as u64, "backup", "backups");
    output.line(format!("{}: keeps {kept} of {all}", group.key))?;
    print_table(&decided, alone, times, output)?;
    let (keep, remove) = decided.into_iter().partition(|one| one.is_kept);
    let texts = |paths: &Vec<Vec<u8>>| paths.iter().map(|path| lossy(path)).collect();
    output.object(&GroupLine {
        message_type: "group",
        host: group.key.host.as_deref().map(lossy),
        paths: group.key.paths.as_ref().map(texts),
        tags: group.key.tags.clone(),
        keep,
        remove,
    })?;
    Ok(())
}

fn print_named(report: &ForgetReport, alone: Alone<'_>, output: Output) -> Result<()> {
    let named = |id: SessionId| report.named.iter().find(|one| one.session == id);
    let remove: Vec<_> = report
        .forgotten
        .iter()
        .map(|id| Decided::removed(*id, named(*id), NAMED, alone))
        .collect();
    if !remove.is_empty() {
        print_table(&remove, alone, Times::Agreeing, output)?;
    }
    output.object(&NamedLine {
        message_type: "named",
        remove,
    })?;
    Ok(())
}

fn summarize(report: &ForgetReport, dry_run: bool, output: Output) -> Result<Code> {
    let ids = |ids: &[onefold::SessionId]| ids.iter().map(|id| id.get()).collect::<Vec<_>>();
    let mut forgotten = count(report.forgotten.len() as u64, "backup", "backups");
    if !report.ended_sessions.is_empty() {
        let ended = count(report.ended_sessions.len() as u64, "session", "sessions");
        forgotten = format!(
            "{forgotten}, and {} {ended}",
            if dry_run { "end" } else { "ended" }
        );
    }
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
        ended_sessions: ids(&report.ended_sessions),
        already_forgotten: ids(&report.already_forgotten),
        changed_meanwhile: ids(&report.revised_meanwhile),
        kept: prune::Kept::all(&report.kept),
    })?;
    for id in &report.revised_meanwhile {
        output.warn(format!(
            "backup or session {id} stays: somebody has changed it meanwhile, or it can be read again; run the command \
             again to decide again"
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
