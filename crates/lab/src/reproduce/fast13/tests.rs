use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use restore::plan::Assembly;

use super::*;
use crate::reproduce::experiment::{Experiment, Verdict};
use crate::reproduce::{Extent, Progress};

fn tiny() -> Extents {
    Extents {
        two_year: Data::two_year(4_000_000, 8, 64 << 10),
    }
}

fn reproduced(extents: &Extents) -> Vec<Experiment> {
    let progress = Progress::new(Arc::default());
    let mut experiments = Vec::new();
    reproduce(
        &mut Run {
            extent: Extent::Quick,
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
    let names: Vec<&str> = experiments
        .iter()
        .map(|experiment| experiment.name.as_str())
        .collect();
    assert_eq!(names, ["figure-01", "figure-02-2year", "figure-08-2year"]);
    let plots: BTreeSet<&str> = experiments
        .iter()
        .flat_map(|experiment| &experiment.plots)
        .map(|plot| plot.name.as_str())
        .collect();
    assert_eq!(plots.len(), 3, "a plot has a file of its own");
    let over_time = &experiments[0].plots[0];
    assert_eq!(over_time.series.len(), 4);
    for series in &over_time.series {
        // Forty backups, a moving average of twenty.
        assert_eq!(series.points.len(), 21, "{}", series.name);
        let (first, last) = (series.points[0].1, series.points[20].1);
        assert!(first < last, "fragmentation grows: {series:?}");
    }
    // More memory reads no more.
    for pair in over_time.series.windows(2) {
        let both = pair[0].points.iter().zip(&pair[1].points);
        assert!(both.into_iter().all(|(less, more)| less.1 >= more.1), "{pair:?}");
    }
    let memory = &experiments[2].plots[0];
    assert!(
        memory.series.iter().all(|series| series.points.len() == 9),
        "{memory:?}"
    );
    let rows = experiments.iter().flat_map(|experiment| &experiment.rows);
    assert!(rows.clone().count() > 20);
    for row in rows {
        assert!(row.value.is_some_and(f64::is_finite), "{row:?}");
        assert!(row.verdict != Verdict::Differs(String::new()), "{row:?}");
    }
    assert!(
        experiments
            .iter()
            .all(|experiment| experiment.setup.contains("64 KiB"))
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
fn who_asks_to_stop_is_heard() {
    let progress = Progress::new(Arc::new(AtomicBool::new(true)));
    let stopped = PAPER.run(Extent::Quick, &progress, &mut |_| panic!("nothing is complete"));
    assert!(matches!(stopped, Err(LabError::Interrupted)));
}
