//! All devices of this crate pass; broken ones do not. `block::file::tests` runs the suite on
//! disks.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::block::fault::FaultMachine;
use crate::{BlockRead, DeviceError, FileCaching, FileDevice, MemoryDevice};

const FILE: Abilities = Abilities {
    is_zeros: true,
    grows: true,
};

#[test]
fn memory_passes() {
    check(&MemoryDevice::new(LEN_MIN), FILE);
    check(&MemoryDevice::new(LEN_MIN + 3 * BLOCK_BYTES), FILE);
}

#[test]
fn fault_passes_while_nothing_fails() {
    let machine = FaultMachine::new();
    check(&machine.create("disk", LEN_MIN), FILE);
    check_reopened(|| Box::new(machine.process().open("disk").unwrap()));
}

/// A folder beside the tests' program, because the usual one may be on a file system in memory.
fn folder() -> tempfile::TempDir {
    let program = std::env::current_exe().unwrap();
    tempfile::tempdir_in(program.parent().unwrap()).unwrap()
}

fn check_file(path: &Path, caching: FileCaching) {
    match FileDevice::create(path, LEN_MIN, caching) {
        Err(DeviceError::NoDirect { device }) => println!("skipped: {device}: no direct requests"),
        device => check(&device.unwrap(), FILE),
    }
    check_reopened(|| Box::new(FileDevice::open(path, caching).unwrap()));
}

#[test]
fn a_file_passes_with_the_page_cache() {
    let folder = folder();
    check_file(&folder.path().join("pool"), FileCaching::PageCache);
}

#[test]
fn a_file_passes_with_direct_requests() {
    let folder = folder();
    check_file(&folder.path().join("pool"), FileCaching::Direct);
}

proptest! {
    #[test]
    fn any_operations_on_fault_agree_with_bytes(seed in any::<u64>()) {
        let machine = FaultMachine::new();
        let disk = machine.create("disk", 48 * BLOCK_BYTES);
        check_operations(&disk, &random_operations(seed, 40));
    }

    #[test]
    fn any_operations_on_memory_agree_with_bytes(seed in any::<u64>()) {
        check_operations(&MemoryDevice::new(48 * BLOCK_BYTES), &random_operations(seed, 40));
    }
}

/// A device with one flaw.
#[derive(Debug)]
struct Broken(MemoryDevice, Flaw);

#[derive(Debug, Clone, Copy, PartialEq)]
enum Flaw {
    HasOldBytes,
    WritesOneBlockLess,
    TakesPartsOfBlocks,
    TakesRangesPastItsEnd,
    RefusesEmptyReads,
    DiscardsANeighbour,
    GrowsAtADiscard,
    GrowsByOldBytes,
    NeverGrows,
    SwapsReads,
    DropsErrorsOfReads,
    SwapsBuffers,
    ReadsOneBufferLess,
    TakesFewBuffers,
    LosesAWriteAtAFlush,
}

impl BlockDevice for Broken {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        match self.1 {
            Flaw::TakesPartsOfBlocks if out.len() == 512 => Ok(()),
            Flaw::TakesRangesPastItsEnd if offset == self.len() => Ok(()),
            Flaw::RefusesEmptyReads if out.is_empty() && offset > 0 => self.0.read_at(offset + 1, out),
            _ => self.0.read_at(offset, out),
        }
    }
    fn read_many(&self, reads: &mut [BlockRead<'_>]) {
        let last = reads.len().saturating_sub(1);
        for (number, read) in reads.iter_mut().enumerate() {
            let is_swapped = self.1 == Flaw::SwapsReads && number == last && last > 0;
            read.done = self.read_at(if is_swapped { 0 } else { read.offset }, read.out);
            if self.1 == Flaw::DropsErrorsOfReads {
                read.done = Ok(());
            }
        }
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        match self.1 {
            Flaw::WritesOneBlockLess if bytes.len() > BLOCK => {
                self.0.write_at(offset, &bytes[..bytes.len() - BLOCK])
            }
            Flaw::TakesPartsOfBlocks if bytes.len() % BLOCK == 512 && bytes.len() > BLOCK => Ok(()),
            _ => self.0.write_at(offset, bytes),
        }
    }
    fn read_vectored_at(&self, offset: u64, out: &mut [std::io::IoSliceMut<'_>]) -> Result<(), DeviceError> {
        let mut at = offset;
        let skipped = usize::from(self.1 == Flaw::ReadsOneBufferLess && out.len() > 1);
        let count = out.len() - skipped;
        for part in &mut out[..count] {
            self.read_at(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }
    fn write_vectored_at(&self, offset: u64, parts: &[std::io::IoSlice<'_>]) -> Result<(), DeviceError> {
        let mut parts: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
        match self.1 {
            Flaw::SwapsBuffers => parts.reverse(),
            Flaw::TakesFewBuffers => parts.truncate(1024),
            _ => {}
        }
        let mut at = offset;
        for part in parts {
            self.write_at(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }
    fn flush(&self) -> Result<(), DeviceError> {
        if self.1 == Flaw::LosesAWriteAtAFlush {
            self.0.write_at(0, &[0; BLOCK])?;
        }
        self.0.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.0.discard(offset, len)?;
        match self.1 {
            Flaw::DiscardsANeighbour if offset + len < self.len() => {
                self.0.write_at(offset + len, &[0; BLOCK])
            }
            Flaw::GrowsAtADiscard => self.0.grow(self.len() + BLOCK_BYTES),
            _ => Ok(()),
        }
    }
    fn grow(&self, len: u64) -> Result<(), DeviceError> {
        match self.1 {
            Flaw::GrowsByOldBytes if len > self.len() => {
                self.0.grow(len)?;
                self.0
                    .write_at(len / BLOCK_BYTES * BLOCK_BYTES - 2 * BLOCK_BYTES, &[1; BLOCK])
            }
            Flaw::NeverGrows => Ok(()),
            _ => self.0.grow(len),
        }
    }
}

#[test]
fn the_suite_finds_each_flaw() {
    for flaw in [
        Flaw::HasOldBytes,
        Flaw::WritesOneBlockLess,
        Flaw::TakesPartsOfBlocks,
        Flaw::TakesRangesPastItsEnd,
        Flaw::RefusesEmptyReads,
        Flaw::DiscardsANeighbour,
        Flaw::GrowsAtADiscard,
        Flaw::GrowsByOldBytes,
        Flaw::NeverGrows,
        Flaw::SwapsBuffers,
        Flaw::ReadsOneBufferLess,
        Flaw::TakesFewBuffers,
        Flaw::LosesAWriteAtAFlush,
    ] {
        let broken = Broken(MemoryDevice::new(LEN_MIN), flaw);
        if flaw == Flaw::HasOldBytes {
            write(&broken, BLOCK_BYTES, &[1; BLOCK]);
        }
        // On another thread, so that the panic's message does not fill the test's output.
        let outcome = std::thread::scope(|scope| scope.spawn(|| check(&broken, FILE)).join());
        assert!(outcome.is_err(), "{flaw:?} was not found");
    }
}
