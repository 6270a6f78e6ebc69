//! Arguments of `onefold-lab reproduce`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lab::reproduce::{PAPERS, Paper};

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// The paper
    #[arg(value_name = "PAPER", value_parser = paper())]
    pub(crate) paper: &'static Paper,
    /// Write README.md, a plot NAME.svg for each figure and results.json to this folder, which must
    /// be empty or not exist
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Measure at the paper's scale as far as an hour and 16 GiB go, not at a smaller one in
    /// minutes
    #[arg(long)]
    pub(crate) full: bool,
    /// Measure this part of the paper alone, or these; a name that it has not is refused with those
    /// that it has
    #[arg(long, value_name = "PART")]
    pub(crate) only: Vec<String>,
    /// Measure versions of real data too, where a part does: each file or folder in this one is a
    /// version, oldest first by name
    #[arg(long, value_name = "FOLDER")]
    pub(crate) versions: Option<PathBuf>,
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
