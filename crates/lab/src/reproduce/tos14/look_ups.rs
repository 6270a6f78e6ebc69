//! Look-ups for the second backup: table III.

use super::data::data_bytes;
use super::layout::StoreLayout;
use super::{Size, megabytes, megabytes_a_second, mib, number, setup, sg1, share};
use crate::error::LabError;
use crate::reproduce::stores::content;
use crate::reproduce::{Axis, Experiment, Plot, Row, Run, Series};

/// With segments of the default length there are at least so many times fewer look-ups.
const LESS_MIN: f64 = 100.0;

/// The second backup in one layout.
struct Second {
    layout: StoreLayout,
    look_ups: u64,
    index_reads: u64,
    bytes_new: u64,
    rate: f64,
}

fn layouts(size: &Size) -> [StoreLayout; 4] {
    let hybrid = size.segments.map(|segment_bytes| StoreLayout::Hybrid {
        segment_bytes,
        live: 1,
        repair: 0,
    });
    [StoreLayout::Conventional, hybrid[0], hybrid[1], hybrid[2]]
}

/// Bytes of all backups.
pub(super) fn bytes(size: &Size) -> u64 {
    layouts(size).len() as u64 * data_bytes(&sg1((size.look_ups_bytes, 2)))
}

/// Makes two backups in each layout.
pub(super) fn run(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    run.progress.begin("table III");
    let engine = |layout: StoreLayout| layout.store(None, size.container_bytes);
    let engines = layouts(size)
        .map(engine)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let mut second = Vec::new();
    let mut bytes = 0;
    content::each(&sg1((size.look_ups_bytes, 2)), |content| {
        second.clear();
        bytes = content.data_bytes();
        for (engine, layout) in engines.iter().zip(layouts(size)) {
            let (took, report) = engine.back_up(content, false)?;
            second.push(Second {
                layout,
                look_ups: report.lookups.lookups,
                index_reads: report.lookups.index_reads,
                bytes_new: report.totals.bytes_new,
                rate: megabytes_a_second(bytes, took),
            });
            run.progress.advance(bytes)?;
        }
        Ok(())
    })?;
    run.report(experiment(size, bytes, &second))
}

fn experiment(size: &Size, bytes: u64, second: &[Second]) -> Experiment {
    let paper = ["2.562 s", "0.032 s", "0.012 s", "0.008 s"];
    let name = |layout| match layout {
        StoreLayout::Conventional => "chunks of 4 KiB".to_owned(),
        StoreLayout::Hybrid { segment_bytes, .. } => format!("segments of {} MiB", mib(segment_bytes.into())),
    };
    let of_chunks = second.first().map_or(0, |one| one.look_ups);
    let mut rows = Vec::new();
    for (one, paper) in second.iter().zip(paper) {
        let row = Row::new(
            format!("look-ups of the second backup, {}", name(one.layout)),
            paper,
            format!(
                "{} ({} answered by the index, the others by what was read with them), {:.1} MB new, {:.0} MB/s",
                one.look_ups,
                one.index_reads,
                share(one.bytes_new, 1_000_000),
                one.rate
            ),
        );
        rows.push(row.value(number(one.look_ups)));
    }
    if let Some(one) = second.get(2) {
        let less = share(of_chunks, one.look_ups);
        let row = Row::new(
            format!(
                "look-ups, {} to {}",
                name(StoreLayout::Conventional),
                name(one.layout)
            ),
            "213 by time; at least 100",
            format!("{less:.0}"),
        );
        let why = "our conventional mode asks for a whole segment first, and for chunks only where that is not known";
        rows.push(row.value(less).met(less >= LESS_MIN, why));
        let chunks = bytes / 4096;
        rows.push(Row::new(
            "chunks of 4 KiB in the backup, to look-ups of segments",
            "",
            format!("{:.0}", share(chunks, one.look_ups)),
        ));
    }
    let points = |value: fn(&Second) -> u64| -> Vec<(f64, f64)> {
        let x = |layout| match layout {
            StoreLayout::Conventional => 4.0,
            StoreLayout::Hybrid { segment_bytes, .. } => share(segment_bytes.into(), 1024),
        };
        second
            .iter()
            .map(|one| (x(one.layout), number(value(one))))
            .collect()
    };
    Experiment {
        name: "table-3".to_owned(),
        title: "table III: look-ups of the second backup of SG1".to_owned(),
        seeds: vec!["R1"],
        setup: format!(
            "{} Images of {}, {} of them no zeros in the second backup; in memory. The paper has times, we count.",
            setup(size),
            megabytes(size.look_ups_bytes),
            megabytes(bytes)
        ),
        rows,
        plots: vec![Plot {
            name: "table-3".to_owned(),
            title: "Look-ups of the second backup of SG1".to_owned(),
            subtitle: format!(
                "containers of {} MiB, in memory",
                mib(size.container_bytes.into())
            ),
            x: Axis::doubling("unit of the look-up, KiB"),
            y: Axis::decades("look-ups"),
            series: vec![Series::new("look-ups", points(|one| one.look_ups))],
        }],
    }
}
