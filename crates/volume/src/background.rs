//! The work of a pool beside requests: finder and collector by their intervals, checkpoints, free
//! extents ahead of need, removed volumes.
//!
//! Two threads: one for checkpoints and space, one for the finder and the collector, volume after
//! volume. They end between two batches.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use types::VolumeId;

use crate::core::LOG_BLOCKS_MAX;
use crate::error::Result;
use crate::pool::Pool;
use crate::stats::Fill;
use crate::volume::Volume;

/// How often the threads look around.
const TICK: Duration = Duration::from_millis(100);
/// Free blocks below which a volume gets more extents ahead of need.
const LOW_BLOCKS: u64 = 2048;
/// If a user flushes less often, the pool flushes: else new blocks would never be written in place.
const FLUSH_INTERVAL: Duration = Duration::from_secs(2);
/// While a pool is nearly full, the collector works this often, and always for removed volumes.
const HURRY: Duration = Duration::from_secs(1);
/// How often an error that stays the same is logged.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// The threads of a pool. They end when it is dropped.
#[derive(Debug)]
pub struct Background {
    stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Background {
    /// Tells the threads to end, and does not wait for them.
    pub fn tell_to_stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Ends the threads, and waits for them.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.tell_to_stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the pool panicked");
            }
        }
    }
}

/// What a thread does until it has to stop.
type Work = fn(&Pool, &AtomicBool);

impl Pool {
    /// Starts the work beside requests.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(self: &Arc<Self>) -> std::io::Result<Background> {
        let stopping = Arc::new(AtomicBool::new(false));
        let mut background = Background {
            stopping: Arc::clone(&stopping),
            threads: Vec::new(),
        };
        let works: [(&str, Work); 2] = [
            ("pool-space", Self::keep_space),
            ("pool-finder", Self::keep_finding),
        ];
        for (name, work) in works {
            let (pool, stopping) = (Arc::clone(self), Arc::clone(&stopping));
            let thread = std::thread::Builder::new().name(name.to_owned());
            background
                .threads
                .push(thread.spawn(move || work(&pool, &stopping))?);
        }
        Ok(background)
    }

    fn keep_space(&self, stopping: &AtomicBool) {
        let clock = &self.shared.clock;
        let mut flushed = clock.monotonic();
        let mut told = HashMap::new();
        while !stopping.load(Ordering::Acquire) {
            let is_flush_due = clock.monotonic().saturating_sub(flushed) >= FLUSH_INTERVAL;
            if is_flush_due {
                flushed = clock.monotonic();
            }
            for volume in self.all() {
                // Whatever stopped it is in the log.
                if volume.check_running().is_err() {
                    continue;
                }
                let kept = volume.keep_space();
                let settled = kept.and_then(|()| {
                    if is_flush_due {
                        volume.settle_mappings()
                    } else {
                        Ok(())
                    }
                });
                if let Err(error) = settled {
                    let (now, text) = (clock.monotonic(), error.to_string());
                    let is_new = told
                        .get(&volume.id)
                        .is_none_or(|(at, before): &(Duration, String)| {
                            *before != text || now.saturating_sub(*at) >= TELL_AGAIN
                        });
                    if is_new {
                        tracing::error!(volume = %volume.name(), %error, "the work beside requests failed");
                        told.insert(volume.id, (now, text));
                    }
                }
            }
            clock.sleep(TICK);
        }
    }

    fn keep_finding(&self, stopping: &AtomicBool) {
        let clock = &self.shared.clock;
        let mut next: HashMap<VolumeId, Duration> = HashMap::new();
        let mut shortened: HashMap<VolumeId, Duration> = HashMap::new();
        while !stopping.load(Ordering::Acquire) {
            let fill = self.fill();
            for volume in self.all() {
                let now = clock.monotonic();
                let interval = match fill {
                    _ if volume.name().is_empty() => HURRY,
                    Fill::Normal => Duration::from_secs(volume.settings().interval_s.into()),
                    Fill::High | Fill::Critical => HURRY,
                };
                let due = next.entry(volume.id).or_insert(now + interval);
                *due = (*due).min(now + interval);
                if stopping.load(Ordering::Acquire) {
                    continue;
                }
                if now < *due {
                    // The list of references is in memory: it does not wait for the interval.
                    let rests_until = shortened.get(&volume.id).copied().unwrap_or_default();
                    if volume.has_many_references() && now >= rests_until {
                        let is_done = volume.shorten_references_until(&|| stopping.load(Ordering::Acquire));
                        let pause = if is_done { HURRY } else { TELL_AGAIN };
                        shortened.insert(volume.id, now + pause);
                    }
                    continue;
                }
                let until = now + interval.max(HURRY);
                let iterated = volume.iterate(&|| self.fill(), until, stopping);
                let is_done = !matches!(iterated, Ok(false));
                if let Err(error) = iterated {
                    let volume = volume.name();
                    tracing::error!(%volume, %error, "the finder or the collector failed; it tries again");
                }
                let pause = if is_done { interval } else { Duration::ZERO };
                next.insert(volume.id, clock.monotonic() + pause);
            }
            clock.sleep(TICK);
        }
    }

    /// Shares all that is equal, and frees what nobody refers to: examines every block of the
    /// volumes that is not examined yet, hotspots included (D9). `progress` is called with the
    /// bytes that were examined since the last call, and those that remain. The work ends early if
    /// it returns `false`.
    ///
    /// # Errors
    /// Errors of the device and of the index.
    pub fn drain(&self, volumes: &[Arc<Volume>], progress: &mut dyn FnMut(u64, u64) -> bool) -> Result<()> {
        let left = || volumes.iter().map(|one| one.backlog() * env::BLOCK_BYTES).sum();
        let mut goes_on = true;
        for volume in volumes {
            volume.find(0, true, &mut |examined| {
                goes_on = progress(examined, left());
                goes_on
            })?;
            if !goes_on {
                return Ok(());
            }
        }
        for volume in volumes {
            volume.collect(&mut |_| progress(0, left()))?;
            volume.flush_now()?;
            volume.flush_now()?;
            volume.return_surplus()?;
        }
        Ok(())
    }
}

