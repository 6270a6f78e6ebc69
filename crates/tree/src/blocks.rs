//! Writes a large file past the page cache: whole blocks from aligned memory that is used again.
//!
//! Copying into fresh pages of the page cache costs more than the disk does, and what is restored is not read
//! again soon. Bytes are gathered to large blocks and written directly (`O_DIRECT`); where they begin or end
//! inside a block, that block goes the usual way. In a large file a thread writes while the next bytes are
//! gathered. Where the system refuses, everything goes the usual way.
//!
//! What must hold: every byte that was given is at its offset once [`BlockWriter::finish`] has returned, and
//! no other byte of the file was touched. One thread gives bytes; offsets may jump, which costs a short
//! write. After an error the file's content is of no use. Nothing is made durable.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::LazyLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use env::{ALIGN_BYTES, AlignedBuffer, AlignedPool};
use rustix::io::{Errno, pwrite};

use crate::folder::retry;

/// Bytes gathered to one write.
const BLOCKS_BYTES: usize = 4 << 20;
/// Files from this length on are written by a thread of their own; for others it would cost more than it saves.
const THREAD_BYTES_MIN: u64 = 16 << 20;
/// Gathering buffers that are kept for the next file, in the whole process.
const SPARE_MAX: usize = 3;

static BUFFERS: LazyLock<AlignedPool> = LazyLock::new(|| AlignedPool::new(BLOCKS_BYTES, SPARE_MAX));

/// Writes one file.
#[derive(Debug)]
pub struct BlockWriter {
    out: Out,
    /// Gathered bytes: those from `begin` on are the file's from `base + begin` on. `base` is a multiple of
    /// the block.
    buffer: AlignedBuffer,
    base: u64,
    begin: usize,
}

/// The file, by both ways.
#[derive(Debug)]
struct File {
    usual: OwnedFd,
    direct: Option<OwnedFd>,
}

#[derive(Debug)]
enum Out {
    Here(File),
    Thread {
        /// `None` once it ends.
        blocks: Option<SyncSender<Blocks>>,
        writer: Option<JoinHandle<Result<(), Errno>>>,
    },
}

/// Gathered bytes on their way to the disk.
struct Blocks {
    buffer: AlignedBuffer,
    base: u64,
    begin: usize,
}

impl BlockWriter {
    /// For an open file that will have `len` bytes.
    ///
    /// # Errors
    /// The system's, for want of descriptors.
    pub fn new(file: impl AsFd, len: u64) -> Result<Self, Errno> {
        let usual = retry(|| rustix::io::fcntl_dupfd_cloexec(&file, 0))?;
        let file = File {
            direct: open_directly(&usual),
            usual,
        };
        let out = if len >= THREAD_BYTES_MIN {
            in_thread(file)?
        } else {
            Out::Here(file)
        };
        Ok(Self {
            out,
            buffer: BUFFERS.take(),
            base: 0,
            begin: 0,
        })
    }

    /// Writes bytes at an offset, now or later.
    ///
    /// # Errors
    /// The system's, for these bytes or earlier ones.
    pub fn write(&mut self, mut offset: u64, mut bytes: &[u8]) -> Result<(), Errno> {
        if offset != self.base + self.buffer.len() as u64 {
            self.flush()?;
            let into = offset % ALIGN_BYTES as u64;
            self.base = offset - into;
            self.begin = usize::try_from(into).unwrap_or(0);
            self.buffer.grow_to(self.begin);
        }
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCKS_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(now);
            offset += now.len() as u64;
            bytes = later;
            if self.buffer.len() == BLOCKS_BYTES {
                self.flush()?;
                (self.base, self.begin) = (offset, 0);
            }
        }
        Ok(())
    }

    /// Writes what is gathered, and waits for all.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn finish(mut self) -> Result<(), Errno> {
        self.flush()?;
        self.out.end()
    }

    fn flush(&mut self) -> Result<(), Errno> {
        if self.buffer.len() == self.begin {
            self.buffer.clear();
            return Ok(());
        }
        let (base, begin) = (self.base, self.begin);
        match &mut self.out {
            Out::Here(file) => {
                file.write(&self.buffer, base, begin)?;
                self.buffer.clear();
                Ok(())
            }
            Out::Thread { blocks, .. } => {
                let buffer = std::mem::replace(&mut self.buffer, BUFFERS.take());
                let blocks = blocks.as_ref().ok_or(Errno::IO)?;
                match blocks.send(Blocks { buffer, base, begin }) {
                    Ok(()) => Ok(()),
                    // It has ended with an error.
                    Err(_) => self.out.end().and(Err(Errno::IO)),
                }
            }
        }
    }
}

impl Drop for BlockWriter {
    fn drop(&mut self) {
        // Nobody asks any more; but nothing is written to the file when this has gone.
        self.out.end().ok();
    }
}

