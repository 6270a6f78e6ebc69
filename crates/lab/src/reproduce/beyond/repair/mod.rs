//! Layout repair of inline series, by the engine: does the newest backup restore as if it lay
//! alone, with every chunk stored once? (L9)
//!
//! '2year' of which the last 30 backups are kept, and versions of real data, all kept. Each backup
//! goes into three stores: without a cap, without a cap and repaired after each backup, and with
//! the default cap; and alone into a store of its own, which is the perfect one to restore from.

mod report;
mod series;

use super::super::stores::content;
use super::super::{Extent, Part, Run, versions};
use crate::error::LabError;
use crate::generate::TwoYear;
use crate::reproduce::figures::{megabytes, mib, number};
use series::{Setting, Stores};

/// What is measured here.
pub(super) const REPAIR: Part = Part("repair");

/// Backups of '2year' that are kept, of how many a week has.
const KEPT: usize = 30;
const WEEK: usize = 5;
/// Bytes that may be rewritten, in percent of those stored anew.
const PERCENT: u16 = 100;
/// Of so many stores is told how far they are: each backup goes into three, and into one of its
/// own.
const STORES: u64 = 4;

/// How much is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Size {
    /// Bytes of '2year' at first, and weeks.
    two_year: (u64, u32),
    container_bytes: u32,
    /// Weeks whose backups are restored.
    weeks_restored: usize,
    /// Bytes of a container for versions of real data, one after another: small, as they are
    /// compressed.
    containers_of_versions: [u32; 2],
    /// Versions that are restored.
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

/// Measures both.
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
    // Files grow by 2 % of the first bytes each time; a fifth of the backups is full, the others
    // hold some 4 %.
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
