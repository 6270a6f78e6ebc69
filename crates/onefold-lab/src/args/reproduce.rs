//! Arguments of `onefold-lab reproduce` and `plot`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lab::reproduce::{PAPERS, Paper};

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// The paper
    #[arg(value_name = "PAPER", value_parser = paper())]
    pub(crate) paper: &'static Paper,
    /// Write README.md, results.json and a plot NAME.svg for each figure to this folder, which must
    /// be empty or new
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Measure at the paper's scale, as far as an hour and 16 GiB of memory allow. Without this
    /// option, the scale is smaller, and the run takes minutes
    #[arg(long)]
    pub(crate) full: bool,
    /// Measure this part of the paper only (may be repeated). The error for an unknown name lists
    /// all parts
    #[arg(long, value_name = "PART")]
    pub(crate) only: Vec<String>,
    /// Also measure real data, in the parts that can. Each file or folder in FOLDER is a version;
    /// the order of their names is their age, oldest first
    #[arg(long, value_name = "FOLDER")]
    pub(crate) versions: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Draw {
    /// A file of JSON lines, such as `results.json` of `reproduce`. Each plot in it is drawn
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write NAME.svg for each plot to this folder, in place of older ones
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
}

/// Parses the name of a paper.
fn paper() -> impl TypedValueParser<Value = &'static Paper> {
    let names = PAPERS
        .iter()
        .map(|paper| PossibleValue::new(paper.name).help(paper.title));
    PossibleValuesParser::new(names).map(|name| {
        let mut papers = PAPERS.iter();
        papers
            .find(|paper| paper.name == name)
            .expect("no other name is possible")
    })
}
