//! The operations of a process on a disk.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use types::ByteRange;

use super::counters::{OpKind, Operation};
use super::machine::FaultMachine;
use super::plan::Share;
use super::world::{Verdict, World};
use crate::block::device::{BLOCK_BYTES, BlockDevice, DeviceError, check_parts, check_range};

/// A disk of a [`FaultMachine`], as one process has it open. Clones are the same open disk.
#[derive(Clone)]
pub struct FaultDevice {
    machine: FaultMachine,
    open: Arc<Open>,
}

struct Open {
    name: String,
    /// The length that this process knows.
    len: AtomicU64,
    /// Whether a flush has failed.
    is_poisoned: AtomicBool,
}

impl FaultMachine {
    /// Adds a disk of `len` bytes, rounded down to whole blocks, and opens it. Its length is
    /// durable. All its bytes are zeros.
    ///
    /// # Panics
    /// If the machine has a disk of this name.
    #[must_use]
    pub fn create(&self, name: &str, len: u64) -> FaultDevice {
        let len = self.world().create(name, len);
        FaultDevice::new(self.clone(), name, len)
    }

    /// Opens a disk.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`]; [`DeviceError::Gone`] if this process has ended.
    pub fn open(&self, name: &str) -> Result<FaultDevice, DeviceError> {
        let len = self.world().open(self.process, name)?;
        Ok(FaultDevice::new(self.clone(), name, len))
    }
}

impl FaultDevice {
    fn new(machine: FaultMachine, name: &str, len: u64) -> Self {
        Self {
            machine,
            open: Arc::new(Open {
                name: name.to_owned(),
                len: AtomicU64::new(len),
                is_poisoned: AtomicBool::new(false),
            }),
        }
    }

    /// The process that has opened it.
    #[must_use]
    pub fn machine(&self) -> &FaultMachine {
        &self.machine
    }

    fn check(&self, offset: u64, len: usize) -> Result<(), DeviceError> {
        check_range(&self.open.name, self.len(), offset, len as u64)
    }

    /// Whether an earlier flush forbids the operation.
    fn check_poison(&self) -> Result<(), DeviceError> {
        if self.open.is_poisoned.load(Ordering::Acquire) {
            return Err(DeviceError::Poisoned {
                device: self.open.name.clone(),
            });
        }
        Ok(())
    }

    /// Runs one operation: admits it, carries out its share, and returns the outcome or an error.
    fn operate(
        &self,
        kind: OpKind,
        offset: u64,
        len: u64,
        carry_out: impl FnOnce(&mut World, &Verdict) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let operation = Operation {
            kind,
            device: self.open.name.clone(),
            offset,
            len,
        };
        let mut world = self.machine.world();
        let verdict = world.begin(self.machine.process, operation)?;
        let outcome = carry_out(&mut world, &verdict);
        let finished = &self.machine.shared.finished;
        finished.store(world.changes(), Ordering::Release);
        verdict.error.map_or(outcome, Err)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.check(offset, bytes.len())?;
        self.check_poison()?;
        self.operate(OpKind::Write, offset, bytes.len() as u64, |world, verdict| {
            let written = &bytes[..verdict.share.of(bytes.len())];
            let change = world.change();
            let (disk, reader, _) = world.disk(&self.open.name);
            disk.write(&reader, offset, written, change);
            Ok(())
        })
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.check(offset, out.len())?;
        let len = out.len() as u64;
        self.operate(OpKind::Read, offset, len, |world, _| {
            let (disk, reader, _) = world.disk(&self.open.name);
            if !disk.is_readable(ByteRange { offset, len }) {
                return Err(DeviceError::Io {
                    action: OpKind::Read.word(),
                    device: self.open.name.clone(),
                    source: io::Error::from_raw_os_error(libc::EIO),
                });
            }
            disk.read(&reader, offset, out);
            Ok(())
        })
    }
}

impl Share {
    /// The part of so many bytes.
    fn of(self, len: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Bytes(bytes) => usize::try_from(bytes).unwrap_or(len).min(len),
            Self::All => len,
        }
    }
}

impl BlockDevice for FaultDevice {
    fn len(&self) -> u64 {
        self.open.len.load(Ordering::Acquire)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.read(offset, out)
    }

    /// Several reads are done one by one here, but who uses the device calls for them at once.
    fn reads_at_once(&self) -> usize {
        8
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write(offset, bytes)
    }

    fn read_vectored_at(&self, offset: u64, out: &mut [IoSliceMut<'_>]) -> Result<(), DeviceError> {
        let lens = out.iter().map(|part| part.len());
        let len = check_parts(&self.open.name, self.len(), offset, lens)?;
        let mut bytes = vec![0; len];
        self.read(offset, &mut bytes)?;
        let mut rest = &bytes[..];
        for part in out {
            let (now, later) = rest.split_at(part.len());
            part.copy_from_slice(now);
            rest = later;
        }
        Ok(())
    }

    fn write_vectored_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        let lens = parts.iter().map(|part| part.len());
        let len = check_parts(&self.open.name, self.len(), offset, lens)?;
        let mut bytes = Vec::with_capacity(len);
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        self.write(offset, &bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let covered = self.machine.shared.finished.load(Ordering::Acquire);
        self.check_poison()?;
        self.operate(OpKind::Flush, 0, 0, |world, verdict| {
            let (disk, _, _) = world.disk(&self.open.name);
            if verdict.share == Share::All {
                disk.flush(covered);
            } else if !matches!(verdict.error, Some(DeviceError::Gone { .. })) {
                disk.doubt(covered);
            }
            let is_poisoned = verdict.error.is_some();
            self.open.is_poisoned.fetch_or(is_poisoned, Ordering::AcqRel);
            Ok(())
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_range(&self.open.name, self.len(), offset, len)?;
        self.check_poison()?;
        self.operate(OpKind::Discard, offset, len, |world, verdict| {
            let share = match verdict.share {
                Share::Nothing => 0,
                Share::Bytes(bytes) => bytes.min(len) / BLOCK_BYTES * BLOCK_BYTES,
                Share::All => len,
            };
            let change = world.change();
            world.disk(&self.open.name).0.discard(offset, share, change);
            Ok(())
        })
    }

    fn grow(&self, len: u64) -> Result<(), DeviceError> {
        let len = len - len % BLOCK_BYTES;
        self.check_poison()?;
        self.operate(OpKind::Grow, 0, len, |world, verdict| {
            let change = world.change();
            let (disk, _, _) = world.disk(&self.open.name);
            if verdict.share == Share::All {
                disk.grow(len, change);
            }
            if verdict.error.is_none() {
                self.open.len.fetch_max(disk.len(), Ordering::AcqRel);
            }
            Ok(())
        })
    }
}

impl fmt::Debug for FaultDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultDevice({}, {:?})", self.open.name, self.machine)
    }
}
