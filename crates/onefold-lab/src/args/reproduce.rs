//! Arguments of `onefold-lab reproduce` and `plot`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use lab::LabError;
use lab::reproduce::{Access, DiskOptions, PAPERS, Paper};

#[derive(Debug, Args)]
pub(crate) struct Reproduce {
    /// The paper
    #[arg(value_name = "PAPER", value_parser = paper())]
    pub(crate) paper: &'static Paper,
    /// Write README.md, results.json and a plot NAME.svg for each figure to this folder, which must
    /// be empty or new
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Measure at the paper's scale, as far as a machine with 16 GiB of memory allows. It takes one
    /// to eleven hours, and up to 60 GiB of disk; the results begin with what it measures. Without
    /// this option, the scale is smaller, and the run takes minutes
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
    #[command(flatten, next_help_heading = "Options of papers with loads on disks (dais14)")]
    pub(crate) disk: Disk,
}

#[derive(Debug, Args)]
pub(crate) struct Disk {
    /// Write contents with the duplicates of this file, as DEDISbench has them: each line has the
    /// number of duplicates of a content, and the number of such contents
    #[arg(long, value_name = "FILE")]
    pub(crate) distribution: Option<PathBuf>,
    /// Choose blocks in this way (default: hotspots)
    #[arg(long, value_name = "HOW", value_parser = access())]
    pub(crate) access: Option<Access>,
    /// Run each load for so many minutes, such as 30 or 0.5
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    pub(crate) minutes: Option<Duration>,
    /// Begin an iteration of the finder after so many seconds
    #[arg(long, value_name = "SECONDS")]
    pub(crate) interval_s: Option<u32>,
    /// Run so many hosts at once (may be a list)
    #[arg(
        long,
        value_name = "COUNT",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=100)
    )]
    pub(crate) hosts: Vec<u16>,
}

impl Reproduce {
    /// Checks that every option has an effect.
    ///
    /// # Errors
    /// An option has none, or a part is unknown.
    pub(super) fn check(&self) -> Result<(), LabError> {
        let parts = self.paper.parts_named(&self.only)?;
        let disk = self.disk.options(None);
        self.paper.check_options(&parts, self.versions.is_some(), &disk)
    }
}

impl Disk {
    /// As the laboratory takes them. `program` is a host.
    pub(crate) fn options<'a>(&'a self, program: Option<&'a Path>) -> DiskOptions<'a> {
        DiskOptions {
            distribution: self.distribution.as_deref(),
            access: self.access,
            load: self.minutes,
            interval_s: self.interval_s,
            hosts: &self.hosts,
            host_program: program,
        }
    }
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

#[derive(Debug, Args)]
pub(crate) struct Host {
    /// The settings, as `reproduce` gives them
    #[arg(value_name = "JSON")]
    pub(crate) settings: String,
}

/// Parses a way to choose blocks.
fn access() -> impl TypedValueParser<Value = Access> {
    let names = Access::ALL.map(|access| PossibleValue::new(access.name()));
    PossibleValuesParser::new(names).map(|name| {
        let mut all = Access::ALL.into_iter();
        all.find(|access| access.name() == name)
            .expect("no other name is possible")
    })
}

/// Parses minutes, up to a week.
fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: Option<f64> = text.parse().ok();
    let minutes = minutes.filter(|minutes| *minutes > 0.0 && *minutes <= 7.0 * 24.0 * 60.0);
    let seconds = minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes));
    seconds.ok_or_else(|| format!("`{text}` is no number of minutes above 0 and up to a week"))
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
