//! A model of disks with heads under a storage: what the papers' testbeds had, and machines like
//! this one have no more.
//!
//! An object lies on all disks in stripes, from one that its name decides, and on each disk in one
//! piece. A read takes from each disk that it touches a seek, unless it goes on where that disk's
//! last one ended, and the time of its bytes; it waits for the slowest. Disks serve one read at a
//! time, in the order in which reads come, and all at once. Reads alone take time, and those of
//! what is mapped (the index) do not: it is for restores.
//!
//! Time passes for real: whoever reads waits until the model's disk is done, if the storage below
//! was faster. So put it over one that is. May be used from many threads at once, as that.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use env::{AlignedBuffer, Clock, LockState, ObjectBytes, ObjectMeta, ProcessLock, Storage, StorageError};
use types::{ByteRange, ObjectName};

/// What disks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reproduce) struct Disks {
    pub(in crate::reproduce) count: u64,
    /// Until a disk's head is where a read begins, and the disk has turned there.
    pub(in crate::reproduce) seek: Duration,
    /// Of one disk.
    pub(in crate::reproduce) bytes_a_second: u64,
    /// Bytes on one disk before the next one's turn.
    pub(in crate::reproduce) stripe_bytes: u64,
}

impl Disks {
    /// The testbed of `RevDedup` [4.1]: RAID-0 of eight Seagate ST1000DM003 with stripes of 512
    /// KiB, which read 1.235 GB/s [table II]. Of seeks the paper says nothing: 8.5 ms on average by
    /// the disks' data sheet, and half a turn at 7200 a minute.
    pub(in crate::reproduce) const PAPERS: Self = Self {
        count: 8,
        seek: Duration::from_micros(8_500 + 4_167),
        bytes_a_second: 1_235_000_000 / 8,
        stripe_bytes: 512 << 10,
    };

    /// So many disks that few requests meet at one, and slow: for storage that is far away.
    pub(in crate::reproduce) const FAR: Self = Self {
        count: 256,
        seek: Duration::from_millis(30),
        bytes_a_second: 100_000_000,
        stripe_bytes: 1 << 20,
    };

    /// One of the paper's.
    pub(in crate::reproduce) const ONE: Self = Self {
        count: 1,
        ..Self::PAPERS
    };

    /// Which part of each disk's piece of an object a range is, with the disk's number.
    fn parts(&self, object: u64, range: ByteRange) -> Vec<(usize, Range<u64>)> {
        let mut parts: Vec<(usize, Range<u64>)> = Vec::new();
        let end = range.offset.saturating_add(range.len);
        let mut at = range.offset;
        while at < end {
            let stripe = at / self.stripe_bytes;
            let until = end.min((stripe + 1) * self.stripe_bytes);
            let disk =
                usize::try_from((object % self.count + stripe) % self.count).expect("as many as disks");
            let begin = stripe / self.count * self.stripe_bytes + at % self.stripe_bytes;
            let piece = begin..begin + (until - at);
            match parts
                .iter_mut()
                .find(|(of, last)| *of == disk && last.end == piece.start)
            {
                Some((_, last)) => last.end = piece.end,
                None => parts.push((disk, piece)),
            }
            at = until;
        }
        parts
    }
}

/// Where a head stands, and from when on it may go elsewhere.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    at: Option<(u64, u64)>,
    free: Duration,
}

/// Wraps the storage that has the bytes.
#[derive(Debug)]
pub(in crate::reproduce) struct DiskArray {
    inner: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    disks: Disks,
    heads: Mutex<Vec<Head>>,
}

impl DiskArray {
    /// Disks that nobody has read from.
    pub(in crate::reproduce) fn new(inner: Arc<dyn Storage>, clock: Arc<dyn Clock>, disks: Disks) -> Self {
        let heads = (0..disks.count).map(|_| Head::default()).collect();
        Self {
            inner,
            clock,
            disks,
            heads: Mutex::new(heads),
        }
    }

    /// When a read that is asked for now is done.
    fn done(&self, name: &ObjectName, range: ByteRange) -> Duration {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        let object = hasher.finish();
        let mut heads = self.heads.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.monotonic();
        let mut done = now;
        for (disk, piece) in self.disks.parts(object, range) {
            let head = &mut heads[disk];
            let seek = match head.at {
                Some(at) if at == (object, piece.start) => Duration::ZERO,
                _ => self.disks.seek,
            };
            let nanos =
                u128::from(piece.end - piece.start) * 1_000_000_000 / u128::from(self.disks.bytes_a_second);
            let transfer = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            head.free = head.free.max(now) + seek + transfer;
            head.at = Some((object, piece.end));
            done = done.max(head.free);
        }
        done
    }

