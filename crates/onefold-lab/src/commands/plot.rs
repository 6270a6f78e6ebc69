//! `onefold-lab plot`

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

use anyhow::{Context, Result, bail};
use cli_support::output::count;
use cli_support::{Code, Output, private};
use serde::Deserialize;
use simulate::plot::{Plot, svg};

use crate::args::Draw;

/// A line of a file of results.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Plot(Plot),
    #[serde(other)]
    Other,
}

pub(super) fn run(args: &Draw, output: Output) -> Result<Code> {
    let name = args.file.display().to_string();
    let file = File::open(&args.file).with_context(|| name.clone())?;
    let mut drawn = 0;
    for (line, number) in BufReader::new(file).lines().zip(1..) {
        let place = || format!("{name}, line {number}");
        let line: Line = serde_json::from_str(&line.with_context(place)?).with_context(place)?;
        let Line::Plot(plot) = line else { continue };
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
        if plot.name.is_empty() || !plot.name.chars().all(is_name) {
            bail!("{}: `{}` can be no name of a file", place(), plot.name);
        }
        private::create_folder(&args.output).with_context(|| args.output.display().to_string())?;
        let path = args.output.join(format!("{}.svg", plot.name));
        let written = File::create(&path).and_then(|mut file| file.write_all(svg(&plot).as_bytes()));
        written.with_context(|| path.display().to_string())?;
        drawn += 1;
    }
    if drawn == 0 {
        return Err(io::Error::other("there is no plot in it")).context(name);
    }
    output.line(format!(
        "drew {} in {}",
        count(drawn, "plot", "plots"),
        args.output.display()
    ))?;
    Ok(Code::Success)
}
