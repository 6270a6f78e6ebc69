//! Simulates disks with heads on top of a storage. The papers' testbeds had such disks; current
//! machines do not.
//!
//! An object is striped over all disks. A hash of its name chooses the first disk, and each disk
//! has its stripes in one piece. A read takes, on each disk that it touches, the time of its bytes.
//! It also takes a seek, unless it continues where that disk's last read ended. The read waits for
//! the slowest disk. Each disk serves one read at a time, in the order of the requests; the disks
//! work concurrently. Only reads take time. Reads of mapped objects (the index) take none: the
//! model is for restores.
//!
//! Time passes for real: a read blocks until the model's disk is done, if the storage below was
//! faster. So the storage below must be faster than the model. Many threads may use it at once, as
//! the storage below allows.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use env::{AlignedBuffer, Clock, LockState, ObjectBytes, ObjectMeta, ProcessLock, Storage, StorageError};
use types::{ByteRange, ObjectName};

/// Parameters of the disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::reproduce) struct Disks {
    pub(in crate::reproduce) count: u64,
    /// Time to move the head to the beginning of a read, half a turn included.
    pub(in crate::reproduce) seek: Duration,
    /// Transfer rate of one disk.
    pub(in crate::reproduce) bytes_a_second: u64,
    /// Bytes on one disk before the next disk follows.
    pub(in crate::reproduce) stripe_bytes: u64,
}

impl Disks {
    /// The testbed of `RevDedup` [4.1]: RAID-0 of eight Seagate ST1000DM003 with stripes of 512
    /// KiB, which read 1.235 GB/s [table II]. The paper does not give seek times. The disks' data
    /// sheet has 8.5 ms on average, and half a turn at 7200 a minute adds 4.2 ms.
    pub(in crate::reproduce) const PAPERS: Self = Self {
        count: 8,
        seek: Duration::from_micros(8_500 + 4_167),
        bytes_a_second: 1_235_000_000 / 8,
        stripe_bytes: 512 << 10,
    };

    /// Distant storage: slow, with so many disks that few requests use the same one.
    pub(in crate::reproduce) const FAR: Self = Self {
        count: 256,
        seek: Duration::from_millis(30),
        bytes_a_second: 100_000_000,
        stripe_bytes: 1 << 20,
    };

    /// One of the paper's disks.
    pub(in crate::reproduce) const ONE: Self = Self {
        count: 1,
        ..Self::PAPERS
    };

    /// The parts of each disk's piece of an object that a range covers, with the disk's number.
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

/// The position of a head, and the time from which it is free.
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
    /// Disks without any earlier read.
    pub(in crate::reproduce) fn new(inner: Arc<dyn Storage>, clock: Arc<dyn Clock>, disks: Disks) -> Self {
        let heads = (0..disks.count).map(|_| Head::default()).collect();
        Self {
            inner,
            clock,
            disks,
            heads: Mutex::new(heads),
        }
    }

    /// The time at which a read that is requested now is complete.
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
        // Two stripes of each disk; the next bytes; a gap; back to the beginning.
        assert_eq!(took(&one, 0, 4000), millis(10 + 2));
        assert_eq!(took(&one, 4000, 4000), millis(2));
        assert_eq!(took(&one, 9500, 500), millis(10) + Duration::from_micros(500));
        assert_eq!(took(&one, 0, 500), millis(10) + Duration::from_micros(500));
        // The first disk's head was elsewhere.
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
        // One read on the other disk, and one on the same disk.
        assert_eq!(done(1000, 1000), first);
        assert_eq!(done(4000, 1000), first + Duration::from_millis(11));
    }
}
