//! Objects: puts, reads and deletes of the live state, and barriers.

use std::io;
use std::sync::Arc;

use types::{ByteRange, ObjectName, UnixNanos};

use super::{History, Trim, Version, World};
use crate::StorageError;
use crate::fault::OpKind;
use crate::fault::crash::tear;
use crate::plain::without;

/// The wall time of the first change on a machine without a clock of its own: 2024-01-01 00:00 UTC.
/// Each change adds a second.
const FIRST_PUT_NANOS: i64 = 1_704_067_200_000_000_000;

impl World {
    pub(in crate::fault) fn put(
        &mut self,
        process: u64,
        name: &ObjectName,
        bytes: Vec<u8>,
        torn: bool,
    ) -> Result<(), StorageError> {
        if self
            .objects
            .get(name)
            .is_some_and(|history| history.live().is_some())
        {
            self.see(process, name);
            return Err(StorageError::AlreadyExists { name: name.clone() });
        }
        let len = bytes.len() as u64;
        if self
            .capacity
            .is_some_and(|capacity| self.live_bytes.saturating_add(len) > capacity)
        {
            return Err(StorageError::NoSpace {
                name: name.to_string(),
            });
        }
        let version = Version {
            bytes: Arc::new(bytes),
            put_at: self.put_time(),
            given_back: 0,
        };
        self.changes += 1;
        let history = self.objects.entry(name.clone()).or_insert_with(History::absent);
        if torn {
            let part = tear(&version, version.bytes.len() / 2, false);
            self.live_bytes += part.bytes.len() as u64;
            history.replace(part);
            return Ok(());
        }
        self.live_bytes += len;
        history.push(self.changes, Some(version));
        self.see(process, name);
        self.add_bytes(process, len, |counters, bytes| counters.put_bytes += bytes);
        Ok(())
    }

    pub(in crate::fault) fn delete(&mut self, process: u64, name: &ObjectName) -> Result<(), StorageError> {
        let Some(version) = self.live(process, name) else {
            return Err(StorageError::NotFound { name: name.clone() });
        };
        self.live_bytes -= version.space();
        self.changes += 1;
        if let Some(history) = self.objects.get_mut(name) {
            history.push(self.changes, None);
        }
        self.see(process, name);
        Ok(())
    }

    /// A crash decides for both names together which changes are durable ([`World::after_crash`]).
    pub(in crate::fault) fn trim(
        &mut self,
        process: u64,
        from: &ObjectName,
        to: &ObjectName,
        ranges: &[ByteRange],
    ) -> Result<bool, StorageError> {
        let renamed = self.live(process, to);
        let is_new = renamed.is_none();
        let Some(before) = renamed.or_else(|| self.live(process, from)) else {
            return Err(StorageError::NotFound { name: from.clone() });
        };
        let given_back = ranges.iter().map(|range| range.len).sum();
        let after = Version {
            bytes: Arc::new(without(to, &before.bytes, ranges)?),
            put_at: before.put_at,
            given_back: before.given_back.max(given_back),
        };
        self.live_bytes = self.live_bytes - before.space() + after.space();
        self.changes += 1;
        if is_new {
            self.objects.remove(from);
            self.trims.push(Trim {
                from: from.clone(),
                to: to.clone(),
                before,
                since: self.changes,
            });
        }
        let mut history = History::durable(after.clone());
        history.push(self.changes, Some(after));
        history.settle(self.changes);
        self.objects.insert(to.clone(), history);
        self.see(process, to);
        Ok(true)
    }

    /// Makes durable the changes that the process has seen, and nothing else.
    pub(in crate::fault) fn barrier(&mut self, process: u64) {
        let Some(p) = self.processes.get_mut(&process) else {
            return;
        };
        for (name, change) in std::mem::take(&mut p.seen) {
            self.trims.retain(|trim| trim.to != name || trim.since > change);
            if let Some(history) = self.objects.get_mut(&name) {
                history.settle(change);
                if history.is_gone() {
                    self.objects.remove(&name);
                }
            }
        }
    }

