use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::axis::{Span, said};
use super::*;

/// The first.
const FIGURE_1: Part = Part("figure-1");
/// The second.
const FIGURE_2: Part = Part("figure-2");

const OTHER: Paper = Paper {
    name: "paper00",
    title: "Nobody: *Nothing*.",
    extents: ["All of it.", "Some of it."],
    parts: &[FIGURE_1, FIGURE_2],
    with_versions: &[FIGURE_2],
    run: |run| {
        run.progress
            .expect(run.bytes_of(FIGURE_1, 1) + run.bytes_of(FIGURE_2, 1));
        for part in [FIGURE_1, FIGURE_2] {
            if run.wants(part) {
                run.report(experiment(part.0))?;
                run.progress.advance(1)?;
            }
        }
        Ok(())
    },
};

fn request(extent: Extent, parts: &[Part]) -> Request<'_> {
    Request {
        extent,
        parts,
        versions: None,
    }
}

fn plot(x: Axis, y: Axis, points: Vec<(f64, f64)>) -> Plot {
    Plot {
        name: "plot".to_owned(),
        title: "Speed & <memory>".to_owned(),
        subtitle: "containers of 4 MiB".to_owned(),
        x,
        y,
        series: vec![
            Series::new("one", points),
            Series::new("none", vec![]),
            Series::new("\"quoted\"", vec![(64.0, 0.25)]),
        ],
    }
}

fn experiment(name: &str) -> Experiment {
    let mut plot = plot(
        Axis::doubling("memory, MiB"),
        Axis::linear("speed"),
        vec![(32.0, 0.5), (1024.0, 2.0)],
    );
    plot.name = format!("{name}-plot");
    Experiment {
        name: name.to_owned(),
        title: format!("{name}: speed"),
        seeds: vec!["L5", "L6"],
        setup: "256 MiB of noise".to_owned(),
        rows: vec![
            Row::new("a | b", "2X", "3X").value(3.0).met(true, "never told"),
            Row::new("growth", "2X", "9X").met(false, "the data are noise"),
            Row::new("length", "not told", "7 m"),
        ],
        plots: vec![plot],
    }
}

/// Whether tags are closed in the order of their opening, and entities are known.
fn assert_well_formed(xml: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = xml;
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        for (at, _) in text.match_indices('&') {
            let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#"];
            assert!(known.iter().any(|known| text[at..].starts_with(known)), "{text}");
        }
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        assert!(!tag.contains('<'), "{tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name.trim()));
        } else if !tag.ends_with('/') && !tag.starts_with(['!', '?']) {
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty(), "{open:?}");
}

#[test]
fn plots_are_well_formed_whatever_their_points() {
    let points = vec![
        (0.0, -1.0),
        (f64::NAN, 1.0),
        (1e-5, 3.0),
        (2.0, f64::INFINITY),
        (1e12, 4e9),
    ];
    for x in [Axis::linear("a"), Axis::doubling("b"), Axis::decades("c")] {
        for y in [Axis::linear("<"), Axis::doubling("&"), Axis::decades("d")] {
            for points in [points.clone(), vec![], vec![(5.0, 5.0)]] {
                assert_well_formed(&svg(&plot(x.clone(), y.clone(), points)).unwrap());
            }
        }
    }
    let drawn = svg(&experiment("figure-1").plots[0]).unwrap();
    for words in [
        "Speed &amp; &lt;memory&gt;",
        "containers of 4 MiB",
        "memory, MiB",
        "speed",
        "one",
        "1024",
    ] {
        assert!(drawn.contains(words), "{words} is not in {drawn}");
    }
}

