use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use simulate::Assembly;

use super::*;
use crate::reproduce::experiment::{Experiment, Verdict};
use crate::reproduce::{DiskOptions, Extent, Progress, Request};

const CONTAINER: u64 = 256 << 10;

fn tiny() -> Extents {
    let two_year = Data::two_year(12_000_000, 6, CONTAINER);
    let workgroup = Data::workgroup(3_000_000, 8, CONTAINER, &Progress::new(Arc::default())).unwrap();
    Extents {
        two_year_small: two_year.clone(),
        two_year,
        workgroup_small: workgroup.clone(),
        workgroup,
        caps: &[0, 50, 10],
        windows_mb: &[20, 40],
        windows_caps: &[10],
    }
}

fn reproduced(extents: &Extents) -> Vec<Experiment> {
    let progress = Progress::new(Arc::default());
    let folder = tempfile::tempdir().unwrap();
    let mut experiments = Vec::new();
    reproduce(
        &mut Run {
            extent: Extent::Quick,
            parts: PAPER.parts,
            versions: None,
            disk: DiskOptions::default(),
            folder: folder.path(),
            progress: &progress,
            report: &mut |experiment| {
                experiments.push(experiment);
                Ok(())
            },
        },
        extents,
    )
    .unwrap();
    assert_eq!(progress.done(), progress.total());
    experiments
}

#[test]
fn figures_come_in_seconds_of_tiny_data_with_all_their_points() {
    let experiments = reproduced(&tiny());
    let named = |name: &str| {
        let found = experiments.iter().find(|experiment| experiment.name == name);
        found.unwrap_or_else(|| panic!("{name} is missing"))
    };
    assert_eq!(experiments.len(), 1 + 2 + 5 + 1 + 2 + 3 + 5);
    let plots: Vec<&str> = experiments
        .iter()
        .flat_map(|experiment| &experiment.plots)
        .map(|plot| plot.name.as_str())
        .collect();
    let names: BTreeSet<&str> = plots.iter().copied().collect();
    assert_eq!(names.len(), plots.len(), "a plot has a file of its own");

    let over_time = &named("figure-01").plots[0];
    assert_eq!(over_time.series.len(), 4);
    for series in &over_time.series {
        // Thirty backups, with a moving average of twenty.
        assert_eq!(series.points.len(), 11, "{}", series.name);
        let (first, last) = (series.points[0].1, series.points[10].1);
        assert!(first < last, "fragmentation grows: {series:?}");
    }
    // More memory reads no more.
    for pair in over_time.series.windows(2) {
        let both = pair[0].points.iter().zip(&pair[1].points);
        assert!(both.into_iter().all(|(less, more)| less.1 >= more.1), "{pair:?}");
    }
    for (name, points) in [
        ("figure-02-2year", 9),
        ("figure-08-workgroup", 9),
        ("figure-04-2year", 3),
        ("figure-09-workgroup", 3),
        ("figure-06-2year", 11),
        ("figure-11-workgroup", 7),
    ] {
        let plot = &named(name).plots[0];
        assert!(
            !plot.series.is_empty() && plot.series.iter().all(|series| series.points.len() == points),
            "{plot:?}"
        );
    }
    // A cap trades deduplication for restore speed.
    let lost = &named("figure-05-2year").plots[0].series[1].points;
    assert!(
        lost[0] == (0.0, 1.0) && lost[2].0 > lost[1].0 && lost[2].1 > 1.0,
        "{lost:?}"
    );
    let rows = experiments.iter().flat_map(|experiment| &experiment.rows);
    assert!(rows.clone().count() > 60);
    for row in rows {
        assert!(row.value.is_none_or(f64::is_finite), "{row:?}");
        assert!(row.verdict != Verdict::Differs(String::new()), "{row:?}");
    }
    assert!(
        experiments
            .iter()
            .all(|experiment| experiment.setup.contains("256 KiB"))
    );
}

#[test]
fn memory_shrinks_with_the_data_and_never_below_a_container() {
    let data = Data::two_year(1_000_000_000, 96, 4 << 20);
    assert_eq!(data.memory(1024, Assembly::Lru).bytes, (1 << 30) / 10);
    assert_eq!(data.memory(32, Assembly::Lru).bytes, 4 << 20);
    assert!(
        data.setup().contains("memory 1/10 of the paper's"),
        "{}",
        data.setup()
    );
    assert!(data.setup().contains("1 GB at first (the paper: 10 GB)"));
    let data = data.with_whole_memory();
    assert_eq!(data.memory(128, Assembly::Lru).bytes, 128 << 20);
    assert!(
        data.setup().contains("memory as in the paper"),
        "{}",
        data.setup()
    );
    let whole = Data::two_year(10_000_000_000, 96, 4 << 20);
    assert_eq!(whole.memory(128, Assembly::Rolling).bytes, 128 << 20);
    assert!(
        whole
            .setup()
            .contains("10 GB at first, 480 backups; containers of 4 MiB"),
        "{}",
        whole.setup()
    );
}

#[test]
fn a_run_stops_on_request() {
    let progress = Progress::new(Arc::new(AtomicBool::new(true)));
    let request = Request {
        extent: Extent::Quick,
        parts: PAPER.parts,
        versions: None,
        disk: DiskOptions::default(),
    };
    let stopped = PAPER.run(&request, std::path::Path::new(""), &progress, &mut |_| {
        panic!("nothing is complete")
    });
    assert!(stopped.is_err_and(|error| error.is_interrupted()));
}