    pub(in crate::fault) fn read(
        &mut self,
        process: u64,
        name: &ObjectName,
    ) -> Result<Version, StorageError> {
        self.live(process, name)
            .ok_or_else(|| StorageError::NotFound { name: name.clone() })
    }

    /// Whether the disk can read these bytes of the object.
    pub(in crate::fault) fn gives(&self, name: &ObjectName, range: ByteRange) -> Result<(), StorageError> {
        let bad = self.unreadable.get(name);
        if bad.is_none_or(|bad| bad.end() <= range.offset || range.end() <= bad.offset) {
            return Ok(());
        }
        Err(StorageError::Io {
            action: OpKind::Get.word(),
            name: name.to_string(),
            source: io::Error::other("injected unreadable sector"),
        })
    }

    pub(in crate::fault) fn make_unreadable(&mut self, name: &ObjectName, range: ByteRange) {
        self.unreadable.insert(name.clone(), range);
    }

    pub(in crate::fault) fn returned(&mut self, process: u64, bytes: u64) {
        self.add_bytes(process, bytes, |counters, bytes| counters.get_bytes += bytes);
    }

    /// The live objects under the prefix. That no others exist counts as seen, too.
    pub(in crate::fault) fn list(
        &mut self,
        process: u64,
        is_wanted: impl Fn(&ObjectName) -> bool,
    ) -> Vec<(ObjectName, Version)> {
        let names: Vec<ObjectName> = self
            .objects
            .keys()
            .filter(|name| is_wanted(name))
            .cloned()
            .collect();
        let live: Vec<_> = names
            .into_iter()
            .filter_map(|name| Some((name.clone(), self.live(process, &name)?)))
            .collect();
        let rows = live.len() as u64;
        self.count(process, |counters| counters.listed += rows);
        live
    }

    /// Names of all live objects. Nothing counts as seen, because a folder's name says nothing of
    /// its objects.
    pub(in crate::fault) fn live_names(&self) -> impl Iterator<Item = &ObjectName> {
        self.objects
            .iter()
            .filter(|(_, history)| history.live().is_some())
            .map(|(name, _)| name)
    }

    pub(in crate::fault) fn count_listed(&mut self, process: u64, rows: u64) {
        self.count(process, |counters| counters.listed += rows);
    }

    pub(in crate::fault) fn damage(&mut self, name: &ObjectName, damage: impl FnOnce(&mut Vec<u8>)) -> bool {
        let Some(history) = self.objects.get_mut(name) else {
            return false;
        };
        let Some(version) = history.live().cloned() else {
            return false;
        };
        let mut bytes = version.bytes.to_vec();
        damage(&mut bytes);
        self.live_bytes = self.live_bytes - version.space() + bytes.len() as u64;
        history.replace(Version {
            bytes: Arc::new(bytes),
            put_at: version.put_at,
            given_back: 0,
        });
        true
    }

    pub(in crate::fault) fn lose(&mut self, name: &ObjectName) -> bool {
        let live = self
            .objects
            .remove(name)
            .and_then(|history| history.live().cloned());
        self.live_bytes -= live.as_ref().map_or(0, Version::space);
        live.is_some()
    }

    pub(in crate::fault) fn is_durable(&self, name: &ObjectName) -> bool {
        self.objects
            .get(name)
            .is_some_and(|h| h.states().len() == 1 && h.live().is_some())
    }

    fn live(&mut self, process: u64, name: &ObjectName) -> Option<Version> {
        self.see(process, name);
        self.objects.get(name)?.live().cloned()
    }

    pub(super) fn see(&mut self, process: u64, name: &ObjectName) {
        let Some(history) = self.objects.get(name) else {
            return;
        };
        if let Some(p) = self.processes.get_mut(&process) {
            p.seen.insert(name.clone(), history.live_since());
        }
    }

    fn put_time(&self) -> UnixNanos {
        match &self.clock {
            Some(clock) => clock.wall(),
            None => {
                let puts = i64::try_from(self.changes).unwrap_or(i64::MAX);
                UnixNanos::new(FIRST_PUT_NANOS.saturating_add(puts.saturating_mul(1_000_000_000)))
            }
        }
    }
}