#[test]
fn axes_are_marked_where_people_expect_it() {
    let marks = |scale, values: &[f64]| -> Vec<String> {
        let span = Span::around(scale, values.iter().copied());
        span.marks(9).into_iter().map(said).collect()
    };
    assert_eq!(
        marks(Scale::Linear, &[3.0, 480.0]),
        ["0", "100", "200", "300", "400", "500"]
    );
    assert_eq!(
        marks(Scale::Linear, &[8.0, 9.0]),
        ["8", "8.2", "8.4", "8.6", "8.8", "9"]
    );
    assert_eq!(marks(Scale::Doubling, &[32.0, 256.0]), ["32", "64", "128", "256"]);
    assert_eq!(marks(Scale::Doubling, &[1.0, 65536.0]).len(), 9);
    assert_eq!(
        marks(Scale::Decades, &[1.0, 1e9]),
        ["1", "100", "10000", "1 M", "100 M"]
    );
    assert_eq!(marks(Scale::Decades, &[1.0, 20.0]), ["1", "2", "5", "10", "20"]);
    assert_eq!(said(1.23e13), "12.3 T");
    assert_eq!(said(0.000_05), "5e-5");
    // Also where no power lies between, and where there is nothing.
    assert!(marks(Scale::Doubling, &[3.0, 3.5]).len() > 1);
    assert!(marks(Scale::Linear, &[f64::NAN]).len() > 1);
}

#[test]
fn parts_are_run_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let parts = OTHER.parts_named(&["figure-2".to_owned()]).unwrap();
    let wanted = request(Extent::Quick, &parts);
    let mut report = Report::create(folder.path(), &OTHER, &wanted).unwrap();
    let progress = Progress::new(Arc::default());
    OTHER
        .run(&wanted, folder.path(), &progress, &mut |one| report.add(one))
        .unwrap();
    let told: Vec<String> = report.finish().unwrap().into_iter().map(|one| one.name).collect();
    assert_eq!((told, progress.total()), (vec!["figure-2".to_owned()], 1));
    let readme = fs::read_to_string(folder.path().join("README.md")).unwrap();
    assert!(
        readme.contains("reproduce paper00 --output FOLDER --only figure-2\n"),
        "{readme}"
    );
    assert_eq!(OTHER.parts_named(&[]).unwrap(), OTHER.parts);
    let error = OTHER.parts_named(&["figure-3".to_owned()]).unwrap_err();
    assert!(
        error.to_string().contains("there are figure-1, figure-2"),
        "{error}"
    );
}

#[test]
fn versions_are_taken_by_parts_that_measure_them() {
    let folder = tempfile::tempdir().unwrap();
    let (data, place) = (folder.path().join("data"), folder.path().join("report"));
    fs::create_dir(&data).unwrap();
    let given = |parts| Request {
        versions: Some(&data),
        ..request(Extent::Quick, parts)
    };
    let refused = |paper: &Paper, request| {
        let error = Report::create(&place, paper, &request).unwrap_err().to_string();
        assert!(!place.exists(), "refused before anything is made");
        error
    };
    assert!(refused(&OTHER, given(&[FIGURE_1])).ends_with("of paper00 alone: figure-2"));
    assert!(refused(&OTHER, given(OTHER.parts)).contains("data: has no versions"));
    assert!(refused(&fast13::PAPER, given(fast13::PAPER.parts)).contains("measures no versions"));
    fs::write(data.join("1.tar"), "one").unwrap();
    Report::create(&place, &OTHER, &given(&[FIGURE_2])).unwrap();
    let readme = fs::read_to_string(place.join("README.md")).unwrap();
    assert!(readme.contains("--only figure-2 --versions FOLDER\n"), "{readme}");
}

/// Names are told apart, and by the parts of all papers something is run.
#[test]
fn every_paper_has_parts_of_names_of_their_own() {
    for paper in PAPERS {
        let names: std::collections::BTreeSet<&str> = paper.parts.iter().map(|part| part.0).collect();
        assert!(
            names.len() == paper.parts.len() && names.len() > 1,
            "{}",
            paper.name
        );
        let with_versions = paper.with_versions.iter();
        assert!(with_versions.into_iter().all(|part| paper.parts.contains(part)));
    }
}

