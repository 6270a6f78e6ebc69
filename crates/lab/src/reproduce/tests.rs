use std::fs;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;
use simulate::SimulateError;

use super::*;

/// The first part.
const FIGURE_1: Part = Part("figure-1");
/// The second part.
const FIGURE_2: Part = Part("figure-2");

const OTHER: Paper = Paper {
    name: "paper00",
    title: "Nobody: *Nothing*.",
    extents: ["All of it.", "Some of it."],
    parts: &[FIGURE_1, FIGURE_2],
    with_versions: &[FIGURE_2],
    with_disk_options: false,
    with_hosts: &[],
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
        disk: DiskOptions::default(),
    }
}

fn experiment(name: &str) -> Experiment {
    let plot = Plot {
        name: format!("{name}-plot"),
        title: "Speed & <memory>".to_owned(),
        subtitle: "containers of 4 MiB".to_owned(),
        x: Axis::doubling("memory, MiB"),
        y: Axis::linear("speed"),
        series: vec![Series::new("one", vec![(32.0, 0.5), (1024.0, 2.0)])],
    };
    Experiment {
        name: name.to_owned(),
        title: format!("{name}: speed"),
        seeds: vec!["L5", "L6"],
        setup: "256 MiB of noise".to_owned(),
        rows: vec![
            Row::new("a | b", "2X", "3X").value(3.0).met(true, "never told"),
            Row::new("growth", "2X", "9X").met(false, "the data are noise"),
            Row::new("length", "no figure", "7 m"),
        ],
        plots: vec![plot],
    }
}

#[test]
fn a_median_of_an_even_number_is_between_two_values() {
    let median = |of: &[f64]| figures::median(&mut of.to_vec()).to_string();
    assert_eq!(median(&[]), "0");
    assert_eq!(median(&[3.0]), "3");
    assert_eq!(median(&[9.0, 1.0]), "5");
    assert_eq!(median(&[9.0, 1.0, 2.0]), "2");
    assert_eq!(median(&[9.0, 1.0, 2.0, 4.0]), "3");
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
        error.to_string().contains("its parts are figure-1, figure-2"),
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
    assert!(
        refused(&OTHER, given(&[FIGURE_1])).ends_with("of paper00 measure versions of real data: figure-2")
    );
    assert!(refused(&OTHER, given(OTHER.parts)).contains("data: the folder has no versions"));
    assert!(refused(&fast13::PAPER, given(fast13::PAPER.parts)).contains("measures no versions"));
    fs::write(data.join("1.tar"), "one").unwrap();
    Report::create(&place, &OTHER, &given(&[FIGURE_2])).unwrap();
    let readme = fs::read_to_string(place.join("README.md")).unwrap();
    assert!(readme.contains("--only figure-2 --versions FOLDER\n"), "{readme}");
}

/// Parts of a paper have different names, and each paper has more than one.
#[test]
fn every_paper_has_parts_of_names_of_their_own() {
    for paper in PAPERS {
        let names: std::collections::BTreeSet<&str> = paper.parts.iter().map(|part| part.0).collect();
        assert!(
            names.len() == paper.parts.len() && names.len() > 1,
            "{}",
            paper.name
        );
        let mut named = paper.with_versions.iter().chain(paper.with_hosts);
        assert!(named.all(|part| paper.parts.contains(part)), "{}", paper.name);
        assert!(
            paper.with_disk_options || paper.with_hosts.is_empty(),
            "{}",
            paper.name
        );
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
        "onefold-lab reproduce paper00 --output FOLDER --full\n",
        "All of it.",
        "\n2 rows are met, 2 differ, 2 are not judged.\n",
        "## figure-1: speed (L5, L6)",
        "| a \\| b | 2X | 3X | met |",
        "| growth | 2X | 9X | **differs**: the data are noise |",
        "| length | no figure | 7 m |  |",
        "(figure-2-plot.svg)",
    ] {
        assert!(readme.contains(words), "{words} is not in {readme}");
    }
    assert!(!readme.contains("Not complete") && !readme.contains("never told"));
    for plot in ["figure-1-plot.svg", "figure-2-plot.svg"] {
        let drawn = read(plot);
        assert!(
            drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"),
            "{drawn}"
        );
    }

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
    assert_eq!(lines[2]["verdict"], "not_judged");
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
        Err(LabError::Simulate(SimulateError::Io { .. }))
    ));
}

#[test]
fn a_stopped_run_keeps_complete_experiments() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = Report::create(folder.path(), &OTHER, &request(Extent::Quick, OTHER.parts)).unwrap();
    let cancelled = Arc::new(AtomicBool::new(true));
    let stopped = OTHER.run(
        &request(Extent::Quick, OTHER.parts),
        Path::new(""),
        &Progress::new(cancelled),
        &mut |experiment| report.add(experiment),
    );
    assert!(stopped.is_err_and(|error| error.is_interrupted()));
    let readme = fs::read_to_string(folder.path().join("README.md")).unwrap();
    assert!(
        readme.contains("figure-1: speed") && !readme.contains("figure-2") && readme.contains("Not complete")
    );
}

#[test]
fn papers_have_names_of_their_own() {
    let names: std::collections::BTreeSet<&str> = PAPERS.iter().map(|paper| paper.name).collect();
    assert_eq!(names.len(), PAPERS.len());
}
