//! Several reads of a file with one call of the system (`io_uring`).
//!
//! What must hold: [`Queue::read`] returns only when the system has let go of the memory of all
//! reads, whatever fails. Any number of threads may call: each call has a ring of its own, which
//! is kept for the next one. If the system gives no ring, the reads are not done, and the caller
//! does them one by one.

#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "the system writes to memory after the call that names it"
    )
)]

use std::fs::File;

use crate::ALIGN_BYTES;
use crate::block::device::BlockRead;

/// Rings for the reads of a file.
#[derive(Debug)]
pub(super) struct Queue {
    rings: rings::Rings,
}

impl Queue {
    /// Reads that run at the same time for one caller.
    pub(super) const READS_MAX: usize = 32;

    /// `None` if the system has no rings, or forbids them.
    pub(super) fn new() -> Option<Self> {
        let rings = rings::Rings::new()?;
        Some(Self { rings })
    }

    /// Whether a read to this memory can be queued.
    pub(super) fn suits(out: &[u8]) -> bool {
        !out.is_empty() && out.as_ptr().addr().is_multiple_of(ALIGN_BYTES) && i32::try_from(out.len()).is_ok()
    }

    /// Does reads that [`Self::suits`]. Returns what the system said of each: its bytes, or the
    /// negative number of an error; `None` of a read that was not done.
    pub(super) fn read(&self, file: &File, reads: &mut [&mut BlockRead<'_>]) -> Vec<Option<i32>> {
        let mut results = vec![None; reads.len()];
        let groups = reads.chunks_mut(Self::READS_MAX);
        for (reads, results) in groups.zip(results.chunks_mut(Self::READS_MAX)) {
            self.rings.read(file, reads, results);
        }
        results
    }
}

#[cfg(target_os = "linux")]
mod rings {
    use std::fmt;
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::sync::{Mutex, PoisonError};

    use io_uring::{IoUring, Probe, opcode, types};

    use super::Queue;
    use crate::block::device::BlockRead;

    /// Rings that are kept for the next callers.
    const SPARE_MAX: usize = 16;

    pub(super) struct Rings {
        spare: Mutex<Vec<IoUring>>,
    }

    impl fmt::Debug for Rings {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Rings").finish_non_exhaustive()
        }
    }

    fn ring() -> io::Result<IoUring> {
        let entries = u32::try_from(Queue::READS_MAX).expect("a small number");
        // A thread that waits for its reads need not be interrupted for them. Kernels before 5.19
        // do not know that.
        IoUring::builder()
            .setup_coop_taskrun()
            .build(entries)
            .or_else(|_| IoUring::new(entries))
    }

    impl Rings {
        pub(super) fn new() -> Option<Self> {
            let ring = ring().ok()?;
            let mut probe = Probe::new();
            ring.submitter().register_probe(&mut probe).ok()?;
            let spare = Mutex::new(vec![ring]);
            probe.is_supported(opcode::Read::CODE).then_some(Self { spare })
        }

        fn take(&self) -> io::Result<IoUring> {
            let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
            spare.map_or_else(ring, Ok)
        }

        fn keep(&self, ring: IoUring) {
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() < SPARE_MAX {
                spare.push(ring);
            }
        }

        /// At most [`Queue::READS_MAX`] reads.
        pub(super) fn read(
            &self,
            file: &File,
            reads: &mut [&mut BlockRead<'_>],
            results: &mut [Option<i32>],
        ) {
            let Ok(mut ring) = self.take() else { return };
            if read(&mut ring, file, reads, results) {
                self.keep(ring);
            }
        }
    }

    /// Returns whether the ring is empty again, so that it can be kept.
    fn read(
        ring: &mut IoUring,
        file: &File,
        reads: &mut [&mut BlockRead<'_>],
        results: &mut [Option<i32>],
    ) -> bool {
        let mut left = 0;
        {
            let mut entries = ring.submission();
            for (number, read) in (0..).zip(reads.iter_mut()) {
                let len = u32::try_from(read.out.len()).expect("the caller has checked it");
                let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), read.out.as_mut_ptr(), len)
                    .offset(read.offset)
                    .build()
                    .user_data(number);
                // SAFETY: the memory and the file are borrowed until this function returns. It
                // returns when each entry that the system took has its result: then the system has
                // let go of them. Nothing between here and there panics. Entries that the system
                // did not take go with the ring, which the caller drops then.
                if unsafe { entries.push(&entry) }.is_err() {
                    break;
                }
                left += 1;
            }
        }
        loop {
            let waited = ring.submit_and_wait(left);
            left -= settle(ring, results);
            if left == 0 {
                return true;
            }
            match waited.map_err(|error| error.kind()) {
                Ok(_) | Err(io::ErrorKind::Interrupted) => {}
                Err(_) => break,
            }
        }
        // The system takes no more entries, for example for want of memory. It ends those that it
        // has.
        let untaken = ring.submission().len();
        while left > untaken {
            std::thread::yield_now();
            left -= settle(ring, results);
        }
        false
    }

    /// Notes the results that are there, and returns their number.
    fn settle(ring: &mut IoUring, results: &mut [Option<i32>]) -> usize {
        let mut count = 0;
        for end in ring.completion() {
            let place = usize::try_from(end.user_data()).ok();
            if let Some(result) = place.and_then(|place| results.get_mut(place)) {
                *result = Some(end.result());
            }
            count += 1;
        }
        count
    }
}

#[cfg(not(target_os = "linux"))]
mod rings {
    use std::fs::File;

    use crate::block::device::BlockRead;

    /// Other systems have no rings.
    #[derive(Debug)]
    pub(super) enum Rings {}

    impl Rings {
        pub(super) fn new() -> Option<Self> {
            None
        }

        pub(super) fn read(&self, _: &File, _: &mut [&mut BlockRead<'_>], _: &mut [Option<i32>]) {
            match *self {}
        }
    }
}
