//! Writes a large file past the page cache: whole blocks from reused, aligned memory.
//!
//! Copying into fresh pages of the page cache costs more than the disk write, and restored files
//! are not read again soon. Bytes are gathered into large blocks and written directly (`O_DIRECT`).
//! A partial block at the beginning or end is written through the page cache. For a large file,
//! threads write several blocks at once while the next bytes are gathered. Otherwise the disk would
//! idle between writes, above all for a file with many holes, which needs many short writes. If the
//! system refuses, everything is written through the page cache.
//!
//! Invariant: when [`BlockWriter::finish`] has returned, every given byte is at its offset, and no
//! other byte of the file was changed. The caller sets the length at the end. One thread gives
//! bytes; offsets may jump, which costs one more write. After an error the file's content is
//! useless. The writer runs no sync for durability alone. But if the caller sets metadata after
//! `finish`, a power cut does not leave the file with that metadata and without some of its bytes.
//!
//! Memory: one buffer of [`BLOCKS_BYTES`] being gathered, one that waits, and one for each thread.

mod file;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use env::{ALIGN_BYTES, AlignedBuffer, AlignedPool};
use rustix::io::Errno;

use file::File;
pub(crate) use file::write_all;

/// Bytes gathered into one write.
const BLOCKS_BYTES: usize = 4 << 20;
/// One thread for each so many bytes of a file. Starting a thread for fewer would cost more than it
/// saves.
const THREAD_BYTES_MIN: u64 = 16 << 20;
/// The most threads that write one file: their writes keep a disk busy.
const THREADS_MAX: u64 = 3;
/// Gathering buffers that the process keeps for later files.
const SPARE_MAX: usize = 5;

static BUFFERS: LazyLock<AlignedPool> = LazyLock::new(|| AlignedPool::new(BLOCKS_BYTES, SPARE_MAX));

/// Writes one file.
#[derive(Debug)]
pub struct BlockWriter {
    out: Out,
    gathered: Blocks,
    /// Bytes that the file will have.
    len: u64,
}

#[derive(Debug)]
enum Out {
    Here(File),
    Threads {
        /// `None` once there are no more blocks.
        blocks: Option<SyncSender<Blocks>>,
        writers: Vec<JoinHandle<()>>,
        shared: Arc<Shared>,
    },
}

/// The state that the threads writing a file share.
#[derive(Debug)]
struct Shared {
    file: File,
    /// The error of the first write that failed.
    failed: OnceLock<Errno>,
}

/// Gathered bytes. For a file with holes they are several stretches, so that a short stretch needs
/// no message of its own.
#[derive(Debug)]
struct Blocks {
    buffer: AlignedBuffer,
    stretches: Vec<Stretch>,
}

/// Consecutive bytes of the file.
#[derive(Debug)]
struct Stretch {
    /// Where their first block begins in the buffer and in the file. Both are multiples of the
    /// block.
    at: usize,
    base: u64,
    /// Where they begin in that block.
    begin: usize,
    /// Where they end in the buffer.
    end: usize,
}

impl Blocks {
    fn new() -> Self {
        Self {
            buffer: BUFFERS.take(),
            stretches: Vec::new(),
        }
    }

    fn room(&self) -> usize {
        BLOCKS_BYTES - self.buffer.len()
    }

    /// The file's offset of the next byte. `None`: no stretch is open.
    fn next_offset(&self) -> Option<u64> {
        let last = self.stretches.last()?;
        Some(last.base + (self.buffer.len() - last.at) as u64)
    }

    /// Opens a stretch at the file's `offset`, in the buffer's next block.
    fn open(&mut self, offset: u64) {
        let into = offset % ALIGN_BYTES as u64;
        let begin = usize::try_from(into).unwrap_or(0);
        let at = self.buffer.len().next_multiple_of(ALIGN_BYTES);
        self.buffer.grow_to(at + begin);
        self.stretches.push(Stretch {
            at,
            base: offset - into,
            begin,
            end: at + begin,
        });
    }

    /// Adds bytes to the open stretch. The caller has checked that there is room.
    fn add(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        if let Some(last) = self.stretches.last_mut() {
            last.end = self.buffer.len();
        }
    }

    fn write(&self, file: &File) -> Result<(), Errno> {
        self.stretches
            .iter()
            .try_for_each(|of| file.write(&self.buffer[of.at..of.end], of.base, of.begin))
    }

    fn clear(&mut self) {
        self.buffer.clear();
        self.stretches.clear();
    }
}

impl BlockWriter {
    /// For an open, empty file that will have `len` bytes. A long file may get its length at once.
    ///
    /// # Errors
    /// The system's, if no descriptor is free.
    pub fn new(file: impl AsFd, len: u64) -> Result<Self, Errno> {
        let file = File::new(file)?;
        let threads = (len / THREAD_BYTES_MIN).min(THREADS_MAX);
        let out = match threads {
            0 => Out::Here(file),
            1 => in_threads(file, 1)?,
            _ if file.set_len_early(len) => in_threads(file, threads)?,
            _ => in_threads(file, 1)?,
        };
        Ok(Self {
            out,
            gathered: Blocks::new(),
            len,
        })
    }

