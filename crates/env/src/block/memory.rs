//! A block device in memory.
//!
//! Memory is taken in parts of 1 MiB, each when it is first written. Any number of threads may call
//! everything at once; each part has a lock of its own. Only range errors occur.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::device::{BLOCK_BYTES, BlockDevice, DeviceError, check_range};

/// Bytes of a part.
const PART_BYTES: usize = 1 << 20;

/// A device in memory. It forgets everything when it is dropped.
#[derive(Debug)]
pub struct MemoryDevice {
    len: AtomicU64,
    parts: RwLock<Vec<Part>>,
}

type Part = RwLock<Option<Box<[u8]>>>;

impl MemoryDevice {
    /// A device of `len` bytes, rounded down to whole blocks. All are zeros.
    #[must_use]
    pub fn new(len: u64) -> Self {
        let device = Self {
            len: AtomicU64::new(0),
            parts: RwLock::default(),
        };
        device.extend(len - len % BLOCK_BYTES);
        device
    }

    fn extend(&self, len: u64) {
        let wanted = usize::try_from(len.div_ceil(PART_BYTES as u64)).unwrap_or(usize::MAX);
        let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        if parts.len() < wanted {
            parts.resize_with(wanted, Part::default);
        }
        self.len.fetch_max(len, Ordering::AcqRel);
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_range(&"memory", self.len(), offset, len)
    }

    /// Calls `each` with each part of the range, and the place in it.
    fn each(&self, offset: u64, len: usize, mut each: impl FnMut(&Part, usize, std::ops::Range<usize>)) {
        let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
        let offset = usize::try_from(offset).expect("the range was checked");
        let mut done = 0;
        while done < len {
            let at = offset + done;
            let inside = at % PART_BYTES;
            let count = (PART_BYTES - inside).min(len - done);
            each(&parts[at / PART_BYTES], inside, done..done + count);
            done += count;
        }
    }
}

impl BlockDevice for MemoryDevice {
    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.check(offset, out.len() as u64)?;
        self.each(offset, out.len(), |part, inside, range| {
            let (part, out) = (
                part.read().unwrap_or_else(PoisonError::into_inner),
                &mut out[range],
            );
            match &*part {
                Some(bytes) => out.copy_from_slice(&bytes[inside..inside + out.len()]),
                None => out.fill(0),
            }
        });
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(offset, bytes.len() as u64)?;
        self.each(offset, bytes.len(), |part, inside, range| {
            let mut part = part.write().unwrap_or_else(PoisonError::into_inner);
            let kept = part.get_or_insert_with(|| vec![0; PART_BYTES].into_boxed_slice());
            kept[inside..inside + range.len()].copy_from_slice(&bytes[range]);
        });
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Frees the memory of whole parts.
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check(offset, len)?;
        let len = usize::try_from(len).expect("the range was checked");
        self.each(offset, len, |part, _, range| {
            if range.len() == PART_BYTES {
                *part.write().unwrap_or_else(PoisonError::into_inner) = None;
            }
        });
        Ok(())
    }

    fn grow(&self, len: u64) -> Result<(), DeviceError> {
        self.extend(len - len % BLOCK_BYTES);
        Ok(())
    }
}
