//! A block device in memory.

use std::sync::{PoisonError, RwLock};

use super::device::{BLOCK_BYTES, BlockDevice, DeviceError, check_range};

/// Bytes of a part, which has a lock of its own and no memory until it is written.
const PART_BYTES: usize = 1 << 20;

/// A device in memory. It forgets everything when it is dropped.
#[derive(Debug)]
pub struct MemoryDevice {
    parts: RwLock<Vec<Part>>,
}

type Part = RwLock<Option<Box<[u8]>>>;

impl MemoryDevice {
    /// A device of `len` bytes, rounded down to whole MiB. All are zeros.
    #[must_use]
    pub fn new(len: u64) -> Self {
        let device = Self {
            parts: RwLock::default(),
        };
        device.extend(len);
        device
    }

    fn extend(&self, len: u64) {
        let wanted = usize::try_from(len).map_or(usize::MAX / PART_BYTES, |len| len / PART_BYTES);
        let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        while parts.len() < wanted {
            parts.push(Part::default());
        }
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
        let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
        (parts.len() * PART_BYTES) as u64
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        check_range(&"memory", self.len(), offset, out.len() as u64)?;
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
        check_range(&"memory", self.len(), offset, bytes.len() as u64)?;
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

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_range(&"memory", self.len(), offset, len)?;
        let len = usize::try_from(len).expect("the range was checked");
        self.each(offset, len, |part, _, range| {
            if range.len() == PART_BYTES {
                *part.write().unwrap_or_else(PoisonError::into_inner) = None;
            }
        });
        Ok(())
    }

    fn grow(&self, len: u64) -> Result<(), DeviceError> {
        self.extend(len.next_multiple_of(PART_BYTES as u64));
        check_range(&"memory", self.len(), 0, len - len % BLOCK_BYTES)
    }
}
