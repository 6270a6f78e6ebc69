//! Names of the settings of series.

use types::{ObjectName, Revision, SeriesId};

use super::parts::{parse_revision, under};
use super::{name, parse_series};

/// The folder of the settings of series.
pub const SERIES_FOLDER: &str = "series";
/// Stands for the series that have no settings of their own.
const DEFAULT: &str = "default";

/// `series/<series>.<revision>`; of `None`, `series/default.<revision>`: what holds for series
/// without settings of their own.
#[must_use]
pub fn settings(series: Option<SeriesId>, revision: Revision) -> ObjectName {
    match series {
        Some(series) => name(format_args!("{SERIES_FOLDER}/{series}.{revision}")),
        None => name(format_args!("{SERIES_FOLDER}/{DEFAULT}.{revision}")),
    }
}

/// The inverse of [`settings`].
#[must_use]
pub fn parse_settings(name: &ObjectName) -> Option<(Option<SeriesId>, Revision)> {
    let (series, revision) = under(name, SERIES_FOLDER)?.split_once('.')?;
    let series = if series == DEFAULT {
        None
    } else {
        Some(parse_series(series)?)
    };
    Some((series, parse_revision(revision)?))
}