#[test]
fn a_report_has_a_table_plots_and_lines_to_make_them_again() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("report");
    let all = request(Extent::Full, OTHER.parts);
    let mut report = Report::create(&place, &OTHER, &all).unwrap();
    let progress = Progress::new(Arc::default());
    OTHER
        .run(&all, &place, &progress, &mut |experiment| report.add(experiment))
        .unwrap();
    assert_eq!((progress.done(), progress.total()), (2, 2));
    let read = |name: &str| fs::read_to_string(place.join(name)).unwrap();
    assert!(read("README.md").contains("**Not complete**"));
    assert_eq!(report.finish().unwrap().len(), 2);
    let readme = read("README.md");
    for words in [
        "onefold lab reproduce paper00 --output FOLDER --full\n",
        "All of it.",
        "\n2 figures of the paper are met, 2 differ.\n",
        "## figure-1: speed (L5, L6)",
        "| a \\| b | 2X | 3X | met |",
        "| growth | 2X | 9X | **differs**: the data are noise |",
        "| length | not told | 7 m |  |",
        "(figure-2-plot.svg)",
    ] {
        assert!(readme.contains(words), "{words} is not in {readme}");
    }
    assert!(!readme.contains("Not complete") && !readme.contains("never told"));
    assert_well_formed(&read("figure-1-plot.svg"));
    assert_well_formed(&read("figure-2-plot.svg"));

    let lines: Vec<Value> = read("results.json")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, [["row", "row", "row", "plot"]; 2].concat());
    assert_eq!(lines[0]["value"], 3.0);
    assert_eq!(
        (&lines[0]["verdict"], &lines[0]["reason"]),
        (&"met".into(), &Value::Null)
    );
    assert_eq!(
        (&lines[1]["verdict"], &lines[1]["reason"]),
        (&"differs".into(), &"the data are noise".into())
    );
    assert_eq!(lines[2]["verdict"], "no_figure");
    assert_eq!(lines[7]["experiment"], "figure-2");
    assert_eq!(
        lines[7]["x"],
        serde_json::json!({"label": "memory, MiB", "scale": "doubling"})
    );
    assert_eq!(
        lines[7]["series"][0]["points"],
        serde_json::json!([[32.0, 0.5], [1024.0, 2.0]])
    );
}

#[test]
fn a_folder_with_anything_in_it_is_refused_and_an_empty_one_taken() {
    let folder = tempfile::tempdir().unwrap();
    Report::create(folder.path(), &OTHER, &request(Extent::Quick, OTHER.parts)).unwrap();
    assert!(
        fs::read_to_string(folder.path().join("README.md"))
            .unwrap()
            .contains("Some of it.")
    );
    let error = Report::create(folder.path(), &OTHER, &request(Extent::Quick, OTHER.parts)).unwrap_err();
    assert!(error.to_string().contains("is not empty"), "{error}");
    let file = folder.path().join("README.md");
    assert!(matches!(
        Report::create(&file, &OTHER, &request(Extent::Quick, OTHER.parts)),
        Err(LabError::Io { .. })
    ));
}

#[test]
fn who_asks_to_stop_keeps_what_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = Report::create(folder.path(), &OTHER, &request(Extent::Quick, OTHER.parts)).unwrap();
    let cancelled = Arc::new(AtomicBool::new(true));
    let stopped = OTHER.run(
        &request(Extent::Quick, OTHER.parts),
        Path::new(""),
        &Progress::new(cancelled),
        &mut |experiment| report.add(experiment),
    );
    assert!(matches!(stopped, Err(LabError::Interrupted)));
    let readme = fs::read_to_string(folder.path().join("README.md")).unwrap();
    assert!(
        readme.contains("figure-1: speed") && !readme.contains("figure-2") && readme.contains("Not complete")
    );
}

#[test]
fn papers_have_names_of_their_own() {
    let mut names: Vec<&str> = PAPERS.iter().map(|paper| paper.name).collect();
    names.dedup();
    assert_eq!(names.len(), PAPERS.len());
}
