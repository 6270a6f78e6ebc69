//! The results of the stores of a series, compared with their targets.

use onefold::Repaired;

use super::series::{Backup, Line, Measured, Reads, Step, UNUSED_MAX, Way};
use crate::reproduce::figures::{mib, number, percent, share};
use crate::reproduce::statistics::mean;
use crate::reproduce::{Axis, Experiment, Plot, Row, Series};

/// The least speed factor, relative to that of a backup that is alone.
const PERFECT_MIN: f64 = 0.9;
/// The least deduplication ratio, relative to that of a store that has every chunk once.
const EXACT_MIN: f64 = 0.99;
/// The most bytes rewritten, relative to newly stored bytes.
const REWRITTEN_MAX: f64 = 1.0;

/// The experiment's rows. `what` names the backed-up data, and `data` describes it.
pub(super) fn experiment(name: &str, what: &str, data: &str, measured: &Measured) -> Experiment {
    let setting = measured.setting;
    let container = mib(setting.container_bytes.into());
    let mut rows = speeds(measured, true);
    if measured.backups.iter().any(|backup| !backup.is_full) {
        rows.extend(speeds(measured, false));
    }
    rows.extend(measured.lines.iter().flat_map(|line| ratios(measured, line)));
    rows.extend(rewritten(measured));
    Experiment {
        name: name.to_owned(),
        title: format!("layout repair, {what}"),
        seeds: vec!["L9", "R2"],
        setup: format!(
            "{data} The engine, stores in memory, chunks of 8 KiB, containers of {container} MiB, compressed as by default. Three stores: without a cap; without a cap, and after each backup the layout of \
             the newest is repaired, within {} % of the bytes stored anew; with the default cap and no repair. After each backup a prune may leave {} unused. *Perfect* is the backup alone in a store \
             of the same settings. Speed factors, MiB for each container read, are of restores as by default with 128 MiB of memory, of the last {} backups, each as it was the newest. The exact ratio is of \
             a store that never had but the {} backups that are kept in the end.",
            setting.percent,
            percent(UNUSED_MAX),
            setting.restored.min(measured.backups.len()),
            setting.kept.min(measured.backups.len()),
        ),
        rows,
        plots: plots(name, what, container, measured),
    }
}

fn called(way: Way) -> &'static str {
    match way {
        Way::Nothing => "no repair",
        Way::Repair => "repaired",
        Way::Cap => "the default cap",
    }
}

/// Each full or each incremental backup, with what it cost.
fn of_kind<'a>(
    measured: &'a Measured,
    line: &'a Line,
    is_full: bool,
) -> impl Iterator<Item = (usize, &'a Backup, &'a Step)> {
    let each = measured.backups.iter().zip(&line.steps).enumerate();
    let of_kind = each.filter(move |(_, (backup, _))| backup.is_full == is_full);
    of_kind.map(|(number, (backup, step))| (number, backup, step))
}

/// The speed factor relative to the perfect one. Bytes are equal, so this is a ratio of containers.
fn to_perfect(backup: &Backup, step: &Step, read: impl Fn(&Reads) -> Option<u64>) -> Option<f64> {
    Some(share(read(&backup.perfect)?, read(&step.reads)?.max(1)))
}

fn speeds(measured: &Measured, is_full: bool) -> Vec<Row> {
    let has_both = measured.backups.iter().any(|backup| !backup.is_full);
    let kind = match (has_both, is_full) {
        (false, _) => "newest backup",
        (true, true) => "newest backup, full",
        (true, false) => "newest backup, incremental",
    };
    let row = |line: &Line| {
        let restored: Vec<_> = of_kind(measured, line, is_full)
            .filter_map(|(_, backup, step)| Some((backup, step, step.reads.restored?)))
            .collect();
        let shares: Vec<f64> = restored
            .iter()
            .filter_map(|(backup, step, _)| to_perfect(backup, step, |reads| reads.restored))
            .collect();
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        let all = mean(shares.iter().copied())?;
        let laid_out = restored
            .iter()
            .filter_map(|(backup, step, _)| to_perfect(backup, step, |reads| Some(reads.laid_out)));
        let laid_out = mean(laid_out)?;
        let (backup, _, read) = restored.last()?;
        let is_judged = line.way == Way::Repair && is_full;
        let row = Row::new(
            format!("{kind}, {}: speed factor to perfect", called(line.way)),
            if is_judged { "at least 0.9; goal 0.97" } else { "" },
            format!(
                "{all:.3}, the mean of {}; {least:.3} at least; the last {:.3} MiB a container, {read} containers where it would be {} alone; {laid_out:.3} as `onefold stats` counts",
                shares.len(),
                mib(backup.bytes) / number((*read).max(1)),
                backup.perfect.restored.unwrap_or_default(),
            ),
        )
        .value(all);
        Some(if is_judged {
            row.met(
                all >= PERFECT_MIN,
                "the repair may rewrite fewer bytes than this backup has in containers of other backups",
            )
        } else {
            row
        })
    };
    measured.lines.iter().filter_map(row).collect()
}

