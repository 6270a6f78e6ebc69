//! The analysis as one self-contained HTML file.

use std::fmt::Write;

use ingest::Cap;

use super::names::{bytes_name, cap_name};
use super::{Analysis, Given};
use crate::error::SimulateError;
use crate::plot::{Axis, Plot, Series, escaped, svg};

const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .8em;border-bottom:1px solid #ccc;text-align:right}\
td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}code{background:#f2f2f2;padding:.1em .3em}";

/// The whole file.
///
/// # Errors
/// `Settings` where a plot cannot be drawn.
pub fn html(analysis: &Analysis) -> Result<String, SimulateError> {
    let mut out = String::new();
    write(analysis, &mut out)
        .map_err(|_| SimulateError::Settings("the text of the analysis is too long".to_owned()))?;
    for plot in plots(analysis) {
        out += &svg(&plot);
    }
    out += "</body>\n</html>\n";
    Ok(out)
}

fn write(analysis: &Analysis, out: &mut String) -> std::fmt::Result {
    let chosen = &analysis.recommended;
    writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>What settings would give</title>\n<style>{STYLE}</style></head>\n<body>"
    )?;
    writeln!(
        out,
        "<h1>What settings would give</h1>\n<p>{} ({}) were read: {} in all, runs of zeros not counted.</p>\n<ol>",
        counted(analysis.backups.len(), "backup", "backups"),
        if analysis.tried.fixed { "images" } else { "files" },
        bytes(analysis.bytes)
    )?;
    for backup in &analysis.backups {
        writeln!(
            out,
            "<li><code>{}</code></li>",
            escaped(&backup.display().to_string())
        )?;
    }
    writeln!(out, "</ol>\n<h2>Recommended</h2>\n<ul>")?;
    writeln!(
        out,
        "<li>Chunks of <b>{}</b> (<code>{} {}</code>): {}.</li>",
        bytes(u64::from(chosen.chunk_bytes)),
        chosen.chunk_option,
        chosen.chunk_bytes >> 10,
        escaped(&chosen.chunk_why)
    )?;
    let cap = cap_name(chosen.cap);
    writeln!(
        out,
        "<li>Cap <b>{cap}</b> (<code>backup --cap {cap}</code>): {}.</li>",
        escaped(&chosen.cap_why)
    )?;
    let memory = chosen.memory.map_or_else(
        || "<b>as it is</b>".to_owned(),
        |memory| {
            let named = bytes_name(memory);
            format!("<b>{}</b> (<code>restore --memory {named}</code>)", bytes(memory))
        },
    );
    writeln!(
        out,
        "<li>Memory for restores {memory}: {}.</li>\n</ul>",
        escaped(&chosen.memory_why)
    )?;
    writeln!(
        out,
        "<p>Containers of {}. Nothing is compressed here: what a store takes is less by what zstd makes of it. \
         Speed is MiB restored for each container read, of the last backups; on a disk that reads 16 MiB in the time of a seek or more, \
         twice as much is nearly twice as fast.</p>",
        bytes(analysis.tried.container_bytes)
    )?;
    writeln!(out, "<h2>Chunk size, without a cap</h2>")?;
    table(out, chosen.chunk_option, &analysis.by_size, |given| {
        (given.chunk_bytes >> 10).to_string()
    })?;
    writeln!(out, "<h2>Cap, with chunks of 8 KiB</h2>")?;
    table(out, "backup --cap", &analysis.by_cap, |given| cap_name(given.cap))
}

/// The figures of the recommended cap.
fn chosen_cap(analysis: &Analysis) -> Option<&Given> {
    let chosen = analysis.recommended.cap;
    let mut given = analysis.by_cap.iter();
    given.find(|given| given.cap == chosen && !given.speeds.is_empty())
}

