use std::collections::HashSet;
use std::sync::Arc;

use super::*;
use crate::reproduce::{DiskOptions, Experiment, Progress};

/// Runs in seconds, even without optimisation.
fn tiny() -> Size {
    Size {
        container_bytes: 256 << 10,
        segments: [64 << 10, 128 << 10, 256 << 10],
        savings: ([4_000_000; 2], 5),
        groups: [(2_000_000, 2, 3), (2_000_000, 2, 3)],
        look_ups_bytes: 8_000_000,
        weeks: (6_000_000, 6),
        restored_every: 2,
        batches: 2,
        windows: (4_000_000, 6),
        live: [1, 2, 3],
        unique: (2 << 20, 2),
    }
}

fn reproduced(parts: &[Part]) -> (Vec<Experiment>, Progress) {
    let progress = Progress::new(Arc::default());
    let folder = tempfile::tempdir().unwrap();
    let mut told = Vec::new();
    run_all(
        &tiny(),
        &mut Run {
            extent: Extent::Quick,
            parts,
            versions: None,
            disk: DiskOptions::default(),
            folder: folder.path(),
            progress: &progress,
            report: &mut |experiment| {
                told.push(experiment);
                Ok(())
            },
        },
    )
    .unwrap();
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "stores are gone");
    (told, progress)
}

#[test]
fn every_experiment_is_reported_with_its_rows_and_points() {
    let (told, progress) = reproduced(PAPER.parts);
    let names: Vec<&str> = told.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "figure-4",
            "table-3",
            "table-2",
            "figure-5",
            "figure-7",
            "figure-6",
            "figure-8",
            "requests",
            "figure-10",
            "figure-9"
        ]
    );
    let mut plots = HashSet::new();
    for one in &told {
        assert!(!one.rows.is_empty() && !one.setup.contains("  "), "{one:?}");
        assert!(one.setup.contains("containers of 0.25 MiB"), "{}", one.setup);
        for row in &one.rows {
            assert!(row.value.is_none_or(f64::is_finite), "{row:?}");
            assert!(!row.ours.contains("NaN") && !row.ours.contains("inf"), "{row:?}");
        }
        for plot in &one.plots {
            assert!(plots.insert(plot.name.clone()));
            for series in &plot.series {
                let finite = series.points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
                assert!(series.points.len() > 1 && finite, "{}: {series:?}", plot.name);
            }
        }
    }
    assert_eq!(progress.done(), progress.total());
}

#[test]
fn figures_without_times_match_the_promises_of_the_engine() {
    let (told, _) = reproduced(&[SAVINGS, LOOK_UPS, EXPIRY]);
    let value = |experiment: &str, what: &str| {
        let one = told.iter().find(|one| one.name == experiment).unwrap();
        let row = one.rows.iter().find(|row| row.what == what);
        row.unwrap_or_else(|| panic!("{what}: {one:?}")).value.unwrap()
    };
    // Expiry of archival backups deletes whole containers.
    for what in ["one by one", "batches of the oldest"] {
        let copied = value("figure-10", &format!("{what}: bytes copied, hybrid"));
        assert!(copied == 0.0, "{what}: {copied}");
    }
    let asked = |what: &str| value("table-3", &format!("look-ups of the second backup, {what}"));
    assert!(asked("chunks of 4 KiB") > asked("segments of 0.0625 MiB"));
    assert!(asked("segments of 0.0625 MiB") > 2.0 * asked("segments of 0.25 MiB"));
    for name in ["sg1", "sg5", "gp"] {
        let saved = value("figure-4", &format!("{name}: saved, segments of 0.25 MiB"));
        let alone = value(
            "figure-4",
            &format!("{name}: saved by whole segments alone, of 0.25 MiB"),
        );
        assert!(saved > alone, "{name}: {saved} and {alone}");
        let conventional = value("figure-4", &format!("{name}: saved, conventional"));
        assert!(saved < conventional + 0.01, "{name}: {saved} and {conventional}");
    }
}