    /// Writes bytes at an offset, or gathers them for a later write.
    ///
    /// # Errors
    /// The system's, for these bytes or earlier ones.
    pub fn write(&mut self, mut offset: u64, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            if self.gathered.next_offset() != Some(offset) {
                // A stretch takes at least one block.
                if self.gathered.room() < ALIGN_BYTES {
                    self.flush()?;
                }
                self.gathered.open(offset);
            }
            let (now, later) = bytes.split_at(bytes.len().min(self.gathered.room()));
            self.gathered.add(now);
            offset += now.len() as u64;
            bytes = later;
            if self.gathered.room() == 0 {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the gathered bytes, and waits for all writes.
    ///
    /// # Errors
    /// Those of [`Self::write`].
    pub fn finish(mut self) -> Result<(), Errno> {
        self.flush()?;
        self.out.end()?;
        self.out.file().settle(self.len)
    }

    /// Makes the write after the next `writes` writes fail.
    #[cfg(test)]
    pub(crate) fn fail_after(&self, writes: u64, errno: Errno) {
        self.out.file().fail_after(writes, errno);
    }

    fn flush(&mut self) -> Result<(), Errno> {
        if self.gathered.stretches.is_empty() {
            return Ok(());
        }
        match &mut self.out {
            Out::Here(file) => {
                self.gathered.write(file)?;
                self.gathered.clear();
                Ok(())
            }
            Out::Threads { blocks, shared, .. } => {
                if let Some(errno) = shared.failed.get() {
                    return Err(*errno);
                }
                let gathered = std::mem::replace(&mut self.gathered, Blocks::new());
                match blocks.as_ref().map(|blocks| blocks.send(gathered)) {
                    Some(Ok(())) => Ok(()),
                    // All threads have ended with an error.
                    Some(Err(_)) | None => self.out.end().and(Err(Errno::IO)),
                }
            }
        }
    }
}

impl Drop for BlockWriter {
    fn drop(&mut self) {
        // No caller waits for the result, and a thread that unwinds must not panic twice. But after
        // this value is dropped, no thread writes to the file.
        drop(self.out.join());
    }
}

impl Out {
    fn file(&self) -> &File {
        match self {
            Self::Here(file) => file,
            Self::Threads { shared, .. } => &shared.file,
        }
    }

    /// Waits until all sent blocks are written.
    fn end(&mut self) -> Result<(), Errno> {
        if let Some(panic) = self.join() {
            std::panic::resume_unwind(panic);
        }
        match self {
            Self::Threads { shared, .. } => shared.failed.get().map_or(Ok(()), |errno| Err(*errno)),
            Self::Here(_) => Ok(()),
        }
    }

    /// Waits until all threads have ended. Returns the payload of a panic, if one of them panicked.
    fn join(&mut self) -> Option<Box<dyn Any + Send>> {
        let Self::Threads { blocks, writers, .. } = self else {
            return None;
        };
        *blocks = None;
        let ended = writers.drain(..).map(JoinHandle::join);
        ended.fold(None, |panicked, ended| ended.err().or(panicked))
    }
}

fn in_threads(file: File, threads: u64) -> Result<Out, Errno> {
    let (blocks, incoming) = sync_channel(1);
    // Only the threads own it, so the sender gets an error when no thread is left.
    let incoming = Arc::new(Mutex::new(incoming));
    let shared = Arc::new(Shared {
        file,
        failed: OnceLock::new(),
    });
    let mut writers = Vec::new();
    for number in 0..threads {
        let (shared, incoming) = (Arc::clone(&shared), Arc::clone(&incoming));
        let name = format!("write-{number}");
        match thread::Builder::new()
            .name(name)
            .spawn(move || shared.run(&incoming))
        {
            Ok(writer) => writers.push(writer),
            // The threads that were started do all the work.
            Err(_) if !writers.is_empty() => break,
            Err(error) => return Err(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN)),
        }
    }
    Ok(Out::Threads {
        blocks: Some(blocks),
        writers,
        shared,
    })
}

impl Shared {
    /// Writes blocks until no more arrive.
    fn run(&self, incoming: &Mutex<Receiver<Blocks>>) {
        let next = || incoming.lock().unwrap_or_else(PoisonError::into_inner).recv();
        while let Ok(blocks) = next() {
            // Blocks after a failure are not needed, but their sender must not wait for ever.
            if self.failed.get().is_none()
                && let Err(errno) = blocks.write(&self.file)
            {
                // Another thread may have failed meanwhile. The first error counts.
                self.failed.set(errno).ok();
            }
        }
    }
}
