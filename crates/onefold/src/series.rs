//! The settings of a series: its layout, and related values.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use chunking::{NODE_AVG_CHILDREN_MAX, NODE_AVG_CHILDREN_MIN};
use env::{Moment, StorageError};
use format::frame::ObjectKind;
use format::manifest::SeriesName;
use format::names;
use format::series::{ArchivalWindow, Layout, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SeriesSettings};
use object::{Next, ObjectError, Revisions};
use tree::Roots;
use types::{Revision, SeriesId};

use crate::error::{Error, Result};
use crate::settings::SettingsChange;
use crate::store::Store;
use crate::warning::Warning;

/// The source of a series' settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsOf {
    /// The series has settings of its own.
    Series,
    /// The store's default.
    Default,
    /// There are no settings, so the built-in ones apply.
    Nothing,
}

/// A series of backups.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Series {
    /// Its folder's name.
    pub id: SeriesId,
    /// Its name.
    pub name: SeriesName,
    /// Its settings.
    pub settings: SeriesSettings,
    /// The source of these settings.
    pub source: SettingsOf,
    /// How many backups it has that are not forgotten.
    pub backups: u64,
}

/// The series of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeriesList {
    /// By name.
    pub series: Vec<Series>,
    /// The settings for series without settings of their own, and their source.
    pub default: (SeriesSettings, SettingsOf),
    /// Settings that cannot be read, and the damage. Older ones count instead.
    pub damaged: Vec<Warning>,
}

/// The settings in a store: the highest readable ones of each series.
#[derive(Debug, Default)]
pub(crate) struct AllSettings {
    of: BTreeMap<Option<SeriesId>, SeriesSettings>,
    /// Series of which the newest settings, or all, cannot be read.
    unsure: BTreeSet<Option<SeriesId>>,
    pub(crate) damaged: Vec<Warning>,
}

impl AllSettings {
    /// Reads the settings of the wanted series, and the default.
    pub(crate) fn read(store: &Store, wanted: impl Fn(SeriesId) -> bool) -> Result<Self> {
        Self::read_since(store, store.env.storage.moment(), wanted)
    }

