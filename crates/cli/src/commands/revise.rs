//! `onefold tag`, `onefold hold`, `onefold unhold`

use anyhow::{Result, bail};
use cli_support::Code;
use cli_support::output::{Output, count, moment, utc_time};
use onefold::{Held, HoldEnd, Monitor, SessionId, TagChange, Which, operations};
use serde::Serialize;

use crate::args::{Filter, Global, Hold, Tag, TagList, Unhold};

#[derive(Serialize)]
struct Changed {
    message_type: &'static str,
    snapshot_id: u64,
    tags: Vec<String>,
}

#[derive(Serialize)]
struct Summary {
    message_type: &'static str,
    changed_snapshots: u64,
}

#[derive(Serialize)]
struct HoldLine {
    message_type: &'static str,
    snapshot_id: u64,
    hold_until: Option<String>,
}

pub(crate) fn tag(global: &Global, args: &Tag, output: Output) -> Result<Code> {
    if args.ids.is_empty() && !args.filter.is_given() {
        bail!("which backups? Name their ids, or choose some with --host, --path or --tag");
    }
    let change = match &args.set {
        Some(lists) => TagChange::Set(TagList::all(lists)),
        None => TagChange::Alter {
            add: TagList::all(&args.add),
            remove: TagList::all(&args.remove),
        },
    };
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    let which = if args.ids.is_empty() {
        Which::All(super::filter(&args.filter)?)
    } else {
        Which::Named(super::named(store, &args.ids, &args.filter)?)
    };
    let mut changed = 0;
    let monitor = Monitor::new(super::cancel_flag()?);
    for backup in operations::tag(store, &which, &change, &monitor)? {
        if backup.is_in_doubt {
            tell_of_doubt(backup.id, output)?;
        }
        if !backup.is_changed {
            continue;
        }
        changed += 1;
        output.line(format!("backup {}: [{}]", backup.id, backup.tags.join(", ")))?;
        output.object(&Changed {
            message_type: "changed",
            snapshot_id: backup.id.get(),
            tags: backup.tags,
        })?;
    }
    output.line(format!(
        "changed the tags of {}",
        count(changed, "backup", "backups")
    ))?;
    output.object(&Summary {
        message_type: "summary",
        changed_snapshots: changed,
    })?;
    Ok(Code::Success)
}

pub(crate) fn hold(global: &Global, args: &Hold, output: Output) -> Result<Code> {
    let until = args.until.map(HoldEnd::At);
    let end = until.or_else(|| args.span.map(HoldEnd::After));
    set(global, (&args.ids, &args.filter), end, output)
}

pub(crate) fn unhold(global: &Global, args: &Unhold, output: Output) -> Result<Code> {
    set(global, (&args.ids, &args.filter), None, output)
}

fn set(
    global: &Global,
    (ids, filter): (&[String], &Filter),
    end: Option<HoldEnd>,
    output: Output,
) -> Result<Code> {
    let opened = super::open_anywhere(global)?;
    let store = opened.repository();
    let ids = &super::named(store, ids, filter)?[..];
    let monitor = Monitor::new(super::cancel_flag()?);
    let Held {
        ids, until, in_doubt, ..
    } = operations::hold(store, ids, end, &monitor)?;
    for id in in_doubt {
        tell_of_doubt(id, output)?;
    }
    for id in ids {
        output.line(match until {
            Some(until) => format!("backup {id} is held until {}", moment(until.get())),
            None => format!("backup {id} is not held"),
        })?;
        output.object(&HoldLine {
            message_type: "hold",
            snapshot_id: id.get(),
            hold_until: until.map(|until| utc_time(until.get())),
        })?;
    }
    Ok(Code::Success)
}

/// Warns that the new revision undoes the content of an unreadable one.
fn tell_of_doubt(id: SessionId, output: Output) -> std::io::Result<()> {
    output.warn(format!(
        "warning: a manifest revision of backup {id} cannot be read, and what it said is not known: look at the tags and \
         the hold that the backup has now with `onefold snapshots`, and set what is missing. If that revision forgot the \
         backup, and can be read again, it counts"
    ))
}
