//! A device in memory that does something before a request, for tests.

use std::fmt;
use std::sync::{Arc, Mutex};

use env::{BlockDevice, DeviceError, MemoryDevice};

use crate::lock::lock;

/// What happens before a request: its offset, and the bytes if it is a write.
type Hook = Arc<dyn Fn(u64, Option<&[u8]>) -> Result<(), DeviceError> + Send + Sync>;

/// A device that calls a hook before each read and write.
pub(crate) struct HookedDevice {
    inner: MemoryDevice,
    hook: Mutex<Option<Hook>>,
}

impl HookedDevice {
    /// A device without a hook.
    pub(crate) fn new(len: u64) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryDevice::new(len),
            hook: Mutex::default(),
        })
    }

    /// From now on this is the hook.
    pub(crate) fn set(&self, hook: Hook) {
        *lock(&self.hook) = Some(hook);
    }

    /// From now on there is none.
    pub(crate) fn clear(&self) {
        *lock(&self.hook) = None;
    }

    fn call(&self, offset: u64, written: Option<&[u8]>) -> Result<(), DeviceError> {
        // The hook may make requests of its own.
        let hook = lock(&self.hook).clone();
        hook.map_or(Ok(()), |hook| hook(offset, written))
    }
}

impl fmt::Debug for HookedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HookedDevice")
    }
}

impl BlockDevice for HookedDevice {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.call(offset, None)?;
        self.inner.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.call(offset, Some(bytes))?;
        self.inner.write_at(offset, bytes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len)
    }

    fn grow(&self, len: u64) -> Result<(), DeviceError> {
        self.inner.grow(len)
    }
}