    /// Like [`Self::read`], by a listing as of any moment after `since`.
    pub(crate) fn read_since(
        store: &Store,
        since: Moment,
        wanted: impl Fn(SeriesId) -> bool,
    ) -> Result<Self> {
        let mut revisions: BTreeMap<Option<SeriesId>, Vec<Revision>> = BTreeMap::new();
        let listed = store.env.storage.list_since(names::SERIES_FOLDER, since)?;
        let listed = listed.iter().filter_map(|meta| names::parse_settings(&meta.name));
        for (series, revision) in listed {
            if series.is_none_or(&wanted) {
                revisions.entry(series).or_default().push(revision);
            }
        }
        let mut all = Self::default();
        for (series, mut revisions) in revisions {
            revisions.sort_unstable();
            for revision in revisions.into_iter().rev() {
                let name = names::settings(series, revision);
                match store
                    .sealer
                    .read(&name, ObjectKind::Series, SeriesSettings::decode)
                {
                    Ok(settings) => {
                        all.of.insert(series, settings);
                        break;
                    }
                    Err(error) if is_unreadable(&error) => {
                        all.unsure.insert(series);
                        all.damaged.push(Warning::SettingsUnread {
                            why: error.to_string(),
                        });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(all)
    }

    /// The settings that apply to a series, and their source. `None`: those for series without
    /// settings of their own.
    pub(crate) fn of(
        &self,
        series: Option<SeriesId>,
        name: Option<&SeriesName>,
    ) -> (SeriesSettings, SettingsOf) {
        let own = series.and_then(|series| self.of.get(&Some(series)));
        if let Some(own) = own {
            return (own.clone(), SettingsOf::Series);
        }
        let (default, source) = match self.of.get(&None) {
            Some(default) => (default.clone(), SettingsOf::Default),
            None => (SeriesSettings::unset(None), SettingsOf::Nothing),
        };
        let name = name.cloned();
        (SeriesSettings { name, ..default }, source)
    }

    /// Whether the settings of a series are certainly the newest. No backup is forgotten by
    /// settings that may be out of date.
    pub(crate) fn are_sure(&self, series: SeriesId) -> bool {
        let own = Some(series);
        let counts = if self.of.contains_key(&own) { own } else { None };
        !self.unsure.contains(&own) && !self.unsure.contains(&counts)
    }
}

/// Whether a single object cannot be read. One bad sector must not prevent the backups of every
/// series.
fn is_unreadable(error: &ObjectError) -> bool {
    let of_storage =
        |error: &StorageError| error.is_of_medium() || matches!(error, StorageError::NotFound { .. });
    error.is_damage() || matches!(error, ObjectError::Storage(error) if of_storage(error))
}

impl SettingsChange {
    fn applied(&self, to: &SeriesSettings) -> SeriesSettings {
        SeriesSettings {
            name: to.name.clone(),
            layout: self.layout.unwrap_or(to.layout),
            live_window: self.live_window.unwrap_or(to.live_window),
            archival_window: self.archival_window.unwrap_or(to.archival_window),
            segment_bytes: self.segment_bytes.unwrap_or(to.segment_bytes),
            optimize_after_backup: self.optimize_after_backup.unwrap_or(to.optimize_after_backup),
            repair_percent: self.repair_percent.unwrap_or(to.repair_percent),
        }
    }

    /// Whether it suits a new store whose chunks have this average length.
    pub(crate) fn check(&self, chunk_avg_bytes: u32) -> Result<()> {
        self.checked(&SeriesSettings::unset(None), chunk_avg_bytes)
            .map(drop)
    }

    /// The settings after the change, for a store whose chunks have this average length.
    fn checked(&self, to: &SeriesSettings, chunk_avg_bytes: u32) -> Result<SeriesSettings> {
        let settings = self.applied(to);
        if settings.layout == Layout::Inline {
            let idle = [
                (self.live_window.is_some(), "a live window"),
                (self.archival_window.is_some(), "an archival window"),
                (self.segment_bytes.is_some(), "a segment length"),
            ];
            if let Some((_, what)) = idle.iter().find(|(is_said, _)| *is_said) {
                return Err(Error::Setting(format!(
                    "{what} says nothing for layout inline; set layout hybrid, too"
                )));
            }
            if self.optimize_after_backup.is_some() && settings.repair_percent == 0 {
                return Err(Error::Setting(
                    "whether backups are followed by optimize says nothing for layout inline without repair; set layout \
                     hybrid, or what repair may copy, too"
                        .to_owned(),
                ));
            }
            return Ok(settings);
        }
        let segment = settings.segment_bytes;
        let least = SEGMENT_BYTES_MIN.max(chunk_avg_bytes.saturating_mul(NODE_AVG_CHILDREN_MIN));
        let most = SEGMENT_BYTES_MAX.min(chunk_avg_bytes.saturating_mul(NODE_AVG_CHILDREN_MAX));
        if !segment.is_power_of_two() || !(least..=most).contains(&segment) {
            return Err(Error::Setting(format!(
                "a segment cannot have {segment} bytes on average: with chunks of {chunk_avg_bytes} bytes a power of two \
                 from {least} to {most} is needed"
            )));
        }
        if settings.live_window == 0 {
            return Err(Error::Setting("at least one backup is kept live".to_owned()));
        }
        Ok(settings)
    }
}

/// The paths in the name of the series of a backup of these paths. A relative path begins at
/// `current_folder`, which is absolute.
#[must_use]
pub fn root_paths(current_folder: &Path, paths: &[PathBuf]) -> Vec<Vec<u8>> {
    Roots::new(current_folder, paths).paths()
}

impl Store {
    /// The id of the series of this name.
    #[must_use]
    pub fn series_id(&self, name: &SeriesName) -> SeriesId {
        self.sealer.key().series_id(&name.to_bytes())
    }

    /// Every series with backups or settings of its own.
    ///
    /// # Errors
    /// Of the storage; settings of a newer version.
    pub fn series(&self) -> Result<SeriesList> {
        let all = AllSettings::read(self, |_| true)?;
        let mut found: BTreeMap<SeriesId, (SeriesName, u64)> = BTreeMap::new();
        for (id, settings) in &all.of {
            if let (Some(id), Some(name)) = (id, &settings.name) {
                found.insert(*id, (name.clone(), 0));
            }
        }
        for entry in self.manifests.list()?.backups() {
            let Some(backup) = entry.backup() else { continue };
            let new = || (backup.series.clone(), 0);
            found.entry(entry.series()).or_insert_with(new).1 += 1;
        }
        let series = found.into_iter().map(|(id, (name, backups))| {
            let (settings, source) = all.of(Some(id), Some(&name));
            Series {
                id,
                name,
                settings,
                source,
                backups,
            }
        });
        let mut series: Vec<Series> = series.collect();
        series.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
        Ok(SeriesList {
            series,
            default: all.of(None, None),
            damaged: all.damaged,
        })
    }

    /// The settings that apply to a series, and their source. The series need not have a backup.
    ///
    /// # Errors
    /// Of the storage; settings of a newer version.
    pub fn series_settings(&self, name: &SeriesName) -> Result<(SeriesSettings, SettingsOf)> {
        let id = self.series_id(name);
        let all = AllSettings::read(self, |series| series == id)?;
        Ok(all.of(Some(id), Some(name)))
    }

    /// Changes the settings of a series, and returns those that then apply. Values that the series
    /// had no setting for are copied from the present default, and no longer follow it. Durable on
    /// return.
    ///
    /// # Errors
    /// Settings that no series can have, or that have no effect; of the storage.
    pub fn set_series_settings(&self, name: &SeriesName, change: &SettingsChange) -> Result<SeriesSettings> {
        name.check().map_err(|error| Error::Setting(error.to_string()))?;
        self.change_settings(Some(name), change)
    }

    /// Like [`Self::set_series_settings`], for all series without settings of their own.
    ///
    /// # Errors
    /// Those of [`Self::set_series_settings`].
    pub fn set_default_series_settings(&self, change: &SettingsChange) -> Result<SeriesSettings> {
        self.change_settings(None, change)
    }

    fn change_settings(&self, name: Option<&SeriesName>, change: &SettingsChange) -> Result<SeriesSettings> {
        self.ensure_writable()?;
        // A listing from before the change must not serve a backup after it.
        self.first_listings.take(&self.env);
        let id = name.map(|name| self.series_id(name));
        let revisions = Revisions::new(
            &self.sealer,
            ObjectKind::Series,
            names::SERIES_FOLDER,
            move |revision| names::settings(id, revision),
            move |name| {
                let (series, revision) = names::parse_settings(name)?;
                (series == id).then_some(revision)
            },
        );
        let (mut wanted, mut has_window) = (None, false);
        revisions.create_next(|head| {
            // Read again: the change applies to settings that another process has put meanwhile.
            let all = AllSettings::read(self, |series| Some(series) == id)?;
            let (now, _) = all.of(id, name);
            let settings = change.checked(&now, self.settings().chunk_avg_bytes)?;
            let bytes = settings.to_bytes();
            let is_done = matches!(head.map(|head| &head.plain), Some(Ok(plain)) if *plain == bytes);
            let windows = [&now, &settings].map(|one| one.archival_window);
            has_window = !is_done
                && windows
                    .iter()
                    .any(|window| matches!(window, ArchivalWindow::Newest(_)));
            wanted = Some(settings);
            Ok::<_, Error>(if is_done { Next::Stop } else { Next::Create(bytes) })
        })?;
        if let Some(settings) = wanted.as_ref().filter(|_| has_window) {
            // `optimize` forgets backups by a window. So the revision below must have the same
            // content, in case the newest one is lost.
            let bytes = settings.to_bytes();
            revisions.create_next(|head| {
                let is_same = matches!(head.map(|head| &head.plain), Some(Ok(plain)) if *plain == bytes);
                Ok::<_, Error>(if is_same {
                    Next::Create(bytes.clone())
                } else {
                    Next::Stop
                })
            })?;
        }
        self.sealer.barrier()?;
        wanted.ok_or_else(|| {
            Error::Object(ObjectError::Contended {
                what: names::SERIES_FOLDER.to_owned(),
                attempts: 0,
            })
        })
    }
}
