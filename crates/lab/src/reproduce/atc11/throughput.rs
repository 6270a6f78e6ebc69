//! Concurrent backups of many streams, of unique and of duplicate data, by the whole engine [Guo
//! 4.1, 4.3] (G6, G10, G11, G12).

use std::time::Duration;

use index::{Hook, Index, IndexOptions};
use onefold::{AssembleOptions, OpenOptions, SessionId};

use super::chunks::{self, CONTAINER_CHUNKS};
use super::engine::{Engine, Payload, Ran, Unique, cores, ingest_options};
use super::share;
use crate::error::LabError;
use crate::reproduce::Progress;

/// Memory of look-ups for all streams together: at least a MiB for each.
const LOOKUP_BYTES: u64 = 64 << 20;
/// The seed of hooks that only fill the index.
const FILLING: u64 = 31;
/// Containers of each session that only fills the index.
const FILLING_CONTAINERS: u64 = 2048;
/// The first number of the sessions that only the index has, far from those of backups.
const FILLING_SESSIONS: u64 = 1 << 30;

/// Settings of the backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Setting {
    /// Number of concurrent backups.
    pub(super) streams: u64,
    /// Bytes of all backups together.
    pub(super) bytes: u64,
    /// Fingerprinting threads of each backup; `None`: the streams share the cores.
    pub(super) workers: Option<usize>,
    /// The form of the index.
    pub(super) index: IndexForm,
}

/// Where hooks are when they are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IndexForm {
    /// In sorted runs, as the paper's on SSD: memory holds only what look-ups touch.
    Runs,
    /// All in memory.
    Memory,
    /// In sorted runs with this budget in bytes. Nine tenths are used beforehand.
    NearFull(u64),
    /// In sorted runs with the same budget, empty beforehand.
    Empty(u64),
}

/// Rates of one setting, in MB (10^6) a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) setting: Setting,
    /// Backups of new data.
    pub(super) unique: f64,
    /// Backups of the same data, by a store that was just opened.
    pub(super) duplicates: f64,
    /// Backups of the same data right afterwards.
    pub(super) again: f64,
    /// The share of duplicates that was found, in the worse of both runs.
    pub(super) found: f64,
    /// The share of the index's budget that was used before the first backup.
    pub(super) index_used: f64,
}

impl IndexForm {
    fn options(self) -> OpenOptions {
        let default = OpenOptions::default();
        match self {
            Self::Runs => default,
            Self::Memory => default.index_memory_bytes_max(Some(256 << 20)),
            Self::NearFull(bytes) | Self::Empty(bytes) => default.index_bytes_max(bytes),
        }
    }
}

/// Backs up unique streams three times.
pub(super) fn back_up(setting: Setting, progress: &Progress) -> Result<Rates, LabError> {
    let options = setting.index.options();
    let mut engine = Engine::new(Payload::GivenUp, &options)?;
    let mut index_used = 0.0;
    if let IndexForm::NearFull(bytes) = setting.index {
        fill_runs(&engine, bytes, progress)?;
        index_used = share(engine.stats()?.index.bytes, bytes);
    }
    let workers = setting
        .workers
        .unwrap_or_else(|| (cores() as u64 / setting.streams).max(1).try_into().unwrap_or(1));
    let lookup_bytes = (LOOKUP_BYTES / setting.streams).max(1 << 20);
    let ingest = ingest_options(workers, lookup_bytes);
    let each = setting.bytes / setting.streams;
    let run = |engine: &Engine| -> Result<(f64, f64), LabError> {
        let jobs = Unique::jobs(0..setting.streams, each, progress);
        let ran = engine.back_up(jobs, &ingest, progress)?;
        Ok((ran.megabytes_a_second(), ran.found()))
    };
    let (unique, _) = run(&engine)?;
    engine.reopen(&options)?;
    let (duplicates, found) = run(&engine)?;
    let (again, found_again) = run(&engine)?;
    Ok(Rates {
        setting,
        unique,
        duplicates,
        again,
        found: found.min(found_again),
        index_used,
    })
}

impl Ran {
    fn bytes(&self) -> u64 {
        self.reports
            .iter()
            .map(|report| report.totals.bytes_logical)
            .sum()
    }

    pub(super) fn megabytes_a_second(&self) -> f64 {
        megabytes_a_second(self.bytes(), self.elapsed)
    }

    /// The share of bytes that was not stored.
    pub(super) fn found(&self) -> f64 {
        let new: u64 = self.reports.iter().map(|report| report.totals.bytes_new).sum();
        1.0 - share(new, self.bytes())
    }
}

/// A rate in MB (10^6 bytes) a second.
pub(super) fn megabytes_a_second(bytes: u64, took: Duration) -> f64 {
    share(bytes, 1_000_000) / took.as_secs_f64().max(1e-9)
}