impl Out {
    fn end(&mut self) -> Result<(), Errno> {
        let Self::Thread { blocks, writer } = self else {
            return Ok(());
        };
        *blocks = None;
        match writer.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(written)) => written,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

fn in_thread(file: File) -> Result<Out, Errno> {
    let (blocks, incoming): (_, Receiver<Blocks>) = sync_channel(1);
    let run = move || {
        let mut file = file;
        incoming
            .iter()
            .try_for_each(|Blocks { buffer, base, begin }| file.write(&buffer, base, begin))
    };
    let spawned = thread::Builder::new().name("write".to_owned()).spawn(run);
    let writer = spawned.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
    Ok(Out::Thread {
        blocks: Some(blocks),
        writer: Some(writer),
    })
}

impl File {
    /// Writes `buffer[begin..]`; the buffer's beginning is that of the block at `base`.
    fn write(&mut self, buffer: &[u8], base: u64, begin: usize) -> Result<(), Errno> {
        let first = begin.next_multiple_of(ALIGN_BYTES).min(buffer.len());
        let last = (buffer.len() & !(ALIGN_BYTES - 1)).max(first);
        write_all(&self.usual, &buffer[begin..first], base + begin as u64)?;
        let mut at = first;
        if let Some(direct) = &self.direct {
            match write_directly(direct, &buffer[first..last], base + first as u64) {
                Ok(()) => at = last,
                Err(Errno::INVAL | Errno::OPNOTSUPP) => self.direct = None,
                Err(errno) => return Err(errno),
            }
        }
        write_all(&self.usual, &buffer[at..], base + at as u64)
    }
}

/// Whole blocks.
fn write_directly(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = retry(|| pwrite(file, bytes, offset))?;
        if written == 0 || !written.is_multiple_of(ALIGN_BYTES) {
            // What is left does not begin with a block.
            return Err(Errno::INVAL);
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Writes all bytes at an offset.
pub(crate) fn write_all(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match retry(|| pwrite(file, bytes, offset))? {
            0 => return Err(Errno::IO),
            n => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// The same file, opened once more to be written directly; `None` where the system will not.
#[cfg(target_os = "linux")]
fn open_directly(file: &OwnedFd) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    use std::os::fd::AsRawFd;
    // The descriptor's own entry: no name that others could change is looked up.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    retry(|| open(&*path, flags, Mode::empty())).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_directly(_: &OwnedFd) -> Option<OwnedFd> {
    None
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    /// Pieces in order with gaps between them, as a file with zeros has.
    fn pieces() -> impl Strategy<Value = Vec<(u32, u32)>> {
        let gap = prop_oneof![3 => Just(0), 1 => 1..10_000_u32, 1 => (1..40_u32).prop_map(|n| n * 4096)];
        let len = prop_oneof![2 => 1..5_000_u32, 2 => 1..300_000_u32, 1 => Just(4096), 1 => Just(5 << 20)];
        prop::collection::vec((gap, len), 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(10)))]

        #[test]
        fn every_byte_is_at_its_offset(pieces in pieces(), thread in any::<bool>(), refused in any::<bool>()) {
            let named = tempfile::NamedTempFile::new_in(".").unwrap();
            let len = if thread { THREAD_BYTES_MIN } else { 0 };
            let mut writer = BlockWriter::new(named.as_file(), len).unwrap();
            if refused && let Out::Here(file) = &mut writer.out {
                file.direct = None;
            }
            let mut model: Vec<u8> = Vec::new();
            for (number, (gap, len)) in (1_u8..).zip(&pieces) {
                model.resize(model.len() + *gap as usize, 0);
                let bytes: Vec<u8> = (0..*len).map(|n| number.wrapping_mul(31) ^ n.to_le_bytes()[0] | 1).collect();
                writer.write(model.len() as u64, &bytes).unwrap();
                model.extend_from_slice(&bytes);
            }
            writer.finish().unwrap();
            let mut found = Vec::new();
            named.reopen().unwrap().read_to_end(&mut found).unwrap();
            prop_assert!(found == model, "{} of {} bytes", found.len(), model.len());
        }
    }

    #[test]
    fn an_error_is_told_at_the_latest_when_it_finishes() {
        let named = tempfile::NamedTempFile::new_in(".").unwrap();
        let read_only = std::fs::File::open(named.path()).unwrap();
        for len in [0, THREAD_BYTES_MIN] {
            let mut writer = BlockWriter::new(&read_only, len).unwrap();
            if let Out::Here(file) = &mut writer.out {
                file.direct = None;
            }
            let mut told = writer.write(1, &[1; 100]);
            told = told.and_then(|()| writer.write(9 << 20, &[1; 100]));
            let finished = writer.finish();
            prop_assert_err(told.and(finished));
        }
    }

    fn prop_assert_err(told: Result<(), Errno>) {
        assert!(told.is_err());
    }
}
