//! A folder of results: `README.md`, a file `NAME.svg` for each plot, and `results.json`.
//!
//! Results are written as soon as an experiment is complete. So a stopped run leaves its results so
//! far, and its README says that it is incomplete. `results.json` has a JSON line for each row, and
//! one for each plot with its points. Plots can be drawn again from these.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use simulate::SimulateError;
use simulate::plot::{Plot, svg};

use super::experiment::{Experiment, Row, Verdict};
use super::{Extent, Paper, Request};
use crate::error::LabError;

/// A folder of results.
#[derive(Debug)]
pub struct Report {
    folder: PathBuf,
    heading: String,
    experiments: Vec<Experiment>,
    lines: File,
}

#[derive(Serialize)]
struct RowLine<'a> {
    kind: &'static str,
    experiment: &'a str,
    title: &'a str,
    seeds: &'a [&'static str],
    #[serde(flatten)]
    row: &'a Row,
}

#[derive(Serialize)]
struct PlotLine<'a> {
    kind: &'static str,
    experiment: &'a str,
    #[serde(flatten)]
    plot: &'a Plot,
}

impl Report {
    /// Creates the folder, or uses an empty one.
    ///
    /// # Errors
    /// `Settings` if the folder is not empty; errors of [`Paper::check`]; `Io`.
    pub fn create(folder: &Path, paper: &Paper, request: &Request<'_>) -> Result<Self, LabError> {
        paper.check(request)?;
        let failed = |source| io(folder, source);
        // What is read may be somebody's data.
        let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        created.map_err(failed)?;
        if fs::read_dir(folder).map_err(failed)?.next().is_some() {
            return Err(LabError::settings(format!(
                "{}: the folder is not empty; name an empty or a new one",
                folder.display()
            )));
        }
        let lines = folder.join("results.json");
        let lines = File::create_new(&lines).map_err(|source| io(&lines, source))?;
        let (option, scale) = match request.extent {
            Extent::Full => (" --full", paper.extents[0]),
            Extent::Quick => ("", paper.extents[1]),
        };
        // If all parts run, their names are not needed.
        let some = request.parts.len() < paper.parts.len();
        let some: String = request
            .parts
            .iter()
            .filter(|_| some)
            .map(|part| format!(" --only {}", part.0))
            .collect();
        let versions = request.versions.map(|_| " --versions FOLDER").unwrap_or_default();
        let words: String = request
            .disk
            .words()
            .iter()
            .map(|word| format!(" {word}"))
            .collect();
        let report = Self {
            folder: folder.to_owned(),
            heading: format!(
                "# {}\n\n{}\n\n    onefold-lab reproduce {} --output FOLDER{option}{some}{versions}{words}\n\n{scale}\n",
                paper.name, paper.title, paper.name
            ),
            experiments: Vec::new(),
            lines,
        };
        report.write_readme(false)?;
        Ok(report)
    }

    /// Writes an experiment's plots, rows and series.
    ///
    /// # Errors
    /// `Io`; `Settings` if a plot cannot be drawn.
    pub fn add(&mut self, experiment: Experiment) -> Result<(), LabError> {
        for plot in &experiment.plots {
            let path = self.folder.join(format!("{}.svg", plot.name));
            fs::write(&path, svg(plot)).map_err(|source| io(&path, source))?;
        }
        let mut lines = Vec::new();
        for row in &experiment.rows {
            let line = RowLine {
                kind: "row",
                experiment: &experiment.name,
                title: &experiment.title,
                seeds: &experiment.seeds,
                row,
            };
            put(&mut lines, &line);
        }
        for plot in &experiment.plots {
            let line = PlotLine {
                kind: "plot",
                experiment: &experiment.name,
                plot,
            };
            put(&mut lines, &line);
        }
        let failed = |source| io(&self.folder.join("results.json"), source);
        self.lines.write_all(&lines).map_err(failed)?;
        self.experiments.push(experiment);
        self.write_readme(false)
    }

    /// Says in the README that all experiments are complete. Returns them.
    ///
    /// # Errors
    /// `Io`.
    pub fn finish(self) -> Result<Vec<Experiment>, LabError> {
        self.write_readme(true)?;
        Ok(self.experiments)
    }

    fn write_readme(&self, is_complete: bool) -> Result<(), LabError> {
        let path = self.folder.join("README.md");
        fs::write(&path, readme(&self.heading, &self.experiments, is_complete))
            .map_err(|source| io(&path, source))
    }
}

fn put(lines: &mut Vec<u8>, line: &impl Serialize) {
    serde_json::to_writer(&mut *lines, line).expect("strings, numbers and lists of them");
    lines.push(b'\n');
}

fn io(path: &Path, source: std::io::Error) -> LabError {
    SimulateError::Io {
        what: path.display().to_string(),
        source,
    }
    .into()
}

fn readme(heading: &str, experiments: &[Experiment], is_complete: bool) -> String {
    let rows = || experiments.iter().flat_map(|experiment| &experiment.rows);
    let met = rows().filter(|row| row.verdict == Verdict::Met).count();
    let differs = rows().filter(|row| matches!(row.verdict, Verdict::Differs(_)));
    let mut text = heading.to_owned();
    let mut say = |words: std::fmt::Arguments<'_>| {
        text.write_fmt(words).expect("a string takes what it is given");
    };
    say(format_args!(
        "\n{met} rows are met, {} differ, {} are not judged.{}\n",
        differs.count(),
        rows().filter(|row| row.verdict == Verdict::NotJudged).count(),
        if is_complete {
            ""
        } else {
            " **Not complete**: the run has not measured all parts."
        }
    ));
    for experiment in experiments {
        say(format_args!(
            "\n## {} ({})\n\n{}\n",
            experiment.title,
            experiment.seeds.join(", "),
            experiment.setup
        ));
        if !experiment.rows.is_empty() {
            say(format_args!("\n| | the paper | here | |\n|---|---|---|---|\n"));
        }
        for row in &experiment.rows {
            let verdict = match &row.verdict {
                Verdict::Met => "met".to_owned(),
                Verdict::Differs(reason) => format!("**differs**: {reason}"),
                Verdict::NotJudged => String::new(),
            };
            let cells = [&row.what, &row.paper, &row.ours, &verdict].map(|cell| cell.replace('|', "\\|"));
            say(format_args!("| {} |\n", cells.join(" | ")));
        }
        for plot in &experiment.plots {
            say(format_args!("\n![{}]({}.svg)\n", plot.title, plot.name));
        }
    }
    text
}
