use std::collections::HashSet;

use super::*;
use crate::reproduce::{DiskOptions, Experiment, Progress, Verdict};

/// Runs in seconds, even without optimisation.
fn tiny() -> Size {
    Size {
        index_divisor: 20_000,
        halving_bytes: 128 << 10,
        repeated_containers: 12,
        runs_containers: 8,
        image_divisor: 400,
        stream_bytes: 8 << 20,
        streams: vec![1, 3],
        repeats: 1,
        near_full_bytes: 1 << 20,
        filled_bytes: 16 << 20,
        change_bytes: 2 << 20,
        restored_bytes: 4 << 20,
    }
}

#[test]
fn every_experiment_is_reported_with_its_rows_and_points() {
    let progress = Progress::new(std::sync::Arc::default());
    let mut told: Vec<Experiment> = Vec::new();
    let folder = tempfile::tempdir().unwrap();
    let size = tiny();
    let mut report = |experiment| {
        told.push(experiment);
        Ok(())
    };
    run_all(
        &size,
        &mut Run {
            extent: Extent::Quick,
            parts: PAPER.parts,
            versions: None,
            disk: DiskOptions::default(),
            folder: folder.path(),
            progress: &progress,
            report: &mut report,
        },
    )
    .unwrap();
    let names: Vec<&str> = told.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "duplicates",
            "table-4",
            "figure-4",
            "table-3",
            "table-2",
            "figure-6",
            "figure-5",
            "restore",
            "equation-1",
            "equation-2",
            "table-2-index",
            "figure-6-index"
        ]
    );
    let mut plots = HashSet::new();
    for one in &told {
        assert!(!one.rows.is_empty() && !one.setup.contains("  "), "{one:?}");
        for row in &one.rows {
            assert!(row.value.is_none_or(f64::is_finite), "{row:?}");
        }
        for plot in &one.plots {
            assert!(plots.insert(plot.name.clone()));
            for series in &plot.series {
                let finite = series
                    .points
                    .iter()
                    .all(|(x, y)| x.is_finite() && y.is_finite() && *y >= 0.0);
                assert!(series.points.len() > 1 && finite, "{series:?}");
            }
        }
    }
    let seeds: HashSet<&str> = told.iter().flat_map(|one| one.seeds.iter().copied()).collect();
    for seed in ["G3", "G4", "G5", "G6", "G7", "G10", "G11", "G12"] {
        assert!(seeds.contains(seed), "{seed}");
    }
    // Figures that do not depend on time must be met at any scale.
    for name in ["equation-1", "table-2-index"] {
        let one = told.iter().find(|one| one.name == name).unwrap();
        let differs = one
            .rows
            .iter()
            .find(|row| matches!(row.verdict, Verdict::Differs(_)));
        assert_eq!(differs, None, "{name}");
    }
    let (done, total) = (progress.done(), progress.total());
    assert!(done.abs_diff(total) < total / 20, "{done} of {total} bytes");
}
