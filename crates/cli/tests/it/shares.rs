//! `stats --exclusive` and `--svg`: what would shrink a store, and how its layout has changed.

use std::fs;

use crate::bed::{Bed, lines, noise};

/// Two series with 2 MiB in common; the first has two backups with 1 MiB each of their own.
fn bed() -> Bed {
    let bed = Bed::new();
    for folder in ["one", "two"] {
        fs::create_dir(bed.path(folder)).unwrap();
        fs::write(bed.path(folder).join("common"), noise(2 << 20, 1)).unwrap();
    }
    fs::write(bed.path("one/own"), noise(1 << 20, 2)).unwrap();
    bed.ok(["backup", "one", "-H", "red"]);
    bed.ok(["backup", "two", "-H", "blue"]);
    fs::write(bed.path("one/own"), noise(1 << 20, 3)).unwrap();
    bed.ok(["backup", "one", "-H", "red"]);
    bed
}

#[test]
fn what_only_one_series_or_backup_has_is_shown() {
    let bed = bed();
    let ran = bed.ok(["stats", "all", "--exclusive", "--json"]);
    let mib = |line: &serde_json::Value| line["exclusive_size"].as_f64().unwrap() / f64::from(1 << 20);
    let of = |kind: &str| -> Vec<serde_json::Value> {
        let all = lines(&ran.out);
        all.into_iter()
            .filter(|line| line["message_type"] == kind)
            .collect()
    };
    let series = of("series_share");
    assert_eq!(series.len(), 2);
    assert_eq!(
        (&series[0]["hostname"], &series[0]["backups"]),
        (&"red".into(), &2.into())
    );
    assert!((2.0..2.2).contains(&mib(&series[0])), "{series:?}");
    assert!(mib(&series[1]) < 0.1, "{series:?}");
    let backups = of("backup_share");
    assert_eq!(backups.len(), 3);
    for backup in &backups {
        let is_blue = backup["snapshot_id"] == bed.backups()[1];
        let expected = if is_blue { 0.0..0.1 } else { 1.0..1.2 };
        assert!(expected.contains(&mib(backup)), "{backups:?}");
    }
    // It comes back, as it was said.
    let before = stored(&bed);
    bed.ok([
        "forget",
        "--host",
        "red",
        "--unsafe-allow-remove-all",
        "--keep-tag",
        "none",
        "--prune",
    ]);
    let freed = before - stored(&bed);
    assert!((1.8..2.2).contains(&freed), "{freed}");
    let ran = bed.ok(["stats", "--exclusive"]);
    assert!(ran.out().contains("only backup"), "{}", ran.out());
}

/// MiB in containers of data.
fn stored(bed: &Bed) -> f64 {
    let bytes: u64 = bed
        .objects("data")
        .iter()
        .map(|path| fs::metadata(path).unwrap().len())
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "some MiB")]
    let mib = bytes as f64 / f64::from(1 << 20);
    mib
}

#[test]
fn the_speed_factor_over_time_is_drawn() {
    let bed = bed();
    fs::write(bed.path("one/more"), noise(1 << 20, 4)).unwrap();
    bed.ok(["backup", "one", "-H", "red"]);
    let ran = bed.ok(["stats", "all", "--svg", "drawn.svg"]);
    let told = ran
        .out()
        .lines()
        .find(|line| line.starts_with("red:"))
        .unwrap()
        .to_owned();
    assert!(told.contains("over 3 backups") && told.contains('█'), "{told}");
    let drawing = fs::read_to_string(bed.path("drawn.svg")).unwrap();
    assert!(drawing.contains("<svg") && drawing.contains("red:"), "{drawing}");
    bed.run(["stats", "--svg", "drawn.svg"]).expect(1);
    assert_eq!(fs::read_to_string(bed.path("drawn.svg")).unwrap(), drawing);
}
