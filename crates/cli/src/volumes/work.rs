//! Does requests on an open pool. Any number of threads may.

use std::sync::Arc;

use volume::{Pool, Volume};

use super::exports::ServedExports;
use super::figures::{PoolFigures, VolumeFigures};
use super::request::{Answer, Kind, Refusal, Request};

/// Is called with the bytes that are done and all bytes. The work ends early if it returns `false`.
pub(crate) type Progress<'a> = &'a mut dyn FnMut(u64, u64) -> bool;

/// A pool, and the clients of its server if it has one.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) pool: &'a Pool,
    pub(super) served: Option<&'a ServedExports>,
}

impl Site<'_> {
    /// Does a request.
    pub(super) fn perform(self, request: &Request, progress: Progress<'_>) -> Result<Answer, Refusal> {
        match request {
            Request::Stats => Ok(Answer::Stats(self.figures()?)),
            Request::Grow { bytes } => {
                let before_bytes = self.pool.stats()?.pool_bytes;
                self.pool.grow(*bytes)?;
                let pool_bytes = self.pool.stats()?.pool_bytes;
                Ok(Answer::Grown {
                    before_bytes,
                    pool_bytes,
                })
            }
            Request::Create { name, bytes, change } => {
                let settings = change.of(volume::VolumeSettings::default());
                let volume = self.pool.create_volume(name, *bytes, settings)?;
                Ok(self.volume_answer(&volume))
            }
            Request::Remove { name, force } => self.remove(name, *force, progress),
            Request::Resize { name, bytes, force } => self.resize(name, *bytes, *force),
            Request::Set { name, change } => {
                let volume = self.pool.volume(name)?;
                volume.set(change.of(volume.settings()))?;
                Ok(self.volume_answer(&volume))
            }
            Request::Drain { name } => self.drain(name.as_deref(), progress),
        }
    }

    fn connections(self, name: &str) -> u64 {
        self.served.map_or(0, |exports| exports.connections(name))
    }

    fn figures(self) -> Result<PoolFigures, Refusal> {
        let failed = self.pool.failed().into_iter();
        let failed = failed.map(|(id, why)| format!("volume number {id} cannot be recovered: {why}"));
        Ok(PoolFigures::of(
            &self.pool.stats()?,
            failed.collect(),
            self.served.is_some(),
            &|name| self.connections(name),
        ))
    }

    fn volume_answer(self, volume: &Volume) -> Answer {
        let stats = volume.stats();
        let connections = self.connections(&stats.name);
        Answer::Volume(Box::new(VolumeFigures::of(&stats, connections)))
    }

    /// Does something that no client of the volume may see.
    fn unused<T>(self, name: &str, work: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
        match self.served {
            Some(exports) => exports.unused(name, work),
            None => work(),
        }
    }

    fn remove(self, name: &str, force: bool, progress: Progress<'_>) -> Result<Answer, Refusal> {
        let (removed, mapped_bytes) = self.unused(name, || {
            let mapped_bytes = self.pool.volume(name)?.stats().mapped_bytes;
            if mapped_bytes > 0 && !force {
                let held = onefold::ByteLen::new(mapped_bytes);
                let why = format!(
                    "the volume {name:?} holds {held} of data; to remove it all the same, add --force"
                );
                return Err(Refusal::new(Kind::NeedsForce, why));
            }
            Ok((self.pool.remove_volume(name)?, mapped_bytes))
        })?;
        let mut done = 0;
        removed.dissolve(&mut |bytes| {
            done += bytes;
            progress(done, mapped_bytes.max(done))
        })?;
        Ok(Answer::Removed { mapped_bytes })
    }

    fn resize(self, name: &str, bytes: u64, force: bool) -> Result<Answer, Refusal> {
        let volume = self.pool.volume(name)?;
        // Another request may change the length at the same time, so the volume compares them.
        if volume.lengthen(bytes)? {
            return Ok(self.volume_answer(&volume));
        }
        if !force {
            let why = format!(
                "the volume {name:?} has {}, and what is behind its new end would be lost; shrink the file system \
                 in it first, and then add --force",
                onefold::ByteLen::new(volume.len_bytes())
            );
            return Err(Refusal::new(Kind::NeedsForce, why));
        }
        self.unused(name, || Ok(volume.resize(bytes)?))?;
        Ok(self.volume_answer(&volume))
    }

    fn drain(self, name: Option<&str>, progress: Progress<'_>) -> Result<Answer, Refusal> {
        let volumes: Vec<Arc<Volume>> = match name {
            Some(name) => {
                let volume = self.pool.volume(name)?;
                if !volume.settings().deduplicate {
                    let why = format!(
                        "the volume {name:?} shares no blocks; to let it, run `onefold volume set POOL {name} \
                         --deduplicate on`"
                    );
                    return Err(Refusal::new(Kind::Invalid, why));
                }
                vec![volume]
            }
            None => {
                let all = self.pool.volumes().into_iter();
                all.filter(|volume| volume.settings().deduplicate).collect()
            }
        };
        let before = self.pool.stats()?;
        let (mut examined_bytes, mut was_ended) = (0, false);
        self.pool.drain(&volumes, &mut |examined, left| {
            examined_bytes += examined;
            was_ended = !progress(examined_bytes, examined_bytes + left);
            !was_ended
        })?;
        if name.is_none() {
            for removed in self.pool.removed() {
                removed.dissolve(&mut |_| {
                    was_ended = was_ended || !progress(examined_bytes, examined_bytes);
                    !was_ended
                })?;
            }
        }
        if was_ended {
            let why = "the drain was interrupted: what it shared stays so, and the next one continues";
            return Err(Refusal::new(Kind::Interrupted, why));
        }
        let after = self.pool.stats()?;
        Ok(Answer::Drained {
            examined_bytes,
            shared_bytes: difference(after.shared_bytes, before.shared_bytes),
            freed_bytes: difference(after.free_bytes, before.free_bytes),
        })
    }
}

fn difference(after: u64, before: u64) -> i64 {
    let size = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    size(after) - size(before)
}
