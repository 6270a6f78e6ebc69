//! `onefold volume`

mod serve;

use std::path::Path;

use anyhow::{Result, bail};
use cli_support::output::{bytes, count};
use cli_support::progress::beside;
use cli_support::{Code, Output};
use serde::Serialize;

use super::on_pool::{Course, ask, tell_of_pool};
use crate::args::{Settings, Switch, Volume};
use crate::volumes::{Answer, Change, IndexFault, Request, VolumeFigures, open_alone};

pub(crate) fn run(args: &Volume, output: Output) -> Result<Code> {
    match args {
        Volume::Create(args) => {
            let request = Request::Create {
                name: args.name.clone(),
                bytes: args.size,
                change: change(&args.settings),
            };
            tell_volume("made", &args.pool, &request, output)
        }
        Volume::List { pool } => list(pool, output),
        Volume::Remove { pool, name, force } => remove(pool, name, *force, output),
        Volume::Resize {
            pool,
            name,
            size,
            force,
        } => {
            let request = Request::Resize {
                name: name.clone(),
                bytes: *size,
                force: *force,
            };
            tell_volume("resized", pool, &request, output)
        }
        Volume::Set(args) => {
            let request = Request::Set {
                name: args.name.clone(),
                change: change(&args.settings),
            };
            tell_volume("set", &args.pool, &request, output)
        }
        Volume::Drain { pool, name } => drain(pool, name.as_ref(), output),
        Volume::Serve(args) => serve::run(args, output),
        Volume::Recount { pool } => recount(pool, output),
    }
}

fn change(settings: &Settings) -> Change {
    let is_on = |switch: Option<Switch>| switch.map(|switch| switch == Switch::On);
    Change {
        deduplicate: is_on(settings.deduplicate),
        compare_bytes: is_on(settings.compare_bytes),
        interval_s: settings.interval,
        quiet_intervals: settings.quiet_intervals,
        finder_bytes_per_s: settings.finder_limit,
    }
}

#[derive(Serialize)]
struct Line<'a> {
    message_type: &'static str,
    #[serde(flatten)]
    figures: &'a VolumeFigures,
}

/// Asks for something of which a volume is the answer.
fn tell_volume(what: &str, pool: &Path, request: &Request, output: Output) -> Result<Code> {
    let Answer::Volume(volume) = ask(pool, request, output)? else {
        bail!("the server of the pool answered something else");
    };
    output.object(&Line {
        message_type: "volume",
        figures: &volume,
    })?;
    output.line(format!(
        "{what}: the volume {} of {}; {}",
        volume.name,
        bytes(volume.logical_bytes),
        settings_text(&volume)
    ))?;
    Ok(Code::Success)
}

fn settings_text(volume: &VolumeFigures) -> String {
    let settings = &volume.settings;
    if !settings.deduplicate {
        return "its blocks are not shared".to_owned();
    }
    let compared = if settings.compare_bytes {
        ", after a comparison of all bytes"
    } else {
        ""
    };
    let quiet = match settings.quiet_intervals {
        0 => "also those that are written often".to_owned(),
        intervals => format!(
            "but those written in the last {}",
            count(intervals.into(), "interval", "intervals")
        ),
    };
    let limit = match settings.finder_limit_bytes_per_s {
        0 => String::new(),
        limit => format!(", at most {} a second", bytes(limit)),
    };
    format!(
        "equal blocks are shared every {}{compared}, {quiet}{limit}",
        interval_text(settings.interval_s)
    )
}

fn interval_text(seconds: u32) -> String {
    for (unit, name) in [(86_400, "d"), (3600, "h"), (60, "min")] {
        if seconds.is_multiple_of(unit) {
            return format!("{} {name}", seconds / unit);
        }
    }
    format!("{seconds} s")
}

