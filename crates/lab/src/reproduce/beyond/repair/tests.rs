use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use env::{Entropy, SeededEntropy};

use super::*;
use crate::reproduce::{DiskOptions, Experiment, Progress, Verdict};

/// Runs in seconds, even without optimisation.
fn tiny() -> Size {
    Size {
        two_year: (16_000_000, 8),
        container_bytes: 256 << 10,
        weeks_restored: 2,
        containers_of_versions: [64 << 10, 256 << 10],
        versions_restored: 3,
    }
}

fn reproduced(versions: Option<&Path>) -> (Vec<Experiment>, Progress) {
    let progress = Progress::new(Arc::default());
    let mut told = Vec::new();
    run_all(
        &tiny(),
        &mut Run {
            extent: Extent::Quick,
            parts: &[REPAIR],
            versions,
            disk: DiskOptions::default(),
            folder: Path::new(""),
            progress: &progress,
            report: &mut |experiment| {
                told.push(experiment);
                Ok(())
            },
        },
    )
    .unwrap();
    (told, progress)
}

fn value(of: &Experiment, what: &str) -> f64 {
    let row = of.rows.iter().find(|row| row.what.starts_with(what));
    row.unwrap_or_else(|| panic!("{what}: {of:?}")).value.unwrap()
}

/// Writes six versions of two megabytes, as files and as folders. Each changes a tenth of the
/// bytes, in twenty places.
fn write_versions(folder: &Path) {
    let entropy = SeededEntropy::new(5);
    let mut bytes = vec![0; 2_000_000];
    entropy.fill(&mut bytes);
    for version in 0..6 {
        for place in 0..20 {
            let at = (place * 100_000 + version * 10_000) % 1_990_000;
            entropy.fill(&mut bytes[at..at + 10_000]);
        }
        let path = folder.join(format!("{version}"));
        if version % 2 == 0 {
            fs::write(path, &bytes).unwrap();
        } else {
            fs::create_dir(&path).unwrap();
            fs::write(path.join("a"), &bytes[..700_000]).unwrap();
            fs::write(path.join("b"), &bytes[700_000..]).unwrap();
        }
    }
}

#[test]
fn each_series_is_reported_with_its_rows_and_points() {
    let folder = tempfile::tempdir().unwrap();
    write_versions(folder.path());
    let (told, progress) = reproduced(Some(folder.path()));
    let names: Vec<&str> = told.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(
        names,
        ["repair-2year", "repair-versions-64k", "repair-versions-256k"]
    );
    assert_eq!(progress.done(), progress.total());
    let mut plots = HashSet::new();
    for one in &told {
        assert!(!one.setup.contains("  "), "{}", one.setup);
        let judged = one.rows.iter().filter(|row| row.verdict != Verdict::NotJudged);
        assert_eq!(judged.count(), 4, "{one:?}");
        for row in &one.rows {
            assert!(row.value.is_some_and(f64::is_finite), "{row:?}");
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
    let setup = &told[1].setup;
    assert!(
        setup.contains("6 versions of real data, 0 to 5, 2.0 MB"),
        "{setup}"
    );
    assert!(setup.contains("of the last 3 backups"), "{setup}");
    assert!(!told[0].setup.contains("were not given"));
}

#[test]
fn stores_are_as_exact_and_as_scattered_as_their_settings_imply() {
    let (told, _) = reproduced(None);
    assert_eq!(told.len(), 1);
    let one = &told[0];
    assert!(
        one.setup.contains("Versions of real data were not given."),
        "{}",
        one.setup
    );
    // Without a cap every chunk is stored once, and deleted backups leave nothing behind.
    let exact = value(one, "no repair: exact ratio kept, containers of chunks");
    assert!((0.998..1.002).contains(&exact), "{exact}");
    let capped = value(one, "the default cap: exact ratio kept, containers of chunks");
    assert!(capped < exact, "{capped} and {exact}");
    let speed = |who: &str| value(one, &format!("newest backup, full, {who}: speed factor"));
    let (none, cap) = (speed("no repair"), speed("the default cap"));
    assert!(none < cap, "{none}, {cap}");
    // An incremental backup refers to chunks all over the store. Alone, it would be in few
    // containers.
    let few = value(one, "newest backup, incremental, no repair: speed factor");
    assert!(few < 0.6, "{few}");
    let series = &one.plots[0].series;
    assert!(series.iter().all(|one| one.points.len() == 8), "{series:?}");
}

#[test]
fn the_extents_have_as_many_containers_as_backups_need() {
    for extent in [Extent::Quick, Extent::Full] {
        let size = Size::of(extent);
        let (bytes, weeks) = size.two_year;
        assert!(bytes > 100 * u64::from(size.container_bytes));
        assert!(WEEK * weeks as usize > KEPT + WEEK * size.weeks_restored);
    }
}
