//! The figures of a pool in the text format of Prometheus.

use std::fmt::Write;

use crate::volumes::{PoolFigures, VolumeFigures};

/// A metric: name, type, help.
type Metric = (&'static str, &'static str, &'static str);
/// A metric of a volume, and its value.
type OfVolume = (Metric, fn(&VolumeFigures) -> f64);

const OF_VOLUMES: &[OfVolume] = &[
    (("logical_bytes", "gauge", "The size of the volume."), |v| {
        v.logical_bytes as f64
    }),
    (("mapped_bytes", "gauge", "What of the volume holds data."), |v| {
        v.mapped_bytes as f64
    }),
    (
        (
            "registered_bytes",
            "gauge",
            "What of the volume is in the duplicates index.",
        ),
        |v| v.registered_bytes as f64,
    ),
    (
        ("backlog_bytes", "gauge", "What the finder has to examine."),
        |v| v.backlog_bytes as f64,
    ),
    (
        (
            "unreadable_bytes",
            "gauge",
            "Blocks that the device could not read.",
        ),
        |v| v.unreadable_bytes as f64,
    ),
    (("memory_bytes", "gauge", "Memory of the volume's map."), |v| {
        v.memory_bytes as f64
    }),
    (("connections", "gauge", "Connections of clients."), |v| {
        v.connections as f64
    }),
    (("read_bytes_total", "counter", "Bytes read."), |v| {
        v.read_bytes as f64
    }),
    (("written_bytes_total", "counter", "Bytes written."), |v| {
        v.written_bytes as f64
    }),
    (
        (
            "blocks_in_place_total",
            "counter",
            "Blocks that were overwritten in place.",
        ),
        |v| v.blocks_in_place as f64,
    ),
    (
        (
            "blocks_first_total",
            "counter",
            "Blocks that were zeros and were written.",
        ),
        |v| v.blocks_first as f64,
    ),
    (("blocks_copied_total", "counter", "Copies-on-write."), |v| {
        v.blocks_copied as f64
    }),
    (
        (
            "examined_bytes_total",
            "counter",
            "Bytes that the finder examined.",
        ),
        |v| v.examined_bytes as f64,
    ),
    (
        ("found_bytes_total", "counter", "Bytes that the finder shared."),
        |v| v.found_bytes as f64,
    ),
    (
        ("freed_bytes_total", "counter", "Bytes that the collector freed."),
        |v| v.freed_bytes as f64,
    ),
];

/// The metrics of the pool: name, help, value.
fn gauges(pool: &PoolFigures) -> [(&'static str, &'static str, f64); 12] {
    [
        ("pool_bytes", "The size of the pool.", pool.pool_bytes as f64),
        ("free_bytes", "Space for new blocks.", pool.free_bytes as f64),
        (
            "logical_bytes",
            "The sizes of all volumes.",
            pool.logical_bytes as f64,
        ),
        (
            "mapped_bytes",
            "What of the volumes holds data.",
            pool.mapped_bytes as f64,
        ),
        (
            "unique_bytes",
            "The distinct blocks that hold it.",
            pool.unique_bytes as f64,
        ),
        ("shared_bytes", "What sharing saves.", pool.shared_bytes as f64),
        (
            "space_at_risk_bytes",
            "What would be needed if all shared blocks were overwritten.",
            pool.space_at_risk_bytes as f64,
        ),
        (
            "backlog_bytes",
            "What the finder has to examine.",
            pool.backlog_bytes as f64,
        ),
        (
            "unreferenced_bytes",
            "Blocks that the collector has to look at.",
            pool.unreferenced_bytes as f64,
        ),
        (
            "unreadable_bytes",
            "Blocks that the device could not read.",
            pool.unreadable_bytes as f64,
        ),
        (
            "index_bytes",
            "The duplicates index on disk.",
            pool.index_bytes as f64,
        ),
        (
            "index_matches",
            "1 if the duplicates index matches the volumes.",
            f64::from(u8::from(pool.index_matches)),
        ),
    ]
}

/// The text.
pub(super) fn exposition(pool: &PoolFigures) -> String {
    let mut out = String::new();
    for (name, help, value) in gauges(pool) {
        head(
            &mut out,
            &format!("pool_{}", name.trim_start_matches("pool_")),
            "gauge",
            help,
        );
        line(
            &mut out,
            &format!("pool_{}", name.trim_start_matches("pool_")),
            "",
            value,
        );
    }
    let volumes = || pool.volumes.iter().filter(|volume| !volume.name.is_empty());
    for ((name, kind, help), value) in OF_VOLUMES {
        let name = format!("volume_{name}");
        head(&mut out, &name, kind, help);
        for volume in volumes() {
            line(&mut out, &name, &label(volume, ""), value(volume));
        }
    }
    const NAME: &str = "volume_request_seconds";
    head(&mut out, NAME, "summary", "How long requests of clients took.");
    for volume in volumes() {
        for (operation, times) in [
            ("read", volume.reads),
            ("write", volume.writes),
            ("flush", volume.flushes),
        ] {
            let label = |more: &str| label(volume, &format!(",operation=\"{operation}\"{more}"));
            for (quantile, us) in [
                ("0.5", times.p50_us),
                ("0.99", times.p99_us),
                ("0.999", times.p999_us),
            ] {
                line(
                    &mut out,
                    NAME,
                    &label(&format!(",quantile=\"{quantile}\"")),
                    us / 1e6,
                );
            }
            let sum = times.mean_us * times.count as f64 / 1e6;
            line(&mut out, &format!("{NAME}_sum"), &label(""), sum);
            line(&mut out, &format!("{NAME}_count"), &label(""), times.count as f64);
        }
    }
    out
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // A string takes all that is written to it.
    writeln!(out, "# HELP onefold_{name} {help}\n# TYPE onefold_{name} {kind}").ok();
}

fn line(out: &mut String, name: &str, label: &str, value: f64) {
    writeln!(out, "onefold_{name}{label} {value}").ok();
}

fn label(volume: &VolumeFigures, more: &str) -> String {
    let name = volume.name.replace('\\', "\\\\").replace('"', "\\\"");
    format!("{{volume=\"{name}\"{more}}}")
}
