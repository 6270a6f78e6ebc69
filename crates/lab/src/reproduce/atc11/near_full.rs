//! The index in memory near full, compared with one that is nearly empty and with itself after
//! emptying: figure 6, sections 4.1.1 and 4.3.

use super::engine::CHUNK_BYTES;
use super::fill::{self, Filled};
use super::number;
use crate::reproduce::{Axis, Experiment, Plot, Row, Series};

/// The most memory of the index with 1.2 billion hooks.
pub(super) const BUDGET_BYTES: u64 = 10_000_000_000;
pub(super) const HOOKS: u64 = 1_200_000_000;
/// Cycles of the paper's processor in a nanosecond.
const CYCLES: f64 = 3.0;
/// The least rate of look-ups near full, relative to that at 1 %.
const NEAR_FULL: f64 = 0.8;

/// The experiment on an index that holds one in `divisor` of the paper's hooks.
pub(super) fn experiment(filled: &Filled, divisor: u64) -> Experiment {
    let first = filled.loads.first();
    let Some((first, last)) = first.zip(filled.loads.last()) else {
        unreachable!("an index is asked at several loads");
    };
    let stats = last.stats;
    let hooks = stats.entries[0];
    let part = |what: &str| {
        if divisor == 1 {
            what.to_owned()
        } else {
            format!("{what} (a {divisor}th of the paper's)")
        }
    };
    let terabytes = fill::terabytes(filled.chunks);
    let least = |of: fn(&fill::Load) -> f64| of(last);
    let (known, new) = (least(|load| load.known_ratio), least(|load| load.new_ratio));
    let emptied = |which: &str, ratio: f64| {
        Row::new(
            format!("rate of look-ups {which}, near full to itself emptied to 1 %"),
            "slightly slower",
            format!("{ratio:.2}"),
        )
        .value(ratio)
        .met(
            ratio >= NEAR_FULL,
            "the fuller table misses the processor's caches more often",
        )
    };
    // In a backup of duplicates, one look-up in T finds a hook: look-ups before each container's
    // first hook find nothing.
    let mixed = |known: f64, new: f64| known + (number(filled.scale.rate.period()) - 1.0) * new;
    let of_other = mixed(last.known_ns * known, last.new_ns * new);
    let as_asked = of_other / mixed(last.known_ns, last.new_ns);
    let cycles = |nanos: f64| format!("{nanos:.0} ns, {:.0} cycles at 3 GHz", nanos * CYCLES);
    let insert = filled.loads.iter().map(|load| load.insert_ns).fold(0.0, f64::max);
    let period = filled.scale.rate.period();
    let sustained = number(period) * f64::from(CHUNK_BYTES) / last.known_ns;
    let rows = vec![
        Row::new(
            part("memory for 1.2 billion hooks"),
            "25 GB; at most 10 are aimed at",
            format!(
                "{:.2} GB for {:.3} billion, {:.2} bytes each",
                number(stats.bytes) / 1e9,
                number(hooks) / 1e9,
                stats.bytes_per_entry
            ),
        )
        .value(number(stats.bytes))
        .met(
            stats.bytes <= BUDGET_BYTES / divisor && hooks >= HOOKS / divisor && filled.lost == 0,
            "the index had to drop hooks",
        ),
        Row::new(
            part("data that they are the index of, in chunks of 4 KiB"),
            "500 TB, 123 billion chunks, at R = 1/101",
            format!(
                "{terabytes:.0} TB, {:.1} billion chunks, at R = 1/{period}",
                number(filled.chunks) / 1e9
            ),
        )
        .value(terabytes)
        .met(terabytes * number(divisor) >= 500.0, "less"),
        Row::new(
            "added hooks that look-ups do not find, of all requested",
            "",
            format!(
                "{}; {} new chunks were taken for known ones",
                filled.lost, filled.made_up
            ),
        )
        .value(number(filled.lost))
        .met(filled.lost == 0, "hooks are lost"),
        Row::new(
            "rate of look-ups as backups make them, near full to another index at 1 %",
            "slightly slower",
            format!("{as_asked:.2}, one in {} finding", filled.scale.rate.period()),
        )
        .value(as_asked)
        .met(
            as_asked >= NEAR_FULL,
            "the fuller table misses the processor's caches more often",
        ),
        Row::new(
            "rate of look-ups that find, near full to another index at 1 %",
            "slightly slower",
            format!("{known:.2}"),
        )
        .value(known)
        .met(
            known >= NEAR_FULL,
            "the fuller table misses the processor's caches more often",
        ),
        Row::new(
            "rate of look-ups that find nothing, near full to another at 1 %",
            "slightly slower",
            format!("{new:.2}"),
        )
        .value(new)
        .met(
            new >= NEAR_FULL,
            "the fuller table misses the processor's caches more often",
        ),
        emptied("that find", filled.emptied_known_ratio),
        emptied("that find nothing", filled.emptied_new_ratio),
        Row::new(
            "look-up, near full",
            "12,020 cycles at most",
            cycles(last.known_ns),
        )
        .value(last.known_ns)
        .met(last.known_ns * CYCLES <= 12_020.0, "slower"),
        Row::new("insertion, at any load", "7,619 cycles at most", cycles(insert))
            .value(insert)
            .met(insert * CYCLES <= 7_619.0, "slower"),
        Row::new(
            "removal, one container in 16 together",
            "16,836 cycles at most",
            cycles(filled.remove_ns),
        )
        .value(filled.remove_ns)
        .met(filled.remove_ns * CYCLES <= 16_836.0, "slower"),
        Row::new(
            "rate of duplicates that the index can sustain, one thread",
            "98.5 GB/s at T = 101",
            format!("{sustained:.0} GB/s at T = {period}"),
        )
        .value(sustained)
        .met(sustained >= 98.5, "slower"),
    ];
    let points = |of: fn(&fill::Load) -> f64| {
        let each = filled.loads.iter().map(|load| (100.0 * load.share, of(load)));
        each.collect::<Vec<_>>()
    };
    let subtitle = format!(
        "{:.2} GB for {:.2} billion hooks, R = 1/{period}",
        number(filled.scale.budget_bytes as u64) / 1e9,
        number(hooks) / 1e9
    );
    let plot = |name: &str, title: &str, y: Axis, series| Plot {
        name: name.to_owned(),
        title: title.to_owned(),
        subtitle: subtitle.clone(),
        x: Axis::linear("hooks, % of all"),
        y,
        series,
    };
    Experiment {
        name: "figure-6-index".to_owned(),
        title: "figure 6, sections 4.1.1 and 4.3: the index near full".to_owned(),
        seeds: vec!["G4", "G5", "G11"],
        setup: format!(
            "The engine's index in memory (`index::MemoryIndex`), at most {:.2} GB. The fingerprint of each of {:.1} billion chunks \
             is drawn, and of each container of 4,096 the hooks that stay at R = 1/{period} are added. Look-ups are timed by turns \
             with those of another index of the same budget at 1 % of the hooks (load {:.2} of its slots; {:.2} near full), which has \
             taken so much less memory, and then with those of the same index after all but 1 % were removed, in the memory that \
             it has had: medians. Known hooks are drawn from all that an index holds.",
            number(filled.scale.budget_bytes as u64) / 1e9,
            number(filled.chunks) / 1e9,
            first.stats.load,
            stats.load
        ),
        rows,
        plots: vec![
            plot(
                "figure-6-index",
                "Look-ups as the index fills",
                Axis::linear("rate, of that at 1 %"),
                vec![
                    Series::new("found", points(|load| load.known_ratio)),
                    Series::new("not found", points(|load| load.new_ratio)),
                ],
            ),
            plot(
                "figure-6-index-times",
                "Time of a look-up and of an insertion",
                Axis::linear("nanoseconds"),
                vec![
                    Series::new("look-up, found", points(|load| load.known_ns)),
                    Series::new("look-up, not found", points(|load| load.new_ns)),
                    Series::new("insertion", points(|load| load.insert_ns)),
                ],
            ),
        ],
    }
}
