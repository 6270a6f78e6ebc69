//! `onefold pool stats`

use anyhow::{Result, bail};
use cli_support::output::{bytes, count};
use cli_support::{Code, Output};
use serde::Serialize;

use super::prometheus;
use crate::args::PoolStats;
use crate::commands::on_pool::ask;
use crate::volumes::{Answer, PoolFigures, Request, Times, VolumeFigures};

#[derive(Serialize)]
struct Line<'a> {
    message_type: &'static str,
    #[serde(flatten)]
    figures: &'a PoolFigures,
}

pub(super) fn run(args: &PoolStats, output: Output) -> Result<Code> {
    let Answer::Stats(pool) = ask(&args.pool, &Request::Stats, output)? else {
        bail!("the server of the pool answered something else");
    };
    if args.prometheus {
        output.result(prometheus::exposition(&pool).trim_end())?;
        return Ok(Code::Success);
    }
    output.object(&Line {
        message_type: "pool",
        figures: &pool,
    })?;
    if !output.json {
        for line in text(&pool) {
            output.result(line)?;
        }
        for volume in pool.volumes.iter().filter(|volume| is_used(volume)) {
            for line in text_of(volume) {
                output.result(line)?;
            }
        }
    }
    Ok(Code::Success)
}

/// Whether a client has read or written since the pool was opened.
fn is_used(volume: &VolumeFigures) -> bool {
    volume.reads.count + volume.writes.count > 0
}

fn text(pool: &PoolFigures) -> Vec<String> {
    let named = pool
        .volumes
        .iter()
        .filter(|volume| !volume.name.is_empty())
        .count();
    let mut lines = vec![format!(
        "{} of {}",
        count(named as u64, "volume", "volumes"),
        bytes(pool.logical_bytes)
    )];
    let mut line = |size: u64, text: &str| lines.push(format!("  {:>10}  {text}", bytes(size)));
    line(
        pool.mapped_bytes,
        "hold data; the rest reads as zeros, and takes no space",
    );
    line(
        pool.shared_bytes,
        "of these are shared: equal blocks are stored once",
    );
    line(pool.unique_bytes, "are left, and stored in the pool");
    lines.push(format!("pool of {}", bytes(pool.pool_bytes)));
    let mut line = |size: u64, text: &str| lines.push(format!("  {:>10}  {text}", bytes(size)));
    line(pool.unique_bytes, "data of volumes");
    line(pool.other_bytes, "maps, logs, and blocks that will be free");
    line(pool.free_bytes, "free");
    if pool.backlog_bytes > 0 {
        lines.push(format!(
            "{} are not examined for equal blocks yet: `onefold volume drain` does it now",
            bytes(pool.backlog_bytes)
        ));
    }
    if pool.space_at_risk_bytes > pool.free_bytes {
        lines.push(format!(
            "if all shared blocks were overwritten, {} more would be needed than are free",
            bytes(pool.space_at_risk_bytes - pool.free_bytes)
        ));
    }
    if pool.unreadable_bytes > 0 {
        let volumes = pool.volumes.iter().filter(|volume| volume.unreadable_bytes > 0);
        let names: Vec<&str> = volumes.map(|volume| volume.name.as_str()).collect();
        lines.push(format!(
            "the device could not read {} of these volumes: {}; `onefold pool check --read-data` lists the blocks",
            bytes(pool.unreadable_bytes),
            names.join(", ")
        ));
    }
    lines.push(format!(
        "the duplicates index takes {} beside the pool",
        bytes(pool.index_bytes)
    ));
    if !pool.index_matches {
        lines.push(
            "the duplicates index does not match the volumes: nothing is shared or freed until `onefold volume recount`"
                .to_owned(),
        );
    }
    match pool.fill.as_str() {
        "critical" => lines
            .push("the pool is full: let it grow, or remove data; writes to new blocks will fail".to_owned()),
        "high" => lines.push("the pool is nearly full: blocks are shared without a pause".to_owned()),
        _ => {}
    }
    lines.extend(pool.failed.iter().cloned());
    lines
}

fn text_of(volume: &VolumeFigures) -> Vec<String> {
    let since = format!("{}, since its pool was opened:", volume.name);
    let times = |what: &str, times: &Times, moved: Option<u64>| {
        let moved = moved
            .map(|moved| format!(" of {}", bytes(moved)))
            .unwrap_or_default();
        format!(
            "  {what}{moved}: half took at most {}, 99 of 100 at most {}, 999 of 1000 at most {}",
            time(times.p50_us),
            time(times.p99_us),
            time(times.p999_us)
        )
    };
    let mut lines = vec![since];
    let all = [
        (volume.reads, "read", "reads", Some(volume.read_bytes)),
        (volume.writes, "write", "writes", Some(volume.written_bytes)),
        (volume.flushes, "flush", "flushes", None),
    ];
    for (found, one, many, moved) in all {
        if found.count > 0 {
            lines.push(times(&count(found.count, one, many), &found, moved));
        }
    }
    if let Some(share) = volume.in_place_share {
        lines.push(format!(
            "  {:.1} % of the written blocks that had data were written in place; the others needed a new block",
            share * 100.0
        ));
    }
    lines
}

fn time(us: f64) -> String {
    if us < 1000.0 {
        format!("{us:.0} us")
    } else if us < 1e6 {
        format!("{:.1} ms", us / 1e3)
    } else {
        format!("{:.1} s", us / 1e6)
    }
}
