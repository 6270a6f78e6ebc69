//! `onefold find`

use anyhow::Result;
use cli_support::Code;
use cli_support::output::{Output, local_time, lossy, utc_time};
use cli_support::progress::{self, Screen, Status};
use onefold::{FileTime, FindReport, FindRequest, Found, Monitor, SessionId, Snapshot};
use serde::Serialize;

use super::ls::{long, node, stream_line};
use crate::args::{Find, Global};

#[derive(Serialize)]
struct Match<T> {
    message_type: &'static str,
    snapshot_id: u64,
    #[serde(flatten)]
    found: T,
}

#[derive(Serialize)]
struct Stream {
    path: String,
    r#type: &'static str,
    size: u64,
    mtime: String,
}

#[derive(Serialize)]
struct Unread {
    snapshot_id: u64,
    why: String,
}

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    hits: u64,
    snapshots: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<Unread>,
}

pub(crate) fn run(global: &Global, args: &Find, output: Output) -> Result<Code> {
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    let typed: (&[String], &[String]) = match args.ignore_case {
        true => (&[], &args.patterns),
        false => (&args.patterns, &[]),
    };
    let request = FindRequest::default()
        .patterns(super::typed::excludes([typed.0, typed.1], [&[], &[]])?)
        .oldest(args.oldest.map(FileTime::from))
        .newest(args.newest.map(FileTime::from));
    let list = store.snapshots()?;
    let filter = super::filter(&args.filter)?;
    let mut backups: Vec<Snapshot> = if args.snapshot.is_empty() {
        let chosen = list.snapshots.iter();
        chosen
            .filter(|snapshot| filter.lets_through(&snapshot.backup))
            .cloned()
            .collect()
    } else {
        let named = args.snapshot.iter();
        named
            .map(|id| super::one_of(&list, store, id, &filter))
            .collect::<Result<_>>()?
    };
    backups.sort_by_key(|snapshot| snapshot.id);
    backups.dedup_by_key(|snapshot| snapshot.id);
    if !args.reverse {
        backups.reverse();
    }
    let monitor = Monitor::new(super::cancel_flag()?);
    let status = || Status::of(&monitor);
    let report = progress::around(output, "find", &status, |screen| {
        let mut printer = Printer {
            args,
            output,
            screen,
            last: None,
        };
        onefold::operations::find_entries(store, &backups, &request, &monitor, |backup, found| {
            printer.print(backup, found)
        })
    })?;
    super::tell_notes(&monitor, output)?;
    for doubt in request.patterns.doubts_met() {
        output.warn(format!("warning: {doubt}"))?;
    }
    for damaged in list.damaged.iter().filter(|_| args.snapshot.is_empty()) {
        output.warn(format!("{}: {}; run `onefold check`", damaged.name, damaged.why))?;
    }
    let is_whole = report.unread.is_empty() && (list.damaged.is_empty() || !args.snapshot.is_empty());
    tell(report, output)?;
    Ok(if is_whole { Code::Success } else { Code::Failure })
}

fn tell(report: FindReport, output: Output) -> Result<()> {
    for (id, why) in &report.unread {
        output.warn(format!("error: backup {id} was not searched to its end: {why}"))?;
    }
    output.object(&Summary {
        message_type: "summary",
        hits: report.found,
        snapshots: report.backups,
        unread: { report.unread.into_iter() }
            .map(|(id, why)| Unread {
                snapshot_id: id.get(),
                why,
            })
            .collect(),
    })?;
    Ok(())
}

/// Prints what is found, with a heading for each backup.
struct Printer<'a> {
    args: &'a Find,
    output: Output,
    screen: &'a Screen,
    /// The backup of the last heading.
    last: Option<SessionId>,
}

impl Printer<'_> {
    fn print(&mut self, backup: &Snapshot, found: Found<'_>) -> Result<()> {
        let (screen, is_first) = (self.screen, self.last.is_none());
        let is_next = self.last.replace(backup.id) != Some(backup.id);
        screen.print(|| {
            if is_next {
                self.head(backup, is_first)?;
            }
            self.line(backup, found)
        })
    }

    fn head(&self, backup: &Snapshot, is_first: bool) -> Result<()> {
        if !is_first {
            self.output.line("")?;
        }
        let time = local_time(backup.backup.source_time.get());
        Ok(self.output.line(format!(
            "Found matching entries in backup {} from {time}",
            backup.id
        ))?)
    }

    fn line(&self, backup: &Snapshot, found: Found<'_>) -> Result<()> {
        let output = self.output;
        let time = backup.backup.source_time.get();
        match found {
            Found::Entry(entry) if output.json => output.object(&Match {
                message_type: "match",
                snapshot_id: backup.id.get(),
                found: node(entry),
            })?,
            Found::Entry(entry) if self.args.long => output.raw(&long(entry))?,
            Found::Entry(entry) => output.raw(&entry.path)?,
            Found::Stream { name, len } if output.json => output.object(&Match {
                message_type: "match",
                snapshot_id: backup.id.get(),
                found: Stream {
                    path: lossy(name),
                    r#type: "stream",
                    size: len,
                    mtime: utc_time(time),
                },
            })?,
            Found::Stream { name, len } => output.raw(&stream_line(name, len, time, self.args.long))?,
        }
        Ok(())
    }
}