/// Adds hooks of nonexistent containers to a store's index, until nine tenths of its bytes are
/// used.
fn fill_runs(engine: &Engine, bytes: u64, progress: &Progress) -> Result<(), LabError> {
    let options = IndexOptions {
        bytes_max: bytes,
        pending_bytes_max: 256 << 20,
        ..IndexOptions::default()
    };
    let failed = |error: index::IndexError| LabError::from(onefold::Error::from(error));
    let storage = std::sync::Arc::clone(&engine.env().storage);
    let index = Index::open(storage, engine.store().id(), options).map_err(failed)?;
    let (mut container, mut session) = (0, FILLING_SESSIONS);
    let mut prints = Vec::new();
    loop {
        let used = index.stats().bytes;
        let left = (bytes * 9 / 10).saturating_sub(used);
        // A hook takes some six bytes in a run.
        let containers = (left / 6 / CONTAINER_CHUNKS).min(FILLING_CONTAINERS);
        if containers == 0 {
            return Ok(());
        }
        let mut hooks: Vec<Hook> = Vec::new();
        for n in container..container + containers {
            prints.clear();
            chunks::sampled(FILLING, n, index::sampling::SamplingRate::ONE, &mut prints);
            hooks.extend(chunks::hooks(n, &prints).map(|hook| Hook {
                container: types::ContainerId {
                    session: SessionId::new(session).expect("far below the greatest"),
                    ..hook.container
                },
                ..hook
            }));
            progress.advance(0)?;
        }
        let of = SessionId::new(session).expect("far below the greatest");
        index.add_session(of, hooks).map_err(failed)?;
        container += containers;
        session += 1;
    }
}

/// Rates of so many concurrent restores, in MB (10^6) a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Restored {
    pub(super) streams: u64,
    pub(super) rate: f64,
    /// MiB for each container read.
    pub(super) speed_factor: f64,
}

/// Backs up unique streams, and deletes the index. Then it restores one stream, then two
/// concurrently, and so on: no restore asks the index [Guo 3.2] (G2).
pub(super) fn restore(
    streams: &[u64],
    bytes_each: u64,
    progress: &Progress,
) -> Result<Vec<Restored>, LabError> {
    let engine = Engine::new(Payload::Kept, &OpenOptions::default())?;
    let most = streams.iter().copied().max().unwrap_or(0);
    let ingest = ingest_options(cores(), LOOKUP_BYTES / most.max(1));
    let ran = engine.back_up(Unique::jobs(0..most, bytes_each, progress), &ingest, progress)?;
    let ids: Vec<SessionId> = ran.reports.iter().map(|report| report.id).collect();
    let storage = &engine.env().storage;
    let failed = |error: env::StorageError| LabError::from(onefold::Error::from(error));
    for object in storage.list(format::names::INDEX_FOLDER).map_err(failed)? {
        storage.delete(&object.name).map_err(failed)?;
    }
    let mut told = Vec::new();
    for streams in streams {
        let count = usize::try_from(*streams).unwrap_or(usize::MAX).min(ids.len());
        let (took, stats) = engine.restore(&ids[..count], AssembleOptions::for_cores(cores()))?;
        let bytes: u64 = stats.iter().map(|one| one.bytes).sum();
        progress.advance(bytes)?;
        let read: u64 = stats.iter().map(|one| one.containers_read).sum();
        told.push(Restored {
            streams: *streams,
            rate: megabytes_a_second(bytes, took),
            speed_factor: share(bytes, read) / f64::from(1 << 20),
        });
    }
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(index: IndexForm) -> Setting {
        Setting {
            streams: 3,
            bytes: 6 << 20,
            workers: None,
            index,
        }
    }

    #[test]
    fn simultaneous_streams_are_found_again_with_every_index() {
        let progress = Progress::new(std::sync::Arc::default());
        let forms = [
            IndexForm::Runs,
            IndexForm::Memory,
            IndexForm::Empty(2 << 20),
            IndexForm::NearFull(2 << 20),
        ];
        for form in forms {
            let rates = back_up(setting(form), &progress).unwrap();
            assert!(rates.unique > 0.0 && rates.duplicates > 0.0 && rates.again > 0.0);
            assert!(rates.found > 0.999, "{rates:?}");
            let is_near = matches!(form, IndexForm::NearFull(_));
            let used = if is_near { 0.8..0.95 } else { 0.0..0.001 };
            assert!(used.contains(&rates.index_used), "{rates:?}");
        }
    }

    #[test]
    fn restores_ask_no_index() {
        let progress = Progress::new(std::sync::Arc::default());
        let told = restore(&[1, 2], 5 << 20, &progress).unwrap();
        assert_eq!(told.iter().map(|one| one.streams).collect::<Vec<_>>(), [1, 2]);
        assert!(
            told.iter().all(|one| one.rate > 0.0 && one.speed_factor > 4.0),
            "{told:?}"
        );
        assert_eq!(progress.done(), (2 + 1 + 2) * (5 << 20));
    }
}