fn ratios(measured: &Measured, line: &Line) -> Vec<Row> {
    let logical = measured.kept_bytes();
    let name = called(line.way);
    let judged = |row: Row, value: f64| {
        let row = row.value(value);
        if line.way == Way::Repair {
            row.met(
                value >= EXACT_MIN,
                "something is stored twice, or packs less well",
            )
        } else {
            row
        }
    };
    let asked = if line.way == Way::Repair {
        "at least 0.99"
    } else {
        ""
    };
    let chunks = share(measured.exact.chunks, line.pruned.chunks);
    let all = share(measured.exact.all, line.pruned.all);
    let as_it_lies = share(measured.exact.all, line.stored.all);
    vec![
        judged(
            Row::new(
                format!("{name}: exact ratio kept, containers of chunks, nothing unused"),
                asked,
                format!(
                    "{chunks:.4}: 1 : {:.3}, exact 1 : {:.3} ({:.3} of plain bytes alone)",
                    share(logical, line.pruned.chunks),
                    share(logical, measured.exact.chunks),
                    share(logical, measured.exact_plain)
                ),
            ),
            chunks,
        ),
        judged(
            Row::new(
                format!(
                    "{name}: exact ratio kept, all that is stored, recipes and index too, nothing unused"
                ),
                asked,
                format!(
                    "{all:.4}: 1 : {:.3}, exact 1 : {:.3}; {as_it_lies:.4} with what the last prune left unused",
                    share(logical, line.pruned.all),
                    share(logical, measured.exact.all)
                ),
            ),
            all,
        ),
    ]
}

/// The sum over all backups but the first, which is all new, in megabytes.
fn sum(line: &Line, of: impl Fn(&Step) -> u64) -> u64 {
    line.steps.iter().skip(1).map(of).sum()
}

fn copied(step: &Step) -> u64 {
    step.repaired.map_or(0, |repaired| repaired.bytes_copied)
}

fn rewritten(measured: &Measured) -> Vec<Row> {
    let megabytes = |bytes: u64| number(bytes) / 1e6;
    let mut rows = Vec::new();
    if let Some(line) = measured.line(Way::Repair) {
        let (new, copied) = (sum(line, |step| step.bytes_new), sum(line, copied));
        let repairs = || line.steps.iter().filter_map(|step| step.repaired);
        let done = || repairs().filter(|one| one.is_done);
        let others = mean(done().map(|one| number(one.backups)));
        let all = |of: fn(&Repaired) -> u64| done().map(|one| of(&one)).sum::<u64>();
        rows.push(
            Row::new(
                "bytes that repairs rewrote, to those stored anew after the first backup",
                "at most 1",
                format!(
                    "{:.3}: {:.1} to {:.1} MB; {} of {} backups repaired, and references of {:.1} others each time",
                    share(copied, new),
                    megabytes(copied),
                    megabytes(new),
                    done().count(),
                    line.steps.len(),
                    others.unwrap_or(0.0)
                ),
            )
            .value(share(copied, new))
            .met(share(copied, new) <= REWRITTEN_MAX, "repairs go over their budget"),
        );
        let after = all(|one| one.containers_after);
        rows.push(
            Row::new(
                "containers that backups refer to before their repair, after it, and would fill alone, as the engine counts",
                "",
                format!(
                    "{}, {after}, {} in all",
                    all(|one| one.containers_before),
                    all(|one| one.containers_least)
                ),
            )
            .value(share(all(|one| one.containers_least), after)),
        );
    }
    for line in &measured.lines {
        let (new, swept) = (sum(line, |step| step.bytes_new), sum(line, |step| step.swept));
        rows.push(
            Row::new(
                format!(
                    "{}: bytes that prunes copied, to those stored anew after the first backup",
                    called(line.way)
                ),
                "",
                format!(
                    "{:.3}: {:.1} to {:.1} MB",
                    share(swept, new),
                    megabytes(swept),
                    megabytes(new)
                ),
            )
            .value(share(swept, new)),
        );
    }
    rows
}

fn plots(name: &str, what: &str, container: f64, measured: &Measured) -> Vec<Plot> {
    let speed = |bytes: u64, reads: &Reads| mib(bytes) / number(reads.laid_out.max(1));
    let full = || {
        measured
            .backups
            .iter()
            .zip(1..)
            .filter(|(backup, _)| backup.is_full)
    };
    let mut speeds = vec![Series::new(
        "alone in a store",
        full()
            .map(|(backup, n)| (number(n), speed(backup.bytes, &backup.perfect)))
            .collect(),
    )];
    let mut bytes = Vec::new();
    for line in &measured.lines {
        let points = of_kind(measured, line, true)
            .map(|(n, backup, step)| (number(n as u64 + 1), speed(backup.bytes, &step.reads)));
        speeds.push(Series::new(called(line.way), points.collect()));
        let running = |of: fn(&Step) -> u64| -> Vec<(f64, f64)> {
            let mut all = 0;
            let each = line.steps.iter().zip(1..).skip(1);
            each.map(|(step, n)| {
                all += of(step);
                (number(n), number(all) / 1e6)
            })
            .collect()
        };
        let name = called(line.way);
        bytes.push(Series::new(
            format!("stored anew, {name}"),
            running(|step| step.bytes_new),
        ));
        bytes.push(Series::new(
            format!("copied by prunes, {name}"),
            running(|step| step.swept),
        ));
        if line.way == Way::Repair {
            bytes.push(Series::new("copied by repairs", running(copied)));
        }
    }
    let subtitle = format!("containers of {container} MiB");
    vec![
        Plot {
            name: format!("{name}-speed"),
            title: format!("Speed factor of the newest backup, {what}"),
            subtitle: format!("{subtitle}, full backups, area of 128 MiB"),
            x: Axis::linear("backup"),
            y: Axis::linear("MiB for each container read"),
            series: speeds,
        },
        Plot {
            name: format!("{name}-bytes"),
            title: format!("Bytes written, {what}"),
            subtitle,
            x: Axis::linear("backup"),
            y: Axis::linear("MB since the first backup"),
            series: bytes,
        },
    ]
}
