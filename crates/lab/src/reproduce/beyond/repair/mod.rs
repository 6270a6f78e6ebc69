//! Layout repair of inline series, by the engine: does the newest backup restore as if it were
//! alone, while every chunk is stored once? (L9)
//!
//! The data are '2year', of which the last 30 backups are kept, and versions of real data, all of
//! which are kept. Each backup is stored in three stores: without a cap, without a cap but repaired
//! after each backup, and with the default cap. It is also stored alone in a store of its own,
//! which is the perfect one to restore from.

mod report;
mod series;

use super::super::stores::content;
use super::super::{Extent, Part, Run, versions};
use crate::error::LabError;
use crate::generate::TwoYear;
use crate::reproduce::figures::{megabytes, mib, number};
use series::{Setting, Stores};

/// The part of this experiment.
pub(super) const REPAIR: Part = Part("repair");

/// Backups of '2year' that are kept, and backups of a week.
const KEPT: usize = 30;
const WEEK: usize = 5;
/// Bytes that repair may rewrite, in percent of newly stored bytes.
const PERCENT: u16 = 100;
/// Stores that report progress for each backup: three, and one of its own.
const STORES: u64 = 4;

/// How much is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Size {
    /// Bytes of the first snapshot of '2year', and weeks.
    two_year: (u64, u32),
    container_bytes: u32,
    /// The number of last weeks whose backups are restored.
    weeks_restored: usize,
    /// Bytes of a container for versions of real data, one experiment each. They are small, because
    /// the versions are compressed.
    containers_of_versions: [u32; 2],
    /// The number of last versions that are restored.
    versions_restored: usize,
}

impl Size {
    fn of(extent: Extent) -> Self {
        let quick = Self {
            two_year: (256_000_000, 12),
            container_bytes: 1 << 20,
            weeks_restored: 4,
            containers_of_versions: [256 << 10, 1 << 20],
            versions_restored: 10,
        };
        match extent {
            Extent::Quick => quick,
            Extent::Full => Self {
                two_year: (256_000_000, 30),
                container_bytes: 2 << 20,
                ..quick
            },
        }
    }
}

/// Measures '2year', and versions of real data if they are given.
pub(super) fn run(run: &mut Run<'_>) -> Result<(), LabError> {
    run_all(&Size::of(run.extent), run)
}

fn run_all(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    two_year(size, run)?;
    let Some(folder) = run.versions else {
        return Ok(());
    };
    for container_bytes in size.containers_of_versions {
        of_versions(size, folder, container_bytes, run)?;
    }
    Ok(())
}

fn two_year(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    let (snapshot_bytes, weeks) = size.two_year;
    let load = TwoYear {
        snapshot_bytes,
        weeks,
        ..TwoYear::default()
    };
    let backups = WEEK * weeks as usize;
    let setting = Setting {
        container_bytes: size.container_bytes,
        kept: KEPT,
        backups,
        restored: WEEK * size.weeks_restored,
        percent: PERCENT,
    };
    // Files grow by 2 % of the first snapshot each time. A fifth of the backups is full, and the
    // others hold some 4 %.
    let mean = snapshot_bytes + snapshot_bytes / 100 * backups as u64;
    let expected = STORES * backups as u64 * (mean / 5 + mean / 25);
    run.progress.expect(expected);
    run.progress.begin("layout repair, 2year");
    let before = run.progress.done();
    let mut stores = Stores::new(setting)?;
    content::each(&load, |content| stores.back_up(content, run.progress))?;
    run.progress.correct(expected, run.progress.done() - before);
    let measured = stores.finish()?;
    let no_versions = if run.versions.is_none() {
        " Versions of real data were not given."
    } else {
        ""
    };
    let data = format!(
        "2year-cycle{KEPT}, {} at first, {backups} backups, seed {}.{no_versions}",
        megabytes(snapshot_bytes),
        load.seed
    );
    run.report(report::experiment("repair-2year", "'2year'", &data, &measured))
}

fn of_versions(
    size: &Size,
    folder: &std::path::Path,
    container_bytes: u32,
    run: &mut Run<'_>,
) -> Result<(), LabError> {
    let paths = versions::paths(folder)?;
    let setting = Setting {
        container_bytes,
        kept: paths.len(),
        backups: paths.len(),
        restored: size.versions_restored,
        percent: PERCENT,
    };
    let first = paths.first().map_or(Ok(0), |path| versions::bytes(path))?;
    let expected = STORES * first * paths.len() as u64;
    run.progress.expect(expected);
    run.progress.begin("layout repair, versions of real data");
    let before = run.progress.done();
    let mut stores = Stores::new(setting)?;
    for path in &paths {
        stores.back_up(&versions::content("versions", path)?, run.progress)?;
    }
    run.progress.correct(expected, run.progress.done() - before);
    let measured = stores.finish()?;
    let name = |path: Option<&std::path::PathBuf>| {
        let name = path.and_then(|path| path.file_name());
        name.unwrap_or_default().to_string_lossy().into_owned()
    };
    let mean = measured.bytes() / paths.len().max(1) as u64;
    let data = format!(
        "{} versions of real data, {} to {}, {:.1} MB on average, all kept.",
        paths.len(),
        name(paths.first()),
        name(paths.last()),
        number(mean) / 1e6
    );
    let what = format!("versions, containers of {} MiB", mib(container_bytes.into()));
    let name = format!("repair-versions-{}k", container_bytes >> 10);
    run.report(report::experiment(&name, &what, &data, &measured))
}

#[cfg(test)]
mod tests;
