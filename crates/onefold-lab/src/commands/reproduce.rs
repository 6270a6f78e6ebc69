//! `onefold-lab reproduce`

use anyhow::{Context, Result};
use cli_support::progress::{self, Status};
use cli_support::{Code, Output};
use lab::reproduce::{Experiment, Extent, Progress, Report, Request, Row, Verdict, serve_host};
use onefold::WorkUnit;
use serde::Serialize;
use simulate::SimulateError;

use crate::args::{Host, Reproduce};

#[derive(Serialize)]
struct RowLine<'a> {
    message_type: &'static str,
    experiment: &'a str,
    title: &'a str,
    seeds: &'a [&'static str],
    #[serde(flatten)]
    row: &'a Row,
}

#[derive(Serialize)]
struct Reproduced<'a> {
    message_type: &'static str,
    paper: &'a str,
    full: bool,
    output: String,
    rows: usize,
    met: usize,
    differs: usize,
    not_judged: usize,
}

pub(super) fn run(args: &Reproduce, output: Output) -> Result<Code> {
    let extent = if args.full { Extent::Full } else { Extent::Quick };
    let program = std::env::current_exe().context("the program that hosts are started from")?;
    let parts = args.paper.parts_named(&args.only)?;
    let request = Request {
        extent,
        parts: &parts,
        versions: args.versions.as_deref(),
        disk: args.disk.options(Some(&program)),
    };
    let mut report = Report::create(&args.output, args.paper, &request)?;
    let measured = Progress::new(cli_support::watch()?);
    progress::beside(output, args.paper.name, &|| status(&measured), || {
        let folder = &args.output;
        args.paper.run(&request, folder, &measured, &mut |experiment| {
            rows_at_once(&experiment, output).map_err(|source| SimulateError::Io {
                what: experiment.name.clone(),
                source,
            })?;
            report.add(experiment)
        })
    })?;
    let experiments = report.finish()?;
    tell(args, &experiments, output)?;
    Ok(Code::Success)
}

/// Is a host of an experiment.
pub(super) fn host(args: &Host) -> Result<Code> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    serve_host(&args.settings, &mut input, &mut output)?;
    Ok(Code::Success)
}

fn status(measured: &Progress) -> Status {
    Status {
        unit: WorkUnit::Bytes,
        done: measured.done(),
        total: measured.total(),
        current: measured.current().into_bytes(),
        ..Status::default()
    }
}

/// Prints each row as soon as it is known, for programs.
fn rows_at_once(experiment: &Experiment, output: Output) -> std::io::Result<()> {
    experiment.rows.iter().try_for_each(|row| {
        output.object(&RowLine {
            message_type: "lab_row",
            experiment: &experiment.name,
            title: &experiment.title,
            seeds: &experiment.seeds,
            row,
        })
    })
}

fn tell(args: &Reproduce, experiments: &[Experiment], output: Output) -> Result<()> {
    for experiment in experiments {
        output.result(format!("{} ({})", experiment.title, experiment.seeds.join(", ")))?;
        for row in &experiment.rows {
            let (verdict, reason) = match &row.verdict {
                Verdict::Met => ("met", ""),
                Verdict::Differs(reason) => ("differs", reason.as_str()),
                Verdict::NotJudged => ("", ""),
            };
            let reason = if reason.is_empty() {
                String::new()
            } else {
                format!(" ({reason})")
            };
            output.result(format!(
                "  {verdict:<8}{}: {}; the paper: {}{reason}",
                row.what, row.ours, row.paper
            ))?;
        }
    }
    let rows = || experiments.iter().flat_map(|experiment| &experiment.rows);
    let reproduced = Reproduced {
        message_type: "lab_reproduced",
        paper: args.paper.name,
        full: args.full,
        output: args.output.display().to_string(),
        rows: rows().count(),
        met: rows().filter(|row| row.verdict == Verdict::Met).count(),
        differs: rows()
            .filter(|row| matches!(row.verdict, Verdict::Differs(_)))
            .count(),
        not_judged: rows().filter(|row| row.verdict == Verdict::NotJudged).count(),
    };
    output.line(format!(
        "{} rows are met, {} differ, {} are not judged; plots are in {}",
        reproduced.met, reproduced.differs, reproduced.not_judged, reproduced.output
    ))?;
    output.object(&reproduced)?;
    Ok(())
}
