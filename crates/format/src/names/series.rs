//! Names of the settings of series.

use types::{ObjectName, Revision, SeriesId};

use super::parts::{parse_revision, under};
use super::{name, parse_series};

/// The folder of the settings of series.
pub const SERIES_FOLDER: &str = "series";
/// The name part of the settings for series without their own.
const DEFAULT: &str = "default";

/// `series/<series>.<revision>`. For `None`, `series/default.<revision>`: the settings of series
/// without their own.
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