    fn wait(&self, until: Duration) {
        let left = until.saturating_sub(self.clock.monotonic());
        if !left.is_zero() {
            self.clock.sleep(left);
        }
    }
}

impl Storage for DiskArray {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.inner.put(name, parts)
    }

    fn barrier(&self) -> Result<(), StorageError> {
        self.inner.barrier()
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        let len = self.inner.head(name)?.len;
        self.get_range(name, ByteRange { offset: 0, len })
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        let done = self.done(name, range);
        let bytes = self.inner.get_range(name, range)?;
        self.wait(done);
        Ok(bytes)
    }

    fn get_range_into(
        &self,
        name: &ObjectName,
        range: ByteRange,
        into: &mut AlignedBuffer,
    ) -> Result<Range<usize>, StorageError> {
        let done = self.done(name, range);
        let place = self.inner.get_range_into(name, range, into)?;
        self.wait(done);
        Ok(place)
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        let whole = self.inner.head(name)?.len;
        let len = len.min(whole);
        let done = self.done(
            name,
            ByteRange {
                offset: whole - len,
                len,
            },
        );
        let tail = self.inner.get_tail(name, len)?;
        self.wait(done);
        Ok(tail)
    }

    fn map(&self, name: &ObjectName) -> Result<ObjectBytes, StorageError> {
        self.inner.map(name)
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.inner.head(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.inner.list(folder)
    }

    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        self.inner.list_in(folder, sub_folders)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.inner.list_folders(folder)
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.inner.delete(name)
    }

    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.inner.can_trim(name)
    }

    fn trim(&self, from: &ObjectName, to: &ObjectName, ranges: &[ByteRange]) -> Result<bool, StorageError> {
        self.inner.trim(from, to, ranges)
    }

    fn drop_folder(&self, folder: &str) -> Result<(), StorageError> {
        self.inner.drop_folder(folder)
    }

    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.inner.lock(name)
    }

    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.inner.lock_state(name)
    }

    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.inner.drop_lock(name)
    }
}

#[cfg(test)]
mod tests {
    use env::{ManualClock, MemoryStorage};

    use super::*;

    const DISKS: Disks = Disks {
        count: 2,
        seek: Duration::from_millis(10),
        bytes_a_second: 1_000_000,
        stripe_bytes: 1000,
    };

    #[test]
    fn a_read_waits_for_seeks_and_for_the_slowest_disk() {
        let clock = Arc::new(ManualClock::default());
        let inner = Arc::new(MemoryStorage::new());
        let [one, other] = ["data/1", "data/2"].map(|name| ObjectName::new(name).unwrap());
        inner.put(&one, &[&[7; 10_000]]).unwrap();
        inner.put(&other, &[&[7; 500]]).unwrap();
        let array = DiskArray::new(inner, Arc::clone(&clock) as Arc<dyn Clock>, DISKS);
        let took = |name: &ObjectName, offset, len| {
            let began = clock.monotonic();
            assert_eq!(
                array.get_range(name, ByteRange { offset, len }).unwrap().len() as u64,
                len
            );
            clock.monotonic() - began
        };
        let millis = Duration::from_millis;
        // Two stripes of each disk, then on from there, then over a part, then back.
        assert_eq!(took(&one, 0, 4000), millis(10 + 2));
        assert_eq!(took(&one, 4000, 4000), millis(2));
        assert_eq!(took(&one, 9500, 500), millis(10) + Duration::from_micros(500));
        assert_eq!(took(&one, 0, 500), millis(10) + Duration::from_micros(500));
        // One disk's head was elsewhere, the other's not.
        assert_eq!(took(&other, 0, 500), millis(10) + Duration::from_micros(500));
        let began = clock.monotonic();
        assert_eq!(array.get_tail(&other, 9999).unwrap(), (vec![7; 500], 500));
        assert_eq!(array.get(&one).unwrap().len(), 10_000);
        assert_eq!(
            clock.monotonic() - began,
            2 * millis(10) + Duration::from_micros(5500)
        );
    }

    #[test]
    fn a_disk_is_asked_for_one_thing_after_another_and_all_at_once() {
        let clock = Arc::new(ManualClock::default());
        let array = DiskArray::new(Arc::new(MemoryStorage::new()), clock, DISKS);
        let name = ObjectName::new("data/1").unwrap();
        let done = |offset, len| array.done(&name, ByteRange { offset, len });
        let first = done(0, 1000);
        // On the other disk, and on the same.
        assert_eq!(done(1000, 1000), first);
        assert_eq!(done(4000, 1000), first + Duration::from_millis(11));
    }
}
