//! `onefold pool`

mod prometheus;
mod stats;

use std::path::Path;

use anyhow::{Result, bail};
use cli_support::output::{bytes, count};
use cli_support::progress::beside;
use cli_support::{Code, Output};
use serde::Serialize;

use super::on_pool::{Course, ask, tell_of_pool};
use crate::args::{Pool, PoolInit};
use crate::volumes::{Answer, IndexFault, Request, make, open_alone};

pub(crate) fn run(args: &Pool, output: Output) -> Result<Code> {
    match args {
        Pool::Init(args) => init(args, output),
        Pool::Stats(args) => stats::run(args, output),
        Pool::Check { pool, read_data } => check(pool, *read_data, output),
        Pool::Grow { pool, size } => grow(pool, *size, output),
    }
}

#[derive(Serialize)]
struct Made {
    message_type: &'static str,
    pool: String,
    pool_bytes: u64,
    index: String,
}

fn init(args: &PoolInit, output: Output) -> Result<Code> {
    let index = make(&args.pool, args.size, args.index.as_deref(), args.force)?;
    let (pool, index) = (args.pool.display().to_string(), index.display().to_string());
    output.line(format!("made a pool of {} in {pool}", bytes(args.size)))?;
    output.line(format!(
        "its duplicates index is the folder {index}; keep both together, on disks that do not forget"
    ))?;
    output.object(&Made {
        message_type: "pool_made",
        pool,
        pool_bytes: args.size,
        index,
    })?;
    Ok(Code::Success)
}

#[derive(Serialize)]
struct Grown {
    message_type: &'static str,
    before_bytes: u64,
    pool_bytes: u64,
}

fn grow(pool: &Path, size: u64, output: Output) -> Result<Code> {
    let Answer::Grown {
        before_bytes,
        pool_bytes,
    } = ask(pool, &Request::Grow { bytes: size }, output)?
    else {
        bail!("the server of the pool answered something else");
    };
    output.line(format!(
        "the pool has grown from {} to {}",
        bytes(before_bytes),
        bytes(pool_bytes)
    ))?;
    output.object(&Grown {
        message_type: "pool_grown",
        before_bytes,
        pool_bytes,
    })?;
    Ok(Code::Success)
}

#[derive(Serialize)]
struct FindingLine {
    message_type: &'static str,
    what: String,
}

#[derive(Serialize)]
struct Checked {
    message_type: &'static str,
    blocks: u64,
    registered: u64,
    read: u64,
    findings: usize,
}

fn check(path: &Path, read_data: bool, output: Output) -> Result<Code> {
    let opened = open_alone(path, IndexFault::Fails, "`pool check`")?;
    tell_of_pool(&opened, output)?;
    let course = Course::new(opened.pool.stats()?.pool_bytes);
    let checked = beside(output, "checking", &|| course.status(), || {
        opened.pool.check(read_data, &mut |share| course.keep(share))
    })?;
    for finding in &checked.findings {
        let what = finding.to_string();
        output.object(&FindingLine {
            message_type: "damage",
            what: what.clone(),
        })?;
        output.result(format!("damage: {what}"))?;
    }
    let found = checked.findings.len();
    output.line(format!(
        "checked {}, {} of them in the duplicates index",
        count(checked.blocks, "block", "blocks"),
        count(checked.registered, "is", "are"),
    ))?;
    if read_data {
        output.line(format!(
            "read {} and compared it",
            count(checked.read, "block", "blocks")
        ))?;
    }
    output.object(&Checked {
        message_type: "pool_checked",
        blocks: checked.blocks,
        registered: checked.registered,
        read: checked.read,
        findings: found,
    })?;
    if found == 0 {
        output.line("no damage found")?;
        return Ok(Code::Success);
    }
    if found >= volume::FINDINGS_MAX {
        output.line(format!("only the first {found} are listed"))?;
    }
    output.line(
        "counts that are wrong and lost space: `onefold volume recount` mends them; for rotten blocks and those that \
         cannot be read, restore what is in them from a backup",
    )?;
    Ok(Code::Failure)
}