impl Volume {
    /// Makes a checkpoint if the log is long or many pages changed; gets extents ahead of need.
    fn keep_space(&self) -> Result<()> {
        self.check_running()?;
        let (log_blocks, dirty, free) = {
            let core = self.core();
            (core.log.blocks(), core.dirty.len(), core.free.len())
        };
        let is_due = log_blocks >= LOG_BLOCKS_MAX || dirty > self.map.leaves_max() / 2;
        let made = if is_due { self.checkpoint() } else { Ok(()) };
        if free < LOW_BLOCKS && self.counters.counts().written_bytes > 0 {
            self.refill_ahead(LOW_BLOCKS)?;
        }
        made
    }

    /// Gives references back until few wait, or it has to stop. Returns whether that worked.
    fn shorten_references_until(&self, is_stopping: &dyn Fn() -> bool) -> bool {
        let mut goes_on = |_| !is_stopping() && self.has_many_references();
        let collected = self.collect(&mut goes_on);
        if let Err(error) = &collected {
            tracing::warn!(volume = %self.name(), %error, "references are not given back now");
        }
        collected.is_ok()
    }

    /// Flushes if a mapping waits for a mark, or a mark for its own flush (rule 14).
    fn settle_mappings(&self) -> Result<()> {
        self.check_running()?;
        let waits = {
            let core = self.core();
            core.log.is_unmarked(core.marked) || core.log.has_open_records()
        };
        if waits { self.flush_now() } else { Ok(()) }
    }

    /// One iteration of the finder and the collector. The finder ends when the next iteration is
    /// due, for other volumes wait. Returns whether it has ended by itself; else it continues in
    /// that one.
    fn iterate(&self, fill: &dyn Fn() -> Fill, until: Duration, stopping: &AtomicBool) -> Result<bool> {
        let settings = self.settings();
        let clock = &*self.shared.clock;
        if self.name().is_empty() {
            self.dissolve_if_free(&mut |_| !stopping.load(Ordering::Acquire))?;
            return Ok(true);
        }
        let (begun, mut bytes) = (clock.monotonic(), 0u64);
        let mut pause = |more: u64| {
            bytes += more;
            let limit = settings.finder_bytes_per_s;
            if limit > 0 && fill() == Fill::Normal {
                // The share of a second that so many bytes may take (D11).
                let wanted = Duration::from_secs_f64(bytes as f64 / limit as f64);
                let passed = clock.monotonic().saturating_sub(begun);
                let mut left = wanted.saturating_sub(passed);
                while !left.is_zero() && !stopping.load(Ordering::Acquire) {
                    let step = left.min(TICK);
                    clock.sleep(step);
                    left -= step;
                }
            }
            !stopping.load(Ordering::Acquire)
        };
        let (mut found, mut is_done) = (Ok(()), true);
        if settings.deduplicate {
            let quiet = match fill() {
                Fill::Normal => settings.quiet_intervals,
                Fill::High | Fill::Critical => settings.quiet_intervals.min(1),
            };
            let mut in_time = |more| {
                is_done = pause(more) && clock.monotonic() < until;
                is_done
            };
            found = self.find(quiet, false, &mut in_time).map(drop);
            if found.is_ok() {
                self.dirty.age();
            }
        }
        // Also if blocks could not be examined: what is freed may be what was missing.
        self.collect(&mut pause)?;
        found.map(|()| is_done)
    }
}