fn list(pool: &Path, output: Output) -> Result<Code> {
    let Answer::Stats(figures) = ask(pool, &Request::Stats, output)? else {
        bail!("the server of the pool answered something else");
    };
    let volumes: Vec<_> = figures
        .volumes
        .iter()
        .filter(|one| !one.name.is_empty())
        .collect();
    let width = volumes
        .iter()
        .map(|one| one.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(6);
    if !volumes.is_empty() {
        output.line(format!(
            "{:width$}  {:>10}  {:>10}  {:>10}  {:>10}",
            "volume", "size", "data", "examined", "backlog"
        ))?;
    }
    for volume in volumes {
        output.result(format!(
            "{:width$}  {:>10}  {:>10}  {:>10}  {:>10}",
            volume.name,
            bytes(volume.logical_bytes),
            bytes(volume.mapped_bytes),
            bytes(volume.registered_bytes),
            bytes(volume.backlog_bytes)
        ))?;
        output.object(&Line {
            message_type: "volume",
            figures: volume,
        })?;
    }
    output.line(format!(
        "shared: {} of {} of data need no space, because equal blocks are stored once",
        bytes(figures.shared_bytes),
        bytes(figures.mapped_bytes)
    ))?;
    for failed in &figures.failed {
        output.warn(format!("warning: {failed}"))?;
    }
    Ok(Code::Success)
}

#[derive(Serialize)]
struct Removed<'a> {
    message_type: &'static str,
    name: &'a str,
    mapped_bytes: u64,
}

fn remove(pool: &Path, name: &str, force: bool, output: Output) -> Result<Code> {
    let request = Request::Remove {
        name: name.to_owned(),
        force,
    };
    let Answer::Removed { mapped_bytes } = ask(pool, &request, output)? else {
        bail!("the server of the pool answered something else");
    };
    output.line(format!(
        "removed the volume {name}, which held {} of data",
        bytes(mapped_bytes)
    ))?;
    output.object(&Removed {
        message_type: "volume_removed",
        name,
        mapped_bytes,
    })?;
    Ok(Code::Success)
}

#[derive(Serialize)]
struct Drained {
    message_type: &'static str,
    examined_bytes: u64,
    shared_bytes: i64,
    freed_bytes: i64,
}

fn drain(pool: &Path, name: Option<&String>, output: Output) -> Result<Code> {
    let request = Request::Drain { name: name.cloned() };
    let Answer::Drained {
        examined_bytes,
        shared_bytes,
        freed_bytes,
    } = ask(pool, &request, output)?
    else {
        bail!("the server of the pool answered something else");
    };
    let change = |bytes_by: i64, more: &str, less: &str| {
        let by = bytes(bytes_by.unsigned_abs());
        if bytes_by < 0 {
            format!("{by} {less}")
        } else {
            format!("{by} {more}")
        }
    };
    output.line(format!(
        "examined {}: {}, {}",
        bytes(examined_bytes),
        change(
            shared_bytes,
            "more are shared",
            "less are shared, because of writes meanwhile"
        ),
        change(
            freed_bytes,
            "more are free",
            "less are free, because of writes meanwhile"
        )
    ))?;
    output.object(&Drained {
        message_type: "drained",
        examined_bytes,
        shared_bytes,
        freed_bytes,
    })?;
    Ok(Code::Success)
}

#[derive(Serialize)]
struct Recounted {
    message_type: &'static str,
    contents: u64,
    references: u64,
    merged: u64,
    unreadable: u64,
    rotten: u64,
    freed: u64,
}

fn recount(path: &Path, output: Output) -> Result<Code> {
    let opened = open_alone(path, IndexFault::Replaced, "`volume recount`")?;
    tell_of_pool(&opened, output)?;
    let course = Course::new(opened.pool.stats()?.mapped_bytes);
    let recounted = beside(output, "counting", &|| course.status(), || {
        opened.pool.recount(&mut |share| course.keep(share))
    })?;
    opened.pool.close()?;
    output.line(format!(
        "the duplicates index has {} with {}",
        count(recounted.contents, "block", "blocks"),
        count(recounted.references, "reference", "references")
    ))?;
    output.line(format!(
        "{} had the content of another and are not needed, and {} had no use: their space is free",
        count(recounted.merged, "block", "blocks"),
        count(recounted.freed, "block", "blocks")
    ))?;
    if recounted.unreadable > 0 {
        output.line(format!(
            "{} cannot be read, and are not in the index; `onefold pool check --read-data` lists what refers \
             to them",
            count(recounted.unreadable, "shared block", "shared blocks")
        ))?;
    }
    if recounted.rotten > 0 {
        output.line(format!(
            "{} rotten: not what was registered; they are not in the index, and nothing is shared with them",
            count(recounted.rotten, "shared block is", "shared blocks are")
        ))?;
    }
    output.object(&Recounted {
        message_type: "recounted",
        contents: recounted.contents,
        references: recounted.references,
        merged: recounted.merged,
        unreadable: recounted.unreadable,
        rotten: recounted.rotten,
        freed: recounted.freed,
    })?;
    Ok(Code::Success)
}
