//! `onefold snapshots`

use anyhow::Result;
use cli_support::Code;
use cli_support::output::{Output, bytes, count, local_time, lossy, moment, thousands, utc_time, zone};
use onefold::{SnapshotList, shell_word, shell_words};
use serde::Serialize;

use crate::args::{Filter, Global};

#[derive(Serialize)]
struct Row {
    message_type: &'static str,
    id: u64,
    time: String,
    hostname: String,
    username: String,
    paths: Vec<String>,
    tags: Vec<String>,
    parent: Option<u64>,
    files: u64,
    files_failed: u64,
    total_bytes: u64,
    new_bytes: u64,
    stored_bytes: u64,
    program_version: String,
    hold_until: Option<String>,
    next: Option<u64>,
    origin: Option<OriginOf>,
}

/// The backup that this one is a copy of.
#[derive(Serialize)]
struct OriginOf {
    repository_id: String,
    snapshot_id: u64,
}

pub(crate) fn run(global: &Global, args: &Filter, output: Output) -> Result<Code> {
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    let filter = super::filter(args)?;
    let list = store.snapshots()?;
    let shown: Vec<_> = list
        .snapshots
        .iter()
        .filter(|snapshot| filter.lets_through(&snapshot.backup))
        .collect();
    // This column is only about archival backups.
    let has_archival = shown.iter().any(|snapshot| snapshot.backup.next.is_some());
    let column = |text: &str| {
        if has_archival {
            format!("{text:>6}  ")
        } else {
            String::new()
        }
    };
    let head = format!("time ({})", zone());
    let width = head.len().max(19);
    if !shown.is_empty() {
        output.line(format!(
            "{:>6}  {head:19}  {:12}  {:>10}  {:>10}  {}paths",
            "id",
            "host",
            "size",
            "stored",
            column("next")
        ))?;
    }
    for snapshot in &shown {
        let backup = &snapshot.backup;
        let paths: Vec<String> = backup.series.paths.iter().map(|path| lossy(path)).collect();
        let tags = if backup.tags.is_empty() {
            String::new()
        } else {
            format!("  [{}]", backup.tags.join(", "))
        };
        let hold = match backup.hold_until {
            Some(until) => format!("  held until {}", moment(until.get())),
            None => String::new(),
        };
        let failed = match backup.totals.files_failed {
            0 => String::new(),
            failed => format!("  ({} not read as they were)", thousands(failed)),
        };
        output.result(format!(
            "{:>6}  {:width$}  {:12}  {:>10}  {:>10}  {}{}{tags}{hold}{failed}",
            snapshot.id,
            local_time(backup.source_time.get()),
            shell_word(&backup.series.host),
            bytes(backup.totals.bytes_logical),
            bytes(backup.totals.bytes_stored),
            column(&backup.next.map(|next| next.to_string()).unwrap_or_default()),
            shell_words(&backup.series.paths),
        ))?;
        output.object(&Row {
            message_type: "snapshot",
            id: snapshot.id.get(),
            time: utc_time(backup.source_time.get()),
            hostname: lossy(&backup.series.host),
            username: lossy(&backup.user),
            paths,
            tags: backup.tags.clone(),
            parent: backup.parents.first().map(|(parent, _)| parent.get()),
            files: backup.totals.files,
            files_failed: backup.totals.files_failed,
            total_bytes: backup.totals.bytes_logical,
            new_bytes: backup.totals.bytes_new,
            stored_bytes: backup.totals.bytes_stored,
            program_version: backup.program.clone(),
            hold_until: backup.hold_until.map(|until| utc_time(until.get())),
            next: backup.next.map(onefold::SessionId::get),
            origin: backup.origin.map(|origin| OriginOf {
                repository_id: origin.store.to_string(),
                snapshot_id: origin.backup.get(),
            }),
        })?;
    }
    output.line(format!(
        "{}{}",
        count(shown.len() as u64, "backup", "backups"),
        if has_gaps(&list) {
            "; numbers are missing that forgotten backups had, or that commands took which read or prune"
        } else {
            ""
        }
    ))?;
    for damaged in &list.damaged {
        output.warn(format!("{}: {}; run `onefold check`", damaged.name, damaged.why))?;
    }
    Ok(if list.damaged.is_empty() {
        Code::Success
    } else {
        Code::Failure
    })
}

/// Whether the numbers of the backups have gaps. Reads and prunes take numbers from the same
/// sequence (docs/protocol.md).
fn has_gaps(list: &SnapshotList) -> bool {
    let last = list.snapshots.iter().map(|snapshot| snapshot.id.get()).max();
    last.unwrap_or(0) != list.snapshots.len() as u64
}