/// A row is named by the value of the option.
fn table(
    out: &mut String,
    option: &str,
    rows: &[Given],
    name: impl Fn(&Given) -> String,
) -> std::fmt::Result {
    write!(
        out,
        "<table><tr><th><code>{option}</code></th><th>stored</th><th>deduplication</th><th>chunks</th><th>index</th>"
    )?;
    let first = rows.first().map_or(&[][..], |given| &given.speeds);
    for (memory, _) in first {
        write!(out, "<th>speed with <code>{}</code></th>", bytes_name(*memory))?;
    }
    writeln!(out, "</tr>")?;
    for given in rows {
        write!(
            out,
            "<tr><td><code>{}</code></td><td>{}</td><td>{:.2}</td><td>{}</td><td>{}</td>",
            name(given),
            bytes(given.bytes_stored),
            given.factor,
            given.chunks_stored,
            bytes(given.index_bytes())
        )?;
        for (_, speed) in &given.speeds {
            write!(out, "<td>{speed:.2}</td>")?;
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</table>")
}

#[expect(clippy::cast_precision_loss, reason = "points of a plot")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn plots(analysis: &Analysis) -> Vec<Plot> {
    let setup = format!("containers of {}", bytes(analysis.tried.container_bytes));
    let by_size = |what: fn(&Given) -> f64| {
        let points = analysis.by_size.iter();
        points
            .map(|given| (f64::from(given.chunk_bytes >> 10), what(given)))
            .collect()
    };
    let plot = |name: &str, title: &str, x, y, series| Plot {
        name: name.to_owned(),
        title: title.to_owned(),
        subtitle: setup.clone(),
        x,
        y,
        series,
    };
    let chunk = || Axis::doubling("average chunk, KiB");
    let mut plots = vec![
        plot(
            "stored",
            "What is stored, by chunk size",
            chunk(),
            Axis::linear("stored, MiB"),
            vec![Series::new("chunks", by_size(|given| mib(given.bytes_stored)))],
        ),
        plot(
            "index",
            "Memory of the index, by chunk size",
            chunk(),
            Axis::linear("memory, MiB"),
            vec![Series::new("index", by_size(|given| mib(given.index_bytes())))],
        ),
    ];
    if let Some(given) = chosen_cap(analysis) {
        let speeds = given.speeds.iter();
        let speeds = speeds.map(|(bytes, speed)| (mib(*bytes), *speed));
        plots.push(plot(
            "memory",
            &format!(
                "How fast restores are, by memory, with the cap {}",
                cap_name(given.cap)
            ),
            Axis::doubling("memory, MiB"),
            Axis::linear("MiB a container read"),
            vec![Series::new("restores", speeds.collect())],
        ));
        plots.push(plot(
            "caps",
            &format!(
                "What caps cost and bring, with memory of {}: none to the right",
                bytes_name(analysis.tried.memory)
            ),
            Axis::linear("deduplication factor"),
            Axis::linear("MiB a container read"),
            caps(analysis),
        ));
    }
    plots
}

/// One curve for each kind of cap. Each curve begins at the point without a cap. The name of a
/// curve lists its caps in the order of the points.
fn caps(analysis: &Analysis) -> Vec<Series> {
    let is_least = |given: &&Given| matches!(given.cap, Cap::Least(_));
    let (least, other): (Vec<&Given>, Vec<&Given>) = analysis
        .by_cap
        .iter()
        .filter(|given| given.cap != Cap::None)
        .partition(is_least);
    let none = analysis.by_cap.iter().filter(|given| given.cap == Cap::None);
    let mut all = Vec::new();
    for kind in [least, other].into_iter().filter(|kind| !kind.is_empty()) {
        let mut along: Vec<&Given> = none.clone().chain(kind).collect();
        along.sort_by(|a, b| b.factor.total_cmp(&a.factor));
        let names: Vec<String> = along.iter().map(|given| cap_name(given.cap)).collect();
        let points = along
            .iter()
            .filter_map(|given| Some((given.factor, given.speed(analysis.tried.memory)?)));
        all.push(Series::new(names.join(" "), points.collect()));
    }
    all
}

fn counted(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

/// Formats bytes with a binary unit and three figures.
#[expect(clippy::cast_precision_loss, reason = "shown with three figures")]
fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 10.0 && value.fract() > 0.005) * 2;
    format!("{value:.digits$} {}", units[unit])
}
